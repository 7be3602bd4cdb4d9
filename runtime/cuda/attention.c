/* attention: attention, what it is taken apart into, and its gradient: arguments for attention.cuh. */
#include <math.h>

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

/* Strides of the mask along the leading dimensions of the scores, the queries and the keys. */
static void open_mask(KernelAttention *a, const Operand *q, const Operand *mask) {
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

static KernelAttention attention_of(const KernelCall *call) {
    const bool gradient = call->op == OP_attention_grad;
    const int keys = gradient ? 2 : 1, named = gradient                               ? 7
                                               : call->op == OP_dot_product_attention ? 3
                                               : call->op == OP_attention_most        ? 2
                                                                                      : 4;
    const Operand *q = &call->in[0], *k = &call->in[keys], *v = call->op == OP_attention_most ? k : k + 1;
    const int queries = q->local.ndim - 2, lead = k->local.ndim - 2;
    KernelAttention a = {.q = q->data,
                         .k = k->data,
                         .v = v->data,
                         .group = queries > lead ? q->local.dim[lead] : 1,
                         .m = q->local.dim[queries],
                         .n = k->local.dim[lead],
                         .d = q->local.dim[queries + 1],
                         .e = v->local.dim[lead + 1],
                         .before = q->box.begin[queries] - k->box.begin[lead],
                         .causal = call->attr[0].i != 0,
                         .dtype = (int)q->dtype};
    a.queries = shape_elements(&q->local) / a.d;
    a.keys = shape_elements(&k->local) / a.d;
    a.scale = call->attr[1].given ? call->attr[1].f : 1 / sqrt((double)a.d);
    if (call->nin > named) open_mask(&a, q, &call->in[named]);
    return a;
}

static bool launch(const KernelCall *call, const KernelAttention *a, Error *error) {
    CudaContext *cuda = call->context;
    if (a->dy == NULL && a->queries == 0) return true;
    return cuda_launched(cuda, kernels_attention(a, cuda->compute), op_table[call->op].name, error);
}

bool kernel_dot_product_attention(const KernelCall *call, Error *error) {
    KernelAttention a = attention_of(call);
    a.y = call->out[0].data;
    a.most = call->out[1].data;
    a.sum = call->out[2].data;
    return launch(call, &a, error);
}

bool kernel_attention_most(const KernelCall *call, Error *error) {
    KernelAttention a = attention_of(call);
    a.most = call->out[0].data;
    return launch(call, &a, error);
}

bool kernel_attention_sums(const KernelCall *call, Error *error) {
    KernelAttention a = attention_of(call);
    a.given = call->in[3].data;
    a.sum = call->out[0].data;
    a.y = call->out[1].data;
    return launch(call, &a, error);
}

bool kernel_attention_grad(const KernelCall *call, Error *error) {
    KernelAttention a = attention_of(call);
    a.dy = call->in[1].data;
    a.y = call->in[4].data;
    a.most = call->in[5].data;
    a.sum = call->in[6].data;
    a.dq = call->out[0].data;
    a.dk = call->out[1].data;
    a.dv = call->out[2].data;
    return launch(call, &a, error);
}
