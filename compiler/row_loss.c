/* row_loss: takes a loss apart into terms, each of which is a mean or a sum of rows' losses, or does not depend on the data. */
#include "compiler/compiler.h"
#include "compiler/rows.h"

#include <math.h>
#include <string.h>

int weight_input(Graph *graph, const TensorType *type, Span span) {
    Input input = {.name = "row_weight", .span = span, .kind = INPUT_ROW_WEIGHT, .type = *type};
    input.type.shape.ndim = type->hidden + 1;
    return graph_input(graph, graph_add_input(graph, input));
}

int losses_each(Graph *graph, const Node *loss, const char *name) {
    const Attr none[MAX_ATTRS] = {{.given = true, .text = "none"}, loss->attr[1], loss->attr[2]};
    return graph_emit(graph, loss->op, loss->in, 2, none, name, loss->span);
}

/* Whether it is a loss that compares an answer with the right one. */
static bool is_composite(OpCode op) {
    return op == OP_mse || op == OP_cross_entropy || op == OP_bce_with_logits;
}

bool is_each(const Node *node) {
    return is_composite(node->op) && node->attr[0].given && node->attr[0].text && strcmp(node->attr[0].text, "none") == 0;
}

bool counts_labels(const Node *node) {
    return node->op == OP_cross_entropy && node->attr[1].given && !term_sums(node) && !is_each(node);
}

/* One label in place of each label of a loss. */
static int label_for_all(Graph *graph, const Node *loss, double label, const char *name) {
    const TensorType type = {.dtype = graph->values.at[loss->in[1]].type.dtype};
    return graph_replicate(graph, graph_constant(graph, type, NULL, label, name, loss->span), NULL, loss->span);
}

int labels_kept(Graph *graph, const Node *node, int *label) {
    const Node copy = *node, *loss = &copy; /* nodes move when one is added */
    const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[loss->out[0]].type.dtype]}};
    const int keep = emit_binary(graph, OP_not_equal, loss->in[1], label_for_all(graph, loss, (double)loss->attr[1].i, "labels.ignored"),
                                 "labels.keep", loss->span);
    if (label) {
        const int in[] = {keep, loss->in[1], label_for_all(graph, loss, 0, "labels.first")};
        *label = graph_emit(graph, OP_where, in, 3, NULL, "labels.label", loss->span);
    }
    return graph_emit(graph, OP_cast, &keep, 1, to, "labels.kept", loss->span);
}

/* Whether a value's first dimension is the batch, row by row. */
static bool rows_stand(const Graph *graph, const BatchRows *traced, int value) {
    const TensorType *type = &graph->values.at[value].type;
    const int first = type->hidden ? 1 : 0;
    return traced[value].at == first && type->shape.dim[first] == graph_batch_rows(graph);
}

/* Whether rows of a loss's operands are independent, so that those that only fill up a batch can be left out. False after a diagnostic. */
static bool rows_apart(const RowLoss *loss, const Node *node) {
    bool mixed = false;
    for (int i = 0; i < node->nin; i++)
        mixed = mixed || loss->traced[node->in[i]].mixed;
    if (!mixed || loss->graph->settings.last == LAST_DROP) return true;
    diag_error(loss->diags, node->span,
               "what this says of a row depends on the other rows of its batch, also on those that only fill it up");
    diag_hint(loss->diags, "where every batch is full they do not matter: train takes last = drop; an eval generated data (steps = 10)");
    return false;
}

/* Per value whether an input of data goes into it. */
static bool *depends_on_data(const Graph *graph) {
    bool *depends = arena_alloc(graph->arena, (size_t)graph->values.n + 1);
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

RowLoss row_loss(Graph *graph, const LossRows *asked, Diags *diags) {
    return (RowLoss){.graph = graph,
                     .diags = diags,
                     .asked = asked,
                     .depends = depends_on_data(graph),
                     .traced = batch_rows_trace(graph, graph->arena, graph_batch_rows(graph)),
                     .weight = -1,
                     .there = -1,
                     .penalty = -1,
                     .output = -1,
                     .label = -1,
                     .target = -1,
                     .binary = -1,
                     .kept = -1,
                     .over_labels = -1};
}

TermKind term_kind(RowLoss *loss, int value, int depth) {
    enum { MAX_TERMS_DEPTH = 64 };
    const Graph *graph = loss->graph;
    const Node *node = graph_producer(graph, value);
    if (!loss->depends[value]) return TERM_WHOLE;
    if (depth == MAX_TERMS_DEPTH || node->nin == 0) return TERM_OTHER;
    const bool composite = is_composite(node->op) && !is_each(node),
               reduces = (node->op == OP_sum || node->op == OP_mean) && !node->attr[0].given;
    if ((composite || reduces) && rows_stand(graph, loss->traced, node->in[node->op == OP_cross_entropy ? 1 : 0])) {
        loss->reported = !rows_apart(loss, node);
        return loss->reported ? TERM_OTHER : TERM_ROWS;
    }
    const bool linear = node->op == OP_add || node->op == OP_sub || node->op == OP_neg ||
                        (node->op == OP_mul && (!loss->depends[node->in[0]] || !loss->depends[node->in[1]])) ||
                        (node->op == OP_div && !loss->depends[node->in[1]]);
    return linear ? TERM_LINEAR : TERM_OTHER;
}

bool term_sums(const Node *node) {
    return node->op == OP_sum || (is_composite(node->op) && node->attr[0].given && strcmp(node->attr[0].text, "sum") == 0);
}

/* The power of a batch's rows that is a factor of a value that no data goes into: sum(..) / batch is divided by them. */
static int batch_power(const RowLoss *loss, int value) {
    for (int i = 0; i < loss->asked->numbers.n; i++)
        if (loss->asked->numbers.at[i].value == value) return loss->asked->numbers.at[i].power;
    return 0;
}

int scale_power(const RowLoss *loss, const Node *node) {
    int power = 0;
    for (int i = 0; i < node->nin && (node->op == OP_mul || node->op == OP_div); i++)
        power += !loss->depends[node->in[i]] ? (node->op == OP_div ? -1 : 1) * batch_power(loss, node->in[i]) : 0;
    return power;
}

int scale_to_row(const RowLoss *loss, const Node *node, int row) {
    Graph *graph = loss->graph;
    const int power = -scale_power(loss, node);
    if (power == 0) return row;
    const DType dtype = graph->values.at[row].type.dtype;
    int scale =
        graph_constant(graph, (TensorType){.dtype = dtype}, NULL, pow((double)graph_batch_rows(graph), power), "loss.batch", node->span);
    return emit_binary(graph, OP_mul, row, graph_replicate(graph, scale, NULL, node->span), "loss.row", node->span);
}

/* The sum or difference of two terms, of which one or both may be missing (-1). */
static int join_terms(Graph *graph, const Node *node, const int in[2]) {
    if (in[0] >= 0 && in[1] >= 0) return emit_binary(graph, node->op, in[0], in[1], "loss.penalty", node->span);
    if (in[1] < 0 || node->op == OP_add) return in[1] < 0 ? in[0] : in[1];
    return graph_emit(graph, OP_neg, &in[1], 1, NULL, "loss.penalty", node->span);
}

int loss_penalty(RowLoss *loss, int value, bool as_row, int depth) {
    const Node node = *graph_producer(loss->graph, value);
    const TermKind kind = term_kind(loss, value, depth);
    const bool scales = node.op == OP_mul || node.op == OP_div;
    int in[2] = {-1, -1};
    if (kind != TERM_LINEAR) return kind == TERM_WHOLE ? value : -1;
    for (int i = 0; i < node.nin; i++)
        in[i] = scales && !loss->depends[node.in[i]] ? node.in[i] : loss_penalty(loss, node.in[i], as_row, depth + 1);
    if (node.op == OP_add || node.op == OP_sub) return join_terms(loss->graph, &node, in);
    if (in[0] < 0 || (scales && in[1] < 0)) return -1;
    const int term = graph_emit(loss->graph, node.op, in, node.nin, NULL, "loss.penalty", node.span);
    return as_row ? scale_to_row(loss, &node, term) : term;
}

bool penalty_is_there(const RowLoss *loss, int penalty) {
    if (penalty >= 0) return true;
    diag_error(loss->diags, loss->asked->metric[METRIC_PENALTY],
               "penalty is what no data goes into, and the loss of net %s has no such term", loss->graph->name);
    diag_hint(loss->diags, "loss mse(y, label) + 0.001 * sum(square(w)); the weight_decay of an optimizer is no part of a loss");
    return false;
}

/* Reports the penalty of a step, as it stands in the loss of a batch. */
static bool report_penalty(Graph *graph, const LossRows *asked, int value, Diags *diags) {
    const Span span = asked->metric[METRIC_PENALTY];
    RowLoss loss = row_loss(graph, asked, diags);
    const int penalty = loss_penalty(&loss, value, false, 0);
    if (!penalty_is_there(&loss, penalty)) return false;
    vec_push(graph->arena, &graph->reports, ((Report){.name = metric_name[METRIC_PENALTY], .value = penalty, .whole = true, .span = span}));
    return true;
}

bool fail_rows(const RowLoss *loss, const char *what, const char *why) {
    diag_error(loss->diags, graph_producer(loss->graph, loss->graph->loss)->span, "%s", what);
    diag_note(loss->diags, loss->asked->span, "%s", why);
    diag_hint(
        loss->diags,
        "a loss whose rows can be told apart is mse(..), cross_entropy(..), bce_with_logits(..), the mean or sum of a tensor whose first dimension is the batch, or a sum of "
        "such and of what does not depend on the batch; in an eval a mean over labels that are not ignored goes with no other mean over rows");
    return false;
}

bool loss_rows_apply(Graph *graph, const LossRows *asked, Diags *diags) {
    const int written = graph->loss;
    if (asked->use == LOSS_REPORTED) return rows_report(graph, asked, diags);
    if (asked->use == LOSS_WEIGHED && !rows_weigh(graph, asked, diags)) return false;
    return written < 0 || asked->metric[METRIC_PENALTY].line == 0 || report_penalty(graph, asked, written, diags);
}
