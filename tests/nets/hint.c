/* Strategies as a user may write them. Tuples: counts whose product divides the ranks. Names: each axis of the mesh at one factor at most.
 * Drawn from the operator's rule alone, so that a new operator needs nothing here. */
#include <string.h>

#include "tests/nets/net.h"

/* How one factor, or one dimension of a tensor, is split. */
typedef struct Split {
    int64_t size;
    bool whole, divides; /* as Factor's */
    HintDim dim;
} Split;

static bool fits(const Split *split, int64_t ways) {
    return ways == 1 || (!split->whole && ways <= split->size && (!split->divides || split->size % ways == 0));
}

static void shuffle(int *order, int n, uint64_t *random) {
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = fuzz_below(random, i + 1), at = order[i];
        order[i] = order[k];
        order[k] = at;
    }
}

/* Each axis goes to a random split that has room for it, or to none. */
static void split_by_axes(const FuzzNet *net, Split *split, int n, uint64_t *random) {
    int order[FUZZ_MAX_AXES];
    int64_t ways[MAX_FACTORS];
    shuffle(order, net->naxes, random);
    for (int i = 0; i < n; i++)
        ways[i] = 1;
    for (int k = 0; k < net->naxes; k++) {
        const Axis *axis = &net->axis[order[k]];
        int i = fuzz_below(random, n + 1 + n / 2);
        if (i >= n || !fits(&split[i], ways[i] * axis->size)) continue;
        ways[i] *= axis->size;
        split[i].dim.axis[split[i].dim.naxes++] = axis->name;
    }
}

static void split_by_counts(int nranks, Split *split, int n, uint64_t *random) {
    int order[MAX_FACTORS], rest = nranks;
    shuffle(order, n, random);
    for (int k = 0; k < n; k++) {
        Split *one = &split[order[k]];
        one->dim.split = 1;
        if (!fuzz_chance(random, 60)) continue;
        int divisors[64], ndivisors = 0;
        for (int d = 1; d <= rest; d++)
            if (rest % d == 0 && fits(one, d)) divisors[ndivisors++] = d;
        one->dim.split = divisors[fuzz_below(random, ndivisors)];
        rest /= (int)one->dim.split;
    }
}

static bool splits_something(const Split *split, int n) {
    for (int i = 0; i < n; i++)
        if (split[i].dim.split > 1 || split[i].dim.naxes > 0) return true;
    return false;
}

/* A strategy that splits nothing is worth asking for too, but seldom. */
static void split_all(const FuzzNet *net, bool named, Split *split, int n, uint64_t *random) {
    for (int tries = fuzz_chance(random, 15) ? 1 : 4; tries > 0; tries--) {
        for (int i = 0; i < n; i++)
            split[i].dim = (HintDim){0};
        if (named)
            split_by_axes(net, split, n, random);
        else
            split_by_counts(net->nranks, split, n, random);
        if (splits_something(split, n)) return;
    }
}

static HintTuple tensor_tuple(const FuzzNet *net, bool named, const TensorType *type, uint64_t *random) {
    Split split[MAX_NDIM];
    HintTuple tuple = {.ndim = type->shape.ndim};
    for (int d = 0; d < tuple.ndim; d++)
        split[d] = (Split){.size = type->shape.dim[d]};
    split_all(net, named, split, tuple.ndim, random);
    for (int d = 0; d < tuple.ndim; d++)
        tuple.dim[d] = split[d].dim;
    return tuple;
}

static bool draw_named(const FuzzNet *net, uint64_t *random) {
    return net->naxes > 0 && fuzz_chance(random, 70);
}

const Hint *fuzz_layouts(const FuzzNet *net, const TensorType *types, int n, Arena *arena, uint64_t *random) {
    Hint *hint = arena_alloc(arena, sizeof *hint);
    hint->named = draw_named(net, random);
    hint->nin = n;
    for (int i = 0; i < n; i++)
        hint->in[i] = tensor_tuple(net, hint->named, &types[i], random);
    return hint;
}

const Hint *fuzz_strategy(const FuzzNet *net, const FuzzItem *item, const Rule *rule, Arena *arena, uint64_t *random) {
    Hint *hint = arena_alloc(arena, sizeof *hint);
    Split split[MAX_FACTORS];
    hint->named = draw_named(net, random);
    hint->nin = item->nin;
    for (int f = 0; f < rule->nfactors; f++)
        split[f] = (Split){.size = rule->factor[f].size, .whole = rule->factor[f].whole, .divides = rule->factor[f].divides};
    split_all(net, hint->named, split, rule->nfactors, random);
    for (int i = 0; i < item->nin; i++) {
        const Shape *shape = &fuzz_type(net, item->in[i])->shape;
        hint->in[i].ndim = shape->ndim;
        for (int d = 0; d < shape->ndim; d++)
            hint->in[i].dim[d] = rule->in[i][d] >= 0 ? split[rule->in[i][d]].dim : (HintDim){.split = 1};
    }
    if (rule->nout == 1 && rule->result[0].shape.ndim > 0 && fuzz_chance(random, 15)) {
        hint->nout = 1;
        hint->out = tensor_tuple(net, hint->named, &rule->result[0], random);
    }
    return hint;
}
