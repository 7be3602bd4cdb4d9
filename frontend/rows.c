/* rows: losses of batches whose last rows may only fill them up. The program gets an input `row_weight`, one number a row, and the loss becomes the mean
 * of the rows' losses times their weights: 0 for rows that fill up; for the others 1, or with `last = short` what makes it the mean over them. */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

static int emit(Graph *graph, OpCode op, int a, int b, const char *name, Span span) {
    const int in[2] = {a, b};
    return graph_emit(graph, op, in, 2, NULL, name, span);
}

/* The weights as a value that multiplies rows of another: the batch, and ones. */
static int weights(Lower *lower, const TensorType *type, Span span) {
    Graph *graph = lower->graph;
    int first = type->hidden ? 1 : 0;
    Input input = {.name = "row_weight", .span = span, .kind = INPUT_ROW_WEIGHT, .type = *type};
    input.type.shape.ndim = first + 1;
    int value = graph_input(graph, graph_add_input(graph, input));
    if (type->shape.ndim == first + 1) return value;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = type->shape.ndim - first}};
    for (int d = 0; d < attr[0].n; d++)
        attr[0].ints[d] = d == 0 ? type->shape.dim[first] : 1;
    return graph_emit(graph, OP_reshape, &value, 1, attr, "row_weight.rows", span);
}

const char *rows_number(const Block *net) {
    for (const Statement *statement = net->statements; statement; statement = statement->next) {
        if (statement->kind != STATEMENT_INPUT || !statement->type || !statement->type->dims) continue;
        const Expr *rows = statement->type->dims->items;
        return rows && rows->kind == EXPR_NAME ? rows->text : NULL;
    }
    return NULL;
}

/* Rows of a batch: dimension 0 of the first input that has data. */
static int64_t batch_rows(const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const TensorType *type = &graph->inputs.at[i].type;
        if (graph->inputs.at[i].kind == INPUT_DATA && type->shape.ndim > type->hidden) return type->shape.dim[(int)type->hidden];
    }
    return 0;
}

/* The losses of a cross_entropy's rows. */
static int class_rows(Graph *graph, const Node *loss, const char *name) {
    const Attr none[MAX_ATTRS] = {{.given = true, .text = "none"}};
    return graph_emit(graph, OP_cross_entropy, loss->in, 2, none, name, loss->span);
}

/* Whether a value's first dimension is the batch, row by row. */
static bool rows_stand(const Graph *graph, const BatchRows *traced, int value) {
    const TensorType *type = &graph->values.at[value].type;
    const int first = type->hidden ? 1 : 0;
    return traced[value].at == first && type->shape.dim[first] == batch_rows(graph);
}

/* Whether rows of a loss's operands are apart, so that those that only fill up a batch can be left out; false after a diagnostic. */
static bool rows_apart(Lower *lower, const BatchRows *traced, const Node *loss) {
    bool mixed = false;
    for (int i = 0; i < loss->nin; i++)
        mixed = mixed || traced[loss->in[i]].mixed;
    if (!mixed || lower->graph->settings.last == LAST_DROP) return true;
    diag_error(lower->diags, loss->span, "what this says of a row depends on the other rows of its batch, also on those that only fill it up");
    diag_hint(lower->diags, "where every batch is full they do not matter: train takes last = drop; an eval generated data (steps = 10)");
    return false;
}

bool rows_weigh(Lower *lower, Loc loc) {
    Graph *graph = lower->graph;
    const BatchRows *traced = batch_rows_trace(graph, lower->arena, batch_rows(graph));
    Node loss = graph->nodes.at[graph->values.at[graph->loss].node];
    Span span = loss.span;
    bool is_mse = loss.op == OP_mse, is_cross_entropy = loss.op == OP_cross_entropy;
    bool sums = loss.op == OP_sum || ((is_mse || is_cross_entropy) && loss.attr[0].given && strcmp(loss.attr[0].text, "sum") == 0);
    bool reduces_all = (loss.op == OP_sum || loss.op == OP_mean) && !loss.attr[0].given;
    if (!(is_mse || is_cross_entropy || reduces_all) || !rows_stand(graph, traced, loss.in[0])) {
        diag_error(lower->diags, span, "rows that only fill up a batch cannot be left out of this loss");
        diag_note(lower->diags, lower_span(lower, loc), "last = %s fills up the last batch", last_name[lower->graph->settings.last]);
        diag_hint(lower->diags, "a loss whose rows can be told apart is mse(..), cross_entropy(..), or the mean or sum of a tensor whose first dimension is the batch");
        return false;
    }
    if (!rows_apart(lower, traced, &loss)) return false;
    int rows = loss.in[0];
    if (is_mse) {
        int difference = emit(graph, OP_sub, loss.in[0], loss.in[1], "loss.diff", span);
        graph->nodes.at[graph->values.at[difference].node].hint = loss.hint;
        rows = emit(graph, OP_mul, difference, difference, "loss.square", span);
    }
    if (is_cross_entropy) rows = class_rows(graph, &loss, "loss.row");
    TensorType rows_type = graph->values.at[rows].type;
    int weighted = emit(graph, OP_mul, rows, weights(lower, &rows_type, span), "loss.rows", span);
    graph->loss = graph_emit(graph, sums ? OP_sum : OP_mean, &weighted, 1, NULL, "loss", span);
    if (sums && graph->settings.last == LAST_SHORT) graph->settings.last = LAST_PAD; /* a sum is over the rows that are there already: nothing to scale */
    return true;
}

/* ---------------------------------------------------------------- evaluation */

bool rows_has(const Graph *graph, int value) {
    const TensorType *type = &graph->values.at[value].type;
    int first = type->hidden ? 1 : 0;
    return type->shape.ndim > first && type->shape.dim[first] == batch_rows(graph);
}

/* Per value whether an input of data goes into it. */
static bool *depends_on_data(const Lower *lower) {
    const Graph *graph = lower->graph;
    bool *depends = arena_alloc(lower->arena, (size_t)graph->values.n + 1);
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        bool does = node->op == OP_input;
        for (int i = 0; i < node->nin; i++)
            does = does || depends[node->in[i]];
        for (int k = 0; k < node->nout; k++)
            depends[node->out[k]] = does;
    }
    return depends;
}

/* What the dimensions behind the rows come to: their mean, or their sum. */
static int reduce_rows(Graph *graph, OpCode op, int value, const char *name, Span span) {
    TensorType type = graph->values.at[value].type;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = type.shape.ndim - type.hidden - 1}};
    if (attr[0].n == 0) return value;
    for (int d = 0; d < attr[0].n; d++)
        attr[0].ints[d] = d + 1;
    return graph_emit(graph, op, &value, 1, attr, name, span);
}

/* A loss as one number a row, whose mean (of a sum: whose sum) over the rows it is. */
typedef struct RowLoss {
    Lower *lower;
    const bool *depends;
    const BatchRows *traced;
    bool told; /* a diagnostic says already what is wrong */
    int output, label; /* the first operand of the first loss met: what the net answers; of a cross_entropy the classes that are right. -1: none */
} RowLoss;

static void answers(RowLoss *loss, const Node *node) {
    if (loss->output >= 0) return;
    loss->output = node->in[0];
    loss->label = node->op == OP_cross_entropy ? node->in[1] : -1;
}

/* The number by which a batch's rows are in a value that no data goes into: sum(..) / batch is divided by them. */
static int batch_power(const RowLoss *loss, int value) {
    for (int i = 0; i < loss->lower->batch_numbers.n; i++)
        if (loss->lower->batch_numbers.at[i].value == value) return loss->lower->batch_numbers.at[i].power;
    return 0;
}

/* A term times or divided by a number: of a row alone, whose batch is 1. row: the term of the row, times or divided by that number. */
static int scale_to_row(RowLoss *loss, const Node *node, int row) {
    Graph *graph = loss->lower->graph;
    int power = 0;
    for (int i = 0; i < node->nin; i++)
        power += !loss->depends[node->in[i]] ? (node->op == OP_div ? 1 : -1) * batch_power(loss, node->in[i]) : 0;
    if (power == 0) return row;
    const DType dtype = graph->values.at[row].type.dtype;
    int scale = graph_constant(graph, (TensorType){.dtype = dtype}, NULL, pow((double)batch_rows(graph), power), "loss.batch", node->span);
    return emit(graph, OP_mul, row, replicate(loss->lower, scale, NULL, node->span), "loss.row", node->span);
}

static int rows_of(RowLoss *loss, int value, int depth) {
    Graph *graph = loss->lower->graph;
    Node node = graph->nodes.at[graph->values.at[value].node];
    enum { MAX_TERMS_DEPTH = 64 };
    if (!loss->depends[value]) return value; /* as much of every row's loss */
    if (depth == MAX_TERMS_DEPTH || node.nin == 0) return -1;
    bool composite = node.op == OP_mse || node.op == OP_cross_entropy;
    bool sums = node.op == OP_sum || (composite && node.attr[0].given && strcmp(node.attr[0].text, "sum") == 0);
    const bool stands = rows_stand(graph, loss->traced, node.in[node.op == OP_cross_entropy ? 1 : 0]);
    if (stands && (composite || node.op == OP_sum || node.op == OP_mean) && !rows_apart(loss->lower, loss->traced, &node)) {
        loss->told = true;
        return -1;
    }
    if (node.op == OP_mse && stands) {
        answers(loss, &node);
        int difference = emit(graph, OP_sub, node.in[0], node.in[1], "loss.diff", node.span);
        int square = emit(graph, OP_mul, difference, difference, "loss.square", node.span);
        return reduce_rows(graph, sums ? OP_sum : OP_mean, square, "loss.row", node.span);
    }
    if (node.op == OP_cross_entropy && stands) {
        answers(loss, &node);
        return reduce_rows(graph, sums ? OP_sum : OP_mean, class_rows(graph, &node, "loss.each"), "loss.row", node.span);
    }
    if ((node.op == OP_sum || node.op == OP_mean) && !node.attr[0].given && stands) {
        const Node *inner = &graph->nodes.at[graph->values.at[node.in[0]].node];
        answers(loss, inner->op == OP_cross_entropy ? inner : &node); /* mean(cross_entropy(.., reduction = none)) */
        return reduce_rows(graph, node.op, node.in[0], "loss.row", node.span);
    }
    bool linear = node.op == OP_add || node.op == OP_sub || node.op == OP_neg || (node.op == OP_mul && (!loss->depends[node.in[0]] || !loss->depends[node.in[1]])) ||
                  (node.op == OP_div && !loss->depends[node.in[1]]);
    if (!linear) return -1;
    int in[2] = {-1, -1};
    for (int i = 0; i < node.nin; i++)
        if ((in[i] = rows_of(loss, node.in[i], depth + 1)) < 0) return -1;
    int row = graph_emit(graph, node.op, in, node.nin, NULL, "loss.row", node.span);
    return node.op == OP_mul || node.op == OP_div ? scale_to_row(loss, &node, row) : row;
}

static void report(Lower *lower, const char *name, int value, bool whole) {
    vec_push(lower->arena, &lower->graph->reports, (Report){.name = name, .value = value, .whole = whole});
}

/* 1 where the class with the highest score, of equal ones the first, is the one that is given; else 0. */
static int class_right(Lower *lower, int logits, int label, Span span) {
    Graph *graph = lower->graph;
    const Attr to_index[MAX_ATTRS] = {{.given = true, .text = "i32"}}, to_number[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[logits].type.dtype]}};
    int best = graph_emit(graph, OP_argmax, &logits, 1, NULL, "accuracy.best", span);
    if (graph->values.at[label].type.dtype != I32) label = graph_emit(graph, OP_cast, &label, 1, to_index, "accuracy.label", span);
    int right = emit(graph, OP_equal, best, label, "accuracy.equal", span);
    return graph_emit(graph, OP_cast, &right, 1, to_number, "accuracy.right", span);
}

/* How many rows are answered right; of a row with several answers the share of those. */
static bool rows_accuracy(Lower *lower, const RowLoss *loss, int weight) {
    Graph *graph = lower->graph;
    Span span = lower->accuracy;
    if (loss->label < 0) {
        diag_error(lower->diags, span, "accuracy is for classes, and the loss of net %s is no cross_entropy of them", graph->name);
        diag_hint(lower->diags, "metrics = loss; or loss cross_entropy(logits, label) with class indices as labels");
        return false;
    }
    int right = reduce_rows(graph, OP_mean, class_right(lower, loss->output, loss->label, span), "accuracy.row", span);
    int weighted = emit(graph, OP_mul, right, weight, "accuracy.rows", span);
    report(lower, "accuracy", graph_emit(graph, OP_sum, &weighted, 1, NULL, "accuracy", span), true);
    return true;
}

bool rows_report(Lower *lower, Loc loc, int prediction) {
    Graph *graph = lower->graph;
    RowLoss loss = {.lower = lower, .depends = depends_on_data(lower), .traced = batch_rows_trace(graph, lower->arena, batch_rows(graph)), .output = -1, .label = -1};
    Span span = graph->nodes.at[graph->values.at[graph->loss].node].span;
    int rows = loss.depends[graph->loss] ? rows_of(&loss, graph->loss, 0) : -1;
    if (rows < 0 && loss.told) return false;
    if (rows < 0) {
        diag_error(lower->diags, span, "rows cannot be told apart in this loss");
        diag_note(lower->diags, lower_span(lower, loc), "an eval counts each row once, and leaves out those that only fill up a batch");
        diag_hint(lower->diags, "a loss whose rows can be told apart is mse(..), cross_entropy(..), or the mean or sum of a tensor whose first dimension is the batch");
        return false;
    }
    TensorType type = graph->values.at[rows].type;
    int weight = weights(lower, &type, span);
    int weighted = emit(graph, OP_mul, rows, weight, "loss.rows", span);
    if (prediction < 0) prediction = loss.output;
    graph->loss = graph_emit(graph, OP_sum, &weighted, 1, NULL, "loss.sum", span);
    report(lower, "rows", graph_emit(graph, OP_sum, &weight, 1, NULL, "rows", span), true);
    if (lower->accuracy.line > 0 && !rows_accuracy(lower, &loss, weight)) return false;
    if (prediction >= 0) report(lower, "prediction", prediction, false);
    return true;
}
