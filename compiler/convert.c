#include "compiler/convert.h"

#include <assert.h>

#include "compiler/compiler.h"

/* ---------------------------------------------------------------- conversions, memoised */

typedef struct MemoEntry {
    const Layout *from, *to; /* interned in spmd */
    TensorType type;
    RedistributePolicy policy;
    Conversion conversion;
    struct MemoEntry *next;
} MemoEntry;

enum { MEMO_BUCKETS = 1024 };
typedef struct ConversionMemo {
    MemoEntry *bucket[MEMO_BUCKETS];
} ConversionMemo;

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t memo_hash(Build *b, const Layout *from, const Layout *to, const TensorType *type, int what) {
    if (b->memo == NULL) b->memo = arena_alloc(b->arena, sizeof *b->memo);
    uint64_t hash = mix(mix((uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to), (uint64_t)what);
    for (int d = 0; d < type->shape.ndim; d++)
        hash = mix(hash, (uint64_t)type->shape.dim[d]);
    return hash % MEMO_BUCKETS;
}

const Conversion *conversion_plan(Build *b, const Layout *from, const Layout *to, const TensorType *type, RedistributePolicy policy) {
    uint64_t slot = memo_hash(b, from, to, type, (int)policy);
    MemoEntry **bucket = &b->memo->bucket[slot];
    for (MemoEntry *e = *bucket; e != NULL; e = e->next)
        if (e->from == from && e->to == to && e->policy == policy && type_equal(&e->type, type)) return &e->conversion;
    MemoEntry *e = arena_alloc(b->arena, sizeof *e);
    *e = (MemoEntry){.from = from, .to = to, .type = *type, .policy = policy, .next = *bucket};
    const char *why = NULL;
    bool possible = redistribute(from, to, &type->shape, dtype_bytes[type->dtype], b->front.graph.nranks, policy, b->options->machine,
                                 &e->conversion, &why);
    assert(possible && "a target that is partial where its source is complete");
    (void)possible;
    *bucket = e;
    return &e->conversion;
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
