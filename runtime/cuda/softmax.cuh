/* softmax: softmax, its logarithm and their gradients over whole rows of a tensor [outer, n, inner]. The largest element is taken off first, so that no exponential
 * overflows and their sum is at least 1. A row of up to 1024 elements side by side is a warp's, which holds it in registers; of up to 4096 a block's, likewise; a
 * longer one is read twice by a block, largest element and sum in one pass. Rows whose elements lie apart are worked on side by side. */
#pragma once

/* What is known of some elements of a row: their largest, and the sum of exponentials less it; of gradients the sum alone. */
template <class T> struct RowState {
    T most;
    T sum;
};

template <KernelRows ROWS> constexpr bool is_gradient = ROWS == ROWS_SOFTMAX_GRAD || ROWS == ROWS_LOG_SOFTMAX_GRAD;

template <class T> __device__ __forceinline__ T row_exp(T x);
template <> __device__ __forceinline__ float row_exp(float x) { return expf(x); }
template <> __device__ __forceinline__ double row_exp(double x) { return exp(x); }
template <class T> __device__ __forceinline__ T row_log(T x);
template <> __device__ __forceinline__ float row_log(float x) { return logf(x); }
template <> __device__ __forceinline__ double row_log(double x) { return log(x); }

/* What a sum of exponentials less `from` is multiplied by to be less `to`, which is not smaller. Where minus infinity is all that has been seen, it counts as it would
 * less itself: larger elements make it 0, and a row of nothing else gives nan in the end. */
template <class T> __device__ __forceinline__ T row_scale(T from, T to) {
    return from == -(T)INFINITY ? (T)(to == from) : row_exp(from - to);
}

template <KernelRows ROWS, class T> __device__ __forceinline__ void row_add(RowState<T> &state, T x, T dy) {
    if constexpr (ROWS == ROWS_SOFTMAX_GRAD) {
        state.sum += x * dy;
    } else if constexpr (ROWS == ROWS_LOG_SOFTMAX_GRAD) {
        state.sum += dy;
    } else if (x > state.most) {
        state.sum = state.sum * row_scale(state.most, x) + 1;
        state.most = x;
    } else {
        state.sum += row_scale(x, state.most);
    }
}

template <KernelRows ROWS, class T> __device__ __forceinline__ RowState<T> row_merge(RowState<T> a, RowState<T> b) {
    if constexpr (is_gradient<ROWS>) return {a.most, a.sum + b.sum};
    T most = a.most > b.most ? a.most : b.most;
    return {most, a.sum * row_scale(a.most, most) + b.sum * row_scale(b.most, most)};
}

template <class T> __device__ __forceinline__ RowState<T> row_nothing() {
    return {-(T)INFINITY, 0};
}

template <KernelRows ROWS, class T> __device__ __forceinline__ RowState<T> row_lanes(RowState<T> state) {
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        state = row_merge<ROWS>(state, RowState<T>{__shfl_xor_sync(0xffffffffu, state.most, lane), __shfl_xor_sync(0xffffffffu, state.sum, lane)});
    return state;
}

/* All threads get the block's; the sum of few terms a warp is in the order of the warps. */
template <KernelRows ROWS, class T, int THREADS> __device__ __forceinline__ RowState<T> row_block(RowState<T> state) {
    __shared__ T most[THREADS / WARP], sum[THREADS / WARP];
    state = row_lanes<ROWS>(state);
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        most[threadIdx.x / WARP] = state.most;
        sum[threadIdx.x / WARP] = state.sum;
    }
    __syncthreads();
    state = {most[0], sum[0]};
    for (int w = 1; w < THREADS / WARP; w++)
        state = row_merge<ROWS>(state, RowState<T>{most[w], sum[w]});
    return state;
}

/* What each element is computed with, once its row is known: softmax: the factor of exponentials; its logarithm: what is taken off. */
template <KernelRows ROWS, class T> __device__ __forceinline__ T row_number(RowState<T> state) {
    if constexpr (ROWS == ROWS_SOFTMAX) return 1 / state.sum;
    if constexpr (ROWS == ROWS_LOG_SOFTMAX) return row_log(state.sum);
    return state.sum;
}

template <KernelRows ROWS, class T> __device__ __forceinline__ T row_result(T x, T dy, T most, T number) {
    if constexpr (ROWS == ROWS_SOFTMAX) return row_exp(x - most) * number;
    if constexpr (ROWS == ROWS_LOG_SOFTMAX) return x - most - number;
    if constexpr (ROWS == ROWS_SOFTMAX_GRAD) return x * (dy - number);
    return dy - row_exp(x) * number;
}

/* ---------------------------------------------------------------- rows in registers */

template <class T, int W> struct alignas(sizeof(T) * W) RowItem {
    T at[W];
};

/* A row by THREADS threads (a warp, or a block), each with up to HELD accesses of W elements. */
template <KernelRows ROWS, class T, int THREADS, int HELD, int W>
__global__ void __launch_bounds__(BLOCK) rows_held(T *out, const T *x, const T *dy, int64_t nrows, int64_t n) {
    typedef RowItem<T, W> Item;
    typedef Number<T> N;
    enum { EACH = BLOCK / THREADS };
    const int lane = threadIdx.x % THREADS, accesses = (int)(n / W);
    for (int64_t first = (int64_t)blockIdx.x * EACH; first < nrows; first += (int64_t)gridDim.x * EACH) {
        const int64_t row = first + threadIdx.x / THREADS;
        const bool inside = row < nrows;
        const Item *xs = (const Item *)(x + row * n), *dys = (const Item *)(dy + row * n);
        Item held[HELD], grad[HELD];
        RowState<N> state = row_nothing<N>();
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (inside && lane + k * THREADS < accesses) {
                held[k] = xs[lane + k * THREADS];
                if constexpr (is_gradient<ROWS>) grad[k] = dys[lane + k * THREADS];
            }
        if constexpr (!is_gradient<ROWS>) { /* the largest first: then one exponential an element */
#pragma unroll
            for (int k = 0; k < HELD; k++)
                if (inside && lane + k * THREADS < accesses)
                    for (int l = 0; l < W; l++)
                        state.most = (N)held[k].at[l] > state.most ? (N)held[k].at[l] : state.most;
        }
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (inside && lane + k * THREADS < accesses)
                for (int l = 0; l < W; l++) {
                    if constexpr (is_gradient<ROWS>)
                        row_add<ROWS, N>(state, (N)held[k].at[l], (N)grad[k].at[l]);
                    else
                        state.sum += row_scale((N)held[k].at[l], state.most);
                }
        if constexpr (THREADS == WARP)
            state = row_lanes<ROWS>(state);
        else
            state = row_block<ROWS, N, THREADS>(state);
        const N number = row_number<ROWS>(state);
        Item *outs = (Item *)(out + row * n);
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (inside && lane + k * THREADS < accesses) {
                Item result;
                for (int l = 0; l < W; l++) {
                    if constexpr (is_gradient<ROWS>)
                        result.at[l] = (T)row_result<ROWS, N>((N)held[k].at[l], (N)grad[k].at[l], state.most, number);
                    else
                        result.at[l] = (T)row_result<ROWS, N>((N)held[k].at[l], 0, state.most, number);
                }
                outs[lane + k * THREADS] = result;
            }
    }
}

/* ---------------------------------------------------------------- long rows */

enum { LONG_ROW = 512 };

/* A row by a block, which reads it twice. */
template <KernelRows ROWS, class T, int W> __global__ void __launch_bounds__(LONG_ROW) rows_long(T *out, const T *x, const T *dy, int64_t nrows, int64_t n) {
    typedef RowItem<T, W> Item;
    typedef Number<T> N;
    const int64_t accesses = n / W;
    for (int64_t row = blockIdx.x; row < nrows; row += gridDim.x) {
        const Item *xs = (const Item *)(x + row * n), *dys = (const Item *)(dy + row * n);
        RowState<N> lanes[W], state;
        for (int l = 0; l < W; l++)
            lanes[l] = row_nothing<N>();
#pragma unroll 4
        for (int64_t i = threadIdx.x; i < accesses; i += LONG_ROW) {
            Item item = xs[i], grad = item;
            if constexpr (is_gradient<ROWS>) grad = dys[i];
            for (int l = 0; l < W; l++)
                row_add<ROWS, N>(lanes[l], (N)item.at[l], (N)grad.at[l]);
        }
        state = lanes[0];
        for (int l = 1; l < W; l++)
            state = row_merge<ROWS>(state, lanes[l]);
        state = row_block<ROWS, N, LONG_ROW>(state);
        const N number = row_number<ROWS>(state);
        Item *outs = (Item *)(out + row * n);
#pragma unroll 4
        for (int64_t i = threadIdx.x; i < accesses; i += LONG_ROW) {
            Item item = xs[i], grad = item;
            if constexpr (is_gradient<ROWS>) grad = dys[i];
            for (int l = 0; l < W; l++)
                item.at[l] = (T)row_result<ROWS, N>((N)item.at[l], (N)grad.at[l], state.most, number);
            outs[i] = item;
        }
    }
}

/* ---------------------------------------------------------------- rows side by side */

/* `across` (a power of two, at most a warp) rows a block, neighbours; its other threads divide their elements among them. */
template <KernelRows ROWS, class T>
__global__ void __launch_bounds__(BLOCK) rows_apart(T *out, const T *x, const T *dy, int64_t outer, int64_t n, int64_t inner, int across) {
    typedef Number<T> N;
    __shared__ N most[BLOCK], sum[BLOCK];
    const int at = threadIdx.x % across, part = threadIdx.x / across, parts = BLOCK / across;
    const int64_t tiles = (inner + across - 1) / across;
    for (int64_t tile = blockIdx.x; tile < outer * tiles; tile += gridDim.x) {
        const int64_t o = tile / tiles, column = (tile - o * tiles) * across + at, first = o * n * inner + column;
        const bool inside = column < inner;
        RowState<N> state = row_nothing<N>();
        if (inside)
#pragma unroll 4
            for (int64_t i = part; i < n; i += parts)
                row_add<ROWS, N>(state, (N)x[first + i * inner], is_gradient<ROWS> ? (N)dy[first + i * inner] : (N)0);
        for (int half = parts / 2; half > 0; half /= 2) {
            __syncthreads();
            most[threadIdx.x] = state.most;
            sum[threadIdx.x] = state.sum;
            __syncthreads();
            if (part < half) state = row_merge<ROWS>(state, RowState<N>{most[threadIdx.x + half * across], sum[threadIdx.x + half * across]});
        }
        __syncthreads();
        if (part == 0) {
            most[at] = state.most;
            sum[at] = state.sum;
        }
        __syncthreads();
        state = {most[at], sum[at]};
        const N number = row_number<ROWS>(state);
        if (inside)
#pragma unroll 4
            for (int64_t i = part; i < n; i += parts) {
                int64_t place = first + i * inner;
                out[place] = (T)row_result<ROWS, N>((N)x[place], is_gradient<ROWS> ? (N)dy[place] : (N)0, state.most, number);
            }
    }
}

/* ---------------------------------------------------------------- the choice */

template <KernelRows ROWS, class T, int THREADS, int HELD, int W> static cudaError_t held_launch(T *out, const T *x, const T *dy, int64_t nrows, int64_t n, cudaStream_t stream) {
    LAUNCH((rows_held<ROWS, T, THREADS, HELD, W>), blocks_for(nrows * THREADS, 1), BLOCK, 0, stream, out, x, dy, nrows, n);
    return cudaGetLastError();
}

template <KernelRows ROWS, class T, int W> static cudaError_t whole_rows(T *out, const T *x, const T *dy, int64_t nrows, int64_t n, cudaStream_t stream) {
    const int64_t accesses = n / W;
    enum { FOR_1024 = 1024 / WARP / W, FOR_4096 = 4096 / BLOCK / W };
    if (accesses <= WARP) return held_launch<ROWS, T, WARP, 1, W>(out, x, dy, nrows, n, stream);
    if (accesses <= 2 * WARP) return held_launch<ROWS, T, WARP, 2, W>(out, x, dy, nrows, n, stream);
    if (accesses <= 4 * WARP) return held_launch<ROWS, T, WARP, 4, W>(out, x, dy, nrows, n, stream);
    if (accesses <= FOR_1024 / 2 * WARP) return held_launch<ROWS, T, WARP, FOR_1024 / 2, W>(out, x, dy, nrows, n, stream);
    if (accesses <= FOR_1024 * WARP) return held_launch<ROWS, T, WARP, FOR_1024, W>(out, x, dy, nrows, n, stream);
    if (accesses <= FOR_4096 * BLOCK) return held_launch<ROWS, T, BLOCK, FOR_4096, W>(out, x, dy, nrows, n, stream);
    LAUNCH((rows_long<ROWS, T, W>), nrows > 1 << 20 ? 1u << 20 : (unsigned)nrows, LONG_ROW, 0, stream, out, x, dy, nrows, n);
    return cudaGetLastError();
}

template <KernelRows ROWS, class T> static cudaError_t rows_launch(void *out_, const void *x_, const void *dy_, int64_t outer, int64_t n, int64_t inner, cudaStream_t stream) {
    enum { W = 16 / sizeof(T) };
    T *out = (T *)out_;
    const T *x = (const T *)x_, *dy = (const T *)dy_;
    if (inner > 1) {
        int across = power_for(inner, WARP);
        int64_t tiles = outer * ((inner + across - 1) / across);
        LAUNCH((rows_apart<ROWS, T>), tiles > 1 << 20 ? 1u << 20 : (unsigned)tiles, BLOCK, 0, stream, out, x, dy, outer, n, inner, across);
        return cudaGetLastError();
    }
    bool wide = n % W == 0 && is_multiple(out, 16) && is_multiple(x, 16) && (!is_gradient<ROWS> || is_multiple(dy, 16));
    return wide ? whole_rows<ROWS, T, W>(out, x, dy, outer, n, stream) : whole_rows<ROWS, T, 1>(out, x, dy, outer, n, stream);
}

template <KernelRows ROWS> static cudaError_t rows_of_type(void *out, const void *x, const void *dy, int dtype, int64_t outer, int64_t n, int64_t inner, cudaStream_t stream) {
    WITH_REAL(dtype, T, return rows_launch<ROWS, T>(out, x, dy, outer, n, inner, stream))
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t kernels_rows(void *out, const void *x, const void *dy, KernelRows rows, int dtype, int64_t outer, int64_t n, int64_t inner, cudaStream_t stream) {
    switch (rows) {
    case ROWS_SOFTMAX: return rows_of_type<ROWS_SOFTMAX>(out, x, dy, dtype, outer, n, inner, stream);
    case ROWS_LOG_SOFTMAX: return rows_of_type<ROWS_LOG_SOFTMAX>(out, x, dy, dtype, outer, n, inner, stream);
    case ROWS_SOFTMAX_GRAD: return rows_of_type<ROWS_SOFTMAX_GRAD>(out, x, dy, dtype, outer, n, inner, stream);
    case ROWS_LOG_SOFTMAX_GRAD: return rows_of_type<ROWS_LOG_SOFTMAX_GRAD>(out, x, dy, dtype, outer, n, inner, stream);
    }
    return cudaErrorInvalidValue;
}
