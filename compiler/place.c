/* place: moves conversions to where their tensor is smallest (-O2).
 *
 * Before: partial. After: where fewer bytes move, a node of one operand that moves, expands or shrinks its data, or works element by element, may be
 * computed in the layout in which its result is needed (the conversion moves before it: a broadcast expansion, or a chain in which conversions then
 * cancel), or in that of its operand (the conversion moves behind it: a slice, a reduction), along chains of such nodes.
 * The busiest rank computes no more than before; what the user said of a node stays. No other node changes its strategy. */
#include <string.h>

#include "compiler/sharded.h"

enum { MAX_CHAIN = 8, MAX_TARGETS = 8 };

/* A node and another way to compute it; relayout_swap exchanges that with the present one. */
typedef struct Relayout {
    int node;
    const Strategy *strategy;
    const Layout *need, *layout;
} Relayout;

static void relayout_swap(Edit *edit, Relayout *relayout) {
    const Node *node = &edit->g->nodes.at[relayout->node];
    Relayout was = {relayout->node, edit->s->strategy[relayout->node], edit->s->need[relayout->node][0], edit->s->made[node->out[0]]};
    edit->s->strategy[relayout->node] = relayout->strategy;
    edit->s->need[relayout->node][0] = relayout->need;
    edit->s->made[node->out[0]] = relayout->layout;
    *relayout = was;
}

/* The most that one rank computes. */
static double busiest_work(const Node *node, const Strategy *strategy) {
    double work = op_table[node->op].flops;
    for (int f = 0; f < node->rule->nfactors; f++) {
        int64_t split = strategy_split(strategy, f), size = node->rule->factor[f].size;
        work *= (double)((size + split - 1) / split);
    }
    return work;
}

static bool is_movable(const Edit *edit, int id) {
    const Node *node = &edit->g->nodes.at[id];
    const Op *op = &op_table[node->op];
    return node->nin == 1 && node->nout == 1 && (op->op_class == OP_CLASS_USER || op->op_class == OP_CLASS_INTERNAL) && !op->boundary &&
           node->from != STRATEGY_USER && op->reduction == REDUCE_SUM && (op->linear == LINEAR_JOINT || op->letters != NULL) &&
           !layout_is_partial(edit->s->need[id][0]);
}

/* Fills in how the node would be computed with its operand (or its result) in this layout. */
static bool relayout_fill(Edit *edit, int id, const Layout *operand, const Layout *result, Relayout *relayout) {
    Graph *g = edit->g;
    const Node *node = &g->nodes.at[id];
    const Shape *in = &g->values.at[node->in[0]].type.shape, *out = &g->values.at[node->out[0]].type.shape;
    Strategy strategy;
    Layout need, layout;
    const char *why;
    if (!strategy_of(node, operand != NULL ? node->rule->in[0] : node->rule->out[0], operand != NULL ? operand : result, &strategy))
        return false;
    if (busiest_work(node, &strategy) > busiest_work(node, edit->s->strategy[id])) return false;
    strategy_in_layout(node, &strategy, 0, in->ndim, &need);
    strategy_out_layout(node, &strategy, 0, out->ndim, &layout);
    if (!layout_valid(&need, g->nranks, &why) || !layout_valid(&layout, g->nranks, &why)) return false;
    *relayout = (Relayout){id, graph_strategy(g, &strategy), graph_layout(g, &need, in), graph_layout(g, &layout, out)};
    return (operand == NULL || relayout->need == operand) && (result == NULL || relayout->layout == result);
}

/* The only node that reads v; -1: there are several or none. */
static int only_user(const Edit *edit, int v) {
    bool one = edit->uses.first[v + 1] - edit->uses.first[v] == 1 && !sharded_reports(edit->s, v);
    return one ? edit->uses.use[edit->uses.first[v]].node : -1;
}

/* Whether v in its present layout can still be converted for all nodes that read it as a partial sum. */
static bool no_sum_is_lost(const Edit *edit, int v) {
    for (int u = edit->uses.first[v]; u < edit->uses.first[v + 1]; u++)
        if (!convertible(edit->s->made[v], edit->s->need[edit->uses.use[u].node][edit->uses.use[u].operand])) return false;
    return true;
}

/* Moves a conversion along a chain of nodes: up, before the nodes that make v, which is needed in `wanted`; or down, behind the nodes that
 * read v, whose layout that is. Keeps as many of the moves as cost least. True: that is any. */
static bool move_chain(Edit *edit, int v, const Layout *wanted, bool up) {
    const Graph *g = edit->g;
    Relayout relayouts[MAX_CHAIN];
    int values[MAX_CHAIN + 1], n = 0, best = 0;
    ConversionCost before = value_cost(edit, v), after = before, least = {0}; /* least: the gain, negative */
    for (int at = v; n < MAX_CHAIN;) {
        int id = up ? g->values.at[at].node : only_user(edit, at);
        if (id < 0 || !is_movable(edit, id) || !relayout_fill(edit, id, up ? NULL : wanted, up ? wanted : NULL, &relayouts[n])) break;
        int next = up ? edit->g->nodes.at[id].in[0] : g->nodes.at[id].out[0];
        values[n] = next;
        cost_add(&before, value_cost(edit, next));
        relayout_swap(edit, &relayouts[n++]);
        if (!no_sum_is_lost(edit, g->nodes.at[id].out[0])) break;
        after = value_cost(edit, v);
        for (int k = 0; k < n; k++)
            cost_add(&after, value_cost(edit, values[k]));
        ConversionCost gain = {after.max - before.max, after.total - before.total, after.count - before.count};
        bool better = gain.max <= 0 && gain.total <= 0 && (gain.max < 0 || gain.total < 0);
        if (better && cost_compare(gain, least) < 0) {
            least = gain;
            best = n;
        }
        wanted = up ? edit->s->need[id][0] : edit->s->made[next];
        at = next;
        if (!up && layout_is_partial(wanted)) break;
    }
    while (n > best)
        relayout_swap(edit, &relayouts[--n]);
    return best > 0;
}

static bool place_value(Edit *edit, int v) {
    WantedLayouts targets = {0};
    wanted_layouts(edit, v, ANY_PHASE, &targets);
    bool moved = false;
    for (int i = 0; i < targets.n && i < MAX_TARGETS; i++)
        if (targets.at[i].layout != edit->s->made[v] && !layout_is_partial(targets.at[i].layout))
            moved |= move_chain(edit, v, targets.at[i].layout, true);
    if (!layout_is_partial(edit->s->made[v]) && only_user(edit, v) >= 0 && edit->s->need[only_user(edit, v)][0] != edit->s->made[v])
        moved |= move_chain(edit, v, edit->s->made[v], false);
    return moved;
}

bool pass_place(Build *b) {
    if (b->options->optimize < 2) return true;
    Edit edit = edit_begin(b);
    bool moved = true;
    for (int turn = 0; moved && turn < 2; turn++) {
        moved = false;
        for (int v = 0; v < edit.g->values.n; v++)
            if (edit.uses.first[v] < edit.uses.first[v + 1]) moved |= place_value(&edit, v);
    }
    return true;
}
