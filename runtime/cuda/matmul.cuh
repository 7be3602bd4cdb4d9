/* matmul: contractions that are no matrix products: a letter of one operand alone, strides that no library takes. */
#pragma once

template <typename T>
__global__ void plain_product(ProductLoops loops, const T *a, const T *b, T *out) {
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
        out[at[2]] = (T)sum;
    }
}

extern "C" cudaError_t cuda_plain_product(const ProductLoops *loops, int is_double, const void *a, const void *b, void *out, cudaStream_t stream) {
    unsigned blocks = blocks_for(loops->elements, 1);
    if (is_double)
        LAUNCH(plain_product<double>, blocks, BLOCK, 0, stream, *loops, (const double *)a, (const double *)b, (double *)out);
    else
        LAUNCH(plain_product<float>, blocks, BLOCK, 0, stream, *loops, (const float *)a, (const float *)b, (float *)out);
    return cudaGetLastError();
}
