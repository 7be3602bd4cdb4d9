/* pitch: rows that begin anywhere, to where they begin at multiples of 16 bytes, and back. */
#pragma once

enum { PITCH_EACH = 8 /* items that a thread has under way */ };

template <class T> __global__ void __launch_bounds__(BLOCK) pitch_rows(const __grid_constant__ KernelPitch p) {
    const int64_t stride = (int64_t)gridDim.x * BLOCK * PITCH_EACH;
    for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const T *from = (const T *)p.from + row * p.from_pitch;
        T *to = (T *)p.to + row * p.to_pitch;
        for (int64_t first = (int64_t)blockIdx.x * BLOCK * PITCH_EACH + threadIdx.x; first < p.columns; first += stride) {
            T item[PITCH_EACH];
#pragma unroll
            for (int i = 0; i < PITCH_EACH; i++)
                if (first + i * BLOCK < p.columns) item[i] = from[first + i * BLOCK];
#pragma unroll
            for (int i = 0; i < PITCH_EACH; i++)
                if (first + i * BLOCK < p.columns) to[first + i * BLOCK] = item[i];
        }
    }
}

extern "C" cudaError_t kernels_pitch(const KernelPitch *pitch, cudaStream_t stream) {
    const int64_t across = (pitch->columns + BLOCK * PITCH_EACH - 1) / (BLOCK * PITCH_EACH);
    const dim3 grid((unsigned)(across < 1024 ? across : 1024), (unsigned)(pitch->rows < 65535 ? pitch->rows : 65535));
    if (pitch->item_bytes == 2)
        LAUNCH((pitch_rows<uint16_t>), grid, BLOCK, 0, stream, *pitch);
    else
        LAUNCH((pitch_rows<uint32_t>), grid, BLOCK, 0, stream, *pitch);
    return cudaGetLastError();
}
