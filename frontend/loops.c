/* for, if, let, require: bodies are expanded in order. A block (the braces of for and if) may give a name from outside a new value, which
 * the name keeps after it: that is how loops carry values. What a loop's body defines is local to the iteration; what the branch of an if
 * defines stays. */
#include "frontend/lower.h"

#include <string.h>

void name_ahead(Lower *lower, const char *name, Loc loc) {
    if (!names_find(&lower->names, name)) names_insert(&lower->names, lower->arena, name)->span = lower_span(lower, loc);
}

/* Called for each name that statements define, also for several results. */
typedef void NameFn(Lower *lower, const char *name, Loc loc);
static void each_name(Lower *lower, const Statement *first, NameFn *fn) {
    for (const Statement *statement = first; statement; statement = statement->next) {
        if (statement->name && statement->kind != STATEMENT_FOR && statement->kind != STATEMENT_WRITE &&
            statement->kind != STATEMENT_REQUIRE)
            fn(lower, statement->name, statement->name_loc);
        for (const Target *target = statement->targets; target; target = target->next)
            fn(lower, target->name, target->loc);
    }
}

void names_ahead(Lower *lower, const Statement *first) {
    each_name(lower, first, name_ahead);
}

static void name_passed(Lower *lower, const char *name, Loc loc) {
    if (names_find(&lower->names, name)) return;
    name_ahead(lower, name, loc);
    names_find(&lower->names, name)->kind = SYMBOL_PASSED;
}

static void name_failed(Lower *lower, const char *name, Loc loc) {
    name_ahead(lower, name, loc);
    names_find(&lower->names, name)->kind = SYMBOL_FAILED;
}

/* After a mistake in the head of a block, uses of the names that it would have defined are not reported. */
static void names_fail(Lower *lower, const Statement *first) {
    each_name(lower, first, name_failed);
}

bool statements_lower(Lower *lower, const Statement *first) {
    bool ok = true;
    for (const Statement *statement = first; statement; statement = statement->next) {
        const bool fits = lower_work(lower, statement->name_loc) && statement_lower(lower, statement);
        ok &= fits;
        if (!fits && statement->kind == STATEMENT_REQUIRE) { /* what follows relies on it */
            names_fail(lower, statement->next);
            return false;
        }
        if (lower->full || lower->diags->nerrors >= DIAG_MAX_ERRORS) return false;
        if (lower->frame && lower->frame->returned) return ok;
    }
    return ok;
}

/* ---------------------------------------------------------------- for */

/* Ends the scope of the names after the first n: a loop removes them, an if passes them to the enclosing block. */
static void locals_leave(Lower *lower, int n, bool gone) {
    for (int i = n; i < lower->locals.n; i++) {
        Symbol *symbol = names_find(&lower->names, lower->locals.at[i]);
        if (!gone)
            symbol->block = lower->block;
        else if (symbol->kind != SYMBOL_FAILED)
            symbol->kind = SYMBOL_GONE;
    }
    if (gone || lower->block == 0) lower->locals.n = n;
}

static bool range_eval(Lower *lower, const Statement *statement, int64_t *first, int64_t *limit) {
    bool ok = integer_eval(lower, statement->value, "where a loop begins", INT32_MIN, INT32_MAX, first);
    ok = integer_eval(lower, statement->limit, "where a loop ends", INT64_MIN, INT64_MAX, limit) && ok;
    if (!ok || *limit <= *first + MAX_ITERATIONS) return ok;
    Loc loc = loc_join(statement->value->loc, statement->limit->loc);
    diag_error(lower->diags, lower_span(lower, loc), "a loop has at most %d iterations, not from %lld to %lld", (int)MAX_ITERATIONS,
               (long long)*first, (long long)*limit);
    return false;
}

static bool iteration_lower(Lower *lower, const Statement *statement, int64_t i) {
    Symbol *symbol;
    int nlocals = lower->locals.n;
    if (!names_define(lower, statement->name, statement->name_loc, &symbol)) return false;
    symbol->kind = SYMBOL_NUMBER;
    symbol->number = (Number){.i = i, .f = (double)i};
    bool ok = statements_lower(lower, statement->body);
    locals_leave(lower, nlocals, true);
    return ok;
}

bool for_lower(Lower *lower, const Statement *statement) {
    int64_t first, limit;
    if (!statement->value) return false; /* a syntax error in it */
    if (!range_eval(lower, statement, &first, &limit)) {
        names_fail(lower, statement->body);
        return false;
    }
    if (!lower_deeper(lower, statement->name_loc)) return false;
    const char *suffix = lower->suffix;
    bool ok = true;
    lower->block++;
    lower->loops++;
    names_ahead(lower, statement->body);
    /* One mistake in the body is one message: no further iterations. */
    for (int64_t i = first; i < limit && ok; i++) {
        lower->suffix = arena_printf(lower->arena, "%s.%lld", suffix, (long long)i);
        ok = lower_work(lower, statement->name_loc) && iteration_lower(lower, statement, i);
    }
    lower->suffix = suffix;
    lower->loops--;
    lower->block--;
    lower->depth--;
    return ok;
}

/* ---------------------------------------------------------------- if */

bool if_lower(Lower *lower, const Statement *statement) {
    bool holds = false;
    /* A chain of else if is not deep, however long it is. */
    while (statement->value && condition_eval(lower, statement->value, &holds)) {
        const Statement *body = holds ? statement->body : statement->otherwise;
        each_name(lower, holds ? statement->otherwise : statement->body, name_passed);
        if (!holds && body && body->kind == STATEMENT_IF && !body->next) {
            statement = body;
            continue;
        }
        if (!body) return true;
        if (!lower_deeper(lower, statement->name_loc)) return false;
        int nlocals = lower->locals.n;
        lower->block++;
        names_ahead(lower, body);
        bool ok = statements_lower(lower, body);
        lower->block--;
        locals_leave(lower, nlocals, false);
        lower->depth--;
        return ok;
    }
    names_fail(lower, statement->body);
    names_fail(lower, statement->otherwise);
    return false;
}

/* ---------------------------------------------------------------- require */

/* "p is 1.5, heads is 3": the numbers that an expression names, each once. */
static void put_numbers(Lower *lower, Text *text, const Expr *expr) {
    Number number;
    for (const Expr *item = expr->items; item; item = item->next)
        put_numbers(lower, text, item);
    if (expr->kind != EXPR_NAME || !is_number(lower, expr) || !number_eval(lower, expr, &number)) return;
    const char *named = arena_printf(lower->arena, "%s is ", expr->text), *at = text->n > 0 ? strstr(text->at, named) : NULL;
    if (at && (at == text->at || at[-1] == ' ')) return;
    text_printf(text, "%s%s", text->n > 0 ? ", " : "", named);
    if (number.real)
        text_printf(text, "%g", number.f);
    else
        text_printf(text, "%lld", (long long)number.i);
}

bool require_lower(Lower *lower, const Statement *statement) {
    bool holds = false;
    if (!condition_eval(lower, statement->value, &holds)) return false;
    if (holds) return true;
    Text numbers = {0};
    diag_error(lower->diags, lower_span(lower, statement->value->loc), "%s", statement->name);
    put_numbers(lower, &numbers, statement->value);
    if (numbers.n > 0) diag_hint(lower->diags, "%s", numbers.at);
    text_finish(&numbers);
    return false;
}

/* ---------------------------------------------------------------- let */

bool let_lower(Lower *lower, const char *name, Loc loc, const Expr *value) {
    Symbol *symbol;
    Operand operand;
    if (!names_define(lower, name, loc, &symbol)) return false;
    bool ok = operand_lower(lower, value, &operand);
    if (ok && operand.value >= 0) {
        diag_error(lower->diags, lower_span(lower, value->loc), "let names a number, and this is a tensor");
        diag_hint(lower->diags, "a tensor is named without let: %s = ...;", name);
        ok = false;
    }
    symbol = names_find(&lower->names, name);
    symbol->kind = ok ? SYMBOL_NUMBER : SYMBOL_FAILED;
    if (ok) symbol->number = operand.number;
    return ok;
}
