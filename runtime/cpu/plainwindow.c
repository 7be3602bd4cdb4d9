/* plainwindow: plain kernels of conv2d, of the pools and of their gradients. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cpu/reference.h"
#include "runtime/window.h"

static bool no_memory(Error *error) {
    return error_set(error, EXIT_ENVIRONMENT, "out of memory");
}

/* Element (row, column) of plane n of the last two dimensions. */
static int64_t of_plane(const Operand *t, int64_t n, int64_t row, int64_t column) {
    return (n * t->local.dim[t->local.ndim - 2] + row) * t->local.dim[t->local.ndim - 1] + column;
}

/* Where tap (ky, kx) of window (oy, ox) lies in a plane; false: in the padding. */
static bool tap_place(const Planes *p, const int64_t *o, int64_t ky, int64_t kx, int64_t *row, int64_t *column) {
    *row = window_place(&p->window[0], o[0], ky);
    *column = window_place(&p->window[1], o[1], kx);
    return *row >= 0 && *row < p->in[0] && *column >= 0 && *column < p->in[1];
}

/* ---------------------------------------------------------------- conv2d */

/* Each result y[n, o] is the sum of x[n, c] times w[o, c] over the channels of o's group and the taps. Each of the three is computed as the sum of the
 * products of the other two. */
typedef enum { OF_X, OF_W, OF_Y } Wanted;

static void add_products(const PlanesOf *of, Wanted wanted, double *sum) {
    const Planes *p = &of->planes;
    const int64_t rows = p->window[0].size, columns = p->window[1].size;
    for (int64_t n = 0; n < p->images; n++)
        for (int64_t o = 0; o < p->groups * p->out_channels; o++)
            for (int64_t c = 0; c < p->in_channels; c++)
                for (int64_t tap = 0; tap < rows * columns; tap++)
                    for (int64_t place = 0; place < p->out[0] * p->out[1]; place++) {
                        const int64_t at[2] = {place / p->out[1], place % p->out[1]}, channel = o / p->out_channels * p->in_channels + c;
                        int64_t row, column;
                        if (!tap_place(p, at, tap / columns, tap % columns, &row, &column)) continue;
                        const int64_t x = of_plane(of->x, n * p->groups * p->in_channels + channel, row, column),
                                      w = of_plane(of->w, o * p->in_channels + c, tap / columns, tap % columns),
                                      y = of_plane(of->y, n * p->groups * p->out_channels + o, at[0], at[1]);
                        if (wanted == OF_X)
                            sum[x] += element_get(of->y, y) * element_get(of->w, w);
                        else if (wanted == OF_W)
                            sum[w] += element_get(of->x, x) * element_get(of->y, y);
                        else
                            sum[y] += element_get(of->x, x) * element_get(of->w, w);
                    }
}

static bool plain_convolution(const KernelCall *call, Wanted wanted, Error *error) {
    const int64_t n = shape_elements(&call->out[0].local);
    double *sum = calloc((size_t)n + 1, sizeof *sum);
    PlanesOf of;
    if (!sum) return no_memory(error);
    planes_of(call, &of);
    add_products(&of, wanted, sum);
    for (int64_t i = 0; i < n; i++)
        element_set(&call->out[0], i, sum[i]);
    free(sum);
    return true;
}

bool reference_conv2d(const KernelCall *call, Error *error) {
    return plain_convolution(call, OF_Y, error);
}

bool reference_conv2d_grad_x(const KernelCall *call, Error *error) {
    return plain_convolution(call, OF_X, error);
}

bool reference_conv2d_grad_w(const KernelCall *call, Error *error) {
    return plain_convolution(call, OF_W, error);
}

/* ---------------------------------------------------------------- pools */

/* The element of x that is a window's maximum: the first of those that tie, the last nan if there is one. */
static int64_t place_of_maximum(const PlanesOf *of, int64_t plane, const int64_t *at) {
    const Planes *p = &of->planes;
    int64_t most = -1, row, column;
    for (int64_t ky = 0; ky < p->window[0].size; ky++)
        for (int64_t kx = 0; kx < p->window[1].size; kx++) {
            if (!tap_place(p, at, ky, kx, &row, &column)) continue;
            const int64_t place = of_plane(of->x, plane, row, column);
            const double x = element_get(of->x, place);
            if (most < 0 || isnan(x) || x > element_get(of->x, most)) most = place;
        }
    return most;
}

bool reference_max_pool(const KernelCall *call, Error *error) {
    PlanesOf of;
    (void)error;
    planes_of(call, &of);
    const Planes *p = &of.planes;
    const int64_t places = p->out[0] * p->out[1];
    for (int64_t i = 0; i < p->images * places; i++) {
        const int64_t at[2] = {i % places / p->out[1], i % p->out[1]};
        element_copy(of.y, i, of.x, place_of_maximum(&of, i / places, at));
    }
    return true;
}

bool reference_max_pool_grad(const KernelCall *call, Error *error) {
    PlanesOf of;
    planes_of(call, &of);
    const Planes *p = &of.planes;
    const int64_t places = p->out[0] * p->out[1], size = p->in[0] * p->in[1], n = p->images * size;
    double *sum = calloc((size_t)n + 1, sizeof *sum);
    if (!sum) return no_memory(error);
    for (int64_t i = 0; i < p->images * places; i++) {
        const int64_t at[2] = {i % places / p->out[1], i % p->out[1]};
        sum[place_of_maximum(&of, i / places, at)] += element_get(of.y, i);
    }
    for (int64_t i = 0; i < p->images * p->back[0] * p->back[1]; i++) {
        const int64_t row = i / p->back[1] % p->back[0] + p->behind[0], column = i % p->back[1] + p->behind[1];
        const bool seen = row >= 0 && row < p->in[0] && column >= 0 && column < p->in[1]; /* x's box ends where no window sees more */
        element_set(&call->out[0], i, seen ? sum[i / p->back[1] / p->back[0] * size + row * p->in[1] + column] : 0);
    }
    free(sum);
    return true;
}

/* Computes each window's mean, or for the gradient adds each window's share to the elements that it sees. */
static bool plain_average(const KernelCall *call, bool gradient, Error *error) {
    PlanesOf of;
    planes_of(call, &of);
    const Planes *p = &of.planes;
    const int64_t places = p->out[0] * p->out[1], n = shape_elements(&call->out[0].local);
    double *sum = calloc((size_t)n + 1, sizeof *sum);
    if (!sum) return no_memory(error);
    for (int64_t i = 0; i < p->images * places; i++) {
        const int64_t at[2] = {i % places / p->out[1], i % p->out[1]};
        const double count = (double)average_count(p, at, average_with_padding(call), average_divisor(call));
        for (int64_t tap = 0; tap < p->window[0].size * p->window[1].size; tap++) {
            int64_t row, column;
            if (!tap_place(p, at, tap / p->window[1].size, tap % p->window[1].size, &row, &column)) continue;
            const int64_t x = of_plane(of.x, i / places, row, column);
            if (gradient)
                sum[x] += element_get(of.y, i) / count;
            else
                sum[i] += element_get(of.x, x) / count;
        }
    }
    for (int64_t i = 0; i < n; i++)
        element_set(&call->out[0], i, sum[i]);
    free(sum);
    return true;
}

bool reference_avg_pool(const KernelCall *call, Error *error) {
    return plain_average(call, false, error);
}

bool reference_avg_pool_grad(const KernelCall *call, Error *error) {
    return plain_average(call, true, error);
}

/* ---------------------------------------------------------------- pad, upsample: never in plans */

/* out[i] = in[at]; a function gives the index `at` along each dimension; 0 if it is outside. */
typedef int64_t FromFn(const Attr *attr, const Shape *shape, int d, int64_t i);

static bool plain_move(const KernelCall *call, FromFn *from) {
    const Operand *x = &call->in[0], *y = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM], at = 0;
        index_of(&y->local, i, index);
        for (int d = 0; d < y->local.ndim && at >= 0; d++) {
            const int64_t own = from(call->attr, &y->local, d, y->box.begin[d] + index[d]) - x->box.begin[d];
            at = own >= 0 && own < x->local.dim[d] ? at * x->local.dim[d] + own : -1;
        }
        if (at >= 0)
            element_copy(y, i, x, at);
        else
            element_set(y, i, 0);
    }
    return true;
}

static int64_t padded_from(const Attr *attr, const Shape *shape, int d, int64_t i) {
    return (void)shape, i - attr[0].ints[d];
}

static int64_t repeated_from(const Attr *attr, const Shape *shape, int d, int64_t i) {
    const int k = d - (shape->ndim - 2);
    return k < 0 ? i : i / attr[0].ints[attr[0].n == 1 ? 0 : k];
}

bool reference_pad(const KernelCall *call, Error *error) {
    return (void)error, plain_move(call, padded_from);
}

bool reference_upsample(const KernelCall *call, Error *error) {
    return (void)error, plain_move(call, repeated_from);
}
