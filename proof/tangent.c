/* tangent: the derivative of each forward operator along a direction, over the field. Autodiff's gradients are compared with it. It is written from the operators' definitions, in
 * forward mode, so that it has nothing in common with adjoint.c, which works backward. Where an operator's values are hashes, its derivative is the one that its gradient kernel
 * uses: tanh' = 1 - y^2 of the hash y, and so on. */
#include <stdlib.h>
#include <string.h>

#include "proof/walk.h"
#include "proof/windows.h"

typedef struct Derivation {
    const Graph *graph;
    const Node *node;
    const FieldTensor *in, *din, *out;
    FieldTensor *dout;
    char *why;
    size_t n;
} Derivation;

static int64_t elements_of(const FieldTensor *t) {
    return shape_elements(&t->global);
}

static Fe *zeros(int64_t elements) {
    return calloc((size_t)elements + 1, sizeof(Fe));
}

static bool no_memory(const Derivation *d) {
    return field_fail(d->why, d->n, "out of memory");
}

/* ---------------------------------------------------------------- linear in all operands, or in each */

/* The operator itself, applied to the directions. */
static bool tangent_linear(const Derivation *d) {
    FieldTensor in[MAX_IN];
    int64_t most = 0;
    for (int i = 0; i < d->node->nin; i++)
        if (elements_of(&d->in[i]) > most) most = elements_of(&d->in[i]);
    Fe *zero = zeros(most);
    if (!zero) return no_memory(d);
    for (int i = 0; i < d->node->nin; i++) {
        in[i] = d->din[i];
        if (!in[i].at) in[i].at = zero;
    }
    bool ok = field_kernel(d->graph, d->node, in, d->dout, d->why, d->n);
    free(zero);
    return ok;
}

/* d(a b) = da b + a db. */
static bool tangent_product(const Derivation *d) {
    int64_t elements = elements_of(&d->out[0]);
    FieldTensor term = d->dout[0];
    term.at = zeros(elements);
    if (!term.at) return no_memory(d);
    memset(d->dout[0].at, 0, sizeof(Fe) * (size_t)elements);
    bool ok = true;
    for (int i = 0; ok && i < d->node->nin; i++) {
        if (!d->din[i].at) continue;
        FieldTensor in[MAX_IN];
        memcpy(in, d->in, sizeof *in * (size_t)d->node->nin);
        in[i] = d->din[i];
        ok = field_kernel(d->graph, d->node, in, &term, d->why, d->n);
        for (int64_t e = 0; ok && e < elements; e++)
            d->dout[0].at[e] = fe_add(d->dout[0].at[e], term.at[e]);
    }
    free(term.at);
    return ok;
}

/* Linear in operand 0; the others are integers and have no derivative. */
static bool tangent_first(const Derivation *d) {
    FieldTensor in[MAX_IN];
    if (!d->din[0].at) {
        memset(d->dout[0].at, 0, sizeof(Fe) * (size_t)elements_of(&d->out[0]));
        return true;
    }
    memcpy(in, d->in, sizeof *in * (size_t)d->node->nin);
    in[0] = d->din[0];
    return field_kernel(d->graph, d->node, in, d->dout, d->why, d->n);
}

/* The operand's derivative between real types; casts from and to integers have derivative zero. */
static bool tangent_cast(const Derivation *d) {
    if (dtype_is_float(d->in[0].dtype) && dtype_is_float(d->out[0].dtype))
        return field_kernel(d->graph, d->node, d->din, d->dout, d->why, d->n);
    memset(d->dout[0].at, 0, sizeof(Fe) * (size_t)elements_of(&d->out[0]));
    return true;
}

/* The derivative of the operand that is selected. */
static bool tangent_where(const Derivation *d) {
    FieldTensor in[3] = {d->in[0], d->din[1], d->din[2]};
    int64_t most = elements_of(&d->in[1]) > elements_of(&d->in[2]) ? elements_of(&d->in[1]) : elements_of(&d->in[2]);
    Fe *zero = zeros(most);
    if (!zero) return no_memory(d);
    for (int i = 1; i < 3; i++)
        if (!in[i].at) in[i].at = zero;
    bool ok = field_kernel(d->graph, d->node, in, d->dout, d->why, d->n);
    free(zero);
    return ok;
}

/* ---------------------------------------------------------------- functions of one element: dy = f'(x, y) dx */

typedef Fe Slope(Fe x, Fe y);

static Fe slope_tanh(Fe x, Fe y) {
    return (void)x, fe_sub(1, fe_mul(y, y));
}
static Fe slope_exp(Fe x, Fe y) {
    return (void)x, y;
}
static Fe slope_sigmoid(Fe x, Fe y) {
    return (void)x, fe_mul(y, fe_sub(1, y));
}
static Fe slope_square(Fe x, Fe y) {
    return (void)y, fe_mul(2, x);
}
static Fe slope_gelu(Fe x, Fe y) {
    return (void)y, fe_hash(OP_gelu_grad, x);
}
static Fe slope_gelu_tanh(Fe x, Fe y) {
    return (void)y, fe_hash(NOPS + OP_gelu_grad, x);
}
static Fe slope_softplus(Fe x, Fe y) {
    return (void)y, fe_hash(OP_sigmoid, x);
}
static Fe slope_sin(Fe x, Fe y) {
    return (void)y, fe_hash(OP_cos, x);
}
static Fe slope_cos(Fe x, Fe y) {
    return (void)y, fe_sub(0, fe_hash(OP_sin, x));
}
static Fe slope_abs(Fe x, Fe y) {
    return (void)y, x == 0 ? 0 : fe_signed(x) < 0 ? FIELD_P - 1 : 1;
}
static Fe slope_rsqrt(Fe x, Fe y) {
    return (void)x, fe_mul(fe_sub(0, fe_inverse(2)), fe_mul(y, fe_mul(y, y)));
}
/* The inverses of the slopes of log and sqrt; tangent_function inverts all at once. */
static Fe inverse_slope_log(Fe x, Fe y) {
    return (void)y, x;
}
static Fe inverse_slope_sqrt(Fe x, Fe y) {
    return (void)x, fe_mul(2, y);
}

static bool tangent_function(const Derivation *d, Slope *slope, bool inverse) {
    int64_t elements = elements_of(&d->out[0]);
    Fe *dy = d->dout[0].at;
    for (int64_t e = 0; e < elements; e++)
        dy[e] = slope(d->in[0].at[e], d->out[0].at[e]);
    if (inverse) fe_inverse_all(dy, elements);
    for (int64_t e = 0; e < elements; e++)
        dy[e] = fe_mul(dy[e], d->din[0].at[e]);
    return true;
}

static bool tangent_gelu(const Derivation *d) {
    return tangent_function(d, d->node->attr[op_attr(OP_gelu, "tanh")].i ? slope_gelu_tanh : slope_gelu, false);
}

/* What clamp_grad gives for a gradient of 1, times the direction. */
static bool tangent_clamp(const Derivation *d) {
    const FieldTensor in[2] = {d->in[0], d->din[0]};
    Node gradient = *d->node;
    gradient.op = OP_clamp_grad;
    gradient.nin = 2;
    return field_kernel(d->graph, &gradient, in, d->dout, d->why, d->n);
}

/* ---------------------------------------------------------------- the others */

/* dy = (da - y db) / b */
static void div_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        Fe y = at[1][i * stride[1]], inverse = at[2][i * stride[2]], da = at[3][i * stride[3]], db = at[4][i * stride[4]];
        at[0][i * stride[0]] = fe_mul(fe_sub(da, fe_mul(y, db)), inverse);
    }
}

/* One walk over these tensors, which broadcast to the result; a tensor without elements is zero. */
static bool walk_aligned(const Derivation *d, const FieldTensor *const *tensors, int ntensors, WalkRow *row, const void *context) {
    Walk walk;
    int8_t map[MAX_NDIM];
    Fe zero = 0;
    bool ok = true;
    walk_begin(&walk, &d->out[0].box);
    for (int t = 0; ok && t < ntensors; t++) {
        if (!tensors[t]->at) {
            walk.at[walk.ntensors++] = &zero; /* at stride 0 everywhere */
            continue;
        }
        ok = map_right(tensors[t], &d->out[0], map) ? walk_add(&walk, tensors[t], map, NULL, true, d->why, d->n)
                                                    : field_fail(d->why, d->n, "an operand does not broadcast to the result");
    }
    if (ok) walk_run(&walk, row, context);
    return ok;
}

static bool tangent_div(const Derivation *d) {
    FieldTensor inverse = d->in[1];
    inverse.at = zeros(elements_of(&inverse));
    if (!inverse.at) return no_memory(d);
    memcpy(inverse.at, d->in[1].at, sizeof(Fe) * (size_t)elements_of(&inverse));
    fe_inverse_all(inverse.at, elements_of(&inverse));
    const FieldTensor *tensors[] = {&d->dout[0], &d->out[0], &inverse, &d->din[0], &d->din[1]};
    bool ok = walk_aligned(d, tensors, 5, div_row, NULL);
    free(inverse.at);
    return ok;
}

/* The derivative of the operand that equals the result; where both are equal, the mean of both. */
static void larger_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Fe half = *(const Fe *)context;
    for (int64_t i = 0; i < n; i++) {
        Fe y = at[1][i * stride[1]], a = at[2][i * stride[2]], b = at[3][i * stride[3]], da = at[4][i * stride[4]],
           db = at[5][i * stride[5]];
        at[0][i * stride[0]] = a == b ? fe_mul(half, fe_add(da, db)) : a == y ? da : db;
    }
}

static bool tangent_larger(const Derivation *d) {
    const Fe half = fe_inverse(2);
    const FieldTensor *tensors[] = {&d->dout[0], &d->out[0], &d->in[0], &d->in[1], &d->din[0], &d->din[1]};
    return walk_aligned(d, tensors, 6, larger_row, &half);
}

/* b a^(b - 1) da + y log(a) db, with hashes for powers and logarithms; the first term is 0 for b = 0, and log(a) that of 1 for a = 0. */
static void pow_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        Fe y = at[1][i * stride[1]], a = at[2][i * stride[2]], b = at[3][i * stride[3]], da = at[4][i * stride[4]],
           db = at[5][i * stride[5]];
        Fe of_a = b == 0 ? 0 : fe_mul(b, fe_hash(fe_hash(OP_pow, a), fe_sub(b, 1))), of_b = fe_mul(y, fe_hash(OP_log, a == 0 ? 1 : a));
        at[0][i * stride[0]] = fe_add(fe_mul(of_a, da), fe_mul(of_b, db));
    }
}

static bool tangent_pow(const Derivation *d) {
    const FieldTensor *tensors[] = {&d->dout[0], &d->out[0], &d->in[0], &d->in[1], &d->din[0], &d->din[1]};
    return walk_aligned(d, tensors, 6, pow_row, NULL);
}

/* Adds up dx where x is the maximum, and counts. */
static void max_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        if (at[2][i * stride[2]] != at[3][i * stride[3]]) continue;
        at[0][i * stride[0]] = fe_add(at[0][i * stride[0]], at[4][i * stride[4]]);
        at[1][i * stride[1]] = fe_add(at[1][i * stride[1]], 1);
    }
}

/* The mean of dx over the elements that are the maximum. */
static bool tangent_max(const Derivation *d) {
    bool marked[MAX_NDIM];
    int8_t narrow[MAX_NDIM], same[MAX_NDIM];
    Walk walk;
    int64_t elements = elements_of(&d->out[0]);
    FieldTensor count = d->out[0];
    map_same(same);
    if (!axes_marked(&d->node->attr[0], &d->in[0], marked) || !map_narrow(&d->out[0], &d->in[0], marked, narrow))
        return field_fail(d->why, d->n, "axes do not fit");
    count.at = zeros(elements);
    if (!count.at) return no_memory(d);
    memset(d->dout[0].at, 0, sizeof(Fe) * (size_t)elements);
    walk_begin(&walk, &d->in[0].box);
    bool ok = walk_add(&walk, &d->dout[0], narrow, NULL, true, d->why, d->n) && walk_add(&walk, &count, narrow, NULL, true, d->why, d->n) &&
              walk_add(&walk, &d->in[0], same, NULL, true, d->why, d->n) && walk_add(&walk, &d->out[0], narrow, NULL, true, d->why, d->n) &&
              walk_add(&walk, &d->din[0], same, NULL, true, d->why, d->n);
    if (ok) walk_run(&walk, max_row, NULL);
    fe_inverse_all(count.at, elements);
    for (int64_t e = 0; ok && e < elements; e++)
        d->dout[0].at[e] = fe_mul(d->dout[0].at[e], count.at[e]);
    free(count.at);
    return ok;
}

/* dy_i = sum over j of dy_i/dx_j dx_j, with dy_i/dx_j = y_i ((i = j) - y_j); for log_softmax (i = j) - e(y_j). */
static bool tangent_softmax(const Derivation *d) {
    bool logarithm = d->node->op == OP_log_softmax;
    int axis = axis_of(d->node, -1, &d->out[0]);
    if (axis < 0) return field_fail(d->why, d->n, "axis does not fit");
    int64_t length = d->out[0].global.dim[axis], stride = 1, elements = elements_of(&d->out[0]);
    for (int k = axis + 1; k < d->out[0].global.ndim; k++)
        stride *= d->out[0].global.dim[k];
    for (int64_t first = 0; first < elements; first++) {
        if (first / stride % length != 0) continue; /* not the first of its row */
        const Fe *y = d->out[0].at + first, *dx = d->din[0].at + first;
        Fe *dy = d->dout[0].at + first, shared = 0;
        for (int64_t j = 0; j < length; j++)
            shared = fe_add(shared, fe_mul(logarithm ? fe_hash(OP_log_softmax_grad, y[j * stride]) : y[j * stride], dx[j * stride]));
        for (int64_t i = 0; i < length; i++) {
            Fe moved = fe_sub(dx[i * stride], shared);
            dy[i * stride] = logarithm ? moved : fe_mul(y[i * stride], moved);
        }
    }
    return true;
}

static bool tangent_norm(const Derivation *d) {
    return norm_tangent(d->node, d->in, d->din, d->dout, d->why, d->n);
}

static bool tangent_batch_norm(const Derivation *d) {
    return batch_norm_tangent(d->node, d->in, d->din, d->dout, d->why, d->n);
}

static bool tangent_topk(const Derivation *d) {
    return topk_tangent(d->in, d->din, d->out, d->dout, d->why, d->n);
}

static bool tangent_attention(const Derivation *d) {
    return attention_tangent(d->node, d->in, d->din, d->dout, d->why, d->n);
}

static bool tangent_loss_rows(const Derivation *d) {
    return loss_rows_tangent(d->node, d->in, d->din, d->dout, d->why, d->n);
}

static bool tangent_max_pool(const Derivation *d) {
    return max_pool_tangent(d->node, d->in, d->din, d->dout, d->why, d->n);
}

/* ---------------------------------------------------------------- the table */

typedef bool Tangent(const Derivation *d);
typedef struct TangentRow {
    Tangent *rule; /* or: */
    Slope *slope;  /* for a function of one element */
    bool inverse;  /* slope gives its inverse */
} TangentRow;

static const TangentRow tangents[NOPS] = {
    [OP_matmul] = {.rule = tangent_product},
    [OP_add] = {.rule = tangent_linear},
    [OP_sub] = {.rule = tangent_linear},
    [OP_mul] = {.rule = tangent_product},
    [OP_div] = {.rule = tangent_div},
    [OP_neg] = {.rule = tangent_linear},
    [OP_tanh] = {.slope = slope_tanh},
    [OP_exp] = {.slope = slope_exp},
    [OP_log] = {.slope = inverse_slope_log, .inverse = true},
    [OP_sqrt] = {.slope = inverse_slope_sqrt, .inverse = true},
    [OP_sum] = {.rule = tangent_linear},
    [OP_mean] = {.rule = tangent_linear},
    [OP_transpose] = {.rule = tangent_linear},
    [OP_reshape] = {.rule = tangent_linear},
    [OP_max] = {.rule = tangent_max},
    [OP_min] = {.rule = tangent_max},
    [OP_maximum] = {.rule = tangent_larger},
    [OP_minimum] = {.rule = tangent_larger},
    [OP_pow] = {.rule = tangent_pow},
    [OP_clamp] = {.rule = tangent_clamp},
    [OP_abs] = {.slope = slope_abs},
    [OP_sin] = {.slope = slope_sin},
    [OP_cos] = {.slope = slope_cos},
    [OP_softplus] = {.slope = slope_softplus},
    [OP_slice] = {.rule = tangent_linear},
    [OP_concat] = {.rule = tangent_linear},
    [OP_split] = {.rule = tangent_linear},
    [OP_softmax] = {.rule = tangent_softmax},
    [OP_sigmoid] = {.slope = slope_sigmoid},
    [OP_square] = {.slope = slope_square},
    [OP_gelu] = {.rule = tangent_gelu},
    [OP_rsqrt] = {.slope = slope_rsqrt},
    [OP_log_softmax] = {.rule = tangent_softmax},
    [OP_rope] = {.rule = tangent_linear},
    [OP_dot_product_attention] = {.rule = tangent_attention},
    [OP_attention_most] = {.rule = tangent_attention},
    [OP_attention_sums] = {.rule = tangent_attention},
    [OP_layer_norm] = {.rule = tangent_norm},
    [OP_rms_norm] = {.rule = tangent_norm},
    [OP_batch_norm] = {.rule = tangent_batch_norm},
    [OP_pick] = {.rule = tangent_first},
    [OP_cross_entropy_rows] = {.rule = tangent_loss_rows},
    [OP_embedding] = {.rule = tangent_first},
    [OP_gather] = {.rule = tangent_first},
    [OP_gather_grad] = {.rule = tangent_first},
    [OP_cumsum] = {.rule = tangent_linear},
    [OP_topk] = {.rule = tangent_topk},
    [OP_cast] = {.rule = tangent_cast},
    [OP_where] = {.rule = tangent_where},
    [OP_replicate] = {.rule = tangent_linear},
    [OP_expose] = {.rule = tangent_linear},
    [OP_conv2d] = {.rule = tangent_product},
    [OP_max_pool] = {.rule = tangent_max_pool},
    [OP_avg_pool] = {.rule = tangent_linear},
    [OP_avg_pool_grad] = {.rule = tangent_linear},
    [OP_slice_grad] = {.rule = tangent_linear},
};

/* All other operators of elementwise.def that have a gradient: the slope is the factor of the gradient. */
#define UNARY_OP_X(name, ...)                                                                                                              \
    static Fe opaque_##name(Fe x, Fe y) {                                                                                                  \
        return (void)y, fe_hash(OP_##name##_grad, x);                                                                                      \
    }
#define UNARY_OP_Y(name, ...)                                                                                                              \
    static Fe opaque_##name(Fe x, Fe y) {                                                                                                  \
        return (void)x, fe_hash(OP_##name##_grad, y);                                                                                      \
    }
#include "ir/elementwise.def"
static const TangentRow opaque[NOPS] = {
#define UNARY_OP_X(name, ...) [OP_##name] = {.slope = opaque_##name},
#define UNARY_OP_Y(name, ...) [OP_##name] = {.slope = opaque_##name},
#include "ir/elementwise.def"
};

static const TangentRow *tangent_of(OpCode op) {
    return tangents[op].rule || tangents[op].slope ? &tangents[op] : &opaque[op];
}

bool field_has_tangent(OpCode op) {
    return tangent_of(op)->rule || tangent_of(op)->slope;
}

bool field_tangent(const Graph *graph, const Node *node, const FieldTensor *in, const FieldTensor *din, const FieldTensor *out,
                   FieldTensor *dout, char *why, size_t n) {
    const TangentRow *row = tangent_of(node->op);
    bool moves = false;
    for (int i = 0; i < node->nin; i++)
        moves |= din[i].at != NULL;
    if (!moves || !field_has_tangent(node->op)) {
        for (int k = 0; k < node->nout; k++)
            dout[k].at = NULL;
        return true;
    }
    Derivation d = {graph, node, in, din, out, dout, why, n};
    return row->rule ? row->rule(&d) : tangent_function(&d, row->slope, row->inverse);
}
