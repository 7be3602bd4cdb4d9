/* norm: layer_norm and rms_norm along the trailing dimensions that the weight has: rules, gradients, and what stands for them where a strategy splits those dimensions.
 * Then nothing but numbers a row crosses ranks: forward the mean and the variance, or the mean square; backward as many. Sums of the gradient over rows are partial
 * where rows are split, results of the same kernel that gives the gradient of the rows, which is not. */
#include "ir/expansion.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { X, DY, GRADIENT_WEIGHT }; /* operands of a gradient */
enum {
    PART_ROW = 1,
    PART_WEIGHT = 1
}; /* operands of the expansions' products: a number a row of x times the root; the weight of the operator */

/* ---------------------------------------------------------------- rules */

/* The factors are x's dimensions. whole, the operand that has the normalised ones alone: the trailing dimensions of x. */
static bool norm_factors(const TensorType *in, int weight, const Attr *eps, int reductions, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape, *w = &in[weight].shape;
    const int lead = x->ndim - w->ndim;
    bool fits = w->ndim > 0 && lead >= 0;
    for (int d = 0; d < w->ndim && fits; d++)
        fits = w->dim[d] == x->dim[lead + d];
    if (!fits) {
        char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
        rule_reject(error, weight, -1, "%%%d is %s: not the last dimensions of %%0, which is %s", weight, shape_text(w, a),
                    shape_text(x, b));
        if (x->ndim > 0)
            rule_hint(error, "it has an element for each of those that are normalised together: [%lld]", (long long)x->dim[x->ndim - 1]);
        return false;
    }
    if (!(eps->f > 0) || !isfinite(eps->f)) return rule_reject(error, -1, 0, "eps is %g, and must be above 0", eps->f);
    for (int d = 0; d < x->ndim; d++) {
        rule->in[0][d] = (int8_t)rule_add_factor(rule, x->dim[d]);
        if (d >= lead) rule->factor[rule->in[0][d]].reductions = (int8_t)reductions;
    }
    for (int d = 0; d < w->ndim; d++)
        rule->in[weight][d] = rule->in[0][lead + d];
    return true;
}

/* Result o has the type of operand i. */
static void result_like(const TensorType *in, int i, Rule *rule, int o) {
    rule->result[o] = in[i];
    memcpy(rule->out[o], rule->in[i], sizeof rule->in[i]);
}

static bool norm_rule(const TensorType *in, const Attr *attr, int reductions, Rule *rule, RuleError *error) {
    if (!norm_factors(in, 1, &attr[0], reductions, rule, error)) return false;
    result_like(in, 0, rule, 0);
    return true;
}

bool rule_rms_norm(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, norm_rule(in, attr, 1, rule, error);
}

bool rule_layer_norm(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    if (!norm_rule(in, attr, 2, rule, error)) return false;
    if (!shape_equal(&in[2].shape, &in[1].shape)) return rule_reject(error, 2, -1, "%%1 and %%2 have different shapes");
    memcpy(rule->in[2], rule->in[1], sizeof rule->in[1]);
    return true;
}

static bool norm_grad_rule(const TensorType *in, const Attr *attr, int reductions, Rule *rule, RuleError *error) {
    if (!shape_equal(&in[X].shape, &in[DY].shape)) return rule_reject(error, DY, -1, "%%0 and %%1 have different shapes");
    if (!norm_factors(in, GRADIENT_WEIGHT, &attr[0], reductions, rule, error)) return false;
    memcpy(rule->in[DY], rule->in[X], sizeof rule->in[X]);
    for (int o = 0; o < rule->nout; o++)
        result_like(in, o == 0 ? X : GRADIENT_WEIGHT, rule, o);
    return true;
}

bool rule_rms_norm_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, norm_grad_rule(in, attr, 1, rule, error);
}

bool rule_layer_norm_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, norm_grad_rule(in, attr, 2, rule, error);
}

/* ---------------------------------------------------------------- gradients */

/* Each result of the gradient is that of an operand. */
static void adjoint_of_norm(Graph *graph, int node, OpCode op, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: a node is added */
    const char *name[MAX_IN];
    for (int i = 0; i < forward.nin; i++)
        name[i] = arena_printf(graph->arena, "%s.grad", graph->values.at[forward.in[i]].name);
    dx[0] = graph_emit_gradient(graph, node, op, (int[]){forward.in[0], dy[0], forward.in[1]}, (int[]){0, PART_OUT, PART_WEIGHT}, 3, 0,
                                forward.attr, name[0]);
    const Node *gradient = graph_producer(graph, dx[0]);
    for (int i = 1; i < forward.nin; i++) {
        dx[i] = gradient->out[i];
        graph_rename(graph, dx[i], name[i]);
    }
}

void adjoint_rms_norm(Graph *graph, int node, const int *dy, int *dx) {
    adjoint_of_norm(graph, node, OP_rms_norm_grad, dy, dx);
}

void adjoint_layer_norm(Graph *graph, int node, const int *dy, int *dx) {
    adjoint_of_norm(graph, node, OP_layer_norm_grad, dy, dx);
}

/* ---------------------------------------------------------------- rows that are split */

/* The dimensions that the weight has are the normalised ones. */
static int normalised_dims(const Graph *graph, int weight) {
    const TensorType *type = &graph->values.at[weight].type;
    return type->shape.ndim - type->hidden;
}

/* Of a reduction along them. */
static void along_rows(const Graph *graph, int weight, Attr attr[MAX_ATTRS]) {
    const int n = normalised_dims(graph, weight);
    reduction_along(attr, -n, n);
}

/* center over the root of its mean square, times the weight. */
static int scaled_rows(Graph *graph, const Node *node, int center) {
    Attr rows[MAX_ATTRS];
    along_rows(graph, node->in[1], rows);
    int square = expand_emit(graph, node, OP_square, center, -1, NULL, "square");
    int mean = expand_emit(graph, node, OP_mean, square, -1, rows, "variance");
    TensorType number = graph->values.at[mean].type;
    number.shape.ndim = number.hidden;
    int eps = graph_constant(graph, number, NULL, node->attr[0].f, arena_printf(graph->arena, "%s.eps", node->name), node->span);
    int root = expand_emit(graph, node, OP_rsqrt, expand_emit(graph, node, OP_add, mean, eps, NULL, "raised"), -1, NULL, "rsqrt");
    int normalised = expand_emit(graph, node, OP_mul, center, root, NULL, "normalised");
    return expand_emit(graph, node, OP_mul, normalised, node->in[1], NULL, "scaled");
}

void split_rms_norm(Graph *graph, const Node *node, int *out) {
    out[0] = scaled_rows(graph, node, node->in[0]);
}

void split_layer_norm(Graph *graph, const Node *node, int *out) {
    Attr rows[MAX_ATTRS];
    along_rows(graph, node->in[1], rows);
    int mean = expand_emit(graph, node, OP_mean, node->in[0], -1, rows, "mean");
    int center = expand_emit(graph, node, OP_sub, node->in[0], mean, NULL, "center");
    out[0] = expand_emit(graph, node, OP_add, scaled_rows(graph, node, center), node->in[2], NULL, "moved");
}

/* ---- gradients: their origin is, of the forward expansion, the product of the centered rows with the roots */

/* That product in the expansion whose last node this is, and what it is computed from. */
static int product_of_rows(const Graph *graph, const Node *last, bool centered, int *x) {
    const Node *scaled = centered ? graph_producer(graph, last->in[0]) : last, *product = graph_producer(graph, scaled->in[0]);
    *x = centered ? graph_producer(graph, product->in[0])->in[0] : product->in[0];
    assert(product->op == OP_mul);
    return (int)(product - graph->nodes.at);
}

/* The same of the batch of the step whose x the gradient takes: of all batches but the first it is a copy of the origin. */
static const Node *product_for(const Graph *graph, const Node *gradient, bool centered, int *origin) {
    int x;
    const Node *last = &graph->nodes.at[gradient->origin];
    *origin = product_of_rows(graph, last, centered, &x);
    for (int n = gradient->origin + 1; x != gradient->in[X] && n < graph->nodes.n; n++) {
        const Node *copy = &graph->nodes.at[n];
        if (copy->micro == 0 || copy->origin != gradient->origin) continue;
        int product = product_of_rows(graph, copy, centered, &x);
        if (x == gradient->in[X]) return &graph->nodes.at[product];
    }
    assert(x == gradient->in[X]);
    return &graph->nodes.at[*origin];
}

/* With g = dy weight and n the normalised rows: dx = (g - n mean(g n) [- mean(g)]) root; the weight's gradient is the sum of dy n, the other's of dy.
 * Parts of rows are PART_OUT, of numbers a row PART_ROW. */
static void split_norm_grad(Graph *graph, const Node *node, bool centered, int *out) {
    int origin, dy = node->in[DY];
    const Node product = *product_for(graph, node, centered, &origin); /* a copy: nodes are added */
    const int rows = product.out[0], root = product.in[1];
    Attr along[MAX_ATTRS], weight[MAX_ATTRS] = {{.given = true}};
    along_rows(graph, node->in[GRADIENT_WEIGHT], along);
    const TensorType *type = &graph->values.at[node->in[GRADIENT_WEIGHT]].type;
    weight[0].n = normalised_dims(graph, node->in[GRADIENT_WEIGHT]);
    memcpy(weight[0].ints, type->shape.dim + type->hidden, sizeof *type->shape.dim * (size_t)weight[0].n);

    int g = expand_emit_gradient(graph, node, origin, OP_mul, dy, PART_OUT, node->in[GRADIENT_WEIGHT], PART_NONE, PART_OUT, NULL, "mul");
    int along_n = expand_emit_gradient(graph, node, origin, OP_mul, g, PART_OUT, rows, PART_OUT, PART_OUT, NULL, "along");
    int share = expand_emit_gradient(graph, node, origin, OP_mean, along_n, PART_OUT, -1, PART_NONE, PART_ROW, along, "share");
    int taken = expand_emit_gradient(graph, node, origin, OP_mul, rows, PART_OUT, share, PART_ROW, PART_OUT, NULL, "taken");
    int rest = expand_emit_gradient(graph, node, origin, OP_sub, g, PART_OUT, taken, PART_OUT, PART_OUT, NULL, "sub");
    if (centered) {
        int mean = expand_emit_gradient(graph, node, origin, OP_mean, g, PART_OUT, -1, PART_NONE, PART_ROW, along, "mean");
        rest = expand_emit_gradient(graph, node, origin, OP_sub, rest, PART_OUT, mean, PART_ROW, PART_OUT, NULL, "centered");
    }
    out[0] = expand_emit_gradient(graph, node, origin, OP_mul, rest, PART_OUT, root, PART_ROW, PART_OUT, NULL, "grad");
    int turned = expand_emit_gradient(graph, node, origin, OP_mul, dy, PART_OUT, rows, PART_OUT, PART_OUT, NULL, "turned");
    out[1] = expand_emit_gradient(graph, node, origin, OP_sum_to, turned, PART_OUT, -1, PART_NONE, PART_NONE, weight, "weight");
    if (centered) out[2] = expand_emit_gradient(graph, node, origin, OP_sum_to, dy, PART_OUT, -1, PART_NONE, PART_NONE, weight, "bias");
}

void split_rms_norm_grad(Graph *graph, const Node *node, int *out) {
    split_norm_grad(graph, node, false, out);
}

void split_layer_norm_grad(Graph *graph, const Node *node, int *out) {
    split_norm_grad(graph, node, true, out);
}
