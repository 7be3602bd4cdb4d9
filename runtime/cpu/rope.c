/* rope: rotary positions. Angles depend on the index in the whole tensor. cos and sin of place p = STRIDE a + b are combined from those of STRIDE a and of b, so that few
 * are computed; all rows of a place then share them. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference.h"

enum { STRIDE = 64 };

typedef struct Rope {
    const void *x;
    void *out, *turns;            /* turns: for each place, cos of its pairs, then sin */
    double *coarse, *fine;        /* for places STRIDE a, and b: cos, then sin, of each pair */
    int64_t first, places, pairs; /* first: this rank's first place in the whole tensor */
    double base, sign;
} Rope;

static double frequency(double base, int64_t pair, int64_t pairs) {
    return pow(base, -(double)pair / (double)pairs);
}

/* Ranges are of rows of the tables: first the coarse ones, then STRIDE fine ones. */
static void tables_part(void *context, int64_t begin, int64_t end) {
    const Rope *r = context;
    const int64_t ncoarse = (r->first + r->places - 1) / STRIDE - r->first / STRIDE + 1;
    for (int64_t i = begin; i < end; i++) {
        const int64_t place = i < ncoarse ? (r->first / STRIDE + i) * STRIDE : i - ncoarse;
        double *row = i < ncoarse ? r->coarse + i * 2 * r->pairs : r->fine + (i - ncoarse) * 2 * r->pairs;
        for (int64_t k = 0; k < r->pairs; k++) {
            const double angle = (double)place * frequency(r->base, k, r->pairs);
            row[k] = cos(angle);
            row[r->pairs + k] = sin(angle);
        }
    }
}

#define ROPE(suffix, T)                                                                                                                    \
    /* Ranges are of places. */                                                                                                            \
    static void turns_##suffix(void *context, int64_t begin, int64_t end) {                                                                \
        const Rope *r = context;                                                                                                           \
        const int64_t n = r->pairs;                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                                                            \
            const int64_t place = r->first + i;                                                                                            \
            const double *a = r->coarse + (place / STRIDE - r->first / STRIDE) * 2 * n, *b = r->fine + place % STRIDE * 2 * n;             \
            T *to = (T *)r->turns + i * 2 * n;                                                                                             \
            for (int64_t k = 0; k < n; k++) {                                                                                              \
                to[k] = (T)(a[k] * b[k] - a[n + k] * b[n + k]);                                                                            \
                to[n + k] = (T)(r->sign * (a[n + k] * b[k] + a[k] * b[n + k]));                                                            \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* Ranges are of rows. */                                                                                                              \
    static void rows_##suffix(void *context, int64_t begin, int64_t end) {                                                                 \
        const Rope *r = context;                                                                                                           \
        const int64_t n = r->pairs;                                                                                                        \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            const T *turn = (const T *)r->turns + row % r->places * 2 * n, *x = (const T *)r->x + row * 2 * n;                             \
            T *y = (T *)r->out + row * 2 * n;                                                                                              \
            for (int64_t k = 0; k < n; k++) {                                                                                              \
                const T a = x[k], b = x[n + k];                                                                                            \
                y[k] = a * turn[k] - b * turn[n + k];                                                                                      \
                y[n + k] = b * turn[k] + a * turn[n + k];                                                                                  \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
FOR_FLOATS(ROPE)

static Rope rope_of(const KernelCall *call) {
    const Operand *x = &call->in[0];
    const int places = x->local.ndim - 2;
    return (Rope){.x = x->data,
                  .out = call->out[0].data,
                  .first = x->box.begin[places],
                  .places = x->local.dim[places],
                  .pairs = x->local.dim[places + 1] / 2,
                  .base = call->attr[0].given ? call->attr[0].f : 10000,
                  .sign = call->attr[1].i ? -1 : 1};
}

bool kernel_rope(const KernelCall *call, Error *error) {
    Rope r = rope_of(call);
    const bool wide = call->in[0].dtype == F64;
    const int64_t rows = shape_elements(&call->in[0].local) / (2 * r.pairs);
    if (rows == 0) return true;
    const int64_t ncoarse = (r.first + r.places - 1) / STRIDE - r.first / STRIDE + 1, row = 2 * r.pairs;
    r.coarse = malloc((size_t)((ncoarse + STRIDE + r.places) * row) * sizeof *r.coarse);
    if (!r.coarse) return error_set(error, EXIT_ENVIRONMENT, "out of memory for the angles of rope");
    r.fine = r.coarse + ncoarse * row;
    r.turns = r.fine + STRIDE * row;
    pool_run(call_pool(call), ncoarse + STRIDE, 1 + 256 / row, tables_part, &r);
    pool_run(call_pool(call), r.places, 1 + GRAIN / (2 * row), wide ? turns_f64 : turns_f32, &r);
    pool_run(call_pool(call), rows, 1 + GRAIN / row, wide ? rows_f64 : rows_f32, &r);
    free(r.coarse);
    return true;
}

bool reference_rope(const KernelCall *call, Error *error) {
    const Rope r = rope_of(call);
    (void)error;
    for (int64_t row = 0; row < shape_elements(&call->in[0].local) / (2 * r.pairs); row++)
        for (int64_t k = 0; k < r.pairs; k++) {
            const double angle = (double)(r.first + row % r.places) * frequency(r.base, k, r.pairs) * r.sign;
            const int64_t at = row * 2 * r.pairs + k;
            const double a = element_get(&call->in[0], at), b = element_get(&call->in[0], at + r.pairs);
            element_set(&call->out[0], at, a * cos(angle) - b * sin(angle));
            element_set(&call->out[0], at + r.pairs, b * cos(angle) + a * sin(angle));
        }
    return true;
}
