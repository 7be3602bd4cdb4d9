/* types: element types and shapes as written, literals, initial values, constants of files. */
#include "frontend/lower.h"
#include "ir/npy.h"

#include <math.h>
#include <string.h>

enum { USER_NDIM = MAX_NDIM - 1 };
static const int64_t max_elements = (int64_t)1 << 48; /* as for operators' results: bytes and products stay far from overflow */

const char *type_text(Lower *lower, const TensorType *type) {
    TensorType shown = *type;
    if (shown.hidden) {
        shown.hidden = false;
        memmove(shown.shape.dim, shown.shape.dim + 1, sizeof *shown.shape.dim * (size_t)--shown.shape.ndim);
    }
    Text text = {0};
    type_print(&text, &shown);
    const char *copy = arena_copy(lower->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static bool dtype_eval(Lower *lower, const TypeExpr *expr, DType *dtype) {
    static const struct {
        const char *name, *ours;
    } known[] = {{"float", "f32"},   {"float32", "f32"}, {"Float32", "f32"}, {"fp32", "f32"}, {"single", "f32"}, {"double", "f64"},
                 {"float64", "f64"}, {"Float64", "f64"}, {"fp64", "f64"},    {"int", "i32"},  {"int32", "i32"},  {"Int32", "i32"},
                 {"int64", "i64"},   {"Int64", "i64"},   {"long", "i64"},    {"Bool", "bool"}};
    if (dtype_parse(foreign_word("element type", expr->dtype), dtype)) return true;
    diag_error(lower->diags, lower_span(lower, expr->dtype_loc), "unknown element type '%s'", expr->dtype);
    const char *nearest = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, expr->dtype)) nearest = known[i].ours;
    if (nearest)
        diag_hint(lower->diags, "write %s; element types are f32, f64, i32, i64 and bool", nearest);
    else
        diag_hint(lower->diags, "element types are f32, f64, i32, i64 and bool");
    return false;
}

static bool size_fits(Lower *lower, Span span, const char *what, const TensorType *type) {
    int64_t elements, replicas = lower->hidden ? lower->graph->replicas : 1;
    if (type->shape.ndim > USER_NDIM) {
        diag_error(lower->diags, span, "%s has %d dimensions; a tensor has at most %d", what, type->shape.ndim, (int)USER_NDIM);
        return false;
    }
    for (int d = 0; d < type->shape.ndim; d++)
        if (type->shape.dim[d] < 1) {
            diag_error(lower->diags, span, "%s has no elements: dimension %d is %lld", what, d, (long long)type->shape.dim[d]);
            return false;
        }
    if (shape_count(&type->shape, &elements) && elements <= max_elements / replicas) return true;
    diag_error(lower->diags, span, "%s would have more than 2^48 elements", what);
    return false;
}

bool type_eval(Lower *lower, const TypeExpr *expr, const char *what, TensorType *type) {
    *type = (TensorType){0};
    if (!dtype_eval(lower, expr, &type->dtype)) return false;
    if (!expr->dims) return true;
    if (expr->dims->kind == EXPR_TUPLE) {
        const int n = expr->dims->loc.end - expr->dims->loc.begin - 2;
        diag_error(lower->diags, lower_span(lower, expr->dims->loc), "sizes stand in square brackets");
        diag_hint(lower->diags, "%s : %s[%.*s]", what, expr->dtype, n < 60 ? n : 0, lower->text + expr->dims->loc.begin + 1);
        return false;
    }
    if (expr->dims->nitems > USER_NDIM) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "%s has %d dimensions; a tensor has at most %d", what, expr->dims->nitems,
                   (int)USER_NDIM);
        return false;
    }
    bool ok = true;
    for (const Expr *dim = expr->dims->items; dim; dim = dim->next)
        ok &= integer_eval(lower, dim, "a size", 1, INT64_MAX, &type->shape.dim[type->shape.ndim++]);
    return ok && size_fits(lower, lower_span(lower, expr->loc), what, type);
}

/* ---------------------------------------------------------------- literals */

static const char *list_shape(Lower *lower, const TensorType *type, int level) {
    const char *text = "a number";
    for (int d = type->shape.ndim - 1; d >= level; d--)
        text = arena_printf(lower->arena, "a list of %lld %s", (long long)type->shape.dim[d],
                            d == type->shape.ndim - 1   ? "numbers"
                            : d == type->shape.ndim - 2 ? "lists"
                                                        : "lists of lists");
    return level < type->shape.ndim - 1 ? arena_printf(lower->arena, "a list of %lld lists", (long long)type->shape.dim[level]) : text;
}

static bool literal_level(Lower *lower, const Expr *expr, const TensorType *type, int level, double **at) {
    if (level == type->shape.ndim) {
        Number number;
        if (!number_eval(lower, expr, &number) || !number_fits(lower, expr, number, type->dtype)) return false;
        *(*at)++ = number.f;
        return true;
    }
    Span span = lower_span(lower, expr->loc);
    if (expr->kind != EXPR_LIST) {
        diag_error(lower->diags, span, "%s needs %s in brackets here", type_text(lower, type), list_shape(lower, type, level));
        if (expr->kind == EXPR_TUPLE) diag_hint(lower->diags, "tensors are written in square brackets: [[1, 2], [3, 4]]");
        return false;
    }
    if (expr->nitems != type->shape.dim[level]) {
        diag_error(lower->diags, span, "%d element%s, but dimension %d of %s has size %lld", expr->nitems, expr->nitems == 1 ? "" : "s",
                   level, type_text(lower, type), (long long)type->shape.dim[level]);
        return false;
    }
    for (const Expr *item = expr->items; item; item = item->next)
        if (!literal_level(lower, item, type, level + 1, at)) return false;
    return true;
}

bool literal_eval(Lower *lower, const Expr *expr, const TensorType *type, double *data) {
    return literal_level(lower, expr, type, 0, &data);
}

/* Memory for a literal of this type: at most as many elements as the text can hold, whatever the type claims. */
static double *literal_alloc(Lower *lower, const Expr *expr, const TensorType *type) {
    int64_t elements = shape_elements(&type->shape), written = expr->loc.end - expr->loc.begin;
    return arena_alloc(lower->arena, sizeof(double) * (size_t)(elements < written ? elements : written) + sizeof(double));
}

/* ---------------------------------------------------------------- initial values */

bool call_arguments(Lower *lower, const Expr *call, const char *const *parameters, int n, int nrequired, const Expr **arguments) {
    for (int i = 0; i < n; i++)
        arguments[i] = NULL;
    int position = 0;
    for (const Expr *item = call->kind == EXPR_CALL ? call->items : NULL; item; item = item->next) {
        int which = position;
        const Expr *value = item;
        Span span = lower_span(lower, item->loc);
        if (item->kind == EXPR_KEYWORD) {
            const char *word = foreign_word("argument", item->text);
            for (which = 0; which < n && strcmp(parameters[which], item->text) != 0 && strcmp(parameters[which], word) != 0;)
                which++;
            value = item->items;
            if (which == n) {
                const char *known = foreign_hint(lower->arena, "argument", item->text), *nearest = name_nearest(item->text, parameters, n);
                diag_error(lower->diags, span, "%s has no argument '%s'", call->text, item->text);
                if (known)
                    diag_hint(lower->diags, "%s", known);
                else if (nearest)
                    diag_hint(lower->diags, "did you mean %s?", nearest);
                return false;
            }
        } else if (position++ >= n) {
            diag_error(lower->diags, span, "%s takes at most %d argument%s", call->text, n, n == 1 ? "" : "s");
            return false;
        }
        if (arguments[which]) {
            diag_error(lower->diags, span, "%s is given twice", parameters[which]);
            return false;
        }
        arguments[which] = value;
    }
    for (int i = 0; i < nrequired; i++)
        if (!arguments[i]) {
            diag_error(lower->diags, lower_span(lower, call->loc), "%s needs %s", call->text, parameters[i]);
            return false;
        }
    return true;
}

static bool init_normal(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    (void)type;
    static const char *const parameters[] = {"std"};
    const Expr *argument[1];
    if (!call_arguments(lower, expr, parameters, 1, 1, argument)) {
        diag_hint(lower->diags, "the standard deviation: normal(0.01)");
        return false;
    }
    init->kind = INIT_NORMAL;
    return real_eval(lower, argument[0], "a standard deviation", 0, 1e30, &init->a);
}

static bool init_uniform(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    (void)type;
    static const char *const parameters[] = {"low", "high"};
    const Expr *argument[2];
    if (!call_arguments(lower, expr, parameters, 2, 2, argument)) {
        diag_hint(lower->diags, "the limits: uniform(-0.1, 0.1)");
        return false;
    }
    init->kind = INIT_UNIFORM;
    if (!real_eval(lower, argument[0], "a limit", -1e30, 1e30, &init->a) ||
        !real_eval(lower, argument[1], "a limit", -1e30, 1e30, &init->b))
        return false;
    if (init->a < init->b) return true;
    diag_error(lower->diags, lower_span(lower, expr->loc), "uniform's lower limit %g is not below its upper limit %g", init->a, init->b);
    return false;
}

static bool init_file(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    (void)type;
    static const char *const parameters[] = {"path"};
    const Expr *argument[1];
    if (!call_arguments(lower, expr, parameters, 1, 1, argument)) return false;
    const char *path = argument[0]->kind == EXPR_STRING ? argument[0]->text : NULL;
    size_t n = path ? strlen(path) : 0;
    if (n == 0) {
        diag_error(lower->diags, lower_span(lower, argument[0]->loc), "file takes the path of a .npy file as a text: file(\"w.npy\")");
        return false;
    }
    if (n < 4 || strcmp(path + n - 4, ".npy") != 0) {
        diag_error(lower->diags, lower_span(lower, argument[0]->loc), n > 60 ? "'%.60s...' is not a .npy file" : "'%s' is not a .npy file",
                   path);
        diag_hint(lower->diags, "numpy writes one with numpy.save(\"w.npy\", array)");
        return false;
    }
    init->kind = INIT_FILE;
    init->file = path[0] == '/' ? path : arena_printf(lower->arena, "%s%s", lower->directory, path);
    return true;
}

static bool init_is_weight(Lower *lower, const Expr *expr, const TensorType *type) {
    if (type->shape.ndim >= 2) return true;
    diag_error(lower->diags, lower_span(lower, expr->loc), "%s is for weights of two dimensions or more, and this is %s", expr->text,
               type_text(lower, type));
    return false;
}

/* Glorot and Bengio 2010: uniform, of variance 2 / (in + out). */
static bool init_xavier(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    const Expr *none[1];
    if (!call_arguments(lower, expr, NULL, 0, 0, none) || !init_is_weight(lower, expr, type)) return false;
    const int64_t *last = &type->shape.dim[type->shape.ndim - 2];
    init->kind = INIT_UNIFORM;
    init->b = sqrt(6 / ((double)last[0] + (double)last[1]));
    init->a = -init->b;
    return true;
}

/* He et al. 2015: normal, of variance 2 / fan_in, which is the rows of a weight [in, out] where it is left out. */
static bool init_kaiming(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    static const char *const parameters[] = {"fan_in"};
    const Expr *argument[1];
    if (!call_arguments(lower, expr, parameters, 1, 0, argument) || !init_is_weight(lower, expr, type)) return false;
    int64_t in = type->shape.dim[type->shape.ndim - 2];
    if (argument[0] && !integer_eval(lower, argument[0], "fan_in", 1, INT64_MAX, &in)) return false;
    init->kind = INIT_NORMAL;
    init->a = sqrt(2 / (double)in);
    return true;
}

/* 0 where the column is at most the row, else the number: added to scores, it masks later places (a causal mask). */
static bool init_causal(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    static const char *const parameters[] = {"behind"};
    enum { MOST_ELEMENTS = 1 << 22 };
    const Expr *argument[1];
    double behind;
    int n = type->shape.ndim;
    if (!call_arguments(lower, expr, parameters, 1, 1, argument) || !real_eval(lower, argument[0], "a number", -1e30, 1e30, &behind))
        return false;
    if (n != 2 || shape_elements(&type->shape) > MOST_ELEMENTS) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "causal is for a matrix of at most %d elements, and this is %s",
                   MOST_ELEMENTS, type_text(lower, type));
        return false;
    }
    int64_t rows = type->shape.dim[0], columns = type->shape.dim[1];
    double *data = arena_alloc(lower->arena, sizeof *data * (size_t)(rows * columns));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = i + 1; k < columns; k++)
            data[i * columns + k] = behind;
    init->kind = INIT_LITERAL;
    init->data = data;
    return true;
}

typedef bool InitFn(Lower *lower, const Expr *expr, const TensorType *type, Init *init);
static const struct {
    const char *name;
    InitKind kind;
    InitFn *eval; /* NULL: no arguments */
} inits[] = {{"zeros", INIT_ZEROS, NULL},           {"ones", INIT_ONES, NULL},
             {"normal", INIT_NORMAL, init_normal},  {"uniform", INIT_UNIFORM, init_uniform},
             {"xavier", INIT_UNIFORM, init_xavier}, {"kaiming", INIT_NORMAL, init_kaiming},
             {"causal", INIT_LITERAL, init_causal}, {"file", INIT_FILE, init_file}};
enum { NINITS = sizeof inits / sizeof *inits };

bool is_init_name(const char *name) {
    for (int i = 0; i < NINITS; i++)
        if (!strcmp(inits[i].name, name)) return true;
    return false;
}

/* The index in inits that a NAME or CALL names; -1 after a diagnostic. */
static int init_find(Lower *lower, const Expr *expr) {
    const char *names[NINITS];
    for (int i = 0; i < NINITS; i++)
        if (!strcmp(names[i] = inits[i].name, expr->text)) return i;
    const char *nearest = name_nearest(expr->text, names, NINITS);
    diag_error(lower->diags, lower_span(lower, expr->loc), "unknown initial value '%s'", expr->text);
    const char *known = foreign_hint(lower->arena, "initial value", expr->text);
    if (known)
        diag_hint(lower->diags, "%s", known);
    else if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(
            lower->diags,
            "there are: normal(std), uniform(low, high), xavier(), kaiming(), zeros, ones, a literal such as [1, 2], causal(-1e9), file(\"w.npy\")");
    return -1;
}

bool is_file_call(const Expr *expr) {
    const Expr *value = expr ? unbracket(expr) : NULL;
    return value && value->kind == EXPR_CALL && strcmp(value->text, "file") == 0;
}

bool file_type(Lower *lower, const Expr *expr, const char *what, const char *path, TensorType *type) {
    Error error = {0};
    NpyHeader header;
    const Span span = lower_span(lower, expr->loc);
    if (!npy_file_header(&header, lower->arena, path, &error)) {
        diag_error(lower->diags, span, "%s says no type, and that of the file cannot be read: %.900s", what, error.text);
        diag_hint(lower->diags, "with a type, const %s : f32[16, 32] = file(..), the file is read when training starts and not before",
                  what);
        return false;
    }
    *type = (TensorType){.dtype = header.dtype, .shape = header.shape};
    return size_fits(lower, span, what, type);
}

bool init_eval(Lower *lower, const Expr *expr, const TensorType *type, Init *init) {
    *init = (Init){0};
    const Expr *value = unbracket(expr);
    if (value->kind == EXPR_NAME && is_number(lower, value))
        value = expr;
    else if (value->kind == EXPR_NAME || value->kind == EXPR_CALL) {
        int found = init_find(lower, value);
        if (found < 0) return false;
        init->kind = inits[found].kind;
        if (inits[found].eval) return inits[found].eval(lower, value, type, init);
        const Expr *none[1];
        return call_arguments(lower, value, NULL, 0, 0, none);
    }
    if (type->shape.ndim > 0 && value->kind == EXPR_STRING) {
        diag_error(lower->diags, lower_span(lower, value->loc), "a text is no initial value");
        diag_hint(lower->diags, "did you mean file(\"%s\")?", value->text);
        return false;
    }
    double *data = literal_alloc(lower, value, type);
    if (!literal_eval(lower, value, type, data)) {
        if (type->shape.ndim > 0 && is_number(lower, value))
            diag_hint(lower->diags, "zeros and ones fill a tensor; see also normal and uniform");
        return false;
    }
    init->kind = INIT_LITERAL;
    init->data = data;
    return true;
}

bool constant_eval(Lower *lower, const Expr *expr, const TensorType *type, const double **data, double *splat) {
    Init init;
    *data = NULL;
    *splat = 0;
    if (!init_eval(lower, expr, type, &init)) return false;
    switch (init.kind) {
    case INIT_ZEROS:
        return true;
    case INIT_ONES:
        *splat = 1;
        return true;
    case INIT_LITERAL:
        *data = init.data;
        return true;
    case INIT_NORMAL:
    case INIT_UNIFORM:
    case INIT_FILE:
        break;
    }
    diag_error(lower->diags, lower_span(lower, expr->loc), "a constant is zeros, ones, causal(..), a literal or file(\"c.npy\")");
    diag_hint(lower->diags, "%s gives a param its initial value", unbracket(expr)->text);
    return false;
}
