#include "compiler/convert.h"

#include <assert.h>

#include "compiler/compiler.h"
#include "ir/map.h"

/* ---------------------------------------------------------------- conversions, memoised */

typedef struct MemoKey {
    const Layout *from, *to; /* interned in spmd */
    TensorType type;
    RedistributePolicy policy;
} MemoKey;

typedef struct MemoEntry {
    MemoKey key;
    Conversion conversion;
} MemoEntry;

struct ConversionMemo {
    VEC(MemoEntry *) entries;
    Map map;
};

static uint64_t key_hash(const MemoKey *key) {
    uint64_t hash = hash_mix(hash_mix((uint64_t)(uintptr_t)key->from, (uint64_t)(uintptr_t)key->to), (uint64_t)key->policy);
    for (int d = 0; d < key->type.shape.ndim; d++)
        hash = hash_mix(hash, (uint64_t)key->type.shape.dim[d]);
    return hash;
}

static bool key_equal(const MemoKey *a, const MemoKey *b) {
    return a->from == b->from && a->to == b->to && a->policy == b->policy && type_equal(&a->type, &b->type);
}

const Conversion *conversion_plan(Build *b, const Layout *from, const Layout *to, const TensorType *type, RedistributePolicy policy) {
    if (b->memo == NULL) b->memo = arena_alloc(b->arena, sizeof *b->memo);
    struct ConversionMemo *memo = b->memo;
    const MemoKey key = {.from = from, .to = to, .type = *type, .policy = policy};
    const uint64_t hash = key_hash(&key);
    map_each(&memo->map, hash, i) if (key_equal(&memo->entries.at[i]->key, &key)) return &memo->entries.at[i]->conversion;
    MemoEntry *made = arena_alloc(b->arena, sizeof *made);
    made->key = key;
    const char *why = NULL;
    bool possible = redistribute(from, to, &type->shape, dtype_bytes[type->dtype], b->sharded.graph.nranks, policy, b->options->machine,
                                 &made->conversion, &why);
    assert(possible && "a target that is partial where its source is complete");
    (void)possible;
    map_add(b->arena, &memo->map, hash, memo->entries.n);
    vec_push(b->arena, &memo->entries, made);
    return &made->conversion;
}

/* ---------------------------------------------------------------- what a conversion treats differently */

int convert_digits(CommKind kind, const Layout *from, const Layout *to, Digit *digits, int *dim) {
    Layout a = *from, b = *to;
    int n = 0;
    *dim = -1;
    if (kind == COMM_EXCHANGE || kind == COMM_STRIDED_SLICE || !layout_refine(&a, &b)) return 0;
    for (int list = 0; list < a.ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(&a, list); i++) {
            Digit digit = layout_list(&a, list)[i];
            if (layout_has(&b, list, digit)) continue;
            digits[n++] = digit;
            if (list < a.ndim && *dim < 0) *dim = list;
        }
    for (int list = 0; *dim < 0 && kind == COMM_REDUCE_SCATTER && list < b.ndim; list++)
        if (layout_count(&b, list) != layout_count(&a, list)) *dim = list;
    return n;
}
