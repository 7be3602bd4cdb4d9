/* norm: layer_norm, rms_norm and their gradients over contiguous rows. A row is a warp's, or a block's where it is long, whose threads hold it in registers unless it is
 * very long. The gradients of weight and bias are sums over rows: a second kernel adds them up. Every sum is of doubles, in one order, which follows from sizes alone. */
#pragma once

/* All of the THREADS threads of a row get the sum. */
template <int THREADS> __device__ __forceinline__ double norm_sum(double sum) {
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if constexpr (THREADS > WARP) {
        __shared__ double warps[BLOCK / WARP];
        __syncthreads();
        if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = sum;
        __syncthreads();
        sum = warps[0];
        for (int w = 1; w < THREADS / WARP; w++)
            sum += warps[w];
    }
    return sum;
}

/* Rows by THREADS threads each, in accesses of W elements, of which a thread holds up to HELD; 0: a row is read again whenever it is needed. */
template <class T, int THREADS, int HELD, int W, bool GRADIENT> __global__ void __launch_bounds__(BLOCK) norm_rows(const __grid_constant__ NormCall norm) {
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    enum { EACH = BLOCK / THREADS };
    const bool centered = norm.mean != NULL;
    const int lane = threadIdx.x % THREADS;
    const int64_t items = norm.n / W;
    const double length = (double)norm.n;
    const Item *weights = (const Item *)norm.weight, *biases = (const Item *)norm.bias;
    for (int64_t base = (int64_t)blockIdx.x * EACH; base < norm.rows; base += (int64_t)gridDim.x * EACH) {
        const int64_t row = base + threadIdx.x / THREADS, n = row < norm.rows ? items : 0, at = n > 0 ? row * items : 0;
        const Item *x = (const Item *)norm.x + at, *dy = (const Item *)norm.dy + at;
        Item *out = (Item *)norm.out + at, held[HELD > 0 ? HELD : 1], grad[HELD > 0 ? HELD : 1];
        N mean = 0, root = 0;
#pragma unroll
        for (int h = 0; h < HELD; h++)
            if (lane + h * THREADS < n) {
                held[h] = x[lane + h * THREADS];
                if constexpr (GRADIENT) grad[h] = dy[lane + h * THREADS];
            }
/* For each access k of this thread: a of x, b of dy. */
#define EACH_ITEM(...)                                                                                                                     \
    if constexpr (HELD > 0) {                                                                                                              \
        _Pragma("unroll") for (int h = 0; h < HELD; h++) {                                                                                 \
            const int k = lane + h * THREADS;                                                                                              \
            const Item &a = held[h], &b = grad[h];                                                                                         \
            (void)b;                                                                                                                       \
            if (k < n) __VA_ARGS__                                                                                                         \
        }                                                                                                                                  \
    } else {                                                                                                                               \
        _Pragma("unroll 2") for (int64_t k = lane; k < n; k += THREADS) {                                                                  \
            const Item a = x[k], b = GRADIENT ? dy[k] : a;                                                                                 \
            (void)b;                                                                                                                       \
            __VA_ARGS__                                                                                                                    \
        }                                                                                                                                  \
    }
        if constexpr (GRADIENT) {
            if (centered && n > 0) mean = ((const N *)norm.mean)[row];
            if (n > 0) root = ((const N *)norm.root)[row];
            double all = 0, along = 0;
            EACH_ITEM({
                const Item weight = weights[k];
                for (int l = 0; l < W; l++) {
                    const N g = (N)b.at[l] * (N)weight.at[l];
                    all += (double)g;
                    along += (double)g * (double)(((N)a.at[l] - mean) * root);
                }
            })
            const N share = (N)(norm_sum<THREADS>(along) / length), shift = centered ? (N)(norm_sum<THREADS>(all) / length) : (N)0;
            EACH_ITEM({
                const Item weight = weights[k];
                Item result;
                for (int l = 0; l < W; l++)
                    result.at[l] = (T)(((N)b.at[l] * (N)weight.at[l] - ((N)a.at[l] - mean) * root * share - shift) * root);
                out[k] = result;
            })
        } else {
            double sum = 0;
            if (centered) {
                EACH_ITEM({
                    for (int l = 0; l < W; l++)
                        sum += (double)a.at[l];
                })
                mean = (N)(norm_sum<THREADS>(sum) / length);
            }
            sum = 0;
            EACH_ITEM({
                for (int l = 0; l < W; l++)
                    sum += (double)((N)a.at[l] - mean) * (double)((N)a.at[l] - mean);
            })
            root = (N)(1 / sqrt(norm_sum<THREADS>(sum) / length + norm.eps));
            EACH_ITEM({
                const Item weight = weights[k], bias = centered ? biases[k] : weight;
                Item result;
                for (int l = 0; l < W; l++)
                    result.at[l] = (T)(((N)a.at[l] - mean) * root * (N)weight.at[l] + (centered ? (N)bias.at[l] : (N)0));
                out[k] = result;
            })
            if (lane == 0 && n > 0) {
                if (centered) ((N *)norm.mean)[row] = mean;
                ((N *)norm.root)[row] = root;
            }
        }
#undef EACH_ITEM
    }
}

/* The gradients of weight and bias: as reduce_columns, W columns a thread, with the rows in parts. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK) norm_columns(const __grid_constant__ NormCall norm, const __grid_constant__ ReduceColumns by, const __grid_constant__ ReduceParts parts) {
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    typedef SumOf<double> Sum;
    enum { AHEAD = 2 }; /* rows under way */
    const int across = by.across, x = threadIdx.x % across, y = threadIdx.x / across, down = BLOCK / across;
    const int64_t items = norm.n / W;
    for (int64_t tile = blockIdx.x; tile < by.ntiles; tile += gridDim.x) {
        const int64_t column = tile * across + x, begin = blockIdx.y * by.each, end = begin + by.each < norm.rows ? begin + by.each : norm.rows;
        const bool inside = column < items;
        double sums[2 * W]; /* of the weight, then of the bias */
        for (int l = 0; l < 2 * W; l++)
            sums[l] = 0;
        for (int64_t row = begin + y; inside && row < end; row += AHEAD * down) {
            Item held[AHEAD], grad[AHEAD];
            N mean[AHEAD], root[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                const int64_t at = row + k * down;
                if (at >= end) continue;
                held[k] = ((const Item *)norm.x)[at * items + column];
                grad[k] = ((const Item *)norm.dy)[at * items + column];
                mean[k] = norm.mean ? ((const N *)norm.mean)[at] : (N)0;
                root[k] = ((const N *)norm.root)[at];
            }
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                for (int l = 0; l < W; l++) {
                    if (row + k * down >= end) continue;
                    const N dy = (N)grad[k].at[l];
                    sums[l] += (double)(dy * (((N)held[k].at[l] - mean[k]) * root[k]));
                    sums[W + l] += (double)dy;
                }
        }
        reduce_down<Sum, 2 * W>(sums, across);
        if (!reduce_across_blocks<Sum, 2 * W>(sums, across, parts, tile) || !inside || y != 0) continue;
        for (int l = 0; l < W; l++) {
            ((T *)norm.dweight)[column * W + l] = (T)sums[l];
            if (norm.dbias) ((T *)norm.dbias)[column * W + l] = (T)sums[W + l];
        }
    }
}

/* A row of accesses of W elements goes to a warp or a block that can hold it. */
template <class T, int W, bool GRADIENT> static cudaError_t norm_rows_launch(const NormCall &norm, cudaStream_t stream) {
    const int64_t items = norm.n / W;
    const unsigned warps = blocks_for(norm.rows * WARP, 1), blocks = blocks_for(norm.rows * BLOCK, 1);
    if (items <= 2 * WARP)
        LAUNCH((norm_rows<T, WARP, 2, W, GRADIENT>), warps, BLOCK, 0, stream, norm);
    else if (items <= 4 * WARP)
        LAUNCH((norm_rows<T, WARP, 4, W, GRADIENT>), warps, BLOCK, 0, stream, norm);
    else if (items <= BLOCK)
        LAUNCH((norm_rows<T, BLOCK, 1, W, GRADIENT>), blocks, BLOCK, 0, stream, norm);
    else if (items <= 4 * BLOCK)
        LAUNCH((norm_rows<T, BLOCK, 4, W, GRADIENT>), blocks, BLOCK, 0, stream, norm);
    else
        LAUNCH((norm_rows<T, BLOCK, 0, W, GRADIENT>), blocks, BLOCK, 0, stream, norm);
    return cudaGetLastError();
}

template <class T, int W> static cudaError_t norm_columns_launch(const NormCall &norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    const int64_t items = norm.n / W;
    const int across = power_for(items, WARP);
    const int64_t tiles = (items + across - 1) / across;
    const int parts = reduce_parts(tiles, norm.rows, 4 * BLOCK / across, tiles * across * 2 * W * (int64_t)sizeof(double), scratch_bytes);
    const ReduceColumns by = {across, tiles, tiles, (norm.rows + parts - 1) / parts};
    const ReduceParts of = {(unsigned *)scratch, (char *)scratch + SCRATCH_COUNTERS * sizeof(unsigned), parts};
    LAUNCH((norm_columns<T, W>), dim3(tiles > 1 << 20 ? 1u << 20 : (unsigned)tiles, (unsigned)parts), BLOCK, 0, stream, norm, by, of);
    return cudaGetLastError();
}

/* Scratch memory: counters, and partial sums. */
template <class T> static cudaError_t norm_launch(const NormCall &norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    enum { W = 16 / sizeof(T), SIDE = W < 4 ? W : 4 /* columns a thread, for the room that their sums take */ };
    const bool wide = norm.n % W == 0 && is_multiple(norm.x, 16) && is_multiple(norm.out, 16) && is_multiple(norm.weight, 16) && (!norm.dy || is_multiple(norm.dy, 16)) &&
                      (!norm.bias || is_multiple(norm.bias, 16));
    cudaError_t status = cudaSuccess;
    if (norm.rows > 0 && norm.dy)
        status = wide ? norm_rows_launch<T, W, true>(norm, stream) : norm_rows_launch<T, 1, true>(norm, stream);
    else if (norm.rows > 0)
        status = wide ? norm_rows_launch<T, W, false>(norm, stream) : norm_rows_launch<T, 1, false>(norm, stream);
    if (!norm.dy || status != cudaSuccess) return status;
    return wide ? norm_columns_launch<T, SIDE>(norm, scratch, scratch_bytes, stream) : norm_columns_launch<T, 1>(norm, scratch, scratch_bytes, stream);
}

extern "C" cudaError_t kernels_norm(const NormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    WITH_REAL(norm->dtype, T, return norm_launch<T>(*norm, scratch, scratch_bytes, stream))
    return cudaErrorInvalidValue;
}
