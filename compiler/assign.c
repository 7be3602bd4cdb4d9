/* assign: strategies become layouts.
 *
 * Before: every forward node that is no leaf has a strategy, the states and inputs whose layout user or dataset fix have it (propagate).
 * After:
 * - every other node has one too: a gradient node the letters of its forward node and their axes; a write the storage layout of its state, and so has
 *   what adds up the gradients of that state's users; an update the same or, for a large state, a part of it (update_layout); a leaf the layout in
 *   which it is delivered;
 * - all states and inputs have a layout: the given one, else what the first consumer needs; a slot that of its update;
 * - values[v].layout is what the producer makes, partial sums included; home[v] the layout into which the canonical form converts it at once:
 *   complete, in the layout that the user asked of the result, if any. No operand is taken as a partial sum here: pass `collectives` sees
 *   the way from the partial sum to what its users need as one conversion anyway;
 * - need[n][i] is the layout that node n asks of operand i, report_need[k] the layout of the k-th reported value.
 * One linear walk over the nodes for each of these. */
#include <assert.h>
#include <string.h>

#include "compiler/sharded.h"

/* ---------------------------------------------------------------- states and inputs */

/* Gives a state or input without a layout the one that its first user needs. */
static void prefer_layout(Graph *g, const Node *leaf, const Layout *need) {
    if (leaf->op == OP_read && g->states.at[leaf->state].layout == NULL) g->states.at[leaf->state].layout = need;
    if (leaf->op == OP_input && g->inputs.at[leaf->state].layout == NULL) g->inputs.at[leaf->state].layout = need;
}

/* What no user has given a layout is whole; slots lie as their parameters. */
static void default_layouts(Graph *g) {
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].layout == NULL) g->inputs.at[i].layout = whole_layout(g, &g->inputs.at[i].type.shape);
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].micro > 0) g->inputs.at[i].layout = g->inputs.at[g->inputs.at[i].of].layout;
    for (int s = 0; s < g->states.n; s++)
        if (g->states.at[s].layout == NULL && g->states.at[s].parameter == s)
            g->states.at[s].layout = whole_layout(g, &g->states.at[s].type.shape);
    for (int s = 0; s < g->states.n; s++)
        if (g->states.at[s].layout == NULL) g->states.at[s].layout = g->states.at[g->states.at[s].parameter].layout;
}

/* ---------------------------------------------------------------- nodes */

static void give_strategy(Graph *g, int id) {
    Node *node = &g->nodes.at[id];
    const Node *origin = &g->nodes.at[node->origin];
    if (node->strategy != NULL) return;
    if (node->op == OP_write) {
        node->strategy = strategy_of_result(g, node, g->states.at[node->state].layout);
        node->from = STRATEGY_ORIGIN;
    } else if (node->op == OP_read || node->op == OP_input) {
        node->strategy =
            strategy_of_result(g, node, node->op == OP_read ? g->states.at[node->state].layout : g->inputs.at[node->state].layout);
        node->from = STRATEGY_ORIGIN;
    } else if (node->op == OP_add && origin->op == OP_read) { /* the gradients of several users */
        node->strategy = strategy_of_result(g, node, g->states.at[origin->state].layout);
        node->from = STRATEGY_ORIGIN;
    } else {
        Strategy strategy = {.nfactors = node->rule->nfactors, .pin = stage_pin(g, node->stage)};
        bool reuses = node->origin != id && origin->strategy != NULL;
        if (reuses) strategy_from_origin(node, origin->strategy, &strategy);
        node->strategy = graph_strategy(g, &strategy);
        node->from = reuses ? STRATEGY_ORIGIN : STRATEGY_WHOLE;
    }
}

static const Layout *pinned_layout(Graph *g, const Layout *from, Pin pin, const Shape *shape) {
    Layout layout = *from;
    layout.pin = pin;
    return graph_layout(g, &layout, shape);
}

/* The one rank, of the stage's ranks, where the user wants a state and its slots, at(3); no digit: none. For other programs as train has it. */
static Pin rank_pin(const Build *b, const Graph *g, int state, int stage) {
    if (b->follows != NULL && state < b->follows->sharded.graph.states.n) {
        const Pin *pin = &b->follows->sharded.graph.states.at[state].layout->pin;
        return pin_is_rank(g, pin) ? *pin : (Pin){0};
    }
    const Hint *hint = g->states.at[g->states.at[state].parameter].hint;
    const Pin own = stage_pin(g, stage), pin = {.digit = {g->nranks, 1}, .value = own.value * own.digit.stride + (hint ? hint->at - 1 : 0)};
    return hint != NULL && hint->at > 0 && pin_is_rank(g, &pin) ? pin : (Pin){0};
}

/* A lookup in a table on one rank of its stage runs on that rank: indices go there, and rows come back. The user's strategy stays. */
static Pin lookup_pin(const Build *b, const Graph *g, const Node *node) {
    if ((node->op != OP_embedding && node->op != OP_gather) || node->from == STRATEGY_USER) return (Pin){0};
    const Node *table = graph_producer(g, node->in[0]);
    if (table->op != OP_read || table->stage != node->stage) return (Pin){0};
    return rank_pin(b, g, table->state, table->stage);
}

/* Pins the operators of a stage to its ranks. */
static void pin_forward(const Build *b, Graph *g) {
    for (int n = 0; n < g->nforward; n++) {
        Node *node = &g->nodes.at[n];
        if (node_is_leaf(node)) continue;
        Strategy strategy = *node->strategy;
        const Pin at = lookup_pin(b, g, node);
        if (at.digit.size > 0)
            strategy = (Strategy){.nfactors = strategy.nfactors, .pin = at};
        else
            strategy.pin = stage_pin(g, node->stage);
        node->strategy = graph_strategy(g, &strategy);
    }
}

/* Pins states and inputs; those of train lie as there. */
static void pin_leaves(const Build *b, Graph *g) {
    const int first = b->follows != NULL ? b->follows->sharded.graph.states.n : 0;
    int *of_state = arena_alloc(g->arena, sizeof *of_state * (size_t)(g->states.n + 1));
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_read || node->op == OP_write) of_state[node->state] = node->stage;
        if (node->op != OP_input) continue;
        Input *input = &g->inputs.at[node->state];
        input->layout = pinned_layout(g, input->layout, stage_pin(g, node->stage), &input->type.shape);
    }
    for (int s = 0; s < g->states.n; s++) {
        State *state = &g->states.at[s];
        const int stage = of_state[s] > 0 ? of_state[s] : of_state[state->parameter];
        const Pin at = rank_pin(b, g, s, stage);
        if (at.digit.size > 0) state->layout = pinned_layout(g, whole_layout(g, &state->type.shape), at, &state->type.shape);
        if (at.digit.size > 0 || s < first) continue;
        state->layout = pinned_layout(g, state->layout, stage_pin(g, stage), &state->type.shape);
    }
}

/* Gives states and inputs the layout in which the strategy of their first user in the forward part takes them. */
static void leaf_layouts(Graph *g) {
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node)) continue;
        assert(node->strategy != NULL);
        for (int i = 0; i < node->nin; i++) {
            Layout layout;
            const Shape *shape = &type_of(g, node->in[i])->shape;
            strategy_in_layout(node, node->strategy, i, shape->ndim, &layout);
            layout_without_halos(&layout, &layout);
            prefer_layout(g, &g->nodes.at[g->values.at[node->in[i]].node], graph_layout(g, &layout, shape));
        }
    }
    default_layouts(g);
}

bool pass_propagate(Build *b) {
    return (options_explain(b->options) ? propagate_explained : propagate)(&b->front.graph, &b->front.propagation, b->diags);
}

/* Finds what is gathered again, and the phases between which it is dropped. */
static void find_phases(Sharded *s) {
    const Graph *g = &s->graph;
    int nparameters = 0;
    for (int k = 0; k < g->states.n; k++)
        nparameters += g->states.at[k].trainable;
    const double last =
        g->settings.regather_share > 0 ? g->settings.regather_share * nparameters : nparameters; /* slots come after parameters */
    for (int n = 0, phase = 0; n < g->nodes.n; n++) {
        const bool forward = graph_is_forward(g, n);
        phase += forward == (phase % 2 == 1);
        s->phase[n] = phase;
        const bool parameter = g->nodes.at[n].op == OP_read && g->states.at[g->nodes.at[n].state].trainable && g->nodes.at[n].state < last;
        for (int k = 0; k < g->nodes.at[n].nout; k++)
            s->regather[g->nodes.at[n].out[k]] =
                g->nodes.at[n].regather != NULL || (casts_parameter(g, n) && s->regather[g->nodes.at[n].in[0]]) ||
                (parameter && g->settings.regather >= REGATHER_PARAMETERS) || (forward && g->settings.regather == REGATHER_ALL);
    }
}

static void sharded_begin(Build *b) {
    Sharded *s = &b->sharded;
    const Graph *from = &b->front.graph;
    Graph *g = &s->graph;
    graph_copy(g, from);
    s->strategy = arena_alloc(b->arena, sizeof *s->strategy * (size_t)(g->nodes.n + 1));
    s->need = arena_alloc(b->arena, sizeof *s->need * (size_t)(g->nodes.n + 1));
    s->made = arena_alloc(b->arena, sizeof *s->made * (size_t)(g->values.n + 1));
    s->home = arena_alloc(b->arena, sizeof *s->home * (size_t)(g->values.n + 1));
    s->report_need = arena_alloc(b->arena, sizeof *s->report_need * (size_t)(graph_nreports(g) + 1));
    s->regather = arena_alloc(b->arena, (size_t)g->values.n + 1);
    s->phase = arena_alloc(b->arena, sizeof *s->phase * (size_t)(g->nodes.n + 1));
    find_phases(s);
}

bool pass_assign(Build *b) {
    sharded_begin(b);
    Graph *g = &b->sharded.graph;
    pin_forward(b, g);
    leaf_layouts(g);
    pin_leaves(b, g);
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        bool later = (node->op == OP_sum_squares && node->origin == n) || node->op == OP_clip || gradient_changes(g, node) ||
                     node->update > 0; /* as the update of their gradient */
        if (!later && !node_is_leaf(node) && op_table[node->op].op_class != OP_CLASS_UPDATE) give_strategy(g, n);
    }
    updates_assign(b, false);
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op != OP_constant) give_strategy(g, n);
    sharded_fill(b);
    return true;
}
