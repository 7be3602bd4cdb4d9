/* update: optimizers, one pass over parameter, slots and gradient each, many tensors in one launch; clipping; sums of squares. */
#pragma once

static_assert(sizeof(UpdateTable) <= 4096 && sizeof(SquaresTable) <= 4096, "arguments of a kernel");

/* Elements of a tensor that one block updates. */
enum { UPDATE_CHUNK = 16 * BLOCK };

template <class T> __device__ __forceinline__ double update_number(const void *at) {
    return at ? (double)*(const T *)at : 1;
}

/* What is the same for all elements, as the CPU's kernels compute it: in doubles, then rounded once. */
template <class T> struct UpdateScalars {
    T lr, decay, momentum, beta1, rest1, beta2, rest2, eps, correction, shrink, clip;
    int nesterov;
};
template <class S, int kind> __device__ UpdateScalars<Number<S>> update_scalars(const UpdateTable &table) {
    typedef Number<S> T;
    UpdateScalars<T> scalars = {};
    double lr = table.lr * update_number<S>(table.rate);
    scalars.decay = (T)table.decay;
    scalars.momentum = (T)table.momentum;
    if (kind == UPDATE_CLIP) scalars.clip = clip_scale((T)*(const S *)table.rate, table.norm);
    scalars.nesterov = table.nesterov;
    scalars.shrink = 1;
    if (kind == UPDATE_ADAM || kind == UPDATE_LION) {
        scalars.beta1 = (T)table.beta1;
        scalars.rest1 = (T)(1 - table.beta1);
        scalars.beta2 = (T)table.beta2;
        scalars.rest2 = (T)(1 - table.beta2);
    }
    if (kind == UPDATE_LION) scalars.shrink = (T)(1 - lr * table.decay);
    if (kind == UPDATE_ADAM) {
        const double count = update_number<S>(table.count);
        scalars.eps = (T)table.eps;
        scalars.correction = (T)sqrt(1 - pow(table.beta2, count));
        scalars.shrink = (T)(table.decoupled ? 1 - lr * table.decay : 1);
        if (table.decoupled) scalars.decay = 0;
        if (table.direction) {
            scalars.shrink = scalars.decay;
            scalars.decay = 0;
            lr = -1;
        }
        lr /= 1 - pow(table.beta1, count);
    }
    if (kind == UPDATE_SGD && table.of_u) {
        const double of_w = update_number<S>(table.of_w), of_u = update_number<S>(table.of_u);
        if (table.elements > 0) {
            const double direction = sqrt(of_u / table.elements) / table.d;
            scalars.shrink = (T)(1 - lr * table.decay);
            scalars.decay = 0;
            lr = fmax(table.eps2, sqrt(of_w / table.elements)) * fmin(lr, 1 / sqrt(update_number<S>(table.count))) / fmax(1.0, direction);
        } else if (of_w > 0 && of_u > 0) {
            lr *= sqrt(of_w) / sqrt(of_u);
        }
    }
    scalars.lr = (T)lr;
    return scalars;
}

/* One element; products are fused with sums as written here, so that packs and single elements give the same bits. */
template <class T, int kind> __device__ __forceinline__ void update_element(const UpdateScalars<T> &s, T &w, T &m, T &v, T g) {
    if (kind == UPDATE_CLIP) {
        w = s.clip * g;
        return;
    }
    if (kind == UPDATE_LION) {
        const T way = real_fma(s.rest1, g, s.beta1 * m);
        w = real_fma(s.shrink, w, way > 0 ? -s.lr : way < 0 ? s.lr : -s.lr * way);
        m = real_fma(s.rest2, g, s.beta2 * m);
        return;
    }
    const T gradient = s.decay == 0 ? g : real_fma(s.decay, w, g);
    if (kind == UPDATE_SGD) {
        w = real_fma(-s.lr, gradient, s.shrink * w);
    } else if (kind == UPDATE_MOMENTUM) {
        v = real_fma(s.momentum, v, gradient);
        w = real_fma(-s.lr, s.nesterov ? real_fma(s.momentum, v, gradient) : v, w);
    } else {
        m = real_fma(s.rest1, gradient, s.beta1 * m);
        v = real_fma(s.rest2 * gradient, gradient, s.beta2 * v);
        w = real_fma(-s.lr, m / (real_sqrt(v) / s.correction + s.eps), s.shrink * w);
    }
}

template <class T, int kind> __global__ void __launch_bounds__(BLOCK) update_kernel(const __grid_constant__ UpdateTable table) {
    typedef Number<T> N;
    constexpr int width = Pack<T>::width;
    constexpr bool has_w = kind != UPDATE_CLIP, has_m = kind == UPDATE_ADAM || kind == UPDATE_LION, has_v = kind == UPDATE_ADAM || kind == UPDATE_MOMENTUM;
    __shared__ UpdateScalars<N> shared;
    int t = 0;
    while (t + 1 < table.ntensors && blockIdx.x >= table.tensor[t + 1].first_block)
        t++;
    if (threadIdx.x == 0) shared = update_scalars<T, kind>(table);
    __syncthreads();
    const UpdateScalars<N> scalars = shared;
    const UpdateTensor &tensor = table.tensor[t];
    const T *old_w = (const T *)tensor.w, *old_m = (const T *)tensor.m, *old_v = (const T *)tensor.v, *g = (const T *)tensor.g;
    T *new_w = (T *)tensor.new_w, *new_m = (T *)tensor.new_m, *new_v = (T *)tensor.new_v;
    const int64_t begin = (int64_t)(blockIdx.x - tensor.first_block) * UPDATE_CHUNK;
    const int64_t end = begin + UPDATE_CHUNK < tensor.n ? begin + UPDATE_CHUNK : tensor.n;
    const int64_t whole = tensor.packed ? begin + (end - begin) / width * width : begin; /* up to here in packs */
    for (int64_t i = begin + (int64_t)threadIdx.x * width; i < whole; i += BLOCK * width) {
        Pack<T> pw = {}, pm = {}, pv = {};
        const Pack<T> pg = *(const Pack<T> *)(g + i);
        if (has_w) pw = *(const Pack<T> *)(old_w + i);
        if (has_m) pm = *(const Pack<T> *)(old_m + i);
        if (has_v) pv = *(const Pack<T> *)(old_v + i);
#pragma unroll
        for (int k = 0; k < width; k++) {
            N w = (N)pw.at[k], m = (N)pm.at[k], v = (N)pv.at[k];
            update_element<N, kind>(scalars, w, m, v, (N)pg.at[k]);
            pw.at[k] = (T)w;
            pm.at[k] = (T)m;
            pv.at[k] = (T)v;
        }
        *(Pack<T> *)(new_w + i) = pw;
        if (has_m) *(Pack<T> *)(new_m + i) = pm;
        if (has_v) *(Pack<T> *)(new_v + i) = pv;
    }
    for (int64_t i = whole + threadIdx.x; i < end; i += BLOCK) {
        N w = has_w ? (N)old_w[i] : 0, m = has_m ? (N)old_m[i] : 0, v = has_v ? (N)old_v[i] : 0;
        update_element<N, kind>(scalars, w, m, v, (N)g[i]);
        new_w[i] = (T)w;
        if (has_m) new_m[i] = (T)m;
        if (has_v) new_v[i] = (T)v;
    }
}

template <class T> static void update_launch(const UpdateTable *table, unsigned blocks, cudaStream_t stream) {
    switch ((UpdateKind)table->kind) {
    case UPDATE_SGD:
        LAUNCH((update_kernel<T, UPDATE_SGD>), blocks, BLOCK, 0, stream, *table);
        break;
    case UPDATE_MOMENTUM:
        LAUNCH((update_kernel<T, UPDATE_MOMENTUM>), blocks, BLOCK, 0, stream, *table);
        break;
    case UPDATE_ADAM:
        LAUNCH((update_kernel<T, UPDATE_ADAM>), blocks, BLOCK, 0, stream, *table);
        break;
    case UPDATE_LION:
        LAUNCH((update_kernel<T, UPDATE_LION>), blocks, BLOCK, 0, stream, *table);
        break;
    case UPDATE_CLIP:
        LAUNCH((update_kernel<T, UPDATE_CLIP>), blocks, BLOCK, 0, stream, *table);
        break;
    }
}

extern "C" cudaError_t kernels_update(UpdateTable *table, cudaStream_t stream) {
    int64_t blocks = 0;
    for (int t = 0; t < table->ntensors; t++) {
        table->tensor[t].first_block = (unsigned)blocks;
        blocks += (table->tensor[t].n + UPDATE_CHUNK - 1) / UPDATE_CHUNK;
    }
    if (blocks == 0) return cudaSuccess;
    WITH_REAL(table->dtype, T, update_launch<T>(table, (unsigned)blocks, stream))
    return cudaGetLastError();
}

/* ---------------------------------------------------------------- sums of squares, in two stages: blocks, then their sums */

/* The sum of all threads' numbers, in thread 0, by halves. */
__device__ __forceinline__ double squares_block_sum(double sum) {
    __shared__ double warp_sum[BLOCK / WARP];
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % WARP == 0) warp_sum[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < BLOCK / WARP; w++)
            sum += warp_sum[w];
    return sum;
}

template <class T> __device__ __forceinline__ void squares_add(double *sum, const Pack<T> &pack) {
#pragma unroll
    for (int k = 0; k < Pack<T>::width; k++)
        sum[k] = fma((double)pack.at[k], (double)pack.at[k], sum[k]);
}

enum { SQUARES_AHEAD = 4 }; /* loads under way at the same time; the order of the sums is that of one after the other */

template <class T> __global__ void __launch_bounds__(BLOCK) squares_kernel(const __grid_constant__ SquaresTable table) {
    constexpr int width = Pack<T>::width;
    int t = 0;
    while (t + 1 < table.ntensors && blockIdx.x >= table.tensor[t + 1].first_block)
        t++;
    const T *x = (const T *)table.tensor[t].x;
    const int64_t n = table.tensor[t].n, stride = (int64_t)table.tensor[t].nblocks * BLOCK * width;
    double sum[width] = {}; /* as many sums as a pack has elements, whatever the width of accesses */
    int64_t i = ((int64_t)(blockIdx.x - table.tensor[t].first_block) * BLOCK + threadIdx.x) * width;
    for (; table.tensor[t].packed && i + (SQUARES_AHEAD - 1) * stride + width <= n; i += SQUARES_AHEAD * stride) {
        Pack<T> pack[SQUARES_AHEAD];
#pragma unroll
        for (int ahead = 0; ahead < SQUARES_AHEAD; ahead++)
            pack[ahead] = *(const Pack<T> *)(x + i + ahead * stride);
#pragma unroll
        for (int ahead = 0; ahead < SQUARES_AHEAD; ahead++)
            squares_add(sum, pack[ahead]);
    }
    for (; i < n; i += stride) {
        Pack<T> pack = {};
#pragma unroll
        for (int k = 0; k < width; k++)
            if (i + k < n) pack.at[k] = x[i + k];
        squares_add(sum, pack);
    }
    double all = 0;
#pragma unroll
    for (int k = 0; k < width; k++)
        all += sum[k];
    all = squares_block_sum(all);
    if (threadIdx.x == 0) table.partial[blockIdx.x] = all;
}

/* A block a tensor. */
template <class T> __global__ void __launch_bounds__(BLOCK) squares_finish_kernel(const __grid_constant__ SquaresTable table) {
    const int t = (int)blockIdx.x;
    double sum = 0;
    for (unsigned i = threadIdx.x; i < table.tensor[t].nblocks; i += BLOCK)
        sum += table.partial[table.tensor[t].first_block + i];
    sum = squares_block_sum(sum);
    if (threadIdx.x == 0) *(T *)table.tensor[t].out = (T)sum;
}

template <class T> static void squares_launch(const SquaresTable *table, unsigned blocks, cudaStream_t stream) {
    if (blocks > 0) LAUNCH((squares_kernel<T>), blocks, BLOCK, 0, stream, *table);
    LAUNCH((squares_finish_kernel<T>), (unsigned)table->ntensors, BLOCK, 0, stream, *table);
}

extern "C" cudaError_t kernels_squares(SquaresTable *table, cudaStream_t stream) {
    unsigned blocks = 0;
    for (int t = 0; t < table->ntensors; t++) {
        const int64_t share = (int64_t)BLOCK * 32, wanted = (table->tensor[t].n + share - 1) / share;
        table->tensor[t].first_block = blocks;
        table->tensor[t].nblocks = wanted > SQUARES_BLOCKS ? (unsigned)SQUARES_BLOCKS : (unsigned)wanted;
        blocks += table->tensor[t].nblocks;
    }
    WITH_REAL(table->dtype, T, squares_launch<T>(table, blocks, stream))
    return cudaGetLastError();
}
