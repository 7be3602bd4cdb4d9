/* asserts: demands of the parallel block on the plan, `assert comm < 2 MiB;` and `forbid all_gather at layer.*;`. Read here, checked by the compiler. */
#include "frontend/lower.h"

#include <float.h>
#include <string.h>

/* The units that may follow a number after <. */
static const struct Unit {
    const char *name;
    bool of_time;
    double times;
} units[] = {{"B", false, 1},        {"KiB", false, 0x1p10}, {"MiB", false, 0x1p20}, {"GiB", false, 0x1p30},
             {"TiB", false, 0x1p40}, {"s", true, 1},         {"ms", true, 1e-3},     {"us", true, 1e-6}};
enum { NUNITS = sizeof units / sizeof *units };

/* The size of the unit in bytes or seconds; 0 after a diagnostic. unit NULL: bytes. */
static double unit_eval(Lower *lower, const Expr *value, const Expr *unit, Asserted what) {
    const bool of_time = what == ASSERT_TIME;
    if (unit == NULL && !of_time) return 1;
    for (int i = 0; unit != NULL && i < NUNITS; i++)
        if (units[i].of_time == of_time && strcmp(units[i].name, unit->text) == 0) return units[i].times;
    if (unit == NULL)
        diag_error(lower->diags, lower_span(lower, value->loc), "a time has a unit: s, ms or us");
    else
        diag_error(lower->diags, lower_span(lower, unit->loc), "'%s' is no unit of %s", unit->text, asserted_name[what]);
    diag_hint(lower->diags, of_time ? "assert time < 30 ms;" : "assert %s < 2 MiB; KiB, GiB and TiB likewise, bytes without a unit",
              asserted_name[what]);
    return 0;
}

bool eval_assert(Lower *lower, const Expr *value) {
    const Span span = lower_span(lower, value->loc);
    const bool compares = value->kind == EXPR_CALL && value->text[0] != '\0' && strchr("<>", value->text[0]) != NULL;
    if (!compares || value->text[0] == '>') {
        diag_error(lower->diags, span, compares ? "an assertion says what may not be exceeded: < or <=" : "this is no assertion");
        diag_hint(lower->diags, "assert comm < 2 MiB; assert memory < 14 GiB; assert time < 30 ms;");
        return false;
    }
    const Expr *left = value->items, *right = left->next, *unit = right->next;
    const int what = choice(lower, "quantity", left, asserted_name, NASSERTS);
    const double times = what >= 0 ? unit_eval(lower, value, unit, (Asserted)what) : 0;
    double limit;
    if (times == 0 || !real_eval(lower, right, "a limit", 0, DBL_MAX, &limit)) return false;
    vec_push(lower->arena, &lower->graph->settings.asserts,
             ((Assertion){.what = (Asserted)what, .reached = value->text[1] == '=', .limit = limit * times, .span = span}));
    return true;
}

bool eval_forbid(Lower *lower, const Expr *value) {
    const bool at = value->kind == EXPR_CALL && strcmp(value->text, "at") == 0 && value->nitems == 2 && value->last->kind == EXPR_STRING;
    if (!at && value->kind != EXPR_NAME) {
        diag_error(lower->diags, lower_span(lower, value->loc), "forbid names a kind of communication, and where");
        diag_hint(lower->diags, "forbid all_gather at layer.*; forbid exchange;");
        return false;
    }
    const int kind = choice(lower, "communication", at ? value->items : value, comm_name, COMM_STRIDED_SLICE);
    if (kind < 0) return false;
    const Expr *path = at ? value->last : NULL;
    vec_push(lower->arena, &lower->graph->settings.forbids,
             ((Forbidden){.kind = (CommKind)kind, .path = path != NULL ? path->text : NULL, .span = lower_span(lower, value->loc)}));
    return true;
}
