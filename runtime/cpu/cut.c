/* cut: operators that split tensors along axes, pad them and join them. Each kernel copies the intersection of two boxes, that of a tensor and that of a part of it,
 * between row-major tensors. */
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
    const int axis = attr_axis(&call->attr[0], 0, call->out[0].local.ndim);
    for (int i = 0; i < call->nin; i++) {
        Operand y = call->out[0], part;
        Shape shape;
        if (joint_common(call->in, i, axis, &y, &part, &shape)) copy_box(call, &shape, &y, &part);
    }
    return true;
}

bool kernel_split(const KernelCall *call, Error *error) {
    (void)error;
    const int axis = attr_axis(&call->attr[1], 0, call->in[0].local.ndim);
    for (int o = 0; o < call->nout; o++) {
        Operand x = call->in[0], part;
        Shape shape;
        if (joint_common(call->out, o, axis, &x, &part, &shape)) copy_box(call, &shape, &part, &x);
    }
    return true;
}
