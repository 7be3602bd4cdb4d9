/* loss: what a cross_entropy has for each row, and its gradient, each in one pass over the logits. Forward the largest logit and the sum of exponentials less it are found
 * together: whenever a larger one comes, what has been summed is scaled down. The gradient computes the exponentials again from these two numbers. Logits of 16 bits are
 * computed with, and added up, as float. A row of up to 1024 logits is a warp's, a longer one a block's. */
#pragma once

/* Elements of a row before the first that lies at a multiple of 16 bytes; n where there is none. */
template <class T> __device__ __forceinline__ int64_t loss_head(const T *x, int64_t n) {
    const int64_t head = (int64_t)((0 - (uintptr_t)x) % 16 / sizeof(T));
    return head < n ? head : n;
}

/* Adds logits to what has been seen, of which the first `count` are there; the largest first: then one exponential a logit. Of nothing but minus infinity the sum is 0. */
template <class N, int COUNT> __device__ __forceinline__ void loss_add(RowState<N> &state, N &total, const N (&x)[COUNT], int count) {
    N most = state.most;
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        if (k < count) most = x[k] > most ? x[k] : most;
    const N base = most == -(N)INFINITY ? (N)0 : most;
    if (most > state.most) state.sum *= row_exp(state.most - base);
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        if (k < count) {
            state.sum += row_exp(x[k] - base);
            total += x[k];
        }
    state.most = most;
}

/* Of a row by THREADS threads what each has seen, in accesses of W logits but for the row's ends. total: their sum. */
template <class T, int THREADS> __device__ __forceinline__ RowState<Number<T>> loss_state(const T *x, int64_t n, int lane, Number<T> *total) {
    enum { W = 16 / sizeof(T), AHEAD = W == 2 ? 2 : 4 /* accesses under way */ };
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    RowState<N> state = row_nothing<N>();
    const int64_t head = loss_head(x, n), items = (n - head) / W, behind = head + items * W;
    const Item *at = (const Item *)(x + head);
    *total = 0;
    if (lane < head) loss_add(state, *total, {(N)x[lane]}, 1);
    for (int64_t i = lane; i < items; i += AHEAD * THREADS) {
        Item item[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * THREADS < items) item[k] = at[i + k * THREADS];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            N logit[W];
            for (int l = 0; l < W; l++)
                logit[l] = (N)item[k].at[l];
            if (i + k * THREADS < items) loss_add(state, *total, logit, W);
        }
    }
    if (behind + lane < n) loss_add(state, *total, {(N)x[behind + lane]}, 1);
    return state;
}

/* Sum over a warp. */
template <class N> __device__ __forceinline__ N loss_lanes(N x) {
    for (int l = WARP / 2; l > 0; l /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, l);
    return x;
}

/* What all of a row's THREADS threads have seen, in thread 0: the largest of all first, so that each thread's sum is scaled once. */
template <class N, int THREADS> __device__ __forceinline__ RowState<N> loss_merge(RowState<N> state, N *total) {
    N most = state.most;
    for (int l = WARP / 2; l > 0; l /= 2) {
        const N other = __shfl_xor_sync(0xffffffffu, most, l);
        most = other > most ? other : most;
    }
    if constexpr (THREADS > WARP) {
        __shared__ N largest[THREADS / WARP];
        if (threadIdx.x % WARP == 0) largest[threadIdx.x / WARP] = most;
        __syncthreads();
        for (int w = 0; w < THREADS / WARP; w++)
            most = largest[w] > most ? largest[w] : most;
    }
    N sum = most > state.most ? state.sum * row_exp(state.most - most) : state.sum;
    sum = loss_lanes(sum);
    *total = loss_lanes(*total);
    if constexpr (THREADS > WARP) {
        __shared__ N sums[THREADS / WARP], totals[THREADS / WARP];
        if (threadIdx.x % WARP == 0) {
            sums[threadIdx.x / WARP] = sum;
            totals[threadIdx.x / WARP] = *total;
        }
        __syncthreads(); /* also: all have read `largest` */
        for (int w = 1; threadIdx.x == 0 && w < THREADS / WARP; w++) {
            sum += sums[w];
            *total += totals[w];
        }
    }
    return {most, sum};
}

template <class T, int THREADS> __global__ void __launch_bounds__(THREADS == WARP ? BLOCK : THREADS) loss_rows(__grid_constant__ const KernelLoss args) {
    typedef Number<T> N;
    const int each = THREADS == WARP ? BLOCK / WARP : 1, lane = threadIdx.x % THREADS;
    const int64_t n = args.label.length;
    for (int64_t first = (int64_t)blockIdx.x * each; first < args.label.n; first += (int64_t)gridDim.x * each) {
        const int64_t row = first + threadIdx.x / THREADS;
        const bool inside = row < args.label.n;
        const T *x = (const T *)args.x + row * n;
        N total;
        const RowState<N> state = loss_merge<N, THREADS>(loss_state<T, THREADS>(x, inside ? n : 0, lane, &total), &total);
        if (lane > 0 || !inside) continue;
        const int64_t at = index_at(args.label, row);
        const N own = (at >= 0 ? (N)x[at] : (N)0) - state.most, smoothing = (N)args.smoothing;
        N loss = row_log(state.sum) - (1 - smoothing) * own;
        if (smoothing > 0) loss -= smoothing * (total / (N)n - state.most);
        ((N *)args.loss)[row] = loss;
        ((N *)args.most)[row] = state.most;
        ((N *)args.sum)[row] = state.sum;
    }
}

/* What the gradient of a row's logits is made of. */
template <class N> struct LossSlope {
    N most, factor, flat, own; /* off every one, and off that of the label */
    int64_t label;             /* below 0: not here */
};
template <class N> __device__ __forceinline__ LossSlope<N> loss_slope(const KernelLoss &args, int64_t row) {
    const N smoothing = (N)args.smoothing, dy = ((const N *)args.loss)[row];
    return {((const N *)args.most)[row], dy / ((const N *)args.sum)[row], smoothing / (N)args.classes * dy, (1 - smoothing) * dy, index_at(args.label, row)};
}
template <class N> __device__ __forceinline__ N loss_gradient(const LossSlope<N> &slope, N x, int64_t column) {
    return row_exp(x - slope.most) * slope.factor - slope.flat - (column == slope.label ? slope.own : (N)0);
}

/* Accesses of W logits are dealt out to threads, whatever rows they are of; one that goes on in the next row goes from logit to logit. What is behind the last whole
 * access is for the first threads. */
template <class T, int W> __global__ void __launch_bounds__(BLOCK) loss_slopes(__grid_constant__ const KernelLoss args, KernelDivisor divisor, bool below_2_31) {
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    enum { AHEAD = W == 1 ? 4 : 2 }; /* accesses under way */
    const int64_t length = args.label.length, all = args.label.n * length, n = all / W, step = (int64_t)gridDim.x * BLOCK, me = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    for (int64_t first = me; first < n; first += AHEAD * step) {
        Item item[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * step < n) item[k] = ((const Item *)args.x)[first + k * step];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int64_t i = (first + k * step) * W;
            if (first + k * step >= n) continue;
            int64_t row = below_2_31 ? (int64_t)divide(divisor, (uint32_t)i) : i / length, column = i - row * length;
            LossSlope<N> slope = loss_slope<N>(args, row);
            if (column + W <= length) {
                const int64_t own = slope.label - column;
#pragma unroll
                for (int l = 0; l < W; l++)
                    item[k].at[l] = (T)(row_exp((N)item[k].at[l] - slope.most) * slope.factor - slope.flat - (own == l ? slope.own : (N)0));
            } else {
#pragma unroll
                for (int l = 0; l < W; l++) {
                    if (column == length) {
                        slope = loss_slope<N>(args, ++row);
                        column = 0;
                    }
                    item[k].at[l] = (T)loss_gradient(slope, (N)item[k].at[l], column++);
                }
            }
            ((Item *)args.dx)[first + k * step] = item[k];
        }
    }
    for (int64_t i = n * W + me; i < all; i += step) {
        const int64_t row = i / length;
        ((T *)args.dx)[i] = (T)loss_gradient(loss_slope<N>(args, row), (N)((const T *)args.x)[i], i - row * length);
    }
}

template <class T> static cudaError_t loss_forward(const KernelLoss *args, cudaStream_t stream) {
    const int64_t rows = args->label.n;
    if (args->label.length <= 1024)
        LAUNCH((loss_rows<T, WARP>), blocks_for(rows * WARP, 1), BLOCK, 0, stream, *args);
    else
        LAUNCH((loss_rows<T, LONG_ROW>), rows > 1 << 20 ? 1u << 20 : (unsigned)rows, LONG_ROW, 0, stream, *args);
    return cudaGetLastError();
}

template <class T, int W> static cudaError_t loss_backward(const KernelLoss *args, cudaStream_t stream) {
    const int64_t n = args->label.n * args->label.length;
    LAUNCH((loss_slopes<T, W>), blocks_for(n / W, 2), BLOCK, 0, stream, *args, kernel_divisor(args->label.length), n < INT32_MAX);
    return cudaGetLastError();
}

template <class T> static cudaError_t loss_launch(const KernelLoss *args, cudaStream_t stream) {
    if (!args->dx) return loss_forward<T>(args, stream);
    return is_multiple(args->x, 16) && is_multiple(args->dx, 16) ? loss_backward<T, 16 / sizeof(T)>(args, stream) : loss_backward<T, 1>(args, stream);
}

extern "C" cudaError_t kernels_loss(const KernelLoss *loss, cudaStream_t stream) {
    if (loss->label.n == 0 || loss->label.length == 0) return cudaSuccess;
    WITH_REAL(loss->dtype, T, return loss_launch<T>(loss, stream))
    return cudaErrorInvalidValue;
}
