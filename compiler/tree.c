/* tree: where one value is wanted in several layouts, decides which is made from which. A value usually has one or two targets. For up to four, all trees are tried;
 * for more, a greedy tree is improved edge by edge. */
#include "compiler/sharded.h"

#include "compiler/convert.h"

enum { MAX_EXACT = 4 };    /* targets for which all trees are tried: 5^4 at most */
enum { MAX_SOURCES = 16 }; /* targets tried as a source for others: bounds the work for a value with very many */

int cost_compare(ConversionCost a, ConversionCost b) {
    if (a.max != b.max) return a.max < b.max ? -1 : 1;
    if (a.total != b.total) return a.total < b.total ? -1 : 1;
    return a.count < b.count ? -1 : a.count > b.count;
}

/* A layout with halos has boxes that overlap, and is no source. A sum that stays partial keeps groups of ranks apart: both layouts must
 * then be of meshes that can be refined together (3@4 and 2@6 cannot). */
bool convertible(const Layout *from, const Layout *to) {
    Digit digits[MAX_DIGITS];
    Reduction kind;
    Layout a = *from, b = *to;
    if (from == to || layout_has_halo(from)) return from == to;
    return !layout_is_partial(to) || (layout_refine(&a, &b) && layout_summed(from, to, digits, &kind) >= 0);
}

static ConversionCost edge_cost(Build *b, const Layout *from, const Layout *to, const TensorType *type) {
    const Conversion *plan = conversion_plan(b, from, to, type, b->options->redistribution);
    return (ConversionCost){.max = plan->received.max, .total = plan->received.total, .count = plan->rounds};
}

static const Layout *source_of(const Layout *from, const WantedLayouts *targets, int i) {
    return i < 0 ? from : targets->at[i].layout;
}

static bool is_descendant(const WantedLayouts *targets, int i, int ancestor) {
    for (; i >= 0; i = targets->at[i].parent)
        if (i == ancestor) return true;
    return false;
}

static void sort_by_size(WantedLayouts *targets) {
    for (int i = 1; i < targets->n; i++) {
        Wanted moved = targets->at[i];
        int at = i;
        for (; at > 0 && targets->at[at - 1].elements < moved.elements; at--)
            targets->at[at] = targets->at[at - 1];
        targets->at[at] = moved;
    }
}

/* Gives target i the cheapest parent of the value and the targets in [0, limit). True: that changed it. */
static bool choose_parent(Build *b, const TensorType *type, const Layout *from, WantedLayouts *targets, int i, int limit) {
    Wanted *target = &targets->at[i];
    int before = target->parent;
    ConversionCost best = edge_cost(b, source_of(from, targets, before), target->layout, type);
    for (int j = -1; j < limit && j < MAX_SOURCES; j++) {
        const Layout *source = source_of(from, targets, j);
        if (j == before || j == i || !convertible(source, target->layout) || is_descendant(targets, j, i)) continue;
        ConversionCost cost = edge_cost(b, source, target->layout, type);
        if (cost_compare(cost, best) >= 0) continue;
        best = cost;
        target->parent = j;
    }
    return target->parent != before;
}

/* Tries all trees over few targets, as digits of a number: target i is made from digit i - 1. Infeasible edges and cycles are left out. */
static ConversionCost plan_exact(Build *b, const TensorType *type, const Layout *from, WantedLayouts *targets) {
    ConversionCost edge[MAX_EXACT][MAX_EXACT + 1], best = {.max = INT64_MAX, .total = INT64_MAX};
    bool feasible[MAX_EXACT][MAX_EXACT + 1];
    int n = targets->n, best_code = 0, codes = 1;
    for (int i = 0; i < n; i++) {
        codes *= n + 1;
        for (int j = -1; j < n; j++) {
            const Layout *source = source_of(from, targets, j);
            feasible[i][j + 1] = j != i && convertible(source, targets->at[i].layout);
            if (feasible[i][j + 1]) edge[i][j + 1] = edge_cost(b, source, targets->at[i].layout, type);
        }
    }
    for (int code = 0; code <= codes; code++) { /* one more than there are: the best one again, which is kept */
        ConversionCost sum = {0};
        bool tree = true;
        for (int i = 0, rest = code < codes ? code : best_code; i < n; i++, rest /= n + 1) {
            targets->at[i].parent = rest % (n + 1) - 1;
            tree = tree && feasible[i][rest % (n + 1)];
            if (tree) cost_add(&sum, edge[i][rest % (n + 1)]);
        }
        for (int i = 0; tree && i < n; i++) {
            int at = i, steps = 0;
            while (at >= 0 && steps++ <= n)
                at = targets->at[at].parent;
            tree = at < 0;
        }
        if (!tree || cost_compare(sum, best) >= 0) continue;
        best = sum;
        best_code = code;
    }
    return best;
}

static ConversionCost plan(Build *b, const TensorType *type, const Layout *from, WantedLayouts *targets) {
    ConversionCost sum = {0};
    if (targets->n > 1 && targets->n <= MAX_EXACT) return plan_exact(b, type, from, targets);
    sort_by_size(targets);
    for (int i = 0; i < targets->n; i++) {
        targets->at[i].parent = -1;
        choose_parent(b, type, from, targets, i, i);
    }
    bool changed = targets->n > 1;
    for (int turn = 0; changed && turn < MAX_SOURCES; turn++) {
        changed = false;
        for (int i = 0; i < targets->n; i++)
            changed |= choose_parent(b, type, from, targets, i, targets->n);
    }
    for (int i = 0; i < targets->n; i++)
        cost_add(&sum, edge_cost(b, source_of(from, targets, targets->at[i].parent), targets->at[i].layout, type));
    return sum;
}

ConversionCost tree_plan(Build *b, const TensorType *type, const Layout *from, WantedLayouts *targets) {
    ConversionCost cost = plan(b, type, from, targets);
    if (targets->n < 2 || targets->n > MAX_SOURCES || !layout_is_partial(from)) return cost;
    Layout complete;
    layout_complete(from, &complete);
    const Layout *helper = graph_layout(&b->sharded.graph, &complete, &type->shape);
    for (int i = 0; i < targets->n; i++)
        if (targets->at[i].layout == helper) return cost;
    WantedLayouts more = {0};
    for (int i = 0; i < targets->n; i++)
        vec_push(b->arena, &more, targets->at[i]);
    vec_push(b->arena, &more,
             (Wanted){.layout = helper, .elements = layout_max_elements(helper, &type->shape), .value = -1, .helps = true});
    ConversionCost other = plan(b, type, from, &more);
    if (cost_compare(other, cost) >= 0) return cost;
    *targets = more;
    return other;
}
