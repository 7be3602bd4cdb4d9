/* kernels: what kernels.cu offers to the host halves, in C. Each function queues launches on a stream and returns cudaGetLastError()'s word for it. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* elementwise.cuh, chain.cuh */

/* update.cuh */

/* reduce.cuh */

/* rows.cuh */

/* move.cuh */

/* index.cuh */

/* pull.cuh: what communicators move and add up */

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
