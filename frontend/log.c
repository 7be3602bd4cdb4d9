/* log "50/500 loss:{loss}" on rank 0 | all: the format of a loss's line; its fields are checked here. */
#include "frontend/lower.h"

#include <string.h>

/* {eta} is a duration in words. */
static const char *const integers[] = {"epoch", "step",       "global_step", "steps", "total_steps",
                                       "rank",  "local_rank", "world_size",  "pid",   "eta"},
                         *const reals[] = {"loss", "lr", "next_lr", "samples_per_s", "grad_norm", "mean_loss"};
enum { NINTEGERS = sizeof integers / sizeof *integers, NREALS = sizeof reals / sizeof *reals };

static bool listed(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* "loss", or "loss:.4f". */
static bool check_field(Lower *lower, const Expr *expr, const char *at, size_t n) {
    Span span = lower_span(lower, expr->loc);
    const char *colon = memchr(at, ':', n), *field = arena_copy(lower->arena, at, colon ? (size_t)(colon - at) : n);
    const char *digits = colon ? arena_copy(lower->arena, colon + 1, n - (size_t)(colon - at) - 1) : NULL;
    bool is_real = listed(field, reals, NREALS);
    if (!is_real && !listed(field, integers, NINTEGERS)) {
        const char *names[NINTEGERS + NREALS];
        memcpy(names, integers, sizeof integers);
        memcpy(names + NINTEGERS, reals, sizeof reals);
        const char *nearest = name_nearest(field, names, NINTEGERS + NREALS);
        diag_error(lower->diags, span, "log has no field {%s}", field);
        if (nearest)
            diag_hint(lower->diags, "did you mean {%s}?", nearest);
        else
            diag_hint(
                lower->diags,
                "{epoch} {step} {global_step} {steps} {total_steps} {loss} {lr} {next_lr} {rank} {local_rank} {world_size} {pid} {samples_per_s} {eta} {grad_norm} {mean_loss}; a brace is {{");
        return false;
    }
    if (strcmp(field, "grad_norm") == 0) lower->graph->settings.grad_norm = true;
    if (!digits) return true;
    size_t length = strlen(digits), places = length > 0 && digits[0] == '.' ? 1 + strspn(digits + 1, "0123456789") : 0;
    if (is_real && length > 0 && places + 1 == length && places != 1 && length <= 4 && strchr("efg", digits[length - 1])) return true;
    diag_error(lower->diags, span, "{%s:%s}: digits are those of a real number, as in {loss:.4f}, {loss:.3e} or {lr:g}", field, digits);
    return false;
}

static bool check_template(Lower *lower, const Expr *expr) {
    for (const char *at = expr->text; *at; at++) {
        if ((at[0] == '{' && at[1] == '{') || (at[0] == '}' && at[1] == '}')) {
            at++;
        } else if (*at == '{') {
            const char *end = strchr(at, '}');
            if (!end) {
                diag_error(lower->diags, lower_span(lower, expr->loc), "a '{' that is not closed; a brace itself is written {{");
                return false;
            }
            if (!check_field(lower, expr, at + 1, (size_t)(end - at - 1))) return false;
            at = end;
        }
    }
    return true;
}

bool eval_log(Lower *lower, const Expr *value) {
    Settings *settings = &lower->graph->settings;
    const Expr *format = value->kind == EXPR_CALL && strcmp(value->text, "on") == 0 ? value->items : value,
               *who = format != value ? format->next : NULL;
    if (!format || format->kind != EXPR_STRING) {
        diag_error(lower->diags, lower_span(lower, value->loc), "log takes a text");
        diag_hint(lower->diags, "log \"{global_step}/{steps} loss:{loss}\"; with `on rank 0` or `on all` behind it");
        return false;
    }
    settings->log = format->text;
    if (!check_template(lower, format)) return false;
    if (!who) return true;
    if (strcmp(who->text, "all") == 0 && !who->next) return settings->log_rank = -1, true;
    if (strcmp(who->text, "rank") == 0 && who->next)
        return integer_eval(lower, who->next, "the rank", 0, lower->graph->nranks * settings_stages(settings) - 1, &settings->log_rank);
    diag_error(lower->diags, lower_span(lower, who->loc), "a log is on rank 0, on another rank, or on all");
    return false;
}
