/* expand: replaces operators by the nodes of a template (Op.expand, Op.expand_split): composites before autodiff; as pass `expand`, once strategies are chosen, operators
 * along rows that their strategy splits (softmax, log_softmax, their gradients), and OP_split along an axis that is split.
 *
 * Before the pass: every forward operator has its strategy (propagate). After: front.chosen is the graph before this pass, with the operators that
 * strategies were chosen for. In front.graph no strategy splits a factor that expands: where one did, the nodes of Op.expand_split
 * stand for the operator, each split as its operands lie; the node of the first result has the operator's hint and is what
 * gradients reuse. The values of all other nodes are the same. Where there is nothing to expand, the graph stays as it is. */
#include <assert.h>
#include <string.h>

#include "compiler/sharded.h"
#include "ir/copy.h"

/* ---------------------------------------------------------------- any graph */

typedef struct Expansion {
    GraphCopy copy;
    int *first;      /* per old node: the first of the nodes that its template made; -1: it stays as it is */
    VEC(int) origin; /* per new node: the old one */
} Expansion;

/* How operand k of a node of the template lies: like an operand of the operator, or like the result of the template's node that makes it. A value that is several operands of
 * both is each of the operator's in turn. False: a leaf makes it. */
static bool operand_lies(const Graph *g, const Node *old, const Node *node, const Node *made, int k, Layout *layout) {
    const int value = made->in[k], ndim = g->values.at[value].type.shape.ndim;
    const Node *maker = graph_producer(g, value);
    int operand = -1, before = 0;
    for (int i = 0; i < k; i++)
        before += made->in[i] == value;
    for (int i = 0; i < node->nin && before >= 0; i++)
        if (node->in[i] == value) {
            operand = i;
            before--;
        }
    if (operand >= 0) {
        strategy_in_layout(old, old->strategy, operand, ndim, layout);
        return true;
    }
    if (node_is_leaf(maker)) return false;
    strategy_out_layout(maker, maker->strategy, g->values.at[value].index, ndim, layout);
    return true;
}

/* Splits a node of the template as its operands lie, except leaves: each factor as in the first operand that has it. */
static void inherit(Graph *g, Node *made, const Node *old, const Node *node) {
    Strategy strategy = {.nfactors = made->rule->nfactors};
    bool seen[MAX_FACTORS] = {false}, fits = true;
    for (int i = 0; i < made->nin; i++) {
        Layout layout;
        Strategy own;
        if (!operand_lies(g, old, node, made, i, &layout)) continue;
        fits = fits && strategy_of(made, made->rule->in[i], &layout, &own);
        for (int f = 0; fits && f < made->rule->nfactors; f++) {
            if (!rule_in_has(made->rule, i, layout.ndim, f) || seen[f]) continue;
            strategy_follow(&strategy, f, &own, f);
            seen[f] = true;
        }
    }
    assert(fits);
    (void)fits;
    made->strategy = graph_strategy(g, &strategy);
    made->from = old->from;
}

/* Maps origin factors to those of an expanded origin, through its first result. */
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
    if (old_origin != id && e->first[old_origin] >= 0) follow_origin(e, &e->copy.to->nodes.at[made], old_origin);
}

/* Makes the nodes that stand for a forward node the origins of those that stand for a copy of it. */
static void follow_forward(Expansion *e, int first, int origin, int micro) {
    for (int n = first; n < e->copy.to->nodes.n; n++) {
        Node *made = &e->copy.to->nodes.at[n];
        made->micro = micro;
        made->origin = e->first[origin] + n - first;
        for (int f = 0; f < made->rule->nfactors; f++)
            made->origin_factor[f] = (int8_t)f;
    }
}

static void expand_node(Expansion *e, int id, Node node, ExpandFn *expand) {
    Graph *g = e->copy.to;
    const Node *old = &e->copy.from.nodes.at[id];
    const int first = e->first[id] = g->nodes.n;
    node.origin = old->origin == id ? -1 : e->copy.node[old->origin];
    copy_expand(&e->copy, id, &node, expand);
    for (int n = first; n < g->nodes.n; n++)
        if (!node_is_leaf(&g->nodes.at[n])) {
            g->nodes.at[n].recompute = old->recompute;
            g->nodes.at[n].regather = old->regather;
            g->nodes.at[n].stage = old->stage;
            g->nodes.at[n].asked = old->asked;
        }
    for (int n = first; old->origin == id && old->strategy != NULL && n < g->nodes.n; n++)
        if (!node_is_leaf(&g->nodes.at[n])) inherit(g, &g->nodes.at[n], old, &node);
    if (node.micro > 0) follow_forward(e, first, old->origin, node.micro);
    if (e->copy.node[id] >= first) g->nodes.at[e->copy.node[id]].hint = node.hint;
}

bool graph_expand(Graph *graph, TemplateFn *template_of, Expanded *expanded) {
    Expansion e = {0};
    int nexpanded = 0;
    for (int id = 0; id < graph->nodes.n; id++)
        nexpanded += template_of(graph, id) != NULL;
    if (nexpanded == 0) return false;
    copy_begin(&e.copy, graph, graph->nodes.n + 8 * nexpanded, graph->values.n + 8 * nexpanded);
    const Graph *old = &e.copy.from;
    e.first = arena_alloc(graph->arena, sizeof *e.first * (size_t)(old->nodes.n + 1));
    for (int id = 0; id < old->nodes.n; id++) {
        ExpandFn *expand = template_of(old, id);
        const Node node = copy_operands(&e.copy, id);
        e.first[id] = -1;
        if (expand != NULL)
            expand_node(&e, id, node, expand);
        else
            keep_node(&e, id, node);
        while (e.origin.n < graph->nodes.n)
            vec_push(graph->arena, &e.origin, id);
        copy_forward(&e.copy, id);
    }
    copy_reports(&e.copy);
    if (expanded != NULL) *expanded = (Expanded){.node = e.copy.node, .origin = e.origin.at};
    return true;
}

/* ---------------------------------------------------------------- factors that expand, and are split */

static bool splits_whole(const Rule *rule, const Strategy *strategy) {
    bool splits = false;
    for (int f = 0; strategy != NULL && f < rule->nfactors; f++)
        splits |= rule->factor[f].expands && strategy_count(strategy, f) > 0;
    return splits;
}

/* The template of a node of which a factor that kernels need whole is split, else NULL; for a gradient the origin's factors count. */
static ExpandFn *of_split_rows(const Graph *g, int id) {
    const Node *node = &g->nodes.at[id], *origin = &g->nodes.at[node->origin];
    ExpandFn *expand = op_table[node->op].expand_split;
    return expand != NULL && splits_whole(origin->rule, origin->strategy) ? expand : NULL;
}

bool pass_expand(Build *b) {
    Front *front = &b->front;
    Expanded expanded;
    front->chosen = front->graph; /* its nodes and values stay: expanding makes new ones */
    front->out_layout = front->propagation.out_layout;
    if (!graph_expand(&front->graph, of_split_rows, &expanded)) return true;
    const Layout **asked = arena_alloc(b->arena, sizeof *asked * (size_t)(front->graph.nodes.n + 1));
    for (int id = 0; id < front->chosen.nodes.n; id++)
        if (front->propagation.out_layout[id] != NULL) asked[expanded.node[id]] = front->propagation.out_layout[id];
    front->out_layout = asked;
    front->chosen_node = expanded.origin;
    return true;
}
