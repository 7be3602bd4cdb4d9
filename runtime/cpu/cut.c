/* cut: operators that take tensors apart along axes and join them. A dimension that is cut is whole on every rank (the rule), the others are
 * divided alike in operands and results: each kernel copies boxes between row-major tensors. */
#include <string.h>

#include "runtime/cpu/cpu.h"

/* Copies a box of this shape from an element of `in` to an element of `out`; the tensors that they are part of have these local shapes. */
static void copy_box(const KernelCall *call, const Shape *box, const Operand *out, int64_t out_first, const Operand *in, int64_t in_first) {
    int64_t in_strides[MAX_NDIM], out_strides[MAX_NDIM];
    int bytes = dtype_bytes[out->dtype];
    strides_of(&in->local, in_strides);
    strides_of(&out->local, out_strides);
    Nest nest;
    nest_init(&nest, 2);
    for (int d = 0; d < box->ndim; d++)
        nest_push(&nest, box->dim[d], (const int64_t[]){out_strides[d], in_strides[d]});
    nest_merge(&nest);
    nest_copy(call_pool(call), &nest, (char *)out->data + out_first * bytes, (const char *)in->data + in_first * bytes, bytes);
}

/* Where a slice begins in a tensor of this local shape. Dimensions taken whole begin at 0, whatever part of them is here. */
static int64_t slice_first(const Attr *begin, const Operand *whole) {
    int64_t strides[MAX_NDIM], first = 0;
    strides_of(&whole->local, strides);
    for (int d = 0; d < whole->local.ndim; d++)
        first += (begin->ints[d] < 0 ? begin->ints[d] + whole->global.dim[d] : begin->ints[d]) * strides[d];
    return first;
}

bool kernel_slice(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *y = &call->out[0];
    if (shape_elements(&y->local) > 0) copy_box(call, &y->local, y, 0, x, slice_first(&call->attr[0], x));
    return true;
}

bool kernel_slice_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *dy = &call->in[0], *dx = &call->out[0];
    memset(dx->data, 0, (size_t)(shape_elements(&dx->local) * dtype_bytes[dx->dtype]));
    if (shape_elements(&dy->local) > 0) copy_box(call, &dy->local, dx, slice_first(&call->attr[0], dx), dy, 0);
    return true;
}

static int axis_of(const Attr *axis, int ndim) {
    return (int)(axis->i < 0 ? axis->i + ndim : axis->i);
}

/* Elements from one index of the axis to the next. */
static int64_t axis_stride(const Shape *shape, int axis) {
    int64_t strides[MAX_NDIM];
    strides_of(shape, strides);
    return strides[axis];
}

bool kernel_concat(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->out[0];
    int axis = axis_of(&call->attr[0], y->local.ndim);
    int64_t first = 0, stride = axis_stride(&y->local, axis);
    for (int i = 0; i < call->nin; i++) {
        copy_box(call, &call->in[i].local, y, first, &call->in[i], 0);
        first += call->in[i].local.dim[axis] * stride;
    }
    return true;
}

bool kernel_split(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    int axis = axis_of(&call->attr[1], x->local.ndim);
    int64_t first = 0, stride = axis_stride(&x->local, axis);
    for (int o = 0; o < call->nout; o++) {
        copy_box(call, &call->out[o].local, &call->out[o], 0, x, first);
        first += call->out[o].local.dim[axis] * stride;
    }
    return true;
}
