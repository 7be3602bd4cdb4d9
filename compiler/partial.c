/* partial: completes sums where that moves the fewest bytes (-O2).
 *
 * Before: updates; every partial sum is completed where it arises. After: a partial sum may be passed on through operators that are
 * linear in it (op_table[].linear; proof/operators.c has its own table) and is completed behind them, where the tensor is smaller or several
 * sums have become one: a + b, both partial over the same digits, is one AllReduce. A node's boxes stay: it reads an operand before its sum is
 * completed, and its result is partial too; so a digit that the node's strategy uses cannot be passed on. But a node that adds terms, or scales or
 * transposes one, is computed in the layout of its terms where that moves less: each rank then adds whole terms, as the reductions of each term would.
 *
 * It goes forward in program order and passes on wherever that moves no more (a tie may pay further down: a + b needs both). Then it goes backward and
 * completes at once again where passing on brought nothing. Its time is linear in the program; a value with very many users is left alone. */
#include <string.h>

#include "compiler/sharded.h"

enum { MAX_USES = 32, MAX_TURNS = 4 };

/* A node that reads some operands as partial sums. */
typedef struct Deferral {
    int node;
    bool operand[MAX_IN];
    const Layout *need[MAX_IN];    /* the new ones; deferral_swap exchanges them with those in use */
    const Layout *layout[MAX_OUT]; /* the same for the results */
} Deferral;

static int distinct_values(const Edit *edit, const Deferral *deferrals, int n, int *values) {
    int count = 0;
    for (int p = 0; p < n; p++) {
        const Node *node = &edit->g->nodes.at[deferrals[p].node];
        for (int i = 0; i < node->nin + node->nout; i++) {
            if (i < node->nin && !deferrals[p].operand[i]) continue;
            int value = i < node->nin ? edit->g->nodes.at[deferrals[p].node].in[i] : node->out[i - node->nin];
            bool known = false;
            for (int k = 0; k < count; k++)
                known = known || values[k] == value;
            if (!known) values[count++] = value;
        }
    }
    return count;
}

static void deferral_swap(Edit *edit, Deferral *deferral) {
    const Node *node = &edit->g->nodes.at[deferral->node];
    for (int i = 0; i < node->nin; i++) {
        if (!deferral->operand[i]) continue;
        const Layout *was = edit->s->need[deferral->node][i];
        edit->s->need[deferral->node][i] = deferral->need[i];
        deferral->need[i] = was;
    }
    for (int k = 0; k < node->nout; k++) {
        const Layout *was = edit->s->made[node->out[k]];
        edit->s->made[node->out[k]] = deferral->layout[k];
        deferral->layout[k] = was;
    }
}

/* Makes the deferrals, and undoes them unless they cost less (or, with tie, no more). */
static bool try_deferrals(Edit *edit, Deferral *deferrals, int n, bool tie) {
    int values[MAX_USES * (MAX_IN + MAX_OUT)];
    int count = distinct_values(edit, deferrals, n, values);
    ConversionCost before = {0}, after = {0};
    for (int i = 0; i < count; i++)
        cost_add(&before, value_cost(edit, values[i]));
    for (int p = 0; p < n; p++)
        deferral_swap(edit, &deferrals[p]);
    for (int i = 0; i < count; i++)
        cost_add(&after, value_cost(edit, values[i]));
    if (tie ? cost_not_worse(after, before) : cost_better(after, before)) return true;
    for (int p = 0; p < n; p++)
        deferral_swap(edit, &deferrals[p]);
    return false;
}

/* ---------------------------------------------------------------- which digits a node can pass on */

/* The partial sums of `layout`, as a layout without dimensions. */
static Layout partial_sums(const Layout *layout) {
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

/* The digits that a strategy uses. */
static bool strategy_all_digits(const Strategy *strategy, Layout *digits) {
    layout_init(digits, 1);
    for (int f = 0; f < strategy->nfactors; f++)
        for (int i = 0; i < strategy_count(strategy, f); i++)
            if (!layout_append(digits, 0, strategy_digits(strategy, f)[i])) return false;
    return true;
}

static const Layout *with_sums(Edit *edit, const Layout *layout, const Layout *sums, const Shape *shape) {
    Layout with = *layout;
    const char *why;
    for (int i = 0; i < layout_count(sums, REDUCE_SUM); i++)
        if (!layout_append(&with, with.ndim + REDUCE_SUM, layout_list(sums, REDUCE_SUM)[i])) return NULL;
    if (!layout_valid(&with, edit->g->nranks, &why)) return NULL;
    return graph_layout(edit->g, &with, shape);
}

/* Fills *deferral for passing on through the operands marked in it. False: there is no digit to pass on. */
static bool deferral_fill(Edit *edit, Deferral *deferral) {
    const Graph *g = edit->g;
    const Node *node = &g->nodes.at[deferral->node];
    Layout sums, own;
    bool first = true;
    for (int i = 0; i < node->nin; i++) {
        if (layout_is_partial(edit->s->need[deferral->node][i])) return false; /* it passes a sum on already */
        if (!deferral->operand[i]) continue;
        Layout own_sums = partial_sums(edit->s->made[edit->g->nodes.at[deferral->node].in[i]]);
        if (!layout_is_partial(&own_sums)) return false;
        if (first)
            sums = own_sums;
        else if (!sums_filter(&sums, own_sums, false))
            return false;
        first = false;
    }
    if (first || !strategy_all_digits(edit->s->strategy[deferral->node], &own) || !sums_filter(&sums, own, true)) return false;
    for (int i = 0; i < node->nin; i++)
        if (deferral->operand[i] && ((deferral->need[i] = with_sums(edit, edit->s->need[deferral->node][i], &sums,
                                                                    &g->values.at[node->in[i]].type.shape)) == NULL ||
                                     !convertible(edit->s->made[edit->g->nodes.at[deferral->node].in[i]], deferral->need[i])))
            return false;
    for (int k = 0; k < node->nout; k++)
        if ((deferral->layout[k] = with_sums(edit, edit->s->made[node->out[k]], &sums, &g->values.at[node->out[k]].type.shape)) == NULL)
            return false;
    return true;
}

/* Whether it is a + b or a - b. */
static bool adds_terms(const Node *node) {
    return op_table[node->op].linear == LINEAR_JOINT && op_table[node->op].letters != NULL && node->nin > 1;
}

/* Whether it adds gradients of a step's batches each of which is reduced into parts by itself: less memory is worth the bytes. */
static bool adds_parts(const Graph *g, const Node *node) {
    return g->settings.shard_states >= SHARD_GRADIENTS && g->settings.accumulate > 1 && g->nodes.at[node->origin].op == OP_read;
}

/* Fills *deferral for adding up the operands in the one layout that they all have, whatever the node's strategy: its result then has it
 * too. With terms that are complete only if no rank then computes more. */
static bool deferral_fill_terms(Edit *edit, Deferral *deferral) {
    const Graph *g = edit->g;
    const Node *node = &g->nodes.at[deferral->node];
    const Layout *layout = edit->s->made[edit->g->nodes.at[deferral->node].in[0]];
    const Layout *now = edit->s->made[node->out[0]];
    const Shape *result = &g->values.at[node->out[0]].type.shape;
    if (!adds_terms(node) || node->from == STRATEGY_USER || layout == now || adds_parts(g, node)) return false;
    if (!shape_equal(&g->values.at[node->in[0]].type.shape, result)) return false;
    if (!layout_is_partial(layout) && layout_max_elements(layout, result) > layout_max_elements(now, result)) return false;
    for (int i = 0; i < node->nin; i++) {
        if (layout_is_partial(edit->s->need[deferral->node][i]) || edit->s->made[edit->g->nodes.at[deferral->node].in[i]] != layout ||
            !shape_equal(&g->values.at[node->in[i]].type.shape, result))
            return false;
        deferral->operand[i] = true;
        deferral->need[i] = layout;
    }
    deferral->layout[0] = layout;
    return true;
}

/* The operand of an operator that is linear in it and makes one element of each of its elements: -x, 3 * x, x / 2, a transpose; other
 * operands are single numbers. -1: there is none. */
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

/* Fills *deferral for computing the node in the layout of its one term: the result is as partial as the term, and a later sum can add it. */
static bool deferral_fill_lone(Edit *edit, Deferral *deferral) {
    const Graph *g = edit->g;
    const Node *node = &g->nodes.at[deferral->node];
    int term = lone_term(g, node);
    if (term < 0 || node->from == STRATEGY_USER || layout_is_partial(edit->s->need[deferral->node][term])) return false;
    const Layout *layout = edit->s->made[edit->g->nodes.at[deferral->node].in[term]];
    const Shape *result = &g->values.at[node->out[0]].type.shape;
    Layout sums = partial_sums(layout), out;
    Strategy strategy;
    if (!pin_equal(&layout->pin, &edit->s->strategy[deferral->node]->pin)) return false; /* its other operands are not where the term is */
    if (!layout_is_partial(&sums) ||
        layout_count(&sums, REDUCE_SUM) != layout->start[layout->ndim + NREDUCTIONS] - layout->start[layout->ndim])
        return false;
    if (!strategy_of(node, node->rule->in[term], layout, &strategy)) return false;
    strategy_out_layout(node, &strategy, 0, result->ndim, &out);
    if (layout_is_partial(&out) || (deferral->layout[0] = with_sums(edit, &out, &sums, result)) == NULL) return false;
    const Shape *operand = &g->values.at[node->in[term]].type.shape;
    Layout need;
    strategy_in_layout(node, &strategy, term, operand->ndim, &need); /* the term's layout, but for halos */
    deferral->operand[term] = true;
    deferral->need[term] = layout_has_halo(&need) ? with_sums(edit, &need, &sums, operand) : layout;
    return deferral->need[term] != NULL;
}

/* Fills in the ways in which a node can read `operand` (-1: any) as a partial sum. Returns their number. */
static int deferral_options(Edit *edit, int id, int operand, Deferral options[MAX_IN + 1]) {
    const Node *node = &edit->g->nodes.at[id];
    int n = 0;
    if (op_table[node->op].reduction != REDUCE_SUM) return 0;
    switch (op_table[node->op].linear) {
    case LINEAR_NONE:
        return 0;
    case LINEAR_JOINT:
        options[0] = (Deferral){.node = id};
        memset(options[0].operand, true, sizeof *options[0].operand * (size_t)node->nin);
        n += deferral_fill(edit, &options[0]);
        options[n] = (Deferral){.node = id};
        n += deferral_fill_terms(edit, &options[n]);
        break;
    case LINEAR_EACH:
        for (int i = 0; i < node->nin; i++) {
            if (operand >= 0 && operand != i) continue;
            options[n] = (Deferral){.node = id};
            options[n].operand[i] = true;
            n += deferral_fill(edit, &options[n]);
        }
        break;
    case LINEAR_OPERAND_0:
    case LINEAR_OPERAND_1: {
        int i = op_table[node->op].linear == LINEAR_OPERAND_0 ? 0 : 1;
        if (operand >= 0 && operand != i) return 0;
        options[0] = (Deferral){.node = id};
        options[0].operand[i] = true;
        n += deferral_fill(edit, &options[0]);
        break;
    }
    }
    options[n] = (Deferral){.node = id};
    return n + (operand < 0 && deferral_fill_lone(edit, &options[n]));
}

/* ---------------------------------------------------------------- forward and back */

static bool has_few_users(const Edit *edit, int v) {
    int uses = edit->uses.first[v + 1] - edit->uses.first[v];
    return uses > 0 && uses <= MAX_USES;
}

/* Whether some operand of the node is a partial sum, or a term to be converted, and no such one has too many users. */
static bool takes_sums(const Edit *edit, int id) {
    const Node *node = &edit->g->nodes.at[id];
    bool any = false, terms = adds_terms(node);
    for (int i = 0; i < node->nin; i++) {
        const Layout *layout = edit->s->made[edit->g->nodes.at[id].in[i]];
        if (!layout_is_partial(layout) && (!terms || layout == edit->s->need[id][i])) continue;
        any = true;
        if (!has_few_users(edit, edit->g->nodes.at[id].in[i])) return false;
    }
    return any;
}

/* Passes on through one node. True: that moves less. If it moves as much it is done too, as it may pay further down. */
static bool defer(Edit *edit, int id) {
    Deferral options[MAX_IN + 1];
    int n = deferral_options(edit, id, -1, options);
    for (int i = 0; i < n; i++)
        if (try_deferrals(edit, &options[i], 1, false)) return true;
    for (int i = 0; i < n; i++)
        if (try_deferrals(edit, &options[i], 1, true)) return false;
    return false;
}

/* Passes a value that several nodes read on through all of them at once, so that it need not be completed at all. */
static bool defer_by_all(Edit *edit, int v) {
    Deferral deferrals[MAX_USES];
    int n = 0;
    if (sharded_reports(edit->s, v)) return false;
    for (int u = edit->uses.first[v]; u < edit->uses.first[v + 1]; u++) {
        Deferral options[MAX_IN + 1];
        Use use = edit->uses.use[u];
        if (n > 0 && deferrals[n - 1].node == use.node) { /* a + a: the first operand's deferral has it too; a * a is not linear */
            if (!deferrals[n - 1].operand[use.operand]) return false;
            continue;
        }
        if (layout_is_partial(edit->s->need[use.node][use.operand])) continue; /* it does already */
        if (deferral_options(edit, use.node, use.operand, options) == 0) return false;
        deferrals[n++] = options[0];
    }
    return n > 1 && try_deferrals(edit, deferrals, n, false);
}

/* Fills *deferral with the layouts from before this pass. False: the node reads no partial sums, or something reads its results as such. */
static bool completed_before(const Edit *edit, int id, Deferral *deferral) {
    const Graph *g = edit->g;
    const Node *node = &g->nodes.at[id];
    bool passes = false;
    *deferral = (Deferral){.node = id};
    for (int i = 0; i < node->nin; i++) {
        Layout need;
        const Shape *shape = &type_of(g, node->in[i])->shape;
        strategy_in_layout(node, node->strategy, i, shape->ndim, &need);
        deferral->need[i] = graph_layout(edit->g, &need, shape);
        deferral->operand[i] = deferral->need[i] != edit->s->need[id][i];
        passes = passes || deferral->operand[i];
    }
    for (int k = 0; passes && k < node->nout; k++) {
        deferral->layout[k] = g->values.at[node->out[k]].layout;
        for (int u = edit->uses.first[node->out[k]]; u < edit->uses.first[node->out[k] + 1]; u++)
            if (!convertible(deferral->layout[k], edit->s->need[edit->uses.use[u].node][edit->uses.use[u].operand])) return false;
    }
    return passes;
}

static bool forward(Edit *edit) {
    const Graph *g = edit->g;
    bool gained = false;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node)) continue;
        if (takes_sums(edit, n)) gained |= defer(edit, n);
        for (int k = 0; k < node->nout; k++)
            if (layout_is_partial(edit->s->made[node->out[k]]) && has_few_users(edit, node->out[k]))
                gained |= defer_by_all(edit, node->out[k]);
    }
    return gained;
}

static void back(Edit *edit) {
    Deferral deferral;
    for (int n = edit->g->nodes.n - 1; n >= 0; n--)
        if (completed_before(edit, n, &deferral)) try_deferrals(edit, &deferral, 1, true);
}

/* Sets the strategies of nodes that are computed in the layout of their terms to what follows from that. */
static void name_strategies(Edit *edit) {
    const Graph *g = edit->g;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if ((!adds_terms(node) && lone_term(g, node) < 0) || edit->s->made[node->out[0]] == g->values.at[node->out[0]].layout) continue;
        Strategy strategy;
        if (strategy_of(node, node->rule->out[0], edit->s->made[node->out[0]], &strategy))
            edit->s->strategy[n] = graph_strategy(edit->g, &strategy);
    }
}

bool pass_partial(Build *b) {
    if (b->options->optimize < 2) return true;
    Edit edit = edit_begin(b);
    bool gained = true;
    for (int turn = 0; gained && turn < MAX_TURNS; turn++) {
        gained = forward(&edit);
        back(&edit);
    }
    name_strategies(&edit);
    return true;
}
