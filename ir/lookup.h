/* lookup: which integers of a graph are indices, and of what. lookup.c. */
#pragma once
#include "ir/graph.h"

#define INDEX_MOST (INT64_C(1) << 52) /* of a range's ends: exact as doubles, which data are drawn with */
static inline bool range_known(IndexRange range) {
    return range.begin < range.end;
}
/* Of each value the range in which its elements are valid indices, where they are used as an index, as they are or moved; computed: also where the index is
 * such an element as another integer type, chosen by where, negated, plus, minus or times a number. Numbers that all uses take, where there are any. range: a place a value. */
void graph_index_ranges(const Graph *graph, bool computed, IndexRange *range);
IndexRange graph_index_range(const Graph *graph, int value, bool computed); /* of one value */
/* Sets the index of all inputs and consts. Done once, on the graph as it is written: passes take uses away, and what an input holds must not follow them. */
void graph_find_indices(Graph *graph);
