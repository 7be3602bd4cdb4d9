/* pooling: max_pool, avg_pool and their gradients. Threads divide the planes. A plane's windows are visited in order, so that overlapping windows add to
 * an element in a fixed order. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/window.h"

typedef struct Pooling {
    Planes planes;
    DType dtype;
    void *x, *y; /* y: dy of a gradient */
    void *out;
    bool with_padding; /* of avg_pool */
    int64_t divisor;
    bool apart; /* windows do not overlap, and all have the same count */
    atomic_bool no_memory;
} Pooling;

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

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

/* The element of max_pool's gradient that corresponds to element `at` of a plane of x; -1: it is in a halo. */
static int64_t place_back(const Planes *p, int64_t at) {
    const int64_t row = at / p->in[1] - p->behind[0], column = at % p->in[1] - p->behind[1];
    return row >= 0 && row < p->back[0] && column >= 0 && column < p->back[1] ? row * p->back[1] + column : -1;
}

enum { TOGETHER = 16 }; /* planes computed together, transposed: one or two vectors an element */

/* The largest element: the first of those that tie, the last nan if there is one. Ranges are of groups of planes. */
#define POOLING(suffix, T, Place)                                                                                                          \
    /* Of each of so many planes, and its place where that is asked for. */                                                                \
    static inline __attribute__((always_inline)) void largest_##suffix(const Seen *seen, const T *x, int planes, T *best, Place *where) {  \
        const int64_t from = seen->origin + seen->first[0] * seen->step[0] + seen->first[1] * seen->step[1];                               \
        for (int l = 0; l < planes; l++)                                                                                                   \
            best[l] = x[from * planes + l];                                                                                                \
        for (int l = 0; where && l < planes; l++)                                                                                          \
            where[l] = (Place)from;                                                                                                        \
        for (int64_t ky = seen->first[0]; ky < seen->end[0]; ky++)                                                                         \
            for (int64_t kx = seen->first[1]; kx < seen->end[1]; kx++) {                                                                   \
                const int64_t at = seen->origin + ky * seen->step[0] + kx * seen->step[1];                                                 \
                const T *row = x + at * planes;                                                                                            \
                _Pragma("omp simd") for (int l = 0; l < planes; l++) {                                                                     \
                    const bool more = (row[l] > best[l]) | (row[l] != row[l]);                                                             \
                    best[l] = more ? row[l] : best[l];                                                                                     \
                    if (where) where[l] = more ? (Place)at : where[l];                                                                     \
                }                                                                                                                          \
            }                                                                                                                              \
    }                                                                                                                                      \
    /* Turned rows of x, of y or dy, and of the gradient. */                                                                               \
    static inline __attribute__((always_inline)) void max_planes_##suffix(const Planes *p, int planes, const T *x, T *y, T *back) {        \
        const bool whole = p->back[0] == p->in[0] && p->back[1] == p->in[1] && p->behind[0] == 0 && p->behind[1] == 0; /* no halo */       \
        T best[TOGETHER];                                                                                                                  \
        Place where[TOGETHER];                                                                                                             \
        for (int64_t i = 0; i < p->out[0] * p->out[1]; i++, y += planes) {                                                                 \
            const Seen seen = seen_by(p, i / p->out[1], i % p->out[1]);                                                                    \
            largest_##suffix(&seen, x, planes, best, back ? where : NULL);                                                                 \
            for (int l = 0; !back && l < planes; l++)                                                                                      \
                y[l] = best[l];                                                                                                            \
            for (int l = 0; back && l < planes; l++) {                                                                                     \
                const int64_t at = whole ? where[l] : place_back(p, where[l]);                                                             \
                if (at >= 0) back[at * planes + l] += y[l];                                                                                \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void max_part_##suffix(void *context, int64_t begin, int64_t end) {                                                             \
        Pooling *run = context;                                                                                                            \
        const Planes *p = &run->planes;                                                                                                    \
        const int64_t in = p->in[0] * p->in[1], out = p->out[0] * p->out[1], back = run->y ? p->back[0] * p->back[1] : 0;                  \
        T *room = malloc((size_t)((in + out + back) * TOGETHER) * sizeof *room + 1), *y = room + in * TOGETHER,                            \
          *dx = run->y ? y + out * TOGETHER : NULL;                                                                                        \
        if (!room) run->no_memory = true;                                                                                                  \
        for (int64_t first = begin * TOGETHER; room && first < end * TOGETHER && first < p->images; first += TOGETHER) {                   \
            const int64_t planes = least(TOGETHER, p->images - first);                                                                     \
            const Turn of_x = {planes, in, 1, 0, NULL}, of_y = {planes, out, 1, 0, NULL}, of_dx = {planes, back, 1, 0, NULL};              \
            turn(run->dtype, &of_x, (T *)run->x + first * in, room, false);                                                                \
            if (dx) turn(run->dtype, &of_y, (T *)run->y + first * out, y, false);                                                          \
            if (dx) memset(dx, 0, (size_t)(back * planes) * sizeof *dx);                                                                   \
            if (planes < TOGETHER)                                                                                                         \
                max_planes_##suffix(p, (int)planes, room, y, dx);                                                                          \
            else if (dx)                                                                                                                   \
                max_planes_##suffix(p, TOGETHER, room, y, dx);                                                                             \
            else                                                                                                                           \
                max_planes_##suffix(p, TOGETHER, room, y, NULL);                                                                           \
            turn(run->dtype, dx ? &of_dx : &of_y, (T *)run->out + first * (dx ? back : out), dx ? dx : y, true);                           \
        }                                                                                                                                  \
        free(room);                                                                                                                        \
    }                                                                                                                                      \
    /* What windows give back of which none overlaps another: the rows that one sees are alike. */                                         \
    static void spread_##suffix(const Planes *p, T count, const T *dy, T *out) {                                                           \
        for (int64_t oy = 0; oy < p->out[0]; oy++, dy += p->out[1]) {                                                                      \
            const int64_t first = larger(0, window_place(&p->window[0], oy, 0)),                                                           \
                          end = least(p->in[0], window_place(&p->window[0], oy, p->window[0].size));                                       \
            T *row = out + first * p->in[1];                                                                                               \
            for (int64_t ox = 0; ox < p->out[1] && first < end; ox++) {                                                                    \
                const T share = dy[ox] / count;                                                                                            \
                for (int64_t x = larger(0, window_place(&p->window[1], ox, 0)),                                                            \
                             right = least(p->in[1], window_place(&p->window[1], ox, p->window[1].size));                                  \
                     x < right; x++)                                                                                                       \
                    row[x] = share;                                                                                                        \
            }                                                                                                                              \
            for (int64_t y = first + 1; y < end; y++)                                                                                      \
                memcpy(out + y * p->in[1], row, sizeof *row * (size_t)p->in[1]);                                                           \
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
            if (dy && run->apart) {                                                                                                        \
                spread_##suffix(p, (T)average_count(p, (const int64_t[]){0, 0}, true, run->divisor), dy, out);                             \
                continue;                                                                                                                  \
            }                                                                                                                              \
            for (int64_t i = 0; i < p->out[0] * p->out[1]; i++) {                                                                          \
                const int64_t place[2] = {i / p->out[1], i % p->out[1]};                                                                   \
                const Seen seen = seen_by(p, place[0], place[1]);                                                                          \
                const T count = (T)average_count(p, place, run->with_padding, run->divisor), share = dy ? dy[i] / count : 0;               \
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

static bool pooling(const KernelCall *call, void *x, void *dy, bool average, Error *error) {
    PlanesOf of;
    planes_of(call, &of);
    Pooling run = {.planes = of.planes,
                   .dtype = of.x->dtype,
                   .x = x,
                   .y = dy,
                   .out = call->out[0].data,
                   .with_padding = average && average_with_padding(call),
                   .divisor = average ? average_divisor(call) : 0};
    const Planes *p = &run.planes;
    run.apart = average && (run.with_padding || run.divisor > 0) && p->window[0].stride >= p->window[0].size &&
                p->window[1].stride >= p->window[1].size;
    const int64_t work = p->out[0] * p->out[1] * p->window[0].size * p->window[1].size;
    PoolFn *part = of.x->dtype == F32 ? (average ? average_part_f32 : max_part_f32) : (average ? average_part_f64 : max_part_f64);
    if (average)
        pool_run(call_pool(call), p->images, 1 + GRAIN / (work + 1), part, &run);
    else
        pool_run(call_pool(call), parts_of(p->images, TOGETHER), 1 + GRAIN / (TOGETHER * (work + 1)), part, &run);
    return !run.no_memory || error_set(error, EXIT_ENVIRONMENT, "out of memory");
}

bool kernel_max_pool(const KernelCall *call, Error *error) {
    return pooling(call, call->in[0].data, NULL, false, error);
}

bool kernel_max_pool_grad(const KernelCall *call, Error *error) {
    return pooling(call, call->in[0].data, call->in[1].data, false, error);
}

bool kernel_avg_pool(const KernelCall *call, Error *error) {
    return pooling(call, call->in[0].data, NULL, true, error);
}

bool kernel_avg_pool_grad(const KernelCall *call, Error *error) {
    return pooling(call, NULL, call->in[0].data, true, error);
}

/* Never in plans: other operators replace them. */
bool kernel_pad(const KernelCall *call, Error *error) {
    return reference_pad(call, error);
}

bool kernel_upsample(const KernelCall *call, Error *error) {
    return reference_upsample(call, error);
}
