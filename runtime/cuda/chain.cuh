/* chain: a run of elementwise operators in one launch. A thread computes packs of 16 bytes: it loads the pack of every operand into its own column of slots in
 * shared memory, then goes through the steps, whose operands are slots or the result of the step before. All threads of a launch take the same branches. */
#pragma once

static_assert(sizeof(ChainLaunch) <= 4096, "arguments of a kernel");

/* Where element i of the result is in an operand. */
__device__ __forceinline__ int64_t chain_offset(const LaunchLoad &load, int64_t i, bool wide) {
    int64_t offset = 0;
    for (int d = load.ndim - 1; d > 0; d--) {
        const int64_t quotient = wide ? i / load.size[d] : (int64_t)divide(load.divisor[d], (uint32_t)i);
        offset += (i - quotient * load.size[d]) * load.stride[d];
        i = quotient;
    }
    return offset + i * load.stride[0];
}

template <class T> __device__ __forceinline__ T chain_element(const void *data, int dtype, int64_t i) {
    switch (dtype) {
    case KERNEL_F32:
        return convert<T>(((const float *)data)[i]);
    case KERNEL_F64:
        return convert<T>(((const double *)data)[i]);
    case KERNEL_I32:
        return convert<T>(((const int32_t *)data)[i]);
    case KERNEL_I64:
        return convert<T>(((const int64_t *)data)[i]);
    case KERNEL_F16:
        return convert<T>((float)((const Float16 *)data)[i]);
    case KERNEL_BF16:
        return convert<T>((float)((const BFloat16 *)data)[i]);
    default:
        return (T)((const uint8_t *)data)[i];
    }
}
template <class T> constexpr int chain_dtype = KERNEL_F32;
template <> constexpr int chain_dtype<double> = KERNEL_F64;
template <> constexpr int chain_dtype<int32_t> = KERNEL_I32;
template <> constexpr int chain_dtype<int64_t> = KERNEL_I64;

/* As many elements of another type as a pack has, side by side. */
template <class S, class T> struct __align__(sizeof(S) * Pack<T>::width) Neighbours {
    S at[Pack<T>::width];
};

template <class S, class T> __device__ __forceinline__ Pack<T> chain_widen(const void *data, int64_t at) {
    const Neighbours<S, T> from = *(const Neighbours<S, T> *)((const S *)data + at);
    Pack<T> pack;
#pragma unroll
    for (int k = 0; k < Pack<T>::width; k++)
        pack.at[k] = (T)from.at[k];
    return pack;
}

/* A pack of neighbours, which lies at a multiple of its size. */
template <class T> __device__ __forceinline__ Pack<T> chain_pack(const void *data, int dtype, int64_t at) {
    if (dtype == chain_dtype<T>) return *(const Pack<T> *)((const T *)data + at);
    if constexpr (chain_dtype<T> == KERNEL_F32) {
        if (dtype == KERNEL_F16) return chain_widen<Float16, T>(data, at);
        if (dtype == KERNEL_BF16) return chain_widen<BFloat16, T>(data, at);
    }
    return chain_widen<uint8_t, T>(data, at);
}

/* Elements [first, first + width) of an operand, of which the first n are there. */
template <class T> __device__ __forceinline__ Pack<T> chain_load(const LaunchLoad &load, int64_t first, int n, bool wide) {
    constexpr int width = Pack<T>::width;
    Pack<T> pack;
    if (load.mode == CHAIN_LINEAR && load.packed && n == width) return chain_pack<T>(load.data, load.dtype, first);
    if (load.mode == CHAIN_ROWS) { /* the pack lies in one row */
        const int64_t offset = chain_offset(load, first, wide), stride = load.stride[load.ndim - 1];
        if (load.packed) return chain_pack<T>(load.data, load.dtype, offset);
        if (stride == 0) {
            const T item = chain_element<T>(load.data, load.dtype, offset);
#pragma unroll
            for (int k = 0; k < width; k++)
                pack.at[k] = item;
            return pack;
        }
#pragma unroll
        for (int k = 0; k < width; k++)
            pack.at[k] = chain_element<T>(load.data, load.dtype, offset + k * stride);
        return pack;
    }
#pragma unroll
    for (int k = 0; k < width; k++) {
        const int64_t i = first + (k < n ? k : 0); /* what is not there is read as the first, which is */
        pack.at[k] = chain_element<T>(load.data, load.dtype, load.mode == CHAIN_LINEAR ? i : chain_offset(load, i, wide));
    }
    return pack;
}

template <class T> __device__ __forceinline__ void chain_put(void *data, int dtype, int64_t i, T value) {
    switch (dtype) {
    case KERNEL_F32:
        ((float *)data)[i] = convert<float>(value);
        return;
    case KERNEL_F64:
        ((double *)data)[i] = convert<double>(value);
        return;
    case KERNEL_I32:
        ((int32_t *)data)[i] = convert<int32_t>(value);
        return;
    case KERNEL_I64:
        ((int64_t *)data)[i] = convert<int64_t>(value);
        return;
    case KERNEL_F16:
        ((Float16 *)data)[i] = Float16(convert<float>(value));
        return;
    case KERNEL_BF16:
        ((BFloat16 *)data)[i] = BFloat16(convert<float>(value));
        return;
    default:
        ((uint8_t *)data)[i] = value != 0;
        return;
    }
}

template <class S, class T> __device__ __forceinline__ void chain_narrow(void *data, int64_t at, const Pack<T> &pack) {
    Neighbours<S, T> to;
#pragma unroll
    for (int k = 0; k < Pack<T>::width; k++)
        to.at[k] = S(pack.at[k]);
    *(Neighbours<S, T> *)((S *)data + at) = to;
}

/* A bool of memory. */
struct Truth {
    uint8_t byte;
    Truth() = default;
    template <class T> __device__ __forceinline__ explicit Truth(T value) : byte(value != 0) {}
};

template <class T> __device__ __forceinline__ void chain_store(const LaunchStore &store, int64_t first, int n, const Pack<T> &pack) {
    constexpr int width = Pack<T>::width;
    if (!store.packed || n < width) {
#pragma unroll
        for (int k = 0; k < width; k++)
            if (k < n) chain_put(store.data, store.dtype, first + k, pack.at[k]);
        return;
    }
    if (store.dtype == chain_dtype<T>) {
        *(Pack<T> *)((T *)store.data + first) = pack;
        return;
    }
    if constexpr (chain_dtype<T> == KERNEL_F32) {
        if (store.dtype == KERNEL_F16) return chain_narrow<Float16>(store.data, first, pack);
        if (store.dtype == KERNEL_BF16) return chain_narrow<BFloat16>(store.data, first, pack);
    }
    chain_narrow<Truth>(store.data, first, pack);
}

/* A result as its element type of 16 bits holds it. */
template <class T> __device__ __forceinline__ void chain_round(Pack<T> &pack, int dtype) {
    if constexpr (chain_dtype<T> == KERNEL_F32) {
#pragma unroll
        for (int k = 0; k < Pack<T>::width; k++)
            pack.at[k] = dtype == KERNEL_F16 ? (float)Float16(pack.at[k]) : (float)BFloat16(pack.at[k]);
    }
}

/* PACKS packs a thread, BLOCK packs apart, in SLOTS slots each. */
template <class T, int SLOTS, int PACKS> __global__ void __launch_bounds__(BLOCK, 4) chain_kernel(const __grid_constant__ ChainLaunch program) {
    constexpr int width = Pack<T>::width, apart = BLOCK * width;
    __shared__ Pack<T> slot[SLOTS][PACKS][BLOCK]; /* a column each: no thread reads another's */
    constexpr int ahead = PACKS > 1 ? 2 : 4; /* packs under way at the same time */
    const int me = (int)threadIdx.x;
    const bool wide = program.wide != 0;
    for (int64_t first = (int64_t)blockIdx.x * apart * PACKS + me * width; first < program.n; first += (int64_t)gridDim.x * apart * PACKS) {
        /* How many elements are there, of this pack on. */
        const int n = program.n - first < PACKS * apart ? (int)(program.n - first) : PACKS * apart;
#pragma unroll 1
        for (int l = 0; l < program.nloads; l += ahead / PACKS) {
            Pack<T> pack[ahead];
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                const int past = k % PACKS * apart;
                if (l + k / PACKS < program.nloads && past < n) pack[k] = chain_load<T>(program.load[l + k / PACKS], first + past, n - past < width ? n - past : width, wide);
            }
#pragma unroll
            for (int k = 0; k < ahead; k++)
                if (l + k / PACKS < program.nloads) slot[l + k / PACKS][k % PACKS][me] = pack[k];
        }
#pragma unroll 1
        for (int past = 0; past < PACKS * apart && past < n; past += apart) {
            const int p = past / apart;
            Pack<T> result = {};
#pragma unroll 1
            for (int s = 0; s < program.nsteps; s++) {
                const LaunchStep &step = program.step[s];
                const Pack<T> a = step.in[0] < CHAIN_SLOTS ? slot[step.in[0]][p][me] : result;
                const Pack<T> b = step.in[1] < CHAIN_SLOTS ? slot[step.in[1]][p][me] : result;
                const Pack<T> c = step.in[2] < CHAIN_SLOTS ? slot[step.in[2]][p][me] : result;
                result = element_apply(step.op, a, b, c, Constants{{program.constant[step.constant[0]], program.constant[step.constant[1]]}});
                if (step.round != 0) chain_round(result, step.round);
                if (step.slot < CHAIN_SLOTS) slot[step.slot][p][me] = result;
                for (int k = 0; k < step.nstores; k++)
                    chain_store(program.store[step.first_store + k], first + past, n - past < width ? n - past : width, result);
            }
        }
    }
}

/* Whether a launch of f32 with one operand takes two packs a thread: where they are of fewer bytes than 16, one does not keep enough of them under way. Of several operands
 * as many are without. */
static bool chain_takes_two(const ChainLaunch &program, int64_t blocks) {
    bool narrow = program.nloads == 1 && program.load[0].dtype != KERNEL_F32, fits = program.nloads == 1;
    for (int s = 0; s < program.nstores; s++)
        narrow = narrow || program.store[s].dtype != KERNEL_F32;
    for (int s = 0; s < program.nsteps; s++)
        fits = fits && (program.step[s].slot == CHAIN_RESULT || program.step[s].slot < CHAIN_SLOTS / 2);
    return narrow && fits && blocks > 2 * (int64_t)processors();
}

extern "C" cudaError_t kernels_chain(const ChainLaunch *program, cudaStream_t stream) {
    const int64_t each = (int64_t)BLOCK * (program->dtype == KERNEL_F64 || program->dtype == KERNEL_I64 ? 2 : 4);
    const int64_t blocks = (program->n + each - 1) / each;
    const unsigned grid = blocks > INT32_MAX ? (unsigned)INT32_MAX : (unsigned)blocks;
    if (program->n <= 0) return cudaSuccess;
    switch (program->dtype) {
    case KERNEL_F32:
        if (chain_takes_two(*program, blocks))
            LAUNCH((chain_kernel<float, CHAIN_SLOTS / 2, 2>), (grid + 1) / 2, BLOCK, 0, stream, *program);
        else
            LAUNCH((chain_kernel<float, CHAIN_SLOTS, 1>), grid, BLOCK, 0, stream, *program);
        break;
    case KERNEL_F64:
        LAUNCH((chain_kernel<double, CHAIN_SLOTS, 1>), grid, BLOCK, 0, stream, *program);
        break;
    case KERNEL_I32:
        LAUNCH((chain_kernel<int32_t, CHAIN_SLOTS, 1>), grid, BLOCK, 0, stream, *program);
        break;
    default:
        LAUNCH((chain_kernel<int64_t, CHAIN_SLOTS, 1>), grid, BLOCK, 0, stream, *program);
        break;
    }
    return cudaGetLastError();
}
