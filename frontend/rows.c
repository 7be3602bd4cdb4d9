/* rows: losses of batches whose last rows may only fill them up. The program gets an input `row_weight`, one number a row, and means and
 * sums of rows' losses become those of losses times weights: 0 for rows that fill up; for the others 1, or with `last = short` what makes it the mean over them. */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

static int emit(Graph *graph, OpCode op, int a, int b, const char *name, Span span) {
    const int in[2] = {a, b};
    return graph_emit(graph, op, in, 2, NULL, name, span);
}

/* The input of weights, one a row. */
static int weight_input(Graph *graph, const TensorType *type, Span span) {
    Input input = {.name = "row_weight", .span = span, .kind = INPUT_ROW_WEIGHT, .type = *type};
    input.type.shape.ndim = type->hidden + 1;
    return graph_input(graph, graph_add_input(graph, input));
}

/* Weights as a value that multiplies rows of another: the batch, and ones. */
static int weights_for(Graph *graph, int weight, const TensorType *type, Span span) {
    int first = type->hidden ? 1 : 0;
    if (type->shape.ndim == first + 1) return weight;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = type->shape.ndim - first}};
    for (int d = 0; d < attr[0].n; d++)
        attr[0].ints[d] = d == 0 ? type->shape.dim[first] : 1;
    return graph_emit(graph, OP_reshape, &weight, 1, attr, "row_weight.rows", span);
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

/* A cross_entropy or bce_with_logits before its reduction. */
static int losses_each(Graph *graph, const Node *loss, const char *name) {
    const Attr none[MAX_ATTRS] = {{.given = true, .text = "none"}};
    return graph_emit(graph, loss->op, loss->in, 2, none, name, loss->span);
}

/* Losses that compare an answer with what is right. */
static bool is_composite(OpCode op) {
    return op == OP_mse || op == OP_cross_entropy || op == OP_bce_with_logits;
}

/* Whether it stands unreduced: losses of rows, for a mean or a sum of its own. */
static bool is_each(const Node *node) {
    return is_composite(node->op) && node->attr[0].given && node->attr[0].text && strcmp(node->attr[0].text, "none") == 0;
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

/* ---------------------------------------------------------------- terms of a loss */

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

/* A loss as its terms. */
typedef struct RowLoss {
    Lower *lower;
    const bool *depends;
    const BatchRows *traced;
    bool reported;     /* a diagnostic says already what is wrong */
    int weight, there; /* training: the weights; 1 and 0 for rows that are there and not, where that is something else */
    int nmeans;        /* terms that are divided by the rows of a batch */
    int output, label; /* evaluation: the first operand of the first loss met: what the net answers; of a cross_entropy the classes that are right. -1: none */
} RowLoss;

static RowLoss row_loss(Lower *lower) {
    return (RowLoss){.lower = lower,
                     .depends = depends_on_data(lower),
                     .traced = batch_rows_trace(lower->graph, lower->arena, batch_rows(lower->graph)),
                     .weight = -1,
                     .there = -1,
                     .output = -1,
                     .label = -1};
}

typedef enum {
    TERM_WHOLE,  /* no data goes into it */
    TERM_ROWS,   /* a mean or a sum of what rows lose */
    TERM_LINEAR, /* made of terms, added or times numbers */
    TERM_OTHER,
} TermKind;

static TermKind term_kind(RowLoss *loss, int value, int depth) {
    enum { MAX_TERMS_DEPTH = 64 };
    const Graph *graph = loss->lower->graph;
    const Node *node = graph_producer(graph, value);
    if (!loss->depends[value]) return TERM_WHOLE;
    if (depth == MAX_TERMS_DEPTH || node->nin == 0) return TERM_OTHER;
    const bool composite = is_composite(node->op) && !is_each(node), reduces = (node->op == OP_sum || node->op == OP_mean) && !node->attr[0].given;
    if ((composite || reduces) && rows_stand(graph, loss->traced, node->in[node->op == OP_cross_entropy ? 1 : 0])) {
        loss->reported = !rows_apart(loss->lower, loss->traced, node);
        return loss->reported ? TERM_OTHER : TERM_ROWS;
    }
    const bool linear = node->op == OP_add || node->op == OP_sub || node->op == OP_neg ||
                        (node->op == OP_mul && (!loss->depends[node->in[0]] || !loss->depends[node->in[1]])) || (node->op == OP_div && !loss->depends[node->in[1]]);
    return linear ? TERM_LINEAR : TERM_OTHER;
}

static bool term_sums(const Node *node) {
    return node->op == OP_sum || (is_composite(node->op) && node->attr[0].given && strcmp(node->attr[0].text, "sum") == 0);
}

/* The number by which a batch's rows are in a value that no data goes into: sum(..) / batch is divided by them. */
static int batch_power(const RowLoss *loss, int value) {
    for (int i = 0; i < loss->lower->batch_numbers.n; i++)
        if (loss->lower->batch_numbers.at[i].value == value) return loss->lower->batch_numbers.at[i].power;
    return 0;
}

/* The power of a batch's rows by which a product or a quotient multiplies the term in it. */
static int scale_power(const RowLoss *loss, const Node *node) {
    int power = 0;
    for (int i = 0; i < node->nin && (node->op == OP_mul || node->op == OP_div); i++)
        power += !loss->depends[node->in[i]] ? (node->op == OP_div ? -1 : 1) * batch_power(loss, node->in[i]) : 0;
    return power;
}

static bool fail_rows(Lower *lower, Loc loc, const char *what, const char *why) {
    const Graph *graph = lower->graph;
    diag_error(lower->diags, graph_producer(graph, graph->loss)->span, "%s", what);
    diag_note(lower->diags, lower_span(lower, loc), "%s", why);
    diag_hint(lower->diags, "a loss whose rows can be told apart is mse(..), cross_entropy(..), bce_with_logits(..), the mean or sum of a tensor whose first dimension is the batch, or a sum of "
                            "such and of what does not depend on the batch");
    return false;
}

/* ---------------------------------------------------------------- training */

/* Whether the terms of a loss can be weighed, and how many are means: `sum(..) / batch` is one. power: of the batch's rows, by which the term is multiplied. */
static bool terms_count(RowLoss *loss, int value, int depth, int power) {
    const Graph *graph = loss->lower->graph;
    const Node *node = graph_producer(graph, value);
    bool ok = true;
    switch (term_kind(loss, value, depth)) {
    case TERM_WHOLE:
        return true;
    case TERM_ROWS:
        power -= !term_sums(node);
        loss->nmeans += power == -1;
        return power == 0 || power == -1 || graph->settings.last != LAST_SHORT;
    case TERM_LINEAR:
        for (int i = 0; ok && i < node->nin; i++)
            ok = terms_count(loss, node->in[i], depth + 1, power + scale_power(loss, node));
        return ok;
    case TERM_OTHER:
        return false;
    }
    return false;
}

/* What multiplies the rows of a mean, or of a sum: that one is over rows that are there already, nothing is to be scaled for `last = short`. */
static int weight_of(RowLoss *loss, bool mean, const TensorType *type, Span span) {
    Graph *graph = loss->lower->graph;
    if (loss->weight < 0) loss->weight = weight_input(graph, type, span);
    if (mean || graph->settings.last != LAST_SHORT) return weights_for(graph, loss->weight, type, span);
    if (loss->there < 0) {
        const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[type->dtype]}};
        int zero = replicate(loss->lower, graph_constant(graph, (TensorType){.dtype = type->dtype}, NULL, 0, "row_weight.zero", span), NULL, span);
        int there = emit(graph, OP_greater, loss->weight, zero, "row_weight.positive", span);
        loss->there = graph_emit(graph, OP_cast, &there, 1, to, "row_weight.there", span);
    }
    return weights_for(graph, loss->there, type, span);
}

/* The loss with its rows' parts times their weights. */
static int weigh(RowLoss *loss, int value, int depth, int power) {
    Graph *graph = loss->lower->graph;
    const Node node = graph->nodes.at[graph->values.at[value].node];
    const char *name = depth == 0 ? "loss" : "loss.term";
    const TermKind kind = term_kind(loss, value, depth);
    if (kind == TERM_WHOLE) return value;
    if (kind == TERM_LINEAR) {
        int in[2];
        for (int i = 0; i < node.nin; i++)
            in[i] = weigh(loss, node.in[i], depth + 1, power + scale_power(loss, &node));
        return graph_emit(graph, node.op, in, node.nin, NULL, name, node.span);
    }
    int rows = node.in[0];
    if (node.op == OP_mse) {
        int difference = emit(graph, OP_sub, node.in[0], node.in[1], "loss.diff", node.span);
        graph->nodes.at[graph->values.at[difference].node].hint = node.hint;
        rows = emit(graph, OP_mul, difference, difference, "loss.square", node.span);
    }
    if (node.op == OP_cross_entropy || node.op == OP_bce_with_logits) rows = losses_each(graph, &node, "loss.row");
    const bool sums = term_sums(&node);
    const TensorType type = graph->values.at[rows].type;
    int weighted = emit(graph, OP_mul, rows, weight_of(loss, power - !sums == -1, &type, node.span), "loss.rows", node.span);
    return graph_emit(graph, sums ? OP_sum : OP_mean, &weighted, 1, NULL, name, node.span);
}

bool rows_weigh(Lower *lower, Loc loc) {
    Graph *graph = lower->graph;
    RowLoss loss = row_loss(lower);
    bool ok = loss.depends[graph->loss] && terms_count(&loss, graph->loss, 0, 0);
    if (loss.reported) return false;
    if (!ok)
        return fail_rows(lower, loc, "rows that only fill up a batch cannot be left out of this loss",
                         arena_printf(lower->arena, "last = %s fills up the last batch", last_name[graph->settings.last]));
    if (loss.nmeans == 0) graph->settings.last = LAST_PAD; /* sums alone: weights are 1 and 0 */
    graph->loss = weigh(&loss, graph->loss, 0, 0);
    return true;
}

/* ---------------------------------------------------------------- evaluation */

bool rows_has(const Graph *graph, int value) {
    const TensorType *type = &graph->values.at[value].type;
    int first = type->hidden ? 1 : 0;
    return type->shape.ndim > first && type->shape.dim[first] == batch_rows(graph);
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

static void answers(RowLoss *loss, const Node *node) {
    if (loss->output >= 0) return;
    loss->output = node->in[0];
    loss->label = node->op == OP_cross_entropy ? node->in[1] : -1;
}

/* A term times or divided by a number: of a row alone, whose batch is 1. row: the term of the row, times or divided by that number. */
static int scale_to_row(RowLoss *loss, const Node *node, int row) {
    Graph *graph = loss->lower->graph;
    const int power = -scale_power(loss, node);
    if (power == 0) return row;
    const DType dtype = graph->values.at[row].type.dtype;
    int scale = graph_constant(graph, (TensorType){.dtype = dtype}, NULL, pow((double)batch_rows(graph), power), "loss.batch", node->span);
    return emit(graph, OP_mul, row, replicate(loss->lower, scale, NULL, node->span), "loss.row", node->span);
}

/* A loss as one number a row, whose mean (of a sum: whose sum) over the rows it is; -1: it cannot be. */
static int rows_of(RowLoss *loss, int value, int depth) {
    Graph *graph = loss->lower->graph;
    const Node node = graph->nodes.at[graph->values.at[value].node];
    const TermKind kind = term_kind(loss, value, depth);
    const OpCode reduction = term_sums(&node) ? OP_sum : OP_mean;
    if (kind == TERM_OTHER) return -1;
    if (kind == TERM_WHOLE) return value; /* as much of every row's loss */
    if (kind == TERM_LINEAR) {
        int in[2] = {-1, -1};
        for (int i = 0; i < node.nin; i++)
            if ((in[i] = rows_of(loss, node.in[i], depth + 1)) < 0) return -1;
        int row = graph_emit(graph, node.op, in, node.nin, NULL, "loss.row", node.span);
        return scale_to_row(loss, &node, row);
    }
    if (node.op == OP_mse) {
        answers(loss, &node);
        int difference = emit(graph, OP_sub, node.in[0], node.in[1], "loss.diff", node.span);
        int square = emit(graph, OP_mul, difference, difference, "loss.square", node.span);
        return reduce_rows(graph, reduction, square, "loss.row", node.span);
    }
    if (node.op == OP_cross_entropy || node.op == OP_bce_with_logits) {
        answers(loss, &node);
        return reduce_rows(graph, reduction, losses_each(graph, &node, "loss.each"), "loss.row", node.span);
    }
    const Node *inner = graph_producer(graph, node.in[0]);
    answers(loss, is_each(inner) ? inner : &node); /* mean(cross_entropy(.., reduction = none)) */
    return reduce_rows(graph, reduction, node.in[0], "loss.row", node.span);
}

static void report(Lower *lower, const char *name, int value, bool whole) {
    vec_push(lower->arena, &lower->graph->reports, (Report){.name = name, .value = value, .whole = whole});
}

/* 1 where the class with the highest score, of equal ones the first, is the one that is given; else 0. */
static int class_right(Lower *lower, int logits, int label, Span span) {
    Graph *graph = lower->graph;
    const Attr to_index[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[label].type.dtype]}}, to_number[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[logits].type.dtype]}};
    int best = graph_emit(graph, OP_argmax, &logits, 1, NULL, "accuracy.best", span);
    if (graph->values.at[label].type.dtype != I32) best = graph_emit(graph, OP_cast, &best, 1, to_index, "accuracy.class", span);
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
    RowLoss loss = row_loss(lower);
    Span span = graph_producer(graph, graph->loss)->span;
    int rows = loss.depends[graph->loss] ? rows_of(&loss, graph->loss, 0) : -1;
    if (rows < 0 && loss.reported) return false;
    if (rows < 0) return fail_rows(lower, loc, "rows cannot be told apart in this loss", "an eval counts each row once, and leaves out those that only fill up a batch");
    TensorType type = graph->values.at[rows].type;
    int weight = weight_input(graph, &type, span);
    int weighted = emit(graph, OP_mul, rows, weight, "loss.rows", span);
    if (prediction < 0) prediction = loss.output;
    graph->loss = graph_emit(graph, OP_sum, &weighted, 1, NULL, "loss.sum", span);
    report(lower, "rows", graph_emit(graph, OP_sum, &weight, 1, NULL, "rows", span), true);
    if (lower->accuracy.line > 0 && !rows_accuracy(lower, &loss, weight)) return false;
    if (prediction >= 0) report(lower, "prediction", prediction, false);
    return true;
}
