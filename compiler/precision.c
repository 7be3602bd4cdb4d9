/* precision: with `precision = bf16;`, or f16, in train, products have factors and results of 16 bits, and what follows them stays in 16 bits as far as that is safe, like
 * PyTorch's autocast. Parameters, their gradients and updates, the loss and what is reported keep their types.
 *
 * Before: simplify (no composites), no gradients. After: of the operators in f32
 * - a cross_entropy reads its logits as they are, and computes with them in f32;
 * - a matrix product, a convolution, an attention read their operands in 16 bits;
 * - what only moves elements, and elementwise arithmetic, read them in 16 bits if all of them, except constants and parameters, have 16 bits already;
 * - all others read them in f32: sums, norms, softmax, losses, powers, exponentials and logarithms.
 * Each value is cast once. A cast is no operator that a user named: hints stay where they are. */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"
#include "ir/copy.h"
#include "ir/rules.h"

typedef struct Precision {
    GraphCopy copy;
    DType half;
    int *cast[2]; /* per value of the new graph: itself in 16 bits, in f32; -1: not made yet */
    int room;
} Precision;

static DType dtype_at(const Precision *p, int value) {
    return p->copy.to->values.at[value].type.dtype;
}

/* The value in another real type. */
static int in_type(Precision *p, int value, DType dtype) {
    Graph *g = p->copy.to;
    if (dtype_at(p, value) == dtype) return value;
    assert(value < p->room);
    int *cast = &p->cast[dtype == F32][value];
    if (*cast >= 0) return *cast;
    const Node *maker = graph_producer(g, value);
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr(OP_cast, "to")] = (Attr){.given = true, .text = dtype_name[dtype]};
    *cast = maker->op == OP_cast && dtype_at(p, maker->in[0]) == dtype && dtype == p->half /* the value before it was widened: exact */
                ? maker->in[0]
                : graph_emit(g, OP_cast, &value, 1, attr, arena_printf(g->arena, "%s.%s", g->values.at[value].name, dtype_name[dtype]),
                             maker->span);
    return *cast;
}

/* Whether 16 bits are enough: powers, exponentials and logarithms lose too much of 8 or 11 bits, or leave the range. */
static bool is_safe(OpCode op) {
    static const OpCode precise[] = {OP_exp, OP_expm1, OP_log, OP_pow, OP_square, OP_sqrt, OP_rsqrt, OP_softplus};
    for (size_t i = 0; i < sizeof precise / sizeof *precise; i++)
        if (precise[i] == op) return false;
    return op_only_moves(op) || op_elementwise(op);
}

/* Whether a value is cast to the type of the other operands: constants and parameters, such as a bias, are. */
static bool gives_way(const Precision *p, int value) {
    const Node *maker = graph_producer(p->copy.to, value);
    if (maker->op == OP_replicate || maker->op == OP_expose) maker = graph_producer(p->copy.to, maker->in[0]);
    return maker->op == OP_constant || maker->op == OP_read;
}

/* The type in which a node reads its real operands; NDTYPES: as they are. */
static DType type_for(const Precision *p, const Node *node) {
    bool narrow = true, half = false, real = false;
    const bool product = op_table[node->op].product;
    if (node_is_leaf(node) || node->op == OP_cast || node->op == OP_cross_entropy_rows) return NDTYPES;
    for (int i = 0; i < node->nin; i++) {
        const DType dtype = dtype_at(p, node->in[i]);
        if (dtype == F64 || (dtype_is_half(dtype) && dtype != p->half)) return NDTYPES; /* what the user gave another type keeps it */
        if (!dtype_is_float(dtype)) continue;
        real = true;
        half = half || dtype == p->half;
        narrow = narrow && (dtype != F32 || gives_way(p, node->in[i]));
    }
    if (!real) return NDTYPES;
    return product || (is_safe(node->op) && narrow && half) ? p->half : F32;
}

static void add_node(Precision *p, int id) {
    Graph *g = p->copy.to;
    Node node = copy_operands(&p->copy, id);
    const DType dtype = type_for(p, &node);
    for (int i = 0; i < node.nin && dtype != NDTYPES; i++)
        if (dtype_is_float(dtype_at(p, node.in[i]))) node.in[i] = in_type(p, node.in[i], dtype);
    const int made = copy_node(&p->copy, id, node);
    if (node.nin > 0) graph_retype(g, made);
}

/* Casts what is reported back to the type that it had. */
static void restore_types(Precision *p) {
    const Graph *old = &p->copy.from;
    for (int k = 0; k < graph_nreports(old); k++) {
        const int was = graph_report(old, k), is = p->copy.value[was];
        p->copy.value[was] = in_type(p, is, old->values.at[was].type.dtype);
    }
}

bool pass_precision(Build *b) {
    Graph *g = &b->front.graph;
    if (g->settings.precision == F32) return true;
    /* At most, each node casts each operand, and what is reported is cast back. */
    const int room = g->values.n + MAX_IN * g->nodes.n + graph_nreports(g);
    Precision p = {.half = g->settings.precision, .room = room};
    for (int i = 0; i < 2; i++) {
        p.cast[i] = arena_alloc(g->arena, sizeof *p.cast[i] * (size_t)room);
        memset(p.cast[i], -1, sizeof *p.cast[i] * (size_t)room);
    }
    copy_begin(&p.copy, g, g->nodes.n, g->values.n);
    for (int n = 0; n < p.copy.from.nodes.n; n++) {
        add_node(&p, n);
        copy_forward(&p.copy, n);
    }
    restore_types(&p);
    copy_reports(&p.copy);
    return true;
}
