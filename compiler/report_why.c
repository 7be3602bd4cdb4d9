/* Why each node of a program has its strategy: what explain.c says of one value, for all nodes at once. */
#include <string.h>

#include "compiler/name.h"
#include "compiler/report.h"

/* As docs/report.md numbers them. */
typedef enum {
    WHY_NONE,
    WHY_HINT,
    WHY_PROPAGATED,
    WHY_BATCH,
    WHY_OPERATOR,
    WHY_WHOLE,
    WHY_FOLLOWS,
    WHY_SEARCH,
    WHY_STATE,
} Why;

/* A strategy of nodes that are alike, which share a rule, and its text. */
typedef struct Said {
    const Rule *rule;
    const Strategy *strategy;
    int text;
} Said;

typedef struct Whys {
    PlanData *data;
    Build *b;
    VEC(Said) said;
    Map said_map;
    int *node_of; /* per node of front.chosen: the first node of the graph that is made from it; -1: none */
} Whys;

static int print_strategy(const Whys *w, const Graph *g, const Node *node, const Strategy *strategy) {
    Text text = {0};
    if (!strategy_print(&text, node, g, strategy))
        for (int i = 0; i < node->nin; i++) {
            Layout layout;
            const TensorType *type = &g->values.at[node->in[i]].type;
            strategy_in_layout(node, strategy, i, type->shape.ndim, &layout);
            text_printf(&text, "%s", i > 0 ? ", " : " on ");
            layout_print(&text, &layout, type->hidden);
        }
    const int number = table_text(&w->data->tables, text.at);
    text_finish(&text);
    return number;
}

/* The number of a strategy's text; -1: it has none. */
static int strategy_number(Whys *w, const Graph *g, const Node *node, const Strategy *strategy) {
    if (strategy == NULL || node_is_leaf(node)) return -1;
    const uint64_t hash = hash_mix(hash_mix(0, (uint64_t)(uintptr_t)node->rule), (uint64_t)(uintptr_t)strategy);
    map_each(&w->said_map, hash,
             number) if (w->said.at[number].rule == node->rule && w->said.at[number].strategy == strategy) return w->said.at[number]
        .text;
    const int text = print_strategy(w, g, node, strategy);
    map_add(w->data->tables.arena, &w->said_map, hash, w->said.n);
    vec_push(w->data->tables.arena, &w->said, ((Said){node->rule, strategy, text}));
    return text;
}

/* Whether strategies were chosen for a node: for its node of front.chosen, which is the same operator unless it was expanded. */
static bool was_chosen_for(const Build *b, int node) {
    const Graph *g = &b->sharded.graph;
    return node < g->nforward && !node_is_leaf(&g->nodes.at[node]);
}

static Why why_of(const Build *b, int id) {
    const Node *node = &b->sharded.graph.nodes.at[id];
    if (node->strategy == NULL || node_is_leaf(node)) return WHY_NONE;
    if (op_table[node->op].op_class == OP_CLASS_UPDATE) return WHY_STATE;
    if (was_chosen_for(b, id)) {
        const int chosen = chosen_of(b, id);
        node = &b->front.chosen.nodes.at[chosen];
        if (b->front.followed != NULL && b->front.followed[chosen]) return WHY_FOLLOWS;
        if (node->from == STRATEGY_PROPAGATED && b->front.propagation.decision[chosen].by_search) return WHY_SEARCH;
    }
    switch (node->from) {
    case STRATEGY_NONE:
        return WHY_NONE;
    case STRATEGY_USER:
        return WHY_HINT;
    case STRATEGY_PROPAGATED:
        return WHY_PROPAGATED;
    case STRATEGY_BATCH:
        return WHY_BATCH;
    case STRATEGY_ORIGIN:
        return WHY_OPERATOR;
    case STRATEGY_WHOLE:
        return WHY_WHOLE;
    }
    return WHY_NONE;
}

static int graph_node(const Whys *w, int chosen) {
    return chosen >= 0 ? w->node_of[chosen] : -1;
}

static void add_decision(Whys *w, ColumnTable *columns, int chosen) {
    const Graph *g = &w->b->front.chosen;
    const Decision *decision = &w->b->front.propagation.decision[chosen];
    const Alternative *at = decision->alternative;
    const int n = decision->nalternatives;
    columns_int(columns, decision->by);
    columns_int(columns, graph_node(w, decision->hint));
    columns_int(columns, graph_node(w, decision->from));
    columns_int(columns, decision->ncandidates);
    columns_list(columns);
    for (int i = 0; i < n; i++)
        columns_member(columns, strategy_number(w, g, &g->nodes.at[chosen], at[i].strategy));
    columns_list(columns);
    for (int i = 0; i < n; i++)
        columns_member(columns, at[i].bytes);
    columns_list(columns);
    for (int i = 0; i < n; i++)
        columns_member(columns, at[i].messages);
    columns_list(columns);
    for (int i = 0; i < n; i++)
        columns_member(columns, at[i].regret);
    columns_list(columns);
    for (int i = 0; i < n; i++)
        columns_member(columns, (int64_t)at[i].flops);
}

static int chosen_number(void *context, int chosen, const Strategy *strategy) {
    Whys *w = context;
    Graph *g = &w->b->front.chosen;
    return strategy_number(w, g, &g->nodes.at[chosen], graph_strategy(g, strategy));
}

static const Layout *asked_of(const Build *b, int id) {
    const Graph *g = &b->sharded.graph;
    const int like = g->nodes.at[id].micro > 0 ? g->nodes.at[id].origin : id;
    return b->front.out_layout != NULL && like < g->nforward ? b->front.out_layout[like] : NULL;
}

void report_why(PlanData *data, Build *b, const Calls *calls, const HintNumbers *hints) {
    const Graph *g = &b->sharded.graph;
    ColumnTable whys, decisions;
    Arena *arena = data->tables.arena;
    Whys w = {.data = data, .b = b, .node_of = arena_alloc(arena, sizeof *w.node_of * (size_t)(b->front.chosen.nodes.n + 1))};
    VEC(int) decided = {0}; /* nodes of front.chosen */
    int *decision = arena_alloc(arena, sizeof *decision * (size_t)(b->front.chosen.nodes.n + 1));
    memset(w.node_of, -1, sizeof *w.node_of * (size_t)(b->front.chosen.nodes.n + 1));
    memset(decision, -1, sizeof *decision * (size_t)(b->front.chosen.nodes.n + 1));
    for (int n = g->nforward - 1; n >= 0; n--)
        w.node_of[chosen_of(b, n)] = n;
    columns_init(&whys, "strategy from hint asked decision call");
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        const bool chosen = was_chosen_for(b, n);
        const int of = chosen ? chosen_of(b, n) : -1;
        const Why why = why_of(b, n);
        if (why == WHY_PROPAGATED && chosen && decision[of] < 0) {
            decision[of] = decided.n;
            vec_push(arena, &decided, of);
        }
        columns_int(&whys, strategy_number(&w, g, node, b->sharded.strategy[n]));
        columns_int(&whys, why);
        columns_int(&whys, chosen ? hint_number(hints, b->front.chosen.nodes.at[of].hint) : -1);
        columns_int(&whys, table_layout(&data->tables, asked_of(b, n)));
        columns_int(&whys, chosen ? decision[of] : -1);
        columns_int(&whys, call_around(calls, node_path(g, n)));
    }
    columns_write(&data->json, "why", &whys);
    columns_init(&decisions, "by hint from candidates strategies* bytes* messages* regret* flops*");
    for (int i = 0; i < decided.n; i++)
        add_decision(&w, &decisions, decided.at[i]);
    columns_write(&data->json, "decisions", &decisions);
    report_weighed(data, b, w.node_of, chosen_number, &w);
}
