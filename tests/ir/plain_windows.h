/* conv2d, the pools and their gradients by plain loops. */
#pragma once
#include "ir/op.h"

typedef struct Tensor {
    Shape shape;
    double *at;
} Tensor;

/* Elements. */
static inline int64_t count(const Shape *shape) {
    int64_t n = 1;
    for (int d = 0; d < shape->ndim; d++)
        n *= shape->dim[d];
    return n;
}

static inline void unravel(const Shape *shape, int64_t i, int64_t *index) {
    for (int d = shape->ndim - 1; d >= 0; d--) {
        index[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
}

static inline int64_t pair(const Attr *attr, int d, int64_t otherwise) {
    return attr->given ? attr->ints[attr->n == 1 ? 0 : d] : otherwise;
}

/* x[n, g * c + i, y * stride + ky * dilation - padding, ..] w[g * o + j, i, ky, kx] for y[n, g * o + j, y, ..]: the sum of the products of two of the three is the third. */
static inline void run_convolution(const Attr *attr, const Tensor *x, const Tensor *w, const Tensor *y, int wanted) {
    const int64_t groups = attr[3].given ? attr[3].i : 1, in = w->shape.dim[1], out = w->shape.dim[0] / groups;
    for (int64_t i = 0; i < count(&y->shape); i++)
        for (int64_t k = 0; k < in * w->shape.dim[2] * w->shape.dim[3]; k++) {
            int64_t at[MAX_NDIM], tap[MAX_NDIM], place[2];
            unravel(&y->shape, i, at);
            unravel(&(Shape){.ndim = 3, .dim = {in, w->shape.dim[2], w->shape.dim[3]}}, k, tap);
            for (int d = 0; d < 2; d++)
                place[d] = at[2 + d] * pair(&attr[0], d, 1) + tap[1 + d] * pair(&attr[2], d, 1) - pair(&attr[1], d, 0);
            if (place[0] < 0 || place[1] < 0 || place[0] >= x->shape.dim[2] || place[1] >= x->shape.dim[3]) continue;
            double *of_x =
                &x->at[((at[0] * x->shape.dim[1] + at[1] / out * in + tap[0]) * x->shape.dim[2] + place[0]) * x->shape.dim[3] + place[1]];
            double *of_w = &w->at[at[1] * in * w->shape.dim[2] * w->shape.dim[3] + k];
            if (wanted == 0)
                *of_x += *of_w * y->at[i];
            else if (wanted == 1)
                *of_w += *of_x * y->at[i];
            else
                y->at[i] += *of_x * *of_w;
        }
}

/* Maxima or means of windows; back: x is zero, and each window's number goes to where it came from. of: what maxima are looked for in. */
static inline void run_pool(const Attr *attr, bool max, const Tensor *of, const Tensor *x, const Tensor *y, bool back) {
    const int nd = x->shape.ndim;
    const int64_t plane = x->shape.dim[nd - 2] * x->shape.dim[nd - 1];
    for (int64_t i = 0; i < count(&y->shape); i++) {
        int64_t seen[64], n = 0, at[MAX_NDIM], most = 0;
        unravel(&y->shape, i, at);
        const int64_t first = i / (y->shape.dim[nd - 2] * y->shape.dim[nd - 1]) * plane;
        for (int64_t k = 0, across = pair(&attr[0], 1, 1); k < pair(&attr[0], 0, 1) * across; k++) {
            int64_t place[2];
            for (int d = 0; d < 2; d++)
                place[d] = at[nd - 2 + d] * pair(&attr[1], d, pair(&attr[0], d, 1)) +
                           (d ? k % across : k / across) * (max ? pair(&attr[3], d, 1) : 1) - pair(&attr[2], d, 0);
            if (place[0] < 0 || place[1] < 0 || place[0] >= x->shape.dim[nd - 2] || place[1] >= x->shape.dim[nd - 1]) continue;
            seen[n] = first + place[0] * x->shape.dim[nd - 1] + place[1];
            if (of->at[seen[n]] > of->at[seen[most]]) most = n;
            n++;
        }
        const double counted = !max && attr[4].given         ? (double)attr[4].i
                               : attr[3].given && !attr[3].i ? (double)n
                                                             : (double)(pair(&attr[0], 0, 1) * pair(&attr[0], 1, 1));
        for (int64_t k = max ? most : 0; k < (max ? most + 1 : n); k++) {
            if (back)
                x->at[seen[k]] += y->at[i] / (max ? 1 : counted);
            else
                y->at[i] += x->at[seen[k]] / (max ? 1 : counted);
        }
    }
}
