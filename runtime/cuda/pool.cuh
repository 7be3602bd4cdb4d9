/* pool: the pools and their gradients, where planes are counted below 2^30; others are window.cuh's. A block has some whole planes of the result, or some rows of one, and a
 * thread an element of them, which it gathers in one order, in doubles. Of max_pool's gradient a block first finds, once, where each window that reaches over its
 * elements has its maximum; an element then adds up what comes from those that have it there. */
#pragma once

constexpr int64_t POOL_WINDOWS = 4096, POOL_ELEMENTS = 4096; /* of a block, at most */

/* A dimension of planes: Window and Planes have more of it. */
struct PoolAxis {
    int in, out, size, stride, dilation, low, extent;
    int before, whole; /* elements of the whole plane: before x's box, and all */
    KernelDivisor by;  /* stride */
};
/* A result of planes of height by width: `rows` of them to a block, of as many planes, whose first row lies `behind` x's. */
struct PoolTiles {
    PoolAxis axis[2];
    int height, width, rows, planes, bands, behind[2];
    int64_t images, groups;
    KernelDivisor by_plane, by_width, by_windows, by_out; /* windows of a plane that the block looks at, and of a row */
};

/* ---------------------------------------------------------------- windows and places */

/* The windows that reach over place `at`, of whose taps one may lie there: [first, end). */
__device__ __forceinline__ void pool_over(const PoolAxis &axis, int at, int *first, int *end) {
    const int to = at + axis.low, from = to - axis.extent + 1; /* where their first taps lie, in elements behind that of window 0 */
    *first = from <= 0 ? 0 : (int)divide(axis.by, (uint32_t)(from + axis.stride - 1));
    *end = to < 0 ? 0 : (int)divide(axis.by, (uint32_t)to) + 1;
    if (*end > axis.out) *end = axis.out;
}

/* The element of a plane that is the maximum of window (oy, ox): the first of those that tie, the last nan if there is one. */
template <class T> __device__ __forceinline__ int pool_largest(const PoolTiles &t, const T *x, int oy, int ox) {
    typedef Number<T> N;
    enum { AHEAD = 4 }; /* loads under way */
    const PoolAxis &ys = t.axis[0], &xs = t.axis[1];
    const int top = oy * ys.stride - ys.low, left = ox * xs.stride - xs.low;
    int most = -1;
    N best = 0;
    for (int ky = 0, row = top; ky < ys.size; ky++, row += ys.dilation) {
        if ((unsigned)row >= (unsigned)ys.in) continue;
        const int line = row * xs.in;
        for (int kx = 0, column = left; kx < xs.size; kx += AHEAD, column += AHEAD * xs.dilation) {
            N value[AHEAD];
            bool seen[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                const int at = column + k * xs.dilation;
                seen[k] = kx + k < xs.size && (unsigned)at < (unsigned)xs.in;
                value[k] = seen[k] ? (N)x[line + at] : (N)0;
            }
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (seen[k] && (most < 0 || value[k] > best || value[k] != value[k])) {
                    best = value[k];
                    most = line + column + k * xs.dilation;
                }
        }
    }
    return most;
}

/* What the sum of window o is divided by, along a dimension: elements that are no padding. */
__device__ __forceinline__ int pool_counted(const PoolAxis &axis, int o) {
    const int begin = o * axis.stride - axis.low + axis.before, end = begin + axis.size;
    return (end < axis.whole ? end : axis.whole) - (begin > 0 ? begin : 0);
}

template <class T> __device__ __forceinline__ double pool_sum(const PoolTiles &t, const T *x, int oy, int ox) {
    const PoolAxis &ys = t.axis[0], &xs = t.axis[1];
    const int top = oy * ys.stride - ys.low, left = ox * xs.stride - xs.low;
    double sum = 0;
    for (int ky = 0; ky < ys.size; ky++) {
        if ((unsigned)(top + ky) >= (unsigned)ys.in) continue;
        const T *line = x + (top + ky) * xs.in;
#pragma unroll 4
        for (int kx = 0; kx < xs.size; kx++)
            if ((unsigned)(left + kx) < (unsigned)xs.in) sum += (double)line[left + kx];
    }
    return sum;
}

/* ---------------------------------------------------------------- the kernel */

template <WindowsKind KIND, class T>
__global__ void __launch_bounds__(BLOCK) pool_tiles(const __grid_constant__ KernelWindows run, const __grid_constant__ PoolTiles t) {
    constexpr bool back = KIND == WINDOWS_MAX_BACK || KIND == WINDOWS_AVERAGE_BACK, largest = KIND == WINDOWS_MAX_BACK;
    __shared__ int places[largest ? POOL_WINDOWS : 1];
    const PoolAxis &ys = t.axis[0], &xs = t.axis[1];
    const int in = ys.in * xs.in, out = ys.out * xs.out;
    /* Windows that count as many: divisor times the sum. */
    const int full = run.divisor > 0 ? (int)run.divisor : ys.size * xs.size;
    const bool alike = run.divisor > 0 || run.with_padding;
    const double share = 1 / (double)full;
    for (int64_t group = blockIdx.x; group < t.groups; group += gridDim.x) {
        const int64_t image = group / t.bands * t.planes;
        const int top = (int)(group % t.bands) * t.rows, rows = t.height - top < t.rows ? t.height - top : t.rows;
        const int planes = t.images - image < t.planes ? (int)(t.images - image) : t.planes;
        const T *x = (const T *)run.a + image * (KIND == WINDOWS_AVERAGE_BACK ? out : in);
        const T *dy = KIND == WINDOWS_AVERAGE_BACK ? x : (const T *)run.b + (largest ? image * out : 0);
        T *result = (T *)run.out + (image * t.height + top) * t.width;
        int above = 0, below = 0, unused; /* rows of windows that reach over the block's */
        if constexpr (largest) {
            pool_over(ys, top + t.behind[0], &above, &unused);
            pool_over(ys, top + rows - 1 + t.behind[0], &unused, &below);
            const int each = below > above ? (below - above) * xs.out : 0;
            for (int i = threadIdx.x; i < planes * each; i += BLOCK) {
                const int plane = planes > 1 ? (int)divide(t.by_windows, (uint32_t)i) : 0, place = i - plane * each;
                const int oy = (int)divide(t.by_out, (uint32_t)place), ox = place - oy * xs.out;
                places[i] = pool_largest(t, x + (int64_t)plane * in, above + oy, ox);
            }
            __syncthreads();
        }
        for (int i = threadIdx.x; i < planes * rows * t.width; i += BLOCK) {
            const int plane = planes > 1 ? (int)divide(t.by_plane, (uint32_t)i) : 0, place = i - plane * (int)t.by_plane.d;
            const int row = (int)divide(t.by_width, (uint32_t)place), column = place - row * t.width;
            double value = 0;
            if constexpr (back) {
                const int at_row = top + row + t.behind[0], at_column = column + t.behind[1];
                const bool inside = (unsigned)at_row < (unsigned)ys.in && (unsigned)at_column < (unsigned)xs.in; /* of x, which ends where no window sees more */
                const int at = inside ? at_row * xs.in + at_column : -2;
                int oy, ox, end_y, end_x;
                pool_over(ys, at_row, &oy, &end_y);
                pool_over(xs, at_column, &ox, &end_x);
                for (; oy < end_y; oy++)
                    for (int o = ox; o < end_x; o++) {
                        const T *from = dy + (int64_t)plane * out + oy * xs.out + o;
                        if constexpr (largest) {
                            if (places[(plane * (below - above) + oy - above) * xs.out + o] == at) value += (double)*from;
                        } else {
                            const int count = alike ? full : pool_counted(ys, oy) * pool_counted(xs, o);
                            value += count == full ? (double)*from * share : (double)*from / (double)count;
                        }
                    }
            } else if constexpr (KIND == WINDOWS_MAX) {
                const T *from = x + (int64_t)plane * in;
                value = (double)from[pool_largest(t, from, top + row, column)];
            } else {
                value = pool_sum(t, x + (int64_t)plane * in, top + row, column) / (double)(alike ? full : pool_counted(ys, top + row) * pool_counted(xs, column));
            }
            result[i] = (T)value;
        }
        if constexpr (largest) __syncthreads();
    }
}

/* ---------------------------------------------------------------- the choice */

/* How many windows at most reach over so many places side by side. */
static int64_t pool_reaching(const PoolAxis &axis, int64_t places) {
    const int64_t most = (places + axis.extent - 2) / axis.stride + 1;
    return most < axis.out ? most : axis.out;
}

/* How many reach over the places [begin, end), which the kernel asks pool_over. */
static int64_t pool_rows(const PoolAxis &axis, int begin, int end) {
    const int to = end - 1 + axis.low, from = begin + axis.low - axis.extent + 1;
    const int first = from <= 0 ? 0 : (from + axis.stride - 1) / axis.stride, last = to < 0 ? -1 : to / axis.stride;
    const int stop = last + 1 < axis.out ? last + 1 : axis.out;
    return stop > first ? stop - first : 0;
}

/* The tiles of a pool; false: its planes are too large. */
static bool pool_cut(const KernelWindows *run, PoolTiles *t) {
    const int64_t most = 1 << 30;
    const Planes &p = run->planes;
    const bool back = run->kind == WINDOWS_MAX_BACK || run->kind == WINDOWS_AVERAGE_BACK, largest = run->kind == WINDOWS_MAX_BACK;
    for (int d = 0; d < 2; d++) {
        const Window &window = p.window[d];
        const int64_t extent = window_extent(&window), whole = p.before[d] + p.in[d] + p.after[d], low = window.low < 0 ? -window.low : window.low;
        const bool average = run->kind == WINDOWS_AVERAGE || run->kind == WINDOWS_AVERAGE_BACK;
        if (whole + low + extent + 4 * window.dilation >= most || (p.out[d] + 1) * window.stride + whole + low + extent >= most) return false;
        if (window.stride >= most || (average && window.dilation != 1)) return false;
        t->axis[d] = {(int)p.in[d],          (int)p.out[d], (int)window.size,     (int)window.stride, (int)window.dilation, (int)window.low, (int)extent,
                      (int)p.before[d], (int)whole,    kernel_divisor(window.stride)};
        t->behind[d] = largest ? (int)p.behind[d] : 0;
    }
    const int64_t *size = largest ? p.back : back ? p.in : p.out;
    if (p.in[0] * p.in[1] >= most || p.out[0] * p.out[1] >= most || size[0] * size[1] >= most || p.window[0].size * p.window[1].size >= most || run->divisor >= most) return false;
    t->height = (int)size[0];
    t->width = (int)size[1];
    t->images = p.images;
    /* Fewer elements where blocks would be few; windows of max_pool's gradient must fit too. */
    int64_t elements = run->n / (8 * (int64_t)processors()), rows, windows = 0;
    elements = elements < BLOCK ? (int64_t)BLOCK : elements > POOL_ELEMENTS ? POOL_ELEMENTS : elements;
    rows = elements / t->width;
    rows = rows < 1 ? 1 : rows > t->height ? t->height : rows;
    if (largest) {
        while (rows > 1 && pool_reaching(t->axis[0], rows) * p.out[1] > POOL_WINDOWS)
            rows = (rows + 1) / 2;
        windows = pool_reaching(t->axis[0], rows) * p.out[1];
        if (windows > POOL_WINDOWS) return false;
    }
    int64_t planes = rows < t->height ? 1 : elements / (rows * t->width);
    if (windows > 0 && planes > POOL_WINDOWS / windows) planes = POOL_WINDOWS / windows;
    t->rows = (int)rows;
    t->planes = planes < 1 ? 1 : (int)planes;
    t->bands = (int)((t->height + rows - 1) / rows);
    t->groups = (t->images + t->planes - 1) / t->planes * t->bands;
    t->by_plane = kernel_divisor(rows * t->width);
    t->by_width = kernel_divisor(t->width);
    t->by_windows = kernel_divisor(pool_rows(t->axis[0], t->behind[0], t->behind[0] + t->height) * p.out[1]); /* of whole planes */
    t->by_out = kernel_divisor(p.out[1]);
    return true;
}

template <class T> static cudaError_t pool_launch(const KernelWindows *run, const PoolTiles *tiles, cudaStream_t stream) {
    const unsigned grid = tiles->groups > 1 << 20 ? 1u << 20 : (unsigned)tiles->groups;
    switch (run->kind) {
    case WINDOWS_MAX: LAUNCH((pool_tiles<WINDOWS_MAX, T>), grid, BLOCK, 0, stream, *run, *tiles); break;
    case WINDOWS_MAX_BACK: LAUNCH((pool_tiles<WINDOWS_MAX_BACK, T>), grid, BLOCK, 0, stream, *run, *tiles); break;
    case WINDOWS_AVERAGE: LAUNCH((pool_tiles<WINDOWS_AVERAGE, T>), grid, BLOCK, 0, stream, *run, *tiles); break;
    default: LAUNCH((pool_tiles<WINDOWS_AVERAGE_BACK, T>), grid, BLOCK, 0, stream, *run, *tiles); break;
    }
    return cudaGetLastError();
}
