/* The learning-rate schedule of a train block: schedule = cosine(warmup = 100, end = 0.1); where all arguments are optional, the parentheses are too. */
#include "frontend/lower.h"

enum { WARMUP, END, POWER, EVERY, MILESTONES, GAMMA, UNIT, NARGUMENTS, MOST = 4 };

static const char *const argument_name[NARGUMENTS] = {"warmup", "end", "power", "every", "milestones", "gamma", "unit"};

/* The arguments of each schedule; the first `required` ones must be given. */
static const struct {
    int n, required, argument[MOST];
    const char *example;
} schedules[NSCHEDULES] = {
    [SCHEDULE_CONSTANT] = {1, 0, {WARMUP}, "schedule = constant(warmup = 100);"},
    [SCHEDULE_LINEAR] = {2, 0, {WARMUP, END}, "schedule = linear(warmup = 100, end = 0);"},
    [SCHEDULE_COSINE] = {2, 0, {WARMUP, END}, "schedule = cosine(warmup = 100, end = 0.1);"},
    [SCHEDULE_POLYNOMIAL] = {3, 0, {WARMUP, END, POWER}, "schedule = polynomial(warmup = 100, end = 0, power = 2);"},
    [SCHEDULE_INVERSE_SQRT] = {1, 0, {WARMUP}, "schedule = inverse_sqrt(warmup = 4000);"},
    [SCHEDULE_STEP] = {4,
                       1,
                       {EVERY, GAMMA, WARMUP, UNIT},
                       "schedule = step(every = 30, gamma = 0.1); counts epochs; with unit = steps, steps"},
    [SCHEDULE_MULTISTEP] = {4,
                            1,
                            {MILESTONES, GAMMA, WARMUP, UNIT},
                            "schedule = multistep([30, 60, 80], gamma = 0.1); counts epochs; with unit = steps, steps"},
};

static bool eval_milestones(Lower *lower, const Expr *value, Schedule *schedule) {
    const bool list = value->kind == EXPR_LIST || value->kind == EXPR_TUPLE;
    int64_t before = 0;
    schedule->nmilestones = 0;
    for (const Expr *item = list ? value->items : value; item; item = list ? item->next : NULL) {
        int64_t *milestone = &schedule->milestone[schedule->nmilestones];
        if (schedule->nmilestones == MAX_MILESTONES) {
            diag_error(lower->diags, lower_span(lower, item->loc), "there are at most %d milestones", MAX_MILESTONES);
            return false;
        }
        if (!integer_eval(lower, item, "a milestone", 1, 1000000000, milestone)) return false;
        if (*milestone <= before) {
            diag_error(lower->diags, lower_span(lower, item->loc), "milestones ascend, and %lld comes after %lld", (long long)*milestone,
                       (long long)before);
            return false;
        }
        before = *milestone;
        schedule->nmilestones++;
    }
    if (schedule->nmilestones > 0) return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "there is no milestone");
    diag_hint(lower->diags, "%s", schedules[SCHEDULE_MULTISTEP].example);
    return false;
}

static bool eval_argument(Lower *lower, int which, const Expr *value, Schedule *schedule) {
    const char *name = argument_name[which];
    int unit;
    switch (which) {
    case WARMUP:
        return integer_eval(lower, value, name, 0, 1000000000, &schedule->warmup);
    case END:
        return real_eval(lower, value, name, 0, 1, &schedule->end);
    case POWER:
        return real_eval(lower, value, name, 0, 100, &schedule->power);
    case EVERY:
        return integer_eval(lower, value, name, 1, 1000000000, &schedule->every);
    case MILESTONES:
        return eval_milestones(lower, value, schedule);
    case GAMMA:
        return real_eval(lower, value, name, 0, 1, &schedule->gamma);
    default:
        unit = choice(lower, "unit of a schedule", value, schedule_unit_name, NSCHEDULE_UNITS);
        schedule->unit = unit < 0 ? PER_EPOCH : (ScheduleUnit)unit;
        return unit >= 0;
    }
}

bool eval_schedule(Lower *lower, const Expr *value) {
    const Expr *argument[MOST], name = {.kind = EXPR_NAME, .text = value->text, .loc = value->loc};
    const char *names[MOST];
    Schedule *schedule = &lower->graph->settings.schedule;
    if (value->kind != EXPR_CALL && value->kind != EXPR_NAME) {
        diag_error(lower->diags, lower_span(lower, value->loc), "this is no schedule");
        diag_hint(lower->diags, "%s", schedules[SCHEDULE_LINEAR].example);
        return false;
    }
    const int kind = choice(lower, "schedule", &name, schedule_name, NSCHEDULES);
    if (kind < 0) return false;
    const int n = schedules[kind].n;
    for (int i = 0; i < n; i++)
        names[i] = argument_name[schedules[kind].argument[i]];
    if (!call_arguments(lower, value, names, n, schedules[kind].required, argument)) {
        diag_hint(lower->diags, "%s", schedules[kind].example);
        return false;
    }
    *schedule = (Schedule){.kind = (ScheduleKind)kind, .power = 1, .gamma = 0.1}; /* PyTorch's */
    for (int i = 0; i < n; i++)
        if (argument[i] && !eval_argument(lower, schedules[kind].argument[i], argument[i], schedule)) return false;
    return true;
}
