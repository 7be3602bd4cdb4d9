/* kernels: what kernels.cu offers to the host halves, in C. Each function queues launches on a stream and returns cudaGetLastError()'s word for it. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdint.h>

/* Element types, in the order of DType. */
enum { KERNEL_F32, KERNEL_F64, KERNEL_I32, KERNEL_I64, KERNEL_BOOL };

/* Division of numbers below 2^31 by d, without dividing: (high 32 bits of n * magic + n) >> shift. */
typedef struct KernelDivisor {
    uint32_t d, magic, shift;
} KernelDivisor;
static inline KernelDivisor kernel_divisor(int64_t d) {
    KernelDivisor result = {d > 0 && d <= INT32_MAX ? (uint32_t)d : 1, 0, 0};
    while (((uint64_t)1 << result.shift) < result.d)
        result.shift++;
    result.magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << result.shift) - result.d)) / result.d + 1);
    return result;
}

/* Nested loops over one or two tensors, outermost first; strides in items. */
enum { KERNEL_NDIM = 9 };
typedef struct KernelLoops {
    int ndim;
    int64_t size[KERNEL_NDIM], stride[2][KERNEL_NDIM];
    KernelDivisor divisor[KERNEL_NDIM]; /* of size: kernel_loops fills them in */
} KernelLoops;

#ifdef __cplusplus
extern "C" {
#endif

/* elementwise.cuh, chain.cuh */

/* update.cuh */

/* reduce.cuh */

/* rows.cuh */

/* move.cuh */

/* index.cuh */

/* matmul.cuh */

enum { PRODUCT_LETTERS = 48 };
/* A contraction as loops: those of the result, with strides in a, b and it, and those that are summed, with strides in a and b. */
typedef struct ProductLoops {
    int nkept, ngone;
    int64_t elements, depth; /* iterations of each */
    int64_t kept_size[PRODUCT_LETTERS], kept_stride[3][PRODUCT_LETTERS];
    int64_t gone_size[PRODUCT_LETTERS], gone_stride[2][PRODUCT_LETTERS];
} ProductLoops;
void cuda_plain_product(const ProductLoops *loops, int is_double, const void *a, const void *b, void *out, cudaStream_t stream);

/* pull.cuh: what communicators move and add up */

enum { PULL_TERMS = 8 };
/* Elements of a target that are copied from one source, or reduced from several in their order: of nested loops around runs of `unit` elements, in row-major order,
 * the elements [first, first + count). Starts (of the loops' first run) and steps in elements. Memory: any that the device reaches. See pull.h. */
typedef struct KernelPull {
    void *target;
    const void *source[PULL_TERMS];
    int64_t target_start, source_start[PULL_TERMS];
    int64_t target_step[KERNEL_NDIM], source_step[PULL_TERMS][KERNEL_NDIM];
    int64_t extent[KERNEL_NDIM], unit, first, count;
    int nouter, nsources;
    int dtype, reduction; /* as DType and Reduction number them */
    int add;              /* onto what the target holds */
    /* pulls_prepare's. */
    int width;            /* elements of one access */
    unsigned first_block, nblocks;
    int narrow;           /* all positions are below 2^31 */
    KernelDivisor divisor[KERNEL_NDIM], unit_divisor;
} KernelPull;
/* One pull, passed by value. */
cudaError_t kernels_pull(const KernelPull *pull, cudaStream_t stream);
/* n pulls in one launch: none may read or write what another writes. table: on the device; nblocks: what pulls_prepare said. */
cudaError_t kernels_pulls(const KernelPull *table, int n, int64_t nblocks, cudaStream_t stream);

enum { PULL_NDIM = 9, PULL_TILE = 4096 };

/* Where a task's elements lie in one memory of the device. */
typedef struct PullView {
    char *at;                /* the element all of whose indexes are 0; may lie before the memory, where nothing is touched */
    int64_t step[PULL_NDIM]; /* elements from one index of a loop to the next */
} PullView;

/* Element i of [first, first + count) is element i % unit of a run; i / unit, row-major over extent, are the indexes of the loops around the run. Each:
 * target = source 0 OP source 1 OP .., from left to right; `add`: target = target OP source 0 OP ... One source without add is a copy. OP as in
 * runtime/comm/piece.c: sums of integers wrap around, a NaN stays one, bool is or (sum, max) and and (min). */
typedef struct PullTask {
    int32_t nouter, nsources;
    int32_t dtype, reduction; /* DType, Reduction */
    int32_t add, unused;
    int64_t extent[PULL_NDIM], unit, first, count;
    int64_t first_tile; /* tiles of the tasks before this one; of this one: count / PULL_TILE, rounded up */
    PullView target;
    const PullView *source; /* on the device */
} PullTask;
/* All of n tasks in one launch, in any order: none reads what another writes. tasks: on the device. ntiles: of all of them. */
cudaError_t pulls_launch(const PullTask *tasks, int n, int64_t ntiles, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
