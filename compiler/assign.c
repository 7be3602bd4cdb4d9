/* assign: strategies become layouts.
 *
 * Before: every forward node that is no leaf has a strategy, the states and inputs whose layout user or dataset fix have it (propagate).
 * After:
 * - every other node has one too: a gradient node its forward node's letters and their axes, a write the storage layout of its
 *   state, as what adds up the gradients of that state's users, an update the same or, of a large state, a part of it (update_layout); a leaf the layout in
 *   which it is delivered;
 * - all states and inputs have a layout: the given one, else what the first consumer needs; a slot that of its update;
 * - values[v].layout is what the producer makes, partial sums included; home[v] what it is brought into at once: without the sums that
 *   are owed, in the layout that the user asked of the result, if any. No operand is taken as a partial sum here: pass `collectives` sees
 *   the way from the partial sum to what its users need as one conversion anyway;
 * - need[n][i] is the layout that node n asks of operand i, report_need[k] the one in which the k-th of what is reported is.
 * One linear walk over the nodes for each of these. */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"

enum { SPLIT_UPDATE_BYTES = 256 << 10 }; /* of a state, whatever the number of ranks: below, a replicated update costs less than two steps */

static const TensorType *type_of(const Graph *g, int value) {
    return &g->values.at[value].type;
}

/* The strategy under which a tensor of the node, whose dimensions run over these factors, lies as `layout` says. */
static const Strategy *strategy_of_factors(const Graph *g, const Node *node, const int8_t *factors, const Layout *layout) {
    Strategy *strategy = arena_alloc(g->arena, sizeof *strategy);
    strategy->nfactors = node->rule->nfactors;
    for (int d = 0; d < layout->ndim; d++) {
        int factor = factors[d];
        assert(factor >= 0 || layout_count(layout, d) == 0);
        for (int i = 0; i < layout_count(layout, d); i++) {
            bool room = strategy_append(strategy, factor, layout_list(layout, d)[i]);
            assert(room);
            (void)room;
        }
    }
    return strategy;
}

/* Read off its result 0 (a leaf, an elementwise operator), or its operand 0. */
static const Strategy *strategy_of_layout(const Graph *g, const Node *node, const Layout *layout) {
    return strategy_of_factors(g, node, node->rule->out[0], layout);
}
static const Strategy *strategy_of_operand(const Graph *g, const Node *node, const Layout *layout) {
    return strategy_of_factors(g, node, node->rule->in[0], layout);
}

/* ---------------------------------------------------------------- states and inputs */

/* The first consumer's wish is the layout of a state or input that has none yet. */
static void leaf_wish(Graph *g, const Node *leaf, const Layout *need) {
    if (leaf->op == OP_read && g->states.at[leaf->state].layout == NULL) g->states.at[leaf->state].layout = need;
    if (leaf->op == OP_input && g->inputs.at[leaf->state].layout == NULL) g->inputs.at[leaf->state].layout = need;
}

static const Layout *whole_layout(Graph *g, const Shape *shape) {
    Layout layout;
    layout_init(&layout, shape->ndim);
    return graph_layout(g, &layout, shape);
}

/* What no one asked for is whole; slots lie as their parameters. */
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

/* The state that an update makes anew: the one that its first operand reads. */
static int updated_state(const Graph *g, const Node *node) {
    const Node *read = &g->nodes.at[g->values.at[node->in[0]].node];
    assert(read->op == OP_read);
    return read->state;
}

static bool is_update(const Node *node) {
    return op_table[node->op].op_class == OP_CLASS_UPDATE && node->op != OP_write;
}

static bool append_all(Layout *layout, int list, const Digit *digits, int n) {
    for (int i = 0; i < n; i++)
        if (!layout_append(layout, list, digits[i])) return false;
    return true;
}

/* Appends digits, the terms of a sum, to a layout: to the first dimension that they divide evenly; else each dimension in turn takes what
 * divides it, and the longest one the rest. False when a part would be empty. */
static bool split_over(Layout *layout, const Shape *shape, const Digit *digits, int n) {
    int64_t terms = 1;
    for (int i = 0; i < n; i++)
        terms *= digits[i].size;
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dim[d] % (layout_split(layout, d) * terms) == 0) return append_all(layout, d, digits, n);
    for (int i = 0; i < n; i++) {
        int32_t rest = digits[i].size;
        int longest = -1;
        for (int d = 0; d < shape->ndim; d++) {
            int64_t parts = layout_split(layout, d), local = shape->dim[d] / parts;
            int32_t part = shape->dim[d] % parts == 0 ? (int32_t)gcd64(local, rest) : 1;
            rest /= part;
            if (part > 1 && !layout_append(layout, d, (Digit){part, digits[i].stride * rest})) return false;
            if (longest < 0 || local / part > shape->dim[longest] / layout_split(layout, longest)) longest = d;
        }
        if (rest == 1) continue;
        if (longest < 0 || shape->dim[longest] / layout_split(layout, longest) < rest) return false;
        if (!layout_append(layout, longest, (Digit){rest, digits[i].stride})) return false;
    }
    return true;
}

/* The layout that the maker of a gradient gives it, with the sums that it owes. Those of one that is added up of several which owe the same sums can be added up
 * before they are completed: it owes them too. */
static void owed(const Graph *g, int gradient, Layout *layout) {
    const Value *value = &g->values.at[gradient];
    const Node *maker = &g->nodes.at[value->node];
    const int ndim = value->type.shape.ndim, terms = ndim + REDUCE_SUM;
    strategy_out_layout(maker, maker->strategy, value->index, ndim, layout);
    if (maker->op != OP_add || value->node < g->nforward || layout_is_partial(layout)) return;
    Layout a, b;
    owed(g, maker->in[0], &a);
    owed(g, maker->in[1], &b);
    const int n = layout_count(&a, terms);
    if (a.ndim == ndim && b.ndim == ndim && n == layout_count(&b, terms) && memcmp(layout_list(&a, terms), layout_list(&b, terms), sizeof(Digit) * (size_t)n) == 0) *layout = a;
}

/* The layout in which a state is updated: its storage layout, further split over the digits over which the gradient is a partial sum. The
 * sum then goes straight to the parts (half of an AllReduce), each rank updates its own, and the other half gathers the new values: the same
 * bytes, but an update and slots of 1 / ranks (the optimizer state sharding of ZeRO stage 1, Rajbhandari et al. 2020). Small states are not
 * worth two steps. */
static const Layout *update_layout(const Compilation *c, Graph *g, const Node *update) {
    const State *state = &g->states.at[updated_state(g, update)];
    const Shape *shape = &state->type.shape;
    if (c->options->whole_updates || shape_elements(shape) * dtype_bytes[state->type.dtype] < SPLIT_UPDATE_BYTES) return state->layout;
    Layout partial, split = *state->layout;
    owed(g, update_gradient(g, update), &partial);
    int terms = partial.ndim + REDUCE_SUM, n = layout_count(&partial, terms);
    const char *why;
    if (n == 0 || !split_over(&split, shape, layout_list(&partial, terms), n) || !layout_valid(&split, g->nranks, &why)) return state->layout;
    return graph_layout(g, &split, shape);
}

/* The digits of `of`, in one list, that `without` does not have. False where they cannot be compared. */
static bool digits_beyond(const Layout *of, const Layout *without, Layout *beyond) {
    Layout a, b;
    layout_init(&a, 1);
    layout_init(&b, 1);
    layout_init(beyond, 1);
    if (!append_all(&a, 0, of->digit, of->start[of->ndim]) || !append_all(&b, 0, without->digit, without->start[without->ndim]) || !layout_refine(&a, &b))
        return false;
    for (int i = 0; i < layout_count(&a, 0); i++) {
        Digit digit = a.digit[i];
        bool there = false;
        for (int k = 0; k < layout_count(&b, 0); k++)
            there |= digit.size == b.digit[k].size && digit.stride == b.digit[k].stride;
        if (!there && !layout_append(beyond, 0, digit)) return false;
    }
    return true;
}

/* The digits over which some gradient is split whose squares are added up. */
static Layout split_of_all_squares(const Graph *g, const Layout *const *of_gradient) {
    Layout all;
    layout_init(&all, 1);
    for (int n = g->nforward; n < g->nodes.n; n++) {
        Layout more, with = all;
        if (g->nodes.at[n].op != OP_sum_squares || !digits_beyond(of_gradient[g->nodes.at[n].in[0]], &all, &more)) continue;
        if (append_all(&with, 0, more.digit, layout_count(&more, 0))) all = with;
    }
    return all;
}

/* A gradient's layout, split over all these digits where its shape allows that: then the sums of all squares owe the same, and one reduction of their
 * sum completes them (pass `partial`), where each would need its own beside one that is whole. */
static const Layout *split_like_all(Graph *g, const Layout *layout, const Shape *shape, const Layout *all) {
    Layout more, split = *layout;
    const char *why;
    if (!digits_beyond(all, layout, &more) || layout_count(&more, 0) == 0) return layout;
    if (!split_over(&split, shape, layout_list(&more, 0), layout_count(&more, 0)) || !layout_valid(&split, g->nranks, &why)) return layout;
    return graph_layout(g, &split, shape);
}

/* Updates, the slots that they alone read, and what is done to their gradients, in their layouts. The strategies of gradients are there. */
static void update_strategies(const Compilation *c, Graph *g) {
    const Layout **of_gradient = arena_alloc(g->arena, sizeof *of_gradient * (size_t)(g->values.n + 1)); /* what an update wants */
    for (int n = g->nforward; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (!is_update(node)) continue;
        const Layout *layout = update_layout(c, g, node);
        for (int i = 1; i < op_in(node->op, "g"); i++) {
            const Node *read = &g->nodes.at[g->values.at[node->in[i]].node];
            assert(read->op == OP_read && !g->states.at[read->state].trainable);
            g->states.at[read->state].layout = layout;
        }
        node->strategy = strategy_of_layout(g, node, layout);
        node->from = STRATEGY_ORIGIN;
        of_gradient[update_gradient(g, node)] = layout;
    }
    Layout all = split_of_all_squares(g, of_gradient);
    for (int n = g->nforward; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (node->op != OP_sum_squares && node->op != OP_clip) continue;
        const Layout *layout = of_gradient[node->in[0]];
        assert(layout != NULL);
        if (node->op == OP_sum_squares) layout = split_like_all(g, layout, &type_of(g, node->in[0])->shape, &all);
        node->strategy = strategy_of_operand(g, node, layout);
        node->from = STRATEGY_ORIGIN;
    }
}

static void give_strategy(Graph *g, int id) {
    Node *node = &g->nodes.at[id];
    const Node *origin = &g->nodes.at[node->origin];
    if (node->strategy != NULL) return;
    if (node->op == OP_write) {
        node->strategy = strategy_of_layout(g, node, g->states.at[node->state].layout);
        node->from = STRATEGY_ORIGIN;
    } else if (node->op == OP_read || node->op == OP_input) {
        node->strategy =
            strategy_of_layout(g, node, node->op == OP_read ? g->states.at[node->state].layout : g->inputs.at[node->state].layout);
        node->from = STRATEGY_ORIGIN;
    } else if (node->op == OP_add && origin->op == OP_read) { /* the gradients of several users */
        node->strategy = strategy_of_layout(g, node, g->states.at[origin->state].layout);
        node->from = STRATEGY_ORIGIN;
    } else {
        Strategy *strategy = arena_alloc(g->arena, sizeof *strategy);
        strategy->nfactors = node->rule->nfactors;
        bool reuses = node->origin != id && origin->strategy != NULL;
        if (reuses) strategy_from_origin(node, origin->strategy, strategy);
        node->strategy = strategy;
        node->from = reuses ? STRATEGY_ORIGIN : STRATEGY_WHOLE;
    }
}

static void node_needs(Compilation *c, int id) {
    Graph *g = &c->graph;
    const Node *node = &g->nodes.at[id];
    for (int i = 0; i < node->nin; i++) {
        Layout layout;
        const Shape *shape = &type_of(g, node->in[i])->shape;
        strategy_in_layout(node, node->strategy, i, shape->ndim, &layout);
        c->need[id][i] = graph_layout(g, &layout, shape);
    }
}

/* A constant costs nothing to make in any layout: in the one that all its users need, or whole where they differ. */
static void constant_layouts(Compilation *c) {
    Graph *g = &c->graph;
    const Layout **wish = arena_alloc(g->arena, sizeof *wish * (size_t)(g->values.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            int value = g->nodes.at[n].in[i];
            if (g->nodes.at[g->values.at[value].node].op != OP_constant) continue;
            if (wish[value] == NULL)
                wish[value] = c->need[n][i];
            else if (wish[value] != c->need[n][i])
                wish[value] = whole_layout(g, &type_of(g, value)->shape);
        }
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (node->op != OP_constant) continue;
        const Layout *layout = wish[node->out[0]];
        node->strategy = strategy_of_layout(g, node, layout != NULL ? layout : whole_layout(g, &type_of(g, node->out[0])->shape));
        node->from = STRATEGY_ORIGIN;
    }
}

static void node_results(Compilation *c, int id) {
    Graph *g = &c->graph;
    const Node *node = &g->nodes.at[id];
    for (int k = 0; k < node->nout; k++) {
        Value *value = &g->values.at[node->out[k]];
        Layout layout, complete;
        strategy_out_layout(node, node->strategy, k, value->type.shape.ndim, &layout);
        value->layout = graph_layout(g, &layout, &value->type.shape);
        layout_complete(&layout, &complete);
        int like = node->micro > 0 ? node->origin : id;
        const Layout *asked = k == 0 && like < g->nforward && c->propagation.out_layout != NULL ? c->propagation.out_layout[like] : NULL;
        c->home[node->out[k]] = graph_layout(g, asked != NULL ? asked : &complete, &value->type.shape);
    }
}

/* The layout in which the first node takes the value, which is there anyway; its home where that owes sums, or nothing takes it. */
static const Layout *first_taken(const Compilation *c, int value) {
    const Graph *g = &c->graph;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++)
            if (g->nodes.at[n].in[i] == value) return layout_is_partial(c->need[n][i]) ? c->home[value] : c->need[n][i];
    return c->home[value];
}

bool pass_propagate(Compilation *c) {
    return (c->options->nexplain > 0 ? propagate_explained : propagate)(&c->graph, &c->propagation, c->diags);
}

bool pass_assign(Compilation *c) {
    Graph *g = &c->graph;
    c->home = arena_alloc(c->arena, sizeof *c->home * (size_t)(g->values.n + 1));
    c->need = arena_alloc(c->arena, sizeof *c->need * (size_t)(g->nodes.n + 1));
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (op_table[node->op].op_class == OP_CLASS_LEAF) continue;
        assert(node->strategy != NULL);
        node_needs(c, n);
        for (int i = 0; i < node->nin; i++)
            leaf_wish(g, &g->nodes.at[g->values.at[node->in[i]].node], c->need[n][i]);
    }
    default_layouts(g);
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        bool later = node->op == OP_sum_squares || node->op == OP_clip; /* as the update of their gradient */
        if (!later && op_table[node->op].op_class != OP_CLASS_LEAF && op_table[node->op].op_class != OP_CLASS_UPDATE) give_strategy(g, n);
    }
    update_strategies(c, g);
    for (int n = 0; n < g->nodes.n; n++) {
        if (g->nodes.at[n].op == OP_constant) continue;
        give_strategy(g, n);
        node_needs(c, n);
    }
    constant_layouts(c);
    for (int n = 0; n < g->nodes.n; n++)
        node_results(c, n);
    c->report_need = arena_alloc(c->arena, sizeof *c->report_need * (size_t)(graph_nreports(g) + 1));
    for (int k = 0; k < graph_nreports(g); k++) {
        const TensorType *type = type_of(g, graph_report(g, k));
        if (!type->hidden && graph_report_whole(g, k))
            c->report_need[k] = whole_layout(g, &type->shape);
        else
            c->report_need[k] = type->hidden ? c->home[graph_report(g, k)] : first_taken(c, graph_report(g, k));
    }
    warn_all(c);
    return true;
}
