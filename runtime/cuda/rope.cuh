/* rope: rotary positions, a thread a pair. */
#pragma once

template <class T> __global__ void __launch_bounds__(BLOCK) rope_pairs(const __grid_constant__ KernelRope rope) {
    typedef Number<T> N;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < rope.rows * rope.pairs; i += (int64_t)gridDim.x * BLOCK) {
        const int64_t row = i / rope.pairs, k = i % rope.pairs, at = row * 2 * rope.pairs + k;
        const double angle = (double)(rope.first + row % rope.places) * pow(rope.base, -(double)k / (double)rope.pairs);
        const N turn = (N)cos(angle), side = (N)(rope.sign * sin(angle)), a = (N)((const T *)rope.x)[at], b = (N)((const T *)rope.x)[at + rope.pairs];
        ((T *)rope.out)[at] = (T)(a * turn - b * side);
        ((T *)rope.out)[at + rope.pairs] = (T)(b * turn + a * side);
    }
}

extern "C" cudaError_t kernels_rope(const KernelRope *rope, cudaStream_t stream) {
    const unsigned blocks = blocks_for(rope->rows * rope->pairs, 1);
    WITH_REAL(rope->dtype, T, LAUNCH((rope_pairs<T>), blocks, BLOCK, 0, stream, *rope))
    return cudaGetLastError();
}
