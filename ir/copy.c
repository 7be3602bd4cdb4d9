#include "ir/copy.h"

#include <assert.h>
#include <string.h>

#include "ir/rules.h"

/* Gives the list its own copy of its items. */
#define OWN(arena, list)                                                                                                                   \
    do {                                                                                                                                   \
        const void *shared = (list).at;                                                                                                    \
        (list).at = arena_alloc((arena), sizeof *(list).at * ((size_t)(list).n + 1));                                                      \
        (list).cap = (list).n;                                                                                                             \
        if ((list).n > 0) memcpy((list).at, shared, sizeof *(list).at *(size_t)(list).n);                                                  \
    } while (0)

void graph_derive(Graph *graph, const Graph *from, int nnodes, int nvalues) {
    *graph = *from;
    OWN(graph->arena, graph->states);
    OWN(graph->arena, graph->inputs);
    OWN(graph->arena, graph->reports);
    memset(&graph->nodes, 0, sizeof graph->nodes);
    memset(&graph->values, 0, sizeof graph->values);
    vec_reserve(graph->arena, &graph->nodes, nnodes);
    vec_reserve(graph->arena, &graph->values, nvalues);
    graph->nforward = 0;
}

void graph_copy(Graph *graph, const Graph *from) {
    graph_derive(graph, from, from->nodes.n, from->values.n);
    graph->nforward = from->nforward;
    for (int n = 0; n < from->nodes.n; n++)
        vec_push(graph->arena, &graph->nodes, from->nodes.at[n]);
    for (int v = 0; v < from->values.n; v++)
        vec_push(graph->arena, &graph->values, from->values.at[v]);
}

void graph_fork(Graph *graph, const Graph *from, Arena *arena) {
    Graph shared = *from;
    shared.arena = arena;
    graph_copy(graph, &shared);
    tables_fork(graph);
}

void graph_release(const Graph *graph) {
    arena_release(graph->arena, graph->nodes.at);
    arena_release(graph->arena, graph->values.at);
}

/* n numbers: each its own place in the list, or -1. */
static int *numbers(Arena *arena, int n, bool own) {
    int *at = arena_alloc(arena, sizeof *at * ((size_t)n + 1));
    for (int i = 0; i < n; i++)
        at[i] = own ? i : -1;
    return at;
}

void graph_over(Graph *graph, const Graph *from) {
    graph_init(graph, from->arena);
    graph->name = from->name;
    graph->file = from->file;
    graph->files = from->files;
    graph->nranks = from->nranks;
    graph->replicas = from->replicas;
    graph->settings = from->settings;
}

static void begin(GraphCopy *copy, Graph *graph, int nnodes, int nvalues, bool values_kept) {
    *copy = (GraphCopy){.to = graph, .from = *graph, .values_kept = values_kept};
    copy->node = numbers(graph->arena, copy->from.nodes.n, false);
    copy->value = numbers(graph->arena, copy->from.values.n, values_kept);
    graph_derive(graph, &copy->from, nnodes, nvalues);
}

void copy_begin(GraphCopy *copy, Graph *graph, int nnodes, int nvalues) {
    begin(copy, graph, nnodes, nvalues, false);
}

void copy_begin_nodes(GraphCopy *copy, Graph *graph, int nnodes, int nvalues) {
    begin(copy, graph, nnodes, nvalues, true);
    for (int v = 0; v < copy->from.values.n; v++)
        vec_push(graph->arena, &graph->values, copy->from.values.at[v]);
}

void copy_begin_again(GraphCopy *copy, Graph *graph) {
    *copy = (GraphCopy){.to = graph, .from = *graph};
    copy->node = numbers(graph->arena, graph->nodes.n, true);
    copy->value = numbers(graph->arena, graph->values.n, true);
}

Node copy_operands(const GraphCopy *copy, int id) {
    Node node = copy->from.nodes.at[id];
    for (int i = 0; i < node.nin; i++)
        node.in[i] = copy->value[node.in[i]];
    return node;
}

int copy_node(GraphCopy *copy, int id, Node node) {
    Graph *g = copy->to;
    const int made = g->nodes.n;
    node.origin = node.origin == id ? made : copy->node[node.origin];
    if (node.copy_of > 0) node.copy_of = copy->node[node.copy_of];
    for (int k = 0; k < node.nout; k++) {
        const int old = copy->from.nodes.at[id].out[k];
        node.out[k] = copy->values_kept ? old : g->values.n;
        if (!copy->values_kept) vec_push(g->arena, &g->values, copy->from.values.at[old]);
        g->values.at[node.out[k]].node = made;
    }
    vec_push(g->arena, &g->nodes, node);
    copy_stands(copy, id, made);
    return made;
}

void copy_expand(GraphCopy *copy, int id, const Node *node, ExpandFn *expand) {
    Graph *g = copy->to;
    const Node *old = &copy->from.nodes.at[id];
    const int first = g->values.n;
    int out[MAX_OUT];
    expand(g, node, out);
    for (int k = old->nout - 1; k >= 0; k--) { /* a value that replaces several results gets the name of the first */
        const Value *replaced = &copy->from.values.at[old->out[k]];
        Value *value = &g->values.at[out[k]];
        assert(type_equal(&value->type, &replaced->type));
        copy->value[old->out[k]] = out[k];
        if (out[k] < first) continue;
        value->name = replaced->name;
        if (value->index == 0) g->nodes.at[value->node].name = replaced->name;
    }
    assert(g->values.at[out[0]].index == 0);
    copy->node[id] = g->values.at[out[0]].node;
}

void copy_stands(GraphCopy *copy, int id, int node) {
    const Node *old = &copy->from.nodes.at[id], *now = &copy->to->nodes.at[node];
    copy->node[id] = node;
    for (int k = 0; k < old->nout; k++)
        copy->value[old->out[k]] = now->out[k];
}

void copy_forward(GraphCopy *copy, int id) {
    if (id + 1 == copy->from.nforward) copy->to->nforward = copy->to->nodes.n;
}

void copy_reports(GraphCopy *copy) {
    for (int k = 0; k < graph_nreports(&copy->from); k++)
        graph_set_report(copy->to, k, copy->value[graph_report(&copy->from, k)]);
}
