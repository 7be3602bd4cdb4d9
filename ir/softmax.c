/* Expansions of operators along rows for where a strategy splits the rows. What stands for softmax is what stands for cross_entropy:
 * nothing but numbers a row crosses ranks, each row's maximum and the sum of its exponentials. The largest element is taken off so that no
 * exponential overflows; the derivative along it is zero whatever it is. */
#include "ir/graph.h"
#include "ir/rules.h"

#include <assert.h>
#include <string.h>

enum { PART_ROW = 1 }; /* the operand of the last node of a forward expansion that has one number a row */

/* {axes, keep_dims} of a reduction along the axis of the operator. */
static void along_row(const Node *node, Attr attr[MAX_ATTRS]) {
    memset(attr, 0, sizeof *attr * MAX_ATTRS);
    attr[0] = (Attr){.given = true, .n = 1, .ints = {node->attr[0].given ? node->attr[0].i : -1}};
    attr[1] = (Attr){.given = true, .i = 1};
}

static int emit(Graph *graph, const Node *node, OpCode op, int a, int b, const Attr *attr, const char *what) {
    return graph_emit(graph, op, (int[]){a, b}, b < 0 ? 1 : 2, attr, arena_printf(graph->arena, "%s.%s", node->name, what), node->span);
}

/* exp(x - the row's largest) and the sum of these, a number a row. Returns x - the row's largest. */
static int powers_of(Graph *graph, const Node *node, int *powers, int *sum) {
    Attr row[MAX_ATTRS];
    along_row(node, row);
    int most = emit(graph, node, OP_max, node->in[0], -1, row, "max");
    int shifted = emit(graph, node, OP_sub, node->in[0], most, NULL, "shifted");
    *powers = emit(graph, node, OP_exp, shifted, -1, NULL, "exp");
    *sum = emit(graph, node, OP_sum, *powers, -1, row, "sum");
    return shifted;
}

void split_softmax(Graph *graph, const Node *node, int *out) {
    int powers, sum;
    powers_of(graph, node, &powers, &sum);
    out[0] = emit(graph, node, OP_div, powers, sum, NULL, "div");
}

void split_log_softmax(Graph *graph, const Node *node, int *out) {
    int powers, sum, shifted = powers_of(graph, node, &powers, &sum);
    out[0] = emit(graph, node, OP_sub, shifted, emit(graph, node, OP_log, sum, -1, NULL, "log"), NULL, "sub");
}

/* ---- gradients: their origin is the last node of the forward expansion */

static int emit_gradient(Graph *graph, const Node *node, OpCode op, int a, int a_part, int b, int b_part, int out_part, const Attr *attr,
                         const char *what) {
    return graph_emit_gradient(graph, node->origin, op, (int[]){a, b}, (int[]){a_part, b_part}, b < 0 ? 1 : 2, out_part, attr,
                               arena_printf(graph->arena, "%s.%s", node->name, what));
}

/* y (dy - sum of y dy) */
void split_softmax_grad(Graph *graph, const Node *node, int *out) {
    int y = node->in[0], dy = node->in[1];
    Attr row[MAX_ATTRS];
    along_row(node, row);
    int product = emit_gradient(graph, node, OP_mul, y, PART_OUT, dy, PART_OUT, PART_OUT, NULL, "mul");
    int sum = emit_gradient(graph, node, OP_sum, product, PART_OUT, -1, PART_NONE, PART_ROW, row, "sum");
    int rest = emit_gradient(graph, node, OP_sub, dy, PART_OUT, sum, PART_ROW, PART_OUT, NULL, "sub");
    out[0] = emit_gradient(graph, node, OP_mul, y, PART_OUT, rest, PART_OUT, PART_OUT, NULL, "grad");
}

/* dy - exp(y) (sum of dy), with exp(y) = powers / sum of the forward expansion, the division a number a row. */
void split_log_softmax_grad(Graph *graph, const Node *node, int *out) {
    int dy = node->in[1];
    Attr row[MAX_ATTRS];
    along_row(node, row);
    const Node *logarithm = graph_producer(graph, graph_producer(graph, node->in[0])->in[1]);
    assert(logarithm->op == OP_log && graph_producer(graph, logarithm->in[0])->op == OP_sum);
    int total = logarithm->in[0], powers = graph_producer(graph, total)->in[0];
    int sum = emit_gradient(graph, node, OP_sum, dy, PART_OUT, -1, PART_NONE, PART_ROW, row, "sum");
    int share = emit_gradient(graph, node, OP_div, sum, PART_ROW, total, PART_ROW, PART_ROW, NULL, "div");
    int taken = emit_gradient(graph, node, OP_mul, powers, PART_OUT, share, PART_ROW, PART_OUT, NULL, "mul");
    out[0] = emit_gradient(graph, node, OP_sub, dy, PART_OUT, taken, PART_OUT, PART_OUT, NULL, "grad");
}
