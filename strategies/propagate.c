/* propagate: every forward operator gets a strategy (docs/architecture.md; MindSpore's sharding_propagation, made exact).
 *
 * Before: a verified graph with composites expanded; hints on nodes, inputs, states, the dataset. After: see strategies.h.
 *
 * There are two starting points: the hints spread to all operators that are connected with them; or every operator without a hint splits its batch. Where hints have their digits
 * in another order than that of the letters, there are two more: the same with operators split in the hints' order. From each, one operator after another takes the strategy that
 * costs least beside its neighbours, until none improves. The cheapest result is taken. */
#include <string.h>

#include "strategies/propagator.h"

/* ---- walks from the hints */

/* DECIDE: decides operators next to decided ones. FIT, ANY: a hint that reaches an operator also reaches the operators next to it; with FIT
 * only where nothing is converted between the two. */
typedef enum { DECIDE, FIT, ANY } Sweep;

static bool is_known(const Propagator *p, int id, Sweep sweep) {
    return sweep == DECIDE ? p->chosen[id] != NULL : p->hint_of[id] >= 0;
}

static bool leads(const Propagator *p, int from, int value, int user, int operand, Sweep sweep) {
    return is_known(p, from, sweep) && (sweep != FIT || value_home(p, value) == cost_layout_parts(p->memo, p->chosen[user]->need[operand]));
}

static int known_producer(const Propagator *p, int id, Sweep sweep) {
    const Node *node = &p->graph->nodes.at[id];
    for (int i = 0; i < node->nin; i++)
        if (leads(p, p->graph->values.at[node->in[i]].node, node->in[i], id, i, sweep)) return p->graph->values.at[node->in[i]].node;
    return -1;
}

static int known_user(const Propagator *p, int id, Sweep sweep) {
    const Node *node = &p->graph->nodes.at[id];
    for (int o = 0; o < node->nout; o++)
        for (int k = p->first_user[node->out[o]]; k < p->first_user[node->out[o] + 1]; k++)
            if (leads(p, p->user[k], node->out[o], p->user[k], p->user_operand[k], sweep)) return p->user[k];
    return -1;
}

static bool reach(Propagator *p, int id, int from, Sweep sweep, Prefer prefer) {
    if (from < 0) return false;
    if (sweep == DECIDE) {
        decide_best(p, id, prefer);
        return true;
    }
    p->hint_of[id] = p->hint_of[from];
    p->apart[id] = sweep == ANY;
    p->graph->nodes.at[id].from = STRATEGY_PROPAGATED;
    if (p->result->decision) p->result->decision[id].from = from;
    return true;
}

/* Goes with the flow first, so that an operator is reached once its operands are, then against it. */
static void sweep_from_hints(Propagator *p, Sweep sweep) {
    for (bool more = true; more;) {
        more = false;
        for (int id = 0; id < p->nnodes; id++)
            if (!is_known(p, id, sweep) && !node_is_leaf(&p->graph->nodes.at[id]))
                more = reach(p, id, known_producer(p, id, sweep), sweep, PREFER_OPERANDS) || more;
        for (int id = p->nnodes - 1; id >= 0; id--)
            if (!is_known(p, id, sweep) && !node_is_leaf(&p->graph->nodes.at[id]))
                more = reach(p, id, known_user(p, id, sweep), sweep, PREFER_USERS) || more;
    }
}

static bool is_sharded(const Graph *graph) {
    return graph->nranks > 1 && (graph->settings.mode == MODE_SEMI_AUTO || graph->settings.mode == MODE_AUTO);
}

static bool is_auto(const Graph *graph) {
    return graph->nranks > 1 && graph->settings.mode == MODE_AUTO;
}

/* Whether the batch can be split over all ranks. */
static bool batch_fills(const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (!input_is_of_batch(input->kind) || input->type.shape.ndim == 0) continue;
        const Factor batch = {.size = input->type.shape.dim[0]};
        if (split_largest(&batch, graph->nranks, graph->settings.strict_divide) < graph->nranks) return false;
    }
    return true;
}

/* The factor of the hidden dimension, -1: the node has none. */
static int hidden_factor(const Propagator *p, const Node *node) {
    for (int i = 0; i < node->nin; i++)
        if (value_type(p, node->in[i])->hidden) return node->rule->in[i][0];
    for (int o = 0; o < node->nout; o++)
        if (value_type(p, node->out[o])->hidden) return node->rule->out[o][0];
    return -1;
}

/* ---- the state */

static void propagator_init(Propagator *p, Graph *graph, Propagation *result, Diags *diags) {
    memset(p, 0, sizeof *p);
    p->graph = graph, p->result = result, p->diags = diags;
    arena_init(&p->arena);
    p->memo = cost_memo_create(&p->arena, graph->nranks);
    p->nnodes = graph_nforward(graph);
    result->out_layout = arena_alloc(graph->arena, (size_t)(graph->nodes.n + 1) * sizeof *result->out_layout);
    int nvalues = graph->values.n;
    p->fixed_layout = arena_alloc(&p->arena, (size_t)nvalues * sizeof *p->fixed_layout + 1);
    p->chosen = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->chosen + 1);
    p->hint_of = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->hint_of + 1);
    p->apart = arena_alloc(&p->arena, (size_t)graph->nodes.n * sizeof *p->apart + 1);
    p->first_user = arena_alloc(&p->arena, (size_t)(nvalues + 2) * sizeof *p->first_user);
    for (int v = 0; v < nvalues; v++)
        p->fixed_layout[v] = -1;
    int nuses = 0;
    for (int id = 0; id < graph->nodes.n; id++) {
        p->hint_of[id] = -1;
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
    p->active = graph_active(graph, &p->arena);
    p->by_rows = arena_alloc(&p->arena, (size_t)nvalues + 1);
    const bool *states = states_by_rows(graph, &p->arena);
    for (int id = 0; id < p->nnodes; id++)
        if (graph->nodes.at[id].op == OP_read) p->by_rows[graph->nodes.at[id].out[0]] = states[graph->nodes.at[id].state];
}

/* Modes manual and data_parallel: an operator on the values of all replicas lies as its operands do. A factor lies as in the first operand
 * that has it. */
static void decide_as_operands(Propagator *p, int id) {
    const Graph *graph = p->graph;
    const Node *node = &graph->nodes.at[id];
    const Rule *rule = node->rule;
    Strategy strategy = {.nfactors = rule->nfactors};
    bool seen[MAX_FACTORS] = {false}, split = false;
    for (int i = 0; i < node->nin; i++) {
        const Node *maker = graph_producer(graph, node->in[i]);
        Layout layout;
        if (node_is_leaf(maker)) continue;
        strategy_out_layout(maker, maker->strategy, graph->values.at[node->in[i]].index, value_type(p, node->in[i])->shape.ndim, &layout);
        for (int d = 0; d < layout.ndim; d++) {
            const int f = rule->in[i][d], n = layout_count(&layout, d);
            if (n == 0 || f < 0 || seen[f] || split || rule->factor[f].whole) continue;
            if (rule->factor[f].size % layout_split(&layout, d) != 0) continue;
            for (int k = 0; k < n; k++)
                strategy_append(&strategy, f, layout_list(&layout, d)[k]);
            seen[f] = split = true;
        }
    }
    decided(p, id, candidate_of(p, node, graph_strategy(p->graph, &strategy)), split ? STRATEGY_BATCH : STRATEGY_WHOLE);
}

/* Nodes without a strategy split their batch. */
static void split_batches(Propagator *p) {
    const Graph *graph = p->graph;
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        if (p->chosen[id] || node_is_leaf(node)) continue;
        const bool hides = mode_hides(graph->settings.mode);
        if (hides && hidden_factor(p, node) < 0)
            decide_as_operands(p, id);
        else if (hides)
            decide_factor(p, id, hidden_factor(p, node), STRATEGY_BATCH);
        else
            decide_factor(p, id, is_sharded(graph) ? batch_factor(graph, node, p->batch) : -1, STRATEGY_BATCH);
    }
}

/* ---- improvement */

enum { MAX_ROUNDS = 16 };

static bool improve_one(Propagator *p, int id, Prefer prefer) {
    if (!p->chosen[id] || (p->given[id] && !p->left_out[id])) return false;
    return decide_best(p, id, prefer);
}

/* Each operator takes what is best beside its neighbours, with the flow and against it, until none improves. */
static void improve(Propagator *p) {
    bool better = true;
    for (int round = 0; round < MAX_ROUNDS && better; round++) {
        better = false;
        for (int id = 0; id < p->nnodes; id++)
            better = improve_one(p, id, PREFER_OPERANDS) || better;
        for (int id = p->nnodes - 1; id >= 0; id--)
            better = improve_one(p, id, PREFER_USERS) || better;
    }
}

/* Returns to the given strategies. */
static void forget(Propagator *p) {
    p->hinted = false;
    for (int id = 0; id < p->nnodes; id++) {
        Node *node = &p->graph->nodes.at[id];
        const bool fixed = p->given[id] && !p->left_out[id];
        node->strategy = fixed ? p->given[id] : NULL;
        node->from = fixed ? p->given_from[id] : STRATEGY_NONE;
        p->chosen[id] = fixed && !node_is_leaf(node) ? candidate_of(p, node, p->given[id]) : NULL;
        p->hint_of[id] = p->chosen[id] ? id : -1;
        p->apart[id] = false;
        p->hinted = p->hinted || p->chosen[id];
        if (p->result->decision) p->result->decision[id] = (Decision){.from = -1};
    }
}

/* Operators without a strategy split their batch, or hints spread to all that is connected with them; both also with splits in the order in
 * which hints have their digits. */
typedef enum { FROM_BATCH, FROM_HINTS, FROM_BATCH_ORDERED, FROM_HINTS_ORDERED } Beginning;

static Moved fill_from(Propagator *p, Beginning from) {
    const bool searched = is_auto(p->graph);
    p->as_ordered = from >= FROM_BATCH_ORDERED;
    forget(p);
    if ((from == FROM_HINTS || from == FROM_HINTS_ORDERED) && searched) sweep_from_hints(p, DECIDE);
    split_batches(p);
    if (searched && (p->hinted || !batch_fills(p->graph))) improve(p);
    if (searched) {
        sweep_from_hints(p, FIT);
        sweep_from_hints(p, ANY);
    }
    return volume_count(p).moved;
}

Moved fill(Propagator *p) {
    Moved best = fill_from(p, FROM_BATCH);
    if (!p->hinted || !is_auto(p->graph)) return best;
    Beginning taken = FROM_BATCH, last = FROM_BATCH;
    for (Beginning from = FROM_HINTS; from <= (p->norder > 0 ? FROM_HINTS_ORDERED : FROM_HINTS); from++) {
        const Moved moved = fill_from(p, last = from);
        if (moved_cost(p, moved) <= moved_cost(p, best)) best = moved, taken = from;
    }
    return taken == last ? best : fill_from(p, taken);
}

/* Remembers the given strategies. */
static void remember(Propagator *p) {
    const size_t n = (size_t)p->graph->nodes.n + 1;
    p->given = arena_alloc(&p->arena, n * sizeof *p->given);
    p->given_from = arena_alloc(&p->arena, n * sizeof *p->given_from);
    p->left_out = arena_alloc(&p->arena, n * sizeof *p->left_out);
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &p->graph->nodes.at[id];
        p->given[id] = node->strategy;
        p->given_from[id] = node->from;
    }
    order_find(p);
}

static bool propagate_all(Propagator *p) {
    const Graph *graph = p->graph;
    const bool well = !is_sharded(graph) || read_hints(p);
    if (!read_leaves(p) || !well) return false;
    remember(p);
    fill(p);
    if (!is_sharded(graph)) return true;
    if (!p->hinted) {
        if (is_auto(graph) && p->diags->verbose && strcmp(graph->settings.search, "sharding_propagation") == 0)
            diag_note(p->diags, (Span){0}, "no operator has a strategy (shard): every operator splits its batch");
        return true;
    }
    warn_conflicts(p);
    if (warn_costly(p, volume_count(p))) fill(p);
    return true;
}

static void record_decisions(Propagator *p) {
    for (int id = 0; id < p->nnodes; id++) {
        p->result->decision[id].hint = p->hint_of[id];
        if (p->chosen[id] && p->graph->nodes.at[id].from == STRATEGY_PROPAGATED) decision_record(p, id);
    }
}

static bool propagate_any(Graph *graph, Propagation *propagation, Diags *diags, bool explained) {
    Propagator p;
    propagator_init(&p, graph, propagation, diags);
    propagation->decision = explained ? arena_alloc(graph->arena, (size_t)(graph->nodes.n + 1) * sizeof *propagation->decision) : NULL;
    bool done = propagate_all(&p);
    if (explained && done) record_decisions(&p);
    arena_finish(&p.arena);
    return done;
}

bool propagate(Graph *graph, Propagation *propagation, Diags *diags) {
    return propagate_any(graph, propagation, diags, false);
}

bool propagate_explained(Graph *graph, Propagation *propagation, Diags *diags) {
    return propagate_any(graph, propagation, diags, true);
}
