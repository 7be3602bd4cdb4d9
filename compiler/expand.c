/* expand: operators along rows that their strategy splits (softmax, log_softmax, their gradients) become operators of which each can be
 * split so.
 *
 * Before: every forward operator has its strategy (propagate). After: c->chosen is the graph before this pass, with the operators that
 * strategies were chosen for. In c->graph no strategy splits a factor that has reductions: where one did, the nodes of Op.expand_split
 * stand for the operator, with the same strategy each as far as it has the dimensions; the last one has its name, its hint and what
 * gradients reuse. The values of all other nodes are the same. Where there is nothing to expand, the graph stays as it is. */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"

typedef struct Expansion {
    Graph *graph; /* being built */
    const Graph *old;
    int *value, *node; /* old id -> new id; of an expanded node the last one */
    int *first;        /* per old node: the first of the nodes that stand for it */
    VEC(int) chosen;   /* per new node: the old one */
} Expansion;

static bool splits_rows(const Rule *rule, const Strategy *strategy) {
    bool splits = false;
    for (int f = 0; strategy != NULL && f < rule->nfactors; f++)
        splits |= rule->factor[f].reductions > 0 && strategy_count(strategy, f) > 0;
    return splits;
}

/* Whether the node, of the graph that strategies were chosen for, needs to be expanded. */
static bool is_expanded(const Graph *g, int id) {
    const Node *node = &g->nodes.at[id], *origin = &g->nodes.at[node->origin];
    if (op_table[node->op].expand_split == NULL) return false;
    if (node->origin == id) return splits_rows(node->rule, node->strategy);
    Strategy strategy;
    if (origin->strategy == NULL) return false;
    strategy_from_origin(node, origin->strategy, &strategy);
    return splits_rows(node->rule, &strategy);
}

/* A node of the expansion splits its operand as the operator did, but for the dimension that it has shrunk to 1. */
static void inherit(Graph *g, Node *made, const Node *from, const Graph *old) {
    const TensorType *type = &g->values.at[made->in[0]].type, *whole = &old->values.at[from->in[0]].type;
    Strategy *strategy = arena_alloc(g->arena, sizeof *strategy);
    assert(type->shape.ndim == whole->shape.ndim);
    strategy->nfactors = made->rule->nfactors;
    for (int d = 0; d < type->shape.ndim; d++) {
        int own = made->rule->in[0][d], theirs = from->rule->in[0][d];
        if (own >= 0 && theirs >= 0 && type->shape.dim[d] == whole->shape.dim[d]) strategy_follow(strategy, own, from->strategy, theirs);
    }
    made->strategy = strategy;
    made->from = from->from;
}

/* The factors of an expanded origin, by way of its result, which is the last node's too. */
static void follow_origin(const Expansion *e, Node *node, int old_origin) {
    const Node *was = &e->old->nodes.at[old_origin], *is = &e->graph->nodes.at[node->origin];
    for (int f = 0; f < node->rule->nfactors; f++) {
        int mapped = -1;
        for (int d = 0; node->origin_factor[f] >= 0 && d < was->rule->result[0].shape.ndim; d++)
            if (was->rule->out[0][d] == node->origin_factor[f]) mapped = is->rule->out[0][d];
        node->origin_factor[f] = (int8_t)mapped;
    }
}

static void copy_node(Expansion *e, int id, Node node) {
    Graph *g = e->graph;
    int made = g->nodes.n, old_origin = node.origin;
    node.origin = old_origin == id ? made : e->node[old_origin];
    if (old_origin != id && e->first[old_origin] != e->node[old_origin]) follow_origin(e, &node, old_origin);
    for (int k = 0; k < node.nout; k++) {
        Value value = e->old->values.at[node.out[k]];
        value.node = made;
        e->value[node.out[k]] = g->values.n;
        node.out[k] = g->values.n;
        vec_push(g->arena, &g->values, value);
    }
    vec_push(g->arena, &g->nodes, node);
    e->first[id] = e->node[id] = made;
}

/* What stands for a copy of a forward node has what stands for that node as its origin. */
static void follow_forward(Expansion *e, int first, int origin, int micro) {
    for (int n = first; n < e->graph->nodes.n; n++) {
        Node *made = &e->graph->nodes.at[n];
        made->micro = micro;
        made->origin = e->first[origin] + n - first;
        for (int f = 0; f < made->rule->nfactors; f++)
            made->origin_factor[f] = (int8_t)f;
    }
}

static void expand_node(Expansion *e, int id, Node node) {
    Graph *g = e->graph;
    int first = g->nodes.n, old_origin = node.origin;
    node.origin = old_origin == id ? -1 : e->node[old_origin];
    int value = op_table[node.op].expand_split(g, &node);
    assert(g->values.at[value].node == g->nodes.n - 1);
    e->first[id] = first;
    e->node[id] = g->nodes.n - 1;
    e->value[node.out[0]] = value;
    for (int n = first; old_origin == id && n < g->nodes.n; n++)
        inherit(g, &g->nodes.at[n], &e->old->nodes.at[id], e->old);
    if (node.micro > 0) follow_forward(e, first, old_origin, node.micro);
    Node *last = &g->nodes.at[g->nodes.n - 1];
    last->hint = node.hint;
    last->name = node.name;
    g->values.at[value].name = e->old->values.at[node.out[0]].name;
}

static void expand_graph(Compilation *c) {
    Graph *g = &c->graph;
    Expansion e = {.graph = g, .old = &c->chosen};
    e.value = arena_alloc(g->arena, sizeof *e.value * (size_t)(g->values.n + 1));
    e.node = arena_alloc(g->arena, sizeof *e.node * (size_t)(g->nodes.n + 1));
    e.first = arena_alloc(g->arena, sizeof *e.first * (size_t)(g->nodes.n + 1));
    graph_reserve(g, g->nodes.n + g->nodes.n / 4, g->values.n + g->values.n / 4);
    for (int id = 0; id < c->chosen.nodes.n; id++) {
        Node node = c->chosen.nodes.at[id];
        for (int i = 0; i < node.nin; i++)
            node.in[i] = e.value[node.in[i]];
        (is_expanded(&c->chosen, id) ? expand_node : copy_node)(&e, id, node);
        while (e.chosen.n < g->nodes.n)
            vec_push(c->arena, &e.chosen, id);
        if (id + 1 == c->chosen.nforward) g->nforward = g->nodes.n;
    }
    graph_own_reports(g);
    for (int k = 0; k < graph_nreports(&c->chosen); k++)
        graph_set_report(g, k, e.value[graph_report(&c->chosen, k)]);
    const Layout **asked = arena_alloc(g->arena, sizeof *asked * (size_t)(g->nodes.n + 1));
    for (int id = 0; id < c->chosen.nodes.n; id++)
        asked[e.node[id]] = c->propagation.out_layout[id];
    c->propagation.out_layout = asked;
    c->chosen_node = e.chosen.at;
}

bool pass_expand(Compilation *c) {
    bool any = false;
    c->chosen = c->graph; /* its nodes and values stay: expanding makes new ones */
    for (int id = 0; id < c->graph.nodes.n && !any; id++)
        any = is_expanded(&c->graph, id);
    if (any) expand_graph(c);
    return true;
}
