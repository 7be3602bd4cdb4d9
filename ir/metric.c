/* metric: see metric.h. */
#include "ir/metric.h"

#include <math.h>
#include <string.h>

const char *const reported_name[1 + NMETRICS] = {"loss",         "accuracy", "top5", "precision", "recall",    "f1", "precision_macro",
                                                 "recall_macro", "f1_macro", "mae",  "rmse",      "perplexity"};
const char *const *const metric_name = reported_name + 1;

Metric metric_of(const char *name) {
    int metric = 0;
    while (metric < NMETRICS && strcmp(metric_name[metric], name) != 0)
        metric++;
    return (Metric)metric;
}

bool metric_rises(const char *reported) {
    const Metric metric = metric_of(reported);
    return metric <= METRIC_F1_MACRO;
}

bool metric_counts(Metric metric) {
    return metric >= METRIC_PRECISION && metric <= METRIC_F1_MACRO;
}

static double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* Of one class. */
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
    double sum = 0;
    for (int64_t c = 0; c < classes; c++)
        sum += of_counts(metric, sums[c], sums[classes + c], sums[2 * classes + c]);
    return sum / (double)classes;
}
