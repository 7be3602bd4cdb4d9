/* The optimizer of a train block, its factors by parameter, and the clipping and accumulation of gradients. */
#include "frontend/lower.h"
#include "ir/wildcard.h"

#include <float.h>
#include <string.h>

/* A number that an optimizer takes. Required ones come first, in this order, and may be given without names. */
typedef struct Parameter {
    const char *name;
    double least, most;
    double initial; /* where it is left out; unused for required ones */
    double *to;
    bool less;   /* it must be less than most */
    bool *holds; /* takes true or false in place of a number; false where it is left out */
} Parameter;

enum { MAX_NUMBERS = 8 };

static bool eval_parameters(Lower *lower, const Expr *value, const Parameter *parameters, int n, int nrequired, const char *example) {
    const char *names[MAX_NUMBERS];
    const Expr *argument[MAX_NUMBERS];
    for (int i = 0; i < n; i++)
        names[i] = parameters[i].name;
    if (!call_arguments(lower, value, names, n, nrequired, argument)) {
        diag_hint(lower->diags, "%s", example);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (parameters[i].holds) {
            int64_t holds = 0;
            if (argument[i] && !attr_bool(lower, argument[i], names[i], &holds)) return false;
            *parameters[i].holds = holds;
            continue;
        }
        *parameters[i].to = parameters[i].initial;
        if (argument[i] && !real_eval(lower, argument[i], names[i], parameters[i].least, parameters[i].most, parameters[i].to))
            return false;
        if (parameters[i].less && *parameters[i].to == parameters[i].most) {
            diag_error(lower->diags, lower_span(lower, argument[i]->loc), "%s is less than %g", names[i], parameters[i].most);
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- optimizers: PyTorch's, with its defaults */

/* nesterov = true needs a slot to look ahead along. */
static bool nesterov_fits(Lower *lower, const Expr *value) {
    const Settings *s = &lower->graph->settings;
    if (!s->nesterov || (s->optimizer == OPTIMIZER_MOMENTUM && s->momentum > 0)) return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "nesterov needs momentum");
    diag_hint(lower->diags, "sgd(lr = 0.1, momentum = 0.9, nesterov = true)");
    return false;
}

static bool eval_sgd(Lower *lower, const Expr *value) {
    Settings *s = &lower->graph->settings;
    double momentum = 0; /* as in PyTorch's SGD; with 0 there is no slot for it */
    const Parameter parameters[] = {{"lr", 0, DBL_MAX, 0, &s->lr, false, NULL},
                                    {"momentum", 0, 1, 0, &momentum, false, NULL}, /* second, as in PyTorch */
                                    {"weight_decay", 0, DBL_MAX, 0, &s->weight_decay, false, NULL},
                                    {.name = "nesterov", .holds = &s->nesterov}};
    if (!eval_parameters(lower, value, parameters, 4, 1, "optimizer = sgd(lr = 0.1);")) return false;
    s->optimizer = momentum > 0 ? OPTIMIZER_MOMENTUM : OPTIMIZER_SGD;
    s->momentum = momentum;
    return nesterov_fits(lower, value);
}

static bool eval_momentum(Lower *lower, const Expr *value) {
    Settings *s = &lower->graph->settings;
    const Parameter parameters[] = {{"lr", 0, DBL_MAX, 0, &s->lr, false, NULL},
                                    {"momentum", 0, 1, 0, &s->momentum, false, NULL},
                                    {"weight_decay", 0, DBL_MAX, 0, &s->weight_decay, false, NULL},
                                    {.name = "nesterov", .holds = &s->nesterov}};
    s->optimizer = OPTIMIZER_MOMENTUM;
    return eval_parameters(lower, value, parameters, 4, 2, "optimizer = momentum(lr = 0.1, momentum = 0.9);") &&
           nesterov_fits(lower, value);
}

/* eps, decay: the defaults. */
static bool eval_adams(Lower *lower, const Expr *value, OptimizerKind kind, double eps, double decay, const char *example) {
    Settings *s = &lower->graph->settings;
    const Parameter parameters[] = {{"lr", 0, DBL_MAX, 1e-3, &s->lr, false, NULL},
                                    {"beta1", 0, 1, 0.9, &s->beta1, true, NULL}, /* corrections divide by 1 - beta */
                                    {"beta2", 0, 1, 0.999, &s->beta2, true, NULL},
                                    {"eps", 0, DBL_MAX, eps, &s->eps, false, NULL},
                                    {"weight_decay", 0, DBL_MAX, decay, &s->weight_decay, false, NULL}};
    s->optimizer = kind;
    return eval_parameters(lower, value, parameters, 5, 0, example);
}
static bool eval_adam(Lower *lower, const Expr *value) {
    return eval_adams(lower, value, OPTIMIZER_ADAM, 1e-8, 0, "optimizer = adam(lr = 0.001);");
}
static bool eval_adamw(Lower *lower, const Expr *value) {
    return eval_adams(lower, value, OPTIMIZER_ADAMW, 1e-8, 0.01, "optimizer = adamw(lr = 0.001, weight_decay = 0.01);");
}
/* You et al. 2020, algorithm 2, with the numbers of its section 4. */
static bool eval_lamb(Lower *lower, const Expr *value) {
    return eval_adams(lower, value, OPTIMIZER_LAMB, 1e-6, 0.01, "optimizer = lamb(lr = 0.001, weight_decay = 0.01);");
}

/* Chen et al. 2023, algorithm 2, with the learning rate and betas of its table 1. */
static bool eval_lion(Lower *lower, const Expr *value) {
    Settings *s = &lower->graph->settings;
    const Parameter parameters[] = {{"lr", 0, DBL_MAX, 1e-4, &s->lr, false, NULL},
                                    {"beta1", 0, 1, 0.9, &s->beta1, false, NULL},
                                    {"beta2", 0, 1, 0.99, &s->beta2, false, NULL},
                                    {"weight_decay", 0, DBL_MAX, 0, &s->weight_decay, false, NULL}};
    s->optimizer = OPTIMIZER_LION;
    return eval_parameters(lower, value, parameters, 4, 0, "optimizer = lion(lr = 0.0001, weight_decay = 0.1);");
}

/* PyTorch's SparseAdam for tables, its Adam for parameters without a sparse gradient. */
static bool eval_lazy_adam(Lower *lower, const Expr *value) {
    Settings *s = &lower->graph->settings;
    const Parameter parameters[] = {{"lr", 0, DBL_MAX, 1e-3, &s->lr, false, NULL},
                                    {"beta1", 0, 1, 0.9, &s->beta1, true, NULL},
                                    {"beta2", 0, 1, 0.999, &s->beta2, true, NULL},
                                    {"eps", 0, DBL_MAX, 1e-8, &s->eps, false, NULL}};
    s->optimizer = OPTIMIZER_LAZY_ADAM;
    if (s->mode == MODE_MANUAL) {
        diag_error(lower->diags, lower_span(lower, value->loc), "lazy_adam is not of mode manual, which makes whole gradients of tables");
        diag_hint(lower->diags, "mode = data_parallel; or semi_auto; splits the batch too; or optimizer = adam(lr = 0.001);");
        return false;
    }
    return eval_parameters(lower, value, parameters, 4, 0, "optimizer = lazy_adam(lr = 0.001);");
}

static bool compress_complete(Lower *lower, Span span) {
    if (lower->graph->settings.compress == F32 || !lower->manual) return true;
    diag_error(lower->diags, span, "compress is of gradients that pcc adds up over ranks, and in mode manual the net does");
    diag_hint(lower->diags, "leave it out; mode = data_parallel; adds them up");
    return false;
}

/* Checks that the gradient noise can be measured: from the gradients of replicas with equally many rows. */
static bool noise_complete(Lower *lower, Span span) {
    const Settings *s = &lower->graph->settings;
    const bool replicas = lower->graph->replicas > 1 && !lower->manual; /* in mode manual parameters are each rank's own */
    if (!s->noise_scale || (replicas && s->last == LAST_DROP && s->precision != F16)) return true;
    if (replicas && s->last == LAST_DROP) {
        diag_error(lower->diags, span, "noise_scale looks at the gradients of replicas, and those of f16 are scaled");
        diag_hint(lower->diags, "precision = bf16;");
    } else if (replicas) {
        diag_error(lower->diags, span, "noise_scale compares batches that are full");
        diag_hint(lower->diags, "last = drop;");
    } else {
        diag_error(lower->diags, span, "noise_scale compares the gradients of replicas, and there are not two");
        diag_hint(lower->diags, "parallel { mode = data_parallel; } on two ranks or more; --replicas 2 on one");
    }
    return false;
}

Span setting_span(Lower *lower, const Block *block, const char *name) {
    for (const Entry *entry = block->entries; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0) return lower_span(lower, entry->name_loc);
    return lower_span(lower, block->loc);
}

bool gradients_complete(Lower *lower, const Block *train, bool scaled) {
    const Settings *s = &lower->graph->settings;
    if (!noise_complete(lower, setting_span(lower, train, "metrics")) || !compress_complete(lower, setting_span(lower, train, "compress")))
        return false;
    if (scaled && s->precision != F16) {
        diag_error(lower->diags, setting_span(lower, train, "loss_scale"), "a loss scale is for gradients of f16, and there are none");
        diag_hint(lower->diags, "precision = f16; or leave loss_scale out: f32 and bf16 hold gradients as small as they become");
        return false;
    }
    if (s->optimizer != OPTIMIZER_LAZY_ADAM || (s->clip == 0 && !s->grad_norm && s->precision != F16)) return true;
    const char *asked = s->clip > 0 ? "clip" : s->grad_norm ? "grad_norm" : "precision = f16";
    diag_error(lower->diags,
               setting_span(lower, train,
                            s->clip > 0    ? "clip"
                            : s->grad_norm ? "optimizer"
                                           : "precision"),
               "lazy_adam has no whole gradients of tables that could be %s",
               s->clip > 0    ? "clipped"
               : s->grad_norm ? "measured"
                              : "scaled");
    diag_hint(lower->diags, "leave %s out; or optimizer = adam(lr = 0.001);", asked);
    return false;
}

/* torch.optim.Adafactor; eps1 0: the machine epsilon of the parameter's element type. */
static bool eval_adafactor(Lower *lower, const Expr *value) {
    Settings *s = &lower->graph->settings;
    const Parameter parameters[] = {
        {"lr", 0, DBL_MAX, 1e-2, &s->lr, false, NULL}, {"beta2_decay", -DBL_MAX, 0, -0.8, &s->beta2_decay, false, NULL},
        {"eps1", 0, DBL_MAX, 0, &s->eps, false, NULL}, {"eps2", 0, DBL_MAX, 1e-3, &s->eps2, false, NULL},
        {"d", 1, DBL_MAX, 1, &s->d, false, NULL},      {"weight_decay", 0, DBL_MAX, 0, &s->weight_decay, false, NULL}};
    s->optimizer = OPTIMIZER_ADAFACTOR;
    return eval_parameters(lower, value, parameters, 6, 0, "optimizer = adafactor(lr = 0.01);");
}

/* Rejects mode manual: the norm of a whole parameter would include all ranks' copies. */
static bool norms_fit(Lower *lower, const Expr *value) {
    const Settings *s = &lower->graph->settings;
    if (s->mode != MODE_MANUAL || (s->optimizer != OPTIMIZER_LAMB && s->optimizer != OPTIMIZER_ADAFACTOR)) return true;
    diag_error(lower->diags, lower_span(lower, value->loc),
               "this optimizer takes norms of whole parameters, and in mode manual each rank has its own");
    diag_hint(lower->diags, "optimizer = adamw(lr = 0.001); or another mode");
    return false;
}

bool eval_optimizer(Lower *lower, const Expr *value) {
    static const Builtin builtins[] = {
        {"sgd", eval_sgd},   {"momentum", eval_momentum}, {"adam", eval_adam},           {"adamw", eval_adamw},
        {"lion", eval_lion}, {"lamb", eval_lamb},         {"adafactor", eval_adafactor}, {"lazy_adam", eval_lazy_adam}};
    return call_builtin(
               lower, value, "optimizer", builtins, sizeof builtins / sizeof *builtins,
               "optimizer = sgd(lr = 0.1); momentum(lr = 0.1, momentum = 0.9); adam(lr = 0.001); adamw(lr = 0.001); lion(lr = 0.0001); lamb(lr = 0.001); adafactor(lr = 0.01); or lazy_adam(lr = 0.001);") &&
           norms_fit(lower, value);
}

/* ---------------------------------------------------------------- numbers by parameter */

/* lr 0.1 for encoder.**; decay 0 for **.bias; decay except **.bias: parsed to calls for(0.1, "encoder.**"), except("**.bias"). */
static bool eval_scale(Lower *lower, const Expr *value, ScaleKind kind) {
    const bool scaled = value->kind == EXPR_CALL && strcmp(value->text, "for") == 0;
    const Expr *pattern = value->items;
    double factor = 0;
    if (!scaled && (value->kind != EXPR_CALL || strcmp(value->text, "except") != 0 || kind != SCALE_DECAY)) {
        diag_error(lower->diags, lower_span(lower, value->loc), "this does not say for which parameters");
        diag_hint(lower->diags,
                  kind == SCALE_LR
                      ? "it belongs to the optimizer: optimizer = sgd(lr = 0.1); for some parameters a factor of it: lr 0.1 for encoder.**;"
                      : "decay except **.bias, **.norm*.weight; or decay 0.5 for encoder.**;");
        return false;
    }
    if (scaled && !real_eval(lower, pattern, "a factor", 0, DBL_MAX, &factor)) return false;
    for (pattern = scaled ? pattern->next : pattern; pattern; pattern = pattern->next)
        vec_push(lower->arena, &lower->graph->settings.scales,
                 ((Scale){.kind = kind, .factor = factor, .path = pattern->text, .span = lower_span(lower, pattern->loc)}));
    return true;
}
bool eval_lr(Lower *lower, const Expr *value) {
    return eval_scale(lower, value, SCALE_LR);
}
bool eval_decay(Lower *lower, const Expr *value) {
    return eval_scale(lower, value, SCALE_DECAY);
}

bool scales_matched(Lower *lower) {
    const Graph *graph = lower->graph;
    bool ok = true;
    for (int i = 0; i < graph->settings.scales.n; i++) {
        const Scale *scale = &graph->settings.scales.at[i];
        const char *near = NULL;
        bool found = false;
        for (int s = 0; s < graph->states.n && !found; s++) {
            if (!graph->states.at[s].trainable) continue;
            found = pattern_matches(scale->path, graph->states.at[s].name, NULL);
            if (!near || pattern_covers(scale->path, graph->states.at[s].name)) near = graph->states.at[s].name;
        }
        if (found) continue;
        ok = false;
        diag_error(lower->diags, scale->span, "no parameter matches %s", scale->path);
        if (near)
            diag_hint(lower->diags,
                      "a pattern names whole paths, such as %s; * stands for a name or a piece of one, ** for any number of names", near);
    }
    return ok;
}

/* ---------------------------------------------------------------- gradients */

/* clip = norm(1.0); */
static bool eval_norm(Lower *lower, const Expr *value) {
    Settings *settings = &lower->graph->settings;
    const Parameter parameters[] = {{"most", 0, DBL_MAX, 0, &settings->clip, false, NULL}};
    if (!eval_parameters(lower, value, parameters, 1, 1, "clip = norm(1.0);")) return false;
    if (settings->clip > 0) return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "a norm of at most 0 leaves no gradient");
    diag_hint(lower->diags, "clip = norm(1.0);");
    return false;
}

bool eval_clip(Lower *lower, const Expr *value) {
    static const Builtin builtins[] = {{"norm", eval_norm}};
    return call_builtin(lower, value, "way to clip gradients", builtins, 1, "clip = norm(1.0);");
}

/* accumulate = 4; the plan has the net so many times. */
bool eval_accumulate(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "accumulate", 1, 256, &lower->graph->settings.accumulate);
}

/* ema = 0.999; */
bool eval_ema(Lower *lower, const Expr *value) {
    lower->graph->settings.ema = true;
    return real_eval(lower, value, "ema", 0, 1, &lower->graph->settings.ema_decay);
}
