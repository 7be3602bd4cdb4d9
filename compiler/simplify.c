/* simplify: makes fewer nodes with the same results.
 *
 * Before: a verified graph, forward only or with gradients. After: the same outputs (loss, writes) bit for bit; no composite, no two equal
 * nodes, no node that no output needs, no identity; after pass simplify: no loss that is a state itself. A node that the user gave a strategy stays: a hint is a request.
 * Rewrites are exact in floating point: x * 1, x / 1, x - 0, --x. x + 0 is not, as -0 + 0 is +0, except for integers and where x is shown not to be
 * -0: a sum of losses begins with 0. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "compiler/compiler.h"
#include "ir/copy.h"
#include "ir/map.h"
#include "ir/rules.h"

typedef struct Rewrite {
    GraphCopy copy;
    Map nodes;       /* of the new graph */
    bool identities; /* some node no longer uses an operand, which may be dead now */
} Rewrite;

/* ---------------------------------------------------------------- equal nodes */

static uint64_t node_hash(const Node *node) {
    uint64_t hash = hash_mix(7, (uint64_t)node->op);
    for (int i = 0; i < node->nin; i++)
        hash = hash_mix(hash, (uint64_t)node->in[i]);
    hash = hash_mix(hash, (uint64_t)(node->state * 2 + node->version));
    for (int a = 0; a < MAX_ATTRS; a++) {
        uint64_t bits;
        memcpy(&bits, &node->attr[a].f, sizeof bits);
        hash = hash_mix(hash, bits ^ (uint64_t)node->attr[a].i);
        for (int i = 0; i < node->attr[a].n; i++)
            hash = hash_mix(hash, (uint64_t)node->attr[a].ints[i]);
    }
    return hash;
}

static int stage_asked(const Node *node) {
    return node->asked != NULL ? node->asked->stage : -1;
}

/* Whether b may replace a. A gradient node gets its strategy from its origin, so the origin must be the same. */
static bool node_equal(const Graph *graph, const Node *a, const Node *b) {
    if (a->op != b->op || a->nin != b->nin || a->state != b->state || a->version != b->version || a->hint != b->hint ||
        a->data != b->data || stage_asked(a) != stage_asked(b))
        return false;
    if (!type_equal(&graph->values.at[a->out[0]].type, &graph->values.at[b->out[0]].type)) return false;
    for (int i = 0; i < a->nin; i++)
        if (a->in[i] != b->in[i]) return false;
    for (int i = 0; i < MAX_ATTRS; i++)
        if (!attr_equal(&a->attr[i], &b->attr[i])) return false;
    return a->origin == b->origin || (a->origin == (int)(a - graph->nodes.at) && b->origin == (int)(b - graph->nodes.at));
}

/* Before autodiff: the result of a node that replaces another one is kept if that of either is, and gathered again if a hint says so of
 * either. */
static void keep_for(const GraphCopy *copy, int id, int node) {
    const Node *other = &copy->from.nodes.at[id];
    Node *kept = &copy->to->nodes.at[node];
    if (copy->from.nforward == 0 && !other->recompute) kept->recompute = false;
    if (copy->from.nforward == 0 && !kept->regather) kept->regather = other->regather;
}

/* The last node of the new graph; if an earlier one is equal, that one, and the last is removed. */
static int share_last(Rewrite *r) {
    Graph *g = r->copy.to;
    int last = g->nodes.n - 1;
    const Node *node = &g->nodes.at[last];
    if (op_table[node->op].op_class == OP_CLASS_UPDATE) return last;
    const uint64_t hash = node_hash(node);
    map_each(&r->nodes, hash, i) if (node_equal(g, &g->nodes.at[i], node)) {
        g->nodes.n--;
        g->values.n -= node->nout;
        return i;
    }
    map_add(g->arena, &r->nodes, hash, last);
    return last;
}

/* ---------------------------------------------------------------- identities */

static bool is_constant(const Graph *g, int value, double what) {
    const Node *node = graph_producer(g, value);
    return node->op == OP_constant && node->data == NULL && node->attr[0].f == what;
}

/* Whether a value is +0, also of each replica. */
static bool is_zero(const Graph *g, int value) {
    const Node *node = graph_producer(g, value);
    if (node->op == OP_replicate) value = node->in[0];
    return is_constant(g, value, 0) && !signbit(graph_producer(g, value)->attr[0].f);
}

/* Whether no element of a value can be above 0. */
static bool is_nonpositive(const Graph *g, int value) {
    while (op_table[graph_producer(g, value)->op].sign == SIGN_KEPT)
        value = graph_producer(g, value)->in[0];
    return op_table[graph_producer(g, value)->op].sign == SIGN_NEGATIVE;
}

/* Whether no element of a value can be below 0; strictly: nor be -0. NaN is neither. */
static bool is_nonnegative(const Graph *g, int value, bool strictly, int depth) {
    enum { MAX_DEPTH = 8 };
    const Node *node = graph_producer(g, value);
    const int a = node->in[0], b = node->in[1];
    if (depth == MAX_DEPTH) return false;
    if (node->op == OP_constant)
        return node->data == NULL && (node->attr[0].f > 0 || (node->attr[0].f == 0 && !(strictly && signbit(node->attr[0].f))));
    switch (op_table[node->op].sign) {
    case SIGN_UNKNOWN:
    case SIGN_NEGATIVE:
        break;
    case SIGN_POSITIVE:
        return true;
    case SIGN_KEPT:
        return is_nonnegative(g, a, strictly, depth + 1);
    case SIGN_NEGATED:
        return !strictly && is_nonpositive(g, a);
    case SIGN_SUM:
        return is_nonnegative(g, a, false, depth + 1);
    case SIGN_JOINED: /* -0 + 0 is 0 */
        if (!is_nonnegative(g, a, false, depth + 1) || !is_nonnegative(g, b, false, depth + 1)) return false;
        return !strictly || is_nonnegative(g, a, true, depth + 1) || is_nonnegative(g, b, true, depth + 1);
    case SIGN_PRODUCT: /* x / -0 is below 0 */
        if (node->op == OP_mul && a == b) return true;
        return is_nonnegative(g, a, strictly, depth + 1) && is_nonnegative(g, b, strictly || node->op == OP_div, depth + 1);
    }
    return false;
}

/* Whether adding 0 to a value leaves every bit as it is. */
static bool takes_zero(const Graph *g, int value) {
    return !dtype_is_float(g->values.at[value].type.dtype) || is_nonnegative(g, value, true, 0);
}

/* The value that x o y equals, if one of them is o's neutral element and the other has the result's type; else -1. */
static int neutral(const Graph *g, const Node *node) {
    const TensorType *type = &node->rule->result[0];
    int a = node->in[0], b = node->nin > 1 ? node->in[1] : -1;
    bool keeps_a = type_equal(&g->values.at[a].type, type), keeps_b = b >= 0 && type_equal(&g->values.at[b].type, type);
    if ((node->op == OP_mul || node->op == OP_div) && keeps_a && is_constant(g, b, 1)) return a;
    if (node->op == OP_mul && keeps_b && is_constant(g, a, 1)) return b;
    if (node->op == OP_sub && keeps_a && is_zero(g, b)) return a;
    if (node->op == OP_add && keeps_a && is_zero(g, b) && takes_zero(g, a)) return a;
    if (node->op == OP_add && keeps_b && is_zero(g, a) && takes_zero(g, b)) return b;
    if (node->op == OP_reshape && keeps_a) return a;
    return -1;
}

static int permutation(const Node *node, int ndim, int i) {
    const Attr *perm = &node->attr[0];
    int from = perm->given && perm->n > 0 ? (int)perm->ints[i] : ndim - 1 - i;
    return from < 0 ? from + ndim : from;
}

/* The operand of an inverse pair: --x, and a transpose undone by another; else -1. */
static int inverse(const Graph *g, const Node *node) {
    if (node->op != OP_neg && node->op != OP_transpose) return -1;
    const Node *inner = graph_producer(g, node->in[0]);
    if (inner->op != node->op || inner->hint != NULL) return -1;
    if (node->op == OP_neg) return inner->in[0];
    const TensorType *type = &g->values.at[inner->in[0]].type;
    int ndim = type->shape.ndim - type->hidden;
    for (int i = 0; i < ndim; i++)
        if (permutation(inner, ndim, permutation(node, ndim, i)) != i) return -1;
    return inner->in[0];
}

/* The value that equals an old node, whose operands are already those of the new graph; -1: none. */
static int identity(const Graph *g, const Node *node) {
    if (node->hint != NULL || node->nin == 0) return -1;
    int value = neutral(g, node);
    return value >= 0 ? value : inverse(g, node);
}

/* Makes a reshape of a reshape one reshape. True: node was such a one. */
static bool merge(Graph *g, Node *node) {
    if (node->hint != NULL || node->nin != 1) return false;
    const Node *inner = graph_producer(g, node->in[0]);
    if (node->op != OP_reshape || inner->op != OP_reshape || inner->hint != NULL || inner->origin != (int)(inner - g->nodes.at))
        return false;
    TensorType from = g->values.at[inner->in[0]].type;
    Attr attr[MAX_ATTRS];
    memcpy(attr, node->attr, sizeof attr);
    const TensorType *to = &node->rule->result[0];
    attr[0].n = to->shape.ndim - to->hidden; /* -1 in the attribute was for the other operand */
    for (int i = 0; i < attr[0].n; i++)
        attr[0].ints[i] = to->shape.dim[i + to->hidden];
    const Signature *signature = signature_of(g, OP_reshape, &from, 1, attr, NULL);
    if (!signature) return false;
    node->in[0] = inner->in[0];
    node->attr = signature->attr;
    node->rule = &signature->rule;
    return true;
}

/* ---------------------------------------------------------------- the rewriting */

/* Which old nodes an output needs. If nothing is reported there is no output yet: all are needed. */
static bool *live_nodes(const Graph *g) {
    bool *live = arena_alloc(g->arena, (size_t)g->nodes.n + 1);
    if (graph_nreports(g) == 0) {
        memset(live, 1, (size_t)g->nodes.n);
        return live;
    }
    for (int k = 0; k < graph_nreports(g); k++)
        live[g->values.at[graph_report(g, k)].node] = true;
    for (int n = g->nodes.n - 1; n >= 0; n--) {
        const Node *node = &g->nodes.at[n];
        live[n] |= node->op == OP_write;
        for (int i = 0; live[n] && i < node->nin; i++)
            live[g->values.at[node->in[i]].node] = true;
    }
    return live;
}

/* Replaces an old node by the one that makes this value. */
static void replace(Rewrite *r, int id, int value) {
    r->copy.value[r->copy.from.nodes.at[id].out[0]] = value;
    r->copy.node[id] = r->copy.to->values.at[value].node;
    keep_for(&r->copy, id, r->copy.node[id]);
}

static void rewrite_node(Rewrite *r, int id, int what) {
    Graph *g = r->copy.to;
    Node node = copy_operands(&r->copy, id);
    if (what & SIMPLIFY_IDENTITIES) {
        int value = identity(g, &node);
        r->identities |= value >= 0 || merge(g, &node);
        if (value >= 0) {
            replace(r, id, value);
            return;
        }
    }
    copy_node(&r->copy, id, node);
    if (what & SIMPLIFY_SHARE) copy_stands(&r->copy, id, share_last(r));
    keep_for(&r->copy, id, r->copy.node[id]);
}

/* Returns whether an identity was found. */
static bool rewrite(Graph *graph, int what) {
    Rewrite r = {0};
    copy_begin(&r.copy, graph, graph->nodes.n, graph->values.n);
    const Graph *old = &r.copy.from;
    const bool *live = what & SIMPLIFY_DEAD ? live_nodes(old) : NULL;
    for (int n = 0; n < old->nodes.n; n++) {
        if (live == NULL || live[n]) rewrite_node(&r, n, what);
        copy_forward(&r.copy, n);
    }
    copy_reports(&r.copy);
    return r.identities;
}

static ExpandFn *composite(const Graph *graph, int id) {
    return op_table[graph->nodes.at[id].op].expand;
}

void graph_simplify(Graph *graph, int what) {
    if (what & SIMPLIFY_EXPAND) graph_expand(graph, composite, NULL);
    what &= ~SIMPLIFY_EXPAND;
    if (what != 0 && rewrite(graph, what) && (what & SIMPLIFY_DEAD)) rewrite(graph, SIMPLIFY_DEAD);
}

/* Copies a loss, or a penalty, that is a state: it is read after the step, when the state is overwritten, so a copy of it is reported. */
static void copy_reported(Graph *g) {
    for (int k = 0; k < graph_nreports(g); k++) {
        const int value = graph_report(g, k);
        const Node *from = graph_producer(g, value);
        if (graph_report_whole(g, k) && from->op == OP_read)
            graph_set_report(g, k, graph_emit(g, OP_sum, &value, 1, NULL, "reported", from->span));
    }
}

/* Copies what a state takes over of another one as it was before the step, or a view of it, since that one may be overwritten first. */
static void copy_written(Graph *g) {
    for (int k = 0; k < g->reports.n; k++) {
        Report *report = &g->reports.at[k];
        const Node *from = graph_producer(g, report->value);
        while (op_table[from->op].view)
            from = graph_producer(g, from->in[0]);
        if (!report->writes || !node_is_leaf(from)) continue;
        Attr to[MAX_ATTRS] = {0};
        to[op_attr(OP_cast, "to")] = (Attr){.given = true, .text = dtype_name[g->values.at[report->value].type.dtype]};
        report->value = graph_emit(g, OP_cast, &report->value, 1, to, report->name, report->span);
    }
}

/* What is computed from constants alone belongs to no stage: all ranks have it. */
static void forget_stages(Graph *g) {
    const bool *constant = graph_constant_nodes(g);
    for (int n = 0; n < g->nodes.n; n++)
        if (constant[n]) g->nodes.at[n].asked = NULL;
}

bool pass_simplify(Build *b) {
    b->front.lowered = b->front.graph; /* its nodes and values stay: rewriting makes new ones */
    if (b->front.graph.settings.stages > 1) forget_stages(&b->front.graph);
    graph_simplify(&b->front.graph, SIMPLIFY_ALL);
    copy_reported(&b->front.graph);
    copy_written(&b->front.graph);
    return true;
}

/* After autodiff: removes gradients that nobody needs, and what adjoints wrote twice. Forward nodes are simplified already. */
bool pass_prune(Build *b) {
    const Graph old = b->front.graph;
    graph_simplify(&b->front.graph, SIMPLIFY_SHARE | SIMPLIFY_DEAD);
    if (old.nodes.at != b->front.lowered.nodes.at && old.nodes.at != b->front.graph.nodes.at) graph_release(&old);
    return true;
}
