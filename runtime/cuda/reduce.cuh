/* reduce: sums, maxima and places over some dimensions. Sums of floats add up in double, those of integers wrap, as the CPU's do. Every sum has one order, which
 * follows from sizes alone: threads add what is theirs, neighbours are added pairwise, blocks that share a result leave partial results in scratch memory, and the
 * last of them to come, whichever it is, adds them in their order. */
#pragma once

/* ---------------------------------------------------------------- what is reduced */

template <class T> struct SumOf {
    typedef T In;
    typedef T Out;
    typedef double Acc;
    static __device__ __forceinline__ Acc identity() { return 0; }
    static __device__ __forceinline__ Acc of(T x, int64_t) { return (Acc)x; }
    static __device__ __forceinline__ Acc combine(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out finish(Acc a, double divisor, int64_t) { return (Out)(a / divisor); }
};
template <> struct SumOf<int32_t> {
    typedef int32_t In;
    typedef int32_t Out;
    typedef uint32_t Acc;
    static __device__ __forceinline__ Acc identity() { return 0; }
    static __device__ __forceinline__ Acc of(int32_t x, int64_t) { return (Acc)x; }
    static __device__ __forceinline__ Acc combine(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out finish(Acc a, double, int64_t) { return (Out)a; }
};
template <> struct SumOf<int64_t> {
    typedef int64_t In;
    typedef int64_t Out;
    typedef uint64_t Acc;
    static __device__ __forceinline__ Acc identity() { return 0; }
    static __device__ __forceinline__ Acc of(int64_t x, int64_t) { return (Acc)x; }
    static __device__ __forceinline__ Acc combine(Acc a, Acc b) { return a + b; }
    static __device__ __forceinline__ Out finish(Acc a, double, int64_t) { return (Out)a; }
};

/* What every other number is below. */
template <class T> __device__ __forceinline__ T most_of();
template <> __device__ __forceinline__ float most_of() { return (float)INFINITY; }
template <> __device__ __forceinline__ double most_of() { return (double)INFINITY; }
template <> __device__ __forceinline__ int32_t most_of() { return INT32_MAX; }
template <> __device__ __forceinline__ int64_t most_of() { return INT64_MAX; }

template <class T, bool largest> struct ExtremeOf {
    typedef T In;
    typedef T Out;
    typedef Number<T> Acc;
    static __device__ __forceinline__ Acc identity() {
        if constexpr (is_real<Acc>)
            return largest ? -most_of<Acc>() : most_of<Acc>();
        else
            return largest ? -most_of<Acc>() - 1 : most_of<Acc>();
    }
    static __device__ __forceinline__ Acc of(T x, int64_t) { return (Acc)x; }
    static __device__ __forceinline__ Acc combine(Acc best, Acc x) { return (largest ? x > best : x < best) || x != x ? x : best; } /* a nan stays */
    static __device__ __forceinline__ Out finish(Acc a, double, int64_t) { return (Out)a; }
};

struct FirstOf {
    typedef uint8_t In;
    typedef int32_t Out;
    typedef int64_t Acc;
    static __device__ __forceinline__ Acc identity() { return INT64_MAX; }
    static __device__ __forceinline__ Acc of(uint8_t x, int64_t at) { return x ? at : INT64_MAX; }
    static __device__ __forceinline__ Acc combine(Acc a, Acc b) { return a < b ? a : b; }
    static __device__ __forceinline__ Out finish(Acc a, double, int64_t origin) { return a == INT64_MAX ? INT32_MAX : (Out)(origin + a); }
};

/* ---------------------------------------------------------------- stages */

/* Reduction of blocks that share results: `parts` of them, with partial results in `partial`; counter: of those that have come. */
struct ReduceParts {
    unsigned *counter;
    void *partial;
    int parts;
};

/* Whether this block is the last one of those that share a counter: what the others wrote before is then visible to all of its threads. Resets the counter. */
__device__ __forceinline__ bool last_to_come(unsigned *counter, int parts) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(counter, 1u) == (unsigned)parts - 1;
        if (is_last) *counter = 0;
    }
    __syncthreads();
    bool last = is_last;
    if (last) __threadfence();
    __syncthreads();
    return last;
}

/* Position of iteration i of the loops that are reduced over, in the operand. */
__device__ __forceinline__ int64_t gone_offset(const KernelLoops &gone, bool narrow, int64_t i) {
    int64_t unused, offset;
    if (gone.ndim == 1) return i * gone.stride[1][0];
    loops_offsets(gone, narrow, i, &unused, &offset);
    return offset;
}

/* Iterations begin, begin + step, ... below end, of the operand at `in`. */
template <class R>
__device__ __forceinline__ typename R::Acc reduce_run(const typename R::In *in, const KernelLoops &gone, bool narrow, int64_t begin, int64_t end, int64_t step) {
    typename R::Acc acc[4] = {R::identity(), R::identity(), R::identity(), R::identity()};
    int64_t i = begin;
    for (; i + 3 * step < end; i += 4 * step) {
        typename R::In x[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            x[k] = in[gone_offset(gone, narrow, i + k * step)];
#pragma unroll
        for (int k = 0; k < 4; k++)
            acc[k] = R::combine(acc[k], R::of(x[k], i + k * step));
    }
    for (; i < end; i += step)
        acc[0] = R::combine(acc[0], R::of(in[gone_offset(gone, narrow, i)], i));
    return R::combine(R::combine(acc[0], acc[1]), R::combine(acc[2], acc[3]));
}

/* The same of a contiguous run, 16 bytes an access; begin and end: in such accesses. */
template <class R> __device__ __forceinline__ typename R::Acc reduce_wide(const typename R::In *in, int64_t begin, int64_t end, int64_t step) {
    typedef typename R::In In;
    enum { W = 16 / sizeof(In) };
    struct alignas(16) Item {
        In at[W];
    };
    typename R::Acc acc[4] = {R::identity(), R::identity(), R::identity(), R::identity()};
    const Item *items = (const Item *)in;
    int64_t i = begin;
    for (; i + 3 * step < end; i += 4 * step) {
        Item x[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            x[k] = items[i + k * step];
#pragma unroll
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < W; l++)
                acc[l % 4] = R::combine(acc[l % 4], R::of(x[k].at[l], (i + k * step) * W + l));
    }
    for (; i < end; i += step) {
        Item x = items[i];
        for (int l = 0; l < W; l++)
            acc[l % 4] = R::combine(acc[l % 4], R::of(x.at[l], i * W + l));
    }
    return R::combine(R::combine(acc[0], acc[1]), R::combine(acc[2], acc[3]));
}

/* All lanes of groups of `width` (a power of two) get their group's result. */
template <class R> __device__ __forceinline__ typename R::Acc reduce_lanes(typename R::Acc acc, int width) {
    for (int lane = width / 2; lane > 0; lane /= 2)
        acc = R::combine(acc, __shfl_xor_sync(0xffffffffu, acc, lane));
    return acc;
}

/* Thread 0 gets the block's. */
template <class R> __device__ __forceinline__ typename R::Acc reduce_block(typename R::Acc acc) {
    __shared__ typename R::Acc warps[BLOCK / WARP];
    acc = reduce_lanes<R>(acc, WARP);
    __syncthreads();
    if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = acc;
    __syncthreads();
    acc = threadIdx.x < BLOCK / WARP ? warps[threadIdx.x] : R::identity();
    return threadIdx.x < WARP ? reduce_lanes<R>(acc, BLOCK / WARP) : acc;
}

/* ---------------------------------------------------------------- kernels */

/* What all of them take. narrow: iterations are counted below 2^31. wide: the operand of each result is contiguous and 16-byte accesses fit. */
struct ReduceArgs {
    KernelLoops kept, gone;
    int64_t nkept, ngone, origin;
    double divisor;
    bool narrow, wide;
};

/* A result by `group` neighbouring lanes. */
template <class R> __global__ void __launch_bounds__(BLOCK) reduce_groups(typename R::Out *out, const typename R::In *in, const __grid_constant__ ReduceArgs args, int group) {
    const int lane = threadIdx.x % group;
    const int64_t each = BLOCK / group, step = (int64_t)gridDim.x * each;
    const int width = 16 / (int)sizeof(typename R::In);
    for (int64_t first = blockIdx.x * each; first < args.nkept; first += step) {
        int64_t item = first + threadIdx.x / group, to = 0, from = 0;
        typename R::Acc acc = R::identity();
        if (item < args.nkept) {
            loops_offsets(args.kept, args.narrow, item, &to, &from);
            acc = args.wide ? reduce_wide<R>(in + from, lane, args.ngone / width, group) : reduce_run<R>(in + from, args.gone, args.narrow, lane, args.ngone, group);
        }
        acc = reduce_lanes<R>(acc, group);
        if (lane == 0 && item < args.nkept) out[to] = R::finish(acc, args.divisor, args.origin);
    }
}

/* A result by a block, or by several (x of the grid: the results). */
template <class R> __global__ void __launch_bounds__(BLOCK) reduce_blocks(typename R::Out *out, const typename R::In *in, const __grid_constant__ ReduceArgs args, ReduceParts parts) {
    typedef typename R::Acc Acc;
    const int width = args.wide ? 16 / (int)sizeof(typename R::In) : 1;
    const int64_t accesses = args.ngone / width, each = (accesses + parts.parts - 1) / parts.parts;
    for (int64_t item = blockIdx.x; item < args.nkept; item += gridDim.x) {
        int64_t to, from, begin = blockIdx.y * each, end = begin + each < accesses ? begin + each : accesses;
        loops_offsets(args.kept, args.narrow, item, &to, &from);
        Acc acc = args.wide ? reduce_wide<R>(in + from, begin + threadIdx.x, end, BLOCK)
                            : reduce_run<R>(in + from, args.gone, args.narrow, begin + threadIdx.x, end, BLOCK);
        acc = reduce_block<R>(acc);
        if (parts.parts > 1) {
            Acc *partial = (Acc *)parts.partial + item * parts.parts;
            if (threadIdx.x == 0) partial[blockIdx.y] = acc;
            if (!last_to_come(parts.counter + item, parts.parts)) continue;
            acc = R::identity();
            for (int p = threadIdx.x; p < parts.parts; p += BLOCK)
                acc = R::combine(acc, __ldcg(partial + p));
            acc = reduce_block<R>(acc);
        }
        if (threadIdx.x == 0) out[to] = R::finish(acc, args.divisor, args.origin);
    }
}

/* W neighbouring elements, at a multiple of their size. */
template <class T, int W> struct alignas(sizeof(T) * W) Side {
    T at[W];
};

/* Of W neighbours each: n iterations, `stride` elements apart, of which every `step`th is this thread's. */
template <class R, int W> __device__ __forceinline__ void reduce_sides(typename R::Acc (&acc)[W], const typename R::In *in, int64_t stride, int n, int step) {
    typedef Side<typename R::In, W> Item;
    enum { AHEAD = W > 4 ? 2 : 4 }; /* loads under way */
    for (int i = 0; i < n; i += AHEAD * step) {
        Item x[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (i + k * step < n) x[k] = *(const Item *)in;
            in += stride * step;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * step < n)
                for (int l = 0; l < W; l++)
                    acc[l] = R::combine(acc[l], R::of(x[k].at[l], 0));
    }
}

/* Of a block whose rows are `across` threads: the first row gets what all have for its columns, W a thread. Rows y and y + half are added, as a tree. */
template <class R, int W> __device__ __forceinline__ void reduce_down(typename R::Acc (&acc)[W], int across) {
    __shared__ typename R::Acc sums[W][BLOCK];
    for (int half = BLOCK / across / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int l = 0; l < W; l++)
            sums[l][threadIdx.x] = acc[l];
        __syncthreads();
        if ((int)threadIdx.x / across < half)
            for (int l = 0; l < W; l++)
                acc[l] = R::combine(acc[l], sums[l][threadIdx.x + half * across]);
    }
}

/* After reduce_down: whether this block is the last of those that share its columns; what all of them have is then in the first row. */
template <class R, int W> __device__ __forceinline__ bool reduce_across_blocks(typename R::Acc (&acc)[W], int across, const ReduceParts &parts, int64_t tile) {
    typedef typename R::Acc Acc;
    const int x = threadIdx.x % across, y = threadIdx.x / across, down = BLOCK / across;
    Acc *partial = (Acc *)parts.partial + tile * parts.parts * W * across + x;
    if (parts.parts == 1) return true;
    for (int l = 0; l < W; l++) {
        if (y == 0) partial[(blockIdx.y * W + l) * across] = acc[l];
        acc[l] = R::identity();
    }
    if (!last_to_come(parts.counter + tile, parts.parts)) return false;
#pragma unroll 2
    for (int p = y; p < parts.parts; p += down)
        for (int l = 0; l < W; l++)
            acc[l] = R::combine(acc[l], __ldcg(partial + (p * W + l) * across));
    reduce_down<R, W>(acc, across);
    return true;
}

/* How columns are dealt out: `tiles` blocks to a row of them, iterations in parts of `each`. */
struct ReduceColumns {
    int across;
    int64_t tiles, ntiles, each;
};

/* Neighbouring results by neighbouring threads, W each: a block has `across` (a power of two, at most a warp) of them side by side, and divides the iterations among its
 * other threads; y of the grid: the parts. */
template <class R, int W>
__global__ void __launch_bounds__(BLOCK) reduce_columns(typename R::Out *out, const typename R::In *in, const __grid_constant__ ReduceArgs args, const __grid_constant__ ReduceColumns by,
                   const __grid_constant__ ReduceParts parts) {
    typedef typename R::Acc Acc;
    const int last = args.kept.ndim - 1, across = by.across, x = threadIdx.x % across, y = threadIdx.x / across, down = BLOCK / across;
    for (int64_t tile = blockIdx.x; tile < by.ntiles; tile += gridDim.x) {
        const int64_t outer = tile / by.tiles, column = ((tile - outer * by.tiles) * across + x) * W;
        const int64_t begin = blockIdx.y * by.each, end = begin + by.each < args.ngone ? begin + by.each : args.ngone;
        const bool inside = column < args.kept.size[last];
        int64_t to = 0, from = 0;
        Acc acc[W];
        for (int l = 0; l < W; l++)
            acc[l] = R::identity();
        if (inside) {
            loops_offsets(args.kept, args.narrow, outer * args.kept.size[last] + column, &to, &from);
            if constexpr (W > 1)
                reduce_sides<R, W>(acc, in + from + (begin + y) * args.gone.stride[1][0], args.gone.stride[1][0], (int)(end - begin) - y, down);
            else
                acc[0] = reduce_run<R>(in + from, args.gone, args.narrow, begin + y, end, down);
        }
        reduce_down<R, W>(acc, across);
        if (!reduce_across_blocks<R, W>(acc, across, parts, tile)) continue;
        if (inside && y == 0)
            for (int l = 0; l < W; l++)
                out[to + l * args.kept.stride[0][last]] = R::finish(acc[l], args.divisor, args.origin);
    }
}

/* ---------------------------------------------------------------- the choice */

/* Into how many parts the iterations of each result go, so that the device is busy: nblocks blocks there are without. least: iterations that a part is worth. */
static int reduce_parts(int64_t nblocks, int64_t ngone, int64_t least, int64_t partial_bytes, int64_t scratch_bytes) {
    int64_t want = 8 * (int64_t)processors() / nblocks, most = ngone / least, room = (scratch_bytes - SCRATCH_COUNTERS * (int64_t)sizeof(unsigned)) / partial_bytes;
    if (nblocks > SCRATCH_COUNTERS) return 1;
    want = want > most ? most : want;
    want = want > room ? room : want;
    return want < 1 ? 1 : want > 1024 ? 1024 : (int)want;
}

/* The least power of two that is not below n, but at most `most`. */
static int power_for(int64_t n, int most) {
    int power = 1;
    while (power < most && power < n)
        power *= 2;
    return power;
}

/* W columns a thread. */
template <class R, int W>
static cudaError_t columns_launch(typename R::Out *out, const typename R::In *in, const ReduceArgs &args, ReduceParts parts, int64_t scratch_bytes, cudaStream_t stream) {
    const int64_t columns = args.kept.size[args.kept.ndim - 1] / W;
    const int across = power_for(columns, WARP);
    const int64_t ntiles = args.nkept / W / columns * ((columns + across - 1) / across);
    parts.parts = reduce_parts(ntiles, args.ngone, (W > 1 ? 4 : 8) * BLOCK / across, ntiles * across * W * (int64_t)sizeof(typename R::Acc), scratch_bytes);
    dim3 grid(ntiles > 1 << 20 ? 1u << 20 : (unsigned)ntiles, (unsigned)parts.parts);
    const ReduceColumns by = {across, (columns + across - 1) / across, ntiles, (args.ngone + parts.parts - 1) / parts.parts};
    LAUNCH((reduce_columns<R, W>), grid, BLOCK, 0, stream, out, in, args, by, parts);
    return cudaGetLastError();
}

/* Whether W neighbouring columns lie at multiples of their size, in every row, and rows equally far apart. */
static bool columns_allow(const ReduceArgs &args, const void *in, int W, int bytes) {
    return args.narrow && args.kept.stride[1][args.kept.ndim - 1] == 1 && strides_allow(&args.kept, 1, W) && args.gone.ndim == 1 && args.gone.stride[1][0] % W == 0 && is_multiple(in, W * bytes);
}

template <class R> static cudaError_t reduce_launch(const KernelReduce *reduce, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    typedef typename R::In In;
    typedef typename R::Out Out;
    ReduceArgs args = {reduce->kept, reduce->gone, loops_count(&reduce->kept), loops_count(&reduce->gone), reduce->origin, reduce->divisor, false, false};
    ReduceParts parts = {(unsigned *)scratch, (char *)scratch + SCRATCH_COUNTERS * sizeof(unsigned), 1};
    Out *out = (Out *)reduce->out;
    const In *in = (const In *)reduce->in;
    constexpr int width = 16 / (int)sizeof(In);
    for (int d = 0; d < args.kept.ndim; d++)
        args.kept.divisor[d] = kernel_divisor(args.kept.size[d]);
    for (int d = 0; d < args.gone.ndim; d++)
        args.gone.divisor[d] = kernel_divisor(args.gone.size[d]);
    args.narrow = args.nkept <= INT32_MAX && args.ngone <= INT32_MAX;
    if (reduce->columns) {
        if constexpr (width <= 8)
            if (columns_allow(args, in, width, (int)sizeof(In))) return columns_launch<R, width>(out, in, args, parts, scratch_bytes, stream);
        return columns_launch<R, 1>(out, in, args, parts, scratch_bytes, stream);
    }
    args.wide = args.gone.ndim == 1 && args.gone.stride[1][0] == 1 && args.ngone % width == 0 && is_multiple(in, 16);
    for (int d = 0; d < args.kept.ndim; d++)
        args.wide = args.wide && (args.kept.size[d] == 1 || args.kept.stride[1][d] % width == 0);
    int64_t accesses = args.wide ? args.ngone / width : args.ngone;
    if (accesses <= 8 * WARP) {
        int group = power_for((accesses + 3) / 4, WARP);
        LAUNCH((reduce_groups<R>), blocks_for(args.nkept * group, 1), BLOCK, 0, stream, out, in, args, group);
        return cudaGetLastError();
    }
    parts.parts = reduce_parts(args.nkept, accesses, 4 * BLOCK, args.nkept * (int64_t)sizeof(typename R::Acc), scratch_bytes);
    dim3 grid(args.nkept > 1 << 20 ? 1u << 20 : (unsigned)args.nkept, (unsigned)parts.parts);
    LAUNCH((reduce_blocks<R>), grid, BLOCK, 0, stream, out, in, args, parts);
    return cudaGetLastError();
}

template <class T> static cudaError_t reduce_of(const KernelReduce *reduce, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    switch (reduce->reduction) {
    case KERNEL_SUM: return reduce_launch<SumOf<T>>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_MAX: return reduce_launch<ExtremeOf<T, true>>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_MIN: return reduce_launch<ExtremeOf<T, false>>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_FIRST: break;
    }
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t kernels_reduce(const KernelReduce *reduce, void *scratch, int64_t scratch_bytes, cudaStream_t stream) {
    switch (reduce->dtype) {
    case KERNEL_F32: return reduce_of<float>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_F64: return reduce_of<double>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_I32: return reduce_of<int32_t>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_F16: return reduce_of<Float16>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_BF16: return reduce_of<BFloat16>(reduce, scratch, scratch_bytes, stream);
    case KERNEL_I64: return reduce_of<int64_t>(reduce, scratch, scratch_bytes, stream);
    default: return reduce_launch<FirstOf>(reduce, scratch, scratch_bytes, stream);
    }
}
