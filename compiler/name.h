/* name: layouts, bytes and places as people read them, in an arena. */
#pragma once
#include "ir/graph.h"

/* "[dp tp]" with the axes of the graph's mesh, parts of axes as x:(1)2; without a mesh, or if it cannot express the layout, the splits and
 * the digits: "(2, 4) [2@4 4@1]", "whole". */
const char *layout_named(Arena *arena, const Graph *graph, const Layout *layout, bool hidden);
const char *bytes_named(Arena *arena, int64_t bytes);                 /* "1.2 KiB" */
const char *bytes_named_up(Arena *arena, int64_t bytes);              /* rounded up, for what is needed */
const char *ranks_named(Arena *arena, int first, int last);           /* "rank 3", "ranks 2 to 3" */
const char *place_named(Arena *arena, const Diags *diags, Span span); /* "net.dsl:8:9", "": no place */
/* The path that a node belongs to: its own; for a gradient, that of the operator it is of; for an update, that of its parameter. */
const char *node_path(const Graph *graph, int node);
