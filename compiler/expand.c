/* expand: operators along rows that their strategy splits (softmax, log_softmax, their gradients) become operators of which each can be
 * split so.
 *
 * Before: every forward operator has its strategy (propagate). After: front.chosen is the graph before this pass, with the operators that
 * strategies were chosen for. In front.graph no strategy splits a factor that has reductions: where one did, the nodes of Op.expand_split
 * stand for the operator, with the same strategy each as far as it has the dimensions; the last one has its name, its hint and what
 * gradients reuse. The values of all other nodes are the same. Where there is nothing to expand, the graph stays as it is. */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"
#include "ir/copy.h"

typedef struct Expansion {
    GraphCopy copy;  /* of an expanded node the last one stands for it */
    int *first;      /* per old node: the first of the nodes that stand for it */
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
    const Node *was = &e->copy.from.nodes.at[old_origin], *is = &e->copy.to->nodes.at[node->origin];
    for (int f = 0; f < node->rule->nfactors; f++) {
        int mapped = -1;
        for (int d = 0; node->origin_factor[f] >= 0 && d < was->rule->result[0].shape.ndim; d++)
            if (was->rule->out[0][d] == node->origin_factor[f]) mapped = is->rule->out[0][d];
        node->origin_factor[f] = (int8_t)mapped;
    }
}

static void keep_node(Expansion *e, int id, Node node) {
    const int old_origin = node.origin, made = copy_node(&e->copy, id, node);
    if (old_origin != id && e->first[old_origin] != e->copy.node[old_origin]) follow_origin(e, &e->copy.to->nodes.at[made], old_origin);
    e->first[id] = made;
}

/* What stands for a copy of a forward node has what stands for that node as its origin. */
static void follow_forward(Expansion *e, int first, int origin, int micro) {
    for (int n = first; n < e->copy.to->nodes.n; n++) {
        Node *made = &e->copy.to->nodes.at[n];
        made->micro = micro;
        made->origin = e->first[origin] + n - first;
        for (int f = 0; f < made->rule->nfactors; f++)
            made->origin_factor[f] = (int8_t)f;
    }
}

static void expand_node(Expansion *e, int id, Node node) {
    Graph *g = e->copy.to;
    const Graph *old = &e->copy.from;
    int first = g->nodes.n, old_origin = node.origin;
    node.origin = old_origin == id ? -1 : e->copy.node[old_origin];
    int value = op_table[node.op].expand_split(g, &node);
    assert(g->values.at[value].node == g->nodes.n - 1);
    e->first[id] = first;
    copy_stands(&e->copy, id, g->nodes.n - 1);
    for (int n = first; old_origin == id && n < g->nodes.n; n++)
        inherit(g, &g->nodes.at[n], &old->nodes.at[id], old);
    if (node.micro > 0) follow_forward(e, first, old_origin, node.micro);
    Node *last = &g->nodes.at[g->nodes.n - 1];
    last->hint = node.hint;
    last->name = node.name;
    g->values.at[value].name = old->values.at[node.out[0]].name;
}

static void expand_graph(Front *front) {
    Graph *g = &front->graph;
    const Graph *old = &front->chosen;
    Expansion e = {0};
    copy_begin(&e.copy, g, g->nodes.n + g->nodes.n / 4, g->values.n + g->values.n / 4);
    e.first = arena_alloc(g->arena, sizeof *e.first * (size_t)(old->nodes.n + 1));
    for (int id = 0; id < old->nodes.n; id++) {
        (is_expanded(old, id) ? expand_node : keep_node)(&e, id, copy_operands(&e.copy, id));
        while (e.chosen.n < g->nodes.n)
            vec_push(g->arena, &e.chosen, id);
        copy_forward(&e.copy, id);
    }
    copy_reports(&e.copy);
    const Layout **asked = arena_alloc(g->arena, sizeof *asked * (size_t)(g->nodes.n + 1));
    for (int id = 0; id < old->nodes.n; id++)
        asked[e.copy.node[id]] = front->propagation.out_layout[id];
    front->out_layout = asked;
    front->chosen_node = e.chosen.at;
}

bool pass_expand(Build *b) {
    Front *front = &b->front;
    bool any = false;
    front->chosen = front->graph; /* its nodes and values stay: expanding makes new ones */
    front->out_layout = front->propagation.out_layout;
    for (int id = 0; id < front->graph.nodes.n && !any; id++)
        any = is_expanded(&front->graph, id);
    if (any) expand_graph(front);
    return true;
}
