/* semantics: what each operator computes, over the field. Written from the operators' definitions.
 *
 * Linear and multilinear operators are computed as defined. relu, tanh, exp, log, sqrt, sigmoid, gelu, silu, rsqrt, softplus, sin, cos and clamp of reals are keyed hashes of their
 * argument: only a plan that computes them on the right operand keeps their results. softmax and log_softmax use these hashes of exp and log, so that they equal the operators into
 * which a compiler may expand them. Gradient kernels that are rational functions of their operands (tanh_grad is dy (1 - y^2), softmax_grad is y (dy - sum of y dy)) are computed
 * as defined. relu_grad, gelu_grad, silu_grad and clamp_grad are not rational: they multiply dy by a hash of the other operand; likewise log_softmax_grad has a hash for exp(y).
 * Operators that look elements up are in lookup.c, those that cut and join in cut.c, updates in updates.c. */
#include <stdlib.h>
#include <string.h>

#include "proof/contraction.h"
#include "proof/cut.h"
#include "proof/walk.h"
#include "proof/windows.h"

/* What a row's loop needs beside the elements. */
typedef struct Numbers {
    Fe a, b;
    int64_t length, stride; /* along an axis */
    int64_t low, high;      /* of integers */
} Numbers;

/* ---------------------------------------------------------------- elementwise */

#define UNARY(name, expression)                                                                                                            \
    static void name##_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {                                         \
        Fe *out = at[0];                                                                                                                   \
        const Fe *in = at[1];                                                                                                              \
        (void)context;                                                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            Fe x = in[i * stride[1]];                                                                                                      \
            out[i * stride[0]] = expression;                                                                                               \
        }                                                                                                                                  \
    }
UNARY(neg, fe_sub(0, x))
UNARY(square, fe_mul(x, x))
UNARY(abs, fe_signed(x) < 0 ? fe_sub(0, x) : x)
UNARY(to_bool, x != 0)
UNARY(to_integer, fe_hash(OP_cast, x) % 256)
UNARY(gelu, fe_hash(OP_gelu, x))
UNARY(gelu_tanh, fe_hash(NOPS + OP_gelu, x))
UNARY(clamp, fe_hash(((const Numbers *)context)->a, x))
UNARY(scale, fe_mul(((const Numbers *)context)->a, x))

#define BINARY(name, expression)                                                                                                           \
    static void name##_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {                                         \
        Fe *out = at[0];                                                                                                                   \
        const Fe *a = at[1], *b = at[2];                                                                                                   \
        (void)context;                                                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            Fe x = a[i * stride[1]], y = b[i * stride[2]];                                                                                 \
            out[i * stride[0]] = expression;                                                                                               \
        }                                                                                                                                  \
    }
BINARY(add, fe_add(x, y))
BINARY(sub, fe_sub(x, y))
BINARY(mul, fe_mul(x, y))
BINARY(tanh_grad, fe_mul(fe_sub(1, fe_mul(x, x)), y))
BINARY(sigmoid_grad, fe_mul(fe_mul(x, fe_sub(1, x)), y))
BINARY(square_grad, fe_mul(fe_add(x, x), y))
BINARY(gelu_grad, fe_mul(fe_hash(OP_gelu_grad, x), y))
BINARY(gelu_tanh_grad, fe_mul(fe_hash(NOPS + OP_gelu_grad, x), y))
/* -dy y^3 / 2 */
BINARY(rsqrt_grad, fe_mul(fe_mul(((const Numbers *)context)->a, y), fe_mul(fe_mul(x, x), x)))
BINARY(max_mask, x == y)
BINARY(clamp_grad, fe_mul(fe_hash(((const Numbers *)context)->a, x), y))
/* Elements are ordered by their representatives. */
BINARY(abs_grad, x == 0 ? 0 : fe_signed(x) < 0 ? fe_sub(0, y) : y)
BINARY(maximum, fe_signed(x) < fe_signed(y) ? y : x)
BINARY(minimum, fe_signed(x) < fe_signed(y) ? x : y)
BINARY(max_share, x == y ? ((const Numbers *)context)->a : fe_signed(x) > fe_signed(y))
BINARY(less, fe_signed(x) < fe_signed(y))
BINARY(less_equal, fe_signed(x) <= fe_signed(y))
BINARY(greater, fe_signed(x) > fe_signed(y))
BINARY(greater_equal, fe_signed(x) >= fe_signed(y))
BINARY(equal, x == y)
BINARY(not_equal, x != y)

static void where_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = at[1][i * stride[1]] ? at[2][i * stride[2]] : at[3][i * stride[3]];
}

/* The other operand divided by (factor times operand `by`); all inverses are computed at once. */
static bool quotient(const Node *node, const FieldTensor *in, FieldTensor *out, int by, Fe factor, char *why, size_t n) {
    FieldTensor operands[2] = {in[1 - by], in[by]};
    int64_t elements = field_elements(&in[by]);
    Fe *inverse = malloc(sizeof *inverse * (size_t)(elements + 1));
    if (!inverse) return field_fail(why, n, "out of memory");
    for (int64_t i = 0; i < elements; i++)
        inverse[i] = fe_mul(in[by].at[i], factor);
    fe_inverse_all(inverse, elements);
    operands[1].at = inverse;
    bool ok = walk_elements(node, operands, out, mul_row, NULL, why, n);
    free(inverse);
    return ok;
}

static bool kernel_div(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return quotient(node, in, out, 1, 1, why, n);
}

/* dy / (2 y) */
static bool kernel_sqrt_grad(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return quotient(node, in, out, 0, 2, why, n);
}

static bool kernel_gelu(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool tanh = node->attr[op_attr(node->op, "tanh")].i != 0;
    WalkRow *row = node->op == OP_gelu ? (tanh ? gelu_tanh_row : gelu_row) : (tanh ? gelu_tanh_grad_row : gelu_grad_row);
    return walk_elements(node, in, out, row, NULL, why, n);
}

/* Each pair of bounds gives another function. A missing bound differs from all given ones. */
static Fe clamp_key(const Node *node) {
    Fe key = node->op;
    for (int i = 0; i < 2; i++) {
        Fe bound = 0;
        if (node->attr[i].given) fe_double(node->attr[i].f, &bound);
        key = fe_hash(key, fe_add(bound, node->attr[i].given ? 0 : FIELD_P / 3));
    }
    return key;
}

/* A bound as an integer of the field's order; a bound beyond the field's integers is beyond all numbers. */
static int64_t clamp_bound(const Attr *attr, int64_t otherwise) {
    const double most = (double)(FIELD_P / 2);
    if (!attr->given) return otherwise;
    return attr->f > most ? (int64_t)(FIELD_P / 2) : attr->f < -most ? -(int64_t)(FIELD_P / 2) : (int64_t)attr->f;
}

static void clamp_integer_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Numbers *numbers = context;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = fe_signed(at[1][i * stride[1]]);
        at[0][i * stride[0]] = fe_integer(x < numbers->low ? numbers->low : x > numbers->high ? numbers->high : x);
    }
}

static bool kernel_clamp(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const int64_t most = (int64_t)(FIELD_P / 2);
    const Numbers numbers = {.a = clamp_key(node), .low = clamp_bound(&node->attr[0], -most), .high = clamp_bound(&node->attr[1], most)};
    WalkRow *row = node->op == OP_clamp_grad ? clamp_grad_row : dtype_is_float(in[0].dtype) ? clamp_row : clamp_integer_row;
    return walk_elements(node, in, out, row, &numbers, why, n);
}

/* 1 where a is the larger one, 1/2 where both are equal. */
static bool kernel_max_share(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return walk_elements(node, in, out, max_share_row, &(Numbers){.a = fe_inverse(2)}, why, n);
}

/* Casts between reals, and from integers, keep the number; the integer to which a real is rounded is a hash of it. */
static bool kernel_cast(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool rounds = dtype_is_float(in[0].dtype) && !dtype_is_float(out[0].dtype);
    return walk_elements(node, in, out, out[0].dtype == BOOL ? to_bool_row : rounds ? to_integer_row : walk_assign_row, NULL, why, n);
}

static bool kernel_rsqrt_grad(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return walk_elements(node, in, out, rsqrt_grad_row, &(Numbers){.a = fe_sub(0, fe_inverse(2))}, why, n);
}

/* The new value of a state; a result only where the node has one. */
static bool kernel_write(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    return node->nout == 0 || walk_elements(node, in, out, walk_assign_row, NULL, why, n);
}

/* A layout conversion without communication: the box of the result out of the operand's. */
static bool kernel_convert(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Walk walk;
    int8_t map[MAX_NDIM];
    (void)node;
    walk_begin(&walk, &out[0].box);
    map_same(map);
    if (!walk_add(&walk, &out[0], map, NULL, true, why, n) || !walk_add(&walk, &in[0], map, NULL, false, why, n)) return false;
    walk_assign(&walk);
    return true;
}

/* ---------------------------------------------------------------- reductions */

static void sum_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    if (stride[0] != 0) {
        for (int64_t i = 0; i < n; i++)
            at[0][i * stride[0]] = fe_add(at[0][i * stride[0]], at[1][i * stride[1]]);
        return;
    }
    uint64_t sum = *at[0];
    for (int64_t i = 0; i < n; i++) {
        sum += at[1][i * stride[1]];
        sum = (sum & FIELD_P) + (sum >> 61);
    }
    *at[0] = fe_reduce(sum);
}

/* sum += (x - target)^2 */
static void mse_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        Fe difference = fe_sub(at[1][i * stride[1]], at[2][i * stride[2]]);
        at[0][i * stride[0]] = fe_add(at[0][i * stride[0]], fe_mul(difference, difference));
    }
}

static void max_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        Fe x = at[1][i * stride[1]], *most = &at[0][i * stride[0]];
        if (fe_signed(x) > fe_signed(*most)) *most = x;
    }
}

static void min_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        Fe x = at[1][i * stride[1]], *least = &at[0][i * stride[0]];
        if (fe_signed(x) < fe_signed(*least)) *least = x;
    }
}

/* 1 / the number of elements of the whole tensor in its marked dimensions. */
static Fe inverse_count(const FieldTensor *t, const bool *marked) {
    Fe count = 1;
    for (int d = 0; d < t->global.ndim; d++)
        if (marked[d]) count = fe_mul(count, fe_integer(t->global.dim[d]));
    return fe_inverse(count);
}

/* sum += x^2 */
static void squares_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        Fe x = at[1][i * stride[1]];
        at[0][i * stride[0]] = fe_add(at[0][i * stride[0]], fe_mul(x, x));
    }
}

/* Accumulates all elements of the operands into out, which holds the neutral element; dimension d of out is dimension narrow[d] of operand
 * 0. */
static bool gather(const FieldTensor *in, int nin, const FieldTensor *out, const int8_t *narrow, WalkRow *row, char *why, size_t n) {
    Walk walk;
    int8_t same[MAX_NDIM];
    map_same(same);
    walk_begin(&walk, &in[0].box);
    if (!walk_add(&walk, out, narrow, NULL, true, why, n)) return false;
    for (int i = 0; i < nin; i++)
        if (in[i].global.ndim != in[0].global.ndim || !walk_add(&walk, &in[i], same, NULL, true, why, n))
            return field_fail(why, n, "operands differ");
    walk_run(&walk, row, NULL);
    return true;
}

/* sum, mean, max, min: over the axes named. The maximum of nothing is the lowest number, the minimum the highest. */
static bool kernel_reduce(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool marked[MAX_NDIM];
    int8_t narrow[MAX_NDIM];
    if (!axes_marked(&node->attr[0], &in[0], marked) || !map_narrow(&out[0], &in[0], marked, narrow))
        return field_fail(why, n, "axes do not fit");
    bool max = node->op == OP_max, min = node->op == OP_min;
    tensor_fill(&out[0], max ? FIELD_P / 2 + 1 : min ? FIELD_P / 2 : 0);
    if (!gather(in, 1, &out[0], narrow, max ? max_row : min ? min_row : sum_row, why, n)) return false;
    if (node->op == OP_mean) tensor_multiply(&out[0], inverse_count(&in[0], marked));
    return true;
}

/* max(x, 0) - x t + softplus(-|x|) of each element, with softplus its hash. logit_loss_row: sum += that. */
static Fe logit_loss(Fe x, Fe t) {
    const bool above = fe_signed(x) > 0;
    return fe_add(fe_sub(above ? x : 0, fe_mul(x, t)), fe_hash(OP_softplus, above ? fe_sub(0, x) : x));
}
BINARY(logit_losses, logit_loss(x, y))
static void logit_loss_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = fe_add(at[0][i * stride[0]], logit_loss(at[1][i * stride[1]], at[2][i * stride[2]]));
}

/* mse and bce_with_logits, over all elements of each hidden slice. */
static bool kernel_mse(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const char *reduction = node->attr[0].given && node->attr[0].text ? node->attr[0].text : "mean";
    bool marked[MAX_NDIM], sum = strcmp(reduction, "sum") == 0, logits = node->op == OP_bce_with_logits;
    int8_t narrow[MAX_NDIM];
    if (logits && strcmp(reduction, "none") == 0) return walk_elements(node, in, out, logit_losses_row, NULL, why, n);
    if (!axes_marked(&(Attr){.given = false}, &in[0], marked) || !map_narrow(&out[0], &in[0], marked, narrow))
        return field_fail(why, n, "not a loss");
    tensor_fill(&out[0], 0);
    if (!gather(in, 2, &out[0], narrow, logits ? logit_loss_row : mse_row, why, n)) return false;
    if (!sum) tensor_multiply(&out[0], inverse_count(&in[0], marked));
    return true;
}

static bool kernel_sum_squares(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int8_t narrow[MAX_NDIM];
    (void)node;
    memset(narrow, -1, sizeof narrow);
    if (in[0].hidden != out[0].hidden || out[0].global.ndim != in[0].hidden)
        return field_fail(why, n, "not of a tensor to one number, or one a replica");
    if (in[0].hidden) narrow[0] = 0;
    tensor_fill(&out[0], 0);
    return gather(in, 1, &out[0], narrow, squares_row, why, n);
}

/* The reverse of broadcasting: sums over the dimensions that aligning right adds, and those of size 1. */
static bool kernel_sum_to(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int8_t narrow[MAX_NDIM];
    (void)node;
    if (!map_right(&out[0], &in[0], narrow)) return field_fail(why, n, "the result does not broadcast to the operand");
    tensor_fill(&out[0], 0);
    return gather(in, 1, &out[0], narrow, sum_row, why, n);
}

static bool kernel_replica_sum(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int8_t narrow[MAX_NDIM];
    for (int d = 0; d < MAX_NDIM; d++)
        narrow[d] = (int8_t)(d + 1);
    if (!in[0].hidden || in[0].global.ndim != out[0].global.ndim + 1) return field_fail(why, n, "not from a hidden tensor to a plain one");
    tensor_fill(&out[0], 0);
    if (!gather(in, 1, &out[0], narrow, sum_row, why, n)) return false;
    if (node->attr[0].i) tensor_multiply(&out[0], fe_inverse(fe_integer(in[0].global.dim[0])));
    return true;
}

/* ---------------------------------------------------------------- broadcasts */

/* Every element of the result is factor times that of the operand at the same index. */
static bool spread(const FieldTensor *in, FieldTensor *out, const int8_t *narrow, Fe factor, char *why, size_t n) {
    Walk walk;
    int8_t same[MAX_NDIM];
    Numbers numbers = {.a = factor};
    map_same(same);
    walk_begin(&walk, &out[0].box);
    if (!walk_add(&walk, &out[0], same, NULL, true, why, n) || !walk_add(&walk, &in[0], narrow, NULL, true, why, n)) return false;
    walk_run(&walk, factor == 1 ? walk_assign_row : scale_row, &numbers);
    return true;
}

/* sum_grad, mean_grad: over the axes named. */
static bool kernel_expand(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool marked[MAX_NDIM];
    int8_t narrow[MAX_NDIM];
    if (!axes_marked(&node->attr[0], &out[0], marked) || !map_narrow(&in[0], &out[0], marked, narrow))
        return field_fail(why, n, "axes do not fit");
    return spread(in, out, narrow, node->op == OP_mean_grad ? inverse_count(&out[0], marked) : 1, why, n);
}

static bool kernel_replicate(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int8_t narrow[MAX_NDIM];
    (void)node;
    for (int d = 0; d < MAX_NDIM; d++)
        narrow[d] = (int8_t)(d + 1);
    if (!out[0].hidden || out[0].global.ndim != in[0].global.ndim + 1) return field_fail(why, n, "not from a plain tensor to a hidden one");
    return spread(in, out, narrow, 1, why, n);
}

static bool kernel_expose(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int8_t same[MAX_NDIM];
    const bool hide = node->attr[0].i != 0;
    map_same(same);
    if (in[0].hidden == hide || out[0].hidden != hide || !shape_equal(&in[0].global, &out[0].global))
        return field_fail(why, n, "not between a plain and a hidden tensor of one shape");
    return spread(in, out, same, 1, why, n);
}

/* ---------------------------------------------------------------- movement */

static bool kernel_transpose(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const Attr *perm = &node->attr[0];
    int first = in[0].hidden, ndim = in[0].global.ndim - first;
    int8_t map[MAX_NDIM];
    if (out[0].global.ndim != in[0].global.ndim || (perm->given && perm->n != ndim)) return field_fail(why, n, "perm does not fit");
    memset(map, -1, sizeof map);
    if (first) map[0] = 0;
    for (int d = 0; d < ndim; d++) {
        int64_t from = !perm->given ? ndim - 1 - d : perm->ints[d] < 0 ? perm->ints[d] + ndim : perm->ints[d];
        if (from < 0 || from >= ndim || map[first + from] >= 0) return field_fail(why, n, "perm does not fit");
        map[first + from] = (int8_t)(first + d);
    }
    return spread(in, out, map, 1, why, n);
}

/* Where the element `position` (row-major, of the whole tensor) lies in the box, and how many after it are neighbours there; -1: outside. */
static int64_t place(const FieldTensor *t, int64_t position, int64_t *run) {
    int64_t offset = 0, stride = 1;
    *run = 1;
    for (int d = t->global.ndim - 1; d >= 0; d--) {
        int64_t index = position % t->global.dim[d], low = t->box.begin[d], high = t->box.end[d];
        position /= t->global.dim[d];
        if (index < low || index >= high) return -1;
        if (d == t->global.ndim - 1) *run = high - index;
        offset += (index - low) * stride;
        stride *= high - low;
    }
    return offset;
}

static bool kernel_reshape(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *x = &in[0], *y = &out[0];
    int64_t elements = field_elements(y), index[MAX_NDIM];
    (void)node;
    if (shape_elements(&x->global) != shape_elements(&y->global)) return field_fail(why, n, "a reshape to another number of elements");
    if (elements != field_elements(x)) return field_fail(why, n, "a reshape of a box to one of another size");
    if (elements == shape_elements(&y->global)) { /* whole: in the same order */
        memcpy(y->at, x->at, sizeof *y->at * (size_t)elements);
        return true;
    }
    for (int d = 0; d < y->global.ndim; d++)
        index[d] = y->box.begin[d];
    for (int64_t done = 0; done < elements;) {
        int64_t position = 0, run, last = y->global.ndim - 1;
        for (int d = 0; d < y->global.ndim; d++)
            position = position * y->global.dim[d] + index[d];
        int64_t from = place(x, position, &run);
        if (from < 0) return field_fail(why, n, "a reshape of elements that are not in its operand's box");
        if (run > y->box.end[last] - index[last]) run = y->box.end[last] - index[last];
        memcpy(y->at + done, x->at + from, sizeof *y->at * (size_t)run);
        done += run;
        index[last] += run;
        for (int64_t d = last; d > 0 && index[d] == y->box.end[d]; d--) {
            index[d] = y->box.begin[d];
            index[d - 1]++;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- rows */

/* The largest element of a row. */
static Fe row_most(const Fe *x, const Numbers *numbers) {
    Fe most = x[0];
    for (int64_t j = 1; j < numbers->length; j++)
        if (fe_signed(x[j * numbers->stride]) > fe_signed(most)) most = x[j * numbers->stride];
    return most;
}

/* y_i = e(x_i - m) / sum of e(x_j - m), m the largest x_j, e the hash in place of exp. */
static void softmax_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Numbers *numbers = context;
    for (int64_t i = 0; i < n; i++) {
        const Fe *x = at[1] + i * stride[1];
        Fe *y = at[0] + i * stride[0], most = row_most(x, numbers), sum = 0;
        for (int64_t j = 0; j < numbers->length; j++) {
            y[j * numbers->stride] = fe_hash(OP_exp, fe_sub(x[j * numbers->stride], most));
            sum = fe_add(sum, y[j * numbers->stride]);
        }
        sum = fe_inverse(sum);
        for (int64_t j = 0; j < numbers->length; j++)
            y[j * numbers->stride] = fe_mul(y[j * numbers->stride], sum);
    }
}

/* dx_i = y_i (dy_i - sum of y_j dy_j) */
static void softmax_grad_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Numbers *numbers = context;
    for (int64_t i = 0; i < n; i++) {
        const Fe *y = at[1] + i * stride[1], *dy = at[2] + i * stride[2];
        Fe *dx = at[0] + i * stride[0], sum = 0;
        for (int64_t j = 0; j < numbers->length; j++)
            sum = fe_add(sum, fe_mul(y[j * numbers->stride], dy[j * numbers->stride]));
        for (int64_t j = 0; j < numbers->length; j++)
            dx[j * numbers->stride] = fe_mul(y[j * numbers->stride], fe_sub(dy[j * numbers->stride], sum));
    }
}

/* y_i = (x_i - m) - log(sum of e(x_j - m)) */
static void log_softmax_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Numbers *numbers = context;
    for (int64_t i = 0; i < n; i++) {
        const Fe *x = at[1] + i * stride[1];
        Fe *y = at[0] + i * stride[0], most = row_most(x, numbers), sum = 0;
        for (int64_t j = 0; j < numbers->length; j++)
            sum = fe_add(sum, fe_hash(OP_exp, fe_sub(x[j * numbers->stride], most)));
        sum = fe_hash(OP_log, sum);
        for (int64_t j = 0; j < numbers->length; j++)
            y[j * numbers->stride] = fe_sub(fe_sub(x[j * numbers->stride], most), sum);
    }
}

/* dx_i = dy_i - e(y_i) times the sum of dy_j, e a hash in place of exp. */
static void log_softmax_grad_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Numbers *numbers = context;
    for (int64_t i = 0; i < n; i++) {
        const Fe *y = at[1] + i * stride[1], *dy = at[2] + i * stride[2];
        Fe *dx = at[0] + i * stride[0], sum = 0;
        for (int64_t j = 0; j < numbers->length; j++)
            sum = fe_add(sum, dy[j * numbers->stride]);
        for (int64_t j = 0; j < numbers->length; j++)
            dx[j * numbers->stride] = fe_sub(dy[j * numbers->stride], fe_mul(fe_hash(OP_log_softmax_grad, y[j * numbers->stride]), sum));
    }
}

/* Operators on whole rows along an axis: all tensors have one shape and hold one box. */
static bool kernel_rows(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Walk walk;
    int8_t map[MAX_NDIM];
    int axis = axis_of(node, -1, &out[0]);
    Box first = out[0].box; /* of each row its first element */
    if (axis < 0) return field_fail(why, n, "axis does not fit");
    if (field_elements(&out[0]) == 0) return true;
    if (first.begin[axis] != 0 || first.end[axis] != out[0].global.dim[axis])
        return field_fail(why, n, "an axis that must be whole is split");
    first.end[axis] = 1;
    walk_begin(&walk, &first);
    map_same(map);
    if (!walk_add(&walk, &out[0], map, NULL, false, why, n)) return false;
    for (int i = 0; i < node->nin; i++) {
        bool same = in[i].global.ndim == out[0].global.ndim;
        for (int d = 0; same && d < out[0].global.ndim; d++)
            same = in[i].box.begin[d] == out[0].box.begin[d] && in[i].box.end[d] == out[0].box.end[d];
        if (!same) return field_fail(why, n, "operand and result hold different boxes");
        if (!walk_add(&walk, &in[i], map, NULL, false, why, n)) return false;
    }
    Numbers numbers = {.length = out[0].global.dim[axis], .stride = 1};
    for (int d = axis + 1; d < out[0].global.ndim; d++)
        numbers.stride *= out[0].box.end[d] - out[0].box.begin[d];
    bool logarithm = node->op == OP_log_softmax || node->op == OP_log_softmax_grad;
    if (logarithm)
        walk_run(&walk, node->nin == 1 ? log_softmax_row : log_softmax_grad_row, &numbers);
    else
        walk_run(&walk, node->nin == 1 ? softmax_row : softmax_grad_row, &numbers);
    return true;
}

/* ---------------------------------------------------------------- the table */

typedef bool Kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
typedef struct Semantics {
    WalkRow *row; /* elementwise operators; others: */
    Kernel *kernel;
    bool leaf; /* computed by field_leaf */
    int cost;  /* approximately, in multiplications an element; 0 means 1 */
} Semantics;

static const Semantics semantics[NOPS] = {
    [OP_input] = {.leaf = true},
    [OP_constant] = {.leaf = true},
    [OP_read] = {.leaf = true},
    [OP_write] = {.kernel = kernel_write},
    [OP_matmul] = {.kernel = contraction_matmul},
    [OP_add] = {.row = add_row},
    [OP_sub] = {.row = sub_row},
    [OP_mul] = {.row = mul_row},
    [OP_div] = {.kernel = kernel_div, .cost = 5},
    [OP_neg] = {.row = neg_row},
    [OP_sum] = {.kernel = kernel_reduce},
    [OP_mean] = {.kernel = kernel_reduce},
    [OP_transpose] = {.kernel = kernel_transpose},
    [OP_reshape] = {.kernel = kernel_reshape},
    [OP_max] = {.kernel = kernel_reduce},
    [OP_min] = {.kernel = kernel_reduce},
    [OP_maximum] = {.row = maximum_row},
    [OP_minimum] = {.row = minimum_row},
    [OP_clamp] = {.kernel = kernel_clamp, .cost = 2},
    [OP_abs] = {.row = abs_row},
    [OP_slice] = {.kernel = slice_kernel},
    [OP_concat] = {.kernel = join_kernel},
    [OP_split] = {.kernel = join_kernel},
    [OP_softmax] = {.kernel = kernel_rows, .cost = 4},
    [OP_square] = {.row = square_row},
    [OP_gelu] = {.kernel = kernel_gelu, .cost = 2},
    [OP_log_softmax] = {.kernel = kernel_rows, .cost = 5},
    [OP_stop_gradient] = {.row = walk_assign_row},
    [OP_pick] = {.kernel = pick_kernel},
    [OP_cross_entropy] = {.kernel = cross_entropy_kernel, .cost = 3},
    [OP_pick_grad] = {.kernel = pick_kernel},
    [OP_cross_entropy_rows] = {.kernel = loss_rows_kernel, .cost = 5},
    [OP_cross_entropy_rows_grad] = {.kernel = loss_rows_grad_kernel, .cost = 4},
    [OP_cast] = {.kernel = kernel_cast},
    [OP_compress] = {.row = walk_assign_row},
    [OP_less] = {.row = less_row},
    [OP_less_equal] = {.row = less_equal_row},
    [OP_greater] = {.row = greater_row},
    [OP_greater_equal] = {.row = greater_equal_row},
    [OP_equal] = {.row = equal_row},
    [OP_not_equal] = {.row = not_equal_row},
    [OP_where] = {.row = where_row},
    [OP_first] = {.kernel = first_kernel},
    [OP_argmax] = {.kernel = first_kernel},
    [OP_one_hot] = {.kernel = one_hot_kernel},
    [OP_gather] = {.kernel = gather_kernel, .cost = 4},
    [OP_gather_grad] = {.kernel = gather_kernel, .cost = 4},
    [OP_put] = {.kernel = put_kernel, .cost = 2},
    [OP_scatter_add] = {.kernel = scatter_add_kernel, .cost = 4},
    [OP_cumsum] = {.kernel = cumsum_kernel},
    [OP_topk] = {.kernel = topk_kernel, .cost = 4},
    [OP_stack] = {.kernel = stack_kernel},
    [OP_embedding] = {.kernel = embedding_kernel},
    [OP_embedding_grad] = {.kernel = embedding_kernel},
    [OP_mse] = {.kernel = kernel_mse},
    [OP_bce_with_logits] = {.kernel = kernel_mse, .cost = 3},
    [OP_replicate] = {.kernel = kernel_replicate},
    [OP_replica_sum] = {.kernel = kernel_replica_sum},
    [OP_expose] = {.kernel = kernel_expose},
    [OP_einsum] = {.kernel = contraction_einsum},
    [OP_tanh_grad] = {.row = tanh_grad_row, .cost = 2},
    [OP_sqrt_grad] = {.kernel = kernel_sqrt_grad, .cost = 5},
    [OP_sigmoid_grad] = {.row = sigmoid_grad_row, .cost = 2},
    [OP_square_grad] = {.row = square_grad_row},
    [OP_gelu_grad] = {.kernel = kernel_gelu, .cost = 3},
    [OP_rsqrt_grad] = {.kernel = kernel_rsqrt_grad, .cost = 4},
    [OP_log_softmax_grad] = {.kernel = kernel_rows, .cost = 3},
    [OP_softmax_grad] = {.kernel = kernel_rows, .cost = 2},
    [OP_rope] = {.kernel = rope_kernel, .cost = 5},
    [OP_dot_product_attention] = {.kernel = attention_kernel},
    [OP_attention_most] = {.kernel = attention_kernel},
    [OP_attention_sums] = {.kernel = attention_kernel},
    [OP_attention_grad] = {.kernel = attention_grad_kernel},
    [OP_layer_norm] = {.kernel = norm_kernel, .cost = 5},
    [OP_rms_norm] = {.kernel = norm_kernel, .cost = 4},
    [OP_layer_norm_grad] = {.kernel = norm_grad_kernel, .cost = 8},
    [OP_rms_norm_grad] = {.kernel = norm_grad_kernel, .cost = 7},
    [OP_batch_norm] = {.kernel = batch_norm_kernel, .cost = 5},
    [OP_batch_norm_grad] = {.kernel = batch_norm_grad_kernel, .cost = 8},
    [OP_conv2d] = {.kernel = conv_kernel},
    [OP_conv2d_grad_x] = {.kernel = conv_kernel},
    [OP_conv2d_grad_w] = {.kernel = conv_kernel},
    [OP_max_pool] = {.kernel = max_pool_kernel},
    [OP_max_pool_grad] = {.kernel = max_pool_kernel},
    [OP_avg_pool] = {.kernel = avg_pool_kernel},
    [OP_avg_pool_grad] = {.kernel = avg_pool_kernel},
    [OP_pad] = {.kernel = spaced_kernel, .cost = 4},
    [OP_upsample] = {.kernel = spaced_kernel, .cost = 4},
    [OP_max_mask] = {.row = max_mask_row},
    [OP_max_share] = {.kernel = kernel_max_share},
    [OP_abs_grad] = {.row = abs_grad_row},
    [OP_clamp_grad] = {.kernel = kernel_clamp, .cost = 3},
    [OP_slice_grad] = {.kernel = slice_kernel},
    [OP_sum_grad] = {.kernel = kernel_expand},
    [OP_mean_grad] = {.kernel = kernel_expand},
    [OP_sum_to] = {.kernel = kernel_sum_to},
    [OP_sgd] = {.kernel = update_kernel},
    [OP_momentum] = {.kernel = update_kernel, .cost = 2},
    [OP_adam] = {.kernel = update_kernel, .cost = 8},
    [OP_adamw] = {.kernel = update_kernel, .cost = 8},
    [OP_embedding_sgd] = {.kernel = table_update_kernel, .cost = 4},
    [OP_lazy_adam] = {.kernel = table_update_kernel, .cost = 8},
    [OP_lion] = {.kernel = update_kernel, .cost = 5},
    [OP_lamb_step] = {.kernel = update_kernel, .cost = 8},
    [OP_lamb] = {.kernel = update_kernel, .cost = 3},
    [OP_adafactor] = {.kernel = update_kernel, .cost = 5},
    [OP_sum_squares] = {.kernel = kernel_sum_squares},
    [OP_clip] = {.kernel = clip_kernel, .cost = 2},
    [OP_convert] = {.kernel = kernel_convert},
};

/* All other operators of elementwise.def: functions of which only the operands are known. */
static void opaque_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Fe key = *(const Fe *)context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = fe_hash(key, at[1][i * stride[1]]);
}
static void opaque_gradient_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Fe key = *(const Fe *)context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = fe_mul(fe_hash(key, at[1][i * stride[1]]), at[2][i * stride[2]]);
}
static void opaque_pair_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Fe key = *(const Fe *)context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = fe_hash(fe_hash(key, at[1][i * stride[1]]), at[2][i * stride[2]]);
}

static const Semantics opaque[NOPS] = {
#define UNARY_OP(name, ...) [OP_##name] = {.row = opaque_row, .cost = 2},
#define UNARY_OP_X(name, ...) [OP_##name] = {.row = opaque_row, .cost = 2}, [OP_##name##_grad] = {.row = opaque_gradient_row, .cost = 3},
#define UNARY_OP_Y(name, ...) [OP_##name] = {.row = opaque_row, .cost = 2}, [OP_##name##_grad] = {.row = opaque_gradient_row, .cost = 3},
#define BINARY_OP(name, ...) [OP_##name] = {.row = opaque_pair_row, .cost = 3},
#include "ir/elementwise.def"
};

static const Semantics *semantics_of(OpCode op) {
    const Semantics *known = &semantics[op];
    return known->leaf || known->row || known->kernel ? known : &opaque[op];
}

bool field_has_semantics(OpCode op) {
    const Semantics *own = semantics_of(op);
    return own->leaf || own->row || own->kernel;
}

bool field_kernel(const Graph *graph, const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    (void)graph;
    const Semantics *own = semantics_of(node->op);
    const Fe key = node->op;
    if (own->row) return walk_elements(node, in, out, own->row, &key, why, n);
    if (own->kernel) return own->kernel(node, in, out, why, n);
    snprintf(why, n, "%s has no meaning over the field", op_table[node->op].name);
    return false;
}

/* A leaf's elements are hashed, and their memory pages are touched for the first time. */
enum { LEAF_COST = 4 };

double field_work(const Graph *graph, const Node *node, const FieldTensor *in, const FieldTensor *out) {
    (void)graph;
    const Semantics *own = semantics_of(node->op);
    double most = 0, work = 0;
    for (int i = 0; i < node->nin + node->nout; i++) {
        double elements = (double)field_elements(i < node->nin ? &in[i] : &out[i - node->nin]);
        work += elements;
        if (elements > most) most = elements;
    }
    if (own->leaf) return LEAF_COST * work;
    if (own->kernel == contraction_matmul || own->kernel == contraction_einsum) return work + contraction_work(node, in, out);
    if (own->kernel == attention_kernel || own->kernel == attention_grad_kernel) return work + attention_work(node, in);
    if (is_windowed(node->op)) return work + windowed_work(node, in, out);
    return work + most * own->cost;
}
