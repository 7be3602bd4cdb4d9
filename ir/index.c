#include "ir/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add_dim(Rule *rule, int factor, int64_t size) {
    Shape *shape = &rule->result[0].shape;
    rule->out[0][shape->ndim] = (int8_t)factor;
    shape->dim[shape->ndim++] = size;
}

/* Every dimension of operand 0 but the last is a factor that operand 1 and, where it keeps them, the result share. */
static bool leading_factors(const TensorType *wide, const Shape *index, Rule *rule, RuleError *error) {
    Shape leading = wide->shape;
    if (leading.ndim == 0) return rule_reject(error, 0, -1, "%%0 is a single number, needs at least 1 dimension");
    leading.ndim--;
    if (!shape_equal(&leading, index)) {
        char own[SHAPE_TEXT_BYTES], wanted[SHAPE_TEXT_BYTES];
        return rule_reject(error, 1, -1, "%%1 is %s, needs %s: an index for each row of %%0", shape_text(index, own), shape_text(&leading, wanted));
    }
    factors_of_operand(rule, wide);
    memcpy(rule->in[1], rule->in[0], sizeof *rule->in[1] * (size_t)leading.ndim);
    rule->index_range = wide->shape.dim[leading.ndim];
    return true;
}

bool rule_pick(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin, (void)attr;
    if (!leading_factors(&in[0], &in[1].shape, rule, error)) return false;
    rule->result[0].shape = in[1].shape;
    memcpy(rule->out[0], rule->in[1], sizeof rule->out[0]);
    return true;
}

/* An attribute that is a size. */
static bool size_read(const Attr *attr, int index, const char *name, RuleError *error) {
    if (attr[index].i >= 1) return true;
    return rule_reject(error, -1, index, "%s is %" PRId64 ", must be at least 1", name, attr[index].i);
}

bool rule_pick_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    if (!size_read(attr, 0, "classes", error)) return false;
    if (in[0].shape.ndim == MAX_USER_NDIM) return rule_reject(error, 0, -1, "the result would have more than %d dimensions", MAX_USER_NDIM);
    if (!shape_equal(&in[0].shape, &in[1].shape)) return rule_reject(error, 1, -1, "shapes of %%0 and %%1 differ");
    factors_of_operand(rule, &in[0]);
    memcpy(rule->in[1], rule->in[0], sizeof rule->in[1]);
    memcpy(rule->out[0], rule->in[0], sizeof rule->out[0]);
    rule->result[0].shape = in[0].shape;
    add_dim(rule, rule_add_factor(rule, attr[0].i), attr[0].i);
    rule->index_range = attr[0].i;
    return true;
}

bool rule_first(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    int ndim = in[0].shape.ndim;
    int64_t axis = !attr[0].given ? ndim - 1 : attr[0].i < 0 ? attr[0].i + ndim : attr[0].i;
    if (axis < 0 || axis >= ndim)
        return rule_reject(error, -1, 0, "axis %" PRId64 " is out of range: %%0 has %d dimension%s", attr[0].given ? attr[0].i : -1, ndim, ndim == 1 ? "" : "s");
    if (in[0].shape.dim[axis] > INT32_MAX) return rule_reject(error, 0, 0, "indices of %" PRId64 " elements do not fit i32", in[0].shape.dim[axis]);
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < ndim; d++)
        if (d != axis) add_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}

/* The dimensions of an index are the result's first ones; false: the result has too many. */
static bool index_dims(const TensorType *index, int operand, Rule *rule, RuleError *error) {
    if (index->shape.ndim == MAX_USER_NDIM) return rule_reject(error, operand, -1, "the result would have more than %d dimensions", MAX_USER_NDIM);
    for (int d = 0; d < index->shape.ndim; d++) {
        rule->in[operand][d] = (int8_t)rule_add_factor(rule, index->shape.dim[d]);
        add_dim(rule, rule->in[operand][d], index->shape.dim[d]);
    }
    return true;
}

bool rule_one_hot(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    if (!size_read(attr, 0, "depth", error) || !index_dims(&in[0], 0, rule, error)) return false;
    int depth = rule_add_factor(rule, attr[0].i);
    rule->factor[depth].whole = true; /* no operand has it: no tuple could say how it is split */
    add_dim(rule, depth, attr[0].i);
    rule->index_range = attr[0].i;
    return true;
}

bool rule_embedding(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin, (void)attr;
    int ndim = in[0].shape.ndim;
    if (ndim != 2) return rule_reject(error, 0, -1, "%%0 has %d dimension%s, a table of rows has 2", ndim, ndim == 1 ? "" : "s");
    factors_of_operand(rule, &in[0]);
    if (!index_dims(&in[1], 1, rule, error)) return false;
    add_dim(rule, rule->in[0][1], in[0].shape.dim[1]);
    rule->index_range = in[0].shape.dim[0];
    return true;
}

bool rule_embedding_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    int last = in[0].shape.ndim - 1;
    bool fits = in[1].shape.ndim == last;
    for (int d = 0; d < last && fits; d++)
        fits = in[0].shape.dim[d] == in[1].shape.dim[d];
    if (!fits) return rule_reject(error, 1, -1, "%%1 is no index of the rows of %%0");
    if (!size_read(attr, 0, "rows", error)) return false;
    factors_of_operand(rule, &in[0]);
    memcpy(rule->in[1], rule->in[0], sizeof *rule->in[1] * (size_t)last);
    add_dim(rule, rule_add_factor(rule, attr[0].i), attr[0].i);
    add_dim(rule, rule->in[0][last], in[0].shape.dim[last]);
    rule->index_range = attr[0].i;
    return true;
}

bool rule_cross_entropy(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    const char *reduction = attr[0].given && attr[0].text ? attr[0].text : "mean";
    bool rows = strcmp(reduction, "none") == 0;
    if (!rows && strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0)
        return rule_reject(error, -1, 0, "reduction is mean, sum or none, not %.100s", reduction);
    if (!leading_factors(&in[0], &in[1].shape, rule, error)) return false;
    if (!rows) return true;
    rule->result[0].shape = in[1].shape;
    memcpy(rule->out[0], rule->in[1], sizeof rule->out[0]);
    return true;
}

/* ---------------------------------------------------------------- what is an index of what */

bool op_only_moves(OpCode op) {
    static const OpCode movers[] = {OP_reshape, OP_transpose, OP_slice, OP_concat, OP_split, OP_replicate, OP_stop_gradient, OP_convert};
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
        if (movers[i] == op) return true;
    return false;
}

int64_t graph_index_range(const Graph *graph, int value) {
    /* reached[v]: v has elements of value. Operands come before their users, so one walk sees them all. */
    bool *reached = calloc((size_t)graph->values.n + 1, sizeof *reached);
    int64_t range = 0;
    if (!reached) return 0;
    reached[value] = true;
    for (int n = graph->values.at[value].node + 1; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        bool takes = false;
        for (int i = 0; i < node->nin; i++) {
            if (!reached[node->in[i]]) continue;
            takes = true;
            if (op_type(node->op, false, i) == 'i' && (range == 0 || node->rule->index_range < range)) range = node->rule->index_range;
        }
        for (int o = 0; takes && op_only_moves(node->op) && o < node->nout; o++)
            reached[node->out[o]] = true;
    }
    free(reached);
    return range;
}

int64_t graph_input_range(const Graph *graph, int input) {
    for (int n = 0; n < graph->nodes.n; n++)
        if (graph->nodes.at[n].op == OP_input && graph->nodes.at[n].state == input) return graph_index_range(graph, graph->nodes.at[n].out[0]);
    return 0;
}
