/* random: uniform numbers, to the bit those of runtime/data/random.c: Philox 4x32 with 10 rounds (Salmon et al. 2011), two numbers of 53 bits for each counter. */
#pragma once

/* Words 2 `half` and 2 `half` + 1 of what counter and key give, as one number. */
__device__ __forceinline__ uint64_t philox_word(uint64_t counter, uint64_t key, int half) {
    uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32), x2 = 0, x3 = 0, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)x0 * 0xD2511F53u, b = (uint64_t)x2 * 0xCD9E8D57u;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return half ? (uint64_t)x3 << 32 | x2 : (uint64_t)x1 << 32 | x0;
}

/* A thread a number. 6 blocks: three quarters of a multiprocessor's threads. */
template <class T> __global__ void __launch_bounds__(BLOCK, 6) uniform_items(const __grid_constant__ KernelUniform u) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < u.n; i += (int64_t)gridDim.x * BLOCK) {
        uint64_t number = u.first;
        int64_t rest = i, index = 0, at = 0; /* of dimension d; of that of the rows */
        for (int d = u.ndim - 1; d >= 0; d--) {
            index = u.begin[d] + rest % u.size[d];
            rest /= u.size[d];
            if (d == u.row_dim)
                at = index;
            else
                number += (uint64_t)(index * u.stride[d]);
        }
        if (u.row_dim >= 0) {
            const int64_t place = index * u.replica_rows + at / u.row_length, row = place % u.share * u.world + place / u.share;
            number += (uint64_t)((row * u.row_length + at % u.row_length) * u.stride[u.row_dim]);
        }
        ((T *)u.out)[i] = T((double)(philox_word(number / 2, u.key, (int)(number % 2)) >> 11) * 0x1p-53);
    }
}

extern "C" cudaError_t kernels_uniform(const KernelUniform *uniform, cudaStream_t stream) {
    if (uniform->n == 0) return cudaSuccess;
    WITH_REAL(uniform->dtype, T, LAUNCH((uniform_items<T>), blocks_for(uniform->n, 1), BLOCK, 0, stream, *uniform))
    return cudaGetLastError();
}
