/* attention: attention, what it is taken apart into, and its gradient. In tiles, where widths are up to 128 and numbers are no doubles: a block has 64 queries (of the gradients
 * of keys and values 64 keys) and goes through all keys (queries), 64 at a time, whose scores are in shared memory and never in the device's (Dao et al. 2022). Sums are of
 * floats. Else plainly: a block a query, whose threads divide the keys for scores and the width of the values for products; of the gradient a block a query and a block a key.
 * Every sum has one order, which follows from sizes alone. */
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

/* Of a tile of TILE x TILE a thread has TILE_EACH rows beside each other and as many columns TILE_ACROSS apart. The 16 threads of a row are half a warp. */
enum { TILE = 64, TILE_STEP = 16, TILE_ACROSS = 16, TILE_EACH = 4, TILE_WIDTH = 128, TILE_CHUNK = 2 * TILE * (TILE_STEP + 1) };
static_assert(TILE_ACROSS * TILE_EACH == TILE && BLOCK == TILE_ACROSS * TILE_ACROSS && TILE_CHUNK >= TILE_STEP * TILE_WIDTH, "tiles fit their threads and their memory");

typedef float TileRows[TILE][TILE + 1];

/* own = x y^T, of rows of `width` elements, nx and ny of which are there. chunk: TILE_CHUNK floats. */
template <class T> __device__ __forceinline__ void tile_scores(float (&own)[TILE_EACH][TILE_EACH], const T *x, int nx, const T *y, int ny, int width, float *chunk) {
    const int row = threadIdx.x / TILE_ACROSS * TILE_EACH, column = threadIdx.x % TILE_ACROSS;
    float *left = chunk, *right = chunk + TILE * (TILE_STEP + 1);
    for (int i = 0; i < TILE_EACH; i++)
        for (int j = 0; j < TILE_EACH; j++)
            own[i][j] = 0;
#pragma unroll 1
    for (int first = 0; first < width; first += TILE_STEP) {
        __syncthreads(); /* what was there has been read */
        for (int t = threadIdx.x; t < TILE * TILE_STEP; t += BLOCK) {
            const int r = t / TILE_STEP, k = t % TILE_STEP;
            const int at = r * width + first + k;
            const bool inside = first + k < width;
            left[r * (TILE_STEP + 1) + k] = inside && r < nx ? (float)x[at] : 0;
            right[r * (TILE_STEP + 1) + k] = inside && r < ny ? (float)y[at] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_STEP; k++) {
            float a[TILE_EACH], b[TILE_EACH];
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++)
                a[i] = left[(row + i) * (TILE_STEP + 1) + k];
#pragma unroll
            for (int j = 0; j < TILE_EACH; j++)
                b[j] = right[(column + j * TILE_ACROSS) * (TILE_STEP + 1) + k];
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++)
#pragma unroll
                for (int j = 0; j < TILE_EACH; j++)
                    own[i][j] = fmaf(a[i], b[j], own[i][j]);
        }
    }
}

/* sum += weight z, or its transpose's product, where z has nz rows of `width` elements; of sum a thread has TILE_EACH rows and COLUMNS columns TILE_ACROSS apart. */
template <class T, int COLUMNS, bool TRANSPOSED>
__device__ __forceinline__ void tile_product(float (&sum)[TILE_EACH][COLUMNS], const TileRows &weight, const T *z, int nz, int width, float *chunk) {
    enum { ACROSS = COLUMNS * TILE_ACROSS };
    const int row = threadIdx.x / TILE_ACROSS * TILE_EACH, column = threadIdx.x % TILE_ACROSS;
#pragma unroll 1
    for (int first = 0; first < TILE; first += TILE_STEP) {
        __syncthreads(); /* weights are there, and what was in the chunk has been read */
        for (int t = threadIdx.x; t < TILE_STEP * ACROSS; t += BLOCK) {
            const int r = first + t / ACROSS, c = t % ACROSS;
            chunk[t] = r < nz && c < width ? (float)z[r * width + c] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_STEP; k++) {
            float w[TILE_EACH];
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++)
                w[i] = TRANSPOSED ? weight[first + k][row + i] : weight[row + i][first + k];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                const float x = chunk[k * ACROSS + column + c * TILE_ACROSS];
#pragma unroll
                for (int i = 0; i < TILE_EACH; i++)
                    sum[i][c] = fmaf(w[i], x, sum[i][c]);
            }
        }
    }
}

/* All threads of a row get the largest, or the sum, of what each has. */
__device__ __forceinline__ float tile_gather(float own, bool largest) {
    for (int lane = TILE_ACROSS / 2; lane > 0; lane /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, own, lane);
        own = !largest ? own + other : other > own ? other : own;
    }
    return own;
}

/* A query of all: which keys it sees. */
struct TileQuery {
    int64_t last; /* the last key, where attention is causal */
    int64_t mask; /* where its row of the mask begins */
};
__device__ __forceinline__ TileQuery tile_query(const AttentionCall &a, int64_t query) {
    const int64_t i = query % a.m;
    int64_t head = query / a.m;
    TileQuery own = {a.causal ? a.before + i : a.n - 1, i * a.mask_m};
    for (int d = a.mask_ndim - 1; d >= 0; d--) {
        own.mask += head % a.mask_size[d] * a.mask_stride[d];
        head /= a.mask_size[d];
    }
    return own;
}
__device__ __forceinline__ bool tile_sees(const AttentionCall &a, const TileQuery &query, int64_t j) {
    return j < a.n && j <= query.last && (a.mask == NULL || a.mask[query.mask + j * a.mask_n] != 0);
}

__device__ __forceinline__ float tile_power(float score, float most) {
    return score == -(float)INFINITY ? 0 : expf(score - most);
}

__device__ __forceinline__ int tile_left(int64_t n) { return n < TILE ? (int)n : (int)TILE; }

/* Keys that some query of a tile of one head may see. */
__device__ __forceinline__ int64_t tile_end(const AttentionCall &a, int64_t first) {
    const int64_t end = a.causal ? a.before + first + TILE : a.n;
    return end < a.n ? end : a.n;
}

/* As attention_rows. */
template <class T, int COLUMNS> __global__ void __launch_bounds__(BLOCK, COLUMNS * TILE_ACROSS < TILE_WIDTH ? 2 : 1) attention_tiles(const __grid_constant__ AttentionCall a) {
    __shared__ float chunk[TILE_CHUNK];
    __shared__ TileRows powers;
    const int row = threadIdx.x / TILE_ACROSS * TILE_EACH, column = threadIdx.x % TILE_ACROSS;
    const int64_t tiles = (a.m + TILE - 1) / TILE, ntiles = a.queries / a.m * tiles;
    for (int64_t tile = blockIdx.x; tile < ntiles; tile += gridDim.x) {
        const int64_t head = tile / tiles, first = tile % tiles * TILE, query = head * a.m + first, key = head / a.group * a.n, end = tile_end(a, first);
        const int left = tile_left(a.m - first);
        TileQuery own[TILE_EACH];
        float y[TILE_EACH][COLUMNS] = {}, most[TILE_EACH], sum[TILE_EACH] = {};
#pragma unroll
        for (int i = 0; i < TILE_EACH; i++) {
            const int64_t at = query + (row + i < left ? row + i : 0);
            own[i] = tile_query(a, at);
            most[i] = a.given ? (float)((const Number<T> *)a.given)[at] : -(float)INFINITY;
        }
        for (int64_t j = 0; j < end; j += TILE) {
            float score[TILE_EACH][TILE_EACH];
            tile_scores(score, (const T *)a.q + query * a.d, left, (const T *)a.k + (key + j) * a.d, tile_left(a.n - j), (int)a.d, chunk);
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++) {
                float highest = most[i], added = 0;
#pragma unroll
                for (int k = 0; k < TILE_EACH; k++) {
                    score[i][k] = tile_sees(a, own[i], j + column + k * TILE_ACROSS) ? (float)a.scale * score[i][k] : -(float)INFINITY;
                    if (!a.given) highest = score[i][k] > highest ? score[i][k] : highest;
                }
                if (!a.given) highest = tile_gather(highest, true);
                const float shrink = tile_power(most[i], highest);
#pragma unroll
                for (int k = 0; k < TILE_EACH; k++) {
                    const float power = tile_power(score[i][k], highest);
                    added += power;
                    powers[row + i][column + k * TILE_ACROSS] = power;
                }
                sum[i] = sum[i] * shrink + tile_gather(added, false);
                most[i] = highest;
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
                    y[i][c] *= shrink;
            }
            if (a.sum != NULL) tile_product<T, COLUMNS, false>(y, powers, (const T *)a.v + (key + j) * a.e, tile_left(a.n - j), (int)a.e, chunk);
        }
#pragma unroll
        for (int i = 0; i < TILE_EACH; i++) {
            if (row + i >= left) continue;
            if (column == 0 && !a.given) ((Number<T> *)a.most)[query + row + i] = most[i];
            if (column == 0 && a.sum) ((Number<T> *)a.sum)[query + row + i] = sum[i];
            for (int c = 0; a.sum && c < COLUMNS; c++)
                if (column + c * TILE_ACROSS < a.e)
                    attention_put<T>(a, (query + row + i) * a.e + column + c * TILE_ACROSS, a.given ? y[i][c] : sum[i] == 0 ? 0 : y[i][c] / sum[i]);
        }
    }
}

/* What the gradient knows of a query beside what it sees. */
struct TileSlope {
    float most, sum, moved; /* moved: dy times y */
};
template <class T> __device__ __forceinline__ TileSlope tile_slope(const AttentionCall &a, int64_t query) {
    float moved = 0;
    for (int64_t x = threadIdx.x % TILE_ACROSS; x < a.e; x += TILE_ACROSS)
        moved = fmaf((float)((const T *)a.dy)[query * a.e + x], (float)((const T *)a.y)[query * a.e + x], moved);
    return {(float)((const Number<T> *)a.most)[query], (float)((const Number<T> *)a.sum)[query], tile_gather(moved, false)};
}

/* p of a query and a key, and the slope of its score: dot and gradient are q k^T and dy v^T. */
__device__ __forceinline__ float tile_share(const AttentionCall &a, const TileQuery &own, const TileSlope &slope, int64_t j, float dot, float gradient, float *moves) {
    const float p = slope.sum == 0 || !tile_sees(a, own, j) ? 0 : expf((float)a.scale * dot - slope.most) / slope.sum;
    *moves = p == 0 ? 0 : p * (gradient - slope.moved) * (float)a.scale;
    return p;
}

template <class T, int COLUMNS> __global__ void __launch_bounds__(BLOCK, COLUMNS * TILE_ACROSS < TILE_WIDTH ? 2 : 1) attention_query_tiles_grad(const __grid_constant__ AttentionCall a) {
    __shared__ float chunk[TILE_CHUNK];
    __shared__ TileRows slopes;
    const int row = threadIdx.x / TILE_ACROSS * TILE_EACH, column = threadIdx.x % TILE_ACROSS;
    const int64_t tiles = (a.m + TILE - 1) / TILE, ntiles = a.queries / a.m * tiles;
    for (int64_t tile = blockIdx.x; tile < ntiles; tile += gridDim.x) {
        const int64_t head = tile / tiles, first = tile % tiles * TILE, query = head * a.m + first, key = head / a.group * a.n, end = tile_end(a, first);
        const int left = tile_left(a.m - first);
        TileQuery own[TILE_EACH];
        TileSlope slope[TILE_EACH];
        float dq[TILE_EACH][COLUMNS] = {};
#pragma unroll
        for (int i = 0; i < TILE_EACH; i++) {
            const int64_t at = query + (row + i < left ? row + i : 0);
            own[i] = tile_query(a, at);
            slope[i] = tile_slope<T>(a, at);
        }
        for (int64_t j = 0; j < end; j += TILE) {
            float dot[TILE_EACH][TILE_EACH], gradient[TILE_EACH][TILE_EACH];
            const int here = tile_left(a.n - j);
            tile_scores(dot, (const T *)a.q + query * a.d, left, (const T *)a.k + (key + j) * a.d, here, (int)a.d, chunk);
            tile_scores(gradient, (const T *)a.dy + query * a.e, left, (const T *)a.v + (key + j) * a.e, here, (int)a.e, chunk);
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++)
#pragma unroll
                for (int k = 0; k < TILE_EACH; k++)
                    tile_share(a, own[i], slope[i], j + column + k * TILE_ACROSS, dot[i][k], gradient[i][k], &slopes[row + i][column + k * TILE_ACROSS]);
            tile_product<T, COLUMNS, false>(dq, slopes, (const T *)a.k + (key + j) * a.d, here, (int)a.d, chunk);
        }
#pragma unroll
        for (int i = 0; i < TILE_EACH; i++)
            for (int c = 0; row + i < left && c < COLUMNS; c++)
                if (column + c * TILE_ACROSS < a.d) ((T *)a.dq)[(query + row + i) * a.d + column + c * TILE_ACROSS] = (T)dq[i][c];
    }
}

/* A block has TILE keys of a head, whose queries are those of `group` heads, in a row. */
template <class T, int COLUMNS> __global__ void __launch_bounds__(BLOCK, COLUMNS * TILE_ACROSS < TILE_WIDTH ? 2 : 1) attention_key_tiles_grad(const __grid_constant__ AttentionCall a) {
    __shared__ float chunk[TILE_CHUNK];
    __shared__ TileRows slopes, powers;
    const int row = threadIdx.x / TILE_ACROSS * TILE_EACH, column = threadIdx.x % TILE_ACROSS;
    const int64_t tiles = (a.n + TILE - 1) / TILE, ntiles = a.keys / a.n * tiles, each = a.m * a.group;
    for (int64_t tile = blockIdx.x; tile < ntiles; tile += gridDim.x) {
        const int64_t head = tile / tiles, j = tile % tiles * TILE, key = head * a.n + j;
        const int here = tile_left(a.n - j);
        const int64_t begin = a.causal && a.group == 1 && j > a.before ? (j - a.before) / TILE * TILE : 0; /* earlier queries see none of these keys */
        float dk[TILE_EACH][COLUMNS] = {}, dv[TILE_EACH][COLUMNS] = {};
        for (int64_t first = begin; first < each; first += TILE) {
            float dot[TILE_EACH][TILE_EACH], gradient[TILE_EACH][TILE_EACH];
            const int64_t query = head * each + first;
            const int left = tile_left(each - first);
            tile_scores(dot, (const T *)a.q + query * a.d, left, (const T *)a.k + key * a.d, here, (int)a.d, chunk);
            tile_scores(gradient, (const T *)a.dy + query * a.e, left, (const T *)a.v + key * a.e, here, (int)a.e, chunk);
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++) {
                const bool inside = row + i < left;
                const int64_t at = query + (inside ? row + i : 0);
                const TileQuery own = tile_query(a, at);
                const TileSlope slope = tile_slope<T>(a, at);
#pragma unroll
                for (int k = 0; k < TILE_EACH; k++) {
                    const int to = column + k * TILE_ACROSS;
                    float moves;
                    const float p = tile_share(a, own, slope, j + to, dot[i][k], gradient[i][k], &moves);
                    powers[row + i][to] = inside ? p : 0;
                    slopes[row + i][to] = inside ? moves : 0;
                }
            }
            tile_product<T, COLUMNS, true>(dk, slopes, (const T *)a.q + query * a.d, left, (int)a.d, chunk);
            tile_product<T, COLUMNS, true>(dv, powers, (const T *)a.dy + query * a.e, left, (int)a.e, chunk);
        }
#pragma unroll
        for (int i = 0; i < TILE_EACH; i++)
            for (int c = 0; row + i < here && c < COLUMNS; c++) {
                const int64_t x = column + c * TILE_ACROSS;
                if (x < a.d) ((T *)a.dk)[(key + row + i) * a.d + x] = (T)dk[i][c];
                if (x < a.e) ((T *)a.dv)[(key + row + i) * a.e + x] = (T)dv[i][c];
            }
    }
}

/* ---------------------------------------------------------------- the choice */

static unsigned tile_blocks(int64_t heads, int64_t rows) {
    const int64_t blocks = heads * ((rows + TILE - 1) / TILE);
    return blocks > 1 << 20 ? 1u << 20 : (unsigned)blocks;
}

template <class T, int COLUMNS> static cudaError_t tiles_launch(const AttentionCall &a, cudaStream_t stream) {
    if (a.dy == NULL) {
        LAUNCH((attention_tiles<T, COLUMNS>), tile_blocks(a.queries / a.m, a.m), BLOCK, 0, stream, a);
        return cudaGetLastError();
    }
    if (a.queries > 0) LAUNCH((attention_query_tiles_grad<T, COLUMNS>), tile_blocks(a.queries / a.m, a.m), BLOCK, 0, stream, a);
    if (a.keys > 0) LAUNCH((attention_key_tiles_grad<T, COLUMNS>), tile_blocks(a.keys / a.n, a.n), BLOCK, 0, stream, a);
    return cudaGetLastError();
}

template <class T> static cudaError_t attention_launch(const AttentionCall &a, cudaStream_t stream) {
    const int64_t width = a.d > a.e ? a.d : a.e;
    if constexpr (sizeof(T) < sizeof(double)) {
        if (width <= TILE_WIDTH / 2) return tiles_launch<T, TILE_WIDTH / 2 / TILE_ACROSS>(a, stream);
        if (width <= TILE_WIDTH) return tiles_launch<T, TILE_WIDTH / TILE_ACROSS>(a, stream);
    }
    if (a.dy == NULL) {
        LAUNCH((attention_rows<T>), blocks_for(a.queries * BLOCK, 1), BLOCK, 0, stream, a);
        return cudaGetLastError();
    }
    if (a.queries > 0) LAUNCH((attention_queries_grad<T>), blocks_for(a.queries * BLOCK, 1), BLOCK, 0, stream, a);
    if (a.keys > 0) LAUNCH((attention_keys_grad<T>), blocks_for(a.keys * BLOCK, 1), BLOCK, 0, stream, a);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_attention(const AttentionCall *attention, cudaStream_t stream) {
    WITH_REAL(attention->dtype, T, return attention_launch<T>(*attention, stream))
    return cudaErrorInvalidValue;
}
