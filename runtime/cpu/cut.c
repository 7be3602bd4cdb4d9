/* cut: operators that take tensors apart along axes, pad them and join them. The axis along which tensors are joined is whole on every rank (the rule), the other dimensions
 * are divided alike; of a slice and its tensor what their boxes have in common is copied: each kernel copies boxes between row-major tensors. */
#include "runtime/parts.h"

#include <string.h>

#include "runtime/cpu/cpu.h"

/* Copies a box of this shape; it begins where the operands' data do. */
static void copy_box(const KernelCall *call, const Shape *box, const Operand *out, const Operand *in) {
    Nest nest;
    nest_box(&nest, box, out, in);
    nest_copy(call_pool(call), &nest, out->data, in->data, dtype_bytes[out->dtype]);
}

/* The slice of in[0]'s box that is out[0]'s box: the conversion that needs no communication. */
bool kernel_convert(const KernelCall *call, Error *error) {
    Operand from;
    if (!convert_operand(call, &from, error)) return false;
    copy_box(call, &call->out[0].local, &call->out[0], &from);
    return true;
}

bool kernel_slice(const KernelCall *call, Error *error) {
    (void)error;
    Operand x = call->in[0], y = call->out[0];
    Shape shape;
    if (slice_common(&call->attr[0], &x, &y, &shape)) copy_box(call, &shape, &y, &x);
    return true;
}

bool kernel_slice_grad(const KernelCall *call, Error *error) {
    (void)error;
    Operand dy = call->in[0], dx = call->out[0];
    Shape shape;
    memset(dx.data, 0, (size_t)operand_bytes(&dx));
    if (slice_common(&call->attr[0], &dx, &dy, &shape)) copy_box(call, &shape, &dx, &dy);
    return true;
}

bool kernel_concat(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->out[0];
    int axis = attr_axis(&call->attr[0], 0, y->local.ndim);
    int64_t begin[MAX_NDIM] = {0};
    for (int i = 0; i < call->nin; i++) {
        const Operand to = operand_from(y, begin);
        copy_box(call, &call->in[i].local, &to, &call->in[i]);
        begin[axis] += call->in[i].local.dim[axis];
    }
    return true;
}

bool kernel_split(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    int axis = attr_axis(&call->attr[1], 0, x->local.ndim);
    int64_t begin[MAX_NDIM] = {0};
    for (int o = 0; o < call->nout; o++) {
        const Operand from = operand_from(x, begin);
        copy_box(call, &call->out[o].local, &call->out[o], &from);
        begin[axis] += call->out[o].local.dim[axis];
    }
    return true;
}
