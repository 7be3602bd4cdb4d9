/* common: what all kernels use. */
#pragma once

enum { WARP = 32, BLOCK = 256 };

/* Multiprocessors of the device that launches go to. */
static inline int processors() {
    int device = 0, n = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 1;
    return n;
}

/* Blocks for n items of work, `each` a thread: at most so many that the device is busy; kernels stride over the rest. */
static inline unsigned blocks_for(int64_t n, int each) {
    const int64_t blocks = (n + (int64_t)BLOCK * each - 1) / ((int64_t)BLOCK * each), most = (int64_t)processors() * 16;
    return blocks < 1 ? 1u : blocks > most ? (unsigned)most : (unsigned)blocks;
}

/* n / d for n below 2^31. */
__device__ __forceinline__ uint32_t divide(KernelDivisor by, uint32_t n) {
    return (__umulhi(n, by.magic) + n) >> by.shift;
}
