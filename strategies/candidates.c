/* Which strategies an operator may have, and how they are written (docs/language.md). */
#include <inttypes.h>
#include <string.h>

#include "strategies/choice.h"

/* The most parts into which a factor can be split. */
static int32_t split_most(const Factor *factor, int32_t nranks) {
    return factor->whole ? 1 : factor->size < nranks ? (int32_t)factor->size : nranks;
}

static bool split_fits(const Factor *factor, int64_t split, bool strict) {
    return factor->size % split == 0 || !(factor->divides || strict);
}

/* ---- enumeration */

typedef struct Enumeration {
    const Rule *rule;
    bool strict;
    int32_t split[MAX_FACTORS];
    Arena *arena; /* NULL: count only */
    int64_t count;
    VEC(int32_t) rows;
} Enumeration;

/* All ways to split the factors from f on over `ranks` ranks, ascending. */
static void enumerate_factor(Enumeration *all, int f, int32_t ranks) {
    if (f == all->rule->nfactors) {
        if (ranks != 1) return;
        all->count++;
        for (int i = 0; all->arena && i < f; i++)
            vec_push(all->arena, &all->rows, all->split[i]);
        return;
    }
    const Factor *factor = &all->rule->factor[f];
    for (int32_t split = 1, most = split_most(factor, ranks); split <= most; split++) {
        if (ranks % split != 0 || !split_fits(factor, split, all->strict)) continue;
        all->split[f] = split;
        enumerate_factor(all, f + 1, ranks / split);
    }
}

/* Takes the largest divisor of nranks for which the factors have a split. */
static void enumerate_all(Enumeration *all, int nranks) {
    for (int32_t used = nranks; used >= 1; used--) {
        if (nranks % used != 0) continue;
        enumerate_factor(all, 0, used);
        if (all->count > 0) return;
    }
}

Splits candidate_splits(const Rule *rule, int nranks, bool strict, Arena *arena) {
    Enumeration all = {.rule = rule, .strict = strict, .arena = arena};
    enumerate_all(&all, nranks);
    return (Splits){.n = (int)all.count, .nfactors = rule->nfactors, .at = all.rows.at};
}

int64_t candidates_count(const Node *node, int nranks) {
    Enumeration all = {.rule = node->rule};
    enumerate_all(&all, nranks);
    return all.count;
}

Candidates candidates(const Node *node, int nranks, Arena *arena) {
    Splits splits = candidate_splits(node->rule, nranks, false, arena);
    Candidates result = {.n = splits.n, .at = arena_alloc(arena, (size_t)splits.n * sizeof *result.at)};
    for (int i = 0; i < splits.n; i++)
        strategy_from_splits(splits.at + (size_t)i * splits.nfactors, splits.nfactors, nranks, &result.at[i]);
    return result;
}

void strategy_from_splits(const int32_t *splits, int nfactors, int nranks, Strategy *strategy) {
    *strategy = (Strategy){.nfactors = nfactors};
    int32_t used = 1;
    for (int i = 0; i < nfactors; i++)
        used *= splits[i];
    Digit digits[MAX_FACTORS];
    mesh_digits(splits, nfactors, nranks / used, digits);
    for (int i = 0; i < nfactors; i++)
        if (splits[i] > 1) strategy_append(strategy, i, digits[i]);
}

/* ---- the batch */

int32_t split_largest(const Factor *factor, int nranks, bool strict) {
    int32_t split = split_most(factor, nranks);
    while (nranks % split != 0 || !split_fits(factor, split, strict))
        split--;
    return split;
}

/* The letter of the node's batch, whether or not it may be split; -1: none. */
static int batch_letter(const Graph *graph, const Node *node, const int8_t *batch) {
    int first = -1;
    for (int i = 0; i < node->nin; i++) {
        const int dim = batch[node->in[i]];
        if (dim >= 0) return node->rule->in[i][dim];
        if (dim == BATCH_LOST && first < 0) first = i;
    }
    return first < 0 || graph->values.at[node->in[first]].type.shape.ndim == 0 ? -1 : node->rule->in[first][0];
}

static int dim_of(const int8_t *map, int ndim, int letter) {
    for (int d = 0; d < ndim; d++)
        if (map[d] == letter) return d;
    return BATCH_LOST;
}

int8_t *values_batch(const Graph *graph, Arena *arena) {
    int8_t *batch = arena_alloc(arena, (size_t)graph->values.n * sizeof *batch + 1);
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        bool depends = node->op == OP_input;
        for (int i = 0; i < node->nin; i++)
            depends = depends || batch[node->in[i]] != BATCH_NONE;
        const int letter = depends && node->rule ? batch_letter(graph, node, batch) : -1;
        for (int i = 0; i < node->nout; i++) {
            const int ndim = graph->values.at[node->out[i]].type.shape.ndim;
            int dim = letter >= 0 ? dim_of(node->rule->out[i], ndim, letter) : node->op == OP_input && ndim > 0 ? 0 : BATCH_LOST;
            batch[node->out[i]] = (int8_t)(depends ? dim : BATCH_NONE);
        }
    }
    return batch;
}

int batch_factor(const Graph *graph, const Node *node, const int8_t *batch) {
    const int letter = batch_letter(graph, node, batch);
    return letter >= 0 && !node->rule->factor[letter].whole ? letter : -1;
}

void strategy_batch(const Graph *graph, const Node *node, Strategy *strategy) {
    Arena arena;
    arena_init(&arena);
    int32_t splits[MAX_FACTORS];
    for (int f = 0; f < MAX_FACTORS; f++)
        splits[f] = 1;
    int batch = batch_factor(graph, node, values_batch(graph, &arena));
    if (batch >= 0) splits[batch] = split_largest(&node->rule->factor[batch], graph->nranks, graph->settings.strict_divide);
    strategy_from_splits(splits, node->rule->nfactors, graph->nranks, strategy);
    arena_finish(&arena);
}

/* ---- text */

void splits_print(Text *text, const Graph *graph, const Node *node, const int32_t *splits) {
    text_printf(text, "(");
    for (int i = 0; i < node->nin; i++) {
        text_printf(text, "%s(", i ? ", " : "");
        for (int d = 0; d < graph->values.at[node->in[i]].type.shape.ndim; d++) {
            int factor = node->rule->in[i][d];
            text_printf(text, "%s%" PRId32, d ? ", " : "", factor < 0 ? 1 : splits[factor]);
        }
        text_printf(text, ")");
    }
    text_printf(text, ")");
}

bool strategy_print(Text *text, const Node *node, const Graph *graph, const Strategy *strategy) {
    int32_t splits[MAX_FACTORS] = {0};
    int64_t used = 1;
    for (int f = 0; f < strategy->nfactors; f++) {
        splits[f] = (int32_t)strategy_split(strategy, f);
        used *= splits[f];
    }
    splits_print(text, graph, node, splits);
    if (used > graph->nranks || graph->nranks % used != 0) return false;
    /* The tuple stands for the digits of its own mesh; other digits are other layouts. */
    Strategy read;
    strategy_from_splits(splits, strategy->nfactors, graph->nranks, &read);
    for (int f = 0; f < strategy->nfactors; f++) {
        Layout a, b;
        Shape shape = {.ndim = 1, .dim = {node->rule->factor[f].size}};
        layout_init(&a, 1), layout_init(&b, 1);
        for (int i = 0; i < strategy_count(strategy, f); i++)
            layout_append(&a, 0, strategy_digits(strategy, f)[i]);
        for (int i = 0; i < strategy_count(&read, f); i++)
            layout_append(&b, 0, strategy_digits(&read, f)[i]);
        layout_canonical(&a, &shape), layout_canonical(&b, &shape);
        if (!layout_equal(&a, &b)) return false;
    }
    return true;
}

bool strategy_gradient_halos(const Node *node, const Strategy *strategy, int operand, const Shape *shape, Layout *left, Layout *needed) {
    const int ndim = node->nout > 0 ? node->rule->result[0].shape.ndim : 0;
    if (ndim != shape->ndim) return false;
    strategy_out_layout(node, strategy, 0, ndim, left);
    layout_complete(left, left);
    *needed = *left;
    for (int d = 0; d < ndim; d++) {
        const Halo *halo = rule_halo(node->rule, operand, ndim, d);
        if (halo == NULL || layout_count(left, d) == 0) continue;
        needed->halo[d - (ndim - HALO_DIMS)] =
            (Halo){halo->kind == HALO_SEES ? HALO_SEEN : HALO_SEES, shape->dim[d], halo->stride, halo->low, halo->high};
    }
    return layout_has_halo(needed);
}

bool strategy_result_halos(const Node *node, const Strategy *strategy, int result, const Shape *shape, bool gradient, Layout *left,
                           Layout *needed) {
    const Shape *part = &node->rule->result[result].shape;
    if (node->op != OP_split) return false;
    for (int d = 0; d < shape->ndim; d++) {
        const int f = node->rule->in[0][d];
        if (!node->rule->factor[f].expands || strategy_count(strategy, f) == 0) continue;
        const int64_t at = result * part->dim[d], of = gradient ? shape->dim[d] : part->dim[d];
        if (gradient)
            strategy_out_layout(node, strategy, result, part->ndim, left);
        else
            strategy_in_layout(node, strategy, 0, shape->ndim, left);
        layout_complete(left, left);
        *needed = *left;
        needed->halo[d - (shape->ndim - HALO_DIMS)] = (Halo){HALO_SEES, of, 1, gradient ? at : -at, gradient ? -at : at};
        return true;
    }
    return false;
}
