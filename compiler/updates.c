/* updates: has large states updated, and stored, in parts.
 *
 * Before: assign, with every update in the layout of its state. After, as the setting shard_states says:
 * - optimizer: a large state is updated in its storage layout further split over the digits over which its gradient is a partial sum; its slots, and what is done to its
 *   gradient, have that layout too. The sum is reduced straight into the parts (half of an AllReduce), each rank updates its own, and the other half gathers the new values:
 *   the same bytes, but an update and slots of 1 / ranks (ZeRO stage 1, Rajbhandari et al. 2020);
 * - gradients: the gradients of a step's batches (accumulate) are reduced into the parts one by one and added up there, so that no rank holds whole sums (stage 2);
 * - parameters: the state itself has the layout of its update. It is gathered before it is used, and nothing after the update (stage 3). A layout that the user gave stays.
 * Squares that are added up for clipping are split alike, so that one reduction completes all of them. With `none` nothing changes. */
#include <assert.h>
#include <string.h>

#include "compiler/sharded.h"

/* A node of the update of a state, but for the writes. */
static bool is_update(const Node *node) {
    return node->update > 0 && node->op != OP_write;
}

static bool append_all(Layout *layout, int list, const Digit *digits, int n) {
    for (int i = 0; i < n; i++)
        if (!layout_append(layout, list, digits[i])) return false;
    return true;
}

/* Whether the first dimension is split about evenly, and within a node: its parts are contiguous in memory and are sent as they lie, those
 * of a later dimension row by row. Among nodes the number of messages counts more, and a collective between even parts needs fewer. */
static bool lies_together(const Build *b, const Layout *layout, const Shape *shape, const Digit *digits, int n, int64_t terms) {
    static const double UNEVEN = 1.02;
    if (shape->ndim == 0) return false;
    const int64_t parts = layout_split(layout, 0) * terms, largest = (shape->dim[0] + parts - 1) / parts;
    const Machine *machine = options_machine(b->options);
    return (double)(largest * parts) <= UNEVEN * (double)shape->dim[0] && machine_within_node(machine, digits, n, b->front.graph.nranks);
}

/* Appends digits, those of the terms of a sum, to a layout: to the first dimension if its parts are nearly even, or to the first that they
 * divide evenly; else each dimension in turn takes what divides it, and the longest one the rest. False: a part would be empty. */
static bool split_over(const Build *b, Layout *layout, const Shape *shape, const Digit *digits, int n) {
    int64_t terms = 1;
    for (int i = 0; i < n; i++)
        terms *= digits[i].size;
    if (lies_together(b, layout, shape, digits, n, terms)) return append_all(layout, 0, digits, n);
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

/* The layout that the maker of a gradient gives it, partial sums included. A sum of gradients that are partial over the same digits is
 * partial over these too: they are added up before they are completed. */
static void partial_layout(const Graph *g, int gradient, Layout *layout) {
    const Value *value = &g->values.at[gradient];
    const Node *maker = &g->nodes.at[value->node];
    const int ndim = value->type.shape.ndim, terms = ndim + REDUCE_SUM;
    strategy_out_layout(maker, maker->strategy, value->index, ndim, layout);
    if (maker->op != OP_add || value->node < g->nforward || layout_is_partial(layout)) return;
    Layout a, b;
    partial_layout(g, maker->in[0], &a);
    partial_layout(g, maker->in[1], &b);
    const int n = layout_count(&a, terms);
    if (a.ndim == ndim && b.ndim == ndim && n == layout_count(&b, terms) &&
        memcmp(layout_list(&a, terms), layout_list(&b, terms), sizeof(Digit) * (size_t)n) == 0)
        *layout = a;
}

/* The layout of the terms of a gradient: in it they are compressed, before they are added up. */
static const Layout *terms_layout(Graph *g, int gradient) {
    Layout layout, whole;
    partial_layout(g, gradient, &layout);
    layout_complete(&layout, &whole);
    return graph_layout(g, &whole, &type_of(g, gradient)->shape);
}

/* The layout of a slot of the state's shape, in a program that follows another one's states; NULL: there is none. */
static const Layout *slot_layout(const Graph *g, int state) {
    for (int s = 0; s < g->states.n; s++)
        if (s != state && g->states.at[s].parameter == state && shape_equal(&g->states.at[s].type.shape, &g->states.at[state].type.shape))
            return g->states.at[s].layout;
    return NULL;
}

/* The layout in which a state is updated. */
static const Layout *update_layout(const Build *b, Graph *g, const Node *update, bool in_parts) {
    const State *state = &g->states.at[update->update - 1];
    const Shape *shape = &state->type.shape;
    if (pin_is_rank(g, &state->layout->pin)) return state->layout; /* on one rank */
    if (op_updates_rows(update->op)) return state->layout;         /* only the rows that occur are touched, where they lie */
    const Layout *theirs = b->follows != NULL ? slot_layout(g, update->update - 1) : NULL;
    if (theirs != NULL) return theirs;
    if (!in_parts || shape_elements(shape) * dtype_bytes[state->type.dtype] < g->settings.shard_bytes) return state->layout;
    Layout partial, split = *state->layout;
    partial_layout(g, update_gradient(g, update), &partial);
    int terms = partial.ndim + REDUCE_SUM, n = layout_count(&partial, terms);
    const char *why;
    if (n == 0 || !split_over(b, &split, shape, layout_list(&partial, terms), n) || !layout_valid(&split, g->nranks, &why))
        return state->layout;
    return graph_layout(g, &split, shape);
}

/* The digits of `of`, in one list, that `without` does not have. False where they cannot be compared. */
static bool digits_beyond(const Layout *of, const Layout *without, Layout *beyond) {
    Layout a, b;
    layout_init(&a, 1);
    layout_init(&b, 1);
    layout_init(beyond, 1);
    if (!append_all(&a, 0, of->digit, of->start[of->ndim]) || !append_all(&b, 0, without->digit, without->start[without->ndim]) ||
        !layout_refine(&a, &b))
        return false;
    for (int i = 0; i < layout_count(&a, 0); i++)
        if (!layout_has(&b, 0, a.digit[i]) && !layout_append(beyond, 0, a.digit[i])) return false;
    return true;
}

/* The digits over which gradients whose squares are added up are split. */
static Layout split_of_all_squares(const Graph *g, const Layout *const *of_gradient) {
    Layout all;
    layout_init(&all, 1);
    for (int n = g->nforward; n < g->nodes.n; n++) {
        Layout more, with = all;
        if (g->nodes.at[n].op != OP_sum_squares || g->nodes.at[n].origin != n || is_update(&g->nodes.at[n]) ||
            !digits_beyond(of_gradient[g->nodes.at[n].in[0]], &all, &more))
            continue;
        if (append_all(&with, 0, more.digit, layout_count(&more, 0))) all = with;
    }
    return all;
}

/* A gradient's layout, split over all these digits if its shape allows that. The sums of all squares are then partial over the same digits,
 * and one reduction of their sum completes them (pass `partial`); beside one that is whole, each would need its own. */
static const Layout *split_like_all(const Build *b, Graph *g, const Layout *layout, const Shape *shape, const Layout *all) {
    Layout more, split = *layout;
    const char *why;
    if (!digits_beyond(all, layout, &more) || layout_count(&more, 0) == 0) return layout;
    if (!split_over(b, &split, shape, layout_list(&more, 0), layout_count(&more, 0)) || !layout_valid(&split, g->nranks, &why))
        return layout;
    return graph_layout(g, &split, shape);
}

/* Gives a node the strategy under which its result 0 (or its operand 0) lies as `layout`, unless it lies so already. */
static void set_strategy(Sharded *s, int id, const Layout *layout, bool result) {
    Node *node = &s->graph.nodes.at[id];
    if (s->strategy[id] != NULL && (result ? s->made[node->out[0]] : s->need[id][0]) == layout) return;
    node->strategy = result ? strategy_of_result(&s->graph, node, layout) : strategy_of_operand(&s->graph, node, layout);
    node->from = STRATEGY_ORIGIN;
}

/* Per value, whether anything but casts and updates reads it. */
static const bool *taken_as_it_is(const Graph *g) {
    bool *taken = arena_alloc(g->arena, (size_t)g->values.n + 1);
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++)
            if (g->nodes.at[n].op != OP_cast && g->nodes.at[n].update == 0 && op_table[g->nodes.at[n].op].op_class != OP_CLASS_UPDATE)
                taken[g->nodes.at[n].in[i]] = true;
    return taken;
}

/* Has a parameter cast in the layout in which it is stored, if its parts are smaller: what is gathered then has 16 bits. */
static void cast_in_parts(Sharded *s, int id) {
    const Graph *g = &s->graph;
    const Node *node = &g->nodes.at[id];
    const Layout *stored = g->states.at[graph_producer(g, node->in[0])->state].layout;
    const Shape *shape = &type_of(g, node->in[0])->shape;
    if (node->from == STRATEGY_USER || layout_max_elements(stored, shape) >= layout_max_elements(s->need[id][0], shape)) return;
    set_strategy(s, id, stored, false);
}

/* Has gradients of a state added up, and the state stored, in the layout in which it is updated, as far as shard_states says so. */
static void store_in_parts(const Build *b, Sharded *s, const Layout *const *of_state) {
    Graph *g = &s->graph;
    for (int n = g->nforward; n < g->nodes.n && g->settings.shard_states >= SHARD_GRADIENTS; n++) {
        const Node *node = &g->nodes.at[n], *origin = &g->nodes.at[node->origin];
        if (node->op == OP_add && origin->op == OP_read && of_state[origin->state] != NULL)
            set_strategy(s, n, of_state[origin->state], true);
    }
    for (int k = 0; k < g->states.n && g->settings.shard_states >= SHARD_PARAMETERS; k++)
        if (b->follows == NULL && of_state[k] != NULL && g->states.at[k].hint == NULL) g->states.at[k].layout = of_state[k];
    const bool *taken = g->settings.shard_states >= SHARD_PARAMETERS ? taken_as_it_is(g) : NULL;
    for (int n = 0; n < g->nodes.n; n++) { /* slots too: they were assigned with the updates in the layouts of their states */
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_read || node->op == OP_write) set_strategy(s, n, g->states.at[node->state].layout, true);
        if (taken != NULL && casts_parameter(g, n) && !taken[node->in[0]]) cast_in_parts(s, n); /* else it is gathered as it is anyway */
    }
}

/* Gives a node of an update its strategy. Tensors of the parameter's shape have the layout of the update; sums over such a tensor are made
 * in its layout, and what is computed from them, or with them, has theirs. needed: per value, the layout in which nodes of its update read
 * it. */
static void update_strategy(const Build *b, Sharded *s, int id, const Layout *layout, const Layout **needed) {
    Graph *g = &s->graph;
    const Node *node = &g->nodes.at[id];
    const int from = node->in[node->op == OP_where]; /* not its condition, which is one number */
    const Shape *shape = &type_of(g, node->out[0])->shape, *of = &type_of(g, from)->shape;
    const Layout *made = needed[from] != NULL ? needed[from] : whole_layout(g, of); /* a leaf, which is one number */
    Layout own;
    const bool like = shape_equal(shape, &g->states.at[node->update - 1].type.shape);
    if (like || shape_equal(shape, of))
        set_strategy(s, id, like ? layout : made, true);
    else
        set_strategy(s, id, shape_equal(of, &g->states.at[node->update - 1].type.shape) ? layout : made, false);
    for (int k = 0; k < node->nout; k++) {
        strategy_out_layout(node, node->strategy, k, type_of(g, node->out[k])->shape.ndim, &own);
        layout_complete(&own, &own);
        needed[node->out[k]] = graph_layout(g, &own, &type_of(g, node->out[k])->shape);
    }
    for (int i = 0; i < node->nin && b->follows == NULL; i++) { /* slots, which the update alone reads */
        const Node *read = graph_producer(g, node->in[i]);
        if (read->op != OP_read || read->state == node->update - 1 || g->states.at[read->state].parameter != node->update - 1) continue;
        strategy_in_layout(node, node->strategy, i, type_of(g, node->in[i])->shape.ndim, &own);
        g->states.at[read->state].layout = graph_layout(g, &own, &type_of(g, node->in[i])->shape);
    }
}

void updates_assign(Build *b, bool in_parts) {
    Sharded *s = &b->sharded;
    Graph *g = &s->graph;
    const Layout **of_state = arena_alloc(g->arena, sizeof *of_state * (size_t)(g->states.n + 1));       /* in which it is updated */
    const Layout **of_gradient = arena_alloc(g->arena, sizeof *of_gradient * (size_t)(g->values.n + 1)); /* what an update needs */
    const Layout **needed = arena_alloc(g->arena, sizeof *needed * (size_t)(g->values.n + 1));
    for (int n = g->nforward; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (!is_update(node)) continue;
        const Layout **layout = &of_state[node->update - 1];
        if (*layout == NULL) {
            *layout = update_layout(b, g, node, in_parts);
            of_gradient[update_gradient(g, node)] = *layout;
        }
        update_strategy(b, s, n, *layout, needed);
    }
    for (int n = g->nforward; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (!gradient_changes(g, node)) continue;
        of_gradient[node->out[0]] = of_gradient[node->in[0]];
        set_strategy(s, n, node->op == OP_compress ? terms_layout(g, node->in[0]) : of_gradient[node->in[0]], false);
    }
    Layout all = split_of_all_squares(g, of_gradient);
    for (int n = g->nforward; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if ((node->op != OP_sum_squares && node->op != OP_clip) || node->origin != n || is_update(node))
            continue; /* of replicas: another origin */
        const Layout *layout = of_gradient[node->in[0]];
        assert(layout != NULL);
        if (node->op == OP_sum_squares) layout = split_like_all(b, g, layout, &type_of(g, node->in[0])->shape, &all);
        set_strategy(s, n, layout, false);
    }
    if (in_parts) store_in_parts(b, s, of_state);
}

bool pass_updates(Build *b) {
    if (b->sharded.graph.settings.shard_states == SHARD_NONE) return true;
    updates_assign(b, true);
    sharded_fill(b);
    return true;
}
