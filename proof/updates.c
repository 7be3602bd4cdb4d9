/* updates: what optimizers and the clipping of gradients compute, over the field. */
#include "proof/walk.h"

#include <stdlib.h>

/* An optimizer's numbers. A schedule's rate multiplies lr; it is an operand with stride 0. Without a schedule the rate is 1. */
typedef struct UpdateNumbers {
    Fe lr, momentum, decay, beta1, beta2, rest1, rest2; /* rest: 1 - beta */
    uint64_t key;                                       /* adam: the hash's key, of eps and the betas, which bias corrections use too */
    int first;                                          /* number of results: at[first] is operand 0 */
    bool rate, decoupled, nesterov;
} UpdateNumbers;

static Fe rate_of(const UpdateNumbers *u, Fe *const *at, const int64_t *stride, int operand, int64_t i) {
    return u->rate ? fe_mul(u->lr, at[u->first + operand][i * stride[u->first + operand]]) : u->lr;
}

/* g' = g + decay w, w' = w - lr rate g'. */
static void sgd_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe w = at[1][i * stride[1]], g = fe_add(at[2][i * stride[2]], fe_mul(u->decay, w));
        at[0][i * stride[0]] = fe_sub(w, fe_mul(rate_of(u, at, stride, 2, i), g));
    }
}

/* g' = g + decay w, v' = momentum v + g', w' = w - lr rate v'; nesterov: w' = w - lr rate (g' + momentum v'). */
static void momentum_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe w = at[2][i * stride[2]], g = fe_add(at[4][i * stride[4]], fe_mul(u->decay, w));
        Fe slot = fe_add(fe_mul(u->momentum, at[3][i * stride[3]]), g);
        Fe step = u->nesterov ? fe_add(g, fe_mul(u->momentum, slot)) : slot;
        at[0][i * stride[0]] = fe_sub(w, fe_mul(rate_of(u, at, stride, 3, i), step));
        at[1][i * stride[1]] = slot;
    }
}

/* m' and v' are computed as defined; the direction, m' over a root, is a hash of m', v' and the number of the update. */
static void adam_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe w = at[3][i * stride[3]], decay = fe_mul(u->decay, w), rate = rate_of(u, at, stride, 5, i);
        Fe g = u->decoupled ? at[6][i * stride[6]] : fe_add(at[6][i * stride[6]], decay);
        Fe first = fe_add(fe_mul(u->beta1, at[4][i * stride[4]]), fe_mul(u->rest1, g));
        Fe second = fe_add(fe_mul(u->beta2, at[5][i * stride[5]]), fe_mul(u->rest2, fe_mul(g, g)));
        Fe step = fe_hash(fe_hash(fe_hash(u->key, first), second), at[7][i * stride[7]]);
        if (u->decoupled) step = fe_add(step, decay);
        at[0][i * stride[0]] = fe_sub(w, fe_mul(rate, step));
        at[1][i * stride[1]] = first;
        at[2][i * stride[2]] = second;
    }
}

/* The sign of the mean of m and g is a hash of that mean; decay acts on the parameter itself. */
static void lion_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe w = at[2][i * stride[2]], m = at[3][i * stride[3]], g = at[4][i * stride[4]];
        Fe sign = fe_hash(OP_lion, fe_add(fe_mul(u->beta1, m), fe_mul(u->rest1, g)));
        at[0][i * stride[0]] = fe_sub(w, fe_mul(rate_of(u, at, stride, 3, i), fe_add(sign, fe_mul(u->decay, w))));
        at[1][i * stride[1]] = fe_add(fe_mul(u->beta2, m), fe_mul(u->rest2, g));
    }
}

/* As adam_row; the direction includes the decay, and is a result. */
static void lamb_step_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe w = at[3][i * stride[3]], g = at[6][i * stride[6]];
        Fe first = fe_add(fe_mul(u->beta1, at[4][i * stride[4]]), fe_mul(u->rest1, g));
        Fe second = fe_add(fe_mul(u->beta2, at[5][i * stride[5]]), fe_mul(u->rest2, fe_mul(g, g)));
        Fe step = fe_hash(fe_hash(fe_hash(u->key, first), second), at[7][i * stride[7]]);
        at[0][i * stride[0]] = fe_add(step, fe_mul(u->decay, w));
        at[1][i * stride[1]] = first;
        at[2][i * stride[2]] = second;
    }
}

/* w' = w - lr rate u times a hash of the two sums of squares. */
static void lamb_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe ratio = fe_hash(fe_hash(OP_lamb, at[3][i * stride[3]]), at[4][i * stride[4]]);
        at[0][i * stride[0]] = fe_sub(at[1][i * stride[1]], fe_mul(fe_mul(rate_of(u, at, stride, 4, i), ratio), at[2][i * stride[2]]));
    }
}

/* w' = w (1 - lr rate decay) - u times a hash of all that its factor depends on. The number of elements is the same in every layout. */
static void adafactor_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const UpdateNumbers *u = context;
    for (int64_t i = 0; i < n; i++) {
        Fe w = at[1][i * stride[1]], lr = rate_of(u, at, stride, 5, i);
        Fe factor = fe_hash(fe_hash(fe_hash(fe_hash(u->key, lr), at[3][i * stride[3]]), at[4][i * stride[4]]), at[5][i * stride[5]]);
        at[0][i * stride[0]] = fe_sub(fe_sub(w, fe_mul(fe_mul(lr, u->decay), w)), fe_mul(factor, at[2][i * stride[2]]));
    }
}

/* y = x times a hash of the sum of squares. */
static void clip_row(const void *context, Fe *const *at, const int64_t *stride, int64_t n) {
    const Fe *key = context;
    for (int64_t i = 0; i < n; i++)
        at[0][i * stride[0]] = fe_mul(at[1][i * stride[1]], fe_hash(*key, at[2][i * stride[2]]));
}

/* An attribute of the node; 0 where the operator has none. */
static bool number_of(const Node *node, const char *name, Fe *number) {
    int a = op_attr(node->op, name);
    *number = 0;
    return a < 0 || fe_double(node->attr[a].f, number);
}

bool update_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Fe eps, eps2, d;
    WalkRow *row = node->op == OP_sgd         ? sgd_row
                   : node->op == OP_momentum  ? momentum_row
                   : node->op == OP_lion      ? lion_row
                   : node->op == OP_lamb_step ? lamb_step_row
                   : node->op == OP_lamb      ? lamb_row
                   : node->op == OP_adafactor ? adafactor_row
                                              : adam_row;
    const int nesterov = op_attr(node->op, "nesterov");
    UpdateNumbers u = {.first = node->nout, .decoupled = node->op == OP_adamw, .nesterov = nesterov >= 0 && node->attr[nesterov].i != 0};
    if (!number_of(node, "lr", &u.lr) || !number_of(node, "momentum", &u.momentum) || !number_of(node, "weight_decay", &u.decay) ||
        !number_of(node, "beta1", &u.beta1) || !number_of(node, "beta2", &u.beta2) || !number_of(node, "eps", &eps) ||
        !number_of(node, "eps2", &eps2) || !number_of(node, "d", &d))
        return field_fail(why, n, "an optimizer's number is not finite");
    u.rest1 = fe_sub(1, u.beta1);
    u.rest2 = fe_sub(1, u.beta2);
    u.key = fe_hash(fe_hash(fe_hash(OP_adam, eps), u.beta1), u.beta2);
    if (node->op == OP_adafactor) u.key = fe_hash(fe_hash(OP_adafactor, eps2), d);
    u.rate = node->nin == (node->op == OP_sgd ? 3 : node->op == OP_momentum || node->op == OP_lion ? 4 : node->op == OP_lamb ? 5 : 6);
    return walk_elements(node, in, out, row, &u, why, n);
}

/* Checks the boxes of a table's update. g has a row for each index: a row of the table gets the sum of those whose index names it; other
 * rows stay. */
static bool table_fits(const Node *node, const FieldTensor *in, const FieldTensor *out) {
    const FieldTensor *w = &in[0], *g = &in[node->nout], *index = &in[node->nout + 1];
    const int last = g->box.ndim - 1;
    bool fits = w->box.ndim == 2 && index->box.ndim == last && g->box.begin[last] == w->box.begin[1] && g->box.end[last] == w->box.end[1];
    for (int d = 0; d < last && fits; d++)
        fits = index->box.begin[d] == 0 && index->box.end[d] == index->global.dim[d] && g->box.begin[d] == 0 &&
               g->box.end[d] == index->global.dim[d];
    for (int k = 0; k < node->nout && fits; k++)
        for (int d = 0; d < 2 && fits; d++)
            fits = in[k].box.begin[d] == w->box.begin[d] && in[k].box.end[d] == w->box.end[d] && out[k].box.begin[d] == w->box.begin[d] &&
                   out[k].box.end[d] == w->box.end[d];
    return fits;
}

bool table_update_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const int at = node->nout; /* of g; the index follows, then the numbers */
    const bool lazy = node->op == OP_lazy_adam, rate = node->nin == at + 3 + lazy;
    const FieldTensor *w = &in[0], *g = &in[at], *index = &in[at + 1];
    Fe lr, beta1, beta2, eps;
    if (!table_fits(node, in, out)) return field_fail(why, n, "not all that a row of the table gets");
    if (!number_of(node, "lr", &lr) || !number_of(node, "beta1", &beta1) || !number_of(node, "beta2", &beta2) ||
        !number_of(node, "eps", &eps))
        return field_fail(why, n, "an optimizer's number is not finite");
    if (rate) lr = fe_mul(lr, in[node->nin - 1].at[0]);
    const Fe key = fe_hash(fe_hash(fe_hash(OP_lazy_adam, eps), beta1), beta2);
    const int64_t width = w->box.end[1] - w->box.begin[1], rows = w->box.end[0] - w->box.begin[0];
    Fe *sum = calloc((size_t)(rows * width + 1), sizeof *sum);
    bool *named = calloc((size_t)rows + 1, sizeof *named);
    if (!sum || !named) {
        free(sum), free(named);
        return field_fail(why, n, "out of memory");
    }
    for (int64_t i = 0; i < field_elements(index); i++) {
        const int64_t row = fe_signed(index->at[i]) - w->box.begin[0];
        if (row < 0 || row >= rows) continue;
        named[row] = true;
        for (int64_t c = 0; c < width; c++)
            sum[row * width + c] = fe_add(sum[row * width + c], g->at[i * width + c]);
    }
    for (int64_t e = 0; e < rows * width; e++) {
        for (int k = 0; k < node->nout; k++)
            out[k].at[e] = in[k].at[e];
        if (!named[e / width]) continue;
        Fe step = sum[e];
        if (lazy) {
            out[1].at[e] = fe_add(fe_mul(beta1, in[1].at[e]), fe_mul(fe_sub(1, beta1), sum[e]));
            out[2].at[e] = fe_add(fe_mul(beta2, in[2].at[e]), fe_mul(fe_sub(1, beta2), fe_mul(sum[e], sum[e])));
            step = fe_hash(fe_hash(fe_hash(key, out[1].at[e]), out[2].at[e]), in[at + 2].at[0]);
        }
        out[0].at[e] = fe_sub(w->at[e], fe_mul(lr, step));
    }
    free(sum), free(named);
    return true;
}

bool clip_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Fe key;
    if (!number_of(node, "norm", &key)) return field_fail(why, n, "a norm is not finite");
    key = fe_hash(OP_clip, key);
    return walk_elements(node, in, out, clip_row, &key, why, n);
}
