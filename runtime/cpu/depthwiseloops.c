/* depthwiseloops: loops over a plane of a convolution whose groups have one channel each, and of its gradients (depthwise.c). Each element sums its taps in
 * order, whatever the width of vectors. Compiled once for each of vector.c's variants. */
#include "runtime/cpu/lanes.h"
#include "runtime/cpu/vector.h"

/* The results [*begin, *end) of a row of n for which all taps lie in [0, size). */
static inline void within(const Window *window, int64_t size, int64_t n, int64_t *begin, int64_t *end) {
    const int64_t first = window->low, last = size - 1 - window->dilation * (window->size - 1) + window->low;
    *begin = first <= 0 ? 0 : (first + window->stride - 1) / window->stride;
    *begin = *begin < n ? *begin : n;
    *end = last < 0 ? 0 : last / window->stride + 1;
    *end = *end < n ? *end : n;
    if (*end < *begin) *end = *begin;
}

/* The taps of result o that lie in [0, size). */
static inline void taps_within(const Window *window, int64_t size, int64_t o, int64_t *begin, int64_t *end) {
    *begin = 0, *end = window->size;
    while (*begin < *end && window_place(window, o, *begin) < 0)
        ++*begin;
    while (*end > *begin && window_place(window, o, *end - 1) >= size)
        --*end;
}

#define DEPTHWISE(suffix, T)                                                                                                               \
    /* L results from column o on, in row [top, bottom) of taps, all of whose columns lie in x. */                                         \
    static inline __attribute__((always_inline)) void block_##suffix(const Planes *p, const T *x, const T *w, T *y, int64_t oy,            \
                                                                     int64_t top, int64_t bottom, int64_t o, int64_t stride, int lanes) {  \
        const Window *down = &p->window[0], *across = &p->window[1];                                                                       \
        T sum[LANES] = {0};                                                                                                                \
        for (int64_t ky = top; ky < bottom; ky++) {                                                                                        \
            const T *row = x + window_place(down, oy, ky) * p->in[1] + (o * stride - across->low);                                         \
            for (int64_t kx = 0; kx < across->size; kx++) {                                                                                \
                const T by = w[ky * across->size + kx], *at = row + kx * across->dilation;                                                 \
                _Pragma("omp simd") for (int l = 0; l < lanes; l++) sum[l] += by * at[l * stride];                                         \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (int l = 0; l < lanes; l++)                                                                                                    \
            y[o + l] = sum[l];                                                                                                             \
    }                                                                                                                                      \
    static void edge_##suffix(const Planes *p, const T *x, const T *w, T *y, int64_t oy, int64_t top, int64_t bottom, int64_t o) {         \
        const Window *down = &p->window[0], *across = &p->window[1];                                                                       \
        int64_t left, right;                                                                                                               \
        T sum = 0;                                                                                                                         \
        taps_within(across, p->in[1], o, &left, &right);                                                                                   \
        for (int64_t ky = top; ky < bottom; ky++)                                                                                          \
            for (int64_t kx = left; kx < right; kx++)                                                                                      \
                sum += w[ky * across->size + kx] * x[window_place(down, oy, ky) * p->in[1] + window_place(across, o, kx)];                 \
        y[o] = sum;                                                                                                                        \
    }                                                                                                                                      \
    static void plane_##suffix(const Planes *p, const void *x, const void *w, void *y) {                                                   \
        const int64_t n = p->out[1], stride = p->window[1].stride;                                                                         \
        int64_t begin, end;                                                                                                                \
        within(&p->window[1], p->in[1], n, &begin, &end);                                                                                  \
        for (int64_t oy = 0; oy < p->out[0]; oy++) {                                                                                       \
            T *row = (T *)y + oy * n;                                                                                                      \
            int64_t top, bottom, o = begin;                                                                                                \
            taps_within(&p->window[0], p->in[0], oy, &top, &bottom);                                                                       \
            for (int64_t e = 0; e < begin; e++)                                                                                            \
                edge_##suffix(p, x, w, row, oy, top, bottom, e);                                                                           \
            for (; stride == 1 && o + LANES <= end; o += LANES)                                                                            \
                block_##suffix(p, x, w, row, oy, top, bottom, o, 1, LANES);                                                                \
            for (; stride == 2 && o + LANES <= end; o += LANES)                                                                            \
                block_##suffix(p, x, w, row, oy, top, bottom, o, 2, LANES);                                                                \
            for (; o + 4 <= end; o += 4)                                                                                                   \
                block_##suffix(p, x, w, row, oy, top, bottom, o, stride, 4);                                                               \
            for (; o < n; o++)                                                                                                             \
                edge_##suffix(p, x, w, row, oy, top, bottom, o);                                                                           \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* Adds what dy's plane gives to dx's: row by row of results, tap by tap. */                                                           \
    static void back_##suffix(const Planes *p, void *dx, const void *w_, const void *dy_) {                                                \
        const Window *down = &p->window[0], *across = &p->window[1];                                                                       \
        const T *w = w_, *dy = dy_;                                                                                                        \
        for (int64_t oy = 0; oy < p->out[0]; oy++)                                                                                         \
            for (int64_t ky = 0; ky < down->size; ky++) {                                                                                  \
                const int64_t iy = window_place(down, oy, ky);                                                                             \
                if (iy < 0 || iy >= p->in[0]) continue;                                                                                    \
                for (int64_t kx = 0; kx < across->size; kx++) {                                                                            \
                    const Window tap = {1, across->stride, 1, across->low - kx * across->dilation};                                        \
                    const T by = w[ky * across->size + kx], *from = dy + oy * p->out[1];                                                   \
                    int64_t begin, end;                                                                                                    \
                    within(&tap, p->in[1], p->out[1], &begin, &end);                                                                       \
                    T *to = (T *)dx + iy * p->in[1] - tap.low;                                                                             \
                    if (tap.stride == 1) {                                                                                                 \
                        _Pragma("omp simd") for (int64_t o = begin; o < end; o++) to[o] += by * from[o];                                   \
                    } else {                                                                                                               \
                        for (int64_t o = begin; o < end; o++)                                                                              \
                            to[o * tap.stride] += by * from[o];                                                                            \
                    }                                                                                                                      \
                }                                                                                                                          \
            }                                                                                                                              \
    }                                                                                                                                      \
    /* Adds a plane's share of each tap's gradient to sums. */                                                                             \
    static void taps_##suffix(const Planes *p, const void *x, const void *dy_, double *sums) {                                             \
        const Window *down = &p->window[0], *across = &p->window[1];                                                                       \
        const T *dy = dy_;                                                                                                                 \
        for (int64_t ky = 0; ky < down->size; ky++)                                                                                        \
            for (int64_t kx = 0; kx < across->size; kx++) {                                                                                \
                const Window tap = {1, across->stride, 1, across->low - kx * across->dilation};                                            \
                int64_t begin, end;                                                                                                        \
                double all = 0;                                                                                                            \
                within(&tap, p->in[1], p->out[1], &begin, &end);                                                                           \
                for (int64_t oy = 0; oy < p->out[0]; oy++) {                                                                               \
                    const int64_t iy = window_place(down, oy, ky);                                                                         \
                    if (iy < 0 || iy >= p->in[0]) continue;                                                                                \
                    const T *a = (const T *)x + iy * p->in[1] - tap.low, *b = dy + oy * p->out[1];                                         \
                    T sum[LANES] = {0};                                                                                                    \
                    int64_t o = begin;                                                                                                     \
                    if (tap.stride == 1)                                                                                                   \
                        for (; o + LANES <= end; o += LANES)                                                                               \
                            _Pragma("omp simd") for (int l = 0; l < LANES; l++) sum[l] += a[o + l] * b[o + l];                             \
                    for (int l = 0; o < end; o++, l = (l + 1) % LANES)                                                                     \
                        sum[l] += a[o * tap.stride] * b[o];                                                                                \
                    T joined = 0;                                                                                                          \
                    for (int l = 0; l < LANES; l++)                                                                                        \
                        joined += sum[l];                                                                                                  \
                    all += (double)joined;                                                                                                 \
                }                                                                                                                          \
                sums[ky * across->size + kx] += all;                                                                                       \
            }                                                                                                                              \
    }
DEPTHWISE(f32, float)
DEPTHWISE(f64, double)

DepthwiseLoops OF_VARIANT(depthwise_loops)(DType dtype) {
    static const DepthwiseLoops loops[2] = {{plane_f32, back_f32, taps_f32}, {plane_f64, back_f64, taps_f64}};
    return loops[dtype == F64];
}
