/* rows: losses of batches whose last rows may only fill them up. The program gets an input `row_weight`, one number a row, and the loss becomes the mean
 * of the rows' losses times their weights: 0 for rows that fill up; for the others 1, or with `last = short` what makes it the mean over them. */
#include "frontend/lower.h"

#include <string.h>

static int emit(Graph *graph, OpCode op, int a, int b, const char *name, Span span) {
    const int in[2] = {a, b};
    return graph_emit(graph, op, in, 2, NULL, name, span);
}

/* The weights as a value that multiplies rows of another: the batch, and ones. */
static int weights(Lower *lower, const TensorType *type, Span span) {
    Graph *graph = lower->graph;
    int first = type->hidden ? 1 : 0;
    Input input = {.name = "row_weight", .span = span, .kind = INPUT_ROW_WEIGHT, .type = *type};
    input.type.shape.ndim = first + 1;
    int value = graph_input(graph, graph_add_input(graph, input));
    if (type->shape.ndim == first + 1) return value;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = type->shape.ndim - first}};
    for (int d = 0; d < attr[0].n; d++)
        attr[0].ints[d] = d == 0 ? type->shape.dim[first] : 1;
    return graph_emit(graph, OP_reshape, &value, 1, attr, "row_weight.rows", span);
}

/* Rows of a batch: dimension 0 of the first input that has data. */
static int64_t batch_rows(const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const TensorType *type = &graph->inputs.at[i].type;
        if (graph->inputs.at[i].kind == INPUT_DATA && type->shape.ndim > type->hidden) return type->shape.dim[(int)type->hidden];
    }
    return 0;
}

bool rows_weigh(Lower *lower, Loc loc) {
    Graph *graph = lower->graph;
    Node loss = graph->nodes.at[graph->values.at[graph->loss].node];
    Span span = loss.span;
    bool is_mse = loss.op == OP_mse, sums = loss.op == OP_sum || (is_mse && loss.attr[0].given && strcmp(loss.attr[0].text, "sum") == 0);
    const TensorType *type = &graph->values.at[loss.nin > 0 ? loss.in[0] : graph->loss].type;
    int first = type->hidden ? 1 : 0;
    bool reduces_all = (loss.op == OP_sum || loss.op == OP_mean) && !loss.attr[0].given;
    if (!(is_mse || reduces_all) || type->shape.ndim <= first || type->shape.dim[first] != batch_rows(graph)) {
        diag_error(lower->diags, span, "rows that only fill up a batch cannot be left out of this loss");
        diag_note(lower->diags, lower_span(lower, loc), "last = %s fills up the last batch", last_name[lower->graph->settings.last]);
        diag_hint(lower->diags, "a loss whose rows can be told apart is mse(..), cross_entropy(..), or the mean or sum of a tensor whose first dimension is the batch");
        return false;
    }
    int rows = loss.in[0];
    if (is_mse) {
        int difference = emit(graph, OP_sub, loss.in[0], loss.in[1], "loss.diff", span);
        graph->nodes.at[graph->values.at[difference].node].hint = loss.hint;
        rows = emit(graph, OP_mul, difference, difference, "loss.square", span);
    }
    TensorType rows_type = graph->values.at[rows].type;
    int weighted = emit(graph, OP_mul, rows, weights(lower, &rows_type, span), "loss.rows", span);
    graph->loss = graph_emit(graph, sums ? OP_sum : OP_mean, &weighted, 1, NULL, "loss", span);
    return true;
}
