/* nest: see nest.h. */
#include "runtime/nest.h"

void nest_broadcast(Nest *nest, const KernelCall *call) {
    const Shape *out = &call->out[0].local;
    int64_t out_strides[MAX_NDIM], in_strides[MAX_IN][MAX_NDIM];
    strides_of(out, out_strides);
    for (int i = 0; i < call->nin; i++)
        strides_of(&call->in[i].local, in_strides[i]);
    nest_init(nest, 1 + call->nin);
    for (int d = 0; d < out->ndim; d++) {
        int64_t strides[MAX_NEST] = {out_strides[d]};
        for (int i = 0; i < call->nin; i++) {
            const Operand *in = &call->in[i];
            int at = d - (out->ndim - in->local.ndim);
            bool absent = at < 0 || (in->global.dim[at] == 1 && out->dim[d] != 1);
            strides[1 + i] = absent ? 0 : in_strides[i][at];
        }
        nest_push(nest, out->dim[d], strides);
    }
    nest_merge(nest);
}

/* The dimension of a tensor that runs over a factor, or -1. */
static int dimension_of(const int8_t *letters, int ndim, int factor) {
    for (int d = 0; d < ndim; d++)
        if (factor >= 0 && letters[d] == factor) return d;
    return -1;
}

void nest_reduce(Nest *nest, const KernelCall *call, double *reduced) {
    const Operand *in = &call->in[0], *out = &call->out[0];
    int64_t in_strides[MAX_NDIM], out_strides[MAX_NDIM];
    strides_of(&in->local, in_strides);
    strides_of(&out->local, out_strides);
    nest_init(nest, 2);
    *reduced = 1;
    for (int d = 0; d < in->local.ndim; d++) {
        int to = dimension_of(call->rule->out[0], out->local.ndim, call->rule->in[0][d]);
        nest_push(nest, in->local.dim[d], (const int64_t[]){to < 0 ? 0 : out_strides[to], in_strides[d]});
        if (to < 0) *reduced *= (double)in->global.dim[d];
    }
}

void nest_expand(Nest *nest, const KernelCall *call) {
    const Operand *in = &call->in[0], *out = &call->out[0];
    int64_t in_strides[MAX_NDIM], out_strides[MAX_NDIM];
    strides_of(&in->local, in_strides);
    strides_of(&out->local, out_strides);
    nest_init(nest, 2);
    for (int d = 0; d < out->local.ndim; d++) {
        int from = dimension_of(call->rule->in[0], in->local.ndim, call->rule->out[0][d]);
        nest_push(nest, out->local.dim[d], (const int64_t[]){out_strides[d], from < 0 ? 0 : in_strides[from]});
    }
    nest_merge(nest);
}

void nest_replicate(Nest *nest, const KernelCall *call) {
    int64_t n = shape_elements(&call->in[0].local);
    nest_init(nest, 2);
    nest_push(nest, call->out[0].local.dim[0], (const int64_t[]){n, 0});
    nest_push(nest, n, (const int64_t[]){1, 1});
    nest_merge(nest);
}

void nest_replica_sum(Nest *nest, const KernelCall *call) {
    int64_t n = shape_elements(&call->out[0].local);
    nest_init(nest, 2);
    nest_push(nest, call->in[0].local.dim[0], (const int64_t[]){0, n});
    nest_push(nest, n, (const int64_t[]){1, 1});
}

bool nest_reshape(Nest *nest, const KernelCall *call, Error *error) {
    int64_t from = shape_elements(&call->in[0].local), n = shape_elements(&call->out[0].local);
    if (n != from)
        return error_set(error, EXIT_INTERNAL, "%s: %lld elements cannot become %lld", op_table[call->op].name, (long long)from,
                         (long long)n);
    nest_init(nest, 2);
    nest_push(nest, n, (const int64_t[]){1, 1});
    nest_merge(nest);
    return true;
}

void nest_box(Nest *nest, const Shape *box, const Operand *out, const Operand *in) {
    int64_t in_strides[MAX_NDIM], out_strides[MAX_NDIM];
    strides_of(&in->local, in_strides);
    strides_of(&out->local, out_strides);
    nest_init(nest, 2);
    for (int d = 0; d < box->ndim; d++)
        nest_push(nest, box->dim[d], (const int64_t[]){out_strides[d], in_strides[d]});
    nest_merge(nest);
}

bool nest_divide(Nest *nest, Nest *kept, Nest *gone) {
    bool row = false;
    nest_merge(nest);
    nest_init(kept, 2);
    nest_init(gone, 1);
    for (int d = 0; d < nest->ndim; d++) {
        row = nest->stride[0][d] != 0;
        if (row)
            nest_push(kept, nest->size[d], (const int64_t[]){nest->stride[0][d], nest->stride[1][d]});
        else
            nest_push(gone, nest->size[d], (const int64_t[]){nest->stride[1][d]});
    }
    nest_merge(kept);
    nest_merge(gone);
    return row && kept->size[kept->ndim - 1] > 1;
}
