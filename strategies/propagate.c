/* propagate: every forward operator gets a strategy (docs/architecture.md; MindSpore's sharding_propagation, made exact).
 *
 * Before: a verified graph with composites expanded; hints on nodes, inputs, states, the dataset. After: see strategies.h.
 *
 * Breadth-first from the hints, in program order, through operands and users; an operator is decided once, when it is first reached.
 * Where candidates tie, all ties go to the batch, or all to the first in order, whichever moves less in a step. */
#include <string.h>

#include "strategies/propagator.h"

/* ---- from the hints */

/* Decides one neighbour, unless that has been done, and queues it. */
static void reach(Propagator *p, int id, int from, int hint, int *queue, int *nqueue) {
    Node *node = &p->graph->nodes.at[id];
    if (id >= p->nnodes || node_is_leaf(node) || node->strategy) return;
    decide_best(p, id);
    decided(p, id);
    p->hint_of[id] = hint;
    if (p->result->decision) p->result->decision[id].from = from;
    queue[(*nqueue)++] = id;
}

static void walk_from_hints(Propagator *p) {
    int *queue = arena_alloc(&p->arena, (size_t)p->nnodes * sizeof *queue + 1);
    int nqueue = 0;
    for (int id = 0; id < p->nnodes; id++)
        if (p->hint_of[id] == id) queue[nqueue++] = id;
    for (int i = 0; i < nqueue; i++) {
        const Node *node = &p->graph->nodes.at[queue[i]];
        int hint = p->hint_of[queue[i]];
        int producer[MAX_IN], nproducers = 0;
        for (int k = 0; k < node->nin; k++) {
            int id = p->graph->values.at[node->in[k]].node, at = nproducers++;
            for (; at > 0 && producer[at - 1] > id; at--)
                producer[at] = producer[at - 1];
            producer[at] = id;
        }
        for (int k = 0; k < nproducers; k++)
            reach(p, producer[k], queue[i], hint, queue, &nqueue);
        for (int o = 0; o < node->nout; o++)
            for (int k = p->first_user[node->out[o]]; k < p->first_user[node->out[o] + 1]; k++)
                reach(p, p->user[k], queue[i], hint, queue, &nqueue);
    }
}
/* ---- propagate */

static void propagator_init(Propagator *p, Graph *graph, Propagation *result, Diags *diags) {
    memset(p, 0, sizeof *p);
    p->graph = graph, p->result = result, p->diags = diags;
    arena_init(&p->arena);
    p->memo = cost_memo_create(&p->arena, graph->nranks);
    p->nnodes = graph->nforward ? graph->nforward : graph->nodes.n;
    result->out_layout = arena_alloc(graph->arena, (size_t)(graph->nodes.n + 1) * sizeof *result->out_layout);
    int nvalues = graph->values.n;
    p->value_layout = arena_alloc(&p->arena, (size_t)nvalues * sizeof *p->value_layout + 1);
    p->need = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->need + 1);
    p->hint_of = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->hint_of + 1);
    p->first_user = arena_alloc(&p->arena, (size_t)(nvalues + 2) * sizeof *p->first_user);
    for (int v = 0; v < nvalues; v++)
        p->value_layout[v] = -1;
    int nuses = 0;
    for (int id = 0; id < graph->nodes.n; id++) {
        p->hint_of[id] = -1;
        for (int i = 0; i < MAX_IN; i++)
            p->need[id][i] = -1;
        if (id < p->nnodes)
            for (int i = 0; i < graph->nodes.at[id].nin; i++, nuses++)
                p->first_user[graph->nodes.at[id].in[i] + 2]++;
    }
    for (int v = 0; v < nvalues; v++)
        p->first_user[v + 2] += p->first_user[v + 1];
    p->user = arena_alloc(&p->arena, (size_t)nuses * sizeof *p->user + 1);
    p->user_operand = arena_alloc(&p->arena, (size_t)nuses * sizeof *p->user_operand + 1);
    for (int id = 0; id < p->nnodes; id++)
        for (int i = 0; i < graph->nodes.at[id].nin; i++) {
            int at = p->first_user[graph->nodes.at[id].in[i] + 1]++;
            p->user[at] = id;
            p->user_operand[at] = i;
        }
    p->batch = values_batch(graph, &p->arena);
}

/* The factor of the hidden dimension of mode data_parallel, -1: the node has none. */
static int hidden_factor(const Propagator *p, const Node *node) {
    for (int i = 0; i < node->nin; i++)
        if (value_type(p, node->in[i])->hidden) return node->rule->in[i][0];
    for (int o = 0; o < node->nout; o++)
        if (value_type(p, node->out[o])->hidden) return node->rule->out[o][0];
    return -1;
}

static bool is_sharded(const Graph *graph) {
    return graph->nranks > 1 && (graph->settings.mode == MODE_SEMI_AUTO || graph->settings.mode == MODE_AUTO);
}

/* Back to what is fixed. Whether any strategy is. */
static bool forget(Propagator *p) {
    bool any = false;
    memcpy(p->value_layout, p->leaf_layout, (size_t)p->graph->values.n * sizeof *p->value_layout);
    for (int id = 0; id < p->nnodes; id++) {
        Node *node = &p->graph->nodes.at[id];
        node->strategy = p->left_out[id] ? NULL : p->given[id];
        node->from = p->left_out[id] ? STRATEGY_NONE : p->given_from[id];
        for (int i = 0; i < node->nin; i++)
            p->need[id][i] = -1;
        const bool fixed = node->strategy && !node_is_leaf(node);
        p->hint_of[id] = fixed ? id : -1;
        any = any || fixed;
        if (p->result->decision) p->result->decision[id] = (Decision){.from = -1};
    }
    return any;
}

void fill(Propagator *p, bool batch_first) {
    Graph *graph = p->graph;
    const bool any = forget(p), sharded = is_sharded(graph);
    p->batch_first = batch_first;
    for (int id = 0; id < p->nnodes; id++)
        if (p->hint_of[id] == id) decided(p, id);
    if (any && sharded && graph->settings.mode == MODE_AUTO) walk_from_hints(p);
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        if (node_is_leaf(node) || node->strategy) continue;
        int factor = -1;
        if (graph->settings.mode == MODE_DATA_PARALLEL)
            factor = hidden_factor(p, node);
        else if (sharded)
            factor = batch_factor(graph, node, p->batch);
        decide_factor(p, id, factor, STRATEGY_BATCH);
        decided(p, id);
    }
}

/* Remembers what is fixed. Whether any strategy is. */
static bool remember(Propagator *p) {
    const size_t n = (size_t)p->graph->nodes.n + 1, nvalues = (size_t)p->graph->values.n;
    bool any = false;
    p->given = arena_alloc(&p->arena, n * sizeof *p->given);
    p->given_from = arena_alloc(&p->arena, n * sizeof *p->given_from);
    p->left_out = arena_alloc(&p->arena, n * sizeof *p->left_out);
    p->leaf_layout = arena_alloc(&p->arena, (nvalues + 1) * sizeof *p->leaf_layout);
    memcpy(p->leaf_layout, p->value_layout, nvalues * sizeof *p->leaf_layout);
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &p->graph->nodes.at[id];
        p->given[id] = node->strategy;
        p->given_from[id] = node->from;
        any = any || (node->strategy && !node_is_leaf(node));
    }
    return any;
}

/* A tie says nothing of what follows from it: of the two walks that ties can make, the one is taken that moves less in a step. */
static void fill_best(Propagator *p, bool walks) {
    fill(p, false);
    Volume first = volume_count(p), batch;
    if (walks) {
        fill(p, true);
        batch = volume_count(p);
        if (batch.bytes >= first.bytes) fill(p, false);
    }
    warn_conflicts(p);
    const bool batch_first = p->batch_first;
    if (warn_costly(p, batch_first ? batch : first)) fill(p, batch_first);
}

static bool propagate_all(Propagator *p) {
    Graph *graph = p->graph;
    const bool sharded = is_sharded(graph), well = !sharded || read_hints(p);
    if (!read_leaves(p) || !well) return false;
    const bool any = remember(p), walks = sharded && graph->settings.mode == MODE_AUTO && any;
    if (sharded && graph->settings.mode == MODE_AUTO && !any && p->diags->verbose)
        diag_note(p->diags, (Span){0}, "no operator has a strategy (shard): every operator splits its batch");
    if (sharded && any)
        fill_best(p, walks);
    else
        fill(p, false);
    return true;
}

static bool propagate_any(Graph *graph, Propagation *propagation, Diags *diags, bool explained) {
    Propagator p;
    propagator_init(&p, graph, propagation, diags);
    propagation->decision = explained ? arena_alloc(graph->arena, (size_t)(graph->nodes.n + 1) * sizeof *propagation->decision) : NULL;
    bool done = propagate_all(&p);
    for (int id = 0; explained && id < graph->nodes.n; id++)
        propagation->decision[id].hint = p.hint_of[id];
    arena_finish(&p.arena);
    return done;
}

bool propagate(Graph *graph, Propagation *propagation, Diags *diags) {
    return propagate_any(graph, propagation, diags, false);
}

bool propagate_explained(Graph *graph, Propagation *propagation, Diags *diags) {
    return propagate_any(graph, propagation, diags, true);
}
