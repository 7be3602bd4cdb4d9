/* window: conv2d (whose channels are too few for the tiles of conv.cuh), the pools and their gradients (whose planes are too large for pool.cuh), plainly: a thread an element of the result, which it gathers in one order, in doubles. */
#pragma once

/* Where tap k of result o lies. */
__device__ __forceinline__ int64_t tap_place(const Window &window, int64_t o, int64_t k) {
    return o * window.stride + k * window.dilation - window.low;
}

/* The result whose tap k lies at i; below 0: there is none. */
__device__ __forceinline__ int64_t tap_result(const Window &window, int64_t i, int64_t k, int64_t count) {
    const int64_t at = i + window.low - k * window.dilation;
    return at >= 0 && at % window.stride == 0 && at / window.stride < count ? at / window.stride : -1;
}

/* ---------------------------------------------------------------- conv2d */

/* Element i of y [images, groups, out_channels, out]. */
template <class T> __device__ __forceinline__ double convolved(const Planes &p, const T *x, const T *w, int64_t i) {
    const int64_t ox = i % p.out[1], oy = i / p.out[1] % p.out[0], channel = i / p.out[1] / p.out[0];
    const int64_t o = channel % (p.groups * p.out_channels), image = channel / (p.groups * p.out_channels), group = o / p.out_channels;
    double sum = 0;
    for (int64_t c = 0; c < p.in_channels; c++) {
        const T *plane = x + ((image * p.groups + group) * p.in_channels + c) * p.in[0] * p.in[1];
        const T *kernel = w + (o * p.in_channels + c) * p.window[0].size * p.window[1].size;
        for (int64_t ky = 0; ky < p.window[0].size; ky++) {
            const int64_t row = tap_place(p.window[0], oy, ky);
            if (row < 0 || row >= p.in[0]) continue;
            for (int64_t kx = 0; kx < p.window[1].size; kx++) {
                const int64_t column = tap_place(p.window[1], ox, kx);
                if (column >= 0 && column < p.in[1]) sum += (double)plane[row * p.in[1] + column] * (double)kernel[ky * p.window[1].size + kx];
            }
        }
    }
    return sum;
}

/* Element i of dx [images, groups, in_channels, in]. */
template <class T> __device__ __forceinline__ double convolved_back(const Planes &p, const T *dy, const T *w, int64_t i) {
    const int64_t column = i % p.in[1], row = i / p.in[1] % p.in[0], channel = i / p.in[1] / p.in[0];
    const int64_t c = channel % p.in_channels, group = channel / p.in_channels % p.groups, image = channel / p.in_channels / p.groups;
    double sum = 0;
    for (int64_t o = 0; o < p.out_channels; o++) {
        const T *plane = dy + ((image * p.groups + group) * p.out_channels + o) * p.out[0] * p.out[1];
        const T *kernel = w + ((group * p.out_channels + o) * p.in_channels + c) * p.window[0].size * p.window[1].size;
        for (int64_t ky = 0; ky < p.window[0].size; ky++) {
            const int64_t oy = tap_result(p.window[0], row, ky, p.out[0]);
            for (int64_t kx = 0; oy >= 0 && kx < p.window[1].size; kx++) {
                const int64_t ox = tap_result(p.window[1], column, kx, p.out[1]);
                if (ox >= 0) sum += (double)plane[oy * p.out[1] + ox] * (double)kernel[ky * p.window[1].size + kx];
            }
        }
    }
    return sum;
}

/* Element i of dw [groups, out_channels, in_channels, taps]. */
template <class T> __device__ __forceinline__ double convolved_weight(const Planes &p, const T *x, const T *dy, int64_t i) {
    const int64_t kx = i % p.window[1].size, ky = i / p.window[1].size % p.window[0].size, pair = i / p.window[1].size / p.window[0].size;
    const int64_t c = pair % p.in_channels, o = pair / p.in_channels, group = o / p.out_channels;
    double sum = 0;
    for (int64_t image = 0; image < p.images; image++) {
        const T *from = x + ((image * p.groups + group) * p.in_channels + c) * p.in[0] * p.in[1];
        const T *by = dy + (image * p.groups * p.out_channels + o) * p.out[0] * p.out[1];
        for (int64_t oy = 0; oy < p.out[0]; oy++) {
            const int64_t row = tap_place(p.window[0], oy, ky);
            if (row < 0 || row >= p.in[0]) continue;
            for (int64_t ox = 0; ox < p.out[1]; ox++) {
                const int64_t column = tap_place(p.window[1], ox, kx);
                if (column >= 0 && column < p.in[1]) sum += (double)from[row * p.in[1] + column] * (double)by[oy * p.out[1] + ox];
            }
        }
    }
    return sum;
}

/* ---------------------------------------------------------------- pools */

/* The element of a plane that is the maximum of window (oy, ox): the first of those that tie, the last nan if there is one. */
template <class T> __device__ __forceinline__ int64_t largest(const Planes &p, const T *x, int64_t oy, int64_t ox) {
    int64_t most = -1;
    for (int64_t ky = 0; ky < p.window[0].size; ky++) {
        const int64_t row = tap_place(p.window[0], oy, ky);
        if (row < 0 || row >= p.in[0]) continue;
        for (int64_t kx = 0; kx < p.window[1].size; kx++) {
            const int64_t column = tap_place(p.window[1], ox, kx), at = row * p.in[1] + column;
            if (column >= 0 && column < p.in[1] && (most < 0 || x[at] > x[most] || x[at] != x[at])) most = at;
        }
    }
    return most;
}

template <class T> __device__ __forceinline__ double largest_of(const Planes &p, const T *x, int64_t i) {
    const int64_t places = p.out[0] * p.out[1], place = i % places;
    const T *plane = x + i / places * p.in[0] * p.in[1];
    return (double)plane[largest(p, plane, place / p.out[1], place % p.out[1])];
}

/* Whatever windows have their maximum at element i. */
template <class T> __device__ __forceinline__ double largest_back(const Planes &p, const T *x, const T *dy, int64_t i) {
    const int64_t size = p.in[0] * p.in[1], place = i % (p.back[0] * p.back[1]), image = i / (p.back[0] * p.back[1]);
    const int64_t row = place / p.back[1] + p.behind[0], column = place % p.back[1] + p.behind[1], at = row * p.in[1] + column;
    double sum = 0;
    for (int64_t ky = p.window[0].size - 1; ky >= 0; ky--) {
        const int64_t oy = tap_result(p.window[0], row, ky, p.out[0]);
        for (int64_t kx = p.window[1].size - 1; oy >= 0 && kx >= 0; kx--) {
            const int64_t ox = tap_result(p.window[1], column, kx, p.out[1]);
            if (ox >= 0 && largest(p, x + image * size, oy, ox) == at) sum += (double)dy[(image * p.out[0] + oy) * p.out[1] + ox];
        }
    }
    return sum;
}

/* What the sum of window o is divided by, along dimension d. */
__device__ __forceinline__ int64_t counted(const Planes &p, int d, int64_t o, int with_padding) {
    const int64_t size = p.before[d] + p.in[d] + p.after[d], begin = tap_place(p.window[d], o, 0) + p.before[d], end = begin + p.window[d].size;
    return with_padding ? p.window[d].size : (end < size ? end : size) - (begin > 0 ? begin : 0);
}

template <class T> __device__ __forceinline__ double averaged(const Planes &p, int with_padding, int64_t divisor, const T *x, int64_t i) {
    const int64_t ox = i % p.out[1], oy = i / p.out[1] % p.out[0], image = i / p.out[1] / p.out[0];
    double sum = 0;
    for (int64_t ky = 0; ky < p.window[0].size; ky++) {
        const int64_t row = tap_place(p.window[0], oy, ky);
        if (row < 0 || row >= p.in[0]) continue;
        for (int64_t kx = 0; kx < p.window[1].size; kx++) {
            const int64_t column = tap_place(p.window[1], ox, kx);
            if (column >= 0 && column < p.in[1]) sum += (double)x[(image * p.in[0] + row) * p.in[1] + column];
        }
    }
    return sum / (double)(divisor > 0 ? divisor : counted(p, 0, oy, with_padding) * counted(p, 1, ox, with_padding));
}

template <class T> __device__ __forceinline__ double averaged_back(const Planes &p, int with_padding, int64_t divisor, const T *dy, int64_t i) {
    const int64_t size = p.in[0] * p.in[1], at = i % size, image = i / size;
    double sum = 0;
    for (int64_t ky = p.window[0].size - 1; ky >= 0; ky--) {
        const int64_t oy = tap_result(p.window[0], at / p.in[1], ky, p.out[0]);
        for (int64_t kx = p.window[1].size - 1; oy >= 0 && kx >= 0; kx--) {
            const int64_t ox = tap_result(p.window[1], at % p.in[1], kx, p.out[1]);
            if (ox < 0) continue;
            const int64_t count = divisor > 0 ? divisor : counted(p, 0, oy, with_padding) * counted(p, 1, ox, with_padding);
            sum += (double)dy[(image * p.out[0] + oy) * p.out[1] + ox] / (double)count;
        }
    }
    return sum;
}

/* ---------------------------------------------------------------- launches */

template <class T> __global__ void __launch_bounds__(BLOCK) window_elements(const __grid_constant__ KernelWindows run, T *out, const T *a, const T *b) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < run.n; i += (int64_t)gridDim.x * BLOCK) {
        double value = 0;
        switch (run.kind) {
        case WINDOWS_CONV:
            value = convolved(run.planes, a, b, i);
            break;
        case WINDOWS_CONV_X:
            value = convolved_back(run.planes, a, b, i);
            break;
        case WINDOWS_CONV_W:
            value = convolved_weight(run.planes, a, b, i);
            break;
        case WINDOWS_MAX:
            value = largest_of(run.planes, a, i);
            break;
        case WINDOWS_MAX_BACK:
            value = largest_back(run.planes, a, b, i);
            break;
        case WINDOWS_AVERAGE:
            value = averaged(run.planes, run.with_padding, run.divisor, a, i);
            break;
        case WINDOWS_AVERAGE_BACK:
            value = averaged_back(run.planes, run.with_padding, run.divisor, a, i);
            break;
        }
        out[i] = (T)value;
    }
}

extern "C" cudaError_t kernels_windows(const KernelWindows *run, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    const int64_t counters = SCRATCH_COUNTERS * (int64_t)sizeof(unsigned);
    ConvTiles tiles;
    if (run->n == 0) return cudaSuccess;
    if (run->kind <= WINDOWS_CONV_W && conv_tiles(run, run->dtype == KERNEL_F64 ? 8 : 4, scratch_bytes - counters, &tiles)) {
        WITH_REAL(run->dtype, T, return conv_launch<T>(run, &tiles, (char *)scratch + counters, stream))
    }
    PoolTiles pool;
    if (run->kind >= WINDOWS_MAX && pool_cut(run, &pool)) {
        WITH_REAL(run->dtype, T, return pool_launch<T>(run, &pool, stream))
    }
    WITH_REAL(run->dtype, T, LAUNCH((window_elements<T>), blocks_for(run->n, 1), BLOCK, 0, stream, *run, (T *)run->out, (const T *)run->a, (const T *)run->b))
    return cudaGetLastError();
}
