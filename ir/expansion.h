/* expansion: adds the nodes that replace an operator along rows where a strategy splits the rows (norm.c, softmax.c). Each is named after the operator. */
#pragma once
#include "ir/graph.h"
#include "ir/rules.h"

/* {axes, keep_dims} of a reduction along n dimensions from `first` on. */
static inline void reduction_along(Attr attr[MAX_ATTRS], int first, int n) {
    for (int a = 0; a < MAX_ATTRS; a++)
        attr[a] = (Attr){0};
    attr[0] = (Attr){.given = true, .n = n};
    for (int d = 0; d < n; d++)
        attr[0].ints[d] = first + d;
    attr[1] = (Attr){.given = true, .i = 1};
}

/* b -1: one operand. */
static inline int expand_emit(Graph *graph, const Node *node, OpCode op, int a, int b, const Attr *attr, const char *what) {
    return graph_emit(graph, op, (int[]){a, b}, b < 0 ? 1 : 2, attr, arena_printf(graph->arena, "%s.%s", node->name, what), node->span);
}

/* Casts a value to an element type; returns the value itself where it has that type. */
static inline int expand_cast(Graph *graph, const Node *node, int value, DType dtype, const char *what) {
    const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[dtype]}};
    return graph->values.at[value].type.dtype == dtype ? value : expand_emit(graph, node, OP_cast, value, -1, to, what);
}

/* expand_emit for a gradient: parts are those of its origin (graph_emit_gradient). */
static inline int expand_emit_gradient(Graph *graph, const Node *node, int origin, OpCode op, int a, int a_part, int b, int b_part,
                                       int out_part, const Attr *attr, const char *what) {
    return graph_emit_gradient(graph, origin, op, (int[]){a, b}, (int[]){a_part, b_part}, b < 0 ? 1 : 2, out_part, attr,
                               arena_printf(graph->arena, "%s.%s", node->name, what));
}
static inline int expand_cast_gradient(Graph *graph, const Node *node, int origin, int value, int part, DType dtype, const char *what) {
    const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[dtype]}};
    if (graph->values.at[value].type.dtype == dtype) return value;
    return expand_emit_gradient(graph, node, origin, OP_cast, value, part, -1, PART_NONE, part, to, what);
}
