/* Gradients against central differences: an interpreter of plain loops, written here, runs the nodes that adjoints emit. */
#include "ir/graph.h"
#include "ir/rules.h"

#include "tests/ir/formulas.h"
#include "tests/ir/plain_attention.h"
#include "tests/ir/plain_loss.h"
#include "tests/ir/plain_norm.h"
#include "tests/ir/plain_windows.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 3, MAX_VALUES = 64 };

typedef struct Case {
    OpCode op;
    const char *shapes; /* "8x6, 6x4" */
    Attr attr[MAX_ATTRS];
} Case;

#define YES                                                                                                                                \
    { .given = true, .i = 1 }
#define INTS(count, ...)                                                                                                                   \
    {                                                                                                                                      \
        .given = true, .n = (count), .ints = { __VA_ARGS__ }                                                                               \
    }
static const Case cases[] = {
    {OP_matmul, "4x3, 3x5", {{0}}},
    {OP_matmul, "3x4, 3x5", {YES}},
    {OP_matmul, "4x3, 5x3", {{0}, YES}},
    {OP_matmul, "3x4, 5x3", {YES, YES}},
    {OP_matmul, "2x4x3, 3x5", {{0}}},
    {OP_matmul, "4x3, 2x3x5", {{0}}},
    {OP_matmul, "2x4x3, 2x3x5", {{0}}},
    {OP_matmul, "1x4x3, 2x3x5", {{0}}},
    {OP_matmul, "2x1x4x3, 1x3x3x5", {{0}}},
    {OP_matmul, "1x4x3, 1x3x1", {{0}}},
    {OP_matmul, "2x1x3x4, 3x5x3", {YES, YES}},
    {OP_add, "4x3, 3", {{0}}},
    {OP_sub, "4x1, 4x3", {{0}}},
    {OP_sub, "3, 4x3", {{0}}},
    {OP_mul, "4x3, 4x1", {{0}}},
    {OP_mul, "3, 2x4x3", {{0}}},
    {OP_mul, "4x1, 1x3", {{0}}},
    {OP_div, "4x3, 3", {{0}}},
    {OP_div, "1x3, 4x3", {{0}}},
    {OP_sum, "4x3", {{0}}},
    {OP_sum, "2x4x3", {INTS(2, 0, -1)}},
    {OP_sum, "2x4x3", {INTS(1, 1), YES}},
    {OP_mean, "4x3", {{0}}},
    {OP_mean, "2x4x3", {INTS(1, -2)}},
    {OP_mean, "2x1x3", {INTS(2, 0, 1), YES}},
    {OP_transpose, "2x4x3", {{0}}},
    {OP_transpose, "2x4x3", {INTS(3, 1, -1, 0)}},
    {OP_reshape, "4x6", {INTS(3, 2, -1, 3)}},
    {OP_reshape, "4x1x6", {INTS(2, 4, 6)}},
    {OP_max, "4x3", {{0}}},
    {OP_max, "2x4x3", {INTS(2, 0, -1)}},
    {OP_max, "2x4x3", {INTS(1, 1), YES}},
    {OP_min, "4x3", {{0}}},
    {OP_min, "2x4x3", {INTS(2, 0, -1)}},
    {OP_min, "2x4x3", {INTS(1, 1), YES}},
    {OP_maximum, "4x1, 2x4x3", {{0}}},
    {OP_minimum, "3, 4x1", {{0}}},
    {OP_clamp, "4x3", {{.given = true, .f = -0.4}, {.given = true, .f = 0.3}}},
    {OP_clamp, "4x3", {{0}, {.given = true, .f = 0.1}}},
    {OP_pow, "4x1, 2x4x3", {{0}}},
    {OP_pow, "2x4x3, 3", {{0}}},
    {OP_slice, "4x5", {INTS(2, 0, 1), INTS(2, 4, 3)}},
    {OP_slice, "4x5", {INTS(2, -3, 0), INTS(2, -1, 5)}},
    {OP_concat, "2x3, 4x3", {{0}}},
    {OP_concat, "4x1, 4x3, 4x2, 4x1", {{.given = true, .i = -1}}},
    {OP_split, "6x4", {{.given = true, .i = 3}}},
    {OP_split, "3x8", {{.given = true, .i = 4}, YES}},
    {OP_split, "3x8", {{.given = true, .i = 1}, YES}},
    {OP_softmax, "4x3", {{0}}},
    {OP_softmax, "2x4x3", {{.given = true, .i = 1}}},
    {OP_softmax, "5", {{.given = true}}},
    {OP_log_softmax, "4x3", {{0}}},
    {OP_log_softmax, "2x4x3", {{.given = true, .i = -2}}},
    {OP_layer_norm, "4x3, 3, 3", {{.given = true, .f = 0.1}}},
    {OP_layer_norm, "2x4x3, 4x3, 4x3", {{.given = true, .f = 1e-3}}},
    {OP_rms_norm, "4x3, 3", {{.given = true, .f = 0.1}}},
    {OP_rms_norm, "5, 5", {{.given = true, .f = 0.1}}},
    {OP_batch_norm, "4x3, 3, 3", {{.given = true, .f = 0.1}}},
    {OP_batch_norm, "2x4x3, 4, 4", {{.given = true, .f = 1e-3}}},
    {OP_rope, "4x6", {{0}}},
    {OP_rope, "2x3x4", {{.given = true, .f = 100}, YES}},
    {OP_dot_product_attention, "4x3, 5x3, 5x2", {{0}}},
    {OP_dot_product_attention, "2x4x3, 2x5x3, 2x5x2", {YES}},
    {OP_dot_product_attention, "2x3x4x3, 2x5x3, 2x5x2", {{0}, {.given = true, .f = 0.5}}},
    {OP_dot_product_attention, "2x4x3, 2x5x3, 2x5x2, 2x4x5", {{0}}},
    {OP_dot_product_attention, "2x3x4x3, 2x5x3, 2x5x2, 3x1x5", {YES, {.given = true, .f = 2}}},
    {OP_gelu, "4x3", {{0}}},
    {OP_gelu, "4x3", {YES}},
    {OP_pick, "4x3, 4", {{0}}},
    {OP_pick, "2x4x3, 2x4", {{0}}},
    {OP_cross_entropy_rows, "4x3, 4", {{0}}},
    {OP_cross_entropy_rows, "2x4x3, 2x4", {{.given = true, .f = 0.25}}},
    {OP_embedding, "5x3, 4", {{0}}},
    {OP_embedding, "5x3, 2x6", {{0}}},
    {OP_gather, "4x3, 4x5", {{0}}},
    {OP_gather, "2x4x3, 2x5x3", {YES}},
    {OP_gather, "2x4x3, 2x6", {{.given = true, .i = -2}}},
    {OP_gather_grad, "4x3, 4x3", {{.given = true, .i = 5}}},
    {OP_gather_grad, "2x4x3, 2x4", {{.given = true, .i = 2}, YES}},
    {OP_cumsum, "4x3", {{0}}},
    {OP_cumsum, "2x4x3", {YES, YES}},
    {OP_cumsum, "2x4x3", {{.given = true, .i = -3}, {0}, YES}},
    {OP_topk, "4x5", {{.given = true, .i = 2}}},
    {OP_topk, "2x3x4", {{.given = true, .i = 4}}},
    {OP_cast, "4x3", {{.given = true, .text = "f32"}}},
    {OP_where, "4x3, 4x3, 4x3", {{0}}},
    {OP_where, "4x1, 3, 4x3", {{0}}},
    {OP_conv2d, "2x3x5x4, 2x3x3x2", {{0}}},
    {OP_conv2d, "2x4x5x4, 6x2x3x2", {INTS(2, 2, 1), INTS(2, 1, 0), INTS(2, 1, 2), {.given = true, .i = 2}}},
    {OP_conv2d, "1x3x2x2, 3x1x2x2", {{0}, INTS(1, 1), {0}, {.given = true, .i = 3}}},
    {OP_max_pool, "2x5x4", {INTS(1, 2)}},
    {OP_max_pool, "2x5x4", {INTS(2, 3, 2), INTS(1, 2), INTS(1, 1), INTS(2, 1, 2), YES}},
    {OP_avg_pool, "2x5x4", {INTS(1, 2)}},
    {OP_avg_pool, "5x4", {INTS(2, 3, 2), INTS(1, 1), INTS(2, 1, 0), {.given = true}}},
    {OP_avg_pool_grad, "2x2x3", {INTS(2, 3, 2), [4] = {.given = true, .i = 1}, [5] = INTS(3, 2, 6, 6)}},
    {OP_slice_grad, "4x2", {INTS(2, 0, 1), INTS(2, 4, 3), INTS(2, 4, 5)}},
    {OP_replicate, "4x3", {{.given = true, .i = REPLICAS}}},
    {OP_replicate, "4x3", {{.given = true, .i = REPLICAS}, YES}},
    {OP_expose, "3x4", {{0}}},
    {OP_expose, "3x4", {YES}},
#define UNARY_OP(name, ...) {OP_##name, "4x3", {{0}}},
#define UNARY_OP_X(name, ...) UNARY_OP(name, )
#define UNARY_OP_Y(name, ...) UNARY_OP(name, )
#define BINARY_OP(name, ...) {OP_##name, "4x3, 4x3", {{0}}},
#include "ir/elementwise.def"
};
enum { NCASES = sizeof cases / sizeof *cases };

/* ---------------------------------------------------------------- the interpreter */

/* The element of t at an index of ndim dimensions, aligned at the right; size 1 stands for any. */
static double *aligned(const Tensor *t, const int64_t *index, int ndim) {
    int64_t i = 0;
    for (int d = 0; d < t->shape.ndim; d++)
        i = i * t->shape.dim[d] + (t->shape.dim[d] == 1 ? 0 : index[ndim - t->shape.ndim + d]);
    return &t->at[i];
}

static void run_einsum(const char *spec, const Tensor *in, Tensor *out) {
    int64_t size[26], value[26] = {0};
    const char *result = strchr(spec, '>') + 1, *second = strchr(spec, ',') + 1;
    for (int c = 0; c < 26; c++)
        size[c] = 1;
    for (int d = 0; d < in[0].shape.ndim; d++)
        size[spec[d] - 'a'] = in[0].shape.dim[d];
    for (int d = 0; d < in[1].shape.ndim; d++)
        size[second[d] - 'a'] = in[1].shape.dim[d];
    for (bool more = true; more;) {
        const Tensor *tensors[3] = {&in[0], &in[1], out};
        const char *terms[3] = {spec, second, result};
        int64_t at[3] = {0};
        for (int t = 0; t < 3; t++)
            for (int d = 0; d < tensors[t]->shape.ndim; d++)
                at[t] = at[t] * tensors[t]->shape.dim[d] + value[terms[t][d] - 'a'];
        out->at[at[2]] += in[0].at[at[0]] * in[1].at[at[1]];
        more = false;
        for (int c = 0; c < 26 && !more; c++) {
            more = ++value[c] < size[c];
            if (!more) value[c] = 0;
        }
    }
}

static void run_matmul(const Attr *attr, const Tensor *in, Tensor *out) {
    int ndim = out->shape.ndim, na = in[0].shape.ndim;
    int64_t ksize = in[0].shape.dim[na - (attr[0].i ? 2 : 1)];
    for (int64_t i = 0; i < count(&out->shape); i++)
        for (int64_t k = 0; k < ksize; k++) {
            int64_t index[MAX_NDIM], a[MAX_NDIM], b[MAX_NDIM];
            unravel(&out->shape, i, index);
            memcpy(a, index, sizeof a);
            memcpy(b, index, sizeof b);
            a[ndim - (attr[0].i ? 1 : 2)] = index[ndim - 2];
            a[ndim - (attr[0].i ? 2 : 1)] = k;
            b[ndim - (attr[1].i ? 1 : 2)] = k;
            b[ndim - (attr[1].i ? 2 : 1)] = index[ndim - 1];
            out->at[i] += *aligned(&in[0], a, ndim) * *aligned(&in[1], b, ndim);
        }
}

/* sum, mean and their gradients: `whole` is the tensor with all dimensions, `part` the reduced one. back: from part to whole. */
static void run_reduction(const Attr *axes, bool mean, bool back, const Tensor *whole, const Tensor *part) {
    bool reduced[MAX_NDIM];
    int ndim = whole->shape.ndim;
    for (int d = 0; d < ndim; d++)
        reduced[d] = !axes->given;
    for (int i = 0; i < axes->n; i++)
        reduced[axes->ints[i] < 0 ? axes->ints[i] + ndim : axes->ints[i]] = true;
    double n = (double)count(&whole->shape) / (double)count(&part->shape);
    for (int64_t i = 0; i < count(&whole->shape); i++) {
        int64_t index[MAX_NDIM], at = 0;
        unravel(&whole->shape, i, index);
        for (int d = 0; d < ndim; d++)
            if (!reduced[d]) at = at * whole->shape.dim[d] + index[d];
        if (back)
            whole->at[i] = part->at[at] / (mean ? n : 1);
        else
            part->at[at] += whole->at[i] / (mean ? n : 1);
    }
}

/* The largest element over the axes, sign -1: the smallest, of tensors as in run_reduction. */
static void run_max(int sign, const Attr *axes, const Tensor *x, Tensor *y) {
    bool reduced[MAX_NDIM];
    for (int d = 0; d < x->shape.ndim; d++)
        reduced[d] = !axes->given;
    for (int i = 0; i < axes->n; i++)
        reduced[axes->ints[i] < 0 ? axes->ints[i] + x->shape.ndim : axes->ints[i]] = true;
    for (int64_t i = 0; i < count(&y->shape); i++)
        y->at[i] = -sign * (double)INFINITY;
    for (int64_t i = 0; i < count(&x->shape); i++) {
        int64_t index[MAX_NDIM], at = 0;
        unravel(&x->shape, i, index);
        for (int d = 0; d < x->shape.ndim; d++)
            if (!reduced[d]) at = at * x->shape.dim[d] + index[d];
        if (sign * x->at[i] > sign * y->at[at]) y->at[at] = x->at[i];
    }
}

/* Copies between a tensor and the part of it that begins at `begin`. */
static void run_part(const Tensor *whole, const Tensor *part, const int64_t *begin, bool take) {
    for (int64_t i = 0; i < count(&part->shape); i++) {
        int64_t index[MAX_NDIM], at = 0;
        unravel(&part->shape, i, index);
        for (int d = 0; d < whole->shape.ndim; d++) {
            int64_t first = begin[d] < 0 ? begin[d] + whole->shape.dim[d] : begin[d];
            at = at * whole->shape.dim[d] + first + index[d];
        }
        if (take)
            part->at[i] = whole->at[at];
        else
            whole->at[at] = part->at[i];
    }
}

static int axis_of(const Attr *axis, int ndim, int otherwise) {
    int64_t i = axis->given ? axis->i : otherwise;
    return (int)(i < 0 ? i + ndim : i);
}

/* y of softmax of x; or, given dy, its gradient y (dy - sum of y dy). Of its logarithm: dy - exp(y) sum of dy. */
static void run_softmax(bool logarithm, const Attr *axis, const Tensor *x, const Tensor *dy, Tensor *out) {
    int along = axis_of(axis, x->shape.ndim, -1);
    for (int64_t i = 0; i < count(&x->shape); i++) {
        int64_t index[MAX_NDIM];
        double sum = 0;
        unravel(&x->shape, i, index);
        for (index[along] = 0; index[along] < x->shape.dim[along]; index[along]++) {
            double at = *aligned(x, index, x->shape.ndim);
            if (dy)
                sum += (logarithm ? 1 : at) * *aligned(dy, index, x->shape.ndim);
            else
                sum += exp(at);
        }
        if (logarithm)
            out->at[i] = dy ? dy->at[i] - exp(x->at[i]) * sum : x->at[i] - log(sum);
        else
            out->at[i] = dy ? x->at[i] * (dy->at[i] - sum) : exp(x->at[i]) / sum;
    }
}

/* Between rows and the element of each that its index names. */
static void run_pick(const Tensor *rows, const Tensor *index, const Tensor *picked, bool take) {
    int64_t length = rows->shape.dim[rows->shape.ndim - 1];
    for (int64_t i = 0; i < count(&picked->shape); i++) {
        int64_t at = (int64_t)index->at[i];
        if (at < 0 || at >= length) continue;
        if (take)
            picked->at[i] = rows->at[i * length + at];
        else
            rows->at[i * length + at] = picked->at[i];
    }
}

/* Between a tensor and the elements along its axis that indices name; an index may lack the last dimensions. */
static void run_gather(int axis, const Tensor *wide, const Tensor *index, const Tensor *narrow, bool take) {
    int64_t at[MAX_NDIM] = {0};
    for (int64_t i = 0; i < count(&narrow->shape); i++) {
        unravel(&narrow->shape, i, at);
        const int64_t place = (int64_t)*aligned(index, at, index->shape.ndim);
        if (place < 0 || place >= wide->shape.dim[axis]) continue;
        at[axis] = place;
        double *there = aligned(wide, at, wide->shape.ndim);
        if (take)
            narrow->at[i] = *there;
        else
            *there += narrow->at[i];
    }
}

static void run_cumsum(const Attr *attr, const Tensor *x, Tensor *y) {
    const int axis = axis_of(&attr[0], x->shape.ndim, -1);
    for (int64_t i = 0; i < count(&x->shape); i++) {
        int64_t at[MAX_NDIM] = {0};
        unravel(&x->shape, i, at);
        const double own = x->at[i];
        for (int64_t k = 0, place = at[axis]; k < x->shape.dim[axis]; k++) {
            at[axis] = k;
            if ((attr[1].i ? k < place : k > place) || (k == place && !attr[2].i)) *aligned(y, at, x->shape.ndim) += own;
        }
    }
}

/* Result 0: the largest of each row, in order; 1: their places. */
static void run_topk(const Tensor *x, int result, Tensor *out) {
    const int64_t length = x->shape.dim[x->shape.ndim - 1], k = out->shape.dim[x->shape.ndim - 1];
    for (int64_t i = 0; i < count(&x->shape); i++) {
        int64_t before = 0;
        for (int64_t j = i - i % length; j < i - i % length + length; j++)
            before += x->at[j] > x->at[i] || (x->at[j] == x->at[i] && j < i);
        if (before < k) out->at[i / length * k + before] = result == 0 ? x->at[i] : (double)(i % length);
    }
}

/* Result `result` of one operator on tensors without the hidden dimension; out is zero. */
static void run_slice(OpCode op, const Attr *attr, const Tensor *in, int nin, int result, Tensor *out) {
    int64_t n = count(&out->shape), index[MAX_NDIM], begin[MAX_NDIM] = {0};
    if (op == OP_max || op == OP_min)
        run_max(op == OP_max ? 1 : -1, &attr[0], &in[0], out);
    else if (op == OP_log_softmax || op == OP_log_softmax_grad)
        run_softmax(true, &attr[0], &in[0], op == OP_log_softmax ? NULL : &in[1], out);
    else if (op == OP_softmax || op == OP_softmax_grad)
        run_softmax(false, &attr[0], &in[0], op == OP_softmax ? NULL : &in[1], out);
    else if (op == OP_layer_norm || op == OP_rms_norm || op == OP_layer_norm_grad || op == OP_rms_norm_grad) {
        const bool gradient = op == OP_layer_norm_grad || op == OP_rms_norm_grad;
        run_norm(op == OP_layer_norm || op == OP_layer_norm_grad, gradient, attr[0].f,
                 (const double *const[]){in[0].at, in[1].at, in[2].at, in[3].at, in[4].at}, count(&in[0].shape),
                 count(&in[gradient ? 2 : 1].shape), result, out->at);
    } else if (op == OP_batch_norm || op == OP_batch_norm_grad)
        run_batch_norm(op == OP_batch_norm_grad, attr[0].f, (const double *const[]){in[0].at, in[1].at, in[2].at, in[3].at, in[4].at},
                       count(&in[0].shape), in[0].shape.dim[1], count(&in[0].shape) / in[0].shape.dim[0] / in[0].shape.dim[1], result,
                       out->at);
    else if (op == OP_rope)
        run_rope(attr, in[0].at, &in[0].shape, out->at);
    else if (op == OP_dot_product_attention || op == OP_attention_grad) {
        const int keys = op == OP_dot_product_attention ? 1 : 2, mask = op == OP_dot_product_attention ? 3 : 7;
        PlainAttention plain = plain_attention_of(attr, &in[0].shape, &in[keys].shape, &in[keys + 1].shape);
        plain.q = in[0].at, plain.k = in[keys].at, plain.v = in[keys + 1].at;
        if (nin > mask) plain.mask = in[mask].at, plain.mask_shape = in[mask].shape;
        if (op == OP_dot_product_attention)
            run_attention(&plain, result, out->at);
        else
            run_attention_grad(&plain, in[1].at, in[4].at, result, out->at);
    } else if (op == OP_conv2d || op == OP_conv2d_grad_x || op == OP_conv2d_grad_w)
        run_convolution(attr, op == OP_conv2d_grad_x ? out : &in[0], op == OP_conv2d_grad_w ? out : &in[1],
                        op == OP_conv2d ? out : &in[op == OP_conv2d_grad_x ? 0 : 1],
                        op == OP_conv2d_grad_x   ? 0
                        : op == OP_conv2d_grad_w ? 1
                                                 : 2);
    else if (op == OP_max_pool || op == OP_avg_pool)
        run_pool(attr, op == OP_max_pool, &in[0], &in[0], out, false);
    else if (op == OP_max_pool_grad || op == OP_avg_pool_grad)
        run_pool(attr, op == OP_max_pool_grad, op == OP_max_pool_grad ? &in[0] : out, out, &in[op == OP_max_pool_grad ? 1 : 0], true);
    else if (op == OP_slice || op == OP_slice_grad)
        run_part(op == OP_slice ? &in[0] : out, op == OP_slice ? out : &in[0], attr[0].ints, op == OP_slice);
    else if (op == OP_split) {
        int axis = axis_of(&attr[1], out->shape.ndim, 0);
        begin[axis] = result * out->shape.dim[axis];
        run_part(&in[0], out, begin, true);
    } else if (op == OP_concat)
        for (int i = 0, axis = axis_of(&attr[0], out->shape.ndim, 0); i < nin; begin[axis] += in[i++].shape.dim[axis])
            run_part(out, &in[i], begin, false);
    else if (op == OP_pick || op == OP_pick_grad)
        run_pick(op == OP_pick ? &in[0] : out, &in[1], op == OP_pick ? out : &in[0], op == OP_pick);
    else if (op == OP_cross_entropy_rows)
        run_loss(attr[0].f, in[0].at, in[1].at, in[0].shape.dim[in[0].shape.ndim - 1], count(&in[1].shape), result, out->at);
    else if (op == OP_cross_entropy_rows_grad)
        run_loss_grad(attr[0].f, (const double *const[]){in[0].at, in[1].at, in[2].at, in[3].at, in[4].at},
                      in[0].shape.dim[in[0].shape.ndim - 1], count(&in[1].shape), out->at);
    else if (op == OP_gather || op == OP_gather_grad)
        run_gather(axis_of(&attr[op == OP_gather_grad], in[0].shape.ndim, -1), op == OP_gather ? &in[0] : out, &in[1],
                   op == OP_gather ? out : &in[0], op == OP_gather);
    else if (op == OP_cumsum)
        run_cumsum(attr, &in[0], out);
    else if (op == OP_topk)
        run_topk(&in[0], result, out);
    else if (op == OP_embedding || op == OP_embedding_grad) {
        const Tensor *table = op == OP_embedding ? &in[0] : out, *rows = op == OP_embedding ? out : &in[0];
        for (int64_t i = 0, width = table->shape.dim[1]; i < count(&rows->shape); i++) {
            int64_t row = (int64_t)in[1].at[i / width];
            if (row < 0 || row >= table->shape.dim[0]) continue;
            if (op == OP_embedding)
                out->at[i] = table->at[row * width + i % width];
            else
                out->at[row * width + i % width] += rows->at[i];
        }
    } else if (op == OP_where)
        for (int64_t i = 0; i < n; i++) {
            unravel(&out->shape, i, index);
            out->at[i] = *aligned(&in[*aligned(&in[0], index, out->shape.ndim) != 0 ? 1 : 2], index, out->shape.ndim);
        }
    else if (op == OP_matmul)
        run_matmul(attr, in, out);
    else if (op == OP_einsum)
        run_einsum(attr[0].text, in, out);
    else if (op == OP_sum || op == OP_mean)
        run_reduction(&attr[0], op == OP_mean, false, &in[0], out);
    else if (op == OP_sum_grad || op == OP_mean_grad)
        run_reduction(&attr[0], op == OP_mean_grad, true, out, &in[0]);
    else if (op == OP_sum_to)
        for (int64_t i = 0; i < count(&in[0].shape); i++) {
            unravel(&in[0].shape, i, index);
            *aligned(out, index, in[0].shape.ndim) += in[0].at[i];
        }
    else if (op == OP_reshape)
        memcpy(out->at, in[0].at, sizeof *out->at * (size_t)n);
    else if (op == OP_transpose)
        for (int64_t i = 0; i < n; i++) {
            int64_t from[MAX_NDIM], ndim = out->shape.ndim;
            unravel(&out->shape, i, index);
            for (int d = 0; d < ndim; d++)
                from[attr[0].given ? (attr[0].ints[d] + ndim) % ndim : ndim - 1 - d] = index[d];
            out->at[i] = *aligned(&in[0], from, (int)ndim);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            unravel(&out->shape, i, index);
            double a = *aligned(&in[0], index, out->shape.ndim);
            out->at[i] = binary(op, attr, a, op_nin(op) > 1 ? *aligned(&in[1], index, out->shape.ndim) : 0);
        }
}

static Tensor slice_of(const Graph *graph, int value, double *const *data, int replica) {
    const TensorType *type = &graph->values.at[value].type;
    Tensor t = {.shape.ndim = type->shape.ndim - type->hidden};
    memcpy(t.shape.dim, type->shape.dim + type->hidden, sizeof *t.shape.dim * (size_t)t.shape.ndim);
    t.at = data[value] + replica * (type->hidden ? count(&t.shape) : 0);
    return t;
}

/* Computes every value that is not a leaf. */
static void run_graph(const Graph *graph, double *const *data) {
    for (int id = 0; id < graph->nodes.n; id++) {
        const Node *node = &graph->nodes.at[id];
        for (int64_t i = 0; node->op == OP_constant && i < count(&graph->values.at[node->out[0]].type.shape); i++)
            data[node->out[0]][i] = node->data ? node->data[i] : node->attr[0].f;
        if (node->nin == 0) continue;
        if (node->op == OP_expose)
            memcpy(data[node->out[0]], data[node->in[0]], sizeof(double) * (size_t)count(&graph->values.at[node->in[0]].type.shape));
        if (node->op == OP_expose) continue;
        const TensorType *out = &graph->values.at[node->out[0]].type, *in = &graph->values.at[node->in[0]].type;
        bool crosses = node->op == OP_replicate || node->op == OP_replica_sum;
        for (int o = 0; o < node->nout; o++) {
            memset(data[node->out[o]], 0, sizeof(double) * (size_t)count(&graph->values.at[node->out[o]].type.shape));
            for (int r = 0; r < (out->hidden || in->hidden ? REPLICAS : 1); r++) {
                Tensor x[MAX_IN], y = slice_of(graph, node->out[o], data, r);
                for (int i = 0; i < node->nin; i++)
                    x[i] = slice_of(graph, node->in[i], data, r);
                double scale = node->op == OP_replica_sum && node->attr[0].i ? 1.0 / REPLICAS : 1;
                for (int64_t i = 0; crosses && i < count(&y.shape); i++)
                    y.at[i] += x[0].at[i] * scale;
                if (!crosses) run_slice(node->op, node->attr, x, node->nin, o, &y);
            }
        }
    }
}

/* ---------------------------------------------------------------- the check */

static TensorType type_parse(const char **at, bool hidden) {
    TensorType type = {.dtype = F64, .hidden = hidden};
    if (hidden) type.shape.dim[type.shape.ndim++] = REPLICAS;
    while (**at && **at != ',') {
        type.shape.dim[type.shape.ndim++] = strtoll(*at, (char **)at, 10);
        *at += **at == 'x';
    }
    *at += strspn(*at, ", ");
    return type;
}

static void fill(double *data, int64_t n, bool positive, uint64_t *seed) {
    for (int64_t i = 0; i < n; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        double u = 0.5 + (double)(*seed >> 40) / (double)(1 << 24);
        data[i] = !positive && (*seed >> 20 & 1) ? -u : u;
    }
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double loss_of(const Graph *graph, double *const *data, const int *y, const int *dy, int nout) {
    double loss = 0;
    for (int o = 0; o < nout; o++)
        if (dy[o] >= 0) loss += dot(data[y[o]], data[dy[o]], count(&graph->values.at[y[o]].type.shape));
    return loss;
}

static void check_gradient(const Case *c, bool hidden) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    graph_init(&graph, &arena);
    graph.nranks = 1;
    Span span = {0};
    int x[MAX_IN], nin = 0;
    const char *shapes = c->shapes;
    while (*shapes) {
        Input input = {.name = nin ? "b" : "a", .type = type_parse(&shapes, hidden)};
        int i = nin++;
        if (op_type(c->op, false, i) == 'i') input.type.dtype = I32;
        if (op_type(c->op, false, i) == 'b') input.type.dtype = BOOL;
        x[i] = graph_input(&graph, graph_add_input(&graph, input));
    }
    const Attr *attr = c->attr;
    RuleError error;
    int node = graph_add(&graph, c->op, x, nin, attr, "y", span, &error);
    cr_assert(node >= 0, "%s", error.text);
    /* Of three results or more nobody uses the second; those that are kept for the gradient have none. */
    int y[MAX_OUT], dy[MAX_OUT], nout = graph.nodes.at[node].nout;
    for (int o = 0; o < nout; o++) {
        y[o] = graph.nodes.at[node].out[o];
        Input given = {.name = "dy", .type = graph.values.at[y[o]].type};
        dy[o] = (o == 1 && nout > 2) || o >= op_named(c->op, nout) ? -1 : graph_input(&graph, graph_add_input(&graph, given));
    }
    int first = graph.nodes.n, dx[MAX_IN];
    for (int i = 0; i < MAX_IN; i++)
        dx[i] = -1;
    op_table[c->op].adjoint(&graph, node, dy, dx);

    Error verify_error = {0};
    cr_assert(graph_verify(&graph, "adjoint", &verify_error), "%s %s: %s", op_table[c->op].name, c->shapes, verify_error.text);
    for (int id = first; id < graph.nodes.n; id++) {
        const Node *n = &graph.nodes.at[id], *forward = &graph.nodes.at[node];
        if (n->op == OP_constant) continue;
        cr_assert_eq(n->origin, node);
        for (int f = 0; f < n->rule->nfactors; f++) {
            int o = n->origin_factor[f];
            if (o < 0 && (n->rule->factor[f].size == 1 || n->rule->factor[f].whole)) continue; /* kept by keep_dims; nobody can split it */
            cr_assert(o >= 0, "%s %s: factor %d of %s has no origin", op_table[c->op].name, c->shapes, f, op_table[n->op].name);
            cr_assert(c->op == OP_concat || c->op == OP_split || n->rule->factor[f].size == forward->rule->factor[o].size);
        }
    }

    double *data[MAX_VALUES];
    uint64_t seed = 1;
    cr_assert_lt(graph.values.n, MAX_VALUES);
    for (int v = 0; v < graph.values.n; v++) {
        int64_t n = count(&graph.values.at[v].type.shape);
        data[v] = arena_alloc(&arena, sizeof(double) * (size_t)n);
        if (!dtype_is_float(graph.values.at[v].type.dtype)) { /* indices: one in four means nothing */
            for (int64_t k = 0; k < n; k++)
                data[v][k] =
                    (double)((k * 7 + 2) % (graph.values.at[v].type.dtype == BOOL ? 2 : graph.nodes.at[node].rule->index_range + 1));
        } else if (graph.nodes.at[graph.values.at[v].node].op != OP_constant)
            fill(data[v], n, op_table[c->op].domain == DOMAIN_POSITIVE, &seed);
    }
    for (int i = 0; i < nin; i++) {
        if (!dtype_is_float(graph.values.at[x[i]].type.dtype)) {
            cr_assert_eq(dx[i], -1);
            continue;
        }
        run_graph(&graph, data);
        cr_assert(type_equal(&graph.values.at[dx[i]].type, &graph.values.at[x[i]].type));
        int64_t n = count(&graph.values.at[x[i]].type.shape);
        double *got = arena_alloc(&arena, sizeof(double) * (size_t)n);
        memcpy(got, data[dx[i]], sizeof(double) * (size_t)n);
        for (int64_t k = 0; k < n; k++) {
            const double h = 1e-5, saved = data[x[i]][k];
            data[x[i]][k] = saved + h;
            run_graph(&graph, data);
            double high = loss_of(&graph, data, y, dy, nout);
            data[x[i]][k] = saved - h;
            run_graph(&graph, data);
            double want = (high - loss_of(&graph, data, y, dy, nout)) / (2 * h);
            data[x[i]][k] = saved;
            if (c->op == OP_replicate && c->attr[1].i) want /= REPLICAS; /* "mean" is of the gradient only: the value itself is copied */
            cr_assert_float_eq(got[k], want, 1e-6 * (1 + fabs(want)), "%s %s%s: operand %d element %d: %.9g, not %.9g",
                               op_table[c->op].name, c->shapes, hidden ? " hidden" : "", i, (int)k, got[k], want);
        }
    }
    arena_finish(&arena);
}

Test(adjoint, gradients_are_those_of_central_differences) {
    for (int i = 0; i < NCASES; i++)
        if (op_table[cases[i].op].adjoint && (cases[i].op != OP_expose || cases[i].attr[0].i)) check_gradient(&cases[i], false);
}

Test(adjoint, gradients_with_a_hidden_dimension_are_slice_by_slice) {
    for (int i = 0; i < NCASES; i++)
        if (op_table[cases[i].op].adjoint && (!op_table[cases[i].op].boundary || (cases[i].op == OP_expose && !cases[i].attr[0].i)))
            check_gradient(&cases[i], true);
}

Test(adjoint, every_operator_with_an_adjoint_is_checked) {
    for (int op = 0; op < NOPS; op++) {
        bool checked = op_table[op].adjoint == NULL;
        for (int i = 0; i < NCASES; i++)
            checked = checked || cases[i].op == (OpCode)op;
        cr_assert(checked, "%s", op_table[op].name);
    }
}

Test(adjoint, the_users_differentiable_operators_have_an_adjoint_or_an_expansion) {
    static const OpCode without[] = {OP_stop_gradient, OP_less,  OP_less_equal, OP_greater, OP_greater_equal, OP_equal,
                                     OP_not_equal,     OP_first, OP_one_hot,    OP_floor,   OP_sign};
    for (int op = 0; op < NOPS; op++) {
        bool differentiable = op_table[op].op_class == OP_CLASS_USER;
        for (size_t i = 0; i < sizeof without / sizeof *without; i++)
            differentiable = differentiable && without[i] != (OpCode)op;
        if (differentiable) cr_assert(op_table[op].adjoint || op_table[op].expand, "%s", op_table[op].name);
    }
}

Test(adjoint, elements_that_tie_for_the_maximum_share_its_gradient_equally) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    graph_init(&graph, &arena);
    graph.nranks = 1;
    Input input = {.name = "x", .type = {.dtype = F64, .shape = {2, {2, 3}}}};
    Attr attr[MAX_ATTRS] = {INTS(1, 1)};
    int x = graph_input(&graph, graph_add_input(&graph, input)), dx[MAX_IN];
    int y = graph_emit(&graph, OP_max, &x, 1, attr, "y", (Span){0}),
        dy = graph_constant(&graph, graph.values.at[y].type, NULL, 1, "dy", (Span){0});
    adjoint_max(&graph, graph.values.at[y].node, &dy, dx);
    double *data[MAX_VALUES];
    for (int v = 0; v < graph.values.n; v++)
        data[v] = arena_alloc(&arena, sizeof(double) * (size_t)count(&graph.values.at[v].type.shape));
    memcpy(data[x], (double[]){1, 3, 3, 2, 2, 2}, 6 * sizeof(double));
    graph.nodes.at[graph.values.at[dy].node].data = (double[]){10, 30};
    run_graph(&graph, data);
    const double expected[] = {0, 5, 5, 10, 10, 10};
    cr_assert_arr_eq(data[dx[0]], expected, sizeof expected);
    arena_finish(&arena);
}

/* At kinks: as PyTorch has it. Elements of operand a, of b where there is one, of dy; what is expected of a's gradient. */
Test(adjoint, gradients_at_kinks_are_those_of_pytorch) {
    static const struct {
        OpCode op;
        double x[6], b[6], expected[6];
    } kinks[] = {
        {OP_abs, {-2, 0, 3, -0.0, 1, -1}, {0}, {-10, 0, 30, 0, 50, -60}},
        {OP_clamp, {-1, 2, -1.5, 2.5, 0, 1}, {0}, {10, 20, 0, 0, 50, 60}}, /* from -1 to 2, both included */
        {OP_maximum, {1, 2, 3, 3, 0, -1}, {1, 3, 2, 3, 0, -2}, {5, 0, 30, 20, 25, 60}},
        {OP_minimum, {1, 2, 3, 3, 0, -1}, {1, 3, 2, 3, 0, -2}, {5, 20, 0, 20, 25, 0}},
    };
    for (size_t k = 0; k < sizeof kinks / sizeof *kinks; k++) {
        const OpCode op = kinks[k].op;
        Arena arena;
        Graph graph;
        arena_init(&arena);
        graph_init(&graph, &arena);
        graph.nranks = 1;
        const TensorType type = {.dtype = F64, .shape = {1, {6}}};
        Attr bounds[MAX_ATTRS] = {{.given = true, .f = -1}, {.given = true, .f = 2}};
        int in[2] = {graph_constant(&graph, type, kinks[k].x, 0, "a", (Span){0}),
                     graph_constant(&graph, type, kinks[k].b, 0, "b", (Span){0})},
            dx[MAX_IN];
        int y = graph_emit(&graph, op, in, op_nin(op), op == OP_clamp ? bounds : NULL, "y", (Span){0});
        int dy = graph_constant(&graph, type, (const double[]){10, 20, 30, 40, 50, 60}, 0, "dy", (Span){0});
        op_table[op].adjoint(&graph, graph.values.at[y].node, &dy, dx);
        double *data[MAX_VALUES];
        for (int v = 0; v < graph.values.n; v++)
            data[v] = arena_alloc(&arena, sizeof(double) * 6);
        memcpy(data[in[0]], kinks[k].x, sizeof kinks[k].x);
        memcpy(data[in[1]], kinks[k].b, sizeof kinks[k].b);
        memcpy(data[dy], (const double[]){10, 20, 30, 40, 50, 60}, sizeof kinks[k].x);
        run_graph(&graph, data);
        for (int i = 0; i < 6; i++)
            cr_assert_eq(data[dx[0]][i], kinks[k].expected[i], "%s of %g: %g", op_table[op].name, kinks[k].x[i], data[dx[0]][i]);
        arena_finish(&arena);
    }
}

Test(adjoint, a_square_is_multiplied_once) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    graph_init(&graph, &arena);
    Input input = {.name = "x", .type = {.dtype = F32, .shape = {1, {4}}}};
    int x = graph_input(&graph, graph_add_input(&graph, input)), dx[MAX_IN], n;
    int y = graph_emit(&graph, OP_mul, (int[]){x, x}, 2, NULL, "y", (Span){0});
    n = graph.nodes.n;
    op_table[OP_mul].adjoint(&graph, graph.values.at[y].node, &y, dx);
    cr_assert_eq(graph.nodes.n, n + 1);
    cr_assert_eq(dx[0], dx[1]);
    arena_finish(&arena);
}

/* [4, 2] -> [8] splits into at most 4, [8] into up to 8: the sum of u's gradients is split as the reshape that made u. */
Test(adjoint, gradients_of_a_reshaped_value_are_added_as_it_is_split) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    graph_init(&graph, &arena);
    Input input = {.name = "x", .type = {.dtype = F32, .shape = {2, {4, 2}}}};
    int x = graph_input(&graph, graph_add_input(&graph, input));
    Attr attr[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {8}}};
    int u = graph_emit(&graph, OP_reshape, &x, 1, attr, "u", (Span){0}), reshape = graph.values.at[u].node;
    int sum = graph_emit_gradient(&graph, reshape, OP_add, (int[]){u, u}, (int[]){PART_OUT, PART_OUT}, 2, PART_OUT, NULL, "sum");
    const Node *node = &graph.nodes.at[graph.values.at[sum].node];
    cr_assert_eq(graph.nodes.at[reshape].rule->factor[0].size, 4);
    cr_assert_eq(node->rule->factor[0].size, 8);
    cr_assert_eq(node->origin_factor[0], 0);
    Error error;
    cr_assert(graph_verify(&graph, "adjoint", &error), "%s", error.text);
    arena_finish(&arena);
}

Test(adjoint, product_gradients_keep_operands_on_their_side) {
    Arena arena;
    arena_init(&arena);
    Graph graph;
    graph_init(&graph, &arena);
    Input a = {.name = "a", .type = {.dtype = F32, .shape = {2, {8, 6}}}}, b = {.name = "b", .type = {.dtype = F32, .shape = {2, {6, 4}}}};
    int in[2] = {graph_input(&graph, graph_add_input(&graph, a)), graph_input(&graph, graph_add_input(&graph, b))}, dx[MAX_IN];
    int y = graph_emit(&graph, OP_matmul, in, 2, NULL, "y", (Span){0});
    op_table[OP_matmul].adjoint(&graph, graph.values.at[y].node, &y, dx);
    const Node *da = &graph.nodes.at[graph.values.at[dx[0]].node], *db = &graph.nodes.at[graph.values.at[dx[1]].node];
    cr_assert_str_eq(da->attr[0].text, "ac,bc->ab"); /* dy b^T */
    cr_assert(da->in[0] == y && da->in[1] == in[1]);
    cr_assert_str_eq(db->attr[0].text, "ab,ac->bc"); /* a^T dy */
    cr_assert(db->in[0] == in[0] && db->in[1] == y);
    cr_assert_str_eq(graph.values.at[dx[1]].name, "b.grad");
    arena_finish(&arena);
}

/* Against the formula in f64: rows whose exponentials overflow, a label that names no class. */
Test(adjoint, cross_entropy_expands_to_the_logarithm_of_softmax_at_the_label) {
    static const char *const reductions[] = {NULL, "mean", "sum", "none"};
    for (int r = 0; r < 4; r++) {
        Arena arena;
        Graph graph;
        arena_init(&arena);
        graph_init(&graph, &arena);
        graph.nranks = 1;
        Input logits = {.name = "x", .type = {.dtype = F64, .shape = {2, {3, 4}}}},
              label = {.name = "label", .type = {.dtype = I32, .shape = {1, {3}}}};
        int in[2] = {graph_input(&graph, graph_add_input(&graph, logits)), graph_input(&graph, graph_add_input(&graph, label))};
        Attr attr[MAX_ATTRS] = {{.given = reductions[r] != NULL, .text = reductions[r]}};
        int loss = graph_emit(&graph, OP_cross_entropy, in, 2, attr, "loss", (Span){0});
        Node composite = graph.nodes.at[graph.values.at[loss].node];
        int value;
        op_table[OP_cross_entropy].expand(&graph, &composite, &value);
        cr_assert(type_equal(&graph.values.at[value].type, &graph.values.at[loss].type));
        double *data[MAX_VALUES];
        for (int v = 0; v < graph.values.n; v++)
            data[v] = arena_alloc(&arena, sizeof(double) * (size_t)count(&graph.values.at[v].type.shape));
        memcpy(data[in[0]], (double[]){1, 2, 3, 4, 900, 1000, 998, -7, 0.5, 0.25, -0.5, 1}, 12 * sizeof(double));
        memcpy(data[in[1]], (double[]){0, 2, 3}, 3 * sizeof(double));
        graph.nodes.at[graph.values.at[loss].node].nin = 0; /* the composite itself is not run */
        run_graph(&graph, data);
        const double expected[3] = {log(exp(1) + exp(2) + exp(3) + exp(4)) - 1, 2 + log1p(exp(-2)),
                                    log(exp(0.5) + exp(0.25) + exp(-0.5) + exp(1)) - 1};
        double sum = expected[0] + expected[1] + expected[2];
        for (int i = 0; r == 3 && i < 3; i++)
            cr_assert_float_eq(data[value][i], expected[i], 1e-12);
        if (r < 3) cr_assert_float_eq(data[value][0], r == 2 ? sum : sum / 3, 1e-12);
        arena_finish(&arena);
    }
}

Test(adjoint, mse_expands_to_the_mean_or_sum_of_squares) {
    for (int sum = 0; sum < 2; sum++) {
        Arena arena;
        arena_init(&arena);
        Graph graph;
        graph_init(&graph, &arena);
        Input input = {.name = "x", .type = {.dtype = F64, .shape = {2, {2, 2}}}};
        int in[2] = {graph_input(&graph, graph_add_input(&graph, input)), graph_input(&graph, graph_add_input(&graph, input))};
        Attr attr[MAX_ATTRS] = {{.given = true, .text = sum ? "sum" : "mean"}};
        int loss = graph_emit(&graph, OP_mse, in, 2, attr, "loss", (Span){0});
        Node composite = graph.nodes.at[graph.values.at[loss].node];
        int value;
        op_table[OP_mse].expand(&graph, &composite, &value);
        cr_assert_eq(graph.nodes.at[graph.values.at[value].node].op, sum ? OP_sum : OP_mean);
        cr_assert(type_equal(&graph.values.at[value].type, &graph.values.at[loss].type));

        /* (1-0)^2 + (2-0)^2 + (3-1)^2 + (4-1)^2 = 18 */
        double x[] = {1, 2, 3, 4}, target[] = {0, 0, 1, 1}, unused, diff[4], square[4], result;
        double *data[] = {x, target, &unused, diff, square, &result};
        for (int id = 3; id < graph.nodes.n; id++) {
            const Node *node = &graph.nodes.at[id];
            Tensor out = slice_of(&graph, node->out[0], data, 0), operands[MAX_IN];
            memset(out.at, 0, sizeof(double) * (size_t)count(&out.shape));
            for (int i = 0; i < node->nin; i++)
                operands[i] = slice_of(&graph, node->in[i], data, 0);
            run_slice(node->op, node->attr, operands, node->nin, 0, &out);
        }
        cr_assert_float_eq(result, sum ? 18 : 4.5, 1e-12);
        arena_finish(&arena);
    }
}
