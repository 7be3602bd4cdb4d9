/* batchnorm: batch_norm and its gradient, of channels whose planes [n][s] lie with those of all other channels between them. A channel's sums are several blocks', each of a
 * part of its elements; the last of them to come adds them up in their order and leaves what elements are computed with, by a second kernel. Sums are of doubles; a
 * thread's terms are added in their order, and then those of threads, so that they follow from sizes alone. Those of batch_norm, x and its square, are of what x is
 * more than the channel's first element, so that little is lost when one is taken off the other: no element is further from the mean than sqrt(n) deviations. */
#pragma once

constexpr int64_t BATCH_CHANNELS = SCRATCH_COUNTERS; /* of a launch */
template <int W> constexpr int batch_ahead = W == 1 ? 4 : 2; /* accesses of W elements under way */

/* What a channel's elements are computed with, (x - mean) * scale + shift; of gradients (dy - shift - (x - mean) * share) * scale. */
template <class N> struct alignas(16) BatchNumbers {
    N mean, scale, shift, share;
};
/* Scratch memory: counters, numbers, and two partial sums a part. Channels [first, first + count). */
struct BatchParts {
    unsigned *counter;
    void *numbers;
    double *partial;
    int64_t first, count;
    int parts;
};

template <class T, int W> __global__ void __launch_bounds__(BLOCK) batch_norm_sums(const __grid_constant__ BatchNormCall norm, BatchParts parts) {
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    constexpr int ahead = batch_ahead<W>;
    const int64_t row_items = norm.s / W, items = norm.n * row_items, apart = norm.c * row_items, each = (items + parts.parts - 1) / parts.parts;
    const int64_t c = parts.first + blockIdx.x, begin = blockIdx.y * each, end = begin + each < items ? begin + each : items;
    const Item *x = (const Item *)norm.x + c * row_items, *dy = norm.dy ? (const Item *)norm.dy + c * row_items : NULL;
    const int64_t down = BLOCK / row_items, along = BLOCK % row_items;
    const N mean = dy ? ((const N *)norm.mean)[c] : (N)0, root = dy ? (N)(1 / sqrt((double)((const N *)norm.variance)[c] + norm.eps)) : (N)0;
    const double origin = (double)((const T *)norm.x)[c * norm.s];
    int64_t i = begin + threadIdx.x, row = i / row_items, column = i % row_items;
    double sum = 0, other = 0; /* x and its square; dy, and dy by x normalized */
    while (i < end) {
        Item held[ahead], grad[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            if (i + k * BLOCK >= end) break;
            held[k] = x[row * apart + column];
            if (dy) grad[k] = dy[row * apart + column];
            row += down, column += along;
            if (column >= row_items) column -= row_items, row++;
        }
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            if (i + k * BLOCK >= end) break;
            for (int l = 0; l < W; l++) {
                if (dy) {
                    sum += (double)grad[k].at[l];
                    other += (double)((N)grad[k].at[l] * (((N)held[k].at[l] - mean) * root));
                } else {
                    const double more = (double)held[k].at[l] - origin;
                    sum += more;
                    other += more * more;
                }
            }
        }
        i += ahead * BLOCK;
    }
    sum = norm_sum<BLOCK>(sum);
    other = norm_sum<BLOCK>(other);
    if (parts.parts > 1) {
        double *partial = parts.partial + blockIdx.x * (int64_t)parts.parts * 2;
        if (threadIdx.x == 0) {
            partial[2 * blockIdx.y] = sum;
            partial[2 * blockIdx.y + 1] = other;
        }
        if (!last_to_come(parts.counter + blockIdx.x, parts.parts)) return;
        sum = other = 0;
        for (int p = threadIdx.x; p < parts.parts; p += BLOCK) {
            sum += __ldcg(partial + 2 * p);
            other += __ldcg(partial + 2 * p + 1);
        }
        sum = norm_sum<BLOCK>(sum);
        other = norm_sum<BLOCK>(other);
    }
    if (threadIdx.x > 0) return;
    const double count = (double)(norm.n * norm.s);
    const N weight = (N)((const T *)norm.weight)[c];
    BatchNumbers<N> *numbers = (BatchNumbers<N> *)parts.numbers + blockIdx.x;
    if (dy) {
        *numbers = {mean, weight * root, (N)(sum / count), (N)(other / count) * root};
        ((T *)norm.dbias)[c] = (T)sum;
        ((T *)norm.dweight)[c] = (T)other;
    } else {
        const double squares = other - sum * (sum / count);
        const N variance = (N)(squares < 0 ? 0 : squares / count);
        *numbers = {(N)(origin + sum / count), (N)(1 / sqrt((double)variance + norm.eps)) * weight, (N)((const T *)norm.bias)[c], 0};
        ((N *)norm.mean)[c] = numbers->mean;
        ((N *)norm.variance)[c] = variance;
    }
}

/* From the last elements on, which the sums have left in the cache. */
template <class T, int W> __global__ void __launch_bounds__(BLOCK)
    batch_norm_elements(const __grid_constant__ BatchNormCall norm, BatchParts parts, KernelDivisor by_run, KernelDivisor by_row, bool below_2_31) {
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    constexpr int ahead = batch_ahead<W>;
    const int64_t row_items = norm.s / W, run = parts.count * row_items, n = norm.n * run, step = (int64_t)gridDim.x * BLOCK * ahead;
    const Item *x = (const Item *)norm.x + parts.first * row_items, *dy = norm.dy ? (const Item *)norm.dy + parts.first * row_items : NULL;
    Item *out = (Item *)norm.out + parts.first * row_items;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK * ahead + threadIdx.x; first < n; first += step) {
        Item held[ahead], grad[ahead];
        int64_t at[ahead];
        int channel[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            const int64_t i = n - 1 - first - k * BLOCK;
            if (i < 0) break;
            const int64_t sample = below_2_31 ? (int64_t)divide(by_run, (uint32_t)i) : i / run, place = i - sample * run;
            channel[k] = (int)(below_2_31 ? (int64_t)divide(by_row, (uint32_t)place) : place / row_items);
            at[k] = sample * norm.c * row_items + place;
            held[k] = x[at[k]];
            if (dy) grad[k] = dy[at[k]];
        }
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            if (first + k * BLOCK >= n) break;
            const BatchNumbers<N> by = ((const BatchNumbers<N> *)parts.numbers)[channel[k]];
            for (int l = 0; l < W; l++) {
                const N centered = (N)held[k].at[l] - by.mean;
                held[k].at[l] = (T)(dy ? ((N)grad[k].at[l] - by.shift - centered * by.share) * by.scale : centered * by.scale + by.shift);
            }
            out[at[k]] = held[k];
        }
    }
}

template <class T, int W> static cudaError_t batch_norm_launch(const BatchNormCall &norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    typedef BatchNumbers<Number<T>> Numbers;
    const int64_t row_items = norm.s / W, items = norm.n * row_items;
    for (int64_t first = 0; first < norm.c; first += BATCH_CHANNELS) {
        BatchParts parts = {(unsigned *)scratch, (unsigned *)scratch + SCRATCH_COUNTERS, NULL, first, norm.c - first < BATCH_CHANNELS ? norm.c - first : BATCH_CHANNELS, 1};
        parts.partial = (double *)((Numbers *)parts.numbers + BATCH_CHANNELS);
        const int64_t room = scratch_bytes - ((char *)parts.partial - (char *)scratch), fits = room / (parts.count * 2 * (int64_t)sizeof(double));
        int64_t want = 8 * (int64_t)processors() / parts.count, most = items / (2 * batch_ahead<W> * BLOCK);
        want = want < most ? want : most;
        want = want < fits ? want : fits;
        parts.parts = want < 1 ? 1 : want < 1024 ? (int)want : 1024;
        LAUNCH((batch_norm_sums<T, W>), dim3((unsigned)parts.count, (unsigned)parts.parts), BLOCK, 0, stream, norm, parts);
        const int64_t run = parts.count * row_items, n = norm.n * run;
        const cudaError_t status = cudaGetLastError();
        if (status != cudaSuccess) return status;
        const int64_t blocks = (n + BLOCK * batch_ahead<W> - 1) / (BLOCK * batch_ahead<W>);
        LAUNCH((batch_norm_elements<T, W>), blocks < INT32_MAX ? (unsigned)blocks : (unsigned)INT32_MAX, BLOCK, 0, stream, norm, parts, kernel_divisor(run), kernel_divisor(row_items), n < INT32_MAX);
    }
    return cudaGetLastError();
}

template <class T> static cudaError_t batch_norm_of(const BatchNormCall &norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    enum { W = 16 / sizeof(T) };
    const bool wide = norm.s % W == 0 && is_multiple(norm.x, 16) && is_multiple(norm.out, 16) && (!norm.dy || is_multiple(norm.dy, 16));
    return wide ? batch_norm_launch<T, W>(norm, scratch, scratch_bytes, stream) : batch_norm_launch<T, 1>(norm, scratch, scratch_bytes, stream);
}

extern "C" cudaError_t kernels_batch_norm(const BatchNormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    WITH_REAL(norm->dtype, T, return batch_norm_of<T>(*norm, scratch, scratch_bytes, stream))
    return cudaErrorInvalidValue;
}
