/* indices: checks constants that are used as indices, and finds the ranges of inputs that are indices. */
#include "frontend/lower.h"

#include <inttypes.h>

#include "ir/lookup.h"

bool indices_check(Lower *lower) {
    Graph *graph = lower->graph;
    bool ok = true;
    IndexRange *ranges = arena_alloc(lower->arena, sizeof *ranges * (size_t)(graph->values.n + 1));
    graph_find_indices(graph);
    graph_index_ranges(graph, false, ranges);
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        if (node->op != OP_constant || dtype_is_float(graph->values.at[node->out[0]].type.dtype)) continue;
        int64_t range = ranges[node->out[0]].end, elements = shape_elements(&graph->values.at[node->out[0]].type.shape);
        for (int64_t i = 0; range > 0 && i < (node->data ? elements : 1); i++) {
            double index = node->data ? node->data[i] : node->attr[0].f;
            if (index >= 0 && index < (double)range) continue;
            diag_error(lower->diags, node->span, "%s is used as an index of %" PRId64 " elements, and its element %" PRId64 " is %.0f",
                       node->name, range, i, index);
            diag_hint(lower->diags, "indices are 0 to %" PRId64, range - 1);
            ok = false;
            break;
        }
    }
    return ok;
}
