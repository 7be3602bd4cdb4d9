/* loss: what a cross_entropy has for each row, and its gradient, each in one pass over the logits. Forward the largest logit and the sum of exponentials less it are found
 * together: whenever a larger one comes, what has been summed is scaled down. The gradient computes the exponentials again from these two numbers. Logits of 16 bits are
 * computed with, and added up, as float. A row of up to 1024 logits is a warp's, a longer one a block's. */
#pragma once

/* Of a row by THREADS threads what each has seen: logits in accesses of W. total: their sum. */
template <class T, int THREADS, int W> __device__ __forceinline__ RowState<Number<T>> loss_state(const T *x, int64_t accesses, int lane, Number<T> *total) {
    typedef Number<T> N;
    RowState<N> state = row_nothing<N>();
    *total = 0;
#pragma unroll 4
    for (int64_t i = lane; i < accesses; i += THREADS) {
        const RowItem<T, W> item = ((const RowItem<T, W> *)x)[i];
        N most = state.most;
        for (int l = 0; l < W; l++)
            most = (N)item.at[l] > most ? (N)item.at[l] : most;
        state.sum *= row_scale(state.most, most);
        for (int l = 0; l < W; l++) {
            state.sum += row_scale((N)item.at[l], most);
            *total += (N)item.at[l];
        }
        state.most = most;
    }
    return state;
}

template <class T, int THREADS, int W> __global__ void __launch_bounds__(THREADS == WARP ? BLOCK : THREADS) loss_rows(__grid_constant__ const KernelLoss args) {
    typedef Number<T> N;
    __shared__ N totals[THREADS / WARP];
    const int each = THREADS == WARP ? BLOCK / WARP : 1, lane = threadIdx.x % THREADS;
    const int64_t n = args.label.length;
    for (int64_t first = (int64_t)blockIdx.x * each; first < args.label.n; first += (int64_t)gridDim.x * each) {
        const int64_t row = first + threadIdx.x / THREADS;
        const bool inside = row < args.label.n;
        const T *x = (const T *)args.x + row * n;
        N total;
        RowState<N> state = loss_state<T, THREADS, W>(x, inside ? n / W : 0, lane, &total);
        for (int l = WARP / 2; l > 0; l /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, l);
        if constexpr (THREADS == WARP) {
            state = row_lanes<ROWS_SOFTMAX>(state);
        } else {
            state = row_block<ROWS_SOFTMAX, N, THREADS>(state);
            if (threadIdx.x % WARP == 0) totals[threadIdx.x / WARP] = total;
            __syncthreads();
            total = 0;
            for (int w = 0; w < THREADS / WARP; w++)
                total += totals[w];
            __syncthreads();
        }
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

/* Accesses of W logits are dealt out to threads, whatever rows they are of. */
template <class T, int W> __global__ void __launch_bounds__(BLOCK) loss_slopes(__grid_constant__ const KernelLoss args, KernelDivisor divisor, bool below_2_31) {
    typedef Number<T> N;
    typedef RowItem<T, W> Item;
    enum { AHEAD = W == 1 ? 4 : 2 }; /* accesses under way */
    const int64_t accesses = args.label.length / W, n = args.label.n * accesses, step = (int64_t)gridDim.x * BLOCK;
    const N smoothing = (N)args.smoothing, share = smoothing / (N)args.classes;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK + threadIdx.x; first < n; first += AHEAD * step) {
        Item item[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * step < n) item[k] = ((const Item *)args.x)[first + k * step];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int64_t i = first + k * step;
            if (i >= n) continue;
            const int64_t row = below_2_31 ? (int64_t)divide(divisor, (uint32_t)i) : i / accesses, at = index_at(args.label, row) - (i - row * accesses) * W;
            const N dy = ((const N *)args.loss)[row], most = ((const N *)args.most)[row], factor = dy / ((const N *)args.sum)[row];
            for (int l = 0; l < W; l++) {
                const N own = at == l && at + (i - row * accesses) * W >= 0 ? (1 - smoothing) * dy : (N)0;
                item[k].at[l] = (T)(row_exp((N)item[k].at[l] - most) * factor - share * dy - own);
            }
            ((Item *)args.dx)[i] = item[k];
        }
    }
}

template <class T, int W> static cudaError_t loss_forward(const KernelLoss *args, cudaStream_t stream) {
    const int64_t rows = args->label.n;
    if (args->label.length <= 1024)
        LAUNCH((loss_rows<T, WARP, W>), blocks_for(rows * WARP, 1), BLOCK, 0, stream, *args);
    else
        LAUNCH((loss_rows<T, LONG_ROW, W>), rows > 1 << 20 ? 1u << 20 : (unsigned)rows, LONG_ROW, 0, stream, *args);
    return cudaGetLastError();
}

template <class T, int W> static cudaError_t loss_backward(const KernelLoss *args, cudaStream_t stream) {
    const int64_t n = args->label.n * (args->label.length / W);
    LAUNCH((loss_slopes<T, W>), blocks_for(n, 2), BLOCK, 0, stream, *args, kernel_divisor(args->label.length / W), n < INT32_MAX);
    return cudaGetLastError();
}

template <class T> static cudaError_t loss_launch(const KernelLoss *args, cudaStream_t stream) {
    enum { W = 16 / sizeof(T) };
    const bool wide = args->label.length % W == 0 && is_multiple(args->x, 16) && (!args->dx || is_multiple(args->dx, 16));
    if (args->dx) return wide ? loss_backward<T, W>(args, stream) : loss_backward<T, 1>(args, stream);
    return wide ? loss_forward<T, W>(args, stream) : loss_forward<T, 1>(args, stream);
}

extern "C" cudaError_t kernels_loss(const KernelLoss *loss, cudaStream_t stream) {
    if (loss->label.n == 0 || loss->label.length == 0) return cudaSuccess;
    WITH_REAL(loss->dtype, T, return loss_launch<T>(loss, stream))
    return cudaErrorInvalidValue;
}
