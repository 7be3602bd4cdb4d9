/* metric: what an eval measures besides the loss. The program reports sums over rows under the metric's name; the metric is computed from the total at the end, so that
 * it does not depend on batches and ranks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    METRIC_ACCURACY,        /* share of rows whose class has the largest score */
    METRIC_TOP5,            /* share of rows whose class is among the five largest */
    METRIC_PRECISION,       /* share of the rows predicted as class 1 that are of it; this, RECALL and F1 as in scikit-learn */
    METRIC_RECALL,          /* share of the rows of class 1 that are predicted so */
    METRIC_F1,              /* their harmonic mean */
    METRIC_PRECISION_MACRO, /* the mean over all classes */
    METRIC_RECALL_MACRO,
    METRIC_F1_MACRO,
    METRIC_AUC,        /* area under the ROC curve of two classes, as scikit-learn's roc_auc_score */
    METRIC_MAE,        /* mean |prediction - target| */
    METRIC_RMSE,       /* root of the mean square of the same */
    METRIC_PERPLEXITY, /* exp of the loss */
    METRIC_PENALTY,    /* the terms of the loss that depend on no data: the same for each row */
    NMETRICS
} Metric;
extern const char *const reported_name[1 + NMETRICS]; /* "loss", and the metrics' names */
extern const char *const *const metric_name;          /* name of its report, as printed: "f1_macro" */
Metric metric_of(const char *name);                   /* NMETRICS: it is none */
bool metric_rises(const char *reported);              /* more is better; for a loss or a distance, less is */
/* Whether its report is [3 * classes]: for each class its true positives, the rows predicted as it, the rows labelled as it. Others are one sum. */
bool metric_counts(Metric metric);
/* Whether its report is [rows, 3]: for each row a score, whether it is of class 1, whether it is a real row. */
bool metric_scores(Metric metric);
int metric_ndim(Metric metric); /* dimensions of its report */
/* The area under the ROC curve: among pairs of a row of each class, the share in which that of class 1 has the higher score; ties count half. Sorts the scores. nan: a class
 * has no row, or a score is nan. */
double metric_area(double *of_1, int64_t n1, double *of_0, int64_t n0);
/* The value of any other metric, from n sums over so many rows. 0 / 0 counts as 0. */
double metric_value(Metric metric, const double *sums, int64_t n, double rows);
