/* best: what evaluations during training decide: which checkpoint is the best, and when training ends early. */
#include <string.h>

#include "frontend/lower.h"
#include "ir/metric.h"

static bool is_name(const Expr *expr, const char *text) {
    return expr && expr->kind == EXPR_NAME && strcmp(expr->text, text) == 0;
}

/* f1, f1_macro or f1(macro). */
static bool say_metric(Lower *lower, const Expr *said, Watch *watch) {
    Expr word = *said;
    const Expr *name = &word;
    if (said->kind == EXPR_CALL && is_name(said->items, "macro")) {
        word.kind = EXPR_NAME;
        word.text = arena_printf(lower->arena, "%s_macro", said->text);
    }
    const int metric = choice(lower, "metric", name, reported_name, 1 + NMETRICS);
    if (metric < 0) return false;
    watch->metric = reported_name[metric];
    watch->span = lower_span(lower, name->loc);
    return true;
}

/* Reads words with their values, keep 3 best f1; the word at index `alone` (n: none) has no value after it. */
static bool clauses(Lower *lower, const Expr *words, const char *const *names, bool (*const *say)(Lower *, const Expr *), int n, int alone,
                    const char *hint) {
    bool given[3] = {false};
    const Expr *next;
    for (const Expr *word = words; word; word = next) {
        int which = 0;
        while (which < n && !is_name(word, names[which]))
            which++;
        if (which == n || (!word->next && which != alone) || given[which]) {
            const char *what = which == n     ? "is not part of this setting"
                               : given[which] ? "stands here twice"
                                              : "says nothing without a value";
            diag_error(lower->diags, lower_span(lower, word->loc), "%s %s", word->kind == EXPR_NAME ? word->text : "this", what);
            diag_hint(lower->diags, "%s", hint);
            return false;
        }
        given[which] = true;
        next = which == alone ? word->next : word->next->next;
        if (!say[which](lower, which == alone ? word : word->next)) return false;
    }
    return true;
}

static bool say_keep(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "keep", 1, INT32_MAX, &lower->graph->settings.keep);
}
static bool say_best(Lower *lower, const Expr *value) {
    return say_metric(lower, value, &lower->graph->settings.watch[WATCH_BEST]);
}
static bool say_patience(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "patience", 1, INT32_MAX, &lower->graph->settings.watch[WATCH_STOP].patience);
}
static bool say_delta(Lower *lower, const Expr *value) {
    return real_eval(lower, value, "delta", 0, 1e300, &lower->graph->settings.watch[WATCH_STOP].delta);
}

static bool say_per_rank(Lower *lower, const Expr *value) {
    (void)value;
    return lower->graph->settings.checkpoint_per_rank = true;
}

bool checkpoint_clauses(Lower *lower, const Expr *words) {
    static const char *const names[] = {"keep", "best", "per_rank"};
    static bool (*const say[])(Lower *, const Expr *) = {say_keep, say_best, say_per_rank};
    return clauses(lower, words, names, say, 3, 2, "checkpoint every epoch keep 3 best f1; and per_rank: a file for each rank");
}

bool eval_early_stop(Lower *lower, const Expr *value) {
    static const char *const names[] = {"patience", "delta"};
    static bool (*const say[])(Lower *, const Expr *) = {say_patience, say_delta};
    static const char hint[] = "early_stop f1 patience 3; or early_stop loss patience 3 delta 0.01;";
    Watch *watch = &lower->graph->settings.watch[WATCH_STOP];
    if (value->kind != EXPR_CALL || !value->items) {
        diag_error(lower->diags, lower_span(lower, value->loc), "this does not say after how many evaluations training ends");
        diag_hint(lower->diags, "%s", hint);
        return false;
    }
    const Expr *first = value->items; /* early_stop f1(macro) patience 3: words, and in parentheses the first of them */
    const bool macro = first->kind == EXPR_TUPLE && first->nitems == 1 && is_name(first->items, "macro");
    Expr name = *value;
    name.kind = macro ? EXPR_CALL : EXPR_NAME;
    if (macro) name.items = first->items;
    name.loc.end = name.loc.begin + (int)strlen(value->text);
    if (!say_metric(lower, &name, watch) || !clauses(lower, macro ? value->items->next : value->items, names, say, 2, 2, hint))
        return false;
    if (watch->patience > 0) return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "this does not say after how many evaluations training ends");
    diag_hint(lower->diags, "%s", hint);
    return false;
}

bool eval_restore(Lower *lower, const Expr *value) {
    if (is_name(value, "best")) return lower->graph->settings.restore_best = true;
    diag_error(lower->diags, lower_span(lower, value->loc), "restore takes the best checkpoint: restore best;");
    return false;
}

static bool metric_is(const Expr *item, const char *metric) {
    const bool macro = item->kind == EXPR_CALL && item->nitems == 1;
    const size_t n = strlen(item->text);
    return strncmp(item->text, metric, n) == 0 && strcmp(metric + n, macro ? "_macro" : "") == 0;
}

/* Whether the eval block has the metric. The loss is always there where training is interrupted for an eval. */
static bool eval_has(const Block *eval, const char *metric) {
    bool has = strcmp(metric, "loss") == 0;
    for (const Entry *entry = eval->entries; entry && !has; entry = entry->next) {
        if (strcmp(entry->name, "metrics") != 0) continue;
        const bool list = entry->value->kind == EXPR_LIST || entry->value->kind == EXPR_TUPLE;
        for (const Expr *item = list ? entry->value->items : entry->value; item && !has; item = list ? item->next : NULL)
            has = item->text && metric_is(item, metric);
    }
    return has;
}

static bool watch_complete(Lower *lower, WatchKind kind, const Block *eval) {
    const Watch *watch = &lower->graph->settings.watch[kind];
    const EvalWhen when = lower->graph->settings.eval;
    if (!watch->metric) return true;
    const bool often = eval && (when == EVAL_EPOCH || when == EVAL_STEPS);
    if (often && eval_has(eval, watch->metric)) return true;
    if (often) {
        diag_error(lower->diags, watch->span, "the eval block has no metric %s", watch->metric);
        diag_hint(lower->diags, "metrics = loss, %s; in the eval block", watch->metric);
    } else {
        diag_error(lower->diags, watch->span, "%s is compared among evaluations, and there is %s while training", watch->metric,
                   eval ? "no eval" : "no eval block: nothing is evaluated");
        diag_hint(lower->diags, "eval { every = epoch; metrics = loss, accuracy; data = ..; }");
    }
    return false;
}

bool watches_complete(Lower *lower, const Block *eval) {
    bool ok = true;
    for (int kind = 0; kind < NWATCHES; kind++)
        ok &= watch_complete(lower, (WatchKind)kind, eval);
    return ok;
}
