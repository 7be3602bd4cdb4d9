/* reshard: a conversion wherever a value is needed in another layout than it has.
 *
 * Before: assign. After: c->spmd holds the graph's values under the same ids, each in the layout of its producer, and one `convert` node
 * for every step of a conversion, in MindSpore's canonical form (docs/redistribution.md; the same at every -O level): a partial sum is
 * completed by an AllReduce where it arises; then AllGather from the first digit that differs, StridedSlice. A value that several nodes
 * need in one layout is converted once, and conversions that begin alike share what they begin with. Every operand lies as its node needs
 * it. */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"

/* ---------------------------------------------------------------- conversions, memoised */

typedef struct MemoEntry {
    const Layout *from, *to; /* interned in spmd */
    TensorType type;
    RedistributePolicy policy;
    Conversion conversion;
    struct MemoEntry *next;
} MemoEntry;

typedef struct TrafficEntry {
    const Layout *from, *to;
    TensorType type;
    CommKind kind;
    StepTraffic traffic;
    struct TrafficEntry *next;
} TrafficEntry;

enum { MEMO_BUCKETS = 1024 };
typedef struct ConversionMemo {
    MemoEntry *bucket[MEMO_BUCKETS];
    TrafficEntry *traffic[MEMO_BUCKETS];
} ConversionMemo;

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t memo_hash(Compilation *c, const Layout *from, const Layout *to, const TensorType *type, int what) {
    if (c->memo == NULL) c->memo = arena_alloc(c->arena, sizeof *c->memo);
    uint64_t hash = mix(mix((uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to), (uint64_t)what);
    for (int d = 0; d < type->shape.ndim; d++)
        hash = mix(hash, (uint64_t)type->shape.dim[d]);
    return hash % MEMO_BUCKETS;
}

StepTraffic convert_traffic(Compilation *c, CommKind kind, const Layout *from, const Layout *to, const TensorType *type) {
    uint64_t slot = memo_hash(c, from, to, type, (int)kind);
    TrafficEntry **bucket = &c->memo->traffic[slot];
    for (TrafficEntry *e = *bucket; e != NULL; e = e->next)
        if (e->from == from && e->to == to && e->kind == kind && type_equal(&e->type, type)) return e->traffic;
    TrafficEntry *e = arena_alloc(c->arena, sizeof *e);
    *e = (TrafficEntry){.from = from, .to = to, .type = *type, .kind = kind, .next = *bucket};
    traffic_step(kind, from, to, &type->shape, c->graph.nranks, &e->traffic.received, &e->traffic.sent);
    traffic_bound(from, to, &type->shape, c->graph.nranks, &e->traffic.bound);
    *bucket = e;
    return e->traffic;
}

const Conversion *conversion_plan(Compilation *c, const Layout *from, const Layout *to, const TensorType *type, RedistributePolicy policy) {
    uint64_t slot = memo_hash(c, from, to, type, (int)policy);
    MemoEntry **bucket = &c->memo->bucket[slot];
    for (MemoEntry *e = *bucket; e != NULL; e = e->next)
        if (e->from == from && e->to == to && e->policy == policy && type_equal(&e->type, type)) return &e->conversion;
    MemoEntry *e = arena_alloc(c->arena, sizeof *e);
    *e = (MemoEntry){.from = from, .to = to, .type = *type, .policy = policy, .next = *bucket};
    const char *why = NULL;
    bool possible = redistribute(from, to, &type->shape, dtype_bytes[type->dtype], c->graph.nranks, policy, c->options->machine, &e->conversion, &why);
    assert(possible && "a target that owes sums");
    (void)possible;
    *bucket = e;
    return &e->conversion;
}

/* ---------------------------------------------------------------- rebuilding */

typedef struct ConvertIndex {
    int *bucket; /* first convert value of a hash, -1 */
    int *next;   /* per value of the new graph: the next of its bucket */
    int mask, cap;
} ConvertIndex;

void rebuild_begin(Rebuild *r, Compilation *c, const Graph *old, int nvalues) {
    *r = (Rebuild){.c = c, .old = *old, .whole_node = c->whole_node.at};
    c->spmd = *old;
    graph_own_reports(&c->spmd);
    graph_reserve(&c->spmd, old->nodes.n + old->nodes.n / 2, old->values.n + old->values.n / 2);
    memset(&c->whole_node, 0, sizeof c->whole_node);
    memset(&c->whole_value, 0, sizeof c->whole_value);
    c->spmd.nforward = 0;
    for (int v = 0; v < nvalues; v++) {
        vec_push(c->arena, &c->spmd.values, old->values.at[v]);
        vec_push(c->arena, &c->whole_value, v);
    }
    r->node = arena_alloc(c->arena, sizeof *r->node * (size_t)(old->nodes.n + 1));
    memset(r->node, -1, sizeof *r->node * (size_t)(old->nodes.n + 1));
    ConvertIndex *index = arena_alloc(c->arena, sizeof *index);
    index->mask = 63;
    while (index->mask < old->nodes.n)
        index->mask = index->mask * 2 + 1;
    index->bucket = arena_alloc(c->arena, sizeof *index->bucket * (size_t)(index->mask + 1));
    memset(index->bucket, -1, sizeof *index->bucket * (size_t)(index->mask + 1));
    r->index = index;
}

void rebuild_node(Rebuild *r, int id, const int *in) {
    Compilation *c = r->c;
    Graph *g = &c->spmd;
    Node node = r->old.nodes.at[id];
    int made = g->nodes.n;
    memcpy(node.in, in, sizeof *in * (size_t)node.nin);
    node.origin = node.origin == id ? made : r->node[node.origin];
    for (int k = 0; k < node.nout; k++)
        g->values.at[node.out[k]].node = made;
    r->node[id] = made;
    vec_push(c->arena, &g->nodes, node);
    vec_push(c->arena, &c->whole_node, r->whole_node != NULL ? r->whole_node[id] : id);
}

int rebuild_convert(Rebuild *r, int source, CommKind kind, const Layout *to) {
    Compilation *c = r->c;
    Graph *g = &c->spmd;
    ConvertIndex *index = r->index;
    const Layout *layout = graph_layout(g, to, &g->values.at[source].type.shape);
    uint64_t hash = mix(mix((uint64_t)source, (uint64_t)kind), (uint64_t)graph_layout_number(g, layout));
    int *bucket = &index->bucket[hash & (uint64_t)index->mask];
    for (int v = *bucket; v >= 0; v = index->next[v]) {
        const Node *made = &g->nodes.at[g->values.at[v].node];
        if (made->in[0] == source && made->comm == kind && g->values.at[v].layout == layout) return v;
    }
    const char *name = c->graph.values.at[c->whole_value.at[source]].name; /* made unique by a number */
    int value = graph_emit(g, OP_convert, &source, 1, NULL, name, g->nodes.at[g->values.at[source].node].span);
    g->values.at[value].layout = layout;
    Node *node = &g->nodes.at[g->nodes.n - 1];
    assert(node->op == OP_convert && node->out[0] == value && g->values.n == value + 1);
    node->comm = kind;
    vec_push(c->arena, &c->whole_node, -1);
    vec_push(c->arena, &c->whole_value, c->whole_value.at[source]);
    if (value >= index->cap) {
        int cap = 2 * (value + 64);
        int *next = arena_alloc(c->arena, sizeof *next * (size_t)cap);
        if (index->cap > 0) memcpy(next, index->next, sizeof *next * (size_t)index->cap);
        index->next = next;
        index->cap = cap;
    }
    index->next[value] = *bucket;
    *bucket = value;
    return value;
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

/* ---------------------------------------------------------------- the pass */

/* The value in layout `to`, by canonical steps from `value`. */
static int bring(Rebuild *r, int value, const Layout *to) {
    Compilation *c = r->c;
    Graph *g = &c->spmd;
    const Layout *from = g->values.at[value].layout;
    if (from == to) return value;
    TensorType type = g->values.at[value].type;
    const Conversion *conversion = conversion_plan(c, from, to, &type, REDISTRIBUTE_CANONICAL);
    for (int s = 0; s < conversion->nsteps; s++)
        value = rebuild_convert(r, value, conversion->step[s].kind, &conversion->step[s].to);
    return value;
}

bool pass_reshard(Compilation *c) {
    Rebuild r;
    const Graph *g = &c->graph;
    rebuild_begin(&r, c, g, g->values.n);
    int *at_home = arena_alloc(c->arena, sizeof *at_home * (size_t)(g->values.n + 1)); /* per value: it in its home layout */
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (n == g->nforward) c->spmd.nforward = c->spmd.nodes.n;
        int in[MAX_IN];
        for (int i = 0; i < node->nin; i++)
            in[i] = bring(&r, at_home[node->in[i]], c->need[n][i]);
        rebuild_node(&r, n, in);
        for (int k = 0; k < node->nout; k++) {
            at_home[node->out[k]] = bring(&r, node->out[k], c->home[node->out[k]]);
            for (int i = 0; i < graph_nreports(g); i++)
                if (node->out[k] == graph_report(g, i)) graph_set_report(&c->spmd, i, bring(&r, at_home[node->out[k]], c->report_need[i]));
        }
    }
    if (c->spmd.nforward == 0) c->spmd.nforward = c->spmd.nodes.n;
    return true;
}
