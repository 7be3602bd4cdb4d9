/* lookup: rules of operators that look elements up by an index; finds the inputs and consts that hold indices, and their ranges. */
#include "ir/lookup.h"
#include "ir/rules.h"

#include <inttypes.h>
#include <math.h>
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
        return rule_reject(error, 1, -1, "%%1 is %s, needs %s: an index for each row of %%0", shape_text(index, own),
                           shape_text(&leading, wanted));
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
    looked_up(rule, rule->in[0][in[1].shape.ndim]);
    return true;
}

/* Reads an attribute that is a size. */
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
    add_dim(rule, looked_up(rule, rule_add_factor(rule, attr[0].i)), attr[0].i);
    rule->index_range = attr[0].i;
    return true;
}

bool rule_cross_entropy_rows(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin, (void)attr;
    if (!leading_factors(&in[0], &in[1].shape, rule, error)) return false;
    const int last = in[1].shape.ndim;
    rule_expands(rule, rule->in[0][last], 3); /* the largest, the sum of exponentials, the one at the label */
    for (int o = 0; o < 3; o++) {
        rule->result[o].shape = in[1].shape;
        if (o > 0) rule->result[o].shape.dim[rule->result[o].shape.ndim++] = 1;
        memcpy(rule->out[o], rule->in[1], sizeof rule->out[o]);
    }
    return true;
}

bool rule_cross_entropy_rows_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)attr;
    if (!leading_factors(&in[0], &in[1].shape, rule, error)) return false;
    for (int i = 2; i < nin; i++) {
        Shape rows = in[1].shape;
        if (i > 2) rows.dim[rows.ndim++] = 1;
        if (!shape_equal(&in[i].shape, &rows)) return rule_reject(error, i, -1, "%%%d has not one number for each row of %%0", i);
        memcpy(rule->in[i], rule->in[1], sizeof rule->in[i]);
    }
    rule->result[0] = in[0];
    memcpy(rule->out[0], rule->in[0], sizeof rule->out[0]);
    return true;
}

bool rule_first(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    int ndim = in[0].shape.ndim;
    int64_t axis = !attr[0].given ? ndim - 1 : attr[0].i < 0 ? attr[0].i + ndim : attr[0].i;
    if (axis < 0 || axis >= ndim)
        return rule_reject(error, -1, 0, "axis %" PRId64 " is out of range: %%0 has %d dimension%s", attr[0].given ? attr[0].i : -1, ndim,
                           ndim == 1 ? "" : "s");
    if (in[0].shape.dim[axis] > INT32_MAX)
        return rule_reject(error, 0, 0, "indices of %" PRId64 " elements do not fit i32", in[0].shape.dim[axis]);
    factors_of_operand(rule, &in[0]);
    for (int d = 0; d < ndim; d++)
        if (d != axis) add_dim(rule, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}

/* Makes the dimensions of an index the result's first ones; false: the result has too many. */
static bool index_dims(const TensorType *index, int operand, Rule *rule, RuleError *error) {
    if (index->shape.ndim == MAX_USER_NDIM)
        return rule_reject(error, operand, -1, "the result would have more than %d dimensions", MAX_USER_NDIM);
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
    rule->factor[depth].whole = true; /* no operand has it, so no tuple of a strategy could split it */
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
    looked_up(rule, rule->in[0][0]);
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
    add_dim(rule, looked_up(rule, rule_add_factor(rule, attr[0].i)), attr[0].i);
    add_dim(rule, rule->in[0][last], in[0].shape.dim[last]);
    rule->index_range = attr[0].i;
    return true;
}

/* w, its slots, g [.., d], index [..], numbers -> w and its slots. Indices are whole: each row is updated once, with all its gradients. */
static bool table_update(const TensorType *in, int nin, int g, Rule *rule, RuleError *error) {
    const Shape *w = &in[0].shape, *rows = &in[g].shape, *index = &in[g + 1].shape;
    if (w->ndim != 2) return rule_reject(error, 0, -1, "%%0 has %d dimension%s, a table of rows has 2", w->ndim, w->ndim == 1 ? "" : "s");
    for (int i = 1; i < g; i++)
        if (!shape_equal(&in[i].shape, w)) return rule_reject(error, i, -1, "%%%d is of another shape than %%0", i);
    bool fits = rows->ndim == index->ndim + 1 && rows->dim[index->ndim] == w->dim[1];
    for (int d = 0; d < index->ndim && fits; d++)
        fits = rows->dim[d] == index->dim[d];
    if (!fits) return rule_reject(error, g + 1, -1, "%%%d is no index of the rows %%%d of %%0", g + 1, g);
    for (int i = g + 2; i < nin; i++)
        if (in[i].shape.ndim > 0) return rule_reject(error, i, -1, "%%%d is not a single number", i);
    factors_of_operand(rule, &in[0]);
    for (int i = 1; i < g; i++)
        memcpy(rule->in[i], rule->in[0], sizeof rule->in[0]);
    rule->in[g][index->ndim] = rule->in[0][1];
    looked_up(rule, rule->in[0][0]);
    rule->depth = shape_elements(index);
    for (int o = 0; o < g; o++) {
        rule->result[o] = in[o];
        memcpy(rule->out[o], rule->in[0], sizeof rule->in[0]);
    }
    rule->index_range = w->dim[0];
    return true;
}

bool rule_embedding_sgd(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)attr;
    return table_update(in, nin, 1, rule, error);
}

bool rule_lazy_adam(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)attr;
    return table_update(in, nin, 3, rule, error);
}

bool rule_cross_entropy(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    const char *reduction = attr[0].given && attr[0].text ? attr[0].text : "mean";
    bool rows = strcmp(reduction, "none") == 0;
    if (!rows && strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0)
        return rule_reject(error, -1, 0, "reduction is mean, sum or none, not %.100s", reduction);
    if (attr[2].given && !(attr[2].f >= 0 && attr[2].f <= 1))
        return rule_reject(error, -1, 2, "label_smoothing is %g, not from 0 to 1", attr[2].f);
    if (attr[1].given && in[1].dtype == I32 && (attr[1].i < INT32_MIN || attr[1].i > INT32_MAX))
        return rule_reject(error, -1, 1, "ignore_index is no i32, which the labels %%1 are");
    if (!leading_factors(&in[0], &in[1].shape, rule, error)) return false;
    if (!rows) return true;
    rule->result[0].shape = in[1].shape;
    memcpy(rule->out[0], rule->in[1], sizeof rule->out[0]);
    return true;
}

/* ---------------------------------------------------------------- what is an index of what */

/* The intersection of both ranges; where it is empty, the first one. */
static IndexRange range_join(IndexRange a, IndexRange b) {
    if (!range_known(a) || !range_known(b)) return range_known(a) ? a : b;
    const IndexRange both = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    return range_known(both) ? both : a;
}

static IndexRange range_negated(IndexRange range) {
    return range_known(range) ? (IndexRange){1 - range.end, 1 - range.begin} : range;
}

/* The range of x for which x + addend is in the range. */
static IndexRange range_less(IndexRange range, int64_t addend) {
    const IndexRange less = {range.begin - addend, range.end - addend};
    const bool fits = range_known(range) && less.begin >= -INDEX_MOST && less.end <= INDEX_MOST;
    return fits ? less : (IndexRange){0};
}

static int64_t divided_down(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* The range of x for which x * factor is in the range. */
static IndexRange range_divided(IndexRange range, int64_t factor) {
    if (factor < 0) return range_divided(range_negated(range), -factor);
    if (factor == 0 || !range_known(range)) return (IndexRange){0};
    return (IndexRange){-divided_down(-range.begin, factor), divided_down(range.end - 1, factor) + 1};
}

static bool is_integer(DType dtype) {
    return dtype == I32 || dtype == I64;
}

/* Whether all elements of an integer value are the same known number. */
static bool is_number(const Graph *graph, int value, int64_t *number) {
    const Node *node = graph_producer(graph, value);
    while (node->nin == 1 && op_only_moves(node->op))
        node = graph_producer(graph, node->in[0]);
    if (node->op != OP_constant) return false;
    const double first = node->data ? node->data[0] : node->attr[0].f;
    for (int64_t i = 0, n = node->data ? shape_elements(&graph->values.at[node->out[0]].type.shape) : 0; i < n; i++)
        if (node->data[i] != first) return false;
    if (!(fabs(first) <= (double)INDEX_MOST)) return false;
    *number = (int64_t)first;
    return true;
}

/* The range of an operand of a sum, difference or product with a known number, from the range of the result. */
static IndexRange range_of_operand(const Graph *graph, const Node *node, int operand, IndexRange result) {
    int64_t number;
    if (node->op == OP_neg) return range_negated(result);
    if (node->op != OP_add && node->op != OP_sub && node->op != OP_mul) return (IndexRange){0};
    if (!is_number(graph, node->in[1 - operand], &number)) return (IndexRange){0};
    if (node->op == OP_mul) return range_divided(result, number);
    if (node->op == OP_add) return range_less(result, number);
    return operand == 0 ? range_less(result, -number) : range_negated(range_less(result, number));
}

/* The range that one user of a value requires of its elements. */
static IndexRange range_of_use(const Graph *graph, const Node *node, int operand, bool computed, const IndexRange *range) {
    const bool ignores = node->op == OP_cross_entropy && node->attr[1].given; /* some labels are no indices */
    if (op_type(node->op, false, operand) == 'i') return ignores && !computed ? (IndexRange){0} : (IndexRange){0, node->rule->index_range};
    const IndexRange result = node->nout > 0 ? range[node->out[0]] : (IndexRange){0};
    if (op_only_moves(node->op)) {
        IndexRange all = result;
        for (int o = 1; o < node->nout; o++)
            all = range_join(all, range[node->out[o]]);
        return all;
    }
    if (!computed) return (IndexRange){0};
    if (node->op == OP_where) return result; /* holds for both choices; the condition is no integer */
    if (node->op == OP_cast) return is_integer(graph->values.at[node->in[0]].type.dtype) ? result : (IndexRange){0};
    return range_of_operand(graph, node, operand, result);
}

void graph_index_ranges(const Graph *graph, bool computed, IndexRange *range) {
    memset(range, 0, sizeof *range * (size_t)graph->values.n);
    /* Operands come before their users, so one walk back sees all of them. */
    for (int n = graph->nodes.n - 1; n >= 0; n--) {
        const Node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->nin; i++) {
            const DType dtype = graph->values.at[node->in[i]].type.dtype;
            IndexRange use = is_integer(dtype) ? range_of_use(graph, node, i, computed, range) : (IndexRange){0};
            if (dtype == I32 && range_known(use))
                use = (IndexRange){use.begin > INT32_MIN ? use.begin : INT32_MIN, use.end <= INT32_MAX ? use.end : INT64_C(1) + INT32_MAX};
            range[node->in[i]] = range_join(range[node->in[i]], use);
        }
    }
}

IndexRange graph_index_range(const Graph *graph, int value, bool computed) {
    Arena arena;
    arena_init(&arena);
    IndexRange *range = arena_alloc(&arena, sizeof *range * (size_t)graph->values.n);
    graph_index_ranges(graph, computed, range);
    const IndexRange found = range[value];
    arena_finish(&arena);
    return found;
}

void graph_find_indices(Graph *graph) {
    Arena arena;
    arena_init(&arena);
    IndexRange *range = arena_alloc(&arena, sizeof *range * (size_t)(graph->values.n + 1));
    graph_index_ranges(graph, true, range);
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        if (node->op == OP_input) graph->inputs.at[node->state].index = range[node->out[0]];
        if (node->op == OP_read && state_is_const(&graph->states.at[node->state]))
            graph->states.at[node->state].index = range[node->out[0]];
    }
    arena_finish(&arena);
}
