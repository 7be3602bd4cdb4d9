/* alike: the candidates of operators. Operators that are alike share one list of candidates, so a thousand equal layers cost little more than one. A candidate is identified by the
 * numbers of its layouts (cost.c). */
#include <string.h>

#include "ir/rules.h"
#include "strategies/propagator.h"

Alike *alike_of(Propagator *p, const Node *node) {
    uint64_t hash = (uint64_t)node->op;
    for (int f = 0; f < node->rule->nfactors; f++)
        hash = hash_mix(hash, (uint64_t)node->rule->factor[f].size);
    map_each(&p->alike_map, hash, number) {
        Alike *alike = p->alike.at[number];
        bool same = alike->op == node->op && alike->nin == node->nin && alike->nout == node->nout;
        for (int i = 0; same && i < node->nin; i++)
            same = type_equal(&alike->in[i], value_type(p, node->in[i]));
        if (same && rule_equal(alike->rule, node->rule, alike->in, node->nin, node->nout)) return alike;
    }
    Alike *alike = arena_alloc(&p->arena, sizeof *alike);
    *alike = (Alike){.op = node->op, .rule = node->rule, .nin = node->nin, .nout = node->nout};
    for (int i = 0; i < node->nin; i++)
        alike->in[i] = *value_type(p, node->in[i]);
    map_add(&p->arena, &p->alike_map, hash, p->alike.n);
    vec_push(&p->arena, &p->alike, alike);
    return alike;
}

/* What is received in halos of the operand that a split's results are cut out of; with `gradient`, of their gradients, from which its
 * gradient is joined. In each such exchange most ranks wait for the busiest, so every rank counts as much as that one. */
static Moved parts_moved(const Propagator *p, const Node *node, const Strategy *strategy, bool gradient) {
    const TensorType *whole = value_type(p, node->in[0]);
    Moved moved = {0};
    Layout left, needed;
    for (int o = 0; o < node->nout; o++) {
        const TensorType *type = gradient ? value_type(p, node->out[o]) : whole;
        Traffic bound;
        if (!strategy_result_halos(node, strategy, o, &whole->shape, gradient, &left, &needed)) continue;
        traffic_bound(&left, &needed, &type->shape, p->graph->nranks, &bound);
        if (bound.max > 0) moved_add(&moved, (Moved){bound.max * p->graph->nranks * dtype_bytes[type->dtype], 1});
    }
    return moved;
}

/* Per operand, what is received in halos when its gradient is computed, of a result that windows made. */
static const Moved *halos_moved(Propagator *p, const Node *node, const Strategy *strategy) {
    Moved *moved = arena_alloc(&p->arena, (size_t)(node->nin + 1) * sizeof *moved);
    Layout left, needed;
    for (int i = 0; i < node->nin && node->nout > 0; i++) {
        moved[i] = i == 0 ? parts_moved(p, node, strategy, true) : (Moved){0};
        const TensorType *type = value_type(p, node->out[0]);
        if (!strategy_gradient_halos(node, strategy, i, &value_type(p, node->in[i])->shape, &left, &needed)) continue;
        const int64_t elements =
            cost_convert(p->memo, cost_layout(p->memo, &left, &type->shape), cost_layout(p->memo, &needed, &type->shape));
        if (elements > 0) moved_add(&moved[i], (Moved){elements * dtype_bytes[type->dtype], 1});
    }
    return moved;
}

/* What is received in the reductions over the rows that a strategy splits (Factor.reductions): each reduces one number per row of operand
 * 0, or all of operand 0 where it lacks the factor (attention's queries when the keys are split). */
static Moved rows_moved(const Propagator *p, const Node *node, const Strategy *strategy) {
    Moved moved = {0};
    const TensorType *type = value_type(p, node->in[0]);
    for (int f = 0; f < node->rule->nfactors; f++) {
        const int reductions = strategy_count(strategy, f) == 0 ? 0 : node->rule->factor[f].reductions;
        if (reductions == 0) continue;
        Strategy others = {.nfactors = strategy->nfactors};
        Shape rows = type->shape;
        Layout partial, whole;
        Traffic bound;
        for (int g = 0; g < strategy->nfactors; g++)
            if (g != f) strategy_follow(&others, g, strategy, g);
        for (int d = 0; d < rows.ndim; d++)
            if (node->rule->in[0][d] == f) rows.dim[d] = 1;
        strategy_in_layout(node, &others, 0, rows.ndim, &whole);
        partial = whole;
        for (int i = 0; i < strategy_count(strategy, f); i++)
            layout_append(&partial, rows.ndim + REDUCE_SUM, strategy_digits(strategy, f)[i]);
        traffic_bound(&partial, &whole, &rows, p->graph->nranks, &bound);
        moved_add(&moved, (Moved){reductions * bound.total * dtype_bytes[type->dtype], reductions});
    }
    return moved;
}

/* What is received where an embedding's table is updated by rows: the gradient's rows, in the columns of the table that the rank has, and
 * all indices. */
static Moved table_moved(const Propagator *p, const Node *node, const Strategy *strategy) {
    const TensorType *rows = value_type(p, node->out[0]), *index = value_type(p, node->in[1]);
    Layout table, left, needed, whole;
    if (node->op != OP_embedding) return (Moved){0};
    strategy_in_layout(node, strategy, 0, 2, &table);
    strategy_out_layout(node, strategy, 0, rows->shape.ndim, &left);
    rows_of_table(&table, rows->shape.ndim, &needed);
    const int64_t elements = cost_convert(p->memo, cost_layout(p->memo, &left, &rows->shape), cost_layout(p->memo, &needed, &rows->shape));
    strategy_in_layout(node, strategy, 1, index->shape.ndim, &left);
    layout_init(&whole, index->shape.ndim);
    const int64_t indices = cost_convert(p->memo, cost_layout(p->memo, &left, &index->shape), cost_layout(p->memo, &whole, &index->shape));
    return (Moved){elements * dtype_bytes[rows->dtype] + indices * dtype_bytes[index->dtype], (elements > 0) + (indices > 0)};
}

/* The layout in which the operator leaves an operand's gradient: the operand's layout, partial over the digits of the factors that the
 * operand lacks. */
static int gradient_number(const Propagator *p, const Node *node, const Strategy *strategy, int operand) {
    const Shape *shape = &value_type(p, node->in[operand])->shape;
    Layout layout;
    strategy_in_layout(node, strategy, operand, shape->ndim, &layout);
    layout_without_halos(&layout, &layout);
    for (int f = 0; f < node->rule->nfactors; f++)
        for (int i = 0; i < strategy_count(strategy, f) && !rule_in_has(node->rule, operand, shape->ndim, f); i++)
            layout_append(&layout, shape->ndim + REDUCE_SUM, strategy_digits(strategy, f)[i]);
    return cost_layout_made(p->memo, &layout, shape);
}

Candidate *candidate_of(Propagator *p, const Node *node, const Strategy *strategy) {
    Alike *alike = alike_of(p, node);
    const size_t ncolumns = 2 * (size_t)(node->nin + node->nout);
    int number[2 * (MAX_IN + MAX_OUT)], *need = number, *gradient = need + node->nin, *made = gradient + node->nin,
                                        *home = made + node->nout;
    for (int i = 0; i < node->nin; i++) {
        const Shape *shape = &value_type(p, node->in[i])->shape;
        Layout layout;
        strategy_in_layout(node, strategy, i, shape->ndim, &layout);
        need[i] = cost_layout(p->memo, &layout, shape);
        gradient[i] = gradient_number(p, node, strategy, i);
    }
    for (int o = 0; o < node->nout; o++) {
        const Shape *shape = &value_type(p, node->out[o])->shape;
        Layout layout;
        strategy_out_layout(node, strategy, o, shape->ndim, &layout);
        made[o] = cost_layout_made(p->memo, &layout, shape);
        home[o] = cost_layout(p->memo, &layout, shape);
    }
    uint64_t hash = 0;
    for (size_t i = 0; i < ncolumns; i++)
        hash = hash_mix(hash, (uint64_t)number[i]);
    map_each(&alike->known, hash, k) if (memcmp(alike->all.at[k]->need, number, ncolumns * sizeof *number) == 0) return alike->all.at[k];
    Candidate *made_of = arena_alloc(&p->arena, sizeof *made_of);
    Strategy *copy = arena_alloc(p->graph->arena, sizeof *copy);
    int *numbers = arena_alloc(&p->arena, (ncolumns + 1) * sizeof *numbers);
    memcpy(numbers, number, ncolumns * sizeof *number);
    *copy = *strategy;
    *made_of = (Candidate){.strategy = copy,
                           .number = alike->all.n,
                           .split = arena_alloc(&p->arena, (size_t)(copy->nfactors + 1) * sizeof *made_of->split),
                           .need = numbers,
                           .gradient = numbers + node->nin,
                           .made = numbers + 2 * node->nin,
                           .home = numbers + 2 * node->nin + node->nout,
                           .table = table_moved(p, node, strategy),
                           .rows = node->nin > 0 ? rows_moved(p, node, strategy) : (Moved){0},
                           .halos = halos_moved(p, node, strategy),
                           .parts = node->nin > 0 ? parts_moved(p, node, strategy, false) : (Moved){0}};
    for (int f = 0; f < copy->nfactors; f++)
        made_of->split[f] = (int32_t)strategy_split(copy, f);
    made_of->flops = cost_flops(node->op, node->rule, made_of->split);
    map_add(&p->arena, &alike->known, hash, alike->all.n);
    vec_push(&p->arena, &alike->all, made_of);
    return made_of;
}

/* ---- the order of digits: p->order numbers the ranks so that a hint's digits stand in the order of its factors; other operators can be
 * split in that order too */

/* Whether the digits are those that the strategy's tuple means. */
static bool strategy_in_order(const Propagator *p, const Strategy *strategy) {
    int32_t splits[MAX_FACTORS];
    Strategy ordered;
    for (int f = 0; f < strategy->nfactors; f++)
        splits[f] = (int32_t)strategy_split(strategy, f);
    strategy_from_splits(splits, strategy->nfactors, p->graph->nranks, &ordered);
    for (int f = 0; f < strategy->nfactors; f++)
        if (strategy_count(strategy, f) > 0 && strategy_digits(strategy, f)[0].stride * strategy_digits(strategy, f)[0].size !=
                                                   strategy_digits(&ordered, f)[0].stride * strategy_digits(&ordered, f)[0].size)
            return false;
    return true;
}

/* Sets p->order: the strategy's digits, factor after factor, then the remaining ones. */
static void order_of(Propagator *p, const Strategy *strategy) {
    Digit chain[MAX_DIGITS];
    const int n = strategy->start[MAX_FACTORS], nchain = digits_chain(strategy->digit, n, NULL, 0, p->graph->nranks, chain);
    if (nchain < 0) return;
    memcpy(p->order, strategy->digit, (size_t)n * sizeof *p->order);
    p->norder = n;
    for (int i = 0; i < nchain; i++) {
        bool left = true;
        for (int k = 0; k < n && left; k++)
            left = !digit_within(chain[i], strategy->digit[k]);
        if (left && p->norder < MAX_DIGITS) p->order[p->norder++] = chain[i];
    }
}

void order_find(Propagator *p) {
    int64_t most = 0;
    for (int id = 0; id < p->nnodes; id++) {
        const Strategy *given = p->given[id];
        int64_t ranks = 1;
        if (!given || strategy_in_order(p, given)) continue;
        for (int f = 0; f < given->nfactors; f++)
            ranks *= strategy_split(given, f);
        if (ranks > most) order_of(p, given);
        most = ranks > most ? ranks : most;
    }
}

/* Appends the digits of p->order that take the place which this digit has in the natural order. False: they cannot be cut to fit that
 * place. */
static bool append_in_order(const Propagator *p, Strategy *strategy, int factor, Digit digit) {
    int64_t high = p->graph->nranks; /* the digit of the order stands between low and high */
    for (int i = 0; i < p->norder; i++) {
        const int64_t low = high / p->order[i].size, end = (int64_t)digit.stride * digit.size;
        const int64_t from = low > digit.stride ? low : digit.stride, to = high < end ? high : end;
        if (from < to) {
            if (from % low != 0 || to % from != 0) return false;
            const Digit part = {.size = (int32_t)(to / from), .stride = (int32_t)(p->order[i].stride * (from / low))};
            if (!strategy_append(strategy, factor, part)) return false;
        }
        high = low;
    }
    return true;
}

/* The candidate with these splits and its digits in p->order; NULL: none. */
static Candidate *candidate_in_order(Propagator *p, const Node *node, const int32_t *splits) {
    Strategy natural, strategy = {.nfactors = node->rule->nfactors};
    strategy_from_splits(splits, node->rule->nfactors, p->graph->nranks, &natural);
    for (int f = 0; f < natural.nfactors; f++)
        for (int i = 0; i < strategy_count(&natural, f); i++)
            if (!append_in_order(p, &strategy, f, strategy_digits(&natural, f)[i])) return NULL;
    return candidate_of(p, node, &strategy);
}

Candidate *candidate_from_splits(Propagator *p, const Node *node, const int32_t *splits) {
    Strategy strategy;
    Candidate *ordered = p->as_ordered ? candidate_in_order(p, node, splits) : NULL;
    if (ordered) return ordered;
    strategy_from_splits(splits, node->rule->nfactors, p->graph->nranks, &strategy);
    return candidate_of(p, node, &strategy);
}

static void offer(Propagator *p, Alike *alike, Candidate *candidate, bool as_ordered) {
    candidate->as_ordered = as_ordered && (candidate->as_ordered || !candidate->offered);
    if (candidate->offered) return;
    candidate->offered = true;
    if (alike->offered.n == 0 || candidate->flops < alike->least_flops) alike->least_flops = candidate->flops;
    vec_push(&p->arena, &alike->offered, candidate);
}

void offer_all(Propagator *p, Alike *alike, const Node *node) {
    if (alike->offered.n > 0) return;
    const Splits splits = candidate_splits(node->rule, p->graph->nranks, p->graph->settings.strict_divide, &p->arena);
    for (int i = 0; i < splits.n; i++) {
        const int32_t *row = splits.at + (size_t)i * (size_t)splits.nfactors;
        Strategy strategy;
        strategy_from_splits(row, splits.nfactors, p->graph->nranks, &strategy);
        offer(p, alike, candidate_of(p, node, &strategy), false);
    }
    for (int i = 0; i < splits.n && p->norder > 0; i++) {
        Candidate *ordered = candidate_in_order(p, node, splits.at + (size_t)i * (size_t)splits.nfactors);
        if (ordered) offer(p, alike, ordered, true);
    }
}

/* ---- candidates from the neighbours' layouts, where a hint's digits are not in the order of its factors, as on a mesh (tp, dp) */

typedef struct Derive {
    Propagator *p;
    const Node *node;
    Strategy strategy;
    Digit left[MAX_DIGITS]; /* digits that the layout does not have */
    int nleft;
} Derive;

static bool may_split(const Derive *derive, int factor, int32_t by) {
    const Factor *f = &derive->node->rule->factor[factor];
    const int64_t split = strategy_split(&derive->strategy, factor) * by;
    return !f->whole && split <= f->size && (f->size % split == 0 || !(f->divides || derive->p->graph->settings.strict_divide));
}

/* Tries every factor for each digit that is left over, and offers the resulting strategies. Returns whether there was any. */
static bool derive_rest(Derive *derive, int i) {
    if (i == derive->nleft) {
        offer(derive->p, alike_of(derive->p, derive->node), candidate_of(derive->p, derive->node, &derive->strategy), false);
        return true;
    }
    bool any = false;
    for (int f = 0; f < derive->node->rule->nfactors; f++) {
        if (!may_split(derive, f, derive->left[i].size)) continue;
        const Strategy before = derive->strategy;
        if (strategy_append(&derive->strategy, f, derive->left[i])) any = derive_rest(derive, i + 1) || any;
        derive->strategy = before;
    }
    return any;
}

enum { MAX_LEFT = 3 }; /* digits that are tried with every factor */

void offer_from(Propagator *p, Alike *alike, const Node *node, int column, int number) {
    if (p->norder == 0) return;
    for (int i = 0; i < alike->derived.n; i++)
        if (alike->derived.at[i].column == column && alike->derived.at[i].number == number) return;
    vec_push(&p->arena, &alike->derived, ((Derived){column, number}));
    for (int i = 0; i < alike->offered.n; i++) {
        const Candidate *candidate = alike->offered.at[i];
        if (candidate->as_ordered) continue;
        if ((column < node->nin ? candidate->need[column] : candidate->home[column - node->nin]) == number) return;
    }
    const Layout *layout = cost_layout_at(p->memo, number);
    const int8_t *letters = column < node->nin ? node->rule->in[column] : node->rule->out[column - node->nin];
    Derive derive = {.p = p, .node = node, .strategy = {.nfactors = node->rule->nfactors}};
    Digit taken[MAX_DIGITS], chain[MAX_DIGITS];
    int ntaken = 0;
    for (int f = 0; f < node->rule->nfactors; f++)
        for (int d = 0; d < layout->ndim; d++)
            for (int i = 0; letters[d] == f && i < layout_count(layout, d); i++) {
                const Digit digit = layout_list(layout, d)[i];
                if (may_split(&derive, f, digit.size) && strategy_append(&derive.strategy, f, digit)) taken[ntaken++] = digit;
            }
    const int nchain = digits_chain(taken, ntaken, NULL, 0, p->graph->nranks, chain);
    for (int i = 0; i < nchain; i++) {
        bool left = true;
        for (int k = 0; k < ntaken && left; k++)
            left = !digit_within(chain[i], taken[k]);
        if (left) derive.left[derive.nleft++] = chain[i];
    }
    if (ntaken > 0 && nchain >= 0 && derive.nleft <= MAX_LEFT) derive_rest(&derive, 0);
}
