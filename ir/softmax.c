/* Expansions of operators along rows for where a strategy splits the rows. What stands for softmax is what stands for cross_entropy:
 * nothing but numbers a row crosses ranks, each row's maximum and the sum of its exponentials. The largest element is taken off so that no
 * exponential overflows; the derivative along it is zero whatever it is. */
#include "ir/expansion.h"

#include <assert.h>

enum { PART_ROW = 1 }; /* the operand of the last node of a forward expansion that has one number a row */

/* Of a reduction along the axis of the operator. */
static void along_row(const Node *node, Attr attr[MAX_ATTRS]) {
    reduction_along(attr, node->attr[0].given ? (int)node->attr[0].i : -1, 1);
}

/* exp(x - the row's largest) and the sum of these, a number a row. Returns x - the row's largest. */
static int powers_of(Graph *graph, const Node *node, int *powers, int *sum) {
    Attr row[MAX_ATTRS];
    along_row(node, row);
    int most = expand_emit(graph, node, OP_max, node->in[0], -1, row, "max");
    int shifted = expand_emit(graph, node, OP_sub, node->in[0], most, NULL, "shifted");
    *powers = expand_emit(graph, node, OP_exp, shifted, -1, NULL, "exp");
    *sum = expand_emit(graph, node, OP_sum, *powers, -1, row, "sum");
    return shifted;
}

void split_softmax(Graph *graph, const Node *node, int *out) {
    int powers, sum;
    powers_of(graph, node, &powers, &sum);
    out[0] = expand_emit(graph, node, OP_div, powers, sum, NULL, "div");
}

void split_log_softmax(Graph *graph, const Node *node, int *out) {
    int powers, sum, shifted = powers_of(graph, node, &powers, &sum);
    out[0] = expand_emit(graph, node, OP_sub, shifted, expand_emit(graph, node, OP_log, sum, -1, NULL, "log"), NULL, "sub");
}

/* ---- gradients: their origin is the last node of the forward expansion */

/* y (dy - sum of y dy) */
void split_softmax_grad(Graph *graph, const Node *node, int *out) {
    int y = node->in[0], dy = node->in[1];
    Attr row[MAX_ATTRS];
    along_row(node, row);
    int product = expand_emit_gradient(graph, node, node->origin, OP_mul, y, PART_OUT, dy, PART_OUT, PART_OUT, NULL, "mul");
    int sum = expand_emit_gradient(graph, node, node->origin, OP_sum, product, PART_OUT, -1, PART_NONE, PART_ROW, row, "sum");
    int rest = expand_emit_gradient(graph, node, node->origin, OP_sub, dy, PART_OUT, sum, PART_ROW, PART_OUT, NULL, "sub");
    out[0] = expand_emit_gradient(graph, node, node->origin, OP_mul, y, PART_OUT, rest, PART_OUT, PART_OUT, NULL, "grad");
}

/* dy - exp(y) (sum of dy), with exp(y) = powers / sum of the forward expansion, the division a number a row. */
void split_log_softmax_grad(Graph *graph, const Node *node, int *out) {
    int dy = node->in[1];
    Attr row[MAX_ATTRS];
    along_row(node, row);
    const Node *logarithm = graph_producer(graph, graph_producer(graph, node->in[0])->in[1]);
    assert(logarithm->op == OP_log && graph_producer(graph, logarithm->in[0])->op == OP_sum);
    int total = logarithm->in[0], powers = graph_producer(graph, total)->in[0];
    int sum = expand_emit_gradient(graph, node, node->origin, OP_sum, dy, PART_OUT, -1, PART_NONE, PART_ROW, row, "sum");
    int share = expand_emit_gradient(graph, node, node->origin, OP_div, sum, PART_ROW, total, PART_ROW, PART_ROW, NULL, "div");
    int taken = expand_emit_gradient(graph, node, node->origin, OP_mul, powers, PART_OUT, share, PART_ROW, PART_OUT, NULL, "mul");
    out[0] = expand_emit_gradient(graph, node, node->origin, OP_sub, dy, PART_OUT, taken, PART_OUT, PART_OUT, NULL, "grad");
}
