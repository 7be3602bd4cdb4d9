/* metric: see metric.h. */
#include "ir/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const reported_name[1 + NMETRICS] = {"loss",         "accuracy", "top5", "precision", "recall", "f1",         "precision_macro",
                                                 "recall_macro", "f1_macro", "auc",  "mae",       "rmse",   "perplexity", "penalty"};
const char *const *const metric_name = reported_name + 1;

Metric metric_of(const char *name) {
    int metric = 0;
    while (metric < NMETRICS && strcmp(metric_name[metric], name) != 0)
        metric++;
    return (Metric)metric;
}

bool metric_rises(const char *reported) {
    const Metric metric = metric_of(reported);
    return metric <= METRIC_AUC;
}

bool metric_counts(Metric metric) {
    return metric >= METRIC_PRECISION && metric <= METRIC_F1_MACRO;
}

bool metric_scores(Metric metric) {
    return metric == METRIC_AUC;
}

int metric_ndim(Metric metric) {
    return metric_scores(metric) ? 2 : metric_counts(metric) ? 1 : 0;
}

static int lower_first(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool numbers(const double *score, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(score[i])) return false;
    return true;
}

double metric_area(double *of_1, int64_t n1, double *of_0, int64_t n0) {
    if (n1 == 0 || n0 == 0 || !numbers(of_1, n1) || !numbers(of_0, n0)) return NAN;
    qsort(of_1, (size_t)n1, sizeof *of_1, lower_first);
    qsort(of_0, (size_t)n0, sizeof *of_0, lower_first);
    int64_t less = 0, up_to = 0;
    double halves = 0; /* integers below 2^53 for 2^52 pairs */
    for (int64_t i = 0; i < n1; i++) {
        while (less < n0 && of_0[less] < of_1[i])
            less++;
        while (up_to < n0 && of_0[up_to] <= of_1[i])
            up_to++;
        halves += (double)less + (double)up_to;
    }
    return halves / 2 / ((double)n1 * (double)n0);
}

static double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* Precision, recall or F1 of one class. */
static double of_counts(Metric metric, double hits, double found, double there) {
    if (metric == METRIC_PRECISION || metric == METRIC_PRECISION_MACRO) return share(hits, found);
    if (metric == METRIC_RECALL || metric == METRIC_RECALL_MACRO) return share(hits, there);
    return share(2 * hits, found + there);
}

double metric_value(Metric metric, const double *sums, int64_t n, double rows) {
    if (metric == METRIC_RMSE) return sqrt(sums[0] / rows);
    if (metric == METRIC_PERPLEXITY) return exp(sums[0] / rows);
    if (!metric_counts(metric)) return sums[0] / rows;
    const int64_t classes = n / 3;
    if (metric <= METRIC_F1) return of_counts(metric, sums[1], sums[classes + 1], sums[2 * classes + 1]);
    double sum = 0, occur = 0; /* as scikit-learn: over the classes that occur as labels or predictions */
    for (int64_t c = 0; c < classes; c++) {
        sum += of_counts(metric, sums[c], sums[classes + c], sums[2 * classes + c]);
        occur += sums[classes + c] + sums[2 * classes + c] > 0;
    }
    return share(sum, occur);
}
