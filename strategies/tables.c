/* tables: embedding tables that are updated by the rows that occur; only those rows of their gradients are exchanged. */
#include "strategies/strategies.h"

bool *states_by_rows(const Graph *graph, Arena *arena) {
    bool *by_rows = arena_alloc(arena, (size_t)graph->states.n + 1);
    for (int n = graph_nforward(graph); n < graph->nodes.n; n++)
        if (op_updates_rows(graph->nodes.at[n].op)) by_rows[graph_producer(graph, graph->nodes.at[n].in[0])->state] = true;
    return by_rows;
}

void rows_of_table(const Layout *table, int ndim, Layout *rows) {
    layout_init(rows, ndim);
    for (int i = 0; i < layout_count(table, 1); i++)
        layout_append(rows, ndim - 1, layout_list(table, 1)[i]);
}
