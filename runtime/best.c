/* best: see best.h. */
#include "runtime/best.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/log.h"
#include "runtime/print.h"
#include "runtime/training.h"

static double figure_of(const char *metric, const EvalResult *result) {
    const Metric of = metric_of(metric);
    return of == NMETRICS ? result->loss : result->metric[of];
}

/* Takes up the evaluation after global step `step`. *better: it is the best so far; a figure that is nan never is. */
static void see(const Watch *watch, const EvalResult *result, int64_t step, Watched *watched, bool *better) {
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

/* "early stop after epoch 5 step 110: the best f1 is 0.91, after step 220, and 3 evaluations were no better since" */
static void put_stop(Text *text, const Position *at) {
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

/* "best: f1 is 0.91 after step 220, restored from net.plan.checkpoints/step-000000220.safetensors" */
static void put_restored(Text *text, const Watched *best, const char *path) {
    char digits[NUMBER_MAX];
    number_print(digits, best->value);
    text_printf(text, "best: %s is %s after step %" PRId64 ", restored from %s\n", best->metric, digits, best->step, path);
}

bool best_compare(Run *run, const EvalResult *result, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    const Watch *watch = settings->watch;
    Position *at = &run->position;
    Watched watched[NWATCHES]; /* stored only after a checkpoint of this step: the run that goes on from it evaluates again */
    bool better[NWATCHES] = {false};
    memcpy(watched, at->watched, sizeof watched);
    for (int kind = 0; kind < NWATCHES; kind++)
        if (watch[kind].metric) see(&watch[kind], result, at->global_step, &watched[kind], &better[kind]);
    if (better[WATCH_BEST] && run->training->saved_step != at->global_step && !training_checkpoint(run, error)) return false;
    memcpy(at->watched, watched, sizeof watched);
    const Watched *stop = &watched[WATCH_STOP];
    run->training->enough = watch[WATCH_STOP].metric && stop->waited >= watch[WATCH_STOP].patience;
    if (!run->training->enough || run->comm->process != 0) return true;
    Text text = {0};
    put_stop(&text, at);
    log_say(run, &text);
    return true;
}

bool best_find(Run *run, Error *error) {
    Watched *best = &run->position.watched[WATCH_BEST];
    const char *path = checkpoint_path(&run->arena, run->training->checkpoints, best->step);
    int64_t there = best->step == 0 || run->comm->process != 0 || access(path, R_OK) == 0;
    if (!run->comm->table->broadcast(run->comm, &there, sizeof there, error)) return run->agreed = false;
    if (there) return true;
    if (run->comm->process == 0) fprintf(stderr, "prun: note: %s: the best checkpoint so far is not there: it counts no more\n", path);
    *best = (Watched){0};
    return true;
}

bool best_restore(Run *run, Error *error) {
    const Watched *best = &run->position.watched[WATCH_BEST];
    const Watch *watch = &run->plan.graph.settings.watch[WATCH_BEST];
    if (!run->plan.graph.settings.restore_best || run->position.global_step == 0) return true;
    if (best->step == 0) {
        error_set(error, EXIT_MISMATCH, "restore best: there is none: no evaluation has a number as its %s, or the checkpoint is gone",
                  watch->metric);
        return comm_first_says(run->comm, error);
    }
    const char *path = checkpoint_path(&run->arena, run->training->checkpoints, best->step);
    Position then;
    DataOrder order;
    if (best->step != run->position.global_step &&
        !checkpoint_resume(run->executor, run->comm, &run->plan, run->training->checkpoints, &run->arena, &path, &then, &order, error))
        return false;
    if (run->comm->process != 0) return true;
    Text text = {0};
    put_restored(&text, best, path);
    log_say(run, &text);
    return true;
}
