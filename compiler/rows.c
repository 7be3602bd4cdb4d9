/* rows: writes into the graph what a net says of the rows of its batches.
 *
 * Before: the graph as the frontend lowers it, of one replica in mode data_parallel. After: its loss has weights of rows, or is reported row by row, if that is asked
 * for (row_loss.c and what it calls); each batch_norm over all replicas' rows is written out with what the replicas exchange; and of what is written to states, only that in
 * which replicas may differ is averaged over them. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/rows.h"

/* What replaces a batch_norm over all replicas' rows: from here on the net is written so, and the proof takes that as its meaning. */
static ExpandFn *over_replicas(const Graph *graph, int id) {
    const Node *node = &graph->nodes.at[id];
    const bool hidden = graph->settings.mode == MODE_DATA_PARALLEL && node->nin > 0 && graph->values.at[node->in[0]].type.hidden;
    return hidden ? op_table[node->op].expand_replicas : NULL;
}

/* ---------------------------------------------------------------- what states take of replicas */

/* What is spread over the rows of a value, by adding it to as many rows of 0. -1: nothing. */
static int spread_over_replicas(const Graph *graph, int value) {
    const Node *sum = graph_producer(graph, value), *zeros = sum->op == OP_add ? graph_producer(graph, sum->in[0]) : NULL;
    if (zeros == NULL || zeros->op != OP_constant || zeros->data != NULL || zeros->attr[0].f != 0) return -1;
    const Shape *all = &graph->values.at[value].type.shape, *row = &graph->values.at[sum->in[1]].type.shape;
    const bool fits = row->ndim == all->ndim - 1 && memcmp(row->dim, all->dim + 1, sizeof *row->dim * (size_t)row->ndim) == 0;
    return fits ? sum->in[1] : -1;
}

/* A value that is the same on all replicas, without the hidden dimension: what each was given, and what elementwise operators make of that.
 * -1: replicas may differ. plain: per value, this result; -2: not known yet. */
static int common_to_replicas(Graph *graph, int value, int *plain) {
    const Node node = *graph_producer(graph, value); /* a copy: nodes are added */
    int in[MAX_IN], *known = &plain[value];
    if (*known > -2) return *known;
    *known = -1;
    if (node.hint != NULL) return -1;
    if (node.op == OP_replicate) return *known = node.in[0];
    if (node.op == OP_expose) return *known = spread_over_replicas(graph, node.in[0]);
    if (!op_elementwise(node.op) || node.nin == 0 || node.nout != 1) return -1;
    for (int i = 0; i < node.nin; i++)
        if ((in[i] = common_to_replicas(graph, node.in[i], plain)) < 0) return -1;
    return *known = graph_emit(graph, node.op, in, node.nin, node.attr, node.name, node.span);
}

/* Leaves out the mean over replicas where a state gets what is the same on all of them. */
static void writes_of_replicas(Graph *graph) {
    const int nvalues = graph->values.n;
    int *plain = arena_alloc(graph->arena, sizeof *plain * ((size_t)nvalues + 1));
    for (int v = 0; v < nvalues; v++)
        plain[v] = -2;
    for (int i = 0; i < graph->reports.n; i++) {
        Report *report = &graph->reports.at[i];
        const Node *mean = graph_producer(graph, report->value);
        if (!report->writes || mean->op != OP_replica_sum || mean->hint != NULL) continue;
        const int common = common_to_replicas(graph, mean->in[0], plain);
        if (common >= 0) report->value = common;
    }
}

/* Finds where the batch's rows are in random numbers: where they are in the value whose shape these have. */
static void rows_of_random(Graph *graph) {
    const BatchRows *rows = NULL;
    for (int i = 0; i < graph->inputs.n; i++) {
        Input *input = &graph->inputs.at[i];
        if (input->kind != INPUT_RANDOM) continue;
        if (rows == NULL) rows = batch_rows_trace(graph, graph->arena, graph_batch_rows(graph));
        input->row_dim = rows[input->like].at + 1;
    }
}

bool pass_rows(Build *b) {
    Diags *diags = b->follows != NULL ? b->follows->diags
                                      : b->diags; /* what is wrong with an eval block is reported like all that is wrong with the net */
    Graph *graph = &b->front.graph;
    rows_of_random(graph);
    if (b->front.whole != NULL && !rows_part(graph, b->front.whole, &b->front.rows, diags)) return false;
    if (!loss_rows_apply(graph, &b->front.rows, diags)) return false;
    if (graph->settings.batch_norm_global) graph_expand(graph, over_replicas, NULL);
    if (graph->settings.mode == MODE_DATA_PARALLEL) writes_of_replicas(graph);
    return true;
}
