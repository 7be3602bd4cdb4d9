/* attention: attention, what it is taken apart into, and its gradient. In tiles, where widths are up to 128 and numbers are no doubles: a block has 64 queries (of the gradients
 * of keys and values 64 keys), 16 a warp, and goes through all keys (queries), up to 64 at a time, whose scores are in registers and never in memory (Dao et al. 2022). How tiles
 * are multiplied, by tensor cores or not, is tensor.cuh's affair. Sums are of floats. Else plainly: a block a query, whose threads divide the keys for scores and the width of the
 * values for products; of the gradient a block a query and a block a key. Every sum has one order, which follows from sizes alone. */
#pragma once

/* ---------------------------------------------------------------- plainly */

__device__ __forceinline__ bool attention_sees(const AttentionCall &a, int64_t query, int64_t j) {
    if (a.causal && j > a.before + query % a.m) return false;
    if (a.mask == NULL) return true;
    int64_t at = query % a.m * a.mask_m + j * a.mask_n, head = query / a.m;
    for (int d = a.mask_ndim - 1; d >= 0; d--) {
        at += head % a.mask_size[d] * a.mask_stride[d];
        head /= a.mask_size[d];
    }
    return a.mask[at] != 0;
}

template <class T> __device__ __forceinline__ double attention_dot(const void *x, int64_t i, const void *y, int64_t j, int64_t width) {
    double sum = 0;
    for (int64_t k = 0; k < width; k++)
        sum += (double)((const T *)x)[i * width + k] * (double)((const T *)y)[j * width + k];
    return sum;
}

__device__ __forceinline__ int64_t attention_key(const AttentionCall &a, int64_t query, int64_t j) {
    return query / (a.m * a.group) * a.n + j;
}

template <class T> __device__ __forceinline__ double attention_score(const AttentionCall &a, int64_t query, int64_t j) {
    return attention_sees(a, query, j) ? a.scale * attention_dot<T>(a.q, query, a.k, attention_key(a, query, j), a.d) : -INFINITY;
}

/* -infinity where a query sees nothing, beside which exp(-infinity) is 0. */
__device__ __forceinline__ double attention_power(double score, double most) {
    return score == -INFINITY ? 0 : exp(score - most);
}

/* All threads of the block get the largest, or the sum, of what each has. room: BLOCK doubles. */
__device__ __forceinline__ double attention_gather(double own, bool largest, double *room) {
    __syncthreads();
    room[threadIdx.x] = own;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) {
            const double other = room[threadIdx.x + half];
            room[threadIdx.x] = !largest ? room[threadIdx.x] + other : other > room[threadIdx.x] ? other : room[threadIdx.x];
        }
    }
    __syncthreads();
    const double all = room[0];
    __syncthreads();
    return all;
}

/* An element of y, or of attention_sums a term of one. */
template <class T> __device__ __forceinline__ void attention_put(const AttentionCall &a, int64_t at, Number<T> number) {
    if (a.given != NULL)
        ((Number<T> *)a.y)[at] = number;
    else
        ((T *)a.y)[at] = (T)number;
}

/* most, sum, y: results, NULL where there is none; given: the largest scores, of attention_sums. */
template <class T> __global__ void __launch_bounds__(BLOCK) attention_rows(const __grid_constant__ AttentionCall a) {
    __shared__ double room[BLOCK];
    for (int64_t query = blockIdx.x; query < a.queries; query += gridDim.x) {
        double most = -INFINITY, sum = 0;
        if (a.given == NULL) {
            for (int64_t j = threadIdx.x; j < a.n; j += BLOCK) {
                const double score = attention_score<T>(a, query, j);
                most = score > most ? score : most;
            }
            most = (double)(Number<T>)attention_gather(most, true, room);
            if (threadIdx.x == 0) ((Number<T> *)a.most)[query] = (Number<T>)most;
        } else {
            most = (double)((const Number<T> *)a.given)[query];
        }
        if (a.sum == NULL) continue;
        for (int64_t j = threadIdx.x; j < a.n; j += BLOCK)
            sum += attention_power(attention_score<T>(a, query, j), most);
        sum = attention_gather(sum, false, room);
        if (threadIdx.x == 0) ((Number<T> *)a.sum)[query] = (Number<T>)sum;
        for (int64_t first = 0; first < a.e; first += BLOCK) {
            const int64_t x = first + threadIdx.x;
            double product = 0;
            for (int64_t tile = 0; tile < a.n; tile += BLOCK) {
                const int64_t j = tile + threadIdx.x, left = a.n - tile < BLOCK ? a.n - tile : (int64_t)BLOCK;
                __syncthreads();
                room[threadIdx.x] = j < a.n ? attention_power(attention_score<T>(a, query, j), most) : 0;
                __syncthreads();
                for (int64_t k = 0; k < left && x < a.e; k++)
                    product += room[k] * (double)((const T *)a.v)[attention_key(a, query, tile + k) * a.e + x];
            }
            if (x < a.e) attention_put<T>(a, query * a.e + x, a.given != NULL ? product : sum == 0 ? 0 : product / sum);
        }
        __syncthreads();
    }
}

/* p of a query and a key, and the slope of its score. */
template <class T> __device__ __forceinline__ double attention_slope(const AttentionCall &a, int64_t query, int64_t j, double *p) {
    const double sum = (double)((const Number<T> *)a.sum)[query];
    *p = sum == 0 ? 0 : attention_power(attention_score<T>(a, query, j), (double)((const Number<T> *)a.most)[query]) / sum;
    if (*p == 0) return 0;
    const double moved = attention_dot<T>(a.dy, query, a.v, attention_key(a, query, j), a.e) - attention_dot<T>(a.dy, query, a.y, query, a.e);
    return *p * moved * a.scale;
}

template <class T> __global__ void __launch_bounds__(BLOCK) attention_queries_grad(const __grid_constant__ AttentionCall a) {
    __shared__ double room[BLOCK];
    for (int64_t query = blockIdx.x; query < a.queries; query += gridDim.x)
        for (int64_t first = 0; first < a.d; first += BLOCK) {
            const int64_t x = first + threadIdx.x;
            double sum = 0, p;
            for (int64_t tile = 0; tile < a.n; tile += BLOCK) {
                const int64_t j = tile + threadIdx.x, left = a.n - tile < BLOCK ? a.n - tile : (int64_t)BLOCK;
                __syncthreads();
                room[threadIdx.x] = j < a.n ? attention_slope<T>(a, query, j, &p) : 0;
                __syncthreads();
                for (int64_t k = 0; k < left && x < a.d; k++)
                    sum += room[k] * (double)((const T *)a.k)[attention_key(a, query, tile + k) * a.d + x];
            }
            if (x < a.d) ((T *)a.dq)[query * a.d + x] = (T)sum;
            __syncthreads();
        }
}

/* keys: of all heads. The queries of a key are those of its head, in a row. */
template <class T> __global__ void __launch_bounds__(BLOCK) attention_keys_grad(const __grid_constant__ AttentionCall a) {
    __shared__ double slopes[BLOCK], powers[BLOCK];
    const int64_t each = a.m * a.group, width = a.d > a.e ? a.d : a.e;
    for (int64_t key = blockIdx.x; key < a.keys; key += gridDim.x)
        for (int64_t first = 0; first < width; first += BLOCK) {
            const int64_t x = first + threadIdx.x, begin = key / a.n * each;
            double dk = 0, dv = 0;
            for (int64_t tile = 0; tile < each; tile += BLOCK) {
                const int64_t i = tile + threadIdx.x, left = each - tile < BLOCK ? each - tile : (int64_t)BLOCK;
                double p = 0;
                __syncthreads();
                slopes[threadIdx.x] = i < each ? attention_slope<T>(a, begin + i, key % a.n, &p) : 0;
                powers[threadIdx.x] = p;
                __syncthreads();
                for (int64_t k = 0; k < left; k++) {
                    const int64_t query = begin + tile + k;
                    if (x < a.d) dk += slopes[k] * (double)((const T *)a.q)[query * a.d + x];
                    if (x < a.e) dv += powers[k] * (double)((const T *)a.dy)[query * a.e + x];
                }
            }
            if (x < a.d) ((T *)a.dk)[key * a.d + x] = (T)dk;
            if (x < a.e) ((T *)a.dv)[key * a.e + x] = (T)dv;
            __syncthreads();
        }
}

/* ---------------------------------------------------------------- tiles */

/* Tiles of W columns, which are multiplied by P: a block's own rows, and those that it goes through. As many as fit 48 KiB of shared memory: of a gradient two of either. KEPT: own rows
 * are held in registers, and their tiles are the others' then. */
template <class P, int W, bool GRADIENT> struct Tile {
    static constexpr bool KEPT = W <= 64 && (P::KEPT || !GRADIENT);
    enum { STRIDE = W + P::PAD, BYTES = STRIDE * sizeof(typename P::Element) };
    enum { WARPS = BYTES > 512 ? 2 : 4, THREADS = WARPS * WARP, OWN = 16 * WARPS, ALL = BYTES > 512 ? 16 : BYTES > 256 ? 32 : 64, OTHER = GRADIENT && ALL < 64 && !KEPT ? ALL / 2 : ALL };
    enum { N = OTHER / 8, M = W / 8 };
    enum { ROOM = (KEPT ? (OWN > OTHER ? OWN : OTHER) : OWN + OTHER) * STRIDE, OTHERS = KEPT ? 0 : OWN * STRIDE }; /* of one of either, and where the other's begins */
    typedef typename P::template Rows<STRIDE, W, KEPT> Rows;
};

/* `there` rows of `width` elements each into a tile of ROWS, whose other elements become 0. */
template <class P, int W, int ROWS, int THREADS, class T> __device__ __forceinline__ void tile_load(typename P::Element *to, const T *from, int64_t there, int width) {
    typedef typename P::Element Element;
    enum { STRIDE = W + P::PAD, V = 16 / sizeof(T), ACROSS = W / V };
    struct alignas(16) Items {
        Element at[V];
    };
    if (width % V == 0 && (uintptr_t)from % 16 == 0) {
#pragma unroll 4
        for (int i = threadIdx.x; i < ROWS * ACROSS; i += THREADS) {
            const int row = i / ACROSS, column = i % ACROSS * V;
            Pack<T> pack = {};
            if (row < there && column < width) pack = *(const Pack<T> *)(from + row * width + column);
            Items items;
#pragma unroll
            for (int k = 0; k < V; k++)
                items.at[k] = P::element(pack.at[k]);
            *(Items *)(to + row * STRIDE + column) = items;
        }
        return;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * W; i += THREADS) {
        const int row = i / W, column = i % W;
        to[row * STRIDE + column] = P::element(row < there && column < width ? from[row * width + column] : T(0.0f));
    }
}

/* The four lanes of a row get the largest, or the sum, of what each has. */
__device__ __forceinline__ float tile_gather(float own, bool largest) {
#pragma unroll
    for (int lane = 2; lane > 0; lane /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, own, lane);
        own = !largest ? own + other : other > own ? other : own;
    }
    return own;
}

/* A query of all: which keys it sees. */
struct TileQuery {
    int64_t last; /* the last key; -1: none */
    int64_t mask; /* where its row of the mask begins */
};
__device__ __forceinline__ TileQuery tile_query(const AttentionCall &a, int64_t query) {
    const int64_t i = query % a.m;
    int64_t head = query / a.m;
    TileQuery own = {a.causal && a.before + i < a.n ? a.before + i : a.n - 1, i * a.mask_m};
    for (int d = a.mask_ndim - 1; d >= 0; d--) {
        own.mask += head % a.mask_size[d] * a.mask_stride[d];
        head /= a.mask_size[d];
    }
    return own;
}
/* Whether it sees key j + i, of few i. */
__device__ __forceinline__ bool tile_sees(const AttentionCall &a, const TileQuery &query, int64_t j, int i) {
    const int64_t left = query.last - j;
    return i <= (left < INT32_MAX ? (int)left : INT32_MAX) && (a.mask == NULL || (a.mask + query.mask + j * a.mask_n)[i * a.mask_n] != 0);
}

/* Whether each of the queries of a head from this one on sees each of the keys up to `end`. */
__device__ __forceinline__ bool tile_whole(const AttentionCall &a, int64_t query, int64_t end) {
    return a.mask == NULL && end <= a.n && (!a.causal || end - 1 <= a.before + query);
}

/* Keys that some of `rows` queries of one head may see, from the first on. */
__device__ __forceinline__ int64_t tile_end(const AttentionCall &a, int64_t first, int rows) {
    const int64_t end = a.causal ? a.before + first + rows : a.n;
    return end < a.n ? end : a.n;
}

/* The tile that a block takes as number `i`: what is causal has most to do at the end, and goes first. */
__device__ __forceinline__ int64_t tile_turn(const AttentionCall &a, int64_t i, int64_t tiles) {
    return a.causal ? tiles - 1 - i % tiles : i % tiles;
}

/* As attention_rows. Scores are in units of P's power. */
template <class P, int W, class T> __global__ void __launch_bounds__(Tile<P, W, false>::THREADS, Tile<P, W, false>::BYTES > 256 ? 1 : 3) attention_tiles(const __grid_constant__ AttentionCall a) {
    typedef Tile<P, W, false> Tl;
    enum { OWN = Tl::OWN, OTHER = Tl::OTHER, STRIDE = Tl::STRIDE, N = Tl::N, M = Tl::M, THREADS = Tl::THREADS };
    __shared__ __align__(16) typename P::Element queries[OWN * STRIDE], keys[OTHER * STRIDE], values[OTHER * STRIDE];
    __shared__ TileQuery seen[OWN]; /* few tiles are asked for it: no registers are spent on it */
    const int warp = threadIdx.x / WARP * 16, row = warp + tile_row(), column = tile_column();
    const int64_t tiles = (a.m + OWN - 1) / OWN, ntiles = a.queries / a.m * tiles;
    const float scale = (float)a.scale * P::UNIT;
    for (int64_t tile = blockIdx.x; tile < ntiles; tile += gridDim.x) {
        const int64_t head = tile / tiles, first = tile_turn(a, tile, tiles) * OWN, query = head * a.m + first, key = head / a.group * a.n, end = tile_end(a, first, OWN), left = a.m - first;
        typename Tl::Rows rows;
        float y[M][4] = {}, most[2], sum[2] = {};
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int64_t at = query + (row + 8 * h < left ? row + 8 * h : 0);
            most[h] = a.given ? P::UNIT * (float)((const Number<T> *)a.given)[at] : -(float)INFINITY;
        }
        __syncthreads(); /* what was there has been read */
        tile_load<P, W, OWN, THREADS>(queries, (const T *)a.q + query * a.d, left, (int)a.d);
        for (int i = threadIdx.x; i < OWN; i += THREADS)
            seen[i] = tile_query(a, query + (i < left ? i : 0));
        __syncthreads();
        rows.load(queries + warp * STRIDE);
        for (int64_t j = 0; j < end; j += OTHER) {
            float score[N][4] = {};
            __syncthreads();
            tile_load<P, W, OTHER, THREADS>(keys, (const T *)a.k + (key + j) * a.d, a.n - j, (int)a.d);
            if (a.sum) tile_load<P, W, OTHER, THREADS>(values, (const T *)a.v + (key + j) * a.e, a.n - j, (int)a.e);
            __syncthreads();
            P::template scores<STRIDE, W>(score, rows, keys, (int)a.d);
#pragma unroll
            for (int i = 0; i < 4 * N; i++)
                score[i / 4][i % 4] *= scale;
            if (!tile_whole(a, first, j + OTHER)) { /* apart: what is asked of each number would stand between those of all */
#pragma unroll
                for (int i = 0; i < 4 * N; i++)
                    if (!tile_sees(a, seen[row + i % 4 / 2 * 8], j, i / 4 * 8 + column + i % 2)) score[i / 4][i % 4] = -(float)INFINITY;
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float highest = -(float)INFINITY, added = 0;
#pragma unroll
                for (int i = 0; i < 2 * N; i++)
                    highest = fmaxf(highest, score[i / 2][2 * h + i % 2]);
                highest = a.given ? most[h] : fmaxf(most[h], tile_gather(highest, true));
                const float from = highest == -(float)INFINITY ? 0 : highest, shrink = P::power(most[h] - from); /* nothing was seen: powers are 0 */
#pragma unroll
                for (int i = 0; i < 2 * N; i++) {
                    float &power = score[i / 2][2 * h + i % 2];
                    power = P::power(power - from);
                    added += power;
                }
                sum[h] = sum[h] * shrink + added;
                most[h] = highest;
#pragma unroll
                for (int c = 0; c < 2 * M; c++)
                    y[c / 2][2 * h + c % 2] *= shrink;
            }
            if (a.sum) P::template product<STRIDE>(y, score, values, (int)a.e);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float all = tile_gather(sum[h], false), share = a.given ? 1 : all == 0 ? 0 : 1 / all;
            const int64_t at = query + row + 8 * h;
            if (row + 8 * h >= left) continue;
            if (column == 0 && !a.given) ((Number<T> *)a.most)[at] = most[h] / P::UNIT;
            if (column == 0 && a.sum) ((Number<T> *)a.sum)[at] = all;
#pragma unroll
            for (int c = 0; c < 2 * M; c++) {
                const int x = c / 2 * 8 + column + c % 2;
                if (a.sum && x < a.e) attention_put<T>(a, at * a.e + x, y[c / 2][2 * h + c % 2] * share);
            }
        }
    }
}

/* What the gradient knows of a query: p of a score s, in units of P's power, is power(s - most), of which the sum over keys is 1; moved: dy times y, scaled. */
struct TileSlope {
    float most, moved;
};

/* Of ROWS queries from this one on, `there` of them: by 16 threads each. moved: of all queries, in scratch memory; NULL: there is no room. It is computed where `first`, or there is none. */
template <class P, int ROWS, int THREADS, class T>
__device__ __forceinline__ void tile_slopes(TileSlope *slopes, TileQuery *seen, const AttentionCall &a, int64_t query, int64_t there, float *moved, bool first) {
    enum { EACH = 16 };
    for (int row = threadIdx.x / EACH; row < ROWS; row += THREADS / EACH) {
        const int64_t at = query + row;
        float own = 0;
        if (first || moved == NULL) {
            for (int x = threadIdx.x % EACH; row < there && x < a.e; x += EACH)
                own = fmaf((float)((const T *)a.dy)[at * a.e + x], (float)((const T *)a.y)[at * a.e + x], own);
            for (int lane = EACH / 2; lane > 0; lane /= 2)
                own += __shfl_xor_sync(0xffffffffu, own, lane);
        } else if (row < there) {
            own = moved[at];
        }
        if (threadIdx.x % EACH) continue;
        const float sum = row < there ? (float)((const Number<T> *)a.sum)[at] : 0;
        if (first && moved != NULL && row < there) moved[at] = own;
        seen[row] = sum == 0 ? TileQuery{-1, 0} : tile_query(a, at);
        slopes[row] = sum == 0 ? TileSlope{(float)INFINITY, 0} : TileSlope{P::UNIT * ((float)((const Number<T> *)a.most)[at] + logf(sum)), own * (float)a.scale};
    }
}

/* Of a query and a key q k^T and dy v^T become p, and the slope of its score. */
template <class P> __device__ __forceinline__ void tile_slope(const TileSlope &slope, float scale, float &dot, float &gradient) {
    const float p = P::power(scale * P::UNIT * dot - slope.most);
    gradient = p * (scale * gradient - slope.moved);
    dot = p;
}

template <class P, int W, class T> __global__ void __launch_bounds__(Tile<P, W, true>::THREADS) attention_query_tiles_grad(const __grid_constant__ AttentionCall a, float *moved) {
    typedef Tile<P, W, true> Tl;
    enum { OWN = Tl::OWN, OTHER = Tl::OTHER, STRIDE = Tl::STRIDE, N = Tl::N, M = Tl::M, THREADS = Tl::THREADS };
    __shared__ __align__(16) typename P::Element queries[Tl::ROOM], slopes_y[Tl::ROOM];
    __shared__ TileSlope slopes[OWN];
    __shared__ TileQuery seen[OWN];
    typename P::Element *keys = queries + Tl::OTHERS, *values = slopes_y + Tl::OTHERS;
    const int warp = threadIdx.x / WARP * 16, row = warp + tile_row(), column = tile_column();
    const int64_t tiles = (a.m + OWN - 1) / OWN, ntiles = a.queries / a.m * tiles;
    const float scale = (float)a.scale;
    for (int64_t tile = blockIdx.x; tile < ntiles; tile += gridDim.x) {
        const int64_t head = tile / tiles, first = tile_turn(a, tile, tiles) * OWN, query = head * a.m + first, key = head / a.group * a.n, end = tile_end(a, first, OWN), left = a.m - first;
        typename Tl::Rows own_q, own_dy;
        float dq[M][4] = {};
        __syncthreads(); /* what was there has been read */
        tile_load<P, W, OWN, THREADS>(queries, (const T *)a.q + query * a.d, left, (int)a.d);
        tile_load<P, W, OWN, THREADS>(slopes_y, (const T *)a.dy + query * a.e, left, (int)a.e);
        tile_slopes<P, OWN, THREADS, T>(slopes, seen, a, query, left, moved, true);
        __syncthreads();
        own_q.load(queries + warp * STRIDE);
        own_dy.load(slopes_y + warp * STRIDE);
        for (int64_t j = 0; j < end; j += OTHER) {
            float dot[N][4] = {}, gradient[N][4] = {};
            __syncthreads();
            tile_load<P, W, OTHER, THREADS>(keys, (const T *)a.k + (key + j) * a.d, a.n - j, (int)a.d);
            tile_load<P, W, OTHER, THREADS>(values, (const T *)a.v + (key + j) * a.e, a.n - j, (int)a.e);
            __syncthreads();
            P::template scores<STRIDE, W>(dot, own_q, keys, (int)a.d);
            P::template scores<STRIDE, W>(gradient, own_dy, values, (int)a.e);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const TileSlope own = slopes[row + 8 * h];
#pragma unroll
                for (int i = 0; i < 2 * N; i++)
                    tile_slope<P>(own, scale, dot[i / 2][2 * h + i % 2], gradient[i / 2][2 * h + i % 2]);
            }
            if (!tile_whole(a, first, j + OTHER)) {
#pragma unroll
                for (int i = 0; i < 4 * N; i++)
                    if (!tile_sees(a, seen[row + i % 4 / 2 * 8], j, i / 4 * 8 + column + i % 2)) gradient[i / 4][i % 4] = 0;
            }
            P::template product<STRIDE>(dq, gradient, keys, (int)a.d);
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int c = 0; c < 2 * M; c++) {
                const int x = c / 2 * 8 + column + c % 2;
                if (row + 8 * h < left && x < a.d) ((T *)a.dq)[(query + row + 8 * h) * a.d + x] = (T)dq[c / 2][2 * h + c % 2];
            }
    }
}

/* A block has keys of a head, whose queries are those of `group` heads, in a row. It comes after the queries' kernel, which leaves `moved`. */
template <class P, int W, class T> __global__ void __launch_bounds__(Tile<P, W, true>::THREADS) attention_key_tiles_grad(const __grid_constant__ AttentionCall a, float *moved) {
    typedef Tile<P, W, true> Tl;
    enum { OWN = Tl::OWN, OTHER = Tl::OTHER, STRIDE = Tl::STRIDE, N = Tl::N, M = Tl::M, THREADS = Tl::THREADS };
    __shared__ __align__(16) typename P::Element keys[Tl::ROOM], values[Tl::ROOM];
    __shared__ TileSlope slopes[OTHER];
    __shared__ TileQuery seen[OTHER];
    typename P::Element *queries = keys + Tl::OTHERS, *slopes_y = values + Tl::OTHERS;
    const int warp = threadIdx.x / WARP * 16, row = warp + tile_row(), column = tile_column();
    const int64_t tiles = (a.n + OWN - 1) / OWN, ntiles = a.keys / a.n * tiles, each = a.m * a.group;
    const float scale = (float)a.scale;
    for (int64_t tile = blockIdx.x; tile < ntiles; tile += gridDim.x) {
        const int64_t head = tile / tiles, j = tile % tiles * OWN, key = head * a.n + j, here = a.n - j;
        const int64_t begin = a.causal && a.group == 1 && j > a.before ? (j - a.before) / OTHER * OTHER : 0; /* earlier queries see none of these keys */
        typename Tl::Rows own_k, own_v;
        float dk[M][4] = {}, dv[M][4] = {};
        __syncthreads(); /* what was there has been read */
        tile_load<P, W, OWN, THREADS>(keys, (const T *)a.k + key * a.d, here, (int)a.d);
        tile_load<P, W, OWN, THREADS>(values, (const T *)a.v + key * a.e, here, (int)a.e);
        __syncthreads();
        own_k.load(keys + warp * STRIDE);
        own_v.load(values + warp * STRIDE);
        for (int64_t first = begin; first < each; first += OTHER) {
            float dot[N][4] = {}, gradient[N][4] = {};
            const int64_t query = head * each + first;
            __syncthreads();
            tile_load<P, W, OTHER, THREADS>(queries, (const T *)a.q + query * a.d, each - first, (int)a.d);
            tile_load<P, W, OTHER, THREADS>(slopes_y, (const T *)a.dy + query * a.e, each - first, (int)a.e);
            tile_slopes<P, OTHER, THREADS, T>(slopes, seen, a, query, each - first, moved, false);
            __syncthreads();
            P::template scores<STRIDE, W>(dot, own_k, queries, (int)a.d);
            P::template scores<STRIDE, W>(gradient, own_v, slopes_y, (int)a.e);
#pragma unroll
            for (int i = 0; i < 2 * N; i++) {
                const TileSlope own = slopes[i / 2 * 8 + column + i % 2];
#pragma unroll
                for (int h = 0; h < 2; h++)
                    tile_slope<P>(own, scale, dot[i / 2][2 * h + i % 2], gradient[i / 2][2 * h + i % 2]);
            }
            if (first % a.m + OTHER > a.m || !tile_whole(a, first % a.m, j + OWN)) {
#pragma unroll
                for (int i = 0; i < 4 * N; i++)
                    if (!tile_sees(a, seen[i / 4 * 8 + column + i % 2], j, row + i % 4 / 2 * 8)) dot[i / 4][i % 4] = gradient[i / 4][i % 4] = 0;
            }
            P::template product<STRIDE>(dv, dot, slopes_y, (int)a.e);
            P::template product<STRIDE>(dk, gradient, queries, (int)a.d);
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int c = 0; c < 2 * M; c++) {
                const int x = c / 2 * 8 + column + c % 2;
                if (row + 8 * h >= here) continue;
                if (x < a.d) ((T *)a.dk)[(key + row + 8 * h) * a.d + x] = (T)dk[c / 2][2 * h + c % 2];
                if (x < a.e) ((T *)a.dv)[(key + row + 8 * h) * a.e + x] = (T)dv[c / 2][2 * h + c % 2];
            }
    }
}

/* ---------------------------------------------------------------- the choice */

static unsigned tile_blocks(int64_t heads, int64_t rows, int own) {
    const int64_t blocks = heads * ((rows + own - 1) / own);
    return blocks > 1 << 20 ? 1u << 20 : (unsigned)blocks;
}

template <class P, int W, class T> static cudaError_t tiles_launch(const AttentionCall &a, float *moved, cudaStream_t stream) {
    typedef Tile<P, W, false> Forward;
    typedef Tile<P, W, true> Back;
    if (a.dy == NULL) {
        LAUNCH((attention_tiles<P, W, T>), tile_blocks(a.queries / a.m, a.m, Forward::OWN), Forward::THREADS, 0, stream, a);
        return cudaGetLastError();
    }
    if (a.queries > 0) LAUNCH((attention_query_tiles_grad<P, W, T>), tile_blocks(a.queries / a.m, a.m, Back::OWN), Back::THREADS, 0, stream, a, moved);
    if (a.keys > 0) LAUNCH((attention_key_tiles_grad<P, W, T>), tile_blocks(a.keys / a.n, a.n, Back::OWN), Back::THREADS, 0, stream, a, moved);
    return cudaGetLastError();
}

/* By tensor cores: f32 as tf32. */
template <class T> struct ByTensors {
    typedef ByHalves<T> type;
};
template <> struct ByTensors<float> {
    typedef ByTf32 type;
};

template <class T> static cudaError_t attention_launch(const AttentionCall &a, AttentionWay way, float *moved, cudaStream_t stream) {
    if constexpr (sizeof(T) < sizeof(double)) {
        const int64_t width = a.d > a.e ? a.d : a.e;
        typedef ByNumbers<T> Numbers;
        typedef typename ByTensors<T>::type Tensors;
        if (way == ATTENTION_TENSORS && width <= 64) return tiles_launch<Tensors, 64, T>(a, moved, stream);
        if (way == ATTENTION_TENSORS && width <= ATTENTION_WIDTH) return tiles_launch<Tensors, ATTENTION_WIDTH, T>(a, moved, stream);
        if (way == ATTENTION_TILES && width <= 64) return tiles_launch<Numbers, 64, T>(a, moved, stream);
        if (way == ATTENTION_TILES && width <= ATTENTION_WIDTH) return tiles_launch<Numbers, ATTENTION_WIDTH, T>(a, moved, stream);
    }
    if (a.dy == NULL) {
        LAUNCH((attention_rows<T>), blocks_for(a.queries * BLOCK, 1), BLOCK, 0, stream, a);
        return cudaGetLastError();
    }
    if (a.queries > 0) LAUNCH((attention_queries_grad<T>), blocks_for(a.queries * BLOCK, 1), BLOCK, 0, stream, a);
    if (a.keys > 0) LAUNCH((attention_keys_grad<T>), blocks_for(a.keys * BLOCK, 1), BLOCK, 0, stream, a);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_attention(const AttentionCall *attention, AttentionWay way, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    const int64_t counters = SCRATCH_COUNTERS * (int64_t)sizeof(unsigned);
    float *moved = attention->queries <= (scratch_bytes - counters) / (int64_t)sizeof(float) ? (float *)((char *)scratch + counters) : NULL;
    WITH_REAL(attention->dtype, T, return attention_launch<T>(*attention, way, moved, stream))
    return cudaErrorInvalidValue;
}
