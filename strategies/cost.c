/* The cost of a choice. One propagation counts the same conversions again and again: each pair of layouts is counted once. */
#include <assert.h>
#include <string.h>

#include "strategies/choice.h"

typedef struct MemoLayout {
    Layout layout;
    Shape shape;
} MemoLayout;

typedef struct MemoConversion {
    int from, to; /* from 0: free */
    int64_t elements;
} MemoConversion;

struct CostMemo {
    Arena *arena;
    int nranks;
    VEC(MemoLayout *) layouts;
    int *layout_slot; /* number + 1, 0: free; open addressing, a power of two */
    int nlayout_slots;
    MemoConversion *conversion;
    int nconversions, nconversion_slots;
};

CostMemo *cost_memo_create(Arena *arena, int nranks) {
    CostMemo *memo = arena_alloc(arena, sizeof *memo);
    *memo = (CostMemo){.arena = arena, .nranks = nranks, .nlayout_slots = 256, .nconversion_slots = 1024};
    memo->layout_slot = arena_alloc(arena, (size_t)memo->nlayout_slots * sizeof *memo->layout_slot);
    memo->conversion = arena_alloc(arena, (size_t)memo->nconversion_slots * sizeof *memo->conversion);
    return memo;
}

static uint64_t memo_hash(const Layout *layout, const Shape *shape) {
    uint64_t hash = layout_hash(layout);
    for (int d = 0; d < shape->ndim; d++)
        hash = (hash ^ (uint64_t)shape->dim[d]) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* The slot where this layout is, or would be. */
static int *layout_find(const CostMemo *memo, const Layout *layout, const Shape *shape) {
    int mask = memo->nlayout_slots - 1;
    for (int i = (int)(memo_hash(layout, shape) & (uint64_t)mask);; i = (i + 1) & mask) {
        int number = memo->layout_slot[i] - 1;
        if (number < 0) return &memo->layout_slot[i];
        const MemoLayout *there = memo->layouts.at[number];
        if (shape_equal(&there->shape, shape) && layout_equal(&there->layout, layout)) return &memo->layout_slot[i];
    }
}

static void layouts_grow(CostMemo *memo) {
    memo->nlayout_slots *= 2;
    memo->layout_slot = arena_alloc(memo->arena, (size_t)memo->nlayout_slots * sizeof *memo->layout_slot);
    for (int i = 0; i < memo->layouts.n; i++)
        *layout_find(memo, &memo->layouts.at[i]->layout, &memo->layouts.at[i]->shape) = i + 1;
}

int cost_layout(CostMemo *memo, const Layout *layout, const Shape *shape) {
    Layout complete;
    layout_complete(layout, &complete);
    return cost_layout_made(memo, &complete, shape);
}

int cost_layout_made(CostMemo *memo, const Layout *layout, const Shape *shape) {
    Layout canonical = *layout;
    layout_canonical(&canonical, shape);
    int *slot = layout_find(memo, &canonical, shape);
    if (*slot) return *slot - 1;
    if (memo->layouts.n * 2 >= memo->nlayout_slots) {
        layouts_grow(memo);
        slot = layout_find(memo, &canonical, shape);
    }
    MemoLayout *made = arena_alloc(memo->arena, sizeof *made);
    *made = (MemoLayout){.layout = canonical, .shape = *shape};
    vec_push(memo->arena, &memo->layouts, made);
    *slot = memo->layouts.n;
    return memo->layouts.n - 1;
}

const Layout *cost_layout_at(const CostMemo *memo, int number) {
    return &memo->layouts.at[number]->layout;
}

const Shape *cost_shape_at(const CostMemo *memo, int number) {
    return &memo->layouts.at[number]->shape;
}

static MemoConversion *conversion_find(const CostMemo *memo, int from, int to) {
    uint64_t hash = ((uint64_t)from * 0x9E3779B97F4A7C15u) ^ ((uint64_t)to * 0xC2B2AE3D27D4EB4Fu);
    int mask = memo->nconversion_slots - 1;
    for (int i = (int)((hash ^ (hash >> 31)) & (uint64_t)mask);; i = (i + 1) & mask) {
        MemoConversion *at = &memo->conversion[i];
        if (at->from == 0 || (at->from == from + 1 && at->to == to)) return at;
    }
}

static void conversions_grow(CostMemo *memo) {
    MemoConversion *old = memo->conversion;
    int n = memo->nconversion_slots;
    memo->nconversion_slots *= 2;
    memo->conversion = arena_alloc(memo->arena, (size_t)memo->nconversion_slots * sizeof *memo->conversion);
    for (int i = 0; i < n; i++)
        if (old[i].from) *conversion_find(memo, old[i].from - 1, old[i].to) = old[i];
}

int64_t cost_convert(CostMemo *memo, int from, int to) {
    if (from == to) return 0;
    MemoConversion *at = conversion_find(memo, from, to);
    if (at->from) return at->elements;
    if (memo->nconversions * 2 >= memo->nconversion_slots) {
        conversions_grow(memo);
        at = conversion_find(memo, from, to);
    }
    const MemoLayout *a = memo->layouts.at[from], *b = memo->layouts.at[to];
    assert(shape_equal(&a->shape, &b->shape));
    Traffic bound = {0};
    if (layout_is_partial(&a->layout))
        traffic_bound(&a->layout, &b->layout, &a->shape, memo->nranks, &bound);
    else
        bound.total = traffic_exchange(&a->layout, &b->layout, &a->shape, memo->nranks);
    *at = (MemoConversion){.from = from + 1, .to = to, .elements = bound.total};
    memo->nconversions++;
    return at->elements;
}

double cost_flops(OpCode op, const Rule *rule, const int32_t *splits) {
    double flops = op_table[op].flops;
    for (int f = 0; f < rule->nfactors; f++)
        flops *= (double)((rule->factor[f].size + splits[f] - 1) / splits[f]);
    return flops;
}
