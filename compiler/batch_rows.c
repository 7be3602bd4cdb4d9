/* batch_rows: where the rows of a batch are in each value, and whether a row depends on that row of the data alone. Operators' rules say so: what can be split along a dimension
 * without communication keeps what lies along it apart. */
#include "compiler/rows.h"

/* The dimension of a reshape's result in which the rows are, each in a run of its own as in dimension `at` of the operand; -1: in none. */
static int reshaped(const Shape *from, const Shape *to, int at, int64_t batch) {
    int64_t before = 1, passed = 1;
    for (int d = 0; d < at; d++)
        before *= from->dim[d];
    for (int d = 0; d < to->ndim && passed <= before; d++) {
        if (passed == before && to->dim[d] % batch == 0) return d;
        passed *= to->dim[d];
    }
    return -1;
}

/* The dimension of result k that runs over a factor, -1: none does. */
static int result_dim(const Graph *graph, const Node *node, int k, int factor) {
    const int ndim = graph->values.at[node->out[k]].type.shape.ndim;
    for (int d = 0; d < ndim; d++)
        if (factor >= 0 && node->rule->out[k][d] == factor) return d;
    return -1;
}

/* Whether each of so many rows is read only at its own place: they are not cut, padded or seen through windows. halo NULL: there are no windows. */
static bool sees_itself(const Halo *halo, int64_t rows) {
    return halo == NULL || (halo->of == rows && halo->stride == 1 && halo->low == 0 && halo->high == 0);
}

static BatchRows of_result(const Graph *graph, const BatchRows *rows, const Node *node, int k, int64_t batch) {
    BatchRows result = {.at = -1};
    for (int i = 0; i < node->nin; i++) {
        const BatchRows *in = &rows[node->in[i]];
        const Shape *shape = &graph->values.at[node->in[i]].type.shape;
        result.mixed = result.mixed || in->mixed;
        if (in->at < 0) continue;
        const int factor = node->rule->in[i][in->at];
        const bool reshapes = node->op == OP_reshape;
        const int at = reshapes ? reshaped(shape, &graph->values.at[node->out[k]].type.shape, in->at, batch)
                       : sees_itself(rule_halo(node->rule, i, shape->ndim, in->at), shape->dim[in->at]) ? result_dim(graph, node, k, factor)
                                                                                                        : -1;
        const bool apart = reshapes || (factor >= 0 && !factor_stays_whole(&node->rule->factor[factor]));
        if (at < 0 || !apart || (result.at >= 0 && result.at != at)) result.mixed = true; /* added up, normalized over rows, rows by rows */
        if (result.at < 0) result.at = at;
    }
    return result;
}

BatchRows *batch_rows_trace(const Graph *graph, Arena *arena, int64_t batch) {
    BatchRows *rows = arena_alloc(arena, sizeof *rows * ((size_t)graph->values.n + 1));
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        for (int k = 0; k < node->nout; k++) {
            const TensorType *type = &graph->values.at[node->out[k]].type;
            const int first = type->hidden ? 1 : 0;
            const bool leads = type->shape.ndim > first && type->shape.dim[first] == batch;
            BatchRows *result = &rows[node->out[k]];
            if (node->op == OP_input && graph->inputs.at[node->state].kind == INPUT_RANDOM)
                *result = (BatchRows){.at = rows[graph->inputs.at[node->state].like].at};
            else if (node->op == OP_input)
                *result = (BatchRows){.at = leads ? first : -1};
            else
                *result = of_result(graph, rows, node, k, batch);
            if (batch > 1) continue;
            result->mixed = false; /* one row depends on no other */
            if (result->at < 0 && leads) result->at = first;
        }
    }
    return rows;
}
