/* views: see views.h. */
#include "runtime/views.h"

#include "runtime/parts.h"

View view_of(const Operand *operand) {
    return (View){.data = operand->data, .dtype = operand->dtype, .at = strided_of(&operand->local)};
}

/* Reduces the view to a box that begins at these indices. */
static void view_cut(View *view, const int64_t *begin, const Shape *shape) {
    for (int d = 0; d < shape->ndim; d++)
        view->data += begin[d] * view->at.stride[d] * dtype_bytes[view->dtype];
    view->at.shape = *shape;
}

void view_expand(View *view, const KernelCall *call) {
    strided_letters(&view->at, call->rule->in[0], &call->out[0].local, call->rule->out[0]);
}

bool op_keeps_order(OpCode op) {
    return op == OP_reshape || op == OP_stop_gradient || op == OP_write;
}

bool op_places(OpCode op) {
    return op_table[op].places || op_keeps_order(op) || op == OP_sum_grad || op == OP_convert;
}

bool view_result(const KernelCall *call, int o, View *view) {
    const Operand *in = &call->in[0], *out = &call->out[o];
    int64_t begin[MAX_NDIM] = {0};
    if (call->op == OP_transpose || call->op == OP_sum_grad) return view_expand(view, call), true;
    if (op_keeps_order(call->op)) return strided_reshape(&view->at, &out->local);
    if (call->op == OP_slice) {
        slice_begin(&call->attr[0], in, out, begin);
    } else if (call->op == OP_split) {
        int axis = attr_axis(&call->attr[1], 0, in->local.ndim);
        begin[axis] = o * out->local.dim[axis];
    } else {
        Error error;
        if (!convert_begin(call, begin, &error)) return false;
    }
    return view_cut(view, begin, &out->local), true;
}

bool view_operand(const KernelCall *call, View *view) {
    const Operand *in = &call->in[0];
    if (op_keeps_order(call->op)) return strided_reshape(&view->at, &in->local);
    if (call->op != OP_transpose) return false;
    strided_letters(&view->at, call->rule->out[0], &in->local, call->rule->in[0]);
    return true;
}
