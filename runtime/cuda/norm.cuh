/* norm: layer_norm, rms_norm and their gradients over contiguous rows. A row is a warp's, or a block's where it is long. The gradients of weight and bias are sums over
 * rows: a second kernel adds them up. Every sum is of doubles, in one order, which follows from sizes alone. */
#pragma once

enum { LONG_NORM = 1024 };

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

template <class T, int THREADS> __global__ void __launch_bounds__(BLOCK) norm_rows(const __grid_constant__ NormCall norm) {
    typedef Number<T> N;
    enum { EACH = BLOCK / THREADS };
    const bool gradient = norm.dy != NULL, centered = norm.mean != NULL;
    const int lane = threadIdx.x % THREADS;
    const double length = (double)norm.n;
    const T *weight = (const T *)norm.weight, *bias = (const T *)norm.bias;
    for (int64_t base = (int64_t)blockIdx.x * EACH; base < norm.rows; base += (int64_t)gridDim.x * EACH) {
        const int64_t row = base + threadIdx.x / THREADS, n = row < norm.rows ? norm.n : 0, at = n > 0 ? row * norm.n : 0;
        const T *x = (const T *)norm.x + at;
        T *out = (T *)norm.out + at;
        N mean = 0, root = 0;
        if (gradient) {
            const T *dy = (const T *)norm.dy + at;
            if (centered && n > 0) mean = ((const N *)norm.mean)[row];
            if (n > 0) root = ((const N *)norm.root)[row];
            double all = 0, along = 0;
            for (int64_t k = lane; k < n; k += THREADS) {
                const N g = (N)dy[k] * (N)weight[k];
                all += (double)g;
                along += (double)g * (double)(((N)x[k] - mean) * root);
            }
            const N share = (N)(norm_sum<THREADS>(along) / length), shift = centered ? (N)(norm_sum<THREADS>(all) / length) : (N)0;
            for (int64_t k = lane; k < n; k += THREADS)
                out[k] = (T)(((N)dy[k] * (N)weight[k] - ((N)x[k] - mean) * root * share - shift) * root);
            continue;
        }
        double sum = 0;
        if (centered) {
            for (int64_t k = lane; k < n; k += THREADS)
                sum += (double)x[k];
            mean = (N)(norm_sum<THREADS>(sum) / length);
        }
        sum = 0;
        for (int64_t k = lane; k < n; k += THREADS)
            sum += (double)((N)x[k] - mean) * (double)((N)x[k] - mean);
        root = (N)(1 / sqrt(norm_sum<THREADS>(sum) / length + norm.eps));
        for (int64_t k = lane; k < n; k += THREADS)
            out[k] = (T)(((N)x[k] - mean) * root * (N)weight[k] + (centered ? (N)bias[k] : (N)0));
        if (lane == 0 && n > 0) {
            if (centered) ((N *)norm.mean)[row] = mean;
            ((N *)norm.root)[row] = root;
        }
    }
}

/* The gradients of weight and bias: a warp's columns a block, whose other threads divide the rows among them, as blocks do that share the columns (y of the grid). */
template <class T>
__global__ void __launch_bounds__(BLOCK) norm_columns(const __grid_constant__ NormCall norm, ReduceParts parts) {
    typedef Number<T> N;
    enum { DOWN = BLOCK / WARP };
    __shared__ double sums[2][BLOCK];
    const int x = threadIdx.x % WARP, y = threadIdx.x / WARP;
    const int64_t n = norm.n, tiles = (n + WARP - 1) / WARP, each = (norm.rows + parts.parts - 1) / parts.parts;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t column = tile * WARP + x, begin = blockIdx.y * each, end = begin + each < norm.rows ? begin + each : norm.rows;
        const bool inside = column < n;
        double dweight = 0, dbias = 0;
        if (inside)
            for (int64_t row = begin + y; row < end; row += DOWN) {
                const N dy = (N)((const T *)norm.dy)[row * n + column];
                dweight += (double)(dy * (((N)((const T *)norm.x)[row * n + column] - (norm.mean ? ((const N *)norm.mean)[row] : (N)0)) * ((const N *)norm.root)[row]));
                dbias += (double)dy;
            }
        for (int half = DOWN / 2; half > 0; half /= 2) { /* rows y and y + half are added, as a tree */
            __syncthreads();
            sums[0][threadIdx.x] = dweight;
            sums[1][threadIdx.x] = dbias;
            __syncthreads();
            if (y < half) {
                dweight += sums[0][threadIdx.x + half * WARP];
                dbias += sums[1][threadIdx.x + half * WARP];
            }
        }
        if (parts.parts > 1) {
            double *partial = (double *)parts.partial + tile * parts.parts * 2 * WARP;
            if (y == 0) {
                partial[blockIdx.y * 2 * WARP + x] = dweight;
                partial[blockIdx.y * 2 * WARP + WARP + x] = dbias;
            }
            if (!last_to_come(parts.counter + tile, parts.parts)) continue;
            dweight = dbias = 0;
            if (y == 0)
                for (int p = 0; p < parts.parts; p++) {
                    dweight += __ldcg(partial + p * 2 * WARP + x);
                    dbias += __ldcg(partial + p * 2 * WARP + WARP + x);
                }
        }
        if (!inside || y != 0) continue;
        ((T *)norm.dweight)[column] = (T)dweight;
        if (norm.dbias) ((T *)norm.dbias)[column] = (T)dbias;
    }
}

/* Scratch memory: counters, and partial sums. */
template <class T> static cudaError_t norm_launch(const NormCall &norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    if (norm.rows > 0 && norm.n <= LONG_NORM)
        LAUNCH((norm_rows<T, WARP>), blocks_for(norm.rows * WARP, 1), BLOCK, 0, stream, norm);
    else if (norm.rows > 0)
        LAUNCH((norm_rows<T, BLOCK>), blocks_for(norm.rows * BLOCK, 1), BLOCK, 0, stream, norm);
    const cudaError_t status = cudaGetLastError();
    if (!norm.dy || status != cudaSuccess) return status;
    const int64_t counters = SCRATCH_COUNTERS * (int64_t)sizeof(unsigned), tiles = (norm.n + WARP - 1) / WARP;
    int64_t want = 8 * (int64_t)processors() / tiles, most = norm.rows / 64, fits = (scratch_bytes - counters) / (tiles * 2 * WARP * (int64_t)sizeof(double));
    want = want < most ? want : most;
    want = want < fits ? want : fits;
    const int parts = tiles > SCRATCH_COUNTERS || want < 1 ? 1 : (int)want;
    dim3 grid(tiles > 1 << 20 ? 1u << 20 : (unsigned)tiles, (unsigned)parts);
    LAUNCH((norm_columns<T>), grid, BLOCK, 0, stream, norm, ReduceParts{(unsigned *)scratch, (char *)scratch + counters, parts});
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_norm(const NormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    WITH_REAL(norm->dtype, T, return norm_launch<T>(*norm, scratch, scratch_bytes, stream))
    return cudaErrorInvalidValue;
}
