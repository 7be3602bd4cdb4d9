/* batchnorm: batch_norm and its gradient, a block a channel, whose planes [n][s] lie with those of all other channels between them. Sums are of doubles; a thread's terms are
 * added in their order, and then those of threads, so that they follow from sizes alone. */
#pragma once

template <class T> __global__ void __launch_bounds__(BLOCK) batch_norm_channels(const __grid_constant__ BatchNormCall norm) {
    typedef Number<T> N;
    const int64_t s = norm.s, n = norm.n * s, step = norm.c * s;
    const double count = (double)n;
    for (int64_t c = blockIdx.x; c < norm.c; c += gridDim.x) {
        const T *x = (const T *)norm.x + c * s, *dy = (const T *)norm.dy;
        T *out = (T *)norm.out + c * s;
        const N weight = (N)((const T *)norm.weight)[c];
        double sum = 0, other = 0;
#define EACH_ELEMENT(...)                                                                                                                  \
    for (int64_t i = threadIdx.x, row = i / s, column = i % s; i < n; i += BLOCK) {                                                        \
        const int64_t at = row * step + column;                                                                                            \
        __VA_ARGS__;                                                                                                                       \
        row += BLOCK / s, column += BLOCK % s;                                                                                             \
        if (column >= s) column -= s, row++;                                                                                               \
    }
        if (!dy) {
            EACH_ELEMENT(sum += (double)x[at])
            const N mean = (N)(norm_sum<BLOCK>(sum) / count);
            sum = 0;
            EACH_ELEMENT(sum += (double)((N)x[at] - mean) * (double)((N)x[at] - mean))
            const N variance = (N)(norm_sum<BLOCK>(sum) / count);
            const N scale = (N)(1 / sqrt((double)variance + norm.eps)) * weight, bias = (N)((const T *)norm.bias)[c];
            EACH_ELEMENT(out[at] = (T)(((N)x[at] - mean) * scale + bias))
            if (threadIdx.x == 0) {
                ((N *)norm.mean)[c] = mean;
                ((N *)norm.variance)[c] = variance;
            }
        } else {
            dy += c * s;
            const N mean = ((const N *)norm.mean)[c], root = (N)(1 / sqrt((double)((const N *)norm.variance)[c] + norm.eps));
            EACH_ELEMENT(sum += (double)dy[at]; other += (double)((N)dy[at] * (((N)x[at] - mean) * root)))
            sum = norm_sum<BLOCK>(sum);
            other = norm_sum<BLOCK>(other);
            const N shift = (N)(sum / count), share = (N)(other / count) * root, scale = weight * root;
            EACH_ELEMENT(out[at] = (T)(((N)dy[at] - shift - ((N)x[at] - mean) * share) * scale))
            if (threadIdx.x == 0) {
                ((T *)norm.dbias)[c] = (T)sum;
                ((T *)norm.dweight)[c] = (T)other;
            }
        }
#undef EACH_ELEMENT
    }
}

template <class T> static cudaError_t batch_norm_launch(const BatchNormCall &norm, cudaStream_t stream) {
    LAUNCH((batch_norm_channels<T>), (unsigned)(norm.c < 1 << 20 ? norm.c : 1 << 20), BLOCK, 0, stream, norm);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_batch_norm(const BatchNormCall *norm, cudaStream_t stream) {
    WITH_REAL(norm->dtype, T, return batch_norm_launch<T>(*norm, stream))
    return cudaErrorInvalidValue;
}
