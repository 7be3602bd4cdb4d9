/* norm: layer_norm and rms_norm along the trailing dimensions that the weight has: rules, gradients, and their expansions where a strategy splits those dimensions.
 * Beside y they return for each row its mean (layer_norm only) and its reciprocal root, [.., 1..], which their gradients need. Where the normalised dimensions are split,
 * only numbers per row cross ranks: forward the mean and the variance, or the mean square; backward as many. The gradients of weight and bias sum over rows: they are
 * partial where the rows are divided among ranks. The gradient of x, a result of the same kernel, is not. */
#include "ir/expansion.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { X, DY, GRADIENT_WEIGHT, NUMBERS }; /* operands of a gradient; from NUMBERS on: the mean (layer_norm) and the root of each row */
/* Operands of the expansion's products: one has a number per row, one is the weight. */
enum { PART_ROW = 1, PART_WEIGHT = 1 };

/* ---------------------------------------------------------------- rules */

/* The factors are x's dimensions. The weight has the normalised ones: the trailing dimensions of x. */
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
        if (d >= lead) rule_expands(rule, rule->in[0][d], reductions);
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

/* The shape for one number per row: x's dimensions, with 1 for those of the weight; map: the factors of the others. */
static Shape row_numbers(const TensorType *in, int weight, const Rule *rule, int8_t *map) {
    Shape shape = in[X].shape;
    for (int d = 0; d < shape.ndim; d++) {
        const bool normalised = d >= shape.ndim - in[weight].shape.ndim;
        if (normalised) shape.dim[d] = 1;
        map[d] = (int8_t)(normalised ? -1 : rule->in[X][d]);
    }
    return shape;
}

/* centered: with a mean. */
static bool norm_rule(const TensorType *in, const Attr *attr, bool centered, Rule *rule, RuleError *error) {
    if (!norm_factors(in, 1, &attr[0], 1 + centered, rule, error)) return false;
    result_like(in, 0, rule, 0);
    for (int o = 1; o < rule->nout; o++)
        rule->result[o] = (TensorType){.dtype = in[X].dtype, .shape = row_numbers(in, 1, rule, rule->out[o])};
    return true;
}

bool rule_rms_norm(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return (void)nin, norm_rule(in, attr, false, rule, error);
}

bool rule_layer_norm(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    if (!norm_rule(in, attr, true, rule, error)) return false;
    if (!shape_equal(&in[2].shape, &in[1].shape)) return rule_reject(error, 2, -1, "%%1 and %%2 have different shapes");
    memcpy(rule->in[2], rule->in[1], sizeof rule->in[1]);
    return true;
}

static bool norm_grad_rule(const TensorType *in, int nin, const Attr *attr, bool centered, Rule *rule, RuleError *error) {
    if (!shape_equal(&in[X].shape, &in[DY].shape)) return rule_reject(error, DY, -1, "%%0 and %%1 have different shapes");
    if (!norm_factors(in, GRADIENT_WEIGHT, &attr[0], 1 + centered, rule, error)) return false;
    memcpy(rule->in[DY], rule->in[X], sizeof rule->in[X]);
    for (int i = NUMBERS; i < nin; i++) {
        const Shape shape = row_numbers(in, GRADIENT_WEIGHT, rule, rule->in[i]);
        if (!shape_equal(&in[i].shape, &shape)) return rule_reject(error, i, -1, "%%%d is not a number for each row of %%0", i);
    }
    for (int o = 0; o < rule->nout; o++)
        result_like(in, o == 0 ? X : GRADIENT_WEIGHT, rule, o);
    return true;
}

bool rule_rms_norm_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return norm_grad_rule(in, nin, attr, false, rule, error);
}

bool rule_layer_norm_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    return norm_grad_rule(in, nin, attr, true, rule, error);
}

/* ---------------------------------------------------------------- gradients */

/* Result i of the gradient operator is the gradient of operand i. */
static void adjoint_of_norm(Graph *graph, int node, OpCode op, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node]; /* a copy: a node is added */
    const char *name[MAX_IN];
    for (int i = 0; i < forward.nin; i++)
        name[i] = arena_printf(graph->arena, "%s.grad", graph->values.at[forward.in[i]].name);
    int in[MAX_IN] = {forward.in[0], dy[0], forward.in[1]}, part[MAX_IN] = {0, PART_OUT, 1};
    for (int o = 1; o < forward.nout; o++) {
        in[NUMBERS + o - 1] = forward.out[o];
        part[NUMBERS + o - 1] = PART_OUT + o;
    }
    dx[0] = graph_emit_gradient(graph, node, op, in, part, NUMBERS + forward.nout - 1, 0, forward.attr, name[0]);
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

/* The number of normalised dimensions: those of the weight. */
static int normalised_dims(const Graph *graph, int weight) {
    const TensorType *type = &graph->values.at[weight].type;
    return type->shape.ndim - type->hidden;
}

/* Attributes of a reduction along the normalised dimensions. */
static void along_rows(const Graph *graph, int weight, Attr attr[MAX_ATTRS]) {
    const int n = normalised_dims(graph, weight);
    reduction_along(attr, -n, n);
}

/* With 16-bit elements all is computed in f32, and y is rounded once. */
static void split_norm(Graph *graph, const Node *node, bool centered, int *out) {
    Attr rows[MAX_ATTRS];
    along_rows(graph, node->in[1], rows);
    const DType dtype = graph->values.at[node->in[X]].type.dtype, wide = dtype_widened(dtype);
    const int x = expand_cast(graph, node, node->in[X], wide, "x");
    if (centered) out[1] = expand_emit(graph, node, OP_mean, x, -1, rows, "mean");
    const int center = centered ? expand_emit(graph, node, OP_sub, x, out[1], NULL, "center") : x;
    const int square = expand_emit(graph, node, OP_square, center, -1, NULL, "square");
    const int mean = expand_emit(graph, node, OP_mean, square, -1, rows, "variance");
    TensorType number = graph->values.at[mean].type;
    number.shape.ndim = number.hidden;
    const int eps = graph_constant(graph, number, NULL, node->attr[0].f, arena_printf(graph->arena, "%s.eps", node->name), node->span);
    const int root = expand_emit(graph, node, OP_rsqrt, expand_emit(graph, node, OP_add, mean, eps, NULL, "raised"), -1, NULL, "rsqrt");
    const int normalised = expand_emit(graph, node, OP_mul, center, root, NULL, "normalised");
    int y = expand_emit(graph, node, OP_mul, normalised, expand_cast(graph, node, node->in[1], wide, "weight"), NULL, "scaled");
    if (centered) y = expand_emit(graph, node, OP_add, y, expand_cast(graph, node, node->in[2], wide, "bias"), NULL, "moved");
    out[0] = expand_cast(graph, node, y, dtype, "y");
    out[1 + centered] = root;
}

void split_rms_norm(Graph *graph, const Node *node, int *out) {
    split_norm(graph, node, false, out);
}

void split_layer_norm(Graph *graph, const Node *node, int *out) {
    split_norm(graph, node, true, out);
}

/* Finds the origins for a gradient's expansion in the forward expansion, whose node `last` computes y: returns the product of the (centered) rows with the roots;
 * *scaled is the product of that with the weight. */
static int product_of_rows(const Graph *graph, int last, bool centered, int *scaled) {
    const Node *node = &graph->nodes.at[last];
    if (node->op == OP_cast) node = graph_producer(graph, node->in[0]);
    *scaled = centered ? graph->values.at[node->in[0]].node : (int)(node - graph->nodes.at);
    const int product = graph->values.at[graph->nodes.at[*scaled].in[0]].node;
    assert(graph->nodes.at[*scaled].op == OP_mul && graph->nodes.at[product].op == OP_mul);
    return product;
}

/* With g = dy weight and n the normalised rows, which are computed again: dx = (g - n mean(g n) [- mean(g)]) root; dweight is the sum of dy n, dbias that of
 * dy. Tensors of whole rows play the part PART_OUT, numbers per row PART_ROW. */
static void split_norm_grad(Graph *graph, const Node *node, bool centered, int *out) {
    int scaled;
    const int origin = product_of_rows(graph, node->origin, centered, &scaled), root = node->in[NUMBERS + centered];
    const DType dtype = graph->values.at[node->in[X]].type.dtype, wide = dtype_widened(dtype);
    Attr along[MAX_ATTRS], weight[MAX_ATTRS] = {{.given = true}};
    along_rows(graph, node->in[GRADIENT_WEIGHT], along);
    const TensorType *type = &graph->values.at[node->in[GRADIENT_WEIGHT]].type;
    weight[0].n = normalised_dims(graph, node->in[GRADIENT_WEIGHT]);
    memcpy(weight[0].ints, type->shape.dim + type->hidden, sizeof *type->shape.dim * (size_t)weight[0].n);
#define EMIT(op, a, a_part, b, b_part, out_part, attr, what)                                                                               \
    expand_emit_gradient(graph, node, origin, op, a, a_part, b, b_part, out_part, attr, what)
#define CAST(value, part, to, what) expand_cast_gradient(graph, node, scaled, value, part, to, what)
    const int x = CAST(node->in[X], PART_OUT, wide, "x"), dy = CAST(node->in[DY], PART_OUT, wide, "dy");
    const int factor = CAST(node->in[GRADIENT_WEIGHT], PART_WEIGHT, wide, "factor");
    const int center = centered ? EMIT(OP_sub, x, PART_OUT, node->in[NUMBERS], PART_ROW, PART_OUT, NULL, "center") : x;
    const int rows = EMIT(OP_mul, center, PART_OUT, root, PART_ROW, PART_OUT, NULL, "normalised");
    const int g = EMIT(OP_mul, dy, PART_OUT, factor, PART_NONE, PART_OUT, NULL, "mul");
    const int along_n = EMIT(OP_mul, g, PART_OUT, rows, PART_OUT, PART_OUT, NULL, "along");
    const int share = EMIT(OP_mean, along_n, PART_OUT, -1, PART_NONE, PART_ROW, along, "share");
    const int taken = EMIT(OP_mul, rows, PART_OUT, share, PART_ROW, PART_OUT, NULL, "taken");
    int rest = EMIT(OP_sub, g, PART_OUT, taken, PART_OUT, PART_OUT, NULL, "sub");
    if (centered) {
        const int mean = EMIT(OP_mean, g, PART_OUT, -1, PART_NONE, PART_ROW, along, "mean");
        rest = EMIT(OP_sub, rest, PART_OUT, mean, PART_ROW, PART_OUT, NULL, "centered");
    }
    out[0] = CAST(EMIT(OP_mul, rest, PART_OUT, root, PART_ROW, PART_OUT, NULL, "grad"), PART_OUT, dtype, "dx");
    const int turned = EMIT(OP_mul, dy, PART_OUT, rows, PART_OUT, PART_OUT, NULL, "turned");
    out[1] = CAST(EMIT(OP_sum_to, turned, PART_OUT, -1, PART_NONE, PART_NONE, weight, "weight"), PART_WEIGHT, dtype, "dweight");
    if (centered) out[2] = CAST(EMIT(OP_sum_to, dy, PART_OUT, -1, PART_NONE, PART_NONE, weight, "bias"), PART_WEIGHT, dtype, "dbias");
#undef CAST
#undef EMIT
}

void split_rms_norm_grad(Graph *graph, const Node *node, int *out) {
    split_norm_grad(graph, node, false, out);
}

void split_layer_norm_grad(Graph *graph, const Node *node, int *out) {
    split_norm_grad(graph, node, true, out);
}
