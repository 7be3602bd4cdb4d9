/* calls: see calls.h. */
#include "runtime/calls.h"

#include <assert.h>
#include <math.h>

#include "runtime/backend.h"

static_assert((int)MASK_NDIM == (int)MAX_NDIM, "a mask may have all dimensions");

/* ---------------------------------------------------------------- attention */

/* Strides of the mask along the leading dimensions of the scores, the queries and the keys. */
static void mask_lies(AttentionCall *a, const Operand *q, const Operand *mask) {
    const int ndim = q->local.ndim; /* of the scores */
    int64_t stride = 1;
    a->mask = mask->data;
    a->mask_ndim = ndim - 2;
    for (int d = 0; d < ndim - 2; d++)
        a->mask_size[d] = q->local.dim[d];
    for (int d = mask->local.ndim - 1; d >= 0; d--) {
        const int at = d + ndim - mask->local.ndim;
        int64_t *own = at == ndim - 1 ? &a->mask_n : at == ndim - 2 ? &a->mask_m : &a->mask_stride[at];
        *own = mask->global.dim[d] == 1 ? 0 : stride;
        stride *= mask->local.dim[d];
    }
}

AttentionCall attention_call(const KernelCall *call) {
    const bool whole = call->op == OP_dot_product_attention, sums = call->op == OP_attention_sums, most = call->op == OP_attention_most,
               gradient = call->op == OP_attention_grad;
    const Operand *q = &call->in[0], *k = &call->in[gradient ? 2 : 1], *v = most ? k : k + 1;
    const int queries = q->local.ndim - 2, lead = k->local.ndim - 2, named = gradient ? 7 : whole ? 3 : most ? 2 : 4;
    AttentionCall a = {.q = q->data,
                       .k = k->data,
                       .v = v->data,
                       .dy = gradient ? call->in[1].data : NULL,
                       .given = sums ? call->in[3].data : NULL,
                       .y = gradient ? call->in[4].data
                            : whole  ? call->out[0].data
                            : sums   ? call->out[1].data
                                     : NULL,
                       .most = gradient ? call->in[5].data
                               : whole  ? call->out[1].data
                               : most   ? call->out[0].data
                                        : NULL,
                       .sum = gradient ? call->in[6].data
                              : whole  ? call->out[2].data
                              : sums   ? call->out[0].data
                                       : NULL,
                       .dq = gradient ? call->out[0].data : NULL,
                       .dk = gradient ? call->out[1].data : NULL,
                       .dv = gradient ? call->out[2].data : NULL,
                       .heads = 1,
                       .group = queries > lead ? q->local.dim[lead] : 1,
                       .m = q->local.dim[queries],
                       .n = k->local.dim[lead],
                       .d = q->local.dim[queries + 1],
                       .e = v->local.dim[lead + 1],
                       .before = q->box.begin[queries] - k->box.begin[lead],
                       .causal = call->attr[0].i != 0,
                       .dtype = (int)q->dtype};
    for (int d = 0; d < lead; d++)
        a.heads *= k->local.dim[d];
    a.queries = a.heads * a.group * a.m;
    a.keys = a.heads * a.n;
    a.scale = call->attr[1].given ? call->attr[1].f : 1 / sqrt((double)a.d);
    if (call->nin > named) mask_lies(&a, q, &call->in[named]);
    return a;
}

/* ---------------------------------------------------------------- norms */

NormCall norm_call(const KernelCall *call) {
    const bool gradient = call->op == OP_layer_norm_grad || call->op == OP_rms_norm_grad;
    const bool centered = call->op == OP_layer_norm_grad || call->op == OP_layer_norm;
    const Operand *x = &call->in[0], *weight = &call->in[gradient ? 2 : 1];
    const Operand *numbers = gradient ? &call->in[3] : &call->out[1]; /* the mean, where there is one, and the root */
    NormCall norm = {.x = x->data,
                     .dy = gradient ? call->in[1].data : NULL,
                     .weight = weight->data,
                     .bias = centered && !gradient ? call->in[2].data : NULL,
                     .out = call->out[0].data,
                     .mean = centered ? numbers[0].data : NULL,
                     .root = numbers[centered].data,
                     .dweight = gradient ? call->out[1].data : NULL,
                     .dbias = centered && gradient ? call->out[2].data : NULL,
                     .n = shape_elements(&weight->local),
                     .eps = call->attr[0].f,
                     .dtype = (int)x->dtype};
    norm.rows = shape_elements(&x->local) / norm.n;
    return norm;
}

BatchNormCall batch_norm_call(const KernelCall *call) {
    const bool gradient = call->op == OP_batch_norm_grad;
    const Operand *x = &call->in[0];
    BatchNormCall norm = {.x = x->data,
                          .dy = gradient ? call->in[1].data : NULL,
                          .weight = call->in[gradient ? 2 : 1].data,
                          .bias = gradient ? NULL : call->in[2].data,
                          .out = call->out[0].data,
                          .mean = gradient ? call->in[3].data : call->out[1].data,
                          .variance = gradient ? call->in[4].data : call->out[2].data,
                          .dweight = gradient ? call->out[1].data : NULL,
                          .dbias = gradient ? call->out[2].data : NULL,
                          .n = x->local.dim[0],
                          .c = x->local.dim[1],
                          .s = 1,
                          .eps = call->attr[0].f,
                          .dtype = (int)x->dtype};
    for (int d = 2; d < x->local.ndim; d++)
        norm.s *= x->local.dim[d];
    return norm;
}
