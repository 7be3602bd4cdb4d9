#include "compiler/budget.h"

#include <math.h>

#include "compiler/compiler.h"
#include "compiler/name.h"

/* ---------------------------------------------------------------- measures */

/* Parameters stored in parts; regather: dropped between their uses. */
static bool store_parameters(Build *b, Regather regather) {
    Settings *settings = &b->front.graph.settings;
    if (settings->optimizer == OPTIMIZER_NONE || b->front.graph.nranks == 1) return false;
    if (settings->shard_states == SHARD_PARAMETERS && settings->regather == regather) return false;
    if (settings->shard_states_given && settings->shard_states != SHARD_PARAMETERS) return false;
    if (settings->regather > regather || (settings->regather_given && settings->regather != regather)) return false;
    settings->shard_states = SHARD_PARAMETERS;
    settings->regather = regather;
    return true;
}
static bool keep_gathered(Build *b) {
    return store_parameters(b, REGATHER_NONE);
}
static bool regather_parameters(Build *b) {
    return store_parameters(b, REGATHER_PARAMETERS);
}

static bool regather_all(Build *b) {
    Settings *settings = &b->front.graph.settings;
    if (settings->regather_given || settings->regather == REGATHER_ALL || b->front.graph.nranks == 1) return false;
    settings->regather = REGATHER_ALL;
    return true;
}

/* Gradients of a step's batches are added up in parts. */
static bool shard_gradients(Build *b) {
    Settings *settings = &b->front.graph.settings;
    if (settings->shard_states_given || settings->shard_states != SHARD_OPTIMIZER || settings->accumulate < 2) return false;
    settings->shard_states = SHARD_GRADIENTS;
    return true;
}

static void regather_less(Build *b, double share) {
    b->front.graph.settings.regather_share = share;
}

static const Measure table[] = {
    {"shard_states = gradients", shard_gradients, .faster = false},
    {"shard_states = parameters, regather = none", keep_gathered, .faster = true},
    {"shard_states = parameters, regather = parameters", regather_parameters, .less = regather_less},
    {"regather = all", regather_all, .faster = false},
    {"recompute", .choose = recompute_choose},
};
enum { NMEASURES = sizeof table / sizeof *table };
#define ABOUT 1.005 /* predictions that differ by less are taken to be equal */

bool measures_apply(Build *b, const Measures *measures, Error *error) {
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        const Taken *taken = &measures->taken[k];
        if (taken->marks != NULL) {
            for (int n = 0; n < b->front.graph.nodes.n; n++) {
                Node *node = &b->front.graph.nodes.at[n];
                node->recompute = taken->marks[node->micro > 0 ? node->origin : n]; /* in all batches of a step alike */
            }
            continue;
        }
        if (!table[taken->measure].apply(b)) return error_set(error, EXIT_REJECTED, "%s changes nothing here", table[taken->measure].name);
        if (taken->share > 0) table[taken->measure].less(b, taken->share);
    }
    return true;
}

const char *measure_name(int measure) {
    return table[measure].name;
}

void measure_print(Text *text, Arena *arena, int64_t saved_bytes, double seconds) {
    text_printf(text, ": %s %s on a rank, %.4g ms %s a step", bytes_named(arena, saved_bytes < 0 ? -saved_bytes : saved_bytes),
                saved_bytes < 0 ? "more" : "less", 1e3 * fabs(seconds), seconds < 0 ? "less" : "more");
}

void measures_print(Text *text, const Build *b, const char *before, const char *behind) {
    const Measures *measures = b->front.measures;
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        const Taken *taken = &measures->taken[k];
        text_printf(text, "%s%s", before, table[taken->measure].name);
        if (taken->what != NULL) text_printf(text, " of %s", taken->what);
        if (taken->share > 0) text_printf(text, " (%.3g %%)", 100 * taken->share);
        measure_print(text, b->arena, taken->saved_bytes, taken->seconds);
        text_printf(text, "%s", behind);
    }
}

/* ---------------------------------------------------------------- which of them */

int64_t budget_limit(const Build *b) {
    const int64_t asked = b->front.graph.settings.memory_bytes;
    return asked > 0 ? asked : b->options->machine != NULL ? b->options->machine->memory_bytes : 0;
}

/* Whether a measure, tried behind those taken, changes anything. */
static bool try_measure(const Build *b, const Strategy *const *strategy, const Measures *taken, int measure, int64_t limit, Measures *with,
                        BuildCost *cost) {
    Error ignored = {0};
    *with = *taken;
    if (with->n == MAX_MEASURES) return false;
    Taken *last = &with->taken[with->n++];
    *last = (Taken){.measure = measure};
    if (table[measure].choose != NULL && !table[measure].choose(b, strategy, taken, limit, last)) return false;
    return build_try(b, strategy, with, cost, &ignored);
}

/* Bytes saved a second, infinite where it costs none. */
static double worth(const BuildCost *before, const BuildCost *after) {
    const double saved = (double)(memory_bytes(before) - memory_bytes(after)), seconds = after->step_s - before->step_s;
    return saved <= 0 ? -INFINITY : seconds <= 0 ? INFINITY : saved / seconds;
}

/* Of two tries behind one another: the one that fits, of those the faster; of others the one that saves most for its time. */
static bool is_better(const BuildCost *before, const BuildCost *a, const BuildCost *b, int64_t limit) {
    const bool fits_a = memory_bytes(a) <= limit, fits_b = memory_bytes(b) <= limit;
    if (fits_a != fits_b) return fits_a;
    if (fits_a) return a->step_s < b->step_s;
    const double x = worth(before, a), y = worth(before, b);
    return x != y ? x > y : memory_bytes(a) < memory_bytes(b);
}

static void take(Measures *measures, const Measures *with, BuildCost *cost, const BuildCost *then) {
    *measures = *with;
    measures->taken[measures->n - 1].saved_bytes = memory_bytes(cost) - memory_bytes(then);
    measures->taken[measures->n - 1].seconds = then->step_s - cost->step_s;
    *cost = *then;
}

/* What takes less time and, where it matters, about no more memory. */
static void take_faster(const Build *b, const Strategy *const *strategy, Measures *measures, BuildCost *cost, int64_t limit) {
    for (int m = 0; m < NMEASURES && cost->step_s > ABOUT * cost->kernel_s; m++) {
        Measures with;
        BuildCost then;
        if (!table[m].faster || !try_measure(b, strategy, measures, m, limit, &with, &then) || then.step_s * ABOUT > cost->step_s) continue;
        const double most = limit > 0 ? (double)limit : 1.1 * (double)memory_bytes(cost);
        if ((double)memory_bytes(&then) <= most) take(measures, &with, cost, &then);
    }
}

bool budget_fit(const Build *b, const Strategy *const *strategy, bool faster, Measures *measures, BuildCost *cost, Error *error) {
    const int64_t limit = budget_limit(b);
    *measures = (Measures){0};
    if (!build_try(b, strategy, NULL, cost, error)) return false;
    if (faster && b->options->machine != NULL && b->options->machine->overlap > 0) take_faster(b, strategy, measures, cost, limit);
    while (limit > 0 && memory_bytes(cost) > limit) {
        Measures best = {0};
        BuildCost least = {0};
        for (int m = 0; m < NMEASURES; m++) {
            Measures with;
            BuildCost then;
            if (!try_measure(b, strategy, measures, m, limit, &with, &then) || memory_bytes(&then) >= memory_bytes(cost)) continue;
            if (best.n > 0 && !is_better(cost, &then, &least, limit)) continue;
            best = with;
            least = then;
        }
        if (best.n == 0) break;
        take(measures, &best, cost, &least);
    }
    return true;
}

void budget_trim(const Build *b, const Strategy *const *strategy, Measures *measures, BuildCost *cost) {
    enum { PARTS = 64 };
    const int64_t limit = budget_limit(b);
    Taken *last = &measures->taken[measures->n - 1];
    if (measures->n == 0 || table[last->measure].less == NULL || memory_bytes(cost) > limit) return;
    int enough = PARTS, few = 0;
    while (enough - few > 1) {
        const int middle = (enough + few) / 2;
        Measures with = *measures;
        BuildCost then;
        Error ignored = {0};
        with.taken[with.n - 1].share = (double)middle / PARTS;
        const bool fits = build_try(b, strategy, &with, &then, &ignored) && memory_bytes(&then) <= limit;
        *(fits ? &enough : &few) = middle;
        if (!fits || then.step_s > cost->step_s) continue;
        with.taken[with.n - 1].saved_bytes -= memory_bytes(&then) - memory_bytes(cost);
        with.taken[with.n - 1].seconds += then.step_s - cost->step_s;
        *measures = with;
        *cost = then;
    }
}
