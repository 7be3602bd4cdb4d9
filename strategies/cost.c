/* The cost of a choice. One propagation asks for the same conversions again and again, so each pair of layouts is counted once and remembered. */
#include <assert.h>

#include "ir/map.h"
#include "strategies/choice.h"

typedef struct MemoLayout {
    Layout layout;
    Shape shape;
} MemoLayout;

typedef struct MemoConversion {
    int from, to;
    int64_t elements;
} MemoConversion;

struct CostMemo {
    Arena *arena;
    int nranks;
    VEC(MemoLayout *) layouts;
    VEC(MemoConversion) conversions;
    Map layout_map, conversion_map;
};

CostMemo *cost_memo_create(Arena *arena, int nranks) {
    CostMemo *memo = arena_alloc(arena, sizeof *memo);
    *memo = (CostMemo){.arena = arena, .nranks = nranks};
    return memo;
}

int cost_layout(CostMemo *memo, const Layout *layout, const Shape *shape) {
    Layout complete;
    layout_complete(layout, &complete);
    return cost_layout_made(memo, &complete, shape);
}

int cost_layout_made(CostMemo *memo, const Layout *layout, const Shape *shape) {
    Layout canonical = *layout;
    layout_canonical(&canonical, shape);
    uint64_t hash = layout_hash(&canonical);
    for (int d = 0; d < shape->ndim; d++)
        hash = hash_mix(hash, (uint64_t)shape->dim[d]);
    map_each(&memo->layout_map, hash, i) {
        const MemoLayout *there = memo->layouts.at[i];
        if (shape_equal(&there->shape, shape) && layout_equal(&there->layout, &canonical)) return i;
    }
    MemoLayout *made = arena_alloc(memo->arena, sizeof *made);
    *made = (MemoLayout){.layout = canonical, .shape = *shape};
    map_add(memo->arena, &memo->layout_map, hash, memo->layouts.n);
    vec_push(memo->arena, &memo->layouts, made);
    return memo->layouts.n - 1;
}

int cost_layout_parts(CostMemo *memo, int number) {
    Layout parts;
    if (!layout_has_halo(&memo->layouts.at[number]->layout)) return number;
    layout_without_halos(&memo->layouts.at[number]->layout, &parts);
    return cost_layout_made(memo, &parts, &memo->layouts.at[number]->shape);
}

const Layout *cost_layout_at(const CostMemo *memo, int number) {
    return &memo->layouts.at[number]->layout;
}

const Shape *cost_shape_at(const CostMemo *memo, int number) {
    return &memo->layouts.at[number]->shape;
}

int64_t cost_convert(CostMemo *memo, int from, int to) {
    if (from == to) return 0;
    const uint64_t hash = hash_mix((uint64_t)from, (uint64_t)to);
    map_each(&memo->conversion_map, hash, i) {
        const MemoConversion *there = &memo->conversions.at[i];
        if (there->from == from && there->to == to) return there->elements;
    }
    const MemoLayout *a = memo->layouts.at[from], *b = memo->layouts.at[to];
    assert(shape_equal(&a->shape, &b->shape));
    Traffic bound = {0};
    if (layout_is_partial(&a->layout))
        traffic_bound(&a->layout, &b->layout, &a->shape, memo->nranks, &bound);
    else
        bound.total = traffic_exchange(&a->layout, &b->layout, &a->shape, memo->nranks);
    map_add(memo->arena, &memo->conversion_map, hash, memo->conversions.n);
    vec_push(memo->arena, &memo->conversions, ((MemoConversion){.from = from, .to = to, .elements = bound.total}));
    return bound.total;
}

double cost_flops(OpCode op, const Rule *rule, const int32_t *splits) {
    double size[MAX_FACTORS];
    for (int f = 0; f < rule->nfactors; f++)
        size[f] = (double)((rule->factor[f].size + splits[f] - 1) / splits[f]);
    return op_flops(op, rule, size);
}
