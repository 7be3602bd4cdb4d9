/* loops: see loops.h. */
#include "ir/loops.h"

#include <assert.h>

void nest_init(Nest *nest, int ntensors) {
    nest->ndim = 0;
    nest->ntensors = ntensors;
}

void nest_push(Nest *nest, int64_t size, const int64_t *strides) {
    assert(nest->ndim < MAX_FACTORS + MAX_NDIM);
    nest->size[nest->ndim] = size;
    for (int t = 0; t < nest->ntensors; t++)
        nest->stride[t][nest->ndim] = strides[t];
    nest->ndim++;
}

static bool is_one_run(const Nest *nest, int outer, int inner) {
    for (int t = 0; t < nest->ntensors; t++)
        if (nest->stride[t][outer] != nest->stride[t][inner] * nest->size[inner]) return false;
    return true;
}

void nest_merge(Nest *nest) {
    int n = 0;
    for (int d = 0; d < nest->ndim; d++) {
        if (nest->size[d] == 1) continue;
        bool merged = n > 0 && is_one_run(nest, n - 1, d);
        int to = merged ? n - 1 : n++;
        nest->size[to] = merged ? nest->size[to] * nest->size[d] : nest->size[d];
        for (int t = 0; t < nest->ntensors; t++)
            nest->stride[t][to] = nest->stride[t][d];
    }
    nest->ndim = n;
    if (n == 0) nest_push(nest, 1, (const int64_t[MAX_NEST]){1, 1, 1, 1});
}

int64_t nest_count(const Nest *nest, int first, int end) {
    int64_t count = 1;
    for (int d = first; d < end; d++)
        count *= nest->size[d];
    return count;
}

void nest_offsets(const Nest *nest, int nloops, int64_t index, int64_t *offsets) {
    for (int t = 0; t < nest->ntensors; t++)
        offsets[t] = 0;
    for (int d = nloops - 1; d >= 0; d--) {
        const int64_t at = d > 0 ? index % nest->size[d] : index; /* the remainder is below the outermost size */
        if (d > 0) index /= nest->size[d];
        for (int t = 0; t < nest->ntensors; t++)
            offsets[t] += at * nest->stride[t][d];
    }
}

void strides_of(const Shape *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape->dim[d];
    }
}

/* ---------------------------------------------------------------- tensors in others */

Strided strided_of(const Shape *shape) {
    Strided at = {.shape = *shape};
    strides_of(shape, at.stride);
    return at;
}

bool strided_reshape(Strided *at, const Shape *shape) {
    Nest nest;
    int64_t linear[MAX_NDIM];
    strides_of(&at->shape, linear);
    nest_init(&nest, 2);
    for (int d = 0; d < at->shape.ndim; d++)
        nest_push(&nest, at->shape.dim[d], (const int64_t[]){linear[d], at->stride[d]});
    nest_merge(&nest);
    /* Innermost first: every new dimension must be a part of one run. */
    int run = nest.ndim - 1;
    int64_t left = nest.size[run], stride = nest.stride[1][run];
    for (int d = shape->ndim - 1; d >= 0; d--) {
        at->stride[d] = 0;
        if (shape->dim[d] == 1) continue;
        if (left == 1 && run > 0) left = nest.size[--run], stride = nest.stride[1][run];
        if (shape->dim[d] == 0 || left % shape->dim[d] != 0) return false;
        at->stride[d] = stride;
        stride *= shape->dim[d];
        left /= shape->dim[d];
    }
    at->shape = *shape;
    return true;
}

void strided_letters(Strided *at, const int8_t *letters, const Shape *shape, const int8_t *own_letters) {
    const Strided from = *at;
    at->shape = *shape;
    for (int d = 0; d < shape->ndim; d++) {
        at->stride[d] = 0;
        for (int k = 0; k < from.shape.ndim; k++)
            if (own_letters[d] >= 0 && letters[k] == own_letters[d]) at->stride[d] = from.stride[k];
    }
}

bool strided_result(Strided *at, OpCode op, const Rule *rule, const Shape *shape) {
    if (op_table[op].flat) return strided_reshape(at, shape);
    if (op == OP_transpose)
        strided_letters(at, rule->in[0], shape, rule->out[0]);
    else
        at->shape = *shape;
    return true;
}
