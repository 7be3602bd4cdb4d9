/* cpu: the CPU backend. A kernel per row of ir/ops.def; private to this folder.
 *
 *   backend.c      the backend, the table of kernels; leaves, writes, copies
 *   nest.c         loops over several tensors at once, neighbouring dimensions merged
 *   elementwise.c  unary and binary operators, gradients of unary ones
 *   update.c       sgd, momentum, adam, adamw; sum_squares, clip
 *   reduce.c       sum, mean, sum_to, replica_sum, mse
 *   move.c         transpose, reshape, expansions, replicate, convert
 *   max.c          max
 *   cut.c          slice and its gradient, concat, split
 *   rows.c         softmax and its gradient
 *   index.c        elements looked up by integers
 *   select.c       comparisons, where, cast: element types that differ
 *   einsum.c       matmul and einsum through CBLAS
 *   reference.c, contract.c, plain.c, plainindex.c   the plain loop of each, obviously right, that the others are checked against
 */
#pragma once
#include "runtime/runtime.h"

#define OP(name, ...) KernelFn kernel_##name, reference_##name;
#include "ir/ops.def"
#undef OP

/* What open gives and KernelCall.context points to. */
typedef struct CpuContext {
    Pool *pool;
} CpuContext;
Pool *call_pool(const KernelCall *call); /* NULL: no threads */

/* Fewest elements that are worth waking a thread for. */
enum { GRAIN = 1 << 14 };

/* ---------------------------------------------------------------- nest.c */

enum { MAX_NEST = 4 }; /* tensors gone through together */
/* Nested loops over `ndim` sizes, outermost first, with each tensor's stride in elements. Loops of one item are dropped and loops that are
 * one run in every tensor are merged; there is always at least one loop. */
typedef struct Nest {
    int ndim, ntensors;
    int64_t size[MAX_FACTORS + MAX_NDIM];
    int64_t stride[MAX_NEST][MAX_FACTORS + MAX_NDIM];
} Nest;
void nest_init(Nest *nest, int ntensors);
void nest_push(Nest *nest, int64_t size, const int64_t *strides); /* as the innermost loop so far; one stride a tensor */
void nest_merge(Nest *nest);
int64_t nest_count(const Nest *nest, int first, int end); /* product of the sizes of loops [first, end) */
/* Offset in each tensor of iteration `index` of the loops [0, nloops), in row-major order. */
void nest_offsets(const Nest *nest, int nloops, int64_t index, int64_t *offsets);

void strides_of(const Shape *shape, int64_t *strides); /* row-major, in elements */
/* The loops over the result's dimensions; tensor 0 is the result, 1 + i operand i, aligned right and broadcast where of size 1. */
void nest_broadcast(Nest *nest, const KernelCall *call);
/* The loops over in[0]'s dimensions; tensor 0 is the result with stride 0 along dimensions that it does not have (by letters), tensor 1
 * in[0]. reduced: the product of the global sizes of those dimensions. */
void nest_reduce(Nest *nest, const KernelCall *call, double *reduced);
/* The loops over the result's dimensions; tensor 0 is the result, tensor 1 in[0] with stride 0 along dimensions that it does not have. */
void nest_expand(Nest *nest, const KernelCall *call);

/* Divides the loops of nest_reduce's nest, which it merges: kept has those of the result (tensor 0 the result, tensor 1 the operand), gone the
 * others (tensor 0 the operand). Returns whether the operand's innermost loop is a kept one of more than one item: columns in a row. */
bool nest_divide(Nest *nest, Nest *kept, Nest *gone);
/* Copies what tensor 1 of the nest has to where tensor 0 says, in threads. The nest is merged. */
void nest_copy(Pool *pool, const Nest *nest, void *out, const void *in, int item_bytes);

/* Where in [begin, begin + length) element i of an operand of integers is, less begin; -1: elsewhere. */
static inline int64_t index_within(const Operand *index, int64_t i, int64_t begin, int64_t length) {
    int64_t at = index->dtype == I64 ? ((const int64_t *)index->data)[i] : ((const int32_t *)index->data)[i];
    return at >= begin && at - begin < length ? at - begin : -1;
}

/* One macro for the three element types. */
#define FOR_DTYPES(X) X(f32, float) X(f64, double) X(i32, int32_t)
#define FOR_FLOATS(X) X(f32, float) X(f64, double)
int32_t i32_saturate(int64_t value); /* sums of integers never wrap: they stop at the ends of the range */
