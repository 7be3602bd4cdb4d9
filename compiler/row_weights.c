/* row_weights: losses of batches whose last rows may only fill them up. The program gets an input `row_weight`, one number a row, and means and sums of rows'
 * losses become those of losses times weights: 0 for rows that only fill up; 1 for the others, or with `last = short` what makes it the mean over these. */
#include "compiler/rows.h"

int weights_for(Graph *graph, int weight, const TensorType *type, Span span) {
    int first = type->hidden ? 1 : 0;
    if (type->shape.ndim == first + 1) return weight;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = type->shape.ndim - first}};
    for (int d = 0; d < attr[0].n; d++)
        attr[0].ints[d] = d == 0 ? type->shape.dim[first] : 1;
    return graph_emit(graph, OP_reshape, &weight, 1, attr, "row_weight.rows", span);
}

/* Whether the terms of a loss can be weighed; counts those that are means, as `sum(..) / batch` is. power: that of the batch's rows by
 * which the term is multiplied. */
static bool terms_count(RowLoss *loss, int value, int depth, int power) {
    const Graph *graph = loss->graph;
    const Node *node = graph_producer(graph, value);
    bool ok = true;
    switch (term_kind(loss, value, depth)) {
    case TERM_WHOLE:
        return true;
    case TERM_ROWS:
        power -= !term_sums(node);
        loss->nmeans += power == -1;
        if (counts_labels(node) && graph->values.at[value].type.hidden)
            return false; /* a replica may have no row that is there, and no mean */
        return power == 0 || power == -1 || graph->settings.last != LAST_SHORT;
    case TERM_LINEAR:
        for (int i = 0; ok && i < node->nin; i++)
            ok = terms_count(loss, node->in[i], depth + 1, power + scale_power(loss, node));
        return ok;
    case TERM_OTHER:
        return false;
    }
    return false;
}

/* The weights of the rows of a mean, or of a sum. A sum is over the rows that are there anyway: nothing is scaled for `last = short`. */
static int weight_of(RowLoss *loss, bool mean, const TensorType *type, Span span) {
    Graph *graph = loss->graph;
    if (loss->weight < 0) loss->weight = weight_input(graph, type, span);
    if (mean || graph->settings.last != LAST_SHORT) return weights_for(graph, loss->weight, type, span);
    if (loss->there < 0) {
        const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[type->dtype]}};
        int zero =
            graph_replicate(graph, graph_constant(graph, (TensorType){.dtype = type->dtype}, NULL, 0, "row_weight.zero", span), NULL, span);
        int there = emit_binary(graph, OP_greater, loss->weight, zero, "row_weight.positive", span);
        loss->there = graph_emit(graph, OP_cast, &there, 1, to, "row_weight.there", span);
    }
    return weights_for(graph, loss->there, type, span);
}

static int sum_of(Graph *graph, int value, int weight, const char *name, Span span) {
    int weighted = emit_binary(graph, OP_mul, value, weight, "loss.rows", span);
    return graph_emit(graph, OP_sum, &weighted, 1, NULL, name, span);
}

/* The loss with each row's loss multiplied by its weight. */
static int weigh(RowLoss *loss, int value, int depth, int power) {
    Graph *graph = loss->graph;
    const Node node = *graph_producer(graph, value);
    const char *name = depth == 0 ? "loss" : "loss.term";
    const TermKind kind = term_kind(loss, value, depth);
    if (kind == TERM_WHOLE) return value;
    if (kind == TERM_LINEAR) {
        int in[2];
        for (int i = 0; i < node.nin; i++)
            in[i] = weigh(loss, node.in[i], depth + 1, power + scale_power(loss, &node));
        return graph_emit(graph, node.op, in, node.nin, NULL, name, node.span);
    }
    int rows = node.in[0];
    if (node.op == OP_mse) {
        int difference = emit_binary(graph, OP_sub, node.in[0], node.in[1], "loss.diff", node.span);
        graph->nodes.at[graph->values.at[difference].node].hint = node.hint;
        rows = emit_binary(graph, OP_mul, difference, difference, "loss.square", node.span);
    }
    if (node.op == OP_cross_entropy || node.op == OP_bce_with_logits) rows = losses_each(graph, &node, "loss.row");
    const bool sums = term_sums(&node);
    const TensorType type = graph->values.at[rows].type;
    const int weight = weight_of(loss, power - !sums == -1, &type, node.span);
    if (counts_labels(&node)) {
        const int sum = sum_of(graph, rows, weight, "loss.sum", node.span);
        return emit_binary(graph, OP_div, sum, sum_of(graph, labels_kept(graph, &node, NULL), weight, "loss.labels", node.span), name,
                           node.span);
    }
    int weighted = emit_binary(graph, OP_mul, rows, weight, "loss.rows", node.span);
    return graph_emit(graph, sums ? OP_sum : OP_mean, &weighted, 1, NULL, name, node.span);
}

bool rows_weigh(Graph *graph, const LossRows *asked, Diags *diags) {
    RowLoss loss = row_loss(graph, asked, diags);
    bool ok = loss.depends[graph->loss] && terms_count(&loss, graph->loss, 0, 0);
    if (loss.reported) return false;
    if (!ok)
        return fail_rows(&loss, "rows that only fill up a batch cannot be left out of this loss",
                         arena_printf(graph->arena, "last = %s fills up the last batch", last_name[graph->settings.last]));
    if (loss.nmeans == 0) graph->settings.last = LAST_PAD; /* sums alone: weights are 1 and 0 */
    graph->loss = weigh(&loss, graph->loss, 0, 0);
    return true;
}
