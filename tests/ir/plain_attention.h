/* attention, its gradient, and rope by plain loops, of doubles. */
#pragma once
#include <math.h>

#include "ir/op.h"

typedef struct PlainAttention {
    const double *q, *k, *v, *mask; /* mask: NULL where there is none */
    Shape scores, mask_shape;
    int64_t queries, shared, n, d, e; /* of all heads; of those that share keys; keys of a head; widths */
    bool causal;
    double scale;
} PlainAttention;

static inline PlainAttention plain_attention_of(const Attr *attr, const Shape *q, const Shape *k, const Shape *v) {
    PlainAttention c = {.scores = *q, .shared = 1, .n = k->dim[k->ndim - 2], .d = q->dim[q->ndim - 1], .e = v->dim[v->ndim - 1]};
    c.scores.dim[q->ndim - 1] = c.n;
    c.queries = 1;
    for (int d = 0; d < q->ndim - 1; d++) {
        c.queries *= q->dim[d];
        if (d >= k->ndim - 2) c.shared *= q->dim[d];
    }
    c.causal = attr[0].i != 0;
    c.scale = attr[1].given ? attr[1].f : 1 / sqrt((double)c.d);
    return c;
}

static inline int64_t plain_key(const PlainAttention *c, int64_t query, int64_t j) {
    return query / c->shared * c->n + j;
}

/* exp of the score, 0 of what is not seen. The scores are small: nothing need be taken off. */
static inline double plain_power(const PlainAttention *c, int64_t query, int64_t j) {
    const int ndim = c->scores.ndim;
    double sum = 0;
    if (c->causal && j > query % c->scores.dim[ndim - 2]) return 0;
    if (c->mask) {
        int64_t at = 0, step = 1, rest = query * c->n + j;
        for (int d = ndim - 1, own = c->mask_shape.ndim - 1; own >= 0; d--, own--) {
            at += c->mask_shape.dim[own] == 1 ? 0 : rest % c->scores.dim[d] * step;
            step *= c->mask_shape.dim[own];
            rest /= c->scores.dim[d];
        }
        if (c->mask[at] == 0) return 0;
    }
    for (int64_t x = 0; x < c->d; x++)
        sum += c->q[query * c->d + x] * c->k[plain_key(c, query, j) * c->d + x];
    return exp(c->scale * sum);
}

static inline double plain_sum(const PlainAttention *c, int64_t query) {
    double sum = 0;
    for (int64_t j = 0; j < c->n; j++)
        sum += plain_power(c, query, j);
    return sum;
}

/* Result `result` of attention: y, 0 in place of the largest score, which nothing is taken off here, and the sum. */
static inline void run_attention(const PlainAttention *c, int result, double *out) {
    for (int64_t query = 0; query < c->queries; query++) {
        const double sum = plain_sum(c, query);
        if (result > 0) out[query] = result == 1 ? 0 : sum;
        for (int64_t x = 0; x < c->e && result == 0; x++)
            for (int64_t j = 0; j < c->n && sum > 0; j++)
                out[query * c->e + x] += plain_power(c, query, j) / sum * c->v[plain_key(c, query, j) * c->e + x];
    }
}

/* Result `result` of its gradient: dq, dk or dv. out: zero. */
static inline void run_attention_grad(const PlainAttention *c, const double *dy, const double *y, int result, double *out) {
    for (int64_t query = 0; query < c->queries; query++)
        for (int64_t j = 0; j < c->n; j++) {
            const int64_t key = plain_key(c, query, j);
            const double sum = plain_sum(c, query), p = sum > 0 ? plain_power(c, query, j) / sum : 0;
            double moved = 0;
            for (int64_t x = 0; x < c->e; x++)
                moved += dy[query * c->e + x] * (c->v[key * c->e + x] - y[query * c->e + x]);
            for (int64_t x = 0; x < c->d && result < 2; x++)
                out[(result == 0 ? query : key) * c->d + x] +=
                    p * moved * c->scale * (result == 0 ? c->k[key * c->d + x] : c->q[query * c->d + x]);
            for (int64_t x = 0; x < c->e && result == 2; x++)
                out[key * c->e + x] += p * dy[query * c->e + x];
        }
}

/* Element k of a place with its partner: as complex numbers, times exp(i angle). */
static inline void run_rope(const Attr *attr, const double *x, const Shape *shape, double *out) {
    const int64_t width = shape->dim[shape->ndim - 1], places = shape->dim[shape->ndim - 2];
    for (int64_t e = 0; e < shape_elements(shape); e++) {
        const int64_t k = e % width, pair = k % (width / 2);
        const double base = attr[0].given ? attr[0].f : 10000,
                     angle = (double)(e / width % places) / pow(base, 2.0 * (double)pair / (double)width);
        const double side = attr[1].i ? -sin(angle) : sin(angle);
        out[e] = k < width / 2 ? x[e] * cos(angle) - x[e + width / 2] * side : x[e] * cos(angle) + x[e - width / 2] * side;
    }
}
