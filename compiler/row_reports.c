/* row_reports: what an eval reports. The loss becomes the sum of its rows' losses. Reports are `rows`, the number of rows that are there, the sums of
 * each metric that is asked for (ir/metric.h), and `prediction`. If labels can be ignored (ignore_index), `labels` is the number of those that count, by which metrics
 * of classes are divided; `loss_labels` is the same if the loss is a mean over them. */
#include "compiler/rows.h"

/* Reduces the dimensions behind the rows to their mean, or their sum. */
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
    if (node->op == OP_cross_entropy && node->attr[1].given) loss->kept = labels_kept(loss->graph, node, &loss->label);
    loss->target = node->op == OP_mse ? node->in[1] : -1;
    loss->binary = node->op == OP_bce_with_logits ? node->in[1] : -1;
}

/* How many labels of each row count. */
static int labels_of_rows(const RowLoss *loss, Span span) {
    return reduce_rows(loss->graph, OP_sum, loss->kept, "labels.row", span);
}

/* A number that all rows, or all labels that count, have in common: its part of every row's loss. */
static int whole_of_row(const RowLoss *loss, int value, Span span) {
    return loss->over_labels < 0 ? value : emit_binary(loss->graph, OP_mul, labels_of_rows(loss, span), value, "loss.row", span);
}

/* A loss as one number a row, of which it is the mean (a sum: the sum) over the rows, or the labels that count; -1: it cannot be that. */
static int rows_of(RowLoss *loss, int value, int depth) {
    Graph *graph = loss->graph;
    const Node node = *graph_producer(graph, value);
    const TermKind kind = term_kind(loss, value, depth);
    const OpCode reduction = term_sums(&node) || counts_labels(&node) ? OP_sum : OP_mean;
    if (kind == TERM_OTHER) return -1;
    if (kind == TERM_WHOLE) return whole_of_row(loss, value, node.span);
    if (kind == TERM_ROWS && loss->over_labels >= 0 && loss->over_labels != graph->values.at[value].node) return -1;
    if (kind == TERM_LINEAR) {
        const bool scales = node.op == OP_mul || node.op == OP_div;
        int in[2] = {-1, -1};
        for (int i = 0; i < node.nin; i++) {
            in[i] = scales && !loss->depends[node.in[i]] ? node.in[i] : rows_of(loss, node.in[i], depth + 1);
            if (in[i] < 0) return -1;
        }
        int row = graph_emit(graph, node.op, in, node.nin, NULL, "loss.row", node.span);
        return scale_to_row(loss, &node, row);
    }
    if (node.op == OP_mse) {
        answers(loss, &node);
        int difference = emit_binary(graph, OP_sub, node.in[0], node.in[1], "loss.diff", node.span);
        int square = emit_binary(graph, OP_mul, difference, difference, "loss.square", node.span);
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

/* The node of the first term that is a mean over the labels that count; -1: there is none. */
static int find_over_labels(RowLoss *loss, int value, int depth) {
    const Node *node = graph_producer(loss->graph, value);
    const TermKind kind = term_kind(loss, value, depth);
    int found = kind == TERM_ROWS && counts_labels(node) ? loss->graph->values.at[value].node : -1;
    for (int i = 0; kind == TERM_LINEAR && found < 0 && i < node->nin; i++)
        found = find_over_labels(loss, node->in[i], depth + 1);
    return found;
}

static void report(Graph *graph, const char *name, int value, bool whole) {
    vec_push(graph->arena, &graph->reports, (Report){.name = name, .value = value, .whole = whole});
}

/* 1 if the class with the highest score, of equal ones the first, is the one that is given; else 0. */
static int class_right(Graph *graph, int logits, int label, Span span) {
    const Attr to_index[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[label].type.dtype]}},
               to_number[MAX_ATTRS] = {{.given = true, .text = dtype_name[graph->values.at[logits].type.dtype]}};
    int best = graph_emit(graph, OP_argmax, &logits, 1, NULL, "accuracy.best", span);
    if (graph->values.at[label].type.dtype != I32) best = graph_emit(graph, OP_cast, &best, 1, to_index, "accuracy.class", span);
    int right = emit_binary(graph, OP_equal, best, label, "accuracy.equal", span);
    return graph_emit(graph, OP_cast, &right, 1, to_number, "accuracy.right", span);
}

/* 1 if fewer than five classes have a higher score than the one that is given; else 0. */
static int class_near(Graph *graph, int logits, int label, Span span) {
    const TensorType type = graph->values.at[logits].type;
    const int ndim = type.shape.ndim - type.hidden;
    const Attr to_number[MAX_ATTRS] = {{.given = true, .text = dtype_name[type.dtype]}},
               last[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {ndim - 1}}};
    Attr kept[MAX_ATTRS] = {{.given = true, .n = ndim}};
    for (int d = 0; d < ndim; d++)
        kept[0].ints[d] = d == ndim - 1 ? 1 : type.shape.dim[type.hidden + d];
    int own = emit_binary(graph, OP_pick, logits, label, "top5.own", span);
    own = graph_emit(graph, OP_reshape, &own, 1, kept, "top5.score", span);
    int higher = emit_binary(graph, OP_greater, logits, own, "top5.higher", span);
    higher = graph_emit(graph, OP_cast, &higher, 1, to_number, "top5.number", span);
    int place = graph_emit(graph, OP_sum, &higher, 1, last, "top5.place", span);
    int five = graph_replicate(graph, graph_constant(graph, (TensorType){.dtype = type.dtype}, NULL, 5, "top5.five", span), NULL, span);
    int near = emit_binary(graph, OP_less, place, five, "top5.near", span);
    return graph_emit(graph, OP_cast, &near, 1, to_number, "top5.right", span);
}

/* The sums of a value [rows, .., classes] over all dimensions but the classes, of the rows that are there and the labels that count. */
static int sum_classes(const RowLoss *loss, int value, int weight, Span span) {
    Graph *graph = loss->graph;
    const TensorType type = graph->values.at[value].type;
    Attr axes[MAX_ATTRS] = {{.given = true, .n = type.shape.ndim - type.hidden - 1}},
         column[MAX_ATTRS] = {{.given = true, .n = type.shape.ndim - type.hidden}};
    for (int d = 0; d < axes[0].n; d++)
        axes[0].ints[d] = d;
    for (int d = 0; d < column[0].n; d++)
        column[0].ints[d] = d == column[0].n - 1 ? 1 : type.shape.dim[type.hidden + d];
    if (loss->kept >= 0)
        value = emit_binary(graph, OP_mul, value, graph_emit(graph, OP_reshape, &loss->kept, 1, column, "counts.kept", span),
                            "counts.labels", span);
    int weighted = emit_binary(graph, OP_mul, value, weights_for(graph, weight, &type, span), "counts.rows", span);
    return graph_emit(graph, OP_sum, &weighted, 1, axes, "counts.classes", span);
}

/* [3 * classes]: for each class the number of its rows that are answered with it, of all rows answered with it, of all its rows. */
static int class_counts(const RowLoss *loss, int weight, Span span) {
    Graph *graph = loss->graph;
    const int logits = loss->output, label = loss->label;
    const TensorType type = graph->values.at[logits].type;
    const Attr hot[MAX_ATTRS] = {{.given = true, .i = type.shape.dim[type.shape.ndim - 1]},
                                 {.given = true, .text = dtype_name[type.dtype]}};
    int best = graph_emit(graph, OP_argmax, &logits, 1, NULL, "counts.best", span);
    int found = graph_emit(graph, OP_one_hot, &best, 1, hot, "counts.found", span);
    int there = graph_emit(graph, OP_one_hot, &label, 1, hot, "counts.there", span);
    int hits = emit_binary(graph, OP_mul, found, there, "counts.hits", span);
    const int in[] = {sum_classes(loss, hits, weight, span), sum_classes(loss, found, weight, span),
                      sum_classes(loss, there, weight, span)};
    return graph_emit(graph, OP_concat, in, 3, NULL, "counts", span);
}

/* The sum over the rows that are there of one number a row, or of one that all rows have in common. */
static int sum_weighted(Graph *graph, int row, int weight, const char *name, Span span) {
    int weighted = emit_binary(graph, OP_mul, row, weight, "metric.rows", span);
    return graph_emit(graph, OP_sum, &weighted, 1, NULL, name, span);
}

/* The sum over the rows that are there of the mean of each row's numbers; with labels that can be ignored, of the numbers of those that
 * count. */
static int sum_rows(const RowLoss *loss, int each, int weight, const char *name, Span span) {
    Graph *graph = loss->graph;
    if (loss->kept >= 0) each = emit_binary(graph, OP_mul, each, loss->kept, "metric.labels", span);
    return sum_weighted(graph, reduce_rows(graph, loss->kept >= 0 ? OP_sum : OP_mean, each, "metric.row", span), weight, name, span);
}

/* |prediction - target|, or its square. */
static int distance(Graph *graph, Metric metric, int prediction, int target, Span span) {
    int difference = emit_binary(graph, OP_sub, prediction, target, "metric.difference", span);
    return metric == METRIC_RMSE ? emit_binary(graph, OP_mul, difference, difference, "metric.square", span)
                                 : graph_emit(graph, OP_abs, &difference, 1, NULL, "metric.distance", span);
}

/* Makes a column of rows with one number each. */
static int as_column(Graph *graph, int value, DType dtype, Span span) {
    const TensorType type = graph->values.at[value].type;
    const Attr to[MAX_ATTRS] = {{.given = true, .text = dtype_name[dtype]}},
               shape[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {type.shape.dim[(int)type.hidden], 1}}};
    if (type.dtype != dtype) value = graph_emit(graph, OP_cast, &value, 1, to, "auc.number", span);
    return graph_emit(graph, OP_reshape, &value, 1, shape, "auc.column", span);
}

/* The logit of class 1 less that of class 0. */
static int margin(Graph *graph, int logits, Span span) {
    static const double signs[] = {-1, 1};
    const TensorType one = {.dtype = graph->values.at[logits].type.dtype, .shape = {.ndim = 1, .dim = {2}}};
    const Attr last[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {1}}};
    const int sign = graph_replicate(graph, graph_constant(graph, one, signs, 0, "auc.sign", span), NULL, span),
              signed_logits = emit_binary(graph, OP_mul, logits, sign, "auc.signed", span);
    return graph_emit(graph, OP_sum, &signed_logits, 1, last, "auc.score", span);
}

/* [rows, 3]: for each row its score, its class, whether it is there. */
static int row_scores(const RowLoss *loss, int weight, Span span) {
    Graph *graph = loss->graph;
    const DType dtype = graph->values.at[loss->output].type.dtype;
    const Attr axis[MAX_ATTRS] = {{.given = true, .i = 1}};
    const int score = loss->label >= 0 ? margin(graph, loss->output, span) : loss->output,
              there = loss->kept >= 0 ? emit_binary(graph, OP_mul, loss->kept, weight, "auc.there", span) : weight,
              columns[] = {as_column(graph, score, dtype, span),
                           as_column(graph, loss->label >= 0 ? loss->label : loss->binary, dtype, span),
                           as_column(graph, there, dtype, span)};
    return graph_emit(graph, OP_concat, columns, 3, axis, "auc", span);
}

/* Whether each row has one score: two logits and a label, or a logit and its target. */
static bool has_scores(const RowLoss *loss) {
    const TensorType *type = loss->output >= 0 ? &loss->graph->values.at[loss->output].type : NULL;
    int64_t each = 1;
    for (int d = type ? type->hidden + 1 : 0; type && d < type->shape.ndim; d++)
        each *= type->shape.dim[d];
    if (loss->label >= 0) return type->shape.ndim == type->hidden + 2 && each == 2;
    return loss->binary >= 0 && each == 1;
}

/* Whether the loss has what a metric looks at. */
static bool metric_applies(const RowLoss *loss, Metric metric) {
    const Graph *graph = loss->graph;
    const Span span = loss->asked->metric[metric];
    const char *name = metric_name[metric];
    if (metric == METRIC_PERPLEXITY) return true;
    if (metric == METRIC_MAE || metric == METRIC_RMSE) {
        if (loss->target >= 0) return true;
        diag_error(loss->diags, span, "%s is for a prediction and its target, and the loss of net %s is no mse of them", name, graph->name);
        diag_hint(loss->diags, "metrics = loss; or loss mse(prediction, target)");
        return false;
    }
    if (metric_scores(metric)) {
        if (has_scores(loss)) return true;
        diag_error(loss->diags, span, "%s is for two classes, and the loss of net %s does not tell rows of two apart", name, graph->name);
        diag_hint(loss->diags, "loss cross_entropy(logits, label) of [batch, 2], or bce_with_logits(logit, target) of [batch]");
        return false;
    }
    if (metric == METRIC_PENALTY) return penalty_is_there(loss, loss->penalty);
    if (loss->label < 0) {
        diag_error(loss->diags, span, "%s is for classes, and the loss of net %s is no cross_entropy of them", name, graph->name);
        diag_hint(loss->diags, "metrics = loss; or loss cross_entropy(logits, label) with class indices as labels");
        return false;
    }
    const Shape *shape = &graph->values.at[loss->output].type.shape;
    if (!metric_counts(metric) || metric > METRIC_F1 || shape->dim[shape->ndim - 1] == 2) return true;
    diag_error(loss->diags, span, "%s is that of class 1 of two, and here are %lld classes", name, (long long)shape->dim[shape->ndim - 1]);
    diag_hint(loss->diags, "metrics = %s(macro); is the mean over the classes", name);
    return false;
}

/* The sums of a metric over the rows that are there. *counts: class_counts once they are made, else -1. */
static int metric_sums(const RowLoss *loss, Metric metric, int weight, int *counts) {
    Graph *graph = loss->graph;
    const Span span = loss->asked->metric[metric];
    if (metric == METRIC_ACCURACY) return sum_rows(loss, class_right(graph, loss->output, loss->label, span), weight, "accuracy", span);
    if (metric == METRIC_TOP5) return sum_rows(loss, class_near(graph, loss->output, loss->label, span), weight, "top5", span);
    if (metric == METRIC_PERPLEXITY) return graph->loss;
    if (metric == METRIC_PENALTY) return sum_weighted(graph, loss->penalty, weight, "penalty", span);
    if (metric_scores(metric)) return row_scores(loss, weight, span);
    if (!metric_counts(metric))
        return sum_rows(loss, distance(graph, metric, loss->output, loss->target, span), weight, metric_name[metric], span);
    if (*counts < 0) *counts = class_counts(loss, weight, span);
    return *counts;
}

static bool report_metrics(const RowLoss *loss, int weight) {
    int counts = -1;
    for (Metric metric = 0; metric < NMETRICS; metric++) {
        if (loss->asked->metric[metric].line == 0) continue;
        if (!metric_applies(loss, metric)) return false;
        report(loss->graph, metric_name[metric], metric_sums(loss, metric, weight, &counts), true);
    }
    return true;
}

/* Whether a value depends on each input: depends[input]. */
static const bool *inputs_of(const Graph *graph, int value) {
    bool *needed = arena_alloc(graph->arena, (size_t)graph->values.n + 1),
         *depends = arena_alloc(graph->arena, (size_t)graph->inputs.n + 1);
    needed[value] = true;
    for (int n = graph->nodes.n - 1; n >= 0; n--) {
        const Node *node = &graph->nodes.at[n];
        bool used = false;
        for (int k = 0; k < node->nout; k++)
            used = used || needed[node->out[k]];
        for (int i = 0; used && i < node->nin; i++)
            needed[node->in[i]] = true;
        if (used && node->op == OP_input) depends[node->state] = true;
    }
    return depends;
}

/* Whether files give every input, or, if only prun --predict runs the program, all that the prediction depends on. prediction: -1: there is
 * none. */
static bool inputs_given(const RowLoss *loss, int prediction) {
    const Graph *graph = loss->graph;
    const bool *depends = prediction >= 0 ? inputs_of(graph, prediction) : NULL;
    for (int i = 0; graph->settings.data == DATA_FILES && i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->kind != INPUT_DATA || input->file.format != FILE_NONE) continue;
        if (graph->settings.eval == EVAL_NEVER && depends && !depends[i]) continue;
        diag_error(loss->diags, loss->asked->data, "%s does not give input %s", loss->asked->data_name, input->name);
        diag_note(loss->diags, input->span, "%s is declared here", input->name);
        if (depends && !depends[i])
            diag_hint(loss->diags, "the prediction does not depend on it: with every = never; prun --predict does without");
        return false;
    }
    return true;
}

bool rows_report(Graph *graph, const LossRows *asked, Diags *diags) {
    RowLoss loss = row_loss(graph, asked, diags);
    Span span = graph_producer(graph, graph->loss)->span;
    loss.over_labels = find_over_labels(&loss, graph->loss, 0);
    if (loss.over_labels >= 0) {
        const Node node = graph->nodes.at[loss.over_labels];
        answers(&loss, &node);
    }
    int rows = !loss.reported && loss.depends[graph->loss] ? rows_of(&loss, graph->loss, 0) : -1;
    if (rows < 0 && loss.reported) return false;
    if (rows < 0)
        return fail_rows(&loss, "rows cannot be told apart in this loss",
                         "an eval counts each row once, and leaves out those that only fill up a batch");
    TensorType type = graph->values.at[rows].type;
    int weight = weight_input(graph, &type, span);
    if (asked->metric[METRIC_PENALTY].line > 0) loss.penalty = loss_penalty(&loss, graph->loss, true, 0);
    int weighted = emit_binary(graph, OP_mul, rows, weight, "loss.rows", span);
    const int prediction = asked->prediction >= 0 ? asked->prediction : loss.output;
    graph->loss = graph_emit(graph, OP_sum, &weighted, 1, NULL, "loss.sum", span);
    report(graph, "rows", graph_emit(graph, OP_sum, &weight, 1, NULL, "rows", span), true);
    if (loss.kept >= 0) {
        const int labels = sum_weighted(graph, labels_of_rows(&loss, span), weight, "labels", span);
        report(graph, "labels", labels, true);
        if (loss.over_labels >= 0) report(graph, "loss_labels", labels, true);
    }
    if (!report_metrics(&loss, weight)) return false;
    if (prediction >= 0) report(graph, "prediction", prediction, false);
    return inputs_given(&loss, prediction);
}
