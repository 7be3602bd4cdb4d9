/* sharded: needs and results from strategies; what conversions cost; what must hold between the passes. */
#include "compiler/sharded.h"

#include <assert.h>
#include <string.h>

#include "compiler/convert.h"
#include "ir/map.h"

/* ---------------------------------------------------------------- strategies of one tensor */

bool strategy_of(const Node *node, const int8_t *factor, const Layout *layout, Strategy *strategy) {
    memset(strategy, 0, sizeof *strategy);
    strategy->nfactors = node->rule->nfactors;
    strategy->pin = layout->pin;
    for (int d = 0; d < layout->ndim; d++) {
        int n = layout_count(layout, d), f = factor[d];
        if (n == 0) continue;
        if (f < 0 || factor_stays_whole(&node->rule->factor[f])) return false;
        if (node->rule->factor[f].divides && node->rule->factor[f].size % layout_split(layout, d) != 0) return false;
        for (int i = 0; i < n; i++)
            if (!strategy_append(strategy, f, layout_list(layout, d)[i])) return false;
    }
    return true;
}

static const Strategy *strategy_there_is(Graph *g, const Node *node, const int8_t *factor, const Layout *layout) {
    Strategy strategy;
    bool there = strategy_of(node, factor, layout, &strategy);
    assert(there);
    (void)there;
    return graph_strategy(g, &strategy);
}

const Strategy *strategy_of_result(Graph *g, const Node *node, const Layout *layout) {
    return strategy_there_is(g, node, node->rule->out[0], layout);
}
const Strategy *strategy_of_operand(Graph *g, const Node *node, const Layout *layout) {
    return strategy_there_is(g, node, node->rule->in[0], layout);
}

const Layout *whole_layout(Graph *g, const Shape *shape) {
    Layout layout;
    layout_init(&layout, shape->ndim);
    return graph_layout(g, &layout, shape);
}

/* ---------------------------------------------------------------- from strategies to layouts */

static void node_needs(Sharded *s, int id) {
    Graph *g = &s->graph;
    const Node *node = &g->nodes.at[id];
    for (int i = 0; i < node->nin; i++) {
        Layout layout;
        const Shape *shape = &type_of(g, node->in[i])->shape;
        strategy_in_layout(node, node->strategy, i, shape->ndim, &layout);
        s->need[id][i] = graph_layout(g, &layout, shape);
    }
}

/* A constant can be made in any layout at no cost: it is made in the one that all its users need, or whole where they differ. */
static void constant_layouts(Sharded *s) {
    Graph *g = &s->graph;
    const Layout **common = arena_alloc(g->arena, sizeof *common * (size_t)(g->values.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            int value = g->nodes.at[n].in[i];
            if (g->nodes.at[g->values.at[value].node].op != OP_constant) continue;
            if (common[value] == NULL) common[value] = s->need[n][i];
            if (common[value] != s->need[n][i] || layout_has_halo(s->need[n][i]))
                common[value] = whole_layout(g, &type_of(g, value)->shape);
        }
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if (node->op != OP_constant) continue;
        const Layout *layout = common[node->out[0]] != NULL ? common[node->out[0]] : whole_layout(g, &type_of(g, node->out[0])->shape);
        if (layout == s->made[node->out[0]]) continue;
        node->strategy = strategy_of_result(g, node, layout);
        node->from = STRATEGY_ORIGIN;
    }
}

/* The layout that the user asked of a node's first result; NULL: none. */
static const Layout *asked_of(const Build *b, int id) {
    const Node *node = &b->sharded.graph.nodes.at[id];
    const int like = node->micro > 0 ? node->origin : id;
    return like < b->sharded.graph.nforward && b->front.out_layout != NULL ? b->front.out_layout[like] : NULL;
}

static void node_results(Build *b, int id) {
    Sharded *s = &b->sharded;
    Graph *g = &s->graph;
    const Node *node = &g->nodes.at[id];
    for (int k = 0; k < node->nout; k++) {
        Value *value = &g->values.at[node->out[k]];
        Layout layout, complete;
        strategy_out_layout(node, node->strategy, k, value->type.shape.ndim, &layout);
        s->made[node->out[k]] = value->layout = graph_layout(g, &layout, &value->type.shape);
        layout_complete(&layout, &complete);
        const Layout *asked = k == 0 ? asked_of(b, id) : NULL;
        if (asked != NULL) complete = *asked;
        complete.pin = layout.pin;
        s->home[node->out[k]] = graph_layout(g, &complete, &value->type.shape);
    }
}

/* The layout in which the first node reads a value, which is made anyway; its home if that is partial or has halos, or nothing reads it. */
static const Layout *first_taken(const Sharded *s, int value) {
    const Graph *g = &s->graph;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++)
            if (g->nodes.at[n].in[i] == value)
                return layout_is_partial(s->need[n][i]) || layout_has_halo(s->need[n][i]) ? s->home[value] : s->need[n][i];
    return s->home[value];
}

/* The last node before this one with the same signature, that is rule, and strategy, as equal layers have. -1: there is none; this one is
 * noted. */
static int node_like(Graph *g, Map *map, int id) {
    const Node *node = &g->nodes.at[id];
    const uint64_t hash = hash_mix((uint64_t)(uintptr_t)node->rule, (uint64_t)(uintptr_t)node->strategy);
    map_each(map, hash, n) if (g->nodes.at[n].rule == node->rule && g->nodes.at[n].strategy == node->strategy) return n;
    map_add(g->arena, map, hash, id);
    return -1;
}

static void like_results(Sharded *s, int id, int like) {
    Graph *g = &s->graph;
    for (int k = 0; k < g->nodes.at[id].nout; k++) {
        const int value = g->nodes.at[id].out[k], other = g->nodes.at[like].out[k];
        s->made[value] = g->values.at[value].layout = s->made[other];
        s->home[value] = s->home[other];
    }
}

void sharded_fill(Build *b) {
    Sharded *s = &b->sharded;
    Graph *g = &s->graph;
    Map needs = {0}, results = {0};
    for (int n = 0; n < g->nodes.n; n++) {
        if (g->nodes.at[n].op == OP_constant || g->nodes.at[n].strategy == s->strategy[n]) continue;
        const int like = node_like(g, &needs, n);
        if (like >= 0)
            memcpy(s->need[n], s->need[like], sizeof s->need[n]);
        else
            node_needs(s, n);
    }
    constant_layouts(s);
    for (int n = 0; n < g->nodes.n; n++) {
        if (g->nodes.at[n].strategy == s->strategy[n]) continue;
        const int like = asked_of(b, n) == NULL ? node_like(g, &results, n) : -1;
        if (like >= 0)
            like_results(s, n, like);
        else
            node_results(b, n);
        s->strategy[n] = g->nodes.at[n].strategy;
    }
    for (int k = 0; k < graph_nreports(g); k++) {
        const int value = graph_report(g, k);
        const TensorType *type = type_of(g, value);
        if (!type->hidden && graph_report_whole(g, k))
            s->report_need[k] = whole_layout(g, &type->shape);
        else
            s->report_need[k] = type->hidden ? s->home[value] : first_taken(s, value);
    }
}

/* ---------------------------------------------------------------- who takes what, and what that costs */

static Uses uses_of(const Graph *g) {
    Uses uses = {.first = arena_alloc(g->arena, sizeof *uses.first * ((size_t)g->values.n + 2))};
    int *next = arena_alloc(g->arena, sizeof *next * ((size_t)g->values.n + 2)), count = 0;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++, count++)
            uses.first[g->nodes.at[n].in[i] + 1]++;
    for (int v = 0; v < g->values.n; v++)
        next[v + 1] = uses.first[v + 1] += uses.first[v];
    uses.use = arena_alloc(g->arena, sizeof *uses.use * ((size_t)count + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++)
            uses.use[next[g->nodes.at[n].in[i]]++] = (Use){n, i};
    return uses;
}

Edit edit_begin(Build *b) {
    return (Edit){.b = b, .s = &b->sharded, .g = &b->sharded.graph, .uses = uses_of(&b->sharded.graph)};
}

bool sharded_reports(const Sharded *s, int v) {
    for (int k = 0; k < graph_nreports(&s->graph); k++)
        if (v == graph_report(&s->graph, k)) return true;
    return false;
}

/* Whether what is gathered of a value for this need is dropped after the phase. */
static bool is_regathered(const Sharded *s, int v, const Layout *need) {
    const Shape *shape = &type_of(&s->graph, v)->shape;
    if (!s->regather[v] || need == s->made[v] || layout_is_partial(s->made[v])) return false;
    return layout_max_elements(need, shape) > layout_max_elements(s->made[v], shape);
}

int taken_in(const Sharded *s, int v, int node, const Layout *need) {
    return is_regathered(s, v, need) ? s->phase[node] : 0;
}

static void want(const Edit *edit, int v, const Layout *layout, int phase, WantedLayouts *wanted) {
    if (layout == edit->s->made[v]) return;
    for (int i = 0; i < wanted->n; i++)
        if (wanted->at[i].layout == layout && wanted->at[i].phase == phase) return;
    int64_t elements = layout_max_elements(layout, &type_of(edit->g, v)->shape);
    vec_push(edit->g->arena, wanted, (Wanted){.layout = layout, .elements = elements, .value = -1, .parent = -1, .phase = phase});
}

void wanted_layouts(const Edit *edit, int v, int phase, WantedLayouts *wanted) {
    const Uses *uses = &edit->uses;
    wanted->n = 0;
    for (int u = uses->first[v]; u < uses->first[v + 1]; u++) {
        const Layout *need = edit->s->need[uses->use[u].node][uses->use[u].operand];
        const int in = taken_in(edit->s, v, uses->use[u].node, need);
        if (phase == ANY_PHASE || in == phase) want(edit, v, need, in, wanted);
    }
    for (int k = 0; phase <= 0 && k < graph_nreports(edit->g); k++)
        if (v == graph_report(edit->g, k)) want(edit, v, edit->s->report_need[k], 0, wanted);
}

/* The first phase after `phase` in which v is wanted; -1: none. */
static int next_phase(const Edit *edit, int v, int phase) {
    int next = -1;
    for (int u = edit->uses.first[v]; u < edit->uses.first[v + 1]; u++) {
        const Use use = edit->uses.use[u];
        const int in = taken_in(edit->s, v, use.node, edit->s->need[use.node][use.operand]);
        if (in > phase && (next < 0 || in < next)) next = in;
    }
    return next;
}

bool casts_parameter(const Graph *g, int node) {
    const Node *cast = &g->nodes.at[node], *read = cast->op == OP_cast ? graph_producer(g, cast->in[0]) : NULL;
    return read != NULL && read->op == OP_read && g->states.at[read->state].trainable && dtype_is_half(type_of(g, cast->out[0])->dtype);
}

bool gathered_again(const Edit *edit, int v) {
    int first = -1;
    for (int u = edit->uses.first[v]; u < edit->uses.first[v + 1]; u++) {
        const Use use = edit->uses.use[u];
        if (!is_regathered(edit->s, v, edit->s->need[use.node][use.operand])) continue;
        if (first >= 0 && edit->s->phase[use.node] != first) return true;
        first = edit->s->phase[use.node];
    }
    return false;
}

ConversionCost value_cost(Edit *edit, int v) {
    const TensorType *type = type_of(edit->g, v);
    ConversionCost cost = {0};
    for (int phase = 0; phase >= 0; phase = edit->s->regather[v] ? next_phase(edit, v, phase) : -1) {
        wanted_layouts(edit, v, phase, &edit->scratch);
        if (edit->scratch.n > 0) cost_add(&cost, tree_plan(edit->b, type, edit->s->made[v], &edit->scratch));
    }
    return (ConversionCost){
        .max = cost.max * dtype_bytes[type->dtype], .total = cost.total * dtype_bytes[type->dtype], .count = cost.count};
}

/* ---------------------------------------------------------------- what must hold */

static bool fail(const Sharded *s, const char *stage, int id, Error *error, const char *what) {
    const Node *node = &s->graph.nodes.at[id];
    return error_set(error, EXIT_INTERNAL, "after %s: node %d (%s %s): %s", stage, id, op_table[node->op].name,
                     node->name != NULL ? node->name : "", what);
}

/* The partial sums of a layout, as one without dimensions. */
static void sums_of(const Layout *layout, Layout *sums) {
    layout_init(sums, 0);
    for (int r = 0; r < NREDUCTIONS; r++)
        for (int i = 0; i < layout_count(layout, layout->ndim + r); i++)
            layout_append(sums, r, layout_list(layout, layout->ndim + r)[i]);
}

/* The digits over which `layout` is partial and `own` is not. False where they differ in anything else. */
static bool sums_beyond(const Layout *layout, const Layout *own, const Shape *shape, Layout *beyond) {
    static const Shape scalar = {0};
    Layout a, b;
    layout_complete(layout, &a);
    layout_complete(own, &b);
    layout_canonical(&a, shape);
    layout_canonical(&b, shape);
    layout_init(beyond, 0);
    if (!layout_equal(&a, &b)) return false;
    sums_of(layout, &a);
    sums_of(own, &b);
    if (!layout_refine(&a, &b)) return false;
    int common = 0;
    for (int r = 0; r < NREDUCTIONS; r++)
        for (int i = 0; i < layout_count(&a, r); i++) {
            const Digit digit = layout_list(&a, r)[i];
            const bool is_own = layout_has(&b, r, digit);
            common += is_own;
            if (!is_own) layout_append(beyond, r, digit);
        }
    layout_canonical(beyond, &scalar);
    return common == b.start[NREDUCTIONS]; /* all of its own are there */
}

/* Whether an operator that reads the operands of this set as terms of sums, and the others complete, gives terms of a sum. */
static bool passes_sums(const Node *node, unsigned set) {
    const unsigned all = (1u << node->nin) - 1;
    switch (op_table[node->op].linear) {
    case LINEAR_NONE:
        return false;
    case LINEAR_JOINT:
        return set == all;
    case LINEAR_EACH:
        return (set & (set - 1)) == 0;
    case LINEAR_OPERAND_0:
        return set == 1;
    case LINEAR_OPERAND_1:
        return set == 2;
    }
    return false;
}

static bool verify_operands(Sharded *s, const char *stage, int id, Layout *passed, unsigned *set, Error *error) {
    Graph *g = &s->graph;
    const Node *node = &g->nodes.at[id];
    *set = 0;
    for (int i = 0; i < node->nin; i++) {
        Layout own, sums;
        const Shape *shape = &type_of(g, node->in[i])->shape;
        const Layout *need = s->need[id][i];
        if (!convertible(s->made[node->in[i]], need))
            return fail(s, stage, id, error, "an operand is needed as a partial sum that it is not");
        strategy_in_layout(node, s->strategy[id], i, shape->ndim, &own);
        if (graph_layout(g, &own, shape) == need) continue;
        if (!sums_beyond(need, &own, shape, &sums) || !layout_is_partial(&sums))
            return fail(s, stage, id, error, "an operand does not lie as its strategy says");
        if (*set != 0 && !layout_equal(&sums, passed)) return fail(s, stage, id, error, "operands are partial over different digits");
        *passed = sums;
        *set |= 1u << i;
    }
    return *set == 0 || passes_sums(node, *set) || fail(s, stage, id, error, "it passes on sums in which it is not linear");
}

static bool verify_node(Sharded *s, const char *stage, int id, Error *error) {
    Graph *g = &s->graph;
    const Node *node = &g->nodes.at[id];
    Layout passed;
    unsigned set;
    if (s->strategy[id] == NULL) return fail(s, stage, id, error, "it has no strategy");
    if (!verify_operands(s, stage, id, &passed, &set, error)) return false;
    for (int k = 0; k < node->nout; k++) {
        Layout own, sums;
        const Shape *shape = &type_of(g, node->out[k])->shape;
        strategy_out_layout(node, s->strategy[id], k, shape->ndim, &own);
        const bool plain = graph_layout(g, &own, shape) == s->made[node->out[k]];
        if (plain ? set != 0 : set == 0 || !sums_beyond(s->made[node->out[k]], &own, shape, &sums) || !layout_equal(&sums, &passed))
            return fail(s, stage, id, error, "a result does not lie as its strategy and operands say");
        if (layout_is_partial(s->home[node->out[k]])) return fail(s, stage, id, error, "a result would stay partial");
        if (layout_has_halo(s->made[node->out[k]]) || layout_has_halo(s->home[node->out[k]]))
            return fail(s, stage, id, error, "a result would be made with halos");
    }
    return true;
}

bool sharded_verify(Sharded *s, const char *stage, Error *error) {
    for (int n = 0; n < s->graph.nodes.n; n++)
        if (!verify_node(s, stage, n, error)) return false;
    for (int k = 0; k < graph_nreports(&s->graph); k++)
        if (layout_is_partial(s->report_need[k]))
            return fail(s, stage, s->graph.values.at[graph_report(&s->graph, k)].node, error, "what is reported is partial");
    return true;
}
