/* lookup: elements looked up by integers. An index that means nothing, or whose element another rank has, reads and writes nothing: whatever numbers the data hold,
 * no memory outside the tensors is touched. */
#pragma once

/* Where in [begin, begin + length) index i is, less begin; -1: elsewhere. */
__device__ __forceinline__ int64_t index_at(const KernelIndex &index, int64_t i) {
    int64_t at = index.wide ? ((const int64_t *)index.data)[i] : (int64_t)((const int32_t *)index.data)[i];
    return at >= index.begin && at - index.begin < index.length ? at - index.begin : -1;
}

template <class T> __global__ void __launch_bounds__(BLOCK) pick_items(T *narrow, const T *wide, KernelIndex index) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < index.n; i += (int64_t)gridDim.x * BLOCK) {
        int64_t at = index_at(index, i);
        narrow[i] = at >= 0 ? wide[i * index.length + at] : 0;
    }
}

/* W items an access. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK) place_items(T *wide, const T *narrow, T value, KernelIndex index, int64_t n, KernelDivisor accesses, bool below_2_31) {
    struct alignas(sizeof(T) * W) Item {
        T at[W];
    };
    const int64_t row_accesses = index.length / W;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * BLOCK) {
        int64_t row = below_2_31 ? (int64_t)divide(accesses, (uint32_t)i) : i / row_accesses, first = (i - row * row_accesses) * W, at = index_at(index, row) - first;
        Item item;
        for (int l = 0; l < W; l++)
            item.at[l] = at == l && at + first >= 0 ? (narrow ? narrow[row] : value) : (T)0;
        ((Item *)wide)[i] = item;
    }
}

/* T: 2, 4, 8 or 16 bytes of a row, which has `width` of them. */
template <class T>
__global__ void __launch_bounds__(BLOCK) lookup_rows(T *rows, const T *table, KernelIndex index, int64_t width, KernelDivisor divisor, bool below_2_31) {
    const int64_t n = index.n * width, step = (int64_t)gridDim.x * BLOCK;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK + threadIdx.x; first < n; first += 4 * step) {
        T item[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = first + k * step;
            if (i >= n) continue;
            int64_t row = below_2_31 ? (int64_t)divide(divisor, (uint32_t)i) : i / width, at = index_at(index, row);
            item[k] = at >= 0 ? table[at * width + (i - row * width)] : T{};
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (first + k * step < n) rows[first + k * step] = item[k];
    }
}

extern "C" cudaError_t kernels_pick(void *narrow, const void *wide, const KernelIndex *index, int item_bytes, cudaStream_t stream) {
    if (index->n == 0) return cudaSuccess;
    unsigned blocks = blocks_for(index->n, 1);
    if (item_bytes == 8)
        LAUNCH((pick_items<uint64_t>), blocks, BLOCK, 0, stream, (uint64_t *)narrow, (const uint64_t *)wide, *index);
    else if (item_bytes == 2)
        LAUNCH((pick_items<uint16_t>), blocks, BLOCK, 0, stream, (uint16_t *)narrow, (const uint16_t *)wide, *index);
    else
        LAUNCH((pick_items<uint32_t>), blocks, BLOCK, 0, stream, (uint32_t *)narrow, (const uint32_t *)wide, *index);
    return cudaGetLastError();
}

template <class T> static cudaError_t place_launch(void *wide, const void *narrow, uint64_t bits, const KernelIndex *index, cudaStream_t stream) {
    enum { W = 16 / sizeof(T) };
    int w = index->length % W == 0 && is_multiple(wide, 16) ? W : 1;
    int64_t n = index->n * (index->length / w);
    KernelDivisor accesses = kernel_divisor(index->length / w);
    if (w > 1)
        LAUNCH((place_items<T, W>), blocks_for(n, 1), BLOCK, 0, stream, (T *)wide, (const T *)narrow, (T)bits, *index, n, accesses, n <= INT32_MAX);
    else
        LAUNCH((place_items<T, 1>), blocks_for(n, 1), BLOCK, 0, stream, (T *)wide, (const T *)narrow, (T)bits, *index, n, accesses, n <= INT32_MAX);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_place(void *wide, const void *narrow, uint64_t bits, const KernelIndex *index, int item_bytes, cudaStream_t stream) {
    if (index->n == 0 || index->length == 0) return cudaSuccess;
    switch (item_bytes) {
    case 8: return place_launch<uint64_t>(wide, narrow, bits, index, stream);
    case 4: return place_launch<uint32_t>(wide, narrow, bits, index, stream);
    case 2: return place_launch<uint16_t>(wide, narrow, bits, index, stream);
    default: return place_launch<uint8_t>(wide, narrow, bits, index, stream);
    }
}

extern "C" cudaError_t kernels_lookup(void *rows, const void *table, const KernelIndex *index, int64_t width, int item_bytes, cudaStream_t stream) {
    if (index->n == 0 || width == 0) return cudaSuccess;
    while (item_bytes < 16 && width % 2 == 0 && is_multiple(rows, 2 * item_bytes) && is_multiple(table, 2 * item_bytes)) {
        width /= 2;
        item_bytes *= 2;
    }
    int64_t n = index->n * width;
    KernelDivisor divisor = kernel_divisor(width);
    bool below_2_31 = n <= INT32_MAX;
    switch (item_bytes) {
    case 16: LAUNCH((lookup_rows<uint4>), blocks_for(n, 4), BLOCK, 0, stream, (uint4 *)rows, (const uint4 *)table, *index, width, divisor, below_2_31); break;
    case 8: LAUNCH((lookup_rows<uint64_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint64_t *)rows, (const uint64_t *)table, *index, width, divisor, below_2_31); break;
    case 2: LAUNCH((lookup_rows<uint16_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint16_t *)rows, (const uint16_t *)table, *index, width, divisor, below_2_31); break;
    default: LAUNCH((lookup_rows<uint32_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint32_t *)rows, (const uint32_t *)table, *index, width, divisor, below_2_31); break;
    }
    return cudaGetLastError();
}

/* ---------------------------------------------------------------- the gradient of a table */

/* A block has some rows of the table and some tiles of WARP columns. It goes through all indices, in their order, and notes those of its rows; whenever its notes are
 * full, and at the end, each pair of a row and a tile is added up by a warp, or by several that take equal parts of the notes and are added in their order. So no sum
 * depends on what runs when, nothing is sorted, and every element is written where it belongs. */
enum { TABLE_BLOCK = 512, TABLE_WARPS = TABLE_BLOCK / WARP, TABLE_EACH = 4, TABLE_WINDOW = TABLE_BLOCK * TABLE_EACH, TABLE_NOTES = 2 * TABLE_WINDOW, TABLE_ROWS = 64 };

/* The notes [begin, end) of one row, added up over one column. All lanes have the same notes. */
template <class T>
__device__ __forceinline__ double table_sum(const T *rows, int64_t width, int64_t column, const int64_t *token, const uint16_t *note_row, int row, int begin, int end) {
    enum { AHEAD = 8 };
    const int lane = threadIdx.x % WARP;
    int64_t ahead[AHEAD];
    int waiting = 0;
    double sum = 0;
    for (int first = begin; first < end; first += WARP) {
        unsigned mine = __ballot_sync(0xffffffffu, first + lane < end && note_row[first + lane] == row);
        while (mine) {
            ahead[waiting++] = token[first + __ffs((int)mine) - 1];
            mine &= mine - 1;
            if (waiting < AHEAD) continue;
            Number<T> x[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                x[k] = column < width ? (Number<T>)rows[ahead[k] * width + column] : (Number<T>)0;
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                sum += (double)x[k];
            waiting = 0;
        }
    }
    for (int k = 0; k < waiting; k++)
        sum += column < width ? (double)rows[ahead[k] * width + column] : 0;
    return sum;
}

template <class T> __global__ void __launch_bounds__(TABLE_BLOCK) table_gradient(T *table, const T *rows, KernelIndex index, int64_t width, int nrows, int ntiles) {
    __shared__ int64_t token[TABLE_NOTES];
    __shared__ uint16_t note_row[TABLE_NOTES];
    __shared__ int counts[TABLE_WARPS];
    __shared__ double partial[TABLE_BLOCK];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t first_row = (int64_t)blockIdx.x * nrows, first_tile = (int64_t)blockIdx.y * ntiles, tiles = (width + WARP - 1) / WARP;
    const int rows_here = index.length - first_row < nrows ? (int)(index.length - first_row) : nrows;
    const int tiles_here = tiles - first_tile < ntiles ? (int)(tiles - first_tile) : ntiles;
    const int pairs = rows_here * tiles_here, sharing = pairs >= TABLE_WARPS ? 1 : TABLE_WARPS / pairs, groups = TABLE_WARPS / sharing;
    int notes = 0;
    bool written = false;
    for (int64_t window = 0;; window += TABLE_WINDOW) {
        const bool end = window >= index.n;
        int at[TABLE_EACH], found = 0;
        for (int k = 0; k < TABLE_EACH; k++) {
            int64_t i = window + threadIdx.x * TABLE_EACH + k, row = i < index.n ? index_at(index, i) - first_row : -1;
            at[k] = row >= 0 && row < rows_here ? (int)row : -1;
            found += at[k] >= 0;
        }
        if (!end && __syncthreads_or(found) == 0) continue;
        if (!end) {
            int before = found; /* inclusive sums over the lanes, then over the warps */
            for (int d = 1; d < WARP; d *= 2) {
                int other = __shfl_up_sync(0xffffffffu, before, d);
                before += lane >= d ? other : 0;
            }
            if (lane == WARP - 1) counts[warp] = before;
            __syncthreads();
            int to = notes + before - found, total = 0;
            for (int w = 0; w < TABLE_WARPS; w++) {
                to += w < warp ? counts[w] : 0;
                total += counts[w];
            }
            for (int k = 0; k < TABLE_EACH; k++)
                if (at[k] >= 0) {
                    token[to] = window + threadIdx.x * TABLE_EACH + k;
                    note_row[to++] = (uint16_t)at[k];
                }
            notes += total;
            __syncthreads();
            if (notes + TABLE_WINDOW <= TABLE_NOTES) continue;
        }
        for (int first = 0; first < pairs; first += groups) {
            const int pair = first + warp / sharing, part = warp % sharing, each = (notes + sharing - 1) / sharing, row = pair / tiles_here;
            const bool inside = pair < pairs && warp / sharing < groups;
            const int64_t column = (first_tile + pair % tiles_here) * WARP + lane;
            double sum = 0;
            if (inside) sum = table_sum(rows, width, column, token, note_row, row, part * each, (part + 1) * each < notes ? (part + 1) * each : notes);
            if (sharing > 1) {
                __syncthreads();
                partial[threadIdx.x] = sum;
                __syncthreads();
                for (int p = 1; part == 0 && p < sharing && inside; p++)
                    sum += partial[threadIdx.x + p * WARP];
            }
            if (inside && part == 0 && column < width) {
                T *to = table + (first_row + row) * width + column;
                *to = (T)(written ? (double)*to + sum : sum);
            }
        }
        written = true;
        notes = 0;
        __syncthreads();
        if (end) return;
    }
}

template <class T> static cudaError_t table_launch(void *table, const void *rows, const KernelIndex *index, int64_t width, cudaStream_t stream) {
    const int64_t tiles = (width + WARP - 1) / WARP, want = 4 * (int64_t)processors();
    int64_t nrows = (index->length + want - 1) / want;
    if (nrows > TABLE_ROWS) nrows = TABLE_ROWS;
    const int64_t blocks = (index->length + nrows - 1) / nrows;
    int64_t columns = blocks < want ? want / blocks : 1; /* blocks that share rows */
    if (columns > tiles) columns = tiles;
    const int64_t ntiles = (tiles + columns - 1) / columns;
    dim3 grid((unsigned)blocks, (unsigned)((tiles + ntiles - 1) / ntiles));
    LAUNCH((table_gradient<T>), grid, TABLE_BLOCK, 0, stream, (T *)table, (const T *)rows, *index, width, (int)nrows, (int)ntiles);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_lookup_grad(void *table, const void *rows, const KernelIndex *index, int64_t width, int dtype, cudaStream_t stream) {
    if (index->length == 0 || width == 0) return cudaSuccess;
    WITH_REAL(dtype, T, return table_launch<T>(table, rows, index, width, stream))
    return cudaErrorInvalidValue;
}

/* ---------------------------------------------------------------- the update of a table by the rows that occur */

/* A block for each index. That of the first index of a row adds up, in the order of the indices, what the row gets, and updates it; all others end at once. */
template <class T> __global__ void __launch_bounds__(BLOCK) table_update_kernel(const __grid_constant__ TableUpdate update) {
    typedef Number<T> N;
    __shared__ uint8_t named[BLOCK];
    __shared__ double scalar[2]; /* the rate, with corrections */
    const int64_t own = blockIdx.x, row = index_at(update.index, own);
    int earlier = row < 0;
    for (int64_t i = threadIdx.x; i < own && !earlier; i += BLOCK)
        earlier = index_at(update.index, i) == row;
    if (__syncthreads_or(earlier)) return;
    if (threadIdx.x == 0) {
        scalar[0] = update.lr * (update.rate ? (double)*(const T *)update.rate : 1);
        if (update.m) {
            const double count = (double)*(const T *)update.count;
            scalar[0] *= sqrt(1 - pow(update.beta2, count)) / (1 - pow(update.beta1, count));
        }
    }
    const T *g = (const T *)update.g;
    for (int64_t begin = 0; begin < update.width; begin += BLOCK) {
        const int64_t column = begin + threadIdx.x;
        double sum = 0;
        for (int64_t window = own; window < update.index.n; window += BLOCK) {
            const int64_t i = window + threadIdx.x;
            const int here = i < update.index.n && index_at(update.index, i) == row;
            __syncthreads();
            named[threadIdx.x] = (uint8_t)here;
            if (!__syncthreads_or(here) || column >= update.width) continue;
            for (int k = 0; k < BLOCK; k++)
                if (named[k]) sum += (double)g[(window + k) * update.width + column];
        }
        if (column >= update.width) continue;
        const int64_t at = row * update.width + column;
        const N lr = (N)scalar[0], gradient = (N)sum;
        T *w = (T *)update.w + at;
        if (!update.m) {
            *w = (T)real_fma(-lr, gradient, (N)*w);
            continue;
        }
        T *m = (T *)update.m + at, *v = (T *)update.v + at;
        const N new_m = real_fma((N)(1 - update.beta1), gradient, (N)update.beta1 * (N)*m);
        const N new_v = real_fma((N)(1 - update.beta2) * gradient, gradient, (N)update.beta2 * (N)*v);
        *m = (T)new_m;
        *v = (T)new_v;
        *w = (T)real_fma(-lr, new_m / (real_sqrt(new_v) + (N)update.eps), (N)*w);
    }
}

extern "C" cudaError_t kernels_table_update(const TableUpdate *update, cudaStream_t stream) {
    if (update->index.n == 0 || update->width == 0) return cudaSuccess;
    WITH_REAL(update->dtype, T, LAUNCH((table_update_kernel<T>), (unsigned)update->index.n, BLOCK, 0, stream, *update))
    return cudaGetLastError();
}
