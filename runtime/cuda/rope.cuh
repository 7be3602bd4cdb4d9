/* rope: rotary positions, a thread a pair. */
#pragma once

template <class T> __global__ void __launch_bounds__(BLOCK) rope_pairs(KernelRope rope) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < rope.rows * rope.pairs; i += (int64_t)gridDim.x * BLOCK) {
        const int64_t row = i / rope.pairs, k = i % rope.pairs, at = row * 2 * rope.pairs + k;
        const double angle = (double)(rope.first + row % rope.places) * pow(rope.base, -(double)k / (double)rope.pairs);
        const T turn = (T)cos(angle), side = (T)(rope.sign * sin(angle)), a = ((const T *)rope.x)[at], b = ((const T *)rope.x)[at + rope.pairs];
        ((T *)rope.out)[at] = a * turn - b * side;
        ((T *)rope.out)[at + rope.pairs] = b * turn + a * side;
    }
}

extern "C" cudaError_t kernels_rope(const KernelRope *rope, cudaStream_t stream) {
    const unsigned blocks = blocks_for(rope->rows * rope->pairs, 1);
    if (rope->dtype == KERNEL_F64)
        LAUNCH((rope_pairs<double>), blocks, BLOCK, 0, stream, *rope);
    else
        LAUNCH((rope_pairs<float>), blocks, BLOCK, 0, stream, *rope);
    return cudaGetLastError();
}
