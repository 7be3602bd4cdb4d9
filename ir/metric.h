/* metric: what an eval says of the rows besides their loss. The program reports sums over rows under the metric's name; the figure is made of them at the end, so that it
 * is that of all rows however they came in batches and on ranks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    METRIC_ACCURACY,        /* share of rows whose class has the largest score */
    METRIC_TOP5,            /* share of rows whose class is among the five largest */
    METRIC_PRECISION,       /* of the rows answered with class 1 the share that is of it; with RECALL and F1 as scikit-learn counts them */
    METRIC_RECALL,          /* of the rows of class 1 the share that is answered so */
    METRIC_F1,              /* their harmonic mean */
    METRIC_PRECISION_MACRO, /* the mean over all classes of each one's */
    METRIC_RECALL_MACRO,
    METRIC_F1_MACRO,
    METRIC_AUC,        /* area under the ROC curve of two classes, as scikit-learn's roc_auc_score */
    METRIC_MAE,        /* mean |prediction - target| */
    METRIC_RMSE,       /* root of the mean square of the same */
    METRIC_PERPLEXITY, /* exp of the loss */
    METRIC_PENALTY,    /* what the loss has of terms that no data goes into: as much in each row */
    NMETRICS
} Metric;
extern const char *const reported_name[1 + NMETRICS]; /* "loss", and the metrics' names */
extern const char *const *const metric_name;          /* of its report, and as it is printed: "f1_macro" */
Metric metric_of(const char *name);                   /* NMETRICS: it is none */
bool metric_rises(const char *reported);              /* more of it is better; of a loss and a distance less is */
/* Whether its report is [3 * classes]: of each class the rows of it that are answered with it, those answered with it, those of it. Others are one sum. */
bool metric_counts(Metric metric);
/* Whether its report is [rows, 3]: of each row a score, whether it is of class 1, whether it is there. */
bool metric_scores(Metric metric);
int metric_ndim(Metric metric); /* dimensions of its report */
/* Of the rows' scores, those of either class, which it sorts: the share of the pairs of a row of each class in which that of class 1 has more, equal ones counted half. nan: a class has no row, or a
 * score is no number. */
double metric_area(double *of_1, int64_t n1, double *of_0, int64_t n0);
/* n sums over so many rows, of the others. A share of nothing is 0. */
double metric_value(Metric metric, const double *sums, int64_t n, double rows);
