/* copies: checks that a node marked as a recomputation of another node gives the same values.
 *
 * By induction in the order of nodes: both are the same operator with the same attributes and types. Each operand of the copy is the original's operand, or the same result of a
 * node that is a copy of that operand's node, its original, or another copy of the same node. Operators are functions of their operands, so the results are equal. A reader of a
 * copy thus reads the original's value. */
#include "ir/rules.h"
#include "proof/internal.h"

static bool same_operator(const Graph *graph, const Node *copy, const Node *original) {
    bool same = copy->op == original->op && copy->nin == original->nin && copy->nout == original->nout;
    for (int a = 0; same && a < MAX_ATTRS; a++)
        same = attr_equal(&copy->attr[a], &original->attr[a]);
    for (int k = 0; same && k < copy->nout; k++)
        same = type_equal(&graph->values.at[copy->out[k]].type, &graph->values.at[original->out[k]].type);
    return same;
}

/* The original of a node that precedes the one being checked, or the node itself. Each copy names a node before it. */
static int computed_by(const Graph *graph, int node) {
    while (graph->nodes.at[node].copy_of > 0)
        node = graph->nodes.at[node].copy_of;
    return node;
}

/* Whether both are one value, or the same result of one node or its copies. */
static bool same_value(const Graph *graph, int value, int original) {
    const Value *a = &graph->values.at[value], *b = &graph->values.at[original];
    return value == original || (a->index == b->index && computed_by(graph, a->node) == computed_by(graph, b->node));
}

bool copies_check(const Graph *graph, Proof *proof, Error *error) {
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *copy = &graph->nodes.at[n];
        if (copy->copy_of == 0) continue;
        const Node *original = copy->copy_of > 0 && copy->copy_of < n ? &graph->nodes.at[copy->copy_of] : NULL;
        const char *name = copy->name ? copy->name : "";
        if (original == NULL || node_is_leaf(copy) || copy->nout == 0)
            return error_set(error, EXIT_INTERNAL, "node %d (%s) is no copy of a node before it", n, name);
        if (!same_operator(graph, copy, original))
            return error_set(error, EXIT_INTERNAL, "node %d (%s) is another operator than node %d (%s), which it computes again", n, name,
                             copy->copy_of, original->name ? original->name : "");
        for (int i = 0; i < copy->nin; i++)
            if (!same_value(graph, copy->in[i], original->in[i]))
                return error_set(error, EXIT_INTERNAL, "node %d (%s) takes %s, where node %d (%s), which it computes again, takes %s", n,
                                 name, graph->values.at[copy->in[i]].name, copy->copy_of, original->name ? original->name : "",
                                 graph->values.at[original->in[i]].name);
        proof->copies++;
    }
    return true;
}
