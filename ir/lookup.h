/* lookup: which integers of a graph are indices, and their ranges. lookup.c. */
#pragma once
#include "ir/graph.h"

#define INDEX_MOST (INT64_C(1) << 52) /* limit of a range's ends: exact in doubles, with which data are drawn */
static inline bool range_known(IndexRange range) {
    return range.begin < range.end;
}
/* Finds for each value the range in which its elements are valid indices, where they are used as an index unchanged or moved. computed: also where the index is
 * an element cast to another integer type, chosen by where, negated, or plus, minus or times a number. The range suits all uses, if one does. range: an entry per value. */
void graph_index_ranges(const Graph *graph, bool computed, IndexRange *range);
IndexRange graph_index_range(const Graph *graph, int value, bool computed); /* of one value */
/* Sets the index range of all inputs and consts. Done once, on the graph as written: passes remove uses, and that must not change the contents of an input. */
void graph_find_indices(Graph *graph);
