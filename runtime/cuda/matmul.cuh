/* matmul: contractions that are no matrix products: a letter of one operand alone, strides that no library takes. */
#pragma once

/* T: of the factors; R: of the result. */
template <class T, class R> __global__ void __launch_bounds__(BLOCK) plain_product(const __grid_constant__ ProductLoops loops, const T *a, const T *b, R *out) {
    int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < loops.elements; i += stride) {
        int64_t rest = i, at[3] = {0, 0, 0};
        for (int d = loops.nkept - 1; d >= 0; d--) {
            int64_t index = rest % loops.kept_size[d];
            rest /= loops.kept_size[d];
            for (int t = 0; t < 3; t++)
                at[t] += index * loops.kept_stride[t][d];
        }
        double sum = 0;
        for (int64_t k = 0; k < loops.depth; k++) {
            int64_t left = k, x = at[0], y = at[1];
            for (int d = loops.ngone - 1; d >= 0; d--) {
                int64_t index = left % loops.gone_size[d];
                left /= loops.gone_size[d];
                x += index * loops.gone_stride[0][d];
                y += index * loops.gone_stride[1][d];
            }
            sum += (double)a[x] * (double)b[y];
        }
        out[at[2]] = (R)sum;
    }
}

extern "C" cudaError_t kernels_product(const ProductLoops *loops, int dtype, bool wide, const void *a, const void *b, void *out, cudaStream_t stream) {
    const unsigned blocks = blocks_for(loops->elements, 1);
    if (wide)
        WITH_REAL(dtype, T, LAUNCH((plain_product<T, float>), blocks, BLOCK, 0, stream, *loops, (const T *)a, (const T *)b, (float *)out))
    else
        WITH_REAL(dtype, T, LAUNCH((plain_product<T, T>), blocks, BLOCK, 0, stream, *loops, (const T *)a, (const T *)b, (T *)out))
    return cudaGetLastError();
}

template <class T> __global__ void __launch_bounds__(BLOCK) trial_items(T *out, int64_t n, uint32_t salt, uint32_t every, uint32_t sixteenths) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * BLOCK)
        out[i] = T(kernel_trial(i, salt, every, sixteenths));
}

extern "C" cudaError_t kernels_trial(void *out, int64_t n, int dtype, uint32_t salt, uint32_t every, uint32_t sixteenths, cudaStream_t stream) {
    if (n == 0) return cudaSuccess;
    WITH_REAL(dtype, T, LAUNCH((trial_items<T>), blocks_for(n, 4), BLOCK, 0, stream, (T *)out, n, salt, every, sixteenths))
    return cudaGetLastError();
}
