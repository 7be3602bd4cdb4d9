/* move: elements brought to other places. What they are does not matter: items of 1 to 16 bytes, as wide as sizes, strides and addresses permit. */
#pragma once

/* ---------------------------------------------------------------- loops */

/* Offsets in both tensors of iteration `index`, in items. narrow: it is below 2^31. */
__device__ __forceinline__ void loops_offsets(const KernelLoops &loops, bool narrow, int64_t index, int64_t *first, int64_t *second) {
    int64_t a = 0, b = 0;
    for (int d = loops.ndim - 1; d > 0; d--) {
        int64_t next = narrow ? (int64_t)divide(loops.divisor[d], (uint32_t)index) : index / loops.size[d], at = index - next * loops.size[d];
        a += at * loops.stride[0][d];
        b += at * loops.stride[1][d];
        index = next;
    }
    *first = a + index * loops.stride[0][0];
    *second = b + index * loops.stride[1][0];
}

static int64_t loops_count(const KernelLoops *loops) {
    int64_t n = 1;
    for (int d = 0; d < loops->ndim; d++)
        n *= loops->size[d];
    return n;
}

/* Drops loops of one item (one stays) and makes the divisors. */
static void loops_finish(KernelLoops *loops) {
    int n = 0;
    for (int d = 0; d < loops->ndim; d++) {
        if (loops->size[d] == 1 && (n > 0 || d + 1 < loops->ndim)) continue;
        loops->size[n] = loops->size[d];
        loops->stride[0][n] = loops->stride[0][d];
        loops->stride[1][n] = loops->stride[1][d];
        loops->divisor[n] = kernel_divisor(loops->size[n]);
        n++;
    }
    loops->ndim = n;
}

static bool is_multiple(const void *address, int bytes) {
    return (uintptr_t)address % (uintptr_t)bytes == 0;
}

/* Whether the innermost loop, and in every other one the steps of this tensor, are multiples of so many items. */
static bool strides_allow(const KernelLoops *loops, int tensor, int items) {
    for (int d = 0; d < loops->ndim - 1; d++)
        if (loops->stride[tensor][d] % items != 0) return false;
    return loops->size[loops->ndim - 1] % items == 0;
}

/* ---------------------------------------------------------------- copies */

/* n accesses of W items each to `out`; SPLAT: an access reads one item and writes it W times. DIVIDE: items are numbers, and divided, perhaps
 * where they are: the pointers may be the same, and what a thread writes it alone has read before. */
template <class T, int W, bool SPLAT, bool DIVIDE>
__global__ void __launch_bounds__(BLOCK) copy_items(T *out, const T *in, const __grid_constant__ KernelLoops loops, int64_t n, bool narrow, double by) {
    struct alignas(sizeof(T) * W) Item {
        T at[W];
    };
    const int64_t step = (int64_t)gridDim.x * BLOCK;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK + threadIdx.x; first < n; first += 4 * step) {
        Item item[4];
        int64_t to[4], from;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (first + k * step >= n) continue;
            loops_offsets(loops, narrow, first + k * step, &to[k], &from);
            if (SPLAT)
                for (int l = 0; l < W; l++)
                    item[k].at[l] = in[from];
            else
                item[k] = *(const Item *)(in + from);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (first + k * step >= n) continue;
            if constexpr (DIVIDE)
                for (int l = 0; l < W; l++)
                    item[k].at[l] = (T)((Number<T>)item[k].at[l] / (Number<T>)by);
            *(Item *)(out + to[k]) = item[k];
        }
    }
}

template <class T, int W, bool SPLAT, bool DIVIDE> static cudaError_t copy_launch(void *out, const void *in, KernelLoops loops, double by, cudaStream_t stream) {
    int last = loops.ndim - 1;
    loops.size[last] /= W;
    loops.stride[0][last] *= W;
    loops.stride[1][last] *= W;
    loops_finish(&loops);
    int64_t n = loops_count(&loops);
    LAUNCH((copy_items<T, W, SPLAT, DIVIDE>), blocks_for(n, 4), BLOCK, 0, stream, (T *)out, (const T *)in, loops, n, n <= INT32_MAX, by);
    return cudaGetLastError();
}

/* ---------------------------------------------------------------- transposed planes */

/* out[i * out_stride + j] = in[i + j * in_stride] for i below rows and j below columns, and this for each iteration of `outer`. By tiles, in accesses of V items on
 * both sides. */
template <class T, int TILE, int V>
__global__ void __launch_bounds__(BLOCK) copy_planes(T *__restrict__ out, const T *__restrict__ in, const __grid_constant__ KernelLoops outer, int64_t rows, int64_t columns, int64_t out_stride,
                                                     int64_t in_stride, int64_t ntiles) {
    enum { ACROSS = TILE / V, DOWN = BLOCK / ACROSS };
    struct alignas(sizeof(T) * V) Item {
        T at[V];
    };
    __shared__ T tile[TILE * (TILE + 1)];
    const int across = threadIdx.x % ACROSS * V, down = threadIdx.x / ACROSS;
    const int64_t tiles_down = (rows + TILE - 1) / TILE, tiles_across = (columns + TILE - 1) / TILE;
    for (int64_t t = blockIdx.x; t < ntiles; t += gridDim.x) {
        int64_t plane = t / (tiles_down * tiles_across), rest = t - plane * tiles_down * tiles_across, to, from;
        const int64_t row = rest / tiles_across * TILE, column = rest % tiles_across * TILE;
        loops_offsets(outer, false, plane, &to, &from);
        const T *source = in + from + row;
        T *target = out + to + column;
        __syncthreads(); /* the tile before has been read */
#pragma unroll
        for (int j = down; j < TILE; j += DOWN)
            if (column + j < columns && row + across < rows) {
                Item item = *(const Item *)(source + (column + j) * in_stride + across);
                for (int l = 0; l < V; l++)
                    tile[j * (TILE + 1) + across + l] = item.at[l];
            }
        __syncthreads();
#pragma unroll
        for (int i = down; i < TILE; i += DOWN)
            if (row + i < rows && column + across < columns) {
                Item item;
                for (int l = 0; l < V; l++)
                    item.at[l] = tile[(across + l) * (TILE + 1) + i];
                *(Item *)(target + (row + i) * out_stride + across) = item;
            }
    }
}

template <class T, int TILE, int V> static cudaError_t planes_launch(void *out, const void *in, const KernelLoops *loops, int row_loop, cudaStream_t stream) {
    KernelLoops outer = {};
    int last = loops->ndim - 1;
    for (int d = 0; d < last; d++) {
        if (d == row_loop) continue;
        outer.size[outer.ndim] = loops->size[d];
        outer.stride[0][outer.ndim] = loops->stride[0][d];
        outer.stride[1][outer.ndim++] = loops->stride[1][d];
    }
    if (outer.ndim == 0) outer.size[outer.ndim++] = 1;
    loops_finish(&outer);
    int64_t rows = loops->size[row_loop], columns = loops->size[last];
    int64_t ntiles = loops_count(&outer) * ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
    LAUNCH((copy_planes<T, TILE, V>), blocks_for(ntiles * BLOCK, 1), BLOCK, 0, stream, (T *)out, (const T *)in, outer, rows, columns, loops->stride[0][row_loop],
           loops->stride[1][last], ntiles);
    return cudaGetLastError();
}

/* The loop that is innermost in the operand where another is innermost in the result, -1: there is none, or too little of it for tiles. */
static int planes_row_loop(const KernelLoops *loops) {
    int last = loops->ndim - 1;
    if (loops->stride[0][last] != 1 || loops->stride[1][last] <= 1 || loops->size[last] < 8) return -1;
    for (int d = 0; d < last; d++)
        if (loops->stride[1][d] == 1 && loops->size[d] >= 8) return d;
    return -1;
}

/* Whether all steps of a plane are multiples of V items. */
static bool planes_allow(const KernelLoops *loops, int row_loop, const void *out, const void *in, int v, int bytes) {
    int last = loops->ndim - 1;
    bool allow = loops->size[row_loop] % v == 0 && loops->size[last] % v == 0 && is_multiple(out, v * bytes) && is_multiple(in, v * bytes);
    for (int d = 0; d <= last; d++)
        allow = allow && (d == last || loops->stride[0][d] % v == 0) && (d == row_loop || loops->stride[1][d] % v == 0);
    return allow;
}

template <class T> static cudaError_t copy_strided(void *out, const void *in, const KernelLoops *loops, cudaStream_t stream) {
    enum { V = 16 / sizeof(T), TILE = sizeof(T) <= 4 ? 64 : 32 };
    int row_loop = planes_row_loop(loops), last = loops->ndim - 1;
    if (row_loop >= 0) {
        if (planes_allow(loops, row_loop, out, in, V, sizeof(T))) return planes_launch<T, TILE, V>(out, in, loops, row_loop, stream);
        return planes_launch<T, TILE, 1>(out, in, loops, row_loop, stream);
    }
    if (V > 1 && loops->stride[0][last] == 1 && loops->stride[1][last] == 0 && is_multiple(out, 16) && strides_allow(loops, 0, V))
        return copy_launch<T, V, true, false>(out, in, *loops, 1, stream);
    return copy_launch<T, 1, false, false>(out, in, *loops, 1, stream);
}

/* Makes wider items of neighbouring ones; returns their bytes. */
static int loops_widen(KernelLoops *loops, const void *out, const void *in, int bytes) {
    int last = loops->ndim - 1, items = 16 / bytes;
    if (loops->stride[0][last] != 1 || loops->stride[1][last] != 1) return bytes;
    while (items > 1 && !(is_multiple(out, items * bytes) && is_multiple(in, items * bytes) && strides_allow(loops, 0, items) && strides_allow(loops, 1, items)))
        items /= 2;
    for (int d = 0; d < last; d++) {
        loops->stride[0][d] /= items;
        loops->stride[1][d] /= items;
    }
    loops->size[last] /= items;
    return bytes * items;
}

extern "C" cudaError_t kernels_copy(void *out, const void *in, int item_bytes, const KernelLoops *given, cudaStream_t stream) {
    KernelLoops loops = *given;
    if (loops_count(&loops) == 0) return cudaSuccess;
    int bytes = loops_widen(&loops, out, in, item_bytes);
    loops_finish(&loops);
    switch (bytes) {
    case 16: return copy_strided<uint4>(out, in, &loops, stream);
    case 8: return copy_strided<uint64_t>(out, in, &loops, stream);
    case 4: return copy_strided<uint32_t>(out, in, &loops, stream);
    case 2: return copy_strided<uint16_t>(out, in, &loops, stream);
    default: return copy_strided<uint8_t>(out, in, &loops, stream);
    }
}

template <class T> static cudaError_t divide_copy(void *out, const void *in, const KernelLoops *loops, double by, cudaStream_t stream) {
    enum { V = 16 / sizeof(T) };
    int last = loops->ndim - 1;
    bool wide = loops->stride[0][last] == 1 && is_multiple(out, 16) && strides_allow(loops, 0, V);
    if (wide && loops->stride[1][last] == 0) return copy_launch<T, V, true, true>(out, in, *loops, by, stream);
    if (wide && loops->stride[1][last] == 1 && is_multiple(in, 16) && strides_allow(loops, 1, V)) return copy_launch<T, V, false, true>(out, in, *loops, by, stream);
    return copy_launch<T, 1, false, true>(out, in, *loops, by, stream);
}

extern "C" cudaError_t kernels_copy_divided(void *out, const void *in, int dtype, const KernelLoops *loops, double by, cudaStream_t stream) {
    if (loops_count(loops) == 0) return cudaSuccess;
    WITH_REAL(dtype, T, return divide_copy<T>(out, in, loops, by, stream))
    return cudaErrorInvalidValue;
}

template <class T> __global__ void __launch_bounds__(BLOCK) fill_items(T *out, int64_t n, T value) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * BLOCK)
        out[i] = value;
}

extern "C" cudaError_t kernels_fill(void *out, int64_t n, int item_bytes, uint64_t bits, cudaStream_t stream) {
    if (n == 0) return cudaSuccess;
    switch (item_bytes) {
    case 8: LAUNCH((fill_items<uint64_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint64_t *)out, n, bits); break;
    case 4: LAUNCH((fill_items<uint32_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint32_t *)out, n, (uint32_t)bits); break;
    case 2: LAUNCH((fill_items<uint16_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint16_t *)out, n, (uint16_t)bits); break;
    default: LAUNCH((fill_items<uint8_t>), blocks_for(n, 4), BLOCK, 0, stream, (uint8_t *)out, n, (uint8_t)bits); break;
    }
    return cudaGetLastError();
}

/* ---------------------------------------------------------------- rows of several tensors */

/* Part y of the grid: rows of `run` accesses each, from one place to another. */
template <class T> __global__ void __launch_bounds__(BLOCK) copy_joints(const __grid_constant__ KernelJoints joints, int64_t rows, int shift) {
    const KernelJoint joint = joints.at[blockIdx.y];
    const int64_t run = joint.run >> shift, n = rows * run, step = (int64_t)gridDim.x * BLOCK;
    const bool narrow = n <= INT32_MAX;
    const KernelDivisor divisor = joint.divisor;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK + threadIdx.x; first < n; first += 4 * step) {
        T item[4];
        T *to[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = first + k * step;
            if (i >= n) continue;
            int64_t row = narrow ? (int64_t)divide(divisor, (uint32_t)i) : i / run, at = i - row * run;
            item[k] = ((const T *)((const char *)joint.in + row * joint.in_stride))[at];
            to[k] = (T *)((char *)joint.out + row * joint.out_stride) + at;
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (first + k * step < n) *to[k] = item[k];
    }
}

extern "C" cudaError_t kernels_join(const KernelJoint *given, int n, int64_t rows, cudaStream_t stream) {
    KernelJoints joints = {};
    uint64_t steps = 16; /* a power of two that all are multiples of is its lowest bit's */
    int64_t longest = 0;
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (given[i].run == 0) continue;
        joints.at[count++] = given[i];
        steps |= (uint64_t)(uintptr_t)given[i].out | (uint64_t)(uintptr_t)given[i].in | (uint64_t)given[i].run;
        if (rows > 1) steps |= (uint64_t)given[i].out_stride | (uint64_t)given[i].in_stride;
        longest = given[i].run > longest ? given[i].run : longest;
    }
    if (count == 0 || rows == 0) return cudaSuccess;
    int shift = 0;
    while (shift < 4 && !(steps >> shift & 1))
        shift++;
    for (int i = 0; i < count; i++)
        joints.at[i].divisor = kernel_divisor(joints.at[i].run >> shift);
    dim3 grid(blocks_for(rows * (longest >> shift), 4), (unsigned)count);
    switch (shift) {
    case 4: LAUNCH((copy_joints<uint4>), grid, BLOCK, 0, stream, joints, rows, shift); break;
    case 3: LAUNCH((copy_joints<uint64_t>), grid, BLOCK, 0, stream, joints, rows, shift); break;
    case 2: LAUNCH((copy_joints<uint32_t>), grid, BLOCK, 0, stream, joints, rows, shift); break;
    case 1: LAUNCH((copy_joints<uint16_t>), grid, BLOCK, 0, stream, joints, rows, shift); break;
    default: LAUNCH((copy_joints<uint8_t>), grid, BLOCK, 0, stream, joints, rows, shift); break;
    }
    return cudaGetLastError();
}
