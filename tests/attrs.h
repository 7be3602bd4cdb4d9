/* Attributes of one node that a test may change: nodes alike share theirs. */
#pragma once
#include <string.h>

#include "ir/graph.h"

static inline Attr *own_attrs(Graph *graph, Node *node) {
    Attr *own = arena_alloc(graph->arena, sizeof *own * MAX_ATTRS);
    if (node->attr) memcpy(own, node->attr, sizeof *own * MAX_ATTRS);
    node->attr = own;
    return own;
}
