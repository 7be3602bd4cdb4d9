/* place: conversions stand where their tensor is smallest (-O2).
 *
 * Before: partial. After, in c->flow: a node of one operand that moves, expands or shrinks its data, or works element by element, may be computed in the
 * layout in which its result is needed (the conversion moves before it: a broadcast expansion, or a chain in which conversions then cancel), or
 * in the one in which its operand is (the conversion moves behind it: a slice, a reduction), along chains of such nodes, where fewer bytes move.
 * The busiest rank computes no more than before; what the user said of a node stays. Nothing else changes its strategy. */
#include <string.h>

#include "compiler/flow.h"

enum { MAX_CHAIN = 8, MAX_TARGETS = 8 };

/* A node and how it would be computed; move_swap exchanges that with how it is. */
typedef struct Move {
    int node;
    const Strategy *strategy;
    const Layout *need, *layout;
} Move;

static void move_swap(Flow *flow, Move *move) {
    Node *node = &flow->g->nodes.at[move->node];
    Move was = {move->node, node->strategy, flow->need[move->node][0], flow->layout[node->out[0]]};
    node->strategy = move->strategy;
    flow->need[move->node][0] = move->need;
    flow->layout[node->out[0]] = move->layout;
    *move = was;
}

/* What one rank computes at most. */
static double busiest_work(const Node *node, const Strategy *strategy) {
    double work = op_table[node->op].flops;
    for (int f = 0; f < node->rule->nfactors; f++) {
        int64_t split = strategy_split(strategy, f), size = node->rule->factor[f].size;
        work *= (double)((size + split - 1) / split);
    }
    return work;
}

static bool is_movable(const Flow *flow, int id) {
    const Node *node = &flow->g->nodes.at[id];
    const Op *op = &op_table[node->op];
    return node->nin == 1 && node->nout == 1 && (op->op_class == OP_CLASS_USER || op->op_class == OP_CLASS_INTERNAL) && !op->boundary &&
           node->from != STRATEGY_USER && node->strategy != NULL && op->reduction == REDUCE_SUM &&
           (op->linear == LINEAR_JOINT || op->letters != NULL) && !layout_is_partial(flow->need[id][0]);
}

bool strategy_of(const Node *node, const int8_t *factor, const Layout *layout, Strategy *strategy) {
    memset(strategy, 0, sizeof *strategy);
    strategy->nfactors = node->rule->nfactors;
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

/* Fills how the node would be computed with its operand (or its result) in this layout. */
static bool move_fill(Flow *flow, int id, const Layout *operand, const Layout *result, Move *move) {
    Graph *g = flow->g;
    const Node *node = &g->nodes.at[id];
    const Shape *in = &g->values.at[node->in[0]].type.shape, *out = &g->values.at[node->out[0]].type.shape;
    Strategy strategy;
    Layout need, layout;
    const char *why;
    if (!strategy_of(node, operand != NULL ? node->rule->in[0] : node->rule->out[0], operand != NULL ? operand : result, &strategy)) return false;
    if (busiest_work(node, &strategy) > busiest_work(node, node->strategy)) return false;
    strategy_in_layout(node, &strategy, 0, in->ndim, &need);
    strategy_out_layout(node, &strategy, 0, out->ndim, &layout);
    if (!layout_valid(&need, g->nranks, &why) || !layout_valid(&layout, g->nranks, &why)) return false;
    Strategy *kept = arena_alloc(flow->c->arena, sizeof *kept);
    *kept = strategy;
    *move = (Move){id, kept, graph_layout(g, &need, in), graph_layout(g, &layout, out)};
    return (operand == NULL || move->need == operand) && (result == NULL || move->layout == result);
}

/* The node and operand that alone take v; -1 where there are several or none. */
static int only_user(const Flow *flow, int v) {
    bool one = flow->first_use[v + 1] - flow->first_use[v] == 1 && !flow_reports(flow, v);
    return one ? flow->use[flow->first_use[v]].node : -1;
}

/* Whether v as it lies now can still be given to all that take it as a sum that is owed. */
static bool no_sum_is_lost(const Flow *flow, int v) {
    for (int u = flow->first_use[v]; u < flow->first_use[v + 1]; u++)
        if (!convertible(flow->layout[v], flow->need[flow->use[u].node][flow->use[u].operand])) return false;
    return true;
}

/* Moves the conversion before node after node of a chain, up from value v which is needed in `wanted`, or behind them, down from v which lies so;
 * keeps as many of the moves as cost least. True when that is any. */
static bool move_chain(Flow *flow, int v, const Layout *wanted, bool up) {
    const Graph *g = flow->g;
    Move moves[MAX_CHAIN];
    int values[MAX_CHAIN + 1], n = 0, best = 0;
    FlowCost before = flow_cost(flow, v), after = before, least = {0}; /* least: the gain, negative */
    for (int at = v; n < MAX_CHAIN;) {
        int id = up ? g->values.at[at].node : only_user(flow, at);
        if (id < 0 || !is_movable(flow, id) || !move_fill(flow, id, up ? NULL : wanted, up ? wanted : NULL, &moves[n])) break;
        int next = up ? flow->root[id][0] : g->nodes.at[id].out[0];
        values[n] = next;
        cost_add(&before, flow_cost(flow, next));
        move_swap(flow, &moves[n++]);
        if (!no_sum_is_lost(flow, g->nodes.at[id].out[0])) break;
        after = flow_cost(flow, v);
        for (int k = 0; k < n; k++)
            cost_add(&after, flow_cost(flow, values[k]));
        FlowCost gain = {after.max - before.max, after.total - before.total, after.count - before.count};
        bool better = gain.max <= 0 && gain.total <= 0 && (gain.max < 0 || gain.total < 0);
        if (better && cost_compare(gain, least) < 0) {
            least = gain;
            best = n;
        }
        wanted = up ? flow->need[id][0] : flow->layout[next];
        at = next;
        if (!up && layout_is_partial(wanted)) break;
    }
    while (n > best)
        move_swap(flow, &moves[--n]);
    return best > 0;
}

static bool place_value(Flow *flow, int v) {
    Targets targets = {0};
    flow_targets(flow, v, &targets);
    bool moved = false;
    for (int i = 0; i < targets.n && i < MAX_TARGETS; i++)
        if (targets.at[i].layout != flow->layout[v] && !layout_is_partial(targets.at[i].layout)) moved |= move_chain(flow, v, targets.at[i].layout, true);
    if (!layout_is_partial(flow->layout[v]) && only_user(flow, v) >= 0 && flow->need[only_user(flow, v)][0] != flow->layout[v])
        moved |= move_chain(flow, v, flow->layout[v], false);
    return moved;
}

bool pass_place(Compilation *c) {
    if (c->options->optimize < 2) return true;
    Flow *flow = flow_of(c);
    bool moved = true;
    for (int turn = 0; moved && turn < 2; turn++) {
        moved = false;
        for (int v = 0; v < c->graph.values.n; v++)
            if (flow->first_use[v] < flow->first_use[v + 1]) moved |= place_value(flow, v);
    }
    return true;
}
