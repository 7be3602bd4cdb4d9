/* An operator with two results, of which the second is a sum over a factor that the first has: y = x * z and, of each column,
 * the sum of its elements. No row of the table is like that; tests put its rule into a product's place. */
#pragma once
#include "ir/graph.h"

/* The node's number. x, z: [rows, columns]. */
static inline int add_product_and_sum(Graph *graph, int x, int z, const char *name) {
    const int id = graph->values.at[graph_emit(graph, OP_mul, (int[]){x, z}, 2, NULL, name, (Span){0})].node;
    Node *node = &graph->nodes.at[id];
    Rule *rule = arena_alloc(graph->arena, sizeof *rule);
    *rule = *node->rule;
    rule->nout = node->nout = 2;
    rule->result[1] = (TensorType){.dtype = rule->result[0].dtype, .shape = {1, {rule->factor[1].size}}};
    rule->out[1][0] = 1;
    node->rule = rule;
    node->out[1] = graph->values.n;
    vec_push(graph->arena, &graph->values,
             ((Value){.name = arena_printf(graph->arena, "%s.sum", name), .type = rule->result[1], .node = id, .index = 1}));
    return id;
}
