/* conv: conv2d and its gradients as products of matrices that are never there: of each group of channels
 *     y [o, (image, place)]   = the sum over (c, tap) of w [o, (c, tap)] times what tap sees of x at the place,
 *     dx [c, (image, place)]  = the sum over (o, tap) of w [o, (c, tap)] times dy where its tap lies at the place,
 *     dw [o, (c, tap)]        = the sum over (image, place) of dy [o, (image, place)] times what tap sees of x there.
 * A block has a tile of 64 by 64 of the result and goes along the sum 16 at a time: both factors are brought into shared memory, the next ones meanwhile into registers. Where
 * results are few the sum is cut into parts for several blocks, which are added up in order. Elements of 16 bits are multiplied and added up as float. */
#pragma once

enum { CONV_TILE = 64, CONV_DEPTH = 16, CONV_LEAST = 8 /* rows of a product from which on it is made in tiles */ };

/* [groups] products of m by n over k; divisors of what rows of sums and columns are made of. */
struct ConvTiles {
    int m, n, k, columns, parts, depth; /* tiles of columns; parts of the sum, of `depth` each, and of as many steps but for the last */
    KernelDivisor taps, row, places, width;
};

/* A place in the planes of an image. */
struct ConvPlace {
    int image, row, column;
    bool inside;
};
__device__ __forceinline__ ConvPlace conv_place(const ConvTiles &t, int i, int end) {
    const uint32_t image = divide(t.places, (uint32_t)i), place = (uint32_t)i - image * t.places.d, row = divide(t.width, place);
    return {(int)image, (int)row, (int)(place - row * t.width.d), i < end};
}

/* A channel, of those that are summed over or of the weight's columns, and a tap. */
struct ConvTap {
    int channel, y, x;
    bool inside;
};
__device__ __forceinline__ ConvTap conv_tap(const ConvTiles &t, int i, int end) {
    const uint32_t channel = divide(t.taps, (uint32_t)i), tap = (uint32_t)i - channel * t.taps.d, y = divide(t.row, tap);
    return {(int)channel, (int)y, (int)(tap - y * t.row.d), i < end};
}

/* Where a tap of result o lies; -1: in the padding. */
__device__ __forceinline__ int conv_seen(const Window &window, int o, int tap, int size) {
    const int at = o * (int)window.stride + tap * (int)window.dilation - (int)window.low;
    return at >= 0 && at < size ? at : -1;
}

/* The result whose tap lies at i; -1: there is none. */
__device__ __forceinline__ int conv_result(const Window &window, int i, int tap, int count) {
    const int at = i + (int)window.low - tap * (int)window.dilation, stride = (int)window.stride, o = stride == 1 ? at : at / stride;
    return at >= 0 && o * stride == at && o < count ? o : -1;
}

/* Element (m, k) of the first factor. */
template <WindowsKind KIND, class T> __device__ __forceinline__ Number<T> conv_first(const KernelWindows &run, const ConvTiles &t, const T *b, int group, int m, int k, int end) {
    const Planes &p = run.planes;
    if (m >= t.m || k >= end) return 0;
    if constexpr (KIND == WINDOWS_CONV) return (Number<T>)b[((int64_t)group * t.m + m) * t.k + k];
    if constexpr (KIND == WINDOWS_CONV_X) {
        const int o = (int)divide(t.taps, (uint32_t)k);
        return (Number<T>)b[(((int64_t)group * (int)p.out_channels + o) * t.m + m) * t.taps.d + (k - o * (int)t.taps.d)];
    }
    const int image = (int)divide(t.places, (uint32_t)k);
    return (Number<T>)b[(((int64_t)image * (int)p.groups + group) * t.m + m) * t.places.d + (k - image * (int)t.places.d)];
}

/* What a tap sees of x, or of dy where the tap lies at the place. */
template <WindowsKind KIND, class T> __device__ __forceinline__ Number<T> conv_second(const KernelWindows &run, const T *a, int group, const ConvPlace &at, const ConvTap &tap) {
    const Planes &p = run.planes;
    constexpr bool back = KIND == WINDOWS_CONV_X;
    if (!at.inside || !tap.inside) return 0;
    const int height = (int)(back ? p.out[0] : p.in[0]), width = (int)(back ? p.out[1] : p.in[1]), channels = (int)(back ? p.out_channels : p.in_channels);
    const int row = back ? conv_result(p.window[0], at.row, tap.y, height) : conv_seen(p.window[0], at.row, tap.y, height);
    const int column = back ? conv_result(p.window[1], at.column, tap.x, width) : conv_seen(p.window[1], at.column, tap.x, width);
    if (row < 0 || column < 0) return 0;
    return (Number<T>)a[((((int64_t)at.image * (int)p.groups + group) * channels + tap.channel) * height + row) * width + column];
}

/* Where element (m, n) of a group's product lies in the result. */
template <WindowsKind KIND> __device__ __forceinline__ int64_t conv_target(const KernelWindows &run, const ConvTiles &t, int group, int m, int n) {
    if constexpr (KIND == WINDOWS_CONV_W) return ((int64_t)group * t.m + m) * t.n + n;
    const int image = (int)divide(t.places, (uint32_t)n);
    return (((int64_t)image * (int)run.planes.groups + group) * t.m + m) * t.places.d + (n - image * (int)t.places.d);
}

/* partial: parts of the sum go there, one after the other, each as the result lies; NULL: there is one part. */
template <WindowsKind KIND, class T>
__global__ void __launch_bounds__(BLOCK, sizeof(Number<T>) == sizeof(double) ? 1 : 2) convolve_tiles(const __grid_constant__ KernelWindows run, const __grid_constant__ ConvTiles t, T *out, const T *a, const T *b, Number<T> *partial) {
    typedef Number<T> N;
    enum { EACH = CONV_TILE * CONV_DEPTH / BLOCK, SIDE = 4, ACROSS = CONV_TILE / SIDE };
    typedef RowItem<N, SIDE> Item;
    __shared__ Item first[CONV_DEPTH][ACROSS + 1], second[CONV_DEPTH][ACROSS + 1];
    const int rows = (t.m + CONV_TILE - 1) / CONV_TILE, thread = threadIdx.x;
    int block = blockIdx.x;
    const int part = block % t.parts;
    block /= t.parts;
    const int m0 = block % rows * CONV_TILE; /* blocks side by side share columns, which are the larger factor */
    block /= rows;
    const int n0 = block % t.columns * CONV_TILE, group = block / t.columns;
    const int begin = part * t.depth, end = begin + t.depth < t.k ? begin + t.depth : t.k;
    /* Loads: a thread has one column of the second factor and several depths, or one depth and several columns: whatever lies side by side is read side by side. */
    const int depth = thread % CONV_DEPTH, line = thread / CONV_DEPTH, column = thread % CONV_TILE, layer = thread / CONV_TILE;
    ConvPlace place = {};
    ConvTap taps[EACH] = {};
    if constexpr (KIND == WINDOWS_CONV_W) {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            taps[e] = conv_tap(t, n0 + line + e * (BLOCK / CONV_DEPTH), t.n);
    } else {
        place = conv_place(t, n0 + column, t.n);
    }
    N own_first[EACH], own_second[EACH], sum[SIDE][SIDE] = {};
    auto fetch = [&](int k0) {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            own_first[e] = conv_first<KIND, T>(run, t, b, group, m0 + line + e * (BLOCK / CONV_DEPTH), k0 + depth, end);
        if constexpr (KIND == WINDOWS_CONV_W) {
            const ConvPlace at = conv_place(t, k0 + depth, end);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                own_second[e] = conv_second<KIND, T>(run, a, group, at, taps[e]);
        } else {
#pragma unroll
            for (int e = 0; e < EACH; e++)
                own_second[e] = conv_second<KIND, T>(run, a, group, place, conv_tap(t, k0 + layer + e * (BLOCK / CONV_TILE), end));
        }
    };
    fetch(begin);
    for (int k0 = begin; k0 < end; k0 += CONV_DEPTH) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int at = line + e * (BLOCK / CONV_DEPTH);
            first[depth][at / SIDE].at[at % SIDE] = own_first[e];
            if constexpr (KIND == WINDOWS_CONV_W)
                second[depth][at / SIDE].at[at % SIDE] = own_second[e];
            else
                second[layer + e * (BLOCK / CONV_TILE)][column / SIDE].at[column % SIDE] = own_second[e];
        }
        __syncthreads();
        if (k0 + CONV_DEPTH < end) fetch(k0 + CONV_DEPTH);
#pragma unroll
        for (int k = 0; k < CONV_DEPTH; k++) {
            const Item x = first[k][thread / ACROSS], y = second[k][thread % ACROSS];
#pragma unroll
            for (int i = 0; i < SIDE; i++)
#pragma unroll
                for (int j = 0; j < SIDE; j++)
                    sum[i][j] += x.at[i] * y.at[j];
        }
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const int m = m0 + thread / ACROSS * SIDE + i, n = n0 + thread % ACROSS * SIDE + j;
            if (m >= t.m || n >= t.n) continue;
            const int64_t at = conv_target<KIND>(run, t, group, m, n);
            if (partial)
                partial[part * run.n + at] = sum[i][j];
            else
                out[at] = (T)sum[i][j];
        }
}

template <class T> __global__ void __launch_bounds__(BLOCK) convolve_parts(T *out, const Number<T> *partial, int64_t n, int parts) {
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * BLOCK) {
        Number<T> sum = 0;
        for (int part = 0; part < parts; part++)
            sum += partial[part * n + i];
        out[i] = (T)sum;
    }
}

/* False: the plain kernel's, whose rows are too few for tiles, or whose indices need more than 31 bits. */
static bool conv_tiles(const KernelWindows *run, int64_t number_bytes, int64_t scratch_bytes, ConvTiles *tiles) {
    const Planes *p = &run->planes;
    const int64_t taps = p->window[0].size * p->window[1].size, seen = p->in[0] * p->in[1], made = p->out[0] * p->out[1];
    const bool back = run->kind == WINDOWS_CONV_X, weight = run->kind == WINDOWS_CONV_W;
    const int64_t m = back ? p->in_channels : p->out_channels, n = weight ? p->in_channels * taps : p->images * (back ? seen : made),
                  k = weight ? p->images * made : (back ? p->out_channels : p->in_channels) * taps;
    const int64_t most = INT32_MAX / 2, rows = (m + CONV_TILE - 1) / CONV_TILE, columns = (n + CONV_TILE - 1) / CONV_TILE;
    bool fits = m >= CONV_LEAST && k > 0 && p->images * p->groups * p->in_channels <= most / (seen + 1) && p->images * p->groups * p->out_channels <= most / (made + 1) &&
                p->groups * p->out_channels * p->in_channels <= most / taps && p->groups * rows * columns <= most / 64;
    for (int d = 0; d < 2; d++)
        fits = fits && p->window[d].stride <= most / (p->out[d] + 1) && p->window[d].dilation <= most / 4 / p->window[d].size && p->window[d].low <= most / 4 && p->window[d].low >= -most / 4;
    if (!fits) return false;
    const int64_t blocks = p->groups * rows * columns, room = scratch_bytes / number_bytes / run->n, deep = k / (8 * CONV_DEPTH);
    int64_t parts = (2 * (int64_t)processors() + blocks - 1) / blocks;
    if (parts > room) parts = room;
    if (parts > deep) parts = deep;
    if (parts > 64) parts = 64;
    if (parts < 1) parts = 1;
    const int64_t depth = (k + parts * CONV_DEPTH - 1) / (parts * CONV_DEPTH) * CONV_DEPTH;
    *tiles = {(int)m, (int)n, (int)k, (int)columns, (int)((k + depth - 1) / depth), (int)depth, kernel_divisor(taps), kernel_divisor(p->window[1].size),
              kernel_divisor(back ? seen : made), kernel_divisor(back ? p->in[1] : p->out[1])};
    return true;
}

template <WindowsKind KIND, class T> static cudaError_t conv_of_kind(const KernelWindows *run, const ConvTiles *tiles, void *scratch, cudaStream_t stream) {
    const unsigned blocks = (unsigned)(run->planes.groups * ((tiles->m + CONV_TILE - 1) / CONV_TILE) * tiles->columns * tiles->parts);
    Number<T> *partial = tiles->parts > 1 ? (Number<T> *)scratch : NULL;
    LAUNCH((convolve_tiles<KIND, T>), blocks, BLOCK, 0, stream, *run, *tiles, (T *)run->out, (const T *)run->a, (const T *)run->b, partial);
    if (partial) LAUNCH((convolve_parts<T>), blocks_for(run->n, 1), BLOCK, 0, stream, (T *)run->out, (const Number<T> *)partial, run->n, tiles->parts);
    return cudaGetLastError();
}

/* Operands as the operators have them: x and w, dy and w, x and dy. */
template <class T> static cudaError_t conv_launch(const KernelWindows *run, const ConvTiles *tiles, void *scratch, cudaStream_t stream) {
    if (run->kind == WINDOWS_CONV) return conv_of_kind<WINDOWS_CONV, T>(run, tiles, scratch, stream);
    if (run->kind == WINDOWS_CONV_X) return conv_of_kind<WINDOWS_CONV_X, T>(run, tiles, scratch, stream);
    return conv_of_kind<WINDOWS_CONV_W, T>(run, tiles, scratch, stream);
}
