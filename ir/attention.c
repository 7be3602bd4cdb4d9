/* attention: softmax(scale q k^T) v without the matrix of scores: its rule, its gradient, and its expansion where a strategy splits the keys. Beside y it returns,
 * for each query, the largest score and the sum of exp(score - largest), in f32 where q has 16 bits: its gradient needs them to compute the scores again. Where keys are split,
 * each rank computes the largest score and then the sums over its own keys. Ranks reduce a maximum, a sum, and a row as wide as v for each query. Tensors:
 *   q [lead.., share, m, d], k [lead.., n, d], v [lead.., n, e], y [lead.., share, m, e], numbers a query [lead.., share, m, 1], mask: broadcast to [lead.., share, m, n]
 * share, the number of query heads per head of keys and values, is left out where q has as many dimensions as k. (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018; Dao et al., "FlashAttention", 2022; grouped heads: Ainslie et al., "GQA", 2023.) */
#include "ir/expansion.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CAUSAL, SCALE }; /* attributes, of all four operators */
enum { Q, K, V, MASK }; /* operands of attention */

/* The factors of the leading dimensions, of the queries and of the keys; the widths are no factors. */
typedef struct Letters {
    int lead, share; /* dimensions; 0 or 1 */
    int m, n;        /* factors */
    int64_t d, e;    /* widths */
} Letters;

static bool differ(RuleError *error, int operand, const TensorType *in, int other, const char *what) {
    char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
    return rule_reject(error, operand, -1, "%%%d is %s, %%%d is %s: %s", other, shape_text(&in[other].shape, a), operand,
                       shape_text(&in[operand].shape, b), what);
}

/* Where q has a multiple of k's heads in one dimension: hints at the form that is expected here. */
static void hint_groups(RuleError *error, const Shape *q, const Shape *k) {
    const int heads = q->ndim - 3;
    if (q->ndim == k->ndim && heads >= 0 && k->dim[heads] > 0 && q->dim[heads] % k->dim[heads] == 0)
        rule_hint(error, "heads that share keys and values are a dimension of their own: [.., %lld, %lld, %lld, %lld]",
                  (long long)k->dim[heads], (long long)(q->dim[heads] / k->dim[heads]), (long long)q->dim[heads + 1],
                  (long long)q->dim[heads + 2]);
}

/* Adds the factors of the queries, operand q, and the keys, operand k. */
static bool letters_open(const TensorType *in, int q, int k, Letters *letters, Rule *rule, RuleError *error) {
    const Shape *queries = &in[q].shape, *keys = &in[k].shape;
    if (keys->ndim < 2)
        return rule_reject(error, k, -1, "%%%d has %d dimension%s, needs at least 2: keys and their width", k, keys->ndim,
                           keys->ndim == 1 ? "" : "s");
    *letters = (Letters){.lead = keys->ndim - 2, .share = queries->ndim - keys->ndim, .d = keys->dim[keys->ndim - 1]};
    if (letters->share < 0 || letters->share > 1) return differ(error, k, in, q, "needs as many dimensions, or one less");
    if (queries->dim[queries->ndim - 1] != letters->d) return differ(error, k, in, q, "the widths, their last sizes, differ");
    for (int d = 0; d < letters->lead; d++)
        if (queries->dim[d] != keys->dim[d]) {
            differ(error, k, in, q, "their leading sizes differ");
            hint_groups(error, queries, keys);
            return false;
        }
    for (int d = 0; d < queries->ndim - 1; d++)
        letters->m = rule_add_factor(rule, queries->dim[d]);
    letters->n = rule_add_factor(rule, keys->dim[letters->lead]);
    return true;
}

/* v has the dimensions of the keys, except for its width. */
static bool values_fit(const TensorType *in, int k, int v, Letters *letters, RuleError *error) {
    const Shape *keys = &in[k].shape, *values = &in[v].shape;
    bool fits = values->ndim == keys->ndim;
    for (int d = 0; d < keys->ndim - 1 && fits; d++)
        fits = values->dim[d] == keys->dim[d];
    if (!fits) return differ(error, v, in, k, "all sizes but the last one are the same");
    letters->e = values->dim[values->ndim - 1];
    return true;
}

/* A size of 1, or no dimension, stands for any size. */
static bool mask_fits(const TensorType *in, int q, int mask, const Letters *letters, Rule *rule, RuleError *error) {
    const Shape *shape = &in[mask].shape;
    const int ndim = letters->lead + letters->share + 2, missing = ndim - shape->ndim;
    bool fits = missing >= 0;
    for (int d = 0; d < shape->ndim && fits; d++) {
        const int f = d + missing; /* the factor of a dimension of the scores */
        fits = shape->dim[d] == rule->factor[f].size || shape->dim[d] == 1;
        if (shape->dim[d] == rule->factor[f].size) rule->in[mask][d] = (int8_t)f;
    }
    if (fits) return true;
    Shape scores = in[q].shape;
    char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
    scores.dim[scores.ndim - 1] = rule->factor[letters->n].size;
    return rule_reject(error, mask, -1, "%%%d is %s, and does not broadcast to the scores %s", mask, shape_text(shape, a),
                       shape_text(&scores, b));
}

/* Maps all dimensions of the queries but the last one to factors; map_keys does so for the keys. */
static void map_queries(int8_t *map, const Letters *letters) {
    for (int f = 0; f <= letters->m; f++)
        map[f] = (int8_t)f;
}
static void map_keys(int8_t *map, const Letters *letters) {
    for (int f = 0; f < letters->lead; f++)
        map[f] = (int8_t)f;
    map[letters->lead] = (int8_t)letters->n;
}

/* Gives result o the dimensions of the queries, with this width. */
static void give_queries(const TensorType *in, const Letters *letters, int64_t width, Rule *rule, int o) {
    rule->result[o] = in[0];
    rule->result[o].shape.dim[letters->m + 1] = width;
    map_queries(rule->out[o], letters);
}

static bool scale_fits(const Attr *attr, RuleError *error) {
    return !attr[SCALE].given || isfinite(attr[SCALE].f) ||
           rule_reject(error, -1, SCALE, "scale is %g, and must be a number", attr[SCALE].f);
}

/* The products of a score run over the widths. Where attention is causal, only half of the scores are computed. */
static void set_depth(Rule *rule, int64_t widths, const Attr *attr) {
    rule->depth = widths;
    rule->halved = attr[CAUSAL].i;
}

static bool attention_factors(const TensorType *in, int nin, int mask, const Attr *attr, Letters *letters, Rule *rule, RuleError *error) {
    if (!letters_open(in, Q, K, letters, rule, error) || !scale_fits(attr, error)) return false;
    if (nin > mask && !mask_fits(in, Q, mask, letters, rule, error)) return false;
    map_queries(rule->in[Q], letters);
    map_keys(rule->in[K], letters);
    set_depth(rule, letters->d, attr);
    return true;
}

bool rule_attention(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    Letters letters;
    if (!attention_factors(in, nin, MASK, attr, &letters, rule, error) || !values_fit(in, K, V, &letters, error)) return false;
    rule_expands(rule, letters.n, 1);
    map_keys(rule->in[V], &letters);
    give_queries(in, &letters, letters.e, rule, 0);
    give_queries(in, &letters, 1, rule, 1);
    give_queries(in, &letters, 1, rule, 2);
    set_depth(rule, letters.d + letters.e, attr);
    return true;
}

bool rule_attention_most(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    Letters letters;
    if (!attention_factors(in, nin, 2, attr, &letters, rule, error)) return false;
    give_queries(in, &letters, 1, rule, 0);
    return true;
}

/* Whether operand `at` has the queries' dimensions and this width. */
static bool queries_fit(const TensorType *in, int at, int64_t width, const Letters *letters, Rule *rule, RuleError *error) {
    Shape shape = in[Q].shape;
    shape.dim[shape.ndim - 1] = width;
    map_queries(rule->in[at], letters);
    char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
    return shape_equal(&in[at].shape, &shape) ||
           rule_reject(error, at, -1, "%%%d is %s, not %s", at, shape_text(&in[at].shape, a), shape_text(&shape, b));
}

bool rule_attention_sums(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    Letters letters;
    if (!attention_factors(in, nin, 4, attr, &letters, rule, error) || !values_fit(in, K, V, &letters, error) ||
        !queries_fit(in, 3, 1, &letters, rule, error))
        return false;
    map_keys(rule->in[V], &letters);
    give_queries(in, &letters, 1, rule, 0);
    give_queries(in, &letters, letters.e, rule, 1);
    set_depth(rule, letters.d + letters.e, attr);
    return true;
}

enum { GRAD_Q, GRAD_DY, GRAD_K, GRAD_V, GRAD_Y, GRAD_MOST, GRAD_SUM, GRAD_MASK }; /* operands of the gradient */

bool rule_attention_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    Letters letters;
    if (!letters_open(in, GRAD_Q, GRAD_K, &letters, rule, error) || !scale_fits(attr, error) ||
        !values_fit(in, GRAD_K, GRAD_V, &letters, error))
        return false;
    if (nin > GRAD_MASK && !mask_fits(in, GRAD_Q, GRAD_MASK, &letters, rule, error)) return false;
    for (int i = GRAD_Q; i <= GRAD_SUM; i++) {
        if (i == GRAD_K || i == GRAD_V)
            map_keys(rule->in[i], &letters);
        else if (!queries_fit(in, i, i == GRAD_Q ? letters.d : i <= GRAD_Y ? letters.e : 1, &letters, rule, error))
            return false;
    }
    static const int like[3] = {GRAD_Q, GRAD_K, GRAD_V};
    for (int o = 0; o < 3; o++) {
        rule->result[o] = in[like[o]];
        memcpy(rule->out[o], rule->in[like[o]], sizeof rule->in[like[o]]);
    }
    set_depth(rule, letters.d + letters.e, attr);
    return true;
}

/* ---------------------------------------------------------------- gradient */

/* For each operand of the gradient, the part that it plays in the gradient's origin. */
typedef struct GradParts {
    int q, k, v, y, most, sum, mask;
} GradParts;

/* in: the operands in the order of the gradient operator; out: its three results. */
static void emit_gradient(Graph *graph, int origin, const int *in, int nin, const GradParts *of, const Attr *attr, const char *const *name,
                          int *out) {
    const int part[MAX_IN] = {of->q, of->y, of->k, of->v, of->y, of->most, of->sum, of->mask};
    out[0] = graph_emit_gradient(graph, origin, OP_attention_grad, in, part, nin, of->q, attr, name[0]);
    const Node *gradient = graph_producer(graph, out[0]);
    for (int o = 1; o < 3; o++) {
        out[o] = gradient->out[o];
        graph_rename(graph, out[o], name[o]);
    }
}

void adjoint_attention(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: a node is added */
    const int in[MAX_IN] = {forward.in[Q],  dy[0],          forward.in[K],  forward.in[V],
                            forward.out[0], forward.out[1], forward.out[2], forward.nin > MASK ? forward.in[MASK] : -1};
    const GradParts parts = {Q, K, V, PART_OUT, PART_OUT + 1, PART_OUT + 2, MASK};
    const char *name[3];
    for (int i = 0; i < 3; i++)
        name[i] = arena_printf(graph->arena, "%s.grad", graph->values.at[forward.in[i]].name);
    emit_gradient(graph, node, in, forward.nin > MASK ? 8 : 7, &parts, forward.attr, name, dx);
}

/* ---------------------------------------------------------------- keys that are split */

void split_attention(Graph *graph, const Node *node, int *out) {
    const char *name = node->name;
    const bool masked = node->nin > MASK;
    const int in[3] = {node->in[Q], node->in[K], masked ? node->in[MASK] : -1};
    const int most =
        graph_emit(graph, OP_attention_most, in, 2 + masked, node->attr, arena_printf(graph->arena, "%s.most", name), node->span);
    const int all[5] = {node->in[Q], node->in[K], node->in[V], most, in[2]};
    const int sum =
        graph_emit(graph, OP_attention_sums, all, 4 + masked, node->attr, arena_printf(graph->arena, "%s.sum", name), node->span);
    const int product = graph_producer(graph, sum)->out[1];
    int divisor = sum;
    if (masked) { /* a query that may see no key has the sum 0, and gets the result 0 */
        TensorType number = graph->values.at[sum].type;
        number.shape.ndim = number.hidden;
        const int zero = graph_constant(graph, number, NULL, 0, arena_printf(graph->arena, "%s.zero", name), node->span);
        const int one = graph_constant(graph, number, NULL, 1, arena_printf(graph->arena, "%s.one", name), node->span);
        const int none = expand_emit(graph, node, OP_equal, sum, zero, NULL, "none");
        divisor = graph_emit(graph, OP_where, (int[]){none, one, sum}, 3, NULL, arena_printf(graph->arena, "%s.divisor", name), node->span);
    }
    out[0] = expand_cast(graph, node, expand_emit(graph, node, OP_div, product, divisor, NULL, "div"),
                         graph->values.at[node->in[Q]].type.dtype, "y");
    out[1] = most;
    out[2] = sum;
}

/* The gradient stays one operator: it can split the keys like any factor. Its origin becomes the node of the forward expansion that computes the sums. */
void split_attention_grad(Graph *graph, const Node *node, int *out) {
    const Node *quotient = &graph->nodes.at[node->origin];
    if (quotient->op == OP_cast) quotient = graph_producer(graph, quotient->in[0]);
    const Node *sums = graph_producer(graph, quotient->in[0]);
    assert(quotient->op == OP_div && sums->op == OP_attention_sums);
    const GradParts parts = {0, 1, 2, PART_OUT + 1, 3, PART_OUT, 4};
    const char *name[3];
    for (int o = 0; o < 3; o++)
        name[o] = arena_printf(graph->arena, "%s.grad%d", node->name, o);
    emit_gradient(graph, (int)(sums - graph->nodes.at), node->in, node->nin, &parts, node->attr, name, out);
}
