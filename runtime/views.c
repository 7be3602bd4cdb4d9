/* views: see views.h. */
#include "runtime/views.h"

#include "runtime/cut.h"
#include "runtime/nest.h"

View view_of(const Operand *operand) {
    View view = {.data = operand->data, .dtype = operand->dtype, .shape = operand->local};
    strides_of(&operand->local, view.stride);
    return view;
}

bool view_reshape(View *view, const Shape *shape) {
    Nest nest;
    int64_t linear[MAX_NDIM];
    strides_of(&view->shape, linear);
    nest_init(&nest, 2);
    for (int d = 0; d < view->shape.ndim; d++)
        nest_push(&nest, view->shape.dim[d], (const int64_t[]){linear[d], view->stride[d]});
    nest_merge(&nest);
    /* Innermost first: every new dimension must be a part of one run. */
    int run = nest.ndim - 1;
    int64_t left = nest.size[run], stride = nest.stride[1][run];
    for (int d = shape->ndim - 1; d >= 0; d--) {
        view->stride[d] = 0;
        if (shape->dim[d] == 1) continue;
        if (left == 1 && run > 0) left = nest.size[--run], stride = nest.stride[1][run];
        if (shape->dim[d] == 0 || left % shape->dim[d] != 0) return false;
        view->stride[d] = stride;
        stride *= shape->dim[d];
        left /= shape->dim[d];
    }
    view->shape = *shape;
    return true;
}

void view_expand(View *view, const KernelCall *call) {
    const View from = *view;
    const Operand *out = &call->out[0];
    view->shape = out->local;
    for (int d = 0; d < out->local.ndim; d++) {
        view->stride[d] = 0;
        for (int k = 0; k < from.shape.ndim; k++)
            if (call->rule->out[0][d] >= 0 && call->rule->in[0][k] == call->rule->out[0][d]) view->stride[d] = from.stride[k];
    }
}

/* The elements of a box that begins at these indices. */
static void view_cut(View *view, const int64_t *begin, const Shape *shape) {
    for (int d = 0; d < shape->ndim; d++)
        view->data += begin[d] * view->stride[d] * dtype_bytes[view->dtype];
    view->shape = *shape;
}

bool op_keeps_order(OpCode op) {
    return op == OP_reshape || op == OP_stop_gradient || op == OP_write;
}

bool op_places(OpCode op) {
    return op_keeps_order(op) || op == OP_transpose || op == OP_sum_grad || op == OP_slice || op == OP_split || op == OP_convert;
}

bool view_result(const KernelCall *call, int o, View *view) {
    const Operand *in = &call->in[0], *out = &call->out[o];
    int64_t begin[MAX_NDIM] = {0};
    if (call->op == OP_transpose || call->op == OP_sum_grad) return view_expand(view, call), true;
    if (op_keeps_order(call->op)) return view_reshape(view, &out->local);
    if (call->op == OP_slice) {
        slice_begin(&call->attr[0], in, begin);
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
    const Operand *in = &call->in[0], *out = &call->out[0];
    if (op_keeps_order(call->op)) return view_reshape(view, &in->local);
    if (call->op != OP_transpose) return false;
    const View result = *view;
    view->shape = in->local;
    for (int k = 0; k < in->local.ndim; k++)
        for (int d = 0; d < out->local.ndim; d++)
            if (call->rule->in[0][k] == call->rule->out[0][d]) view->stride[k] = result.stride[d];
    return true;
}
