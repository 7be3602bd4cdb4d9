/* move: operators that only move elements (and mean_grad, which divides them on the way). Each becomes loops over a result and an operand, or
 * rows of several tensors; move.cuh runs them. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/element.h"

#include <string.h>

#include "runtime/cuda/move.h"
#include "runtime/parts.h"

void loops_of(KernelLoops *loops, const Nest *nest, int first, int second) {
    *loops = (KernelLoops){.ndim = nest->ndim};
    for (int d = 0; d < nest->ndim; d++) {
        loops->size[d] = nest->size[d];
        loops->stride[0][d] = nest->stride[first][d];
        loops->stride[1][d] = nest->stride[second][d];
    }
}

static bool move(const KernelCall *call, const Nest *nest, void *out, const void *in, Error *error) {
    CudaContext *cuda = call->context;
    KernelLoops loops;
    loops_of(&loops, nest, 0, 1);
    return cuda_launched(cuda, kernels_copy(out, in, dtype_bytes[call->out[0].dtype], &loops, cuda->compute), op_table[call->op].name,
                         error);
}

bool kernel_transpose(const KernelCall *call, Error *error) {
    Nest nest;
    nest_expand(&nest, call);
    return move(call, &nest, call->out[0].data, call->in[0].data, error);
}

bool kernel_sum_grad(const KernelCall *call, Error *error) {
    return kernel_transpose(call, error);
}

/* The gradient of each element of a mean: dy over the global number of elements that were averaged. */
bool kernel_mean_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *dy = &call->in[0], *out = &call->out[0];
    if (shape_elements(&out->local) == 0) return true;
    Nest nest;
    KernelLoops loops;
    nest_expand(&nest, call);
    loops_of(&loops, &nest, 0, 1);
    double each = (double)shape_elements(&out->global) / (double)shape_elements(&dy->global);
    return cuda_launched(cuda, kernels_copy_divided(out->data, dy->data, (int)out->dtype, &loops, each, cuda->compute), "mean_grad", error);
}

bool kernel_reshape(const KernelCall *call, Error *error) {
    Nest nest;
    if (!nest_reshape(&nest, call, error)) return false;
    return call->out[0].data == call->in[0].data || move(call, &nest, call->out[0].data, call->in[0].data, error);
}

bool kernel_write(const KernelCall *call, Error *error) {
    return kernel_reshape(call, error);
}

bool kernel_stop_gradient(const KernelCall *call, Error *error) {
    return kernel_reshape(call, error);
}

bool kernel_expose(const KernelCall *call, Error *error) {
    return kernel_reshape(call, error);
}

bool kernel_replicate(const KernelCall *call, Error *error) {
    Nest nest;
    nest_replicate(&nest, call);
    return move(call, &nest, call->out[0].data, call->in[0].data, error);
}

/* ---------------------------------------------------------------- boxes */

/* Copies a box of this shape; it begins where the operands' data do. */
static bool copy_box(const KernelCall *call, const Shape *box, const Operand *out, const Operand *in, Error *error) {
    Nest nest;
    if (shape_elements(box) == 0) return true;
    nest_box(&nest, box, out, in);
    return move(call, &nest, out->data, in->data, error);
}

/* The slice of in[0]'s box that is out[0]'s box: the conversion that needs no communication. */
bool kernel_convert(const KernelCall *call, Error *error) {
    Operand from;
    return convert_operand(call, &from, error) && copy_box(call, &call->out[0].local, &call->out[0], &from, error);
}

bool kernel_slice(const KernelCall *call, Error *error) {
    Operand x = call->in[0], y = call->out[0];
    Shape shape;
    return !slice_common(&call->attr[0], &x, &y, &shape) || copy_box(call, &shape, &y, &x, error);
}

bool kernel_slice_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    Operand dy = call->in[0], dx = call->out[0];
    Shape shape;
    if (operand_bytes(&dx) == 0) return true;
    const cudaError_t status = cudaMemsetAsync(dx.data, 0, (size_t)operand_bytes(&dx), cuda->compute);
    return cuda_launched(cuda, status, "slice_grad", error) &&
           (!slice_common(&call->attr[0], &dx, &dy, &shape) || copy_box(call, &shape, &dx, &dy, error));
}

/* ---------------------------------------------------------------- concat and split */

/* Copies between a whole tensor and its parts along the axis, row by row, the intersections of their boxes. out: the whole is the result. */
static bool join(const KernelCall *call, const Operand *whole, const Operand *parts, int n, const Attr *axis, bool out, Error *error) {
    CudaContext *cuda = call->context;
    KernelJoint joints[MAX_JOINTS];
    _Static_assert((int)MAX_JOINTS >= (int)MAX_IN && (int)MAX_JOINTS >= (int)MAX_OUT, "kernels.h");
    if (shape_elements(&whole->local) == 0) return true;
    const Lines lines = lines_of(&whole->local, attr_axis(axis, 0, whole->local.ndim));
    const int64_t each = lines.inner * dtype_bytes[whole->dtype], step = lines.length * each;
    for (int i = 0; i < n; i++) {
        Operand there = *whole, part;
        Shape shape;
        joints[i] = (KernelJoint){0};
        if (!joint_common(parts, i, lines.axis, &there, &part, &shape)) continue;
        const int64_t run = shape.dim[lines.axis] * each, own = part.local.dim[lines.axis] * each;
        joints[i] = out ? (KernelJoint){.out = there.data, .in = part.data, .run = run, .out_stride = step, .in_stride = own}
                        : (KernelJoint){.out = part.data, .in = there.data, .run = run, .out_stride = own, .in_stride = step};
    }
    return cuda_launched(cuda, kernels_join(joints, n, lines.outer, cuda->compute), op_table[call->op].name, error);
}

bool kernel_concat(const KernelCall *call, Error *error) {
    return join(call, &call->out[0], call->in, call->nin, &call->attr[0], true, error);
}

bool kernel_split(const KernelCall *call, Error *error) {
    return join(call, &call->in[0], call->out, call->nout, &call->attr[1], false, error);
}

/* ---------------------------------------------------------------- leaves */

/* Fills the result with the node's value; arrays of literals are placed by the executor. */
bool kernel_constant(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    uint64_t bits = 0;
    element_put(&bits, out->dtype, 0, call->attr[0].f);
    return cuda_launched(cuda, kernels_fill(out->data, shape_elements(&out->local), dtype_bytes[out->dtype], bits, cuda->compute),
                         "constant", error);
}

/* The executor places inputs and states: a step that computes one is an error in the plan. */
bool kernel_input(const KernelCall *call, Error *error) {
    return error_set(error, EXIT_REJECTED, "%s is not computed: it is where the executor put it", op_table[call->op].name);
}

bool kernel_read(const KernelCall *call, Error *error) {
    return kernel_input(call, error);
}
