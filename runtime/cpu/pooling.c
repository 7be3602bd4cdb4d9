/* pooling: max_pool, avg_pool and their gradients. Threads share the planes; a plane's windows are gone through in order, so that what windows that overlap add to
 * one element is added in one order. */
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/window.h"

typedef struct Pooling {
    Planes planes;
    const void *x, *y; /* y: dy of a gradient */
    void *out;
    bool with_padding; /* of avg_pool */
} Pooling;

/* The taps of window o that are within [0, size): [*first, *end). */
static void taps_within(const Window *window, int64_t o, int64_t size, int64_t *first, int64_t *end) {
    const int64_t begin = window_place(window, o, 0), left = size - begin;
    *first = begin >= 0 ? 0 : (-begin + window->dilation - 1) / window->dilation;
    *end = left <= 0 ? 0 : (left + window->dilation - 1) / window->dilation;
    if (*end > window->size) *end = window->size;
}

/* What a window at (oy, ox) sees of a plane: rows and columns of taps, the place of tap (0, 0), and steps. */
typedef struct Seen {
    int64_t first[2], end[2], origin, step[2];
} Seen;

static Seen seen_by(const Planes *p, int64_t oy, int64_t ox) {
    Seen seen = {.origin = window_place(&p->window[0], oy, 0) * p->in[1] + window_place(&p->window[1], ox, 0),
                 .step = {p->window[0].dilation * p->in[1], p->window[1].dilation}};
    taps_within(&p->window[0], oy, p->in[0], &seen.first[0], &seen.end[0]);
    taps_within(&p->window[1], ox, p->in[1], &seen.first[1], &seen.end[1]);
    return seen;
}

/* The element of max_pool's gradient that lies where element `at` of a plane of x does; -1: it is in a halo. */
static int64_t place_back(const Planes *p, int64_t at) {
    const int64_t row = at / p->in[1] - p->behind[0], column = at % p->in[1] - p->behind[1];
    return row >= 0 && row < p->back[0] && column >= 0 && column < p->back[1] ? row * p->back[1] + column : -1;
}

enum { TOGETHER = 512 }; /* results whose largest elements are found together: rows, or a part of one */

/* Ranges are of planes. The largest element: the first of those that tie, the last nan if there is one. place: where it is in x's plane. */
#define POOLING(suffix, T, Place)                                                                                                          \
    /* Of n results of each of so many rows, from (oy, ox) on. */                                                                          \
    static void largest_##suffix(const Planes *p, const T *x, int64_t oy, int64_t rows, int64_t ox, int64_t n, T *best, Place *place) {    \
        const Window *down = &p->window[0], *across = &p->window[1];                                                                       \
        for (int64_t i = 0; i < rows * n; i++)                                                                                             \
            best[i] = 0, place[i] = -1;                                                                                                    \
        for (int64_t ky = 0; ky < down->size; ky++)                                                                                        \
            for (int64_t kx = 0; kx < across->size; kx++) {                                                                                \
                int64_t begin, end;                                                                                                        \
                seen_places(across, kx, p->in[1], p->out[1], &begin, &end);                                                                \
                begin = begin > ox ? begin - ox : 0, end = least(end - ox, n);                                                             \
                for (int64_t row = 0; row < rows; row++) {                                                                                 \
                    const int64_t iy = window_place(down, oy + row, ky), from = iy * p->in[1] + window_place(across, ox, kx);              \
                    T *most = best + row * n;                                                                                              \
                    Place *where = place + row * n;                                                                                        \
                    if (iy < 0 || iy >= p->in[0]) continue;                                                                                \
                    for (int64_t i = begin; i < end; i++) {                                                                                \
                        const T value = x[from + i * across->stride];                                                                      \
                        const bool more = (where[i] < 0) | (value > most[i]) | (value != value);                                           \
                        most[i] = more ? value : most[i];                                                                                  \
                        where[i] = more ? (Place)(from + i * across->stride) : where[i];                                                   \
                    }                                                                                                                      \
                }                                                                                                                          \
            }                                                                                                                              \
    }                                                                                                                                      \
    static void max_part_##suffix(void *context, int64_t begin, int64_t end) {                                                             \
        const Pooling *run = context;                                                                                                      \
        const Planes *p = &run->planes;                                                                                                    \
        const bool whole = p->back[0] == p->in[0] && p->back[1] == p->in[1]; /* the gradient has no halo */                                \
        for (int64_t n = begin; n < end; n++) {                                                                                            \
            const T *x = (const T *)run->x + n * p->in[0] * p->in[1], *dy = (const T *)run->y;                                             \
            T *out = (T *)run->out + n * (dy ? p->back[0] * p->back[1] : p->out[0] * p->out[1]), best[TOGETHER];                           \
            Place place[TOGETHER];                                                                                                         \
            if (dy) {                                                                                                                      \
                memset(out, 0, sizeof(T) * (size_t)(p->back[0] * p->back[1]));                                                             \
                dy += n * p->out[0] * p->out[1];                                                                                           \
            }                                                                                                                              \
            for (int64_t i = 0, together; i < p->out[0] * p->out[1]; i += together) {                                                      \
                const int64_t oy = i / p->out[1], ox = i % p->out[1], columns = least(TOGETHER, p->out[1] - ox);                           \
                const int64_t rows = columns < p->out[1] ? 1 : least(TOGETHER / columns, p->out[0] - oy);                                  \
                together = rows * columns;                                                                                                 \
                largest_##suffix(p, x, oy, rows, ox, columns, best, place);                                                                \
                if (!dy) memcpy(out + i, best, (size_t)together * sizeof *best);                                                           \
                for (int64_t k = 0; dy && k < together; k++) {                                                                             \
                    const int64_t back = whole ? place[k] : place_back(p, place[k]);                                                       \
                    if (back >= 0) out[back] += dy[i + k];                                                                                 \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void average_part_##suffix(void *context, int64_t begin, int64_t end) {                                                         \
        const Pooling *run = context;                                                                                                      \
        const Planes *p = &run->planes;                                                                                                    \
        for (int64_t n = begin; n < end; n++) {                                                                                            \
            const T *x = run->x ? (const T *)run->x + n * p->in[0] * p->in[1] : NULL, *dy = (const T *)run->y;                             \
            T *out = (T *)run->out + n * (dy ? p->in[0] * p->in[1] : p->out[0] * p->out[1]);                                               \
            if (dy) {                                                                                                                      \
                memset(out, 0, sizeof(T) * (size_t)(p->in[0] * p->in[1]));                                                                 \
                dy += n * p->out[0] * p->out[1];                                                                                           \
            }                                                                                                                              \
            for (int64_t i = 0; i < p->out[0] * p->out[1]; i++) {                                                                          \
                const int64_t place[2] = {i / p->out[1], i % p->out[1]};                                                                   \
                const Seen seen = seen_by(p, place[0], place[1]);                                                                          \
                const T count = (T)average_count(p, place, run->with_padding), share = dy ? dy[i] / count : 0;                             \
                double sum = 0;                                                                                                            \
                for (int64_t ky = seen.first[0]; ky < seen.end[0]; ky++)                                                                   \
                    for (int64_t kx = seen.first[1]; kx < seen.end[1]; kx++) {                                                             \
                        const int64_t at = seen.origin + ky * seen.step[0] + kx * seen.step[1];                                            \
                        if (dy)                                                                                                            \
                            out[at] += share;                                                                                              \
                        else                                                                                                               \
                            sum += (double)x[at];                                                                                          \
                    }                                                                                                                      \
                if (!dy) out[i] = (T)(sum / (double)count);                                                                                \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
POOLING(f32, float, int32_t)
POOLING(f64, double, int64_t)

static bool pooling(const KernelCall *call, const void *x, const void *dy, bool average) {
    PlanesOf of;
    planes_of(call, &of);
    Pooling run = {.planes = of.planes, .x = x, .y = dy, .out = call->out[0].data, .with_padding = average && average_with_padding(call)};
    const Planes *p = &run.planes;
    const int64_t work = p->out[0] * p->out[1] * p->window[0].size * p->window[1].size;
    PoolFn *part = of.x->dtype == F32 ? (average ? average_part_f32 : max_part_f32) : (average ? average_part_f64 : max_part_f64);
    pool_run(call_pool(call), p->images, 1 + GRAIN / (work + 1), part, &run);
    return true;
}

bool kernel_max_pool(const KernelCall *call, Error *error) {
    return (void)error, pooling(call, call->in[0].data, NULL, false);
}

bool kernel_max_pool_grad(const KernelCall *call, Error *error) {
    return (void)error, pooling(call, call->in[0].data, call->in[1].data, false);
}

bool kernel_avg_pool(const KernelCall *call, Error *error) {
    return (void)error, pooling(call, call->in[0].data, NULL, true);
}

bool kernel_avg_pool_grad(const KernelCall *call, Error *error) {
    return (void)error, pooling(call, NULL, call->in[0].data, true);
}

/* In no plan: other operators stand for them. */
bool kernel_pad(const KernelCall *call, Error *error) {
    return reference_pad(call, error);
}

bool kernel_upsample(const KernelCall *call, Error *error) {
    return reference_upsample(call, error);
}
