/* gather: operators along one axis: gather from, and add to, the elements or rows that indices name; cumulative sums; the largest elements; stacked tensors.
 * A negative axis counts from the end; where axis is left out it is the last. */
#include <inttypes.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/rules.h"

static void add_dim(Rule *rule, int o, int factor, int64_t size) {
    Shape *shape = &rule->result[o].shape;
    rule->out[o][shape->ndim] = (int8_t)factor;
    shape->dim[shape->ndim++] = size;
}

/* Attribute `index`, an axis of a tensor of so many dimensions. */
static bool axis_read(const Attr *attr, int index, int64_t otherwise, int ndim, int *axis, RuleError *error) {
    const int64_t given = attr[index].given ? attr[index].i : otherwise, from_start = given < 0 ? given + ndim : given;
    if (from_start < 0 || from_start >= ndim) {
        rule_reject(error, ndim == 0 ? 0 : -1, index, "axis %" PRId64 " is out of range: there %s %d dimension%s", given,
                    ndim == 1 ? "is" : "are", ndim, ndim == 1 ? "" : "s");
        if (ndim > 0) rule_hint(error, "axes are %d to %d", -ndim, ndim - 1);
        return false;
    }
    *axis = (int)from_start;
    return true;
}

/* ---------------------------------------------------------------- gather, scatter_add, put */

/* Whether operand 1 has an index for each element of `rows`, or, where it lacks the last dimensions, for each row of them. */
static bool index_fits(const Shape *rows, int operand, const Shape *index, int axis, bool along, RuleError *error) {
    bool fits = index->ndim > axis && index->ndim <= rows->ndim;
    for (int d = 0; d < index->ndim && fits; d++)
        fits = (d == axis && !along) || index->dim[d] == rows->dim[d];
    if (fits) return true;
    char own[SHAPE_TEXT_BYTES], of[SHAPE_TEXT_BYTES];
    rule_reject(error, 1, -1, "%%1 is %s, %%%d %s: sizes differ beyond axis %d", shape_text(index, own), operand, shape_text(rows, of),
                axis);
    rule_hint(error,
              "an index has the dimensions of %s up to the axis, and all behind it, or only the first of them, whose rows it then means",
              along ? "what it places" : "the operand");
    return false;
}

bool rule_gather(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape, *index = &in[1].shape;
    int axis;
    (void)nin;
    if (!axis_read(attr, 0, -1, x->ndim, &axis, error) || !index_fits(x, 0, index, axis, false, error)) return false;
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < x->ndim; d++) {
        const int factor = d == axis ? rule_add_factor(rule, index->dim[d]) : rule->in[0][d];
        if (d < index->ndim) rule->in[1][d] = (int8_t)factor;
        add_dim(rule, 0, factor, d == axis ? index->dim[d] : x->dim[d]);
    }
    looked_up(rule, rule->in[0][axis]);
    rule->index_range = x->dim[axis];
    return true;
}

bool rule_gather_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *dy = &in[0].shape;
    int axis;
    (void)nin;
    if (!axis_read(attr, 1, -1, dy->ndim, &axis, error) || !index_fits(dy, 0, &in[1].shape, axis, true, error)) return false;
    if (attr[0].i < 1) return rule_reject(error, -1, 0, "size is %" PRId64 ", must be at least 1", attr[0].i);
    factors_of_operand(rule, &in[0]);
    memcpy(rule->in[1], rule->in[0], sizeof *rule->in[1] * (size_t)in[1].shape.ndim);
    for (int d = 0; d < dy->ndim; d++)
        add_dim(rule, 0, d == axis ? looked_up(rule, rule_add_factor(rule, attr[0].i)) : rule->in[0][d],
                d == axis ? attr[0].i : dy->dim[d]);
    rule->index_range = attr[0].i;
    return true;
}

bool rule_scatter_add(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape, *added = &in[2].shape;
    int axis;
    (void)nin;
    if (!axis_read(attr, 0, -1, x->ndim, &axis, error)) return false;
    bool fits = added->ndim == x->ndim;
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == axis || added->dim[d] == x->dim[d];
    if (!fits) {
        char own[SHAPE_TEXT_BYTES], of[SHAPE_TEXT_BYTES];
        return rule_reject(error, 2, -1, "%%2 is %s, %%0 %s: sizes differ beyond axis %d", shape_text(added, own), shape_text(x, of), axis);
    }
    if (!index_fits(added, 2, &in[1].shape, axis, true, error)) return false;
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < x->ndim; d++) {
        rule->in[2][d] = d == axis ? -1 : rule->in[0][d]; /* x must count once: it cannot be a term of a sum */
        if (d < in[1].shape.ndim) rule->in[1][d] = rule->in[2][d];
        add_dim(rule, 0, rule->in[0][d], x->dim[d]);
    }
    rule->index_range = x->dim[axis];
    return true;
}

bool rule_put(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape, *rows = &in[1].shape, *index = &in[2].shape;
    int axis;
    (void)nin;
    if (!axis_read(attr, 0, -1, x->ndim, &axis, error)) return false;
    bool fits = rows->ndim == x->ndim && index->ndim == 1 && index->dim[0] == rows->dim[axis];
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == axis || rows->dim[d] == x->dim[d];
    if (!fits) {
        char own[SHAPE_TEXT_BYTES], of[SHAPE_TEXT_BYTES], at[SHAPE_TEXT_BYTES];
        return rule_reject(error, 1, -1, "%%1 is %s, %%0 %s and %%2 %s: not a row for each index along axis %d", shape_text(rows, own),
                           shape_text(x, of), shape_text(index, at), axis);
    }
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < x->ndim; d++) {
        if (d != axis) rule->in[1][d] = rule->in[0][d];
        add_dim(rule, 0, rule->in[0][d], x->dim[d]);
    }
    rule->index_range = x->dim[axis];
    return true;
}

/* x + (zeros of x's shape, with `added` added at the indices): where indices are split, each rank has a term of the second operand. */
void expand_scatter_add(Graph *graph, const Node *node, int *out) {
    const int in[2] = {node->in[2], node->in[1]}, x = node->in[0];
    const TensorType *type = &graph->values.at[x].type;
    const int ndim = type->shape.ndim - type->hidden;
    const int64_t axis = !node->attr[0].given ? ndim - 1 : node->attr[0].i < 0 ? node->attr[0].i + ndim : node->attr[0].i;
    const Attr attr[MAX_ATTRS] = {{.given = true, .i = type->shape.dim[type->hidden + axis]}, {.given = true, .i = axis}};
    const int sums = graph_emit(graph, OP_gather_grad, in, 2, attr, arena_printf(graph->arena, "%s.added", node->name), node->span);
    out[0] = graph_emit(graph, OP_add, (int[]){x, sums}, 2, NULL, node->name, node->span);
}

static const char *grad_name(const Graph *graph, int node) {
    return arena_printf(graph->arena, "%s.grad", graph->values.at[graph->nodes.at[node].in[0]].name);
}

void adjoint_gather(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const TensorType *x = &graph->values.at[forward.in[0]].type;
    const int ndim = x->shape.ndim - x->hidden;
    const int64_t axis = !forward.attr[0].given ? ndim - 1 : forward.attr[0].i < 0 ? forward.attr[0].i + ndim : forward.attr[0].i;
    const Attr attr[MAX_ATTRS] = {{.given = true, .i = x->shape.dim[x->hidden + axis]}, {.given = true, .i = axis}};
    dx[0] = graph_emit_gradient(graph, node, OP_gather_grad, (int[]){dy[0], forward.in[1]}, (int[]){PART_OUT, 1}, 2, 0, attr,
                                grad_name(graph, node));
}

void adjoint_gather_grad(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const Attr attr[MAX_ATTRS] = {forward.attr[1]};
    dx[0] = graph_emit_gradient(graph, node, OP_gather, (int[]){dy[0], forward.in[1]}, (int[]){PART_OUT, 1}, 2, 0, attr,
                                grad_name(graph, node));
}

/* ---------------------------------------------------------------- cumsum */

enum { AXIS, REVERSE, EXCLUSIVE };

bool rule_cumsum(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape;
    int axis;
    (void)nin;
    if (!axis_read(attr, AXIS, -1, x->ndim, &axis, error)) return false;
    rule->result[0] = in[0];
    for (int d = 0; d < x->ndim; d++)
        if (d != axis) rule->in[0][d] = rule->out[0][d] = (int8_t)rule_add_factor(rule, x->dim[d]);
    return true;
}

/* Each element is a term of all sums from its place on, so its gradient is the sum of their gradients. */
void adjoint_cumsum(Graph *graph, int node, const int *dy, int *dx) {
    const Attr *forward = graph->nodes.at[node].attr;
    const Attr attr[MAX_ATTRS] = {forward[AXIS], {.given = true, .i = !forward[REVERSE].i}, forward[EXCLUSIVE]};
    dx[0] = graph_emit_gradient(graph, node, OP_cumsum, dy, (int[]){PART_OUT}, 1, 0, attr, grad_name(graph, node));
}

/* ---------------------------------------------------------------- topk */

bool rule_topk(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape;
    (void)nin;
    if (x->ndim == 0) return rule_reject(error, 0, -1, "%%0 is a single number, needs at least 1 dimension");
    const int64_t length = x->dim[x->ndim - 1], k = attr[0].i;
    if (k < 1 || k > length)
        return rule_reject(error, 0, 0, "k is %" PRId64 ", not from 1 to %" PRId64 ", the last size of %%0", k, length);
    if (length > INT32_MAX) return rule_reject(error, 0, -1, "indices of %" PRId64 " elements do not fit i32", length);
    rule->result[0].dtype = in[0].dtype;
    rule->result[1].dtype = I32;
    for (int d = 0; d < x->ndim; d++) {
        const bool last = d == x->ndim - 1;
        rule->in[0][d] = (int8_t)rule_add_factor(rule, x->dim[d]);
        const int factor = last ? rule_add_factor(rule, k) : rule->in[0][d];
        for (int o = 0; o < 2; o++)
            add_dim(rule, o, factor, last ? k : x->dim[d]);
    }
    rule->factor[x->ndim - 1].whole = rule->factor[x->ndim].whole = true; /* both are factors of the gradient */
    return true;
}

/* The gradient of each value goes where it was. */
void adjoint_topk(Graph *graph, int node, const int *dy, int *dx) {
    const Node forward = graph->nodes.at[node];
    const TensorType *x = &graph->values.at[forward.in[0]].type;
    const Attr attr[MAX_ATTRS] = {{.given = true, .i = x->shape.dim[x->shape.ndim - 1]}, {.given = true, .i = -1}};
    if (dy[0] < 0) return;
    dx[0] = graph_emit_gradient(graph, node, OP_gather_grad, (int[]){dy[0], forward.out[1]}, (int[]){PART_OUT, PART_OUT + 1}, 2, 0, attr,
                                grad_name(graph, node));
}

/* ---------------------------------------------------------------- stack */

bool rule_stack(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *x = &in[0].shape;
    int axis;
    if (x->ndim == MAX_USER_NDIM) return rule_reject(error, 0, -1, "the result would have more than %d dimensions", MAX_USER_NDIM);
    if (!axis_read(attr, 0, 0, x->ndim + 1, &axis, error)) return false;
    for (int i = 1; i < nin; i++) {
        char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
        if (!shape_equal(x, &in[i].shape))
            return rule_reject(error, i, -1, "shapes differ: %%0 is %s, %%%d is %s", shape_text(x, a), i, shape_text(&in[i].shape, b));
    }
    factors_of_operand(rule, &in[0]);
    for (int i = 1; i < nin; i++)
        memcpy(rule->in[i], rule->in[0], sizeof rule->in[0]);
    for (int d = 0; d <= x->ndim; d++)
        if (d == axis)
            add_dim(rule, 0, -1, nin);
        else
            add_dim(rule, 0, rule->in[0][d - (d > axis)], x->dim[d - (d > axis)]);
    return true;
}

/* Gives each operand a dimension of size 1, and concatenates them along it. */
void expand_stack(Graph *graph, const Node *node, int *out) {
    const TensorType *type = &graph->values.at[node->in[0]].type;
    const int ndim = type->shape.ndim - type->hidden;
    const int64_t axis = node->attr[0].given && node->attr[0].i < 0 ? node->attr[0].i + ndim + 1 : node->attr[0].i;
    Attr shape[MAX_ATTRS] = {{.given = true, .n = ndim + 1}}, along[MAX_ATTRS] = {{.given = true, .i = axis}};
    for (int d = 0; d <= ndim; d++)
        shape[0].ints[d] = d == axis ? 1 : type->shape.dim[type->hidden + d - (d > axis)];
    int parts[MAX_IN];
    for (int i = 0; i < node->nin; i++)
        parts[i] = graph_emit(graph, OP_reshape, &node->in[i], 1, shape, arena_printf(graph->arena, "%s.%d", node->name, i), node->span);
    out[0] = graph_emit(graph, OP_concat, parts, node->nin, along, node->name, node->span);
}
