/* depthwise: conv2d and its gradients where each group has one channel of x and few of y: one plane at a time, by depthwiseloops.c. Products of matrices of one row
 * would spend their time copying what windows see. Threads divide planes of the result, or channels of the weight's gradient, so no sum depends on the number of threads. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/element.h"
#include "runtime/window.h"

enum { MOST_RESULTS = 4 }; /* channels of y in a group; with more, a product pays */

typedef struct Depthwise {
    PlanesOf of;
    DepthwiseLoops loops;
    int64_t item, x_plane, y_plane, taps; /* bytes of an element, a plane, the taps of a channel */
    atomic_bool no_memory;
} Depthwise;

bool is_depthwise(const Planes *planes) {
    return planes->groups > 1 && planes->in_channels == 1 && planes->out_channels <= MOST_RESULTS;
}

/* Plane k of y, in images and then channels, is computed from plane k / (y's channels of a group) of x. */
static void forward_part(void *context, int64_t begin, int64_t end) {
    const Depthwise *d = context;
    const Planes *p = &d->of.planes;
    for (int64_t k = begin; k < end; k++)
        d->loops.forward(p, (const char *)d->of.x->data + k / p->out_channels * d->x_plane,
                         (const char *)d->of.w->data + k % (p->groups * p->out_channels) * d->taps, (char *)d->of.y->data + k * d->y_plane);
}

static void gradient_x_part(void *context, int64_t begin, int64_t end) {
    const Depthwise *d = context;
    const Planes *p = &d->of.planes;
    for (int64_t k = begin; k < end; k++) {
        char *dx = (char *)d->of.x->data + k * d->x_plane;
        memset(dx, 0, (size_t)d->x_plane);
        for (int64_t o = k * p->out_channels; o < (k + 1) * p->out_channels; o++)
            d->loops.gradient_x(p, dx, (const char *)d->of.w->data + o % (p->groups * p->out_channels) * d->taps,
                                (const char *)d->of.y->data + o * d->y_plane);
    }
}

static void gradient_w_part(void *context, int64_t begin, int64_t end) {
    Depthwise *d = context;
    const Planes *p = &d->of.planes;
    const int64_t taps = d->taps / d->item, channels = p->groups * p->out_channels;
    double *sums = malloc((size_t)taps * sizeof *sums);
    for (int64_t o = begin; sums && o < end; o++) {
        memset(sums, 0, (size_t)taps * sizeof *sums);
        for (int64_t k = o; k < p->images * channels; k += channels)
            d->loops.gradient_w(p, (const char *)d->of.x->data + k / p->out_channels * d->x_plane,
                                (const char *)d->of.y->data + k * d->y_plane, sums);
        for (int64_t t = 0; t < taps; t++)
            element_put(d->of.w->data, d->of.w->dtype, o * taps + t, sums[t]);
    }
    if (!sums) d->no_memory = true;
    free(sums);
}

bool depthwise(const KernelCall *call, Error *error) {
    Depthwise d = {0};
    planes_of(call, &d.of);
    const Planes *p = &d.of.planes;
    d.item = dtype_bytes[d.of.x->dtype];
    d.x_plane = p->in[0] * p->in[1] * d.item;
    d.y_plane = p->out[0] * p->out[1] * d.item;
    d.taps = p->window[0].size * p->window[1].size * d.item;
    d.loops = vector_variant(vector_variants() - 1)->depthwise(d.of.x->dtype);
    const int64_t channels = call->op == OP_conv2d_grad_x ? p->groups : p->groups * p->out_channels;
    const int64_t work = p->out[0] * p->out[1] * d.taps / d.item;
    pool_run(call_pool(call), call->op == OP_conv2d_grad_w ? channels : p->images * channels, 1 + GRAIN / (work + 1),
             call->op == OP_conv2d          ? forward_part
             : call->op == OP_conv2d_grad_x ? gradient_x_part
                                            : gradient_w_part,
             &d);
    return !d.no_memory || error_set(error, EXIT_ENVIRONMENT, "out of memory");
}
