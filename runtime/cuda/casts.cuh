/* casts: tensors of f32 in 16 bits, or of 16 bits in f32, many in one launch. */
#pragma once

static_assert(sizeof(CastTable) <= 4096, "arguments of a kernel");

/* Elements of a tensor that one block casts; those that a thread reads at once. */
enum { CAST_CHUNK = 16 * BLOCK, CAST_WIDTH = 8 };

template <class T> struct __align__(16) CastPack {
    T at[CAST_WIDTH];
};

template <class S, class T> __global__ void __launch_bounds__(BLOCK) casts_kernel(const __grid_constant__ CastTable table) {
    int t = 0;
    while (t + 1 < table.ntensors && blockIdx.x >= table.tensor[t + 1].first_block)
        t++;
    const S *x = (const S *)table.tensor[t].x;
    T *out = (T *)table.tensor[t].out;
    const int64_t begin = (int64_t)(blockIdx.x - table.tensor[t].first_block) * CAST_CHUNK, n = table.tensor[t].n;
    const int64_t end = begin + CAST_CHUNK < n ? begin + CAST_CHUNK : n;
    const int64_t whole = table.tensor[t].packed ? begin + (end - begin) / CAST_WIDTH * CAST_WIDTH : begin; /* up to here in packs */
#pragma unroll 2
    for (int64_t i = begin + (int64_t)threadIdx.x * CAST_WIDTH; i < whole; i += BLOCK * CAST_WIDTH) {
        const CastPack<S> from = *(const CastPack<S> *)(x + i);
        CastPack<T> to;
#pragma unroll
        for (int k = 0; k < CAST_WIDTH; k++)
            to.at[k] = (T)(float)from.at[k];
        *(CastPack<T> *)(out + i) = to;
    }
    for (int64_t i = whole + threadIdx.x; i < end; i += BLOCK)
        out[i] = (T)(float)x[i];
}

extern "C" cudaError_t kernels_casts(CastTable *table, cudaStream_t stream) {
    int64_t blocks = 0;
    for (int t = 0; t < table->ntensors; t++) {
        table->tensor[t].first_block = (unsigned)blocks;
        blocks += (table->tensor[t].n + CAST_CHUNK - 1) / CAST_CHUNK;
    }
    if (blocks == 0) return cudaSuccess;
    if (table->to == KERNEL_F16)
        LAUNCH((casts_kernel<float, Float16>), (unsigned)blocks, BLOCK, 0, stream, *table);
    else if (table->to == KERNEL_BF16)
        LAUNCH((casts_kernel<float, BFloat16>), (unsigned)blocks, BLOCK, 0, stream, *table);
    else if (table->from == KERNEL_F16)
        LAUNCH((casts_kernel<Float16, float>), (unsigned)blocks, BLOCK, 0, stream, *table);
    else
        LAUNCH((casts_kernel<BFloat16, float>), (unsigned)blocks, BLOCK, 0, stream, *table);
    return cudaGetLastError();
}
