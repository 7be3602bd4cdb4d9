/* kernels: what the tests of the stand-in launch. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = a * x[i], i < n, float4 at a time in a grid-stride loop; x and y aligned to 16 bytes, n a multiple of 4. */
void launch_scale(float *y, const float *x, float a, int64_t n, cudaStream_t stream);
/* sums[b] = sum of x over block b's share of n, by shuffles and __syncthreads; `blocks` blocks of 256. */
void launch_sums(float *sums, const float *x, int64_t n, int blocks, cudaStream_t stream);
/* out[i] = in[n - 1 - i] through shared memory, one block of n <= 1024 threads; barrier: with the barrier that it needs. */
void launch_reverse(int *out, const int *in, int n, int barrier, cudaStream_t stream);
/* counts[0] += threads of the grid, by atomicAdd; counts[1]: the greatest threadIdx.x * gridDim.x + blockIdx.x; counts[2]: lanes voting for odd, of one warp. */
void launch_counts(unsigned *counts, int blocks, int threads, cudaStream_t stream);
/* Threads below n wait in __syncthreads, the others end: an error. */
void launch_divergent(int n, cudaStream_t stream);
/* A shuffle in which lane 3 takes no part, though it is in the mask. */
void launch_absent_lane(int *out, cudaStream_t stream);
/* p[at] = value. */
void launch_poke(float *p, int64_t at, float value, cudaStream_t stream);
/* Launches `threads` threads a block, of a kernel that does nothing; the launch's error. */
cudaError_t launch_nothing(unsigned grid_y, int threads);

#ifdef __cplusplus
}
#endif
