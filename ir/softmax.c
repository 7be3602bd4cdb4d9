/* Expansions of operators along rows, where a strategy splits the rows. For softmax and cross_entropy alike only numbers per row cross
 * ranks: each row's maximum and the sum of its exponentials. The largest element is subtracted so that no exponential overflows; the
 * result does not depend on what is subtracted, so it adds nothing to the derivative. */
#include "ir/expansion.h"

#include <assert.h>
#include <string.h>

enum { PART_ROW = 1 }; /* the operand with one number per row, of the last node of a forward expansion */

/* Attributes of a reduction along the axis of the operator. */
static void along_row(const Node *node, Attr attr[MAX_ATTRS]) {
    reduction_along(attr, node->attr[0].given ? (int)node->attr[0].i : -1, 1);
}

/* *powers: exp(x - the row's largest); *sum: their sum, one number per row. Returns x - the row's largest. */
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

/* The cross_entropy of each row: log(sum of exp(x - m)) - (x[label] - m), m the row's largest. With smoothing s, x[label] is replaced by (1 - s) x[label]
 * + s mean(x). */
void split_cross_entropy_rows(Graph *graph, const Node *node, int *out) {
    const Attr kept[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {-1}}, {.given = true, .i = 1}}, dropped[MAX_ATTRS] = {kept[0]};
    const TensorType label = graph->values.at[node->in[1]].type, logits = graph->values.at[node->in[0]].type;
    const bool half = dtype_is_half(logits.dtype);
    Attr wide[MAX_ATTRS] = {{.given = true, .text = dtype_name[F32]}},
         row[MAX_ATTRS] = {{.given = true, .n = label.shape.ndim - label.hidden}};
    memcpy(row[0].ints, label.shape.dim + label.hidden, sizeof *label.shape.dim * (size_t)row[0].n);
    const int x = half ? expand_emit(graph, node, OP_cast, node->in[0], -1, wide, "wide") : node->in[0];
    out[1] = expand_emit(graph, node, OP_max, x, -1, kept, "max");
    const int shifted = expand_emit(graph, node, OP_sub, x, out[1], NULL, "shifted");
    out[2] = expand_emit(graph, node, OP_sum, expand_emit(graph, node, OP_exp, shifted, -1, NULL, "exp"), -1, kept, "sum");
    const int logarithm = expand_emit(graph, node, OP_reshape, expand_emit(graph, node, OP_log, out[2], -1, NULL, "log"), -1, row, "row");
    const int most = expand_emit(graph, node, OP_reshape, out[1], -1, row, "most");
    int picked = expand_emit(graph, node, OP_sub, expand_emit(graph, node, OP_pick, x, node->in[1], NULL, "picked"), most, NULL, "label");
    if (node->attr[0].f > 0) {
        TensorType number = graph->values.at[picked].type;
        number.shape.ndim = number.hidden;
        const double s = node->attr[0].f;
        const int own = graph_constant(graph, number, NULL, 1 - s, arena_printf(graph->arena, "%s.own", node->name), node->span);
        const int share = graph_constant(graph, number, NULL, s, arena_printf(graph->arena, "%s.share", node->name), node->span);
        const int mean = expand_emit(graph, node, OP_mean, shifted, -1, dropped, "classes");
        picked = expand_emit(graph, node, OP_add, expand_emit(graph, node, OP_mul, picked, own, NULL, "right"),
                             expand_emit(graph, node, OP_mul, mean, share, NULL, "smooth"), NULL, "smoothed");
    }
    out[0] = expand_emit(graph, node, OP_sub, logarithm, picked, NULL, "rows");
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

/* dy - exp(y) (sum of dy), with exp(y) = powers / sum of the forward expansion. The division is done once per row. */
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

/* The gradient stays one operator: it can split the classes like any factor. Its origin becomes the forward expansion's exponentials. */
void split_cross_entropy_rows_grad(Graph *graph, const Node *node, int *out) {
    const Node *rows = &graph->nodes.at[node->origin];
    const Node *logarithm = graph_producer(graph, graph_producer(graph, rows->in[0])->in[0]);
    assert(logarithm->op == OP_log && graph_producer(graph, logarithm->in[0])->op == OP_sum);
    const int powers = graph->values.at[graph_producer(graph, logarithm->in[0])->in[0]].node;
    out[0] = graph_emit_gradient(graph, powers, node->op, node->in, (int[]){0, PART_NONE, PART_NONE, PART_NONE, PART_NONE}, node->nin, 0,
                                 node->attr, arena_printf(graph->arena, "%s.grad", node->name));
}
