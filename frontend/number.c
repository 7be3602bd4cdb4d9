/* number: expressions of numbers, exact for integers; functions of numbers; settings within limits. */
#include "frontend/lower.h"

#include <float.h>
#include <math.h>
#include <string.h>

const Expr *unbracket(const Expr *expr) {
    while (expr->kind == EXPR_TUPLE && expr->nitems == 1 && !expr->comma)
        expr = expr->items;
    return expr;
}

static Number integer(int64_t i) {
    return (Number){.i = i, .f = (double)i};
}

const char *number_text(Arena *arena, Number number) {
    if (!number.real) return arena_printf(arena, "%lld", (long long)number.i);
    const char *text = arena_printf(arena, "%.10g", number.f);
    return strpbrk(text, ".e") ? text : arena_printf(arena, "%s.0", text);
}

/* ---------------------------------------------------------------- functions */

typedef enum { SQRT, MIN, MAX, CEIL_DIV, SIZE, NDIM } Function;
const char *const function_name[NFUNCTIONS] = {
    [SQRT] = "sqrt", [MIN] = "min", [MAX] = "max", [CEIL_DIV] = "ceil_div", [SIZE] = "size", [NDIM] = "ndim"};
static const struct {
    int narguments;
    const char *parameters;
} functions[NFUNCTIONS] = {
    [SQRT] = {1, "x"}, [MIN] = {2, "a, b"}, [MAX] = {2, "a, b"}, [CEIL_DIV] = {2, "a, b"}, [SIZE] = {2, "x, axis"}, [NDIM] = {1, "x"}};

static int function_named(const char *name) {
    for (int i = 0; i < NFUNCTIONS; i++)
        if (!strcmp(function_name[i], name)) return i;
    return -1;
}

bool is_function_name(const char *name) {
    return function_named(name) >= 0;
}

bool is_function(const Lower *lower, const Expr *call) {
    if (function_named(call->text) < 0) return false;
    if (op_find(call->text) < 0) return true;
    for (const Expr *item = call->items; item; item = item->next)
        if (!is_number(lower, item)) return false;
    return call->nitems > 0;
}

/* The size of a tensor along an axis; its number of dimensions where axis is NULL. what: "size", for messages. */
static bool eval_size(Lower *lower, const Expr *expr, const char *what, const Expr *tensor, const Expr *axis_expr, Number *number) {
    Operand operand;
    int64_t axis = 0;
    if (!operand_lower(lower, tensor, &operand)) return false;
    if (operand.value < 0) {
        diag_error(lower->diags, lower_span(lower, tensor->loc), "%s is about a tensor, and this is a number", what);
        return false;
    }
    const TensorType *type = &lower->graph->values.at[operand.value].type;
    int first = type->hidden ? 1 : 0, n = type->shape.ndim - first;
    *number = integer(n);
    if (!axis_expr) return true;
    if (n == 0) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "a scalar has no sizes");
        return false;
    }
    if (!integer_eval(lower, axis_expr, "an axis", -n, n - 1, &axis)) return false;
    axis += first + (axis < 0 ? n : 0);
    *number = integer(type->shape.dim[axis]);
    number->power = axis == first && value_has_rows(lower->graph, operand.value);
    return true;
}

/* x.NAME */
static bool is_member(const Expr *expr, const char *name) {
    return expr->kind == EXPR_PATH && strcmp(expr->last->text, name) == 0;
}

/* x.shape[0], x.ndim */
static bool is_size(const Expr *expr) {
    return is_member(expr, "ndim") ||
           (expr->kind == EXPR_INDEX && expr->nitems == 2 && is_member(expr->items, "shape") && expr->last->kind != EXPR_RANGE);
}

static bool size_eval(Lower *lower, const Expr *expr, Number *number) {
    const bool shape = expr->kind == EXPR_INDEX;
    return eval_size(lower, expr, shape ? ".shape" : ".ndim", member_base(lower, shape ? expr->items : expr), shape ? expr->last : NULL,
                     number);
}

static bool eval_ceil_div(Lower *lower, const Expr *call, Number a, Number b, Number *number) {
    if (a.real || b.real || a.i < 0 || b.i <= 0) {
        diag_error(lower->diags, lower_span(lower, call->loc), "ceil_div takes integers, a from 0 and b from 1, not %s and %s",
                   number_text(lower->arena, a), number_text(lower->arena, b));
        return false;
    }
    *number = integer(a.i / b.i + (a.i % b.i != 0));
    return true;
}

bool function_eval(Lower *lower, const Expr *call, Number *number) {
    int which = function_named(call->text);
    Number arguments[2] = {{0}, {0}};
    int n = 0;
    for (const Expr *item = call->items; item; item = item->next)
        n += item->kind != EXPR_KEYWORD;
    if (n != functions[which].narguments || n != call->nitems) {
        diag_error(lower->diags, lower_span(lower, call->loc), "%s takes %d argument%s without names", call->text,
                   functions[which].narguments, functions[which].narguments == 1 ? "" : "s");
        diag_hint(lower->diags, "it is called %s(%s)", call->text, functions[which].parameters);
        return false;
    }
    if (which == SIZE || which == NDIM)
        return eval_size(lower, call, call->text, call->items, which == SIZE ? call->items->next : NULL, number);
    n = 0;
    for (const Expr *item = call->items; item; item = item->next)
        if (!number_eval(lower, item, &arguments[n++])) return false;
    Number a = arguments[0], b = arguments[1];
    switch ((Function)which) {
    case SQRT:
        if (a.f < 0) {
            diag_error(lower->diags, lower_span(lower, call->loc), "the square root of %s", number_text(lower->arena, a));
            return false;
        }
        *number = (Number){.real = true, .f = sqrt(a.f)};
        return true;
    case MIN:
    case MAX: {
        bool first = which == MIN ? (a.real || b.real ? a.f <= b.f : a.i <= b.i) : (a.real || b.real ? a.f >= b.f : a.i >= b.i);
        *number = first ? a : b;
        return true;
    }
    case CEIL_DIV:
        return eval_ceil_div(lower, call, a, b, number);
    case SIZE:
    case NDIM:
        break;
    }
    return false;
}

/* ---------------------------------------------------------------- expressions */

/* true and false are the numbers 1 and 0; Python's True and False too. */
static bool is_true(const Expr *expr) {
    return expr->kind == EXPR_NAME && (!strcmp(expr->text, "true") || !strcmp(expr->text, "True"));
}
bool is_truth(const Expr *expr) {
    return is_true(expr) || (expr->kind == EXPR_NAME && (!strcmp(expr->text, "false") || !strcmp(expr->text, "False")));
}

bool is_number(const Lower *lower, const Expr *expr) {
    expr = unbracket(expr);
    switch ((ExprKind)expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
        return true;
    case EXPR_NAME: {
        const Symbol *symbol = names_look(lower, expr->text);
        return (symbol && symbol->kind == SYMBOL_NUMBER) || is_truth(expr);
    }
    case EXPR_NEG:
    case EXPR_NOT:
        return is_number(lower, expr->items);
    case EXPR_CALL:
        return is_function(lower, expr);
    case EXPR_BINARY:
        return is_number(lower, expr->items) && is_number(lower, expr->last);
    case EXPR_STRING:
    case EXPR_LIST:
    case EXPR_TUPLE:
    case EXPR_KEYWORD:
    case EXPR_DASH:
    case EXPR_RANGE:
    case EXPR_SHARD:
        return false;
    case EXPR_PATH:
    case EXPR_INDEX:
        return is_size(expr);
    }
    return false;
}

static bool overflow(Lower *lower, const Expr *expr) {
    diag_error(lower->diags, lower_span(lower, expr->loc), "the result does not fit in a 64-bit integer");
    return false;
}

bool number_negate(Lower *lower, const Expr *expr, Number *number) {
    if (number->real)
        number->f = -number->f;
    else if (number->i == INT64_MIN)
        return overflow(lower, expr);
    else
        *number = (Number){.i = -number->i, .f = -(double)number->i, .power = number->power};
    return true;
}

/* Computes on integers, op one of + - *; false where the result does not fit. */
static bool combine_checked(char op, int64_t a, int64_t b, int64_t *result) {
    if (op == '*') return mul_checked(a, b, result);
    if (op == '-' && b == INT64_MIN) return a < 0 ? (*result = a - b, true) : false;
    if (op == '-') b = -b;
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) return false;
    *result = a + b;
    return true;
}

static bool combine_reals(Lower *lower, const Expr *expr, double a, double b, Number *number) {
    double f = 0;
    switch (expr->op) {
    case '+':
        f = a + b;
        break;
    case '-':
        f = a - b;
        break;
    case '*':
        f = a * b;
        break;
    case '/':
        f = a / b;
        break;
    default: /* '%' */
        diag_error(lower->diags, lower_span(lower, expr->loc), "%% takes integers");
        return false;
    }
    if (!isfinite(f)) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "the result does not fit in a 64-bit float");
        return false;
    }
    *number = (Number){.real = true, .f = f};
    return true;
}

/* *holds: whether a comparison or a logical operator holds; false: op is neither. */
static bool compare(char op, Number left, Number right, bool *holds) {
    bool whole = !left.real && !right.real;
    int order = whole ? (left.i > right.i) - (left.i < right.i) : (left.f > right.f) - (left.f < right.f);
    switch (op) {
    case '<':
        *holds = order < 0;
        return true;
    case '>':
        *holds = order > 0;
        return true;
    case 'l':
        *holds = order <= 0;
        return true;
    case 'g':
        *holds = order >= 0;
        return true;
    case '=':
        *holds = order == 0;
        return true;
    case '!':
        *holds = order != 0;
        return true;
    case '&':
        *holds = left.f != 0 && right.f != 0;
        return true;
    case '|':
        *holds = left.f != 0 || right.f != 0;
        return true;
    default:
        return false;
    }
}

/* An integer to the power of an integer of at least 0 is an integer. */
static bool combine_power(Lower *lower, const Expr *expr, Number left, Number right, Number *number) {
    if (!left.real && !right.real && right.i >= 0) {
        const bool stays = left.i >= -1 && left.i <= 1; /* powers of -1, 0, 1 stay small; others overflow soon */
        int64_t result = 1;
        for (int64_t left_over = stays ? (right.i > 0) + (right.i > 0 && right.i % 2 == 0) : right.i; left_over > 0; left_over--)
            if (!mul_checked(result, left.i, &result)) return overflow(lower, expr);
        *number = integer(result);
        return true;
    }
    const double f = pow(left.f, right.f);
    if (isfinite(f)) {
        *number = (Number){.real = true, .f = f};
        return true;
    }
    diag_error(lower->diags, lower_span(lower, expr->loc), "%s ** %s is no number", number_text(lower->arena, left),
               number_text(lower->arena, right));
    return false;
}

static bool combine(Lower *lower, const Expr *expr, Number left, Number right, Number *number) {
    bool holds;
    if (expr->op == '^') return combine_power(lower, expr, left, right, number);
    if (expr->op == '@') {
        diag_error(lower->diags, lower_span(lower, expr->loc), "@ is the product of matrices, and these are numbers");
        diag_hint(lower->diags, "a product of numbers is written with '*'");
        return false;
    }
    if (compare(expr->op, left, right, &holds)) {
        *number = integer(holds);
        return true;
    }
    if ((expr->op == '/' || expr->op == '%') && right.f == 0) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "division by zero: %s %c %s", number_text(lower->arena, left), expr->op,
                   number_text(lower->arena, right));
        return false;
    }
    if (left.real || right.real) return combine_reals(lower, expr, left.f, right.f, number);
    int64_t a = left.i, b = right.i, result;
    if (expr->op == '/' || expr->op == '%') {
        if (a == INT64_MIN && b == -1) return overflow(lower, expr);
        if (expr->op == '/' && a % b != 0) {
            diag_error(lower->diags, lower_span(lower, expr->loc), "%lld / %lld is not an integer", (long long)a, (long long)b);
            diag_hint(lower->diags, "the division of integers must be exact; %lld.0 / %lld is the real number %g", (long long)a,
                      (long long)b, (double)a / (double)b);
            return false;
        }
        *number = integer(expr->op == '/' ? a / b : a % b);
        return true;
    }
    if (!combine_checked(expr->op, a, b, &result)) return overflow(lower, expr);
    *number = integer(result);
    return true;
}

enum { MAX_ROW_POWER = 64 };

bool number_combine(Lower *lower, const Expr *expr, Number left, Number right, Number *number) {
    if (!combine(lower, expr, left, right, number)) return false;
    if (expr->op == '*') number->power = left.power + right.power;
    if (expr->op == '^' && !right.real && right.i >= 0 && right.i <= MAX_ROW_POWER) number->power = left.power * (int)right.i;
    if (expr->op == '/') number->power = left.power - right.power;
    return true;
}

static bool name_number(Lower *lower, const Expr *name, Number *number) {
    if (is_truth(name)) {
        *number = integer(is_true(name));
        return true;
    }
    const Symbol *symbol = names_use(lower, name->text, name->loc);
    if (!symbol) return false;
    if (symbol->kind != SYMBOL_NUMBER) {
        diag_error(lower->diags, lower_span(lower, name->loc), "a number is needed here, and %s is a tensor", name->text);
        note_defined(lower, symbol);
        return false;
    }
    *number = symbol->number;
    return true;
}

static bool binary_number(Lower *lower, const Expr *expr, Number *number) {
    Number left, right;
    if (!number_eval(lower, expr->items, &left)) return false;
    /* Short circuit: `n > 0 and 12 / n > 1` is valid for n = 0. */
    if ((expr->op == '&' && left.f == 0) || (expr->op == '|' && left.f != 0)) {
        *number = integer(left.f != 0);
        return true;
    }
    return number_eval(lower, expr->last, &right) && number_combine(lower, expr, left, right, number);
}

/* The call of a cell that returns a number. */
static bool cell_number(Lower *lower, const Expr *call, Number *number) {
    Operand operand;
    if (!operand_lower(lower, call, &operand)) return false;
    *number = operand.number;
    if (operand.value < 0) return true;
    diag_error(lower->diags, lower_span(lower, call->loc), "a number is needed here, and the result of %s is a tensor", call->text);
    return false;
}

bool number_eval(Lower *lower, const Expr *expr, Number *number) {
    expr = unbracket(expr);
    Span span = lower_span(lower, expr->loc);
    if (!lower_work(lower, expr->loc)) return false;
    switch ((ExprKind)expr->kind) {
    case EXPR_INT:
        *number = integer(expr->integer);
        return true;
    case EXPR_FLOAT:
        *number = (Number){.real = true, .f = expr->real};
        return true;
    case EXPR_NAME:
        return name_number(lower, expr, number);
    case EXPR_NEG:
        return number_eval(lower, expr->items, number) && number_negate(lower, expr, number);
    case EXPR_NOT:
        if (!number_eval(lower, expr->items, number)) return false;
        *number = integer(number->f == 0);
        return true;
    case EXPR_BINARY:
        return binary_number(lower, expr, number);
    case EXPR_DASH:
        diag_error(lower->diags, span, "a number is needed here");
        return false;
    case EXPR_STRING:
        diag_error(lower->diags, span, "a number is needed here, not a text");
        return false;
    case EXPR_LIST:
        diag_error(lower->diags, span, "a single number is needed here, not a list");
        return false;
    case EXPR_TUPLE:
        diag_error(lower->diags, span, "a single number is needed here, not a tuple");
        return false;
    case EXPR_CALL:
        if (function_named(expr->text) >= 0) return function_eval(lower, expr, number);
        if (cell_called(lower, expr)) return cell_number(lower, expr, number);
        diag_error(lower->diags, span, "a number is needed here, and %s(...) is none", expr->text);
        return false;
    case EXPR_KEYWORD:
        diag_error(lower->diags, span, "a number is needed here, not '%s = ...'", expr->text);
        return false;
    case EXPR_PATH:
    case EXPR_INDEX:
        if (is_size(expr)) return size_eval(lower, expr, number);
        diag_error(lower->diags, span, "a number is needed here, and this is none");
        diag_hint(lower->diags, "numbers of a tensor x are x.shape[0] and x.ndim");
        return false;
    case EXPR_RANGE:
        diag_error(lower->diags, span, "a single number is needed here, not a range");
        return false;
    case EXPR_SHARD:
        diag_error(lower->diags, span, "a number is needed here, and a number has no strategy");
        return false;
    }
    return false;
}

bool condition_eval(Lower *lower, const Expr *expr, bool *holds) {
    Number number;
    if (!number_eval(lower, expr, &number)) return false;
    *holds = number.f != 0;
    return true;
}

bool integer_eval(Lower *lower, const Expr *expr, const char *what, int64_t least, int64_t most, int64_t *value) {
    Number number;
    if (!number_eval(lower, expr, &number)) return false;
    Span span = lower_span(lower, expr->loc);
    if (number.real) {
        diag_error(lower->diags, span, "%s is an integer, not %s", what, number_text(lower->arena, number));
        return false;
    }
    if (number.i < least || number.i > most) {
        if (most == INT64_MAX)
            diag_error(lower->diags, span, "%s is at least %lld, not %lld", what, (long long)least, (long long)number.i);
        else
            diag_error(lower->diags, span, "%s is %lld to %lld, not %lld", what, (long long)least, (long long)most, (long long)number.i);
        return false;
    }
    *value = number.i;
    return true;
}

bool bytes_eval(Lower *lower, const Expr *expr, const char *what, int64_t least, int64_t *value) {
    Number number;
    if (!number_eval(lower, expr, &number)) return false;
    const bool fits = fabs(number.f) < 0x1p63, whole = number.real && fits && number.f == floor(number.f);
    const int64_t bytes = whole ? (int64_t)number.f : number.i;
    const Span span = lower_span(lower, expr->loc);
    if (number.real && !fits)
        diag_error(lower->diags, span, "%s is %lld to %lld bytes, not %s", what, (long long)least, (long long)INT64_MAX,
                   number_text(lower->arena, number));
    else if (number.real && !whole)
        diag_error(lower->diags, span, "%s is a whole number of bytes, not %s", what, number_text(lower->arena, number));
    else if (bytes < least)
        diag_error(lower->diags, span, "%s is at least %lld, not %lld", what, (long long)least, (long long)bytes);
    else
        return *value = bytes, true;
    diag_hint(lower->diags, "%s = 1.5 GiB; KiB, MiB and TiB likewise, a whole number of bytes without a unit", what);
    return false;
}

bool real_eval(Lower *lower, const Expr *expr, const char *what, double least, double most, double *value) {
    Number number;
    if (!number_eval(lower, expr, &number)) return false;
    if (number.f < least || number.f > most) {
        Span span = lower_span(lower, expr->loc);
        if (most == DBL_MAX)
            diag_error(lower->diags, span, "%s is at least %g, not %s", what, least, number_text(lower->arena, number));
        else
            diag_error(lower->diags, span, "%s is %g to %g, not %s", what, least, most, number_text(lower->arena, number));
        return false;
    }
    *value = number.f;
    return true;
}

bool number_fits(Lower *lower, const Expr *expr, Number number, DType dtype) {
    Span span = lower_span(lower, expr->loc);
    const char *text = number_text(lower->arena, number);
    switch (dtype) {
    case F32:
    case BF16:
    case F16:
        if (fabs(number.f) <= (dtype == F16 ? 65504.0 : dtype == BF16 ? 0x1.fep127 : (double)FLT_MAX)) return true;
        diag_error(lower->diags, span, "%s is too large for %s", text, dtype_name[dtype]);
        return false;
    case F64:
        return true;
    case I32:
        if (!number.real && number.i >= INT32_MIN && number.i <= INT32_MAX) return true;
        diag_error(lower->diags, span, number.real ? "i32 holds integers, not %s" : "%s is out of the range of i32", text);
        return false;
    case I64: /* literals are kept as doubles */
        if (!number.real && number.i >= -(INT64_C(1) << 53) && number.i <= INT64_C(1) << 53) return true;
        diag_error(lower->diags, span, number.real ? "i64 holds integers, not %s" : "%s is beyond 2^53", text);
        return false;
    case BOOL:
        if (!number.real && (number.i == 0 || number.i == 1)) return true;
        diag_error(lower->diags, span, "bool is 0 or 1, not %s", text);
        return false;
    case NDTYPES:
        break;
    }
    return false;
}
