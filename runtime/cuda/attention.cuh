/* attention: attention, what it is taken apart into, and its gradient. Plain: a block a query, whose threads divide the keys for scores and the width of the values
 * for products; of the gradient a block a query and a block a key. Scores are computed wherever they are needed, and sums are of doubles in one order. */
#pragma once

__device__ __forceinline__ bool attention_sees(const KernelAttention &a, int64_t query, int64_t j) {
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

__device__ __forceinline__ int64_t attention_key(const KernelAttention &a, int64_t query, int64_t j) {
    return query / (a.m * a.group) * a.n + j;
}

template <class T> __device__ __forceinline__ double attention_score(const KernelAttention &a, int64_t query, int64_t j) {
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

/* most, sum, y: results, NULL where there is none; given: the largest scores, of attention_sums. */
template <class T> __global__ void __launch_bounds__(BLOCK) attention_rows(const __grid_constant__ KernelAttention a) {
    __shared__ double room[BLOCK];
    for (int64_t query = blockIdx.x; query < a.queries; query += gridDim.x) {
        double most = -INFINITY, sum = 0;
        if (a.given == NULL) {
            for (int64_t j = threadIdx.x; j < a.n; j += BLOCK) {
                const double score = attention_score<T>(a, query, j);
                most = score > most ? score : most;
            }
            most = (double)(Number<T>)attention_gather(most, true, room);
            if (threadIdx.x == 0) ((T *)a.most)[query] = (T)most;
        } else {
            most = (double)((const T *)a.given)[query];
        }
        if (a.sum == NULL) continue;
        T *y = (T *)a.y + query * a.e;
        for (int64_t j = threadIdx.x; j < a.n; j += BLOCK)
            sum += attention_power(attention_score<T>(a, query, j), most);
        sum = attention_gather(sum, false, room);
        if (threadIdx.x == 0) ((T *)a.sum)[query] = (T)sum;
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
            if (x < a.e) y[x] = (T)(a.given != NULL ? product : sum == 0 ? 0 : product / sum);
        }
        __syncthreads();
    }
}

/* p of a query and a key, and the slope of its score. */
template <class T> __device__ __forceinline__ double attention_slope(const KernelAttention &a, int64_t query, int64_t j, double *p) {
    const double sum = (double)((const T *)a.sum)[query];
    *p = sum == 0 ? 0 : attention_power(attention_score<T>(a, query, j), (double)((const T *)a.most)[query]) / sum;
    if (*p == 0) return 0;
    const double moved = attention_dot<T>(a.dy, query, a.v, attention_key(a, query, j), a.e) - attention_dot<T>(a.dy, query, a.y, query, a.e);
    return *p * moved * a.scale;
}

template <class T> __global__ void __launch_bounds__(BLOCK) attention_queries_grad(const __grid_constant__ KernelAttention a) {
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
template <class T> __global__ void __launch_bounds__(BLOCK) attention_keys_grad(const __grid_constant__ KernelAttention a) {
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

template <class T> static cudaError_t attention_launch(const KernelAttention &a, cudaStream_t stream) {
    if (a.dy == NULL) {
        LAUNCH((attention_rows<T>), blocks_for(a.queries * BLOCK, 1), BLOCK, 0, stream, a);
        return cudaGetLastError();
    }
    if (a.queries > 0) LAUNCH((attention_queries_grad<T>), blocks_for(a.queries * BLOCK, 1), BLOCK, 0, stream, a);
    if (a.keys > 0) LAUNCH((attention_keys_grad<T>), blocks_for(a.keys * BLOCK, 1), BLOCK, 0, stream, a);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_attention(const KernelAttention *attention, cudaStream_t stream) {
    WITH_REAL(attention->dtype, T, return attention_launch<T>(*attention, stream))
    return cudaErrorInvalidValue;
}
