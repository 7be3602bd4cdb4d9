/* pull: copies and reductions between boxes, for communicators. A table of pulls is one launch: each block finds its pull, then goes through positions of it. */
#pragma once

template <class T> __device__ __forceinline__ T pull_combine(T a, T b, int reduction) { /* of reals */
    if (reduction == 0) return a + b;
    if (reduction == 1) return a >= b || a != a ? a : b; /* a nan on either side stays one */
    return a <= b || a != a ? a : b;
}
template <> __device__ __forceinline__ int32_t pull_combine(int32_t a, int32_t b, int reduction) {
    if (reduction == 0) return (int32_t)((uint32_t)a + (uint32_t)b); /* sums between ranks wrap */
    return reduction == 1 ? (a > b ? a : b) : a < b ? a : b;
}
template <> __device__ __forceinline__ int64_t pull_combine(int64_t a, int64_t b, int reduction) {
    if (reduction == 0) return (int64_t)((uint64_t)a + (uint64_t)b);
    return reduction == 1 ? (a > b ? a : b) : a < b ? a : b;
}
template <> __device__ __forceinline__ uint8_t pull_combine(uint8_t a, uint8_t b, int reduction) {
    return reduction == 2 ? a & b : a | b;
}

/* Offsets in elements of the position `at` (in accesses, of the loops' order): [0] the target's, [1 + s] source s's. */
__device__ __forceinline__ void pull_offsets(const KernelPull &pull, int64_t at, int64_t *offset) {
    int64_t run = 0, inner = at;
    int nsources = pull.nsources;
    if (pull.nouter > 0) {
        run = pull.narrow ? (int64_t)divide(pull.unit_divisor, (uint32_t)at) : at / (pull.unit / pull.width);
        inner = at - run * (pull.narrow ? pull.unit_divisor.d : pull.unit / pull.width);
    }
    inner *= pull.width;
    offset[0] = pull.target_start + inner;
#pragma unroll
    for (int s = 0; s < PULL_TERMS; s++)
        offset[1 + s] = s < nsources ? pull.source_start[s] + inner : 0;
    for (int d = pull.nouter - 1; d >= 0; d--) {
        int64_t next = pull.narrow ? (int64_t)divide(pull.divisor[d], (uint32_t)run) : run / pull.extent[d], index = run - next * pull.extent[d];
        run = next;
        offset[0] += index * pull.target_step[d];
#pragma unroll
        for (int s = 0; s < PULL_TERMS; s++)
            if (s < nsources) offset[1 + s] += index * pull.source_step[s][d];
    }
}

/* Accesses of W elements; the last of one run may be shorter. */
template <class T, int W> __device__ void pull_reduce(const KernelPull &pull, int64_t begin, int64_t end) {
    typedef Number<T> N; /* halves: all terms of a pull are added up as float and the sum rounded once */
    struct alignas(sizeof(T) * W) Item {
        T at[W];
    };
    const int64_t first = pull.first / W;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        int64_t offset[1 + PULL_TERMS], left = pull.count - i * W;
        pull_offsets(pull, first + i, offset);
        T *target = (T *)pull.target + offset[0];
        if (W > 1 && left < W) {
            for (int64_t k = 0; k < left; k++) {
                N value = (N)(pull.add ? target[k] : ((const T *)pull.source[0])[offset[1] + k]);
                for (int s = pull.add ? 0 : 1; s < pull.nsources; s++)
                    value = pull_combine<N>(value, (N)((const T *)pull.source[s])[offset[1 + s] + k], pull.reduction);
                target[k] = (T)value;
            }
            continue;
        }
        Item terms[PULL_TERMS];
        N value[W];
#pragma unroll
        for (int s = 0; s < PULL_TERMS; s++)
            if (s < pull.nsources) terms[s] = *(const Item *)((const T *)pull.source[s] + offset[1 + s]);
        if (pull.add) {
            const Item before = *(const Item *)target;
            for (int k = 0; k < W; k++)
                value[k] = pull_combine<N>((N)before.at[k], (N)terms[0].at[k], pull.reduction);
        } else {
            for (int k = 0; k < W; k++)
                value[k] = (N)terms[0].at[k];
        }
#pragma unroll
        for (int s = 1; s < PULL_TERMS; s++)
            if (s < pull.nsources)
                for (int k = 0; k < W; k++)
                    value[k] = pull_combine<N>(value[k], (N)terms[s].at[k], pull.reduction);
        Item result;
        for (int k = 0; k < W; k++)
            result.at[k] = (T)value[k];
        *(Item *)target = result;
    }
}

/* The same for one source, element_bytes * W bytes an access, whatever they mean. */
template <class Item> __device__ void pull_copy(const KernelPull &pull, int element_bytes, int64_t begin, int64_t end) {
    const int64_t step = blockDim.x, skipped = pull.first / pull.width;
    for (int64_t first = begin + threadIdx.x; first < end; first += 4 * step) {
        Item item[4];
        int64_t target[4];
        bool whole[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = first + k * step, offset[1 + PULL_TERMS];
            whole[k] = i < end && (i + 1) * pull.width <= pull.count;
            if (i >= end) continue;
            pull_offsets(pull, skipped + i, offset);
            target[k] = offset[0] * element_bytes;
            const char *from = (const char *)pull.source[0] + offset[1] * element_bytes;
            if (whole[k])
                item[k] = *(const Item *)from;
            else
                for (int64_t b = 0, left = (pull.count - i * pull.width) * element_bytes; b < left; b++)
                    ((char *)pull.target)[target[k] + b] = from[b];
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (whole[k]) *(Item *)((char *)pull.target + target[k]) = item[k];
    }
}

/* Block `block` of the pull's own. */
__device__ __forceinline__ void pull_block(const KernelPull &pull, unsigned block) {
    const int bytes[] = {4, 8, 4, 8, 1, 2, 2};
    int64_t items = (pull.count + pull.width - 1) / pull.width, each = (items + pull.nblocks - 1) / pull.nblocks;
    int64_t begin = block * each, end = begin + each < items ? begin + each : items;
    if (pull.nsources == 1 && !pull.add) {
        switch (bytes[pull.dtype] * pull.width) {
        case 16: pull_copy<uint4>(pull, bytes[pull.dtype], begin, end); return;
        case 8: pull_copy<uint2>(pull, bytes[pull.dtype], begin, end); return;
        case 4: pull_copy<uint32_t>(pull, bytes[pull.dtype], begin, end); return;
        case 2: pull_copy<uint16_t>(pull, bytes[pull.dtype], begin, end); return;
        default: pull_copy<uint8_t>(pull, bytes[pull.dtype], begin, end); return;
        }
    }
    bool wide = pull.width > 1;
    switch (pull.dtype) {
    case KERNEL_F32: wide ? pull_reduce<float, 4>(pull, begin, end) : pull_reduce<float, 1>(pull, begin, end); return;
    case KERNEL_F64: wide ? pull_reduce<double, 2>(pull, begin, end) : pull_reduce<double, 1>(pull, begin, end); return;
    case KERNEL_I32: wide ? pull_reduce<int32_t, 4>(pull, begin, end) : pull_reduce<int32_t, 1>(pull, begin, end); return;
    case KERNEL_I64: wide ? pull_reduce<int64_t, 2>(pull, begin, end) : pull_reduce<int64_t, 1>(pull, begin, end); return;
    case KERNEL_F16: wide ? pull_reduce<Float16, 4>(pull, begin, end) : pull_reduce<Float16, 1>(pull, begin, end); return;
    case KERNEL_BF16: wide ? pull_reduce<BFloat16, 4>(pull, begin, end) : pull_reduce<BFloat16, 1>(pull, begin, end); return;
    default: wide ? pull_reduce<uint8_t, 4>(pull, begin, end) : pull_reduce<uint8_t, 1>(pull, begin, end); return;
    }
}

__global__ void __launch_bounds__(BLOCK, 2) pull_one(const __grid_constant__ KernelPull pull) {
    pull_block(pull, blockIdx.x);
}

__global__ void __launch_bounds__(BLOCK, 2) pull_table(const KernelPull *table, int n) {
    int low = 0, high = n - 1; /* the last pull that does not begin after this block */
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (table[middle].first_block <= blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    pull_block(table[low], blockIdx.x - table[low].first_block);
}

extern "C" cudaError_t kernels_pull(const KernelPull *pull, cudaStream_t stream) {
    if (pull->count == 0) return cudaSuccess;
    LAUNCH(pull_one, pull->nblocks, BLOCK, 0, stream, *pull);
    return cudaGetLastError();
}

extern "C" cudaError_t kernels_pulls(const KernelPull *table, int n, int64_t nblocks, cudaStream_t stream) {
    if (n == 0) return cudaSuccess;
    LAUNCH(pull_table, (unsigned)nblocks, BLOCK, 0, stream, table, n);
    return cudaGetLastError();
}
