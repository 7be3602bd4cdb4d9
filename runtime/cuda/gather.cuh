/* gather: operators along one axis. An index that means nothing, or whose element another rank has, reads and writes nothing. Every sum is made by one thread, in order, so
 * that it does not depend on what runs when. */
#pragma once

/* A thread an element of the result. */
template <class T> __global__ void __launch_bounds__(BLOCK) gather_items(const __grid_constant__ KernelGather g) {
    const int64_t n = g.index.n * g.width;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * BLOCK) {
        const int64_t own = i / g.width, at = index_at(g.index, own), outer = own / (g.n * g.each);
        const int64_t from = ((outer * g.index.length + at) * g.each + own % g.each) * g.width + i % g.width;
        ((T *)g.narrow)[i] = at >= 0 ? ((const T *)g.wide)[from] : (T)0;
    }
}

/* A thread a line of the result: it goes through the line's indices in their order. */
template <class T> __global__ void __launch_bounds__(BLOCK) gather_lines_grad(const __grid_constant__ KernelGather g) {
    const int64_t row = g.each * g.width, lines = g.outer * row;
    for (int64_t line = (int64_t)blockIdx.x * BLOCK + threadIdx.x; line < lines; line += (int64_t)gridDim.x * BLOCK) {
        const int64_t outer = line / row, item = line % row, each = item / g.width;
        T *to = (T *)g.wide + outer * g.index.length * row + item;
        for (int64_t i = 0; i < g.index.length; i++)
            to[i * row] = (T)0;
        for (int64_t i = 0; i < g.n; i++) {
            const int64_t at = index_at(g.index, (outer * g.n + i) * g.each + each);
            if (at >= 0) to[at * row] += ((const T *)g.narrow)[(outer * g.n + i) * row + item];
        }
    }
}

/* The same of 16 bits, whose sums are of floats and rounded once: a thread goes through the indices for so many places of its line at a time. */
template <class T> __global__ void __launch_bounds__(BLOCK) gather_halves_grad(const __grid_constant__ KernelGather g) {
    enum { PLACES = 8 };
    const int64_t row = g.each * g.width, lines = g.outer * row;
    for (int64_t line = (int64_t)blockIdx.x * BLOCK + threadIdx.x; line < lines; line += (int64_t)gridDim.x * BLOCK) {
        const int64_t outer = line / row, item = line % row, each = item / g.width;
        T *to = (T *)g.wide + outer * g.index.length * row + item;
        for (int64_t first = 0; first < g.index.length; first += PLACES) {
            float sum[PLACES] = {};
            for (int64_t i = 0; i < g.n; i++) {
                const int64_t at = index_at(g.index, (outer * g.n + i) * g.each + each) - first;
                if (at < 0 || at >= PLACES) continue;
                const float x = (float)((const T *)g.narrow)[(outer * g.n + i) * row + item];
#pragma unroll
                for (int k = 0; k < PLACES; k++)
                    sum[k] += at == k ? x : 0;
            }
#pragma unroll
            for (int k = 0; k < PLACES; k++)
                if (first + k < g.index.length) to[(first + k) * row] = (T)sum[k];
        }
    }
}

/* A thread an element of a row, of all rows of its line in the order of their indices. */
template <class T> __global__ void __launch_bounds__(BLOCK) put_items(const __grid_constant__ KernelGather g) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < g.outer * g.width; i += (int64_t)gridDim.x * BLOCK) {
        const int64_t outer = i / g.width, item = i % g.width;
        for (int64_t k = 0; k < g.n; k++) {
            const int64_t at = index_at(g.index, k);
            if (at >= 0) ((T *)g.wide)[(outer * g.index.length + at) * g.width + item] = ((const T *)g.narrow)[(outer * g.n + k) * g.width + item];
        }
    }
}

/* A thread a line; A: what is summed in. */
template <class T, class A> __global__ void __launch_bounds__(BLOCK) cumsum_lines(const __grid_constant__ KernelCumsum c) {
    for (int64_t line = (int64_t)blockIdx.x * BLOCK + threadIdx.x; line < c.outer * c.inner; line += (int64_t)gridDim.x * BLOCK) {
        const int64_t first = line / c.inner * c.length * c.inner + line % c.inner;
        A sum = 0;
        for (int64_t i = 0; i < c.length; i++) {
            const int64_t at = first + (c.reverse ? c.length - 1 - i : i) * c.inner;
            const A next = sum + (A)((const T *)c.x)[at];
            ((T *)c.out)[at] = (T)(c.exclusive ? sum : next);
            sum = next;
        }
    }
}

/* Whether a at place i comes before b at place j: larger, a nan larger than any number, or at a lower place. A place below 0 is none, and comes last. */
template <class T> __device__ __forceinline__ bool topk_before(T a, int64_t i, T b, int64_t j) {
    if (i < 0 || j < 0) return i >= 0;
    return a > b || (a != a && b == b) || (i < j && (a == b || (a != a && b != b)));
}

/* A warp a row; once for each result the first element that comes after the one before. */
template <class T> __global__ void __launch_bounds__(BLOCK) topk_rows(const __grid_constant__ KernelTopk t) {
    typedef Number<T> N;
    const int lane = threadIdx.x % WARP;
    for (int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / WARP; row < t.rows; row += (int64_t)gridDim.x * (BLOCK / WARP)) {
        const T *x = (const T *)t.x + row * t.length;
        N taken = 0;
        int64_t place = -1;
        for (int64_t k = 0; k < t.k; k++) {
            N best = 0;
            int64_t found = -1;
            for (int64_t i = lane; i < t.length; i += WARP)
                if ((k == 0 || topk_before(taken, place, (N)x[i], i)) && topk_before((N)x[i], i, best, found)) {
                    best = (N)x[i];
                    found = i;
                }
            for (int d = WARP / 2; d > 0; d /= 2) {
                const N other = __shfl_xor_sync(0xffffffffu, best, d);
                const int64_t at = __shfl_xor_sync(0xffffffffu, found, d);
                if (topk_before(other, at, best, found)) {
                    best = other;
                    found = at;
                }
            }
            taken = best;
            place = found;
            if (lane != 0) continue;
            ((T *)t.values)[row * t.k + k] = (T)best;
            t.indices[row * t.k + k] = (int32_t)found;
        }
    }
}

extern "C" cudaError_t kernels_gather(const KernelGather *gather, cudaStream_t stream) {
    const unsigned blocks = blocks_for(gather->index.n * gather->width, 1);
    if (gather->dtype == KERNEL_F64 || gather->dtype == KERNEL_I64)
        LAUNCH((gather_items<uint64_t>), blocks, BLOCK, 0, stream, *gather);
    else if (gather->dtype == KERNEL_F16 || gather->dtype == KERNEL_BF16)
        LAUNCH((gather_items<uint16_t>), blocks, BLOCK, 0, stream, *gather);
    else
        LAUNCH((gather_items<uint32_t>), blocks, BLOCK, 0, stream, *gather);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_gather_grad(const KernelGather *gather, cudaStream_t stream) {
    const unsigned blocks = blocks_for(gather->outer * gather->each * gather->width, 1);
    switch (gather->dtype) {
    case KERNEL_F64: LAUNCH((gather_lines_grad<double>), blocks, BLOCK, 0, stream, *gather); break;
    case KERNEL_I64: LAUNCH((gather_lines_grad<uint64_t>), blocks, BLOCK, 0, stream, *gather); break;
    case KERNEL_I32: LAUNCH((gather_lines_grad<uint32_t>), blocks, BLOCK, 0, stream, *gather); break;
    case KERNEL_F16: LAUNCH((gather_halves_grad<Float16>), blocks, BLOCK, 0, stream, *gather); break;
    case KERNEL_BF16: LAUNCH((gather_halves_grad<BFloat16>), blocks, BLOCK, 0, stream, *gather); break;
    default: LAUNCH((gather_lines_grad<float>), blocks, BLOCK, 0, stream, *gather); break;
    }
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_put(const KernelGather *put, cudaStream_t stream) {
    const unsigned blocks = blocks_for(put->outer * put->width, 1);
    if (put->dtype == KERNEL_F64 || put->dtype == KERNEL_I64)
        LAUNCH((put_items<uint64_t>), blocks, BLOCK, 0, stream, *put);
    else if (put->dtype == KERNEL_F16 || put->dtype == KERNEL_BF16)
        LAUNCH((put_items<uint16_t>), blocks, BLOCK, 0, stream, *put);
    else
        LAUNCH((put_items<uint32_t>), blocks, BLOCK, 0, stream, *put);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_cumsum(const KernelCumsum *cumsum, cudaStream_t stream) {
    const unsigned blocks = blocks_for(cumsum->outer * cumsum->inner, 1);
    switch (cumsum->dtype) {
    case KERNEL_F64: LAUNCH((cumsum_lines<double, double>), blocks, BLOCK, 0, stream, *cumsum); break;
    case KERNEL_I64: LAUNCH((cumsum_lines<uint64_t, uint64_t>), blocks, BLOCK, 0, stream, *cumsum); break;
    case KERNEL_I32: LAUNCH((cumsum_lines<uint32_t, uint64_t>), blocks, BLOCK, 0, stream, *cumsum); break;
    case KERNEL_F16: LAUNCH((cumsum_lines<Float16, double>), blocks, BLOCK, 0, stream, *cumsum); break;
    case KERNEL_BF16: LAUNCH((cumsum_lines<BFloat16, double>), blocks, BLOCK, 0, stream, *cumsum); break;
    default: LAUNCH((cumsum_lines<float, double>), blocks, BLOCK, 0, stream, *cumsum); break;
    }
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_topk(const KernelTopk *topk, cudaStream_t stream) {
    const unsigned blocks = blocks_for(topk->rows * WARP, 1);
    switch (topk->dtype) {
    case KERNEL_F64: LAUNCH((topk_rows<double>), blocks, BLOCK, 0, stream, *topk); break;
    case KERNEL_I64: LAUNCH((topk_rows<int64_t>), blocks, BLOCK, 0, stream, *topk); break;
    case KERNEL_I32: LAUNCH((topk_rows<int32_t>), blocks, BLOCK, 0, stream, *topk); break;
    case KERNEL_F16: LAUNCH((topk_rows<Float16>), blocks, BLOCK, 0, stream, *topk); break;
    case KERNEL_BF16: LAUNCH((topk_rows<BFloat16>), blocks, BLOCK, 0, stream, *topk); break;
    default: LAUNCH((topk_rows<float>), blocks, BLOCK, 0, stream, *topk); break;
    }
    return cudaGetLastError();
}
