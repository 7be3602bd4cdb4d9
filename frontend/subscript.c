/* Forms that stand for one operator or a few: x[0], x[:, 1:3], x[..., None] are a slice and a reshape; x.T a transpose; x ** 2 a square. */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

enum { MAX_POWER = 64 }; /* of a tensor: six squares */

static const TensorType *type_of(const Lower *lower, int value) {
    return &lower->graph->values.at[value].type;
}

/* The number of the user's dimensions, without the hidden one, and their sizes. */
static int dims_of(const TensorType *type, const int64_t **dim) {
    *dim = type->shape.dim + type->hidden;
    return type->shape.ndim - type->hidden;
}

/* ---------------------------------------------------------------- x[..] */

/* The region of a tensor that subscripts select. */
typedef struct Region {
    Attr attr[MAX_ATTRS]; /* of slice: begin, end */
    Attr shape;           /* of reshape */
    bool cuts, reshapes;
} Region;

static bool is_word(const Expr *expr, const char *word) {
    return expr->kind == EXPR_NAME && !strcmp(expr->text, word);
}

static bool subscript_error(Lower *lower, const Expr *item, const char *what, const char *hint) {
    diag_error(lower->diags, lower_span(lower, item->loc), "%s", what);
    diag_hint(lower->diags, "%s", hint);
    return false;
}

/* One bound of a range; left out: `missing`. */
static bool bound_eval(Lower *lower, const Expr *bound, int64_t missing, int64_t *value) {
    *value = missing;
    return bound->kind == EXPR_DASH || integer_eval(lower, bound, "a bound", -((int64_t)1 << 48), (int64_t)1 << 48, value);
}

/* Applies a subscript to dimension d, of size n. */
static bool subscript_eval(Lower *lower, const Expr *item, int d, int64_t n, Region *region) {
    int64_t *begin = &region->attr[0].ints[d], *end = &region->attr[1].ints[d];
    const Expr *plain = unbracket(item);
    *begin = 0;
    *end = n;
    if (plain->kind == EXPR_RANGE) {
        const Expr *last = plain->items->next, *step = last->next;
        int64_t by = 1;
        if (step && (!bound_eval(lower, step, 1, &by) || by != 1 || step->next))
            return subscript_error(lower, item, "a range takes every element: there are no steps", "x[0:2] are the elements 0 and 1");
        if (!bound_eval(lower, plain->items, 0, begin) || !bound_eval(lower, last, n, end)) return false;
        const int64_t from = *begin < 0 ? *begin + n : *begin, to = *end < 0 ? *end + n : *end;
        if (from < 0 || from >= to || to > n) {
            diag_error(lower->diags, lower_span(lower, item->loc), "%lld:%lld is no part of dimension %d, which has size %lld",
                       (long long)*begin, (long long)*end, d, (long long)n);
            return false;
        }
        region->cuts |= from != 0 || to != n;
        *begin = from;
        *end = to;
        region->shape.ints[region->shape.n++] = to - from;
        return true;
    }
    if (plain->kind == EXPR_LIST || plain->kind == EXPR_TUPLE)
        return subscript_error(lower, item, "a subscript is a number or a range, not a list",
                               "concat(x[0:1], x[2:3]) joins parts; embedding(x, index) takes rows by an index");
    if (!is_number(lower, plain)) {
        Operand operand;
        if (!operand_lower(lower, plain, &operand)) return false;
        if (operand.value >= 0)
            return subscript_error(lower, item, "a subscript is a number that is known when the net is compiled, and this is a tensor",
                                   "embedding(table, index) takes rows by an index, pick(x, index) one element of each row");
    }
    if (!integer_eval(lower, plain, "a subscript", -n, n - 1, begin)) return false;
    if (*begin < 0) *begin += n;
    *end = *begin + 1;
    region->cuts |= n > 1;
    region->reshapes = true;
    return true;
}

static bool region_eval(Lower *lower, const Expr *expr, const int64_t *dim, int n, Region *region) {
    int given = 0, d = 0;
    bool elided = false;
    for (const Expr *item = expr->items->next; item; item = item->next)
        given += !is_word(item, "...") && !is_word(item, "None");
    if (given > n) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "%d subscripts for a tensor of %d dimension%s", given, n, n == 1 ? "" : "s");
        return false;
    }
    *region = (Region){.attr = {{.given = true, .n = n}, {.given = true, .n = n}}, .shape = {.given = true}};
    for (const Expr *item = expr->items->next; item; item = item->next) {
        if (region->shape.n >= MAX_NDIM - 1) {
            diag_error(lower->diags, lower_span(lower, item->loc), "a tensor has at most %d dimensions", (int)MAX_NDIM - 1);
            return false;
        }
        if (is_word(item, "None")) {
            region->shape.ints[region->shape.n++] = 1;
            region->reshapes = true;
        } else if (!is_word(item, "...")) {
            if (!subscript_eval(lower, item, d, dim[d], region)) return false;
            d++;
        } else if (elided) {
            return subscript_error(lower, item, "'...' stands once: it is all dimensions that have no subscript", "x[..., 0]");
        } else {
            elided = true;
            for (int left = n - given; left > 0 && region->shape.n < MAX_NDIM - 1; left--, d++) {
                region->attr[1].ints[d] = region->shape.ints[region->shape.n++] = dim[d];
                region->attr[0].ints[d] = 0;
            }
        }
    }
    for (; d < n && region->shape.n < MAX_NDIM - 1; d++) {
        region->attr[0].ints[d] = 0;
        region->attr[1].ints[d] = region->shape.ints[region->shape.n++] = dim[d];
    }
    if (d == n) return true;
    diag_error(lower->diags, lower_span(lower, expr->loc), "a tensor has at most %d dimensions", (int)MAX_NDIM - 1);
    return false;
}

bool index_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out) {
    Operand base;
    Region region;
    const int64_t *dim;
    *out = (Operand){.expr = expr, .value = -1};
    if (is_number(lower, expr)) return number_eval(lower, expr, &out->number);
    if (!operand_lower(lower, expr->items, &base)) return false;
    if (base.value < 0) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "a number has no elements");
        return false;
    }
    const TensorType type = *type_of(lower, base.value);
    const int n = dims_of(&type, &dim);
    if (!region_eval(lower, expr, dim, n, &region)) return false;
    base.expr = expr->items;
    *out = base;
    out->expr = expr;
    const Outcome inner = {0};
    if (region.cuts && !operator_lower(lower, OP_slice, expr, &base, 1, region.attr, NULL, region.reshapes ? &inner : outcome, out))
        return false;
    if (!region.reshapes) return true;
    base.value = out->value;
    const Attr attr[MAX_ATTRS] = {region.shape};
    return operator_lower(lower, OP_reshape, expr, &base, 1, attr, NULL, outcome, out);
}

/* ---------------------------------------------------------------- x.T */

const Expr *member_base(Lower *lower, const Expr *path) {
    if (path->nitems == 2) return path->items;
    Expr *base = arena_alloc(lower->arena, sizeof *base), **to = &base->items;
    *base = *path;
    base->nitems--;
    for (const Expr *item = path->items; item->next; item = item->next, to = &(*to)->next) {
        *to = arena_alloc(lower->arena, sizeof **to);
        **to = *item;
        (*to)->next = NULL;
        base->last = *to;
        base->loc.end = item->loc.end;
    }
    return base;
}

/* x.T of a matrix, x.mT of matrices: swaps the last two dimensions. */
static bool transposed(Lower *lower, const Expr *expr, Operand *base, const Outcome *outcome, Operand *out) {
    const int64_t *dim;
    const TensorType type = *type_of(lower, base->value);
    const int n = dims_of(&type, &dim);
    Attr attr[MAX_ATTRS] = {{.given = true, .n = n}};
    for (int d = 0; d < n; d++)
        attr[0].ints[d] = d < n - 2 ? d : 2 * n - 3 - d;
    const bool matrix = n == 2 || (n > 2 && !strcmp(expr->last->text, "mT"));
    if (matrix) return operator_lower(lower, OP_transpose, expr, base, 1, attr, NULL, outcome, out);
    diag_error(lower->diags, lower_span(lower, expr->loc), ".%s is the transpose of a matrix, and this is %s", expr->last->text,
               type_text(lower, &type));
    const char *perm = "";
    for (int d = 0; d < n; d++)
        perm = arena_printf(lower->arena, "%s%s%lld", perm, d ? ", " : "", (long long)attr[0].ints[d]);
    if (n > 2) diag_hint(lower->diags, "say where each dimension comes from: transpose(x, perm = [%s]); .mT swaps the last two", perm);
    return false;
}

bool member_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out) {
    const char *name = expr->last->text;
    *out = (Operand){.expr = expr, .value = -1};
    if (is_of_module(lower, expr)) return no_modules(lower, expr);
    if (is_number(lower, expr)) return number_eval(lower, expr, &out->number);
    Operand base;
    const Expr *before = member_base(lower, expr);
    if (!operand_lower(lower, before, &base)) return false;
    base.expr = before;
    const bool transposes = !strcmp(name, "T") || !strcmp(name, "mT");
    if (base.value >= 0 && transposes) return transposed(lower, expr, &base, outcome, out);
    const int op = op_find(name);
    if (base.value >= 0 && !strcmp(name, "shape")) {
        diag_error(lower->diags, lower_span(lower, expr->last->loc), "a shape is no tensor");
        diag_hint(lower->diags, "one size of it is x.shape[0]; reshape(y, x.shape) takes all");
        return false;
    }
    diag_error(lower->diags, lower_span(lower, expr->last->loc), "a %s has no '%s'", base.value < 0 ? "number" : "tensor", name);
    if ((op >= 0 && op_table[op].op_class == OP_CLASS_USER) || cell_find(lower, name))
        diag_hint(lower->diags, "it is called: x.%s(), or %s(x)", name, name);
    else
        diag_hint(lower->diags, "there are x.shape[0], x.ndim, x.T, and operators and cells, x.relu(); names have no '.'");
    return false;
}

/* ---------------------------------------------------------------- x ** n */

static bool power_of(Lower *lower, const Expr *expr, const Operand *base, int n, const Outcome *outcome, Operand *out) {
    const Outcome inner = {0};
    Operand operands[2] = {*base, *base};
    const bool even = n % 2 == 0;
    const int rest = even ? n / 2 : n - 1;
    if (rest > 1 && !power_of(lower, expr, base, rest, &inner, &operands[0])) return false;
    operands[0].expr = base->expr;
    return operator_lower(lower, even ? OP_square : OP_mul, expr, operands, even ? 1 : 2, NULL, NULL, outcome, out);
}

bool power_lower(Lower *lower, const Expr *expr, Operand *operands, const Outcome *outcome, Operand *out) {
    const Outcome inner = {0};
    const double power = operands[1].number.f;
    Operand *base = &operands[0];
    base->expr = expr->items;
    operands[1].expr = expr->last;
    if (operands[1].value >= 0 || base->value < 0) return operator_lower(lower, OP_pow, expr, operands, 2, NULL, NULL, outcome, out);
    if (power == 1) {
        *out = *base;
        out->expr = expr;
        return true;
    }
    if (power == 0.5) return operator_lower(lower, OP_sqrt, expr, base, 1, NULL, NULL, outcome, out);
    if (power == -0.5) return operator_lower(lower, OP_rsqrt, expr, base, 1, NULL, NULL, outcome, out);
    const double size = fabs(power);
    if (size >= 1 && size <= MAX_POWER && size == floor(size)) {
        if (power > 0) return power_of(lower, expr, base, (int)size, outcome, out);
        Operand ratio[2] = {{.expr = expr, .value = -1, .number = {.i = 1, .f = 1}}, *base};
        if (size > 1 && !power_of(lower, expr, base, (int)size, &inner, &ratio[1])) return false;
        ratio[1].expr = expr->items;
        return operator_lower(lower, OP_div, expr, ratio, 2, NULL, NULL, outcome, out);
    }
    return operator_lower(lower, OP_pow, expr, operands, 2, NULL, NULL, outcome, out);
}
