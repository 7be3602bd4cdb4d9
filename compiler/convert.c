#include "compiler/convert.h"

#include <assert.h>

#include "compiler/compiler.h"
#include "ir/map.h"

/* ---------------------------------------------------------------- conversions, memoised */

typedef struct MemoEntry {
    const Layout *from, *to; /* interned in spmd */
    TensorType type;
    RedistributePolicy policy;
    Conversion conversion;
} MemoEntry;

struct ConversionMemo {
    VEC(MemoEntry *) entries;
    Map map;
};

static uint64_t entry_hash(const MemoEntry *e) {
    uint64_t hash = hash_mix(hash_mix((uint64_t)(uintptr_t)e->from, (uint64_t)(uintptr_t)e->to), (uint64_t)e->policy);
    for (int d = 0; d < e->type.shape.ndim; d++)
        hash = hash_mix(hash, (uint64_t)e->type.shape.dim[d]);
    return hash;
}

static bool entry_equal(const MemoEntry *a, const MemoEntry *b) {
    return a->from == b->from && a->to == b->to && a->policy == b->policy && type_equal(&a->type, &b->type);
}

const Conversion *conversion_plan(Build *b, const Layout *from, const Layout *to, const TensorType *type, RedistributePolicy policy) {
    if (b->memo == NULL) b->memo = arena_alloc(b->arena, sizeof *b->memo);
    struct ConversionMemo *memo = b->memo;
    const MemoEntry entry = {.from = from, .to = to, .type = *type, .policy = policy};
    const uint64_t hash = entry_hash(&entry);
    map_each(&memo->map, hash, i) if (entry_equal(memo->entries.at[i], &entry)) return &memo->entries.at[i]->conversion;
    MemoEntry *made = arena_alloc(b->arena, sizeof *made);
    *made = entry;
    const char *why = NULL;
    bool possible = redistribute(from, to, &type->shape, dtype_bytes[type->dtype], b->front.graph.nranks, policy, b->options->machine,
                                 &made->conversion, &why);
    assert(possible && "a target that is partial where its source is complete");
    (void)possible;
    map_add(b->arena, &memo->map, hash, memo->entries.n);
    vec_push(b->arena, &memo->entries, made);
    return &made->conversion;
}

/* ---------------------------------------------------------------- what a conversion treats differently */

static bool list_has(const Layout *layout, int list, Digit digit) {
    for (int i = 0; i < layout_count(layout, list); i++)
        if (layout_list(layout, list)[i].size == digit.size && layout_list(layout, list)[i].stride == digit.stride) return true;
    return false;
}

int convert_digits(CommKind kind, const Layout *from, const Layout *to, Digit *digits, int *dim) {
    Layout a = *from, b = *to;
    int n = 0;
    *dim = -1;
    if (kind == COMM_EXCHANGE || kind == COMM_STRIDED_SLICE || !layout_refine(&a, &b)) return 0;
    for (int list = 0; list < a.ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(&a, list); i++) {
            Digit digit = layout_list(&a, list)[i];
            if (list_has(&b, list, digit)) continue;
            digits[n++] = digit;
            if (list < a.ndim && *dim < 0) *dim = list;
        }
    for (int list = 0; *dim < 0 && kind == COMM_REDUCE_SCATTER && list < b.ndim; list++)
        if (layout_count(&b, list) != layout_count(&a, list)) *dim = list;
    return n;
}
