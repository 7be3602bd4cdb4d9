/* reduce: sums, means, maxima, places: arguments for reduce.cuh. A partial sum covers only this rank's box; means divide by the global count, so that
 * partial means add up to the mean. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/element.h"

#include <math.h>

#include "runtime/cuda/move.h"
#include "runtime/parts.h"

_Static_assert((int)KERNEL_NDIM >= (int)MAX_NDIM, "kernels.h");

static bool launch(const KernelCall *call, const KernelReduce *reduce, Error *error) {
    CudaContext *cuda = call->context;
    return cuda_launched(cuda, kernels_reduce(reduce, cuda->scratch, SCRATCH_BYTES, cuda->compute), op_table[call->op].name, error);
}

/* The neutral value of a reduction, for an empty box: of a rank that an uneven split left nothing. */
static bool reduce_nothing(const KernelCall *call, KernelReduction reduction, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    uint64_t bits = 0;
    if (reduction == KERNEL_FIRST)
        element_put(&bits, I32, 0, INT32_MAX);
    else if (reduction == KERNEL_MAX && dtype_is_float(out->dtype))
        element_put(&bits, out->dtype, 0, -INFINITY);
    else if (reduction == KERNEL_MAX)
        element_put(&bits, out->dtype, 0, out->dtype == I64 ? -9223372036854775808.0 : INT32_MIN);
    else if (reduction == KERNEL_MIN && dtype_is_float(out->dtype))
        element_put(&bits, out->dtype, 0, INFINITY);
    else if (reduction == KERNEL_MIN)
        bits = out->dtype == I64 ? (uint64_t)INT64_MAX : (uint64_t)INT32_MAX; /* no double is INT64_MAX */
    return cuda_launched(cuda, kernels_fill(out->data, shape_elements(&out->local), dtype_bytes[out->dtype], bits, cuda->compute),
                         op_table[call->op].name, error);
}

/* Reduces in[0] over the loops that the result does not have. nest: tensor 0 the result, tensor 1 the operand, not merged. */
static bool reduce_nest(const KernelCall *call, Nest *nest, KernelReduction reduction, double divisor, Error *error) {
    const Operand *in = &call->in[0], *out = &call->out[0];
    if (shape_elements(&out->local) == 0) return true;
    if (shape_elements(&in->local) == 0) return reduce_nothing(call, reduction, error);
    Nest kept, gone;
    KernelReduce reduce = {.out = out->data, .in = in->data, .dtype = (int)in->dtype, .reduction = reduction, .divisor = divisor};
    reduce.columns = nest_divide(nest, &kept, &gone);
    loops_of(&reduce.kept, &kept, 0, 1);
    loops_of(&reduce.gone, &gone, 0, 0);
    return launch(call, &reduce, error);
}

bool kernel_sum(const KernelCall *call, Error *error) {
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    return reduce_nest(call, &nest, KERNEL_SUM, 1, error);
}

bool kernel_mean(const KernelCall *call, Error *error) {
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    return reduce_nest(call, &nest, KERNEL_SUM, reduced, error);
}

bool kernel_sum_to(const KernelCall *call, Error *error) {
    return kernel_sum(call, error);
}

bool kernel_max(const KernelCall *call, Error *error) {
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    return reduce_nest(call, &nest, KERNEL_MAX, 1, error);
}

bool kernel_min(const KernelCall *call, Error *error) {
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    return reduce_nest(call, &nest, KERNEL_MIN, 1, error);
}

bool kernel_replica_sum(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *in = &call->in[0], *out = &call->out[0];
    const bool mean = call->attr[0].i;
    const double replicas = mean ? (double)in->global.dim[0] : 1;
    Nest nest;
    if (in->local.dim[0] == 1 && out->data == in->data && !mean) return true; /* nothing to do */
    if (in->local.dim[0] == 1 && dtype_is_float(out->dtype)) {                /* also over the operand */
        KernelLoops loops;
        if (!nest_reshape(&nest, call, error)) return false;
        loops_of(&loops, &nest, 0, 1);
        return cuda_launched(cuda, kernels_copy_divided(out->data, in->data, (int)out->dtype, &loops, replicas, cuda->compute),
                             "replica_sum", error);
    }
    nest_replica_sum(&nest, call);
    return reduce_nest(call, &nest, KERNEL_SUM, replicas, error);
}

/* An empty box has no true: it gives the largest number, neutral for the minimum over ranks. */
bool kernel_first(const KernelCall *call, Error *error) {
    const Operand *x = &call->in[0], *out = &call->out[0];
    if (shape_elements(&out->local) == 0) return true;
    if (shape_elements(&x->local) == 0) return reduce_nothing(call, KERNEL_FIRST, error);
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    KernelReduce reduce = {.out = out->data,
                           .in = x->data,
                           .dtype = (int)x->dtype,
                           .reduction = KERNEL_FIRST,
                           .divisor = 1,
                           .origin = x->box.begin[lines.axis],
                           .columns = lines.inner > 1};
    reduce.kept =
        (KernelLoops){.ndim = 2, .size = {lines.outer, lines.inner}, .stride = {{lines.inner, 1}, {lines.length * lines.inner, 1}}};
    reduce.gone = (KernelLoops){.ndim = 1, .size = {lines.length}, .stride = {{0}, {lines.inner}}};
    return launch(call, &reduce, error);
}

/* Composites: compiled plans hold what they expand to. */
static bool is_composite(const KernelCall *call, Error *error) {
    return error_set(error, EXIT_INTERNAL, "%s is computed by the operators that it expands to", op_table[call->op].name);
}
bool kernel_mse(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_bce_with_logits(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_argmax(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_cross_entropy(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_pad(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_upsample(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_scatter_add(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
bool kernel_stack(const KernelCall *call, Error *error) {
    return is_composite(call, error);
}
