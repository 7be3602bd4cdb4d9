/* kernels: see kernels.h. Written as kernels.cu is. */
#include <cuda_runtime.h>

#include "tests/standin/kernels.h"

template <class T, int W> __global__ void __launch_bounds__(256) scale(T *__restrict__ y, const T *__restrict__ x, float a, int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n / W; i += (int64_t)gridDim.x * blockDim.x) {
        float4 v = reinterpret_cast<const float4 *>(x)[i];
        reinterpret_cast<float4 *>(y)[i] = make_float4(a * v.x, a * v.y, a * v.z, a * v.w);
    }
}

void launch_scale(float *y, const float *x, float a, int64_t n, cudaStream_t stream) { LAUNCH((scale<float, 4>), 3, 64, 0, stream, y, x, a, n); }

__device__ __forceinline__ float warp_sum(float value) {
    for (int d = warpSize / 2; d; d /= 2) value += __shfl_down_sync(0xffffffffu, value, d);
    return value;
}

__global__ void sums(float *out, const float *x, int64_t n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) sum += x[i];
    sum = warp_sum(sum);
    if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = sum;
    __syncthreads();
    if (threadIdx.x >= warpSize) return;
    sum = threadIdx.x < blockDim.x / warpSize ? partial[threadIdx.x] : 0.0f;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

void launch_sums(float *out, const float *x, int64_t n, int blocks, cudaStream_t stream) { LAUNCH(sums, blocks, 256, 0, stream, out, x, n); }

__global__ void reverse(int *out, const int *in, int n, int barrier) {
    __shared__ int held[1024];
    int i = (int)threadIdx.x;
    held[i] = in[i];
    if (barrier) __syncthreads();
    out[i] = held[n - 1 - i];
}

void launch_reverse(int *out, const int *in, int n, int barrier, cudaStream_t stream) { LAUNCH(reverse, 1, n, 0, stream, out, in, n, barrier); }

__global__ void counts(unsigned *out) {
    atomicAdd(&out[0], 1u);
    atomicMax(&out[1], threadIdx.x * gridDim.x + blockIdx.x);
    unsigned votes = __ballot_sync(0xffffffffu, threadIdx.x % 2);
    if (blockIdx.x == 0 && threadIdx.x == 0) out[2] = (unsigned)__popc(votes);
}

void launch_counts(unsigned *out, int blocks, int threads, cudaStream_t stream) { LAUNCH(counts, blocks, threads, 0, stream, out); }

__global__ void divergent(int n) {
    if ((int)threadIdx.x < n) __syncthreads();
}

void launch_divergent(int n, cudaStream_t stream) { LAUNCH(divergent, 1, 64, 0, stream, n); }

__global__ void absent_lane(int *out) {
    int lane = (int)threadIdx.x;
    if (lane == 3)
        __syncthreads();
    else
        out[lane] = __shfl_xor_sync(0xffffffffu, lane, 1);
}

void launch_absent_lane(int *out, cudaStream_t stream) { LAUNCH(absent_lane, 1, 32, 0, stream, out); }

__global__ void poke(float *p, int64_t at, float value) { p[at] = value; }

void launch_poke(float *p, int64_t at, float value, cudaStream_t stream) { LAUNCH(poke, 1, 1, 0, stream, p, at, value); }

__global__ void nothing(int) {}

cudaError_t launch_nothing(unsigned grid_y, int threads) {
    LAUNCH(nothing, dim3(1, grid_y), threads, 0, 0, 0);
    return cudaGetLastError();
}
