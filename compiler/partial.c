/* partial: sums are completed where that moves the fewest bytes (-O2).
 *
 * Before: localize; every partial sum is completed where it arises. After, in c->flow: a sum that is owed may be passed on through operators that are
 * linear in it (op_table[].linear; proof/operators.c has its own table) and is completed behind them, where the tensor is smaller or several
 * sums have become one: a + b, both partial over the same digits, is one AllReduce. A node's boxes stay, it only takes an operand without the sum
 * that is owed, and owes it itself; so a digit that the node's strategy uses cannot be passed on. But a node that adds terms, or scales or
 * turns one, is computed as its terms lie, where that moves less: each rank then adds whole terms, which the reductions of each term would have done too.
 *
 * Forward, in program order: pass on wherever that moves no more (a tie may pay further down: a + b needs both). Then backward: complete at once
 * again where passing on brought nothing. Linear in the program; a value with very many users is left alone. */
#include <string.h>

#include "compiler/flow.h"

enum { MAX_USES = 32, MAX_TURNS = 4 };

/* One node that takes some operands as partial sums. */
typedef struct Pass {
    int node;
    bool operand[MAX_IN];
    const Layout *need[MAX_IN];    /* as they are to be, swapped with what was by pass_swap */
    const Layout *layout[MAX_OUT]; /* the same of the results */
} Pass;

static int distinct_values(const Flow *flow, const Pass *passes, int n, int *values) {
    int count = 0;
    for (int p = 0; p < n; p++) {
        const Node *node = &flow->g->nodes.at[passes[p].node];
        for (int i = 0; i < node->nin + node->nout; i++) {
            if (i < node->nin && !passes[p].operand[i]) continue;
            int value = i < node->nin ? flow->root[passes[p].node][i] : node->out[i - node->nin];
            bool known = false;
            for (int k = 0; k < count; k++)
                known = known || values[k] == value;
            if (!known) values[count++] = value;
        }
    }
    return count;
}

static void pass_swap(Flow *flow, Pass *pass) {
    const Node *node = &flow->g->nodes.at[pass->node];
    for (int i = 0; i < node->nin; i++) {
        if (!pass->operand[i]) continue;
        const Layout *was = flow->need[pass->node][i];
        flow->need[pass->node][i] = pass->need[i];
        pass->need[i] = was;
    }
    for (int k = 0; k < node->nout; k++) {
        const Layout *was = flow->layout[node->out[k]];
        flow->layout[node->out[k]] = pass->layout[k];
        pass->layout[k] = was;
    }
}

/* Makes the passes; undoes them unless they cost less (or, with tie, no more). */
static bool try_passes(Flow *flow, Pass *passes, int n, bool tie) {
    int values[MAX_USES * (MAX_IN + MAX_OUT)];
    int count = distinct_values(flow, passes, n, values);
    FlowCost before = {0}, after = {0};
    for (int i = 0; i < count; i++)
        cost_add(&before, flow_cost(flow, values[i]));
    for (int p = 0; p < n; p++)
        pass_swap(flow, &passes[p]);
    for (int i = 0; i < count; i++)
        cost_add(&after, flow_cost(flow, values[i]));
    if (tie ? cost_not_worse(after, before) : cost_better(after, before)) return true;
    for (int p = 0; p < n; p++)
        pass_swap(flow, &passes[p]);
    return false;
}

/* ---------------------------------------------------------------- which digits a node can pass on */

/* The sums that `layout` owes, as a layout without dimensions. */
static Layout owed_sums(const Layout *layout) {
    Layout sums;
    layout_init(&sums, 0);
    for (int i = 0; i < layout_count(layout, layout->ndim + REDUCE_SUM); i++)
        layout_append(&sums, REDUCE_SUM, layout_list(layout, layout->ndim + REDUCE_SUM)[i]);
    return sums;
}

static bool overlap(Digit a, Digit b) {
    return a.stride < (int64_t)b.stride * b.size && b.stride < (int64_t)a.stride * a.size;
}

/* Keeps of *sums the digits that `other` has too (or, with without, those that it does not touch). */
static bool sums_filter(Layout *sums, Layout other, bool without) {
    Layout kept;
    if (!layout_refine(sums, &other)) return false;
    layout_init(&kept, 0);
    for (int i = 0; i < layout_count(sums, REDUCE_SUM); i++) {
        Digit digit = layout_list(sums, REDUCE_SUM)[i];
        bool found = false;
        for (int k = 0; k < other.start[other.ndim + NREDUCTIONS]; k++)
            found = found || overlap(digit, other.digit[k]);
        if (found != without && !layout_append(&kept, REDUCE_SUM, digit)) return false;
    }
    *sums = kept;
    return layout_is_partial(sums);
}

/* The digits that the node's strategy uses. */
static bool node_digits(const Node *node, Layout *digits) {
    layout_init(digits, 1);
    for (int f = 0; node->strategy != NULL && f < node->strategy->nfactors; f++)
        for (int i = 0; i < strategy_count(node->strategy, f); i++)
            if (!layout_append(digits, 0, strategy_digits(node->strategy, f)[i])) return false;
    return true;
}

static const Layout *with_sums(Flow *flow, const Layout *layout, const Layout *sums, const Shape *shape) {
    Layout with = *layout;
    const char *why;
    for (int i = 0; i < layout_count(sums, REDUCE_SUM); i++)
        if (!layout_append(&with, with.ndim + REDUCE_SUM, layout_list(sums, REDUCE_SUM)[i])) return NULL;
    if (!layout_valid(&with, flow->g->nranks, &why)) return NULL;
    return graph_layout(flow->g, &with, shape);
}

/* Fills what passing on through the operands marked in *pass would be. False where there is no digit to pass on. */
static bool pass_fill(Flow *flow, Pass *pass) {
    const Graph *g = flow->g;
    const Node *node = &g->nodes.at[pass->node];
    Layout sums, own;
    bool first = true;
    for (int i = 0; i < node->nin; i++) {
        if (layout_is_partial(flow->need[pass->node][i])) return false; /* passes a sum on already */
        if (!pass->operand[i]) continue;
        Layout owed = owed_sums(flow->layout[flow->root[pass->node][i]]);
        if (!layout_is_partial(&owed)) return false;
        if (first)
            sums = owed;
        else if (!sums_filter(&sums, owed, false))
            return false;
        first = false;
    }
    if (first || !node_digits(node, &own) || !sums_filter(&sums, own, true)) return false;
    for (int i = 0; i < node->nin; i++)
        if (pass->operand[i] &&
            ((pass->need[i] = with_sums(flow, flow->need[pass->node][i], &sums, &g->values.at[node->in[i]].type.shape)) == NULL ||
             !convertible(flow->layout[flow->root[pass->node][i]], pass->need[i])))
            return false;
    for (int k = 0; k < node->nout; k++)
        if ((pass->layout[k] = with_sums(flow, flow->layout[node->out[k]], &sums, &g->values.at[node->out[k]].type.shape)) == NULL) return false;
    return true;
}

/* a + b and a - b. */
static bool adds_terms(const Node *node) {
    return op_table[node->op].linear == LINEAR_JOINT && op_table[node->op].letters != NULL && node->nin > 1;
}

/* Fills what adding up the operands as they lie would be, all in one layout, whatever the node's strategy: its result then lies so too. Terms that
 * owe nothing only where no rank then computes more. */
static bool pass_fill_terms(Flow *flow, Pass *pass) {
    const Graph *g = flow->g;
    const Node *node = &g->nodes.at[pass->node];
    const Layout *layout = flow->layout[flow->root[pass->node][0]];
    const Layout *now = flow->layout[node->out[0]];
    const Shape *result = &g->values.at[node->out[0]].type.shape;
    if (!adds_terms(node) || node->from == STRATEGY_USER || layout == now) return false;
    if (!shape_equal(&g->values.at[node->in[0]].type.shape, result)) return false;
    if (!layout_is_partial(layout) && layout_max_elements(layout, result) > layout_max_elements(now, result)) return false;
    for (int i = 0; i < node->nin; i++) {
        if (layout_is_partial(flow->need[pass->node][i]) || flow->layout[flow->root[pass->node][i]] != layout ||
            !shape_equal(&g->values.at[node->in[i]].type.shape, result))
            return false;
        pass->operand[i] = true;
        pass->need[i] = layout;
    }
    pass->layout[0] = layout;
    return true;
}

/* The operand of an operator that is linear in it and makes one element of each of its: -x, 3 * x, x / 2, a transpose; the others are single numbers. -1: there
 * is none. */
static int lone_term(const Graph *g, const Node *node) {
    int term = -1;
    if (op_table[node->op].op_class == OP_CLASS_LEAF || node->nout != 1 || op_table[node->op].boundary) return -1;
    int64_t elements = shape_elements(&g->values.at[node->out[0]].type.shape);
    switch (op_table[node->op].linear) {
    case LINEAR_NONE:
        return -1;
    case LINEAR_JOINT:
        term = node->nin == 1 ? 0 : -1;
        break;
    case LINEAR_EACH:
        for (int i = 0; i < node->nin; i++)
            if (shape_elements(&g->values.at[node->in[i]].type.shape) > 1) term = i;
        break;
    case LINEAR_OPERAND_0:
        term = 0;
        break;
    case LINEAR_OPERAND_1:
        term = 1;
        break;
    }
    for (int i = 0; term >= 0 && i < node->nin; i++)
        if (shape_elements(&g->values.at[node->in[i]].type.shape) != (i == term ? elements : 1)) return -1;
    return term;
}

/* Fills what computing the node on its one term as it lies would be: the result owes what the term does, and a sum behind it can add it to others. */
static bool pass_fill_lone(Flow *flow, Pass *pass) {
    const Graph *g = flow->g;
    const Node *node = &g->nodes.at[pass->node];
    int term = lone_term(g, node);
    if (term < 0 || node->from == STRATEGY_USER || layout_is_partial(flow->need[pass->node][term])) return false;
    const Layout *layout = flow->layout[flow->root[pass->node][term]];
    const Shape *result = &g->values.at[node->out[0]].type.shape;
    Layout sums = owed_sums(layout), out;
    Strategy strategy;
    if (!layout_is_partial(&sums) || layout_count(&sums, REDUCE_SUM) != layout->start[layout->ndim + NREDUCTIONS] - layout->start[layout->ndim]) return false;
    if (!strategy_of(node, node->rule->in[term], layout, &strategy)) return false;
    strategy_out_layout(node, &strategy, 0, result->ndim, &out);
    if (layout_is_partial(&out) || (pass->layout[0] = with_sums(flow, &out, &sums, result)) == NULL) return false;
    pass->operand[term] = true;
    pass->need[term] = layout;
    return true;
}

/* The ways in which a node can take `operand` (-1: any) as a partial sum. Returns their number. */
static int pass_options(Flow *flow, int id, int operand, Pass options[MAX_IN + 1]) {
    const Node *node = &flow->g->nodes.at[id];
    int n = 0;
    if (op_table[node->op].reduction != REDUCE_SUM) return 0;
    switch (op_table[node->op].linear) {
    case LINEAR_NONE:
        return 0;
    case LINEAR_JOINT:
        options[0] = (Pass){.node = id};
        memset(options[0].operand, true, sizeof *options[0].operand * (size_t)node->nin);
        n += pass_fill(flow, &options[0]);
        options[n] = (Pass){.node = id};
        n += pass_fill_terms(flow, &options[n]);
        break;
    case LINEAR_EACH:
        for (int i = 0; i < node->nin; i++) {
            if (operand >= 0 && operand != i) continue;
            options[n] = (Pass){.node = id};
            options[n].operand[i] = true;
            n += pass_fill(flow, &options[n]);
        }
        break;
    case LINEAR_OPERAND_0:
    case LINEAR_OPERAND_1: {
        int i = op_table[node->op].linear == LINEAR_OPERAND_0 ? 0 : 1;
        if (operand >= 0 && operand != i) return 0;
        options[0] = (Pass){.node = id};
        options[0].operand[i] = true;
        n += pass_fill(flow, &options[0]);
        break;
    }
    }
    options[n] = (Pass){.node = id};
    return n + (operand < 0 && pass_fill_lone(flow, &options[n]));
}

/* ---------------------------------------------------------------- forward and back */

static bool has_few_users(const Flow *flow, int v) {
    int uses = flow->first_use[v + 1] - flow->first_use[v];
    return uses > 0 && uses <= MAX_USES;
}

/* Some operand of the node is a sum that is owed, or a term to be converted, and no such one has too many users. */
static bool takes_sums(const Flow *flow, int id) {
    const Node *node = &flow->g->nodes.at[id];
    bool any = false, terms = adds_terms(node);
    for (int i = 0; i < node->nin; i++) {
        const Layout *layout = flow->layout[flow->root[id][i]];
        if (!layout_is_partial(layout) && (!terms || layout == flow->need[id][i])) continue;
        any = true;
        if (!has_few_users(flow, flow->root[id][i])) return false;
    }
    return any;
}

/* Passes on through one node. True when that moves less; where it moves as much it is done too, for what may come behind it. */
static bool pass_on(Flow *flow, int id) {
    Pass options[MAX_IN + 1];
    int n = pass_options(flow, id, -1, options);
    for (int i = 0; i < n; i++)
        if (try_passes(flow, &options[i], 1, false)) return true;
    for (int i = 0; i < n; i++)
        if (try_passes(flow, &options[i], 1, true)) return false;
    return false;
}

/* A value that several nodes take: through all of them at once, so that it need not be completed at all. */
static bool pass_on_by_all(Flow *flow, int v) {
    Pass passes[MAX_USES];
    int n = 0;
    if (flow_reports(flow, v)) return false;
    for (int u = flow->first_use[v]; u < flow->first_use[v + 1]; u++) {
        Pass options[MAX_IN + 1];
        Use use = flow->use[u];
        if (n > 0 && passes[n - 1].node == use.node) { /* a + a: the first operand's pass has it too; a * a is not linear */
            if (!passes[n - 1].operand[use.operand]) return false;
            continue;
        }
        if (layout_is_partial(flow->need[use.node][use.operand])) continue; /* does already */
        if (pass_options(flow, use.node, use.operand, options) == 0) return false;
        passes[n++] = options[0];
    }
    return n > 1 && try_passes(flow, passes, n, false);
}

/* The node's operands and results as they were before this pass, where it takes sums that are owed and nobody takes its results as such. */
static bool completed_before(const Flow *flow, int id, Pass *pass) {
    const Graph *g = flow->g;
    const Node *node = &g->nodes.at[id];
    bool passes = false;
    *pass = (Pass){.node = id};
    for (int i = 0; i < node->nin; i++) {
        pass->need[i] = g->values.at[node->in[i]].layout;
        pass->operand[i] = pass->need[i] != flow->need[id][i];
        passes = passes || pass->operand[i];
    }
    for (int k = 0; passes && k < node->nout; k++) {
        pass->layout[k] = g->values.at[node->out[k]].layout;
        for (int u = flow->first_use[node->out[k]]; u < flow->first_use[node->out[k] + 1]; u++)
            if (!convertible(pass->layout[k], flow->need[flow->use[u].node][flow->use[u].operand])) return false;
    }
    return passes;
}

static bool forward(Flow *flow) {
    const Graph *g = flow->g;
    bool gained = false;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_convert || is_leaf_node(node)) continue;
        if (takes_sums(flow, n)) gained |= pass_on(flow, n);
        for (int k = 0; k < node->nout; k++)
            if (layout_is_partial(flow->layout[node->out[k]]) && has_few_users(flow, node->out[k])) gained |= pass_on_by_all(flow, node->out[k]);
    }
    return gained;
}

static void back(Flow *flow) {
    Pass pass;
    for (int n = flow->g->nodes.n - 1; n >= 0; n--)
        if (flow->g->nodes.at[n].op != OP_convert && completed_before(flow, n, &pass)) try_passes(flow, &pass, 1, true);
}

/* Terms that are added up as they lie: the node's strategy is what that makes of it. */
static void name_strategies(Flow *flow) {
    Graph *g = flow->g;
    for (int n = 0; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        if ((!adds_terms(node) && lone_term(g, node) < 0) || node->strategy == NULL || flow->layout[node->out[0]] == g->values.at[node->out[0]].layout) continue;
        Strategy *strategy = arena_alloc(flow->c->arena, sizeof *strategy);
        if (strategy_of(node, node->rule->out[0], flow->layout[node->out[0]], strategy)) node->strategy = strategy;
    }
}

bool pass_partial(Compilation *c) {
    if (c->options->optimize < 2) return true;
    Flow *flow = flow_of(c);
    bool gained = true;
    for (int turn = 0; gained && turn < MAX_TURNS; turn++) {
        gained = forward(flow);
        back(flow);
    }
    name_strategies(flow);
    return true;
}
