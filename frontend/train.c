/* train: the settings of the train block, and how a block's settings and calls of built-ins are evaluated. */
#include "frontend/lower.h"

#include <assert.h>
#include <float.h>
#include <string.h>
#include <strings.h>

bool call_builtin(Lower *lower, const Expr *value, const char *what, const Builtin *builtins, int n, const char *hint) {
    Span span = lower_span(lower, value->loc);
    const char *names[16];
    assert(n <= (int)(sizeof names / sizeof *names));
    for (int i = 0; i < n; i++)
        names[i] = builtins[i].name;
    const char *name = value->kind == EXPR_CALL || value->kind == EXPR_STRING ? value->text : word_of(lower, value);
    if (!name) {
        diag_error(lower->diags, span, "this is no %s", what);
        diag_hint(lower->diags, "%s", hint);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (strcasecmp(names[i], name) != 0) continue;
        if (value->kind == EXPR_PATH || value->kind == EXPR_STRING || (value->kind == EXPR_CALL && value->method)) {
            diag_error(lower->diags, span, value->kind == EXPR_STRING ? "%s stands without quotes" : "%s stands without a module",
                       names[i]);
            diag_hint(lower->diags, "%s", value->kind == EXPR_CALL ? foreign_called(lower, names[i], value) : hint);
            return false;
        }
        if (builtins[i].eval) {
            Expr named = *value;
            named.text = names[i]; /* Adam means adam */
            return builtins[i].eval(lower, &named);
        }
        diag_error(lower->diags, span, "%s is not built yet", name);
        diag_hint(lower->diags, "%s", hint);
        return false;
    }
    const char *known = foreign_hint(lower->arena, what, name), *nearest = name_nearest(name, names, n);
    diag_error(lower->diags, span, "unknown %s '%s'", what, name);
    if (known)
        diag_hint(lower->diags, "%s", known);
    else if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(lower->diags, "%s", hint);
    return false;
}

/* ---------------------------------------------------------------- numbers */

static bool eval_epochs(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "epochs", 0, INT32_MAX, &lower->graph->settings.epochs);
}

static bool eval_steps(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "steps", 0, INT32_MAX, &lower->graph->settings.steps);
}

/* on_nan = stop; or go. */
static bool eval_on_nan(Lower *lower, const Expr *value) {
    int on_nan = choice(lower, "on_nan", value, on_nan_name, NON_NANS);
    if (on_nan >= 0) lower->graph->settings.on_nan = (OnNan)on_nan;
    return on_nan >= 0;
}

/* precision = bf16; */
static bool eval_precision(Lower *lower, const Expr *value) {
    static const char *const names[] = {"f32", "bf16", "f16"};
    static const DType types[] = {F32, BF16, F16};
    const int precision = choice(lower, "precision", value, names, 3);
    if (precision >= 0) lower->graph->settings.precision = types[precision];
    return precision >= 0;
}

/* compress = bf16; */
static bool eval_compress(Lower *lower, const Expr *value) {
    static const char *const names[] = {"f32", "bf16"};
    const int compress = choice(lower, "compress", value, names, 2);
    if (compress >= 0) lower->graph->settings.compress = compress == 0 ? F32 : BF16;
    return compress >= 0;
}

/* loss_scale = 1024; */
static bool eval_loss_scale(Lower *lower, const Expr *value) {
    return real_eval(lower, value, "loss_scale", 1, FLT_MAX, &lower->graph->settings.loss_scale);
}

static bool eval_log_every(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "log_every", 1, INT32_MAX, &lower->graph->settings.log_every);
}

/* log_from = 0; */
static bool eval_log_from(Lower *lower, const Expr *value) {
    int64_t first = 1;
    const bool ok = integer_eval(lower, value, "log_from", 0, 1, &first);
    lower->graph->settings.log_from_zero = first == 0;
    return ok;
}

static bool eval_seed(Lower *lower, const Expr *value) {
    int64_t seed = 0;
    bool ok = integer_eval(lower, value, "seed", 0, INT64_MAX, &seed);
    lower->graph->settings.seed = (uint64_t)seed;
    return ok;
}

/* Whether `steps` follows the number. */
static bool steps_unit(const Expr *what) {
    const Expr *unit = what->next;
    return unit && unit->kind == EXPR_NAME && (strcmp(unit->text, "steps") == 0 || strcmp(unit->text, "step") == 0);
}

bool steps_eval(Lower *lower, const Expr *what, bool *given, int64_t *steps) {
    *given = steps_unit(what) || is_number(lower, what);
    return !*given || integer_eval(lower, what, "the number of steps", 1, INT32_MAX, steps);
}

/* checkpoint every epoch; checkpoint every 100 steps; or every 100; and after it: keep 3 best f1 */
static bool eval_checkpoint(Lower *lower, const Expr *value) {
    Settings *settings = &lower->graph->settings;
    const Expr *what = value->kind == EXPR_CALL && strcmp(value->text, "every") == 0 ? value->items : NULL;
    bool steps = false;
    if (what && what->kind == EXPR_NAME && strcmp(what->text, "epoch") == 0) {
        settings->checkpoint_epochs = true;
        return checkpoint_clauses(lower, what->next);
    }
    if (what && !steps_eval(lower, what, &steps, &settings->checkpoint_steps)) return false;
    const Expr *behind = what && !steps_unit(what) ? what->next : NULL;
    const bool per_rank = behind && behind->kind == EXPR_NAME && strcmp(behind->text, "per_rank") == 0;
    const bool other_unit = behind && !behind->next && !per_rank; /* 5 epochs */
    if (steps && !other_unit) return checkpoint_clauses(lower, steps_unit(what) ? what->next->next : what->next);
    diag_error(lower->diags, lower_span(lower, value->loc), "this does not say when there is a checkpoint");
    diag_hint(lower->diags, "checkpoint every epoch; or checkpoint every 100 steps;");
    return false;
}

static bool eval_keep(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "keep", 1, INT32_MAX, &lower->graph->settings.keep);
}

/* metrics = grad_norm, noise_scale, penalty; */
static bool eval_measures(Lower *lower, const Expr *value) {
    enum { NORM, NOISE, PENALTY, NMEASURES };
    static const char *const names[NMEASURES] = {"grad_norm", "noise_scale", "penalty"};
    const Expr *item = value->kind == EXPR_LIST || value->kind == EXPR_TUPLE ? value->items : value;
    for (; item; item = value == item ? NULL : item->next) {
        if (item->kind == EXPR_NAME && strcmp(item->text, names[PENALTY]) &&
            (!strcmp(item->text, reported_name[0]) || metric_of(item->text) < NMETRICS)) {
            diag_error(lower->diags, lower_span(lower, item->loc), "%s is a metric of an eval", item->text);
            diag_hint(lower->diags, "it stands in an eval block: eval { data = npy(x = \"x.npy\", label = \"label.npy\"); metrics = %s; }",
                      item->text);
            return false;
        }
        const int which = choice(lower, "metric of a step", item, names, NMEASURES);
        if (which < 0) return false;
        lower->graph->settings.grad_norm |= which != PENALTY;
        lower->graph->settings.noise_scale |= which == NOISE;
        if (which == PENALTY) lower->rows.metric[METRIC_PENALTY] = lower_span(lower, item->loc);
    }
    return true;
}

enum {
    DATA,
    OPTIMIZER,
    EPOCHS,
    STEPS,
    LOG_EVERY,
    LOG_FROM,
    SEED,
    ORDER,
    LAST,
    ROWS,
    CHECKPOINT,
    KEEP,
    RESTORE,
    EARLY_STOP,
    LOG,
    SCHEDULE,
    CLIP,
    ACCUMULATE,
    MICRO_BATCHES,
    ON_NAN,
    PRECISION,
    LOSS_SCALE,
    COMPRESS,
    LR,
    DECAY,
    EMA,
    METRICS,
    UNEVEN,
    NTRAIN
};
const Setting train_settings[] = {[DATA] = {"data", eval_data},
                                  [OPTIMIZER] = {"optimizer", eval_optimizer},
                                  [EPOCHS] = {"epochs", eval_epochs},
                                  [STEPS] = {"steps", eval_steps},
                                  [LOG_EVERY] = {"log_every", eval_log_every},
                                  [LOG_FROM] = {"log_from", eval_log_from},
                                  [SEED] = {"seed", eval_seed},
                                  [ORDER] = {"order", eval_order},
                                  [LAST] = {"last", eval_last},
                                  [ROWS] = {"rows", eval_split},
                                  [CHECKPOINT] = {"checkpoint", eval_checkpoint},
                                  [KEEP] = {"keep", eval_keep},
                                  [RESTORE] = {"restore", eval_restore},
                                  [EARLY_STOP] = {"early_stop", eval_early_stop},
                                  [LOG] = {"log", eval_log},
                                  [SCHEDULE] = {"schedule", eval_schedule},
                                  [CLIP] = {"clip", eval_clip},
                                  [ACCUMULATE] = {"accumulate", eval_accumulate},
                                  [MICRO_BATCHES] = {"micro_batches", eval_micro_batches},
                                  [ON_NAN] = {"on_nan", eval_on_nan},
                                  [PRECISION] = {"precision", eval_precision},
                                  [LOSS_SCALE] = {"loss_scale", eval_loss_scale},
                                  [COMPRESS] = {"compress", eval_compress},
                                  [LR] = {"lr", eval_lr, .many = true},
                                  [DECAY] = {"decay", eval_decay, .many = true},
                                  [EMA] = {"ema", eval_ema},
                                  [METRICS] = {"metrics", eval_measures},
                                  [UNEVEN] = {"uneven", eval_uneven}};
const int ntrain_settings = NTRAIN;

bool train_lower(Lower *lower, const Block *block) {
    Settings *settings = &lower->graph->settings;
    settings->epochs = settings->steps = 1;
    settings->loss_scale = 65536; /* GradScaler's */
    bool given[NTRAIN] = {false};
    if (!settings_lower(lower, block, "train", train_settings, ntrain_settings, parallel_settings, nparallel_settings, "parallel", given))
        return false;
    if (given[STEPS] && settings->steps == 0) settings->epochs = 0; /* no training: in a plan, 0 steps mean as many as the data has */
    if (given[UNEVEN] && !given[LAST]) settings->last = LAST_SHORT;
    bool ok = data_complete(lower, block, given[STEPS]);
    if (!given[DATA] && graph_declared(lower->graph) > 0) {
        diag_error(lower->diags, lower_span(lower, block->loc), "train does not say where the data comes from");
        diag_hint(lower->diags, "data = numpy_rand(seed = 1);");
        ok = false;
    }
    if (!given[OPTIMIZER]) {
        diag_error(lower->diags, lower_span(lower, block->loc), "train has no optimizer");
        diag_hint(lower->diags, "optimizer = sgd(lr = 0.1);");
        ok = false;
    }
    ok &= gradients_complete(lower, block, given[LOSS_SCALE]) && scales_matched(lower) && micro_complete(lower) && batches_check(lower);
    if (settings->restore_best && !settings->watch[WATCH_BEST].metric) {
        diag_error(lower->diags, setting_span(lower, block, "restore"), "restore best, and no checkpoint is the best one");
        diag_hint(lower->diags, "checkpoint every epoch best f1;");
        ok = false;
    }
    if (given[KEEP] && !given[CHECKPOINT]) {
        diag_error(lower->diags, setting_span(lower, block, "keep"), "keep says how many checkpoints stay, and train takes none");
        diag_hint(lower->diags, "checkpoint every epoch; or checkpoint every 100 steps;");
        ok = false;
    }
    return ok;
}
