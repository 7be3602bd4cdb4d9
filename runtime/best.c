/* best: see best.h. */
#include "runtime/best.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/print.h"

static double figure_of(const char *metric, const EvalResult *result) {
    const Metric of = metric_of(metric);
    return of == NMETRICS ? result->loss : result->metric[of];
}

void best_see(const Watch *watch, const EvalResult *result, int64_t step, Watched *watched, bool *better) {
    const double figure = figure_of(watch->metric, result);
    const double gain = metric_rises(watch->metric) ? figure - watched->value : watched->value - figure;
    *better = watched->step == 0 ? !isnan(figure) : gain > watch->delta;
    watched->metric = watch->metric;
    watched->waited = *better ? 0 : watched->waited + 1;
    if (!*better) return;
    watched->value = figure;
    watched->step = step;
}

void best_forget_others(const Settings *settings, Watched watched[NWATCHES]) {
    for (int kind = 0; kind < NWATCHES; kind++) {
        const char *now = settings->watch[kind].metric, *then = watched[kind].metric;
        if (!now || !then || strcmp(now, then) != 0) watched[kind] = (Watched){0};
    }
}

bool best_check(const Settings *settings, const Evaluation *evaluation, Error *error) {
    for (int kind = 0; kind < NWATCHES; kind++) {
        const char *metric = settings->watch[kind].metric;
        if (metric && !evaluation_has(evaluation, metric))
            return error_set(error, EXIT_REJECTED, "evaluations are compared by %s, and the program eval does not report it", metric);
    }
    return true;
}

void best_put_stop(Text *text, const Position *at) {
    const Watched *stop = &at->watched[WATCH_STOP];
    text_printf(text, "early stop after epoch %" PRId64 " step %" PRId64 ": ", at->epoch, at->step);
    if (stop->step > 0) {
        char digits[NUMBER_MAX];
        number_print(digits, stop->value);
        text_printf(text, "the best %s is %s, after step %" PRId64 ", ", stop->metric, digits, stop->step);
    } else
        text_printf(text, "no evaluation has a number as its %s, ", stop->metric);
    text_printf(text, "and %" PRId64 " evaluation%s no better since\n", stop->waited, stop->waited == 1 ? " was" : "s were");
}

void best_put_restored(Text *text, const Watched *best, const char *path) {
    char digits[NUMBER_MAX];
    number_print(digits, best->value);
    text_printf(text, "best: %s is %s after step %" PRId64 ", restored from %s\n", best->metric, digits, best->step, path);
}
