/* micro: train's micro_batches divides batches into parts. The net is lowered for a part: the number of its head that is the rows of a batch is divided by the number of parts, and
 * a step accumulates so many times more batches. The compiler's pass `rows` checks that the loss is a mean over independent rows, so that a step computes the same. */
#include <string.h>

#include "frontend/lower.h"

enum { MOST = 256 }; /* batches of a step */

static Span span_of_setting(const Lower *lower) {
    return lower->graph->settings.micro_span;
}

static bool eval_parts(Lower *lower, const Expr *value) {
    lower->graph->settings.micro_span = lower_span(lower, value->loc);
    if (integer_eval(lower, value, "micro_batches", 1, MOST, &lower->micro)) return true;
    diag_hint(lower->diags, "it divides a number of the net's head, and is read before these: a number, or a let at the top of the file");
    return false;
}

bool micro_find(Lower *lower, const Block *train) {
    Settings *settings = &lower->graph->settings;
    const Expr *value = NULL;
    for (const Entry *entry = train->entries; entry && !value; entry = entry->next)
        if (strcmp(entry->name, "micro_batches") == 0) value = entry->value;
    if (value ? !eval_parts(lower, value) : !found_setting(lower, "micro_batches", eval_parts, &settings->micro_found)) return false;
    if (lower->overrides->micro_batches > 0) lower->micro = lower->overrides->micro_batches;
    settings->micro_batches = lower->micro;
    if (lower->micro == 1 || lower->batch) return true;
    diag_error(lower->diags, span_of_setting(lower),
               "there is no batch to divide: the first size of the first input is no number of the net's head");
    diag_hint(lower->diags, "net NAME(batch = 16) { input x : f32[batch, 32]; ... }");
    return false;
}

bool eval_micro_batches(Lower *lower, const Expr *value) {
    (void)lower, (void)value; /* micro_find has read it */
    return true;
}

/* Hints at numbers of parts near the given one that divide the batch, and at a batch near this one that it divides. */
static void hint_parts(Lower *lower, const char *name, int64_t batch) {
    const int64_t parts = lower->micro;
    int64_t fewer = parts - 1, more = parts + 1, rows;
    while (fewer > 1 && batch % fewer != 0)
        fewer--;
    while (more <= MOST && batch % more != 0)
        more++;
    const char *these = fewer > 1 && more <= MOST ? arena_printf(lower->arena, "%lld; or %lld;", (long long)fewer, (long long)more)
                        : fewer > 1               ? arena_printf(lower->arena, "%lld;", (long long)fewer)
                        : more <= MOST            ? arena_printf(lower->arena, "%lld;", (long long)more)
                                                  : NULL;
    const bool fits = mul_checked(batch / parts + 1, parts, &rows);
    if (these && fits)
        diag_hint(lower->diags, "micro_batches = %s or a %s of %lld", these, name, (long long)rows);
    else if (these)
        diag_hint(lower->diags, "micro_batches = %s", these);
    else if (fits)
        diag_hint(lower->diags, "leave out micro_batches, or a %s of %lld", name, (long long)rows);
}

bool micro_divide(Lower *lower, const Entry *entry, Number *number) {
    if (lower->micro == 1 || lower->eval) return true;
    if (number->real || number->i % lower->micro != 0) {
        diag_error(lower->diags, span_of_setting(lower), "a %s of %s is not %lld equal parts", entry->name,
                   number_text(lower->arena, *number), (long long)lower->micro);
        diag_note(lower->diags, lower_span(lower, entry->name_loc), "the net's number is here");
        if (!number->real && number->i > 0) hint_parts(lower, entry->name, number->i);
        return false;
    }
    number->i /= lower->micro;
    number->f = (double)number->i;
    return true;
}

static bool fail(Lower *lower, const char *what, const char *hint) {
    diag_error(lower->diags, span_of_setting(lower), "%s", what);
    diag_hint(lower->diags, "%s", hint);
    return false;
}

bool micro_complete(Lower *lower) {
    Settings *settings = &lower->graph->settings;
    if (lower->micro == 1) return true;
    if (settings->data == DATA_NUMPY_RAND || settings->data == DATA_PER_RANK)
        return fail(lower, "data that is drawn for a whole batch is not taken in parts", "data = normal(seed = 1); or files of rows");
    if (settings->last != LAST_DROP) return fail(lower, "a batch that is filled up is not taken in parts", "last = drop;");
    settings->accumulate = settings_batches(settings) * lower->micro;
    return settings->accumulate <= MOST || fail(lower, "accumulate times micro_batches is more than 256", "a step has at most 256 batches");
}
