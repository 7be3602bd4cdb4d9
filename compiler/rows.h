/* rows: losses row by row, for batches whose last rows may only fill them up. It is the first rewrite of the graph that the user wrote.
 *
 *   rows.c         the pass
 *   batch_rows.c   where the rows of a batch are in each value
 *   row_loss.c     the terms of a loss, and those that no data goes into
 *   row_parts.c    training: batches in parts
 *   row_weights.c  training: the mean over the rows that are there
 *   row_reports.c  evaluation: sums over the rows that are there, and the answers
 */
#pragma once
#include "frontend/frontend.h"

/* Does what the blocks ask for (LossRows). False after a diagnostic. */
bool loss_rows_apply(Graph *graph, const LossRows *asked, Diags *diags);

/* ---------------------------------------------------------------- batch_rows.c */

/* Where the rows of a batch are in a value: along dimension `at`, one index for each row; -1: they are not there. mixed: the contents of a
 * row depend on other rows too. */
typedef struct BatchRows {
    int at;
    bool mixed;
} BatchRows;
/* Of every value of a forward graph whose inputs have `batch` rows; in the arena. */
BatchRows *batch_rows_trace(const Graph *graph, Arena *arena, int64_t batch);

/* ---------------------------------------------------------------- row_loss.c */

/* A loss as its terms. */
typedef struct RowLoss {
    Graph *graph;
    Diags *diags;
    const LossRows *asked;
    const bool *depends; /* per value: an input of data goes into it */
    const BatchRows *traced;
    bool reported;     /* a diagnostic has already said what is wrong */
    int weight, there; /* training: the weights; 1 for rows that are there, else 0, if that differs from the weights; -1: not made yet */
    int nmeans;        /* terms that are divided by the rows of a batch */
    int penalty;       /* evaluation: loss_penalty of a row, where that is asked for; else -1 */
    int output,
        label, /* evaluation: the first operand of the first loss met: what the net answers; of a cross_entropy the classes that are right. -1: none */
        target,      /* of an mse what the answer should be, else -1 */
        binary,      /* of a bce_with_logits its targets, else -1 */
        kept;        /* of a cross_entropy with ignore_index 1 for each label that counts, 0 for the others; else -1 */
    int over_labels; /* evaluation: the node that is the loss's mean over those labels; -1: it is one over rows */
} RowLoss;
RowLoss row_loss(Graph *graph, const LossRows *asked, Diags *diags);

typedef enum {
    TERM_WHOLE,  /* no data goes into it */
    TERM_ROWS,   /* a mean or a sum of rows' losses */
    TERM_LINEAR, /* made of terms, added or multiplied by numbers */
    TERM_OTHER,
} TermKind;
TermKind term_kind(RowLoss *loss, int value, int depth);
bool term_sums(const Node *node); /* of TERM_ROWS: a sum, else a mean */
int scale_power(const RowLoss *loss,
                const Node *node); /* the power of a batch's rows by which a product or a quotient multiplies the term in it */
/* A term that is multiplied or divided by a number, for a row alone, whose batch is 1. row: the row's term, multiplied or divided by that
 * number. */
int scale_to_row(const RowLoss *loss, const Node *node, int row);
bool counts_labels(
    const Node *node); /* of TERM_ROWS: a mean over the labels that are not ignored: how many those are depends on the other rows */
/* Of a cross_entropy with ignore_index: 1 for each label that counts, else 0, of the loss's type. *label: its labels, class 0 for those that do not count; or NULL. */
int labels_kept(Graph *graph, const Node *node, int *label);
bool is_each(const Node *node); /* a loss before its reduction: of rows, for a mean or a sum of its own */
int losses_each(Graph *graph, const Node *loss, const char *name); /* a cross_entropy or bce_with_logits before its reduction */
/* The terms of a loss that no data goes into (TERM_WHOLE), with their factors: `0.1 * sum(square(w))`. as_row: for a row alone, whose batch
 * is 1. -1: it has none. depth: 0. */
int loss_penalty(RowLoss *loss, int value, bool as_row, int depth);
bool penalty_is_there(const RowLoss *loss, int penalty); /* else a diagnostic */
int weights_for(Graph *graph, int weight, const TensorType *type,
                Span span); /* weights as a value that multiplies rows of another: the batch, and ones */
int weight_input(Graph *graph, const TensorType *type, Span span);      /* the input of weights, one a row */
bool fail_rows(const RowLoss *loss, const char *what, const char *why); /* false */

static inline int emit_binary(Graph *graph, OpCode op, int a, int b, const char *name, Span span) {
    return graph_emit(graph, op, (const int[]){a, b}, 2, NULL, name, span);
}

/* ---------------------------------------------------------------- row_parts.c, row_weights.c, row_reports.c */

/* Whether a step that takes each batch in parts (micro_batches) computes the same as with whole ones. whole: the net for whole ones. False
 * after a diagnostic. */
bool rows_part(Graph *graph, const Graph *whole, const LossRows *asked, Diags *diags);

/* Makes the loss count only rows that are there. False after a diagnostic: its rows cannot be told apart. */
bool rows_weigh(Graph *graph, const LossRows *asked, Diags *diags);
/* Makes the loss the sum of its rows' losses, and adds the reports of an eval. False after a diagnostic. */
bool rows_report(Graph *graph, const LossRows *asked, Diags *diags);
