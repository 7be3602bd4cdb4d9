/* rows: what a net says of the rows of its batches becomes what it computes.
 *
 * Before: the graph as the frontend lowers it, of one replica in mode data_parallel. After: its loss has weights of rows, or is reported row by row, where that is asked
 * for (row_loss.c and what it calls), and each batch_norm over all replicas' rows is written with what the replicas exchange. */
#include "compiler/compiler.h"
#include "compiler/rows.h"

/* What stands for a batch_norm over all replicas' rows: from here on the net is written so, which the proof takes as what it says. */
static ExpandFn *over_replicas(const Graph *graph, int id) {
    const Node *node = &graph->nodes.at[id];
    const bool hidden = graph->settings.mode == MODE_DATA_PARALLEL && node->nin > 0 && graph->values.at[node->in[0]].type.hidden;
    return hidden ? op_table[node->op].expand_replicas : NULL;
}

bool pass_rows(Build *b) {
    Diags *diags = b->follows != NULL ? b->follows->diags
                                      : b->diags; /* what is wrong with an eval block is reported like all that is wrong with the net */
    Graph *graph = &b->front.graph;
    if (b->front.whole != NULL && !rows_part(graph, b->front.whole, &b->front.rows, diags)) return false;
    if (!loss_rows_apply(graph, &b->front.rows, diags)) return false;
    if (graph->settings.batch_norm_global) graph_expand(graph, over_replicas, NULL);
    return true;
}
