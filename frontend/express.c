/* express: tensor expressions to nodes: operators, calls, numbers that become constants, names of results, strategies. */
#include "frontend/lower.h"

#include <string.h>

enum { QUOTE_BYTES = 24 }; /* of an operand's text in a message */

bool room_for_node(Lower *lower, Loc loc) {
    if (lower->graph->nodes.n < MAX_NODES) return true;
    /* Reported once: all that follows fails the same way. */
    if (!lower->full) diag_error(lower->diags, lower_span(lower, loc), "the net has more than %d operators", (int)MAX_NODES);
    lower->full = true;
    return false;
}

static const char *operand_text(Lower *lower, OpCode op, const Operand *operands, int i) {
    Loc loc = operands[i].expr->loc;
    int n = loc.end - loc.begin;
    const char *at = lower->text + loc.begin;
    if (n <= QUOTE_BYTES && !memchr(at, '\n', (size_t)n)) return arena_copy(lower->arena, at, (size_t)n);
    char name[64];
    op_in_name(op, i, name, sizeof name);
    return arena_printf(lower->arena, "operand %s", name);
}

/* "%0 has 32" with the operands as the user wrote them. */
static const char *fill_in(Lower *lower, OpCode op, const Operand *operands, int n, const char *format) {
    Text text = {0};
    for (const char *at = format; *at; at++) {
        int i = at[0] == '%' && at[1] >= '0' && at[1] <= '9' ? at[1] - '0' : -1;
        if (i >= 0 && i < n) {
            const char *name = operand_text(lower, op, operands, i);
            text_append(&text, name, strlen(name));
            at++;
        } else {
            text_append(&text, at, 1);
        }
    }
    const char *copy = arena_copy(lower->arena, text.n ? text.at : "", text.n);
    text_finish(&text);
    return copy;
}

static void note_operand(Lower *lower, OpCode op, const Operand *operands, int i) {
    const Expr *expr = unbracket(operands[i].expr);
    if (operands[i].value < 0 || expr->kind == EXPR_INT || expr->kind == EXPR_FLOAT) return;
    const Symbol *symbol = expr->kind == EXPR_NAME ? names_find(&lower->names, expr->text) : NULL;
    if (symbol) {
        note_defined(lower, symbol);
        return;
    }
    const TensorType *type = &lower->graph->values.at[operands[i].value].type;
    diag_note(lower->diags, lower_span(lower, expr->loc), "%s is %s", operand_text(lower, op, operands, i), type_text(lower, type));
}

static bool reject(Lower *lower, OpCode op, const Expr *expr, const Operand *operands, int n, const Expr *const *attr_expr,
                   const RuleError *error) {
    bool at_attr = error->attr >= 0 && attr_expr && attr_expr[error->attr];
    Span span = lower_span(lower, at_attr ? attr_expr[error->attr]->loc : expr->loc);
    diag_error(lower->diags, span, "%s: %s", op_table[op].name, fill_in(lower, op, operands, n, error->text));
    if (error->operand >= 0 && error->operand < n) note_operand(lower, op, operands, error->operand);
    if (error->hint[0]) diag_hint(lower->diags, "%s", fill_in(lower, op, operands, n, error->hint));
    return false;
}

/* The element type for a number that is operand `at`: that of the tensors that it must agree with. */
static DType lifted_type(const Lower *lower, OpCode op, const Operand *operands, int n, int at) {
    DType dtype = op_type(op, false, at) == 'i' ? I32 : F32;
    for (int i = n - 1; i >= 0; i--)
        if (operands[i].value >= 0 && op_type(op, false, i) == op_type(op, false, at))
            dtype = lower->graph->values.at[operands[i].value].type.dtype;
    return dtype;
}

/* Turns a number beside a tensor into a scalar constant of the tensor's element type. */
static bool lift(Lower *lower, Operand *operand, DType dtype) {
    if (!number_fits(lower, operand->expr, operand->number, dtype)) return false;
    Span span = lower_span(lower, operand->expr->loc);
    int constant = graph_constant(lower->graph, (TensorType){.dtype = dtype}, NULL, operand->number.f, NULL, span);
    operand->value = graph_replicate(lower->graph, constant, NULL, span);
    if (operand->number.power != 0) vec_push(lower->arena, &lower->rows.numbers, (BatchNumber){operand->value, operand->number.power});
    return true;
}

/* Checks that there is one name per result: one, unless the statement names several and this is its outermost operator (only that is named). */
static bool check_results(Lower *lower, const Expr *expr, const Node *node, bool outermost) {
    const int wanted = outermost ? lower->nresults : 1, named = op_named(node->op, node->nout);
    if (named == wanted) return true;
    const char *op = op_table[node->op].name;
    const Span span = lower_span(lower, expr->loc);
    if (!outermost)
        diag_error(lower->diags, span, "%s has %d results and cannot be an operand", op, named);
    else
        diag_error(lower->diags, span, "%s has %d result%s, and here %s %d name%s", op, named, named == 1 ? "" : "s",
                   wanted == 1 ? "is" : "are", wanted, wanted == 1 ? "" : "s");
    if (named == 1) return false;
    const char *names = "a";
    for (int i = 1; i < named; i++)
        names = arena_printf(lower->arena, "%s, %c", names, 'a' + i);
    diag_hint(lower->diags, "give each a name: %s = %s(...);", names, op);
    return false;
}

/* Hints can name an operator inside an expression by its path; own: the strategy written at it, or NULL. */
static bool hint_inner(Lower *lower, const Expr *expr, int value, const Given *own) {
    const Given *given;
    if (!hint_choose(lower, value_hintable(lower, value), own, &given)) return false;
    mark_operator(lower, value);
    return !given || attach_hint(lower, expr, value, given);
}

bool operator_lower(Lower *lower, OpCode op, const Expr *expr, Operand *operands, int n, const Attr *attr, const Expr *const *attr_expr,
                    const Outcome *outcome, Operand *out) {
    Span span = lower_span(lower, expr->loc);
    if (!room_for_node(lower, expr->loc)) return false;
    int first = 0, in[MAX_IN] = {0};
    while (first < n && operands[first].value < 0)
        first++;
    if (first == n) {
        diag_error(lower->diags, span, "%s needs a tensor, and here are only numbers", op_table[op].name);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (operands[i].value < 0 && !lift(lower, &operands[i], lifted_type(lower, op, operands, n, i))) return false;
        in[i] = operands[i].value;
    }
    RuleError error = {.operand = -1, .attr = -1};
    const char *name = outcome->name ? outcome->name : inner_path(lower, op_table[op].name, expr->loc);
    int node = name ? graph_add(lower->graph, op, in, n, attr, name, span, &error) : -1;
    if (!name) return false;
    if (node < 0) return reject(lower, op, expr, operands, n, attr_expr, &error);
    if (!check_results(lower, expr, &lower->graph->nodes.at[node], outcome->name != NULL)) return false;
    *out = (Operand){.expr = expr, .value = lower->graph->nodes.at[node].out[0]};
    return outcome->name || hint_inner(lower, expr, out->value, outcome->own);
}

/* ---------------------------------------------------------------- calls */

bool attr_bool(Lower *lower, const Expr *value, const char *name, int64_t *out) {
    const Expr *plain = unbracket(value);
    const bool other = plain->kind == EXPR_INT && (plain->integer < 0 || plain->integer > 1);
    if (!other && is_number(lower, plain)) return integer_eval(lower, plain, name, 0, 1, out);
    diag_error(lower->diags, lower_span(lower, value->loc), "%s is true or false", name);
    return false;
}

static bool is_list(const Expr *expr) {
    return expr->kind == EXPR_LIST || expr->kind == EXPR_TUPLE;
}

/* shape = x.shape */
static bool attr_shape(Lower *lower, const Expr *value, Attr *attr) {
    Operand operand;
    if (!operand_lower(lower, member_base(lower, value), &operand)) return false;
    if (operand.value < 0) {
        diag_error(lower->diags, lower_span(lower, value->loc), "a number has no shape");
        return false;
    }
    const TensorType *type = &lower->graph->values.at[operand.value].type;
    for (int d = type->hidden; d < type->shape.ndim; d++)
        attr->ints[attr->n++] = type->shape.dim[d];
    return true;
}

/* A list, or numbers one after the other: reshape(x, 4, -1). */
static bool attr_ints(Lower *lower, const Expr *value, const char *name, Attr *attr) {
    if (value->kind == EXPR_PATH && !strcmp(value->last->text, "shape") && attr->n == 0) return attr_shape(lower, value, attr);
    int n = is_list(value) ? value->nitems : attr->n + 1;
    if (n > MAX_NDIM - 1) {
        diag_error(lower->diags, lower_span(lower, value->loc), "%s has %d numbers; a tensor has at most %d dimensions", name, n,
                   MAX_NDIM - 1);
        return false;
    }
    for (const Expr *item = is_list(value) ? value->items : value; item; item = is_list(value) ? item->next : NULL)
        if (!integer_eval(lower, item, name, -((int64_t)1 << 48), (int64_t)1 << 48, &attr->ints[attr->n++])) return false;
    return true;
}

static bool attr_eval(Lower *lower, const AttrSpec *spec, const Expr *value, Attr *attr) {
    attr->given = true;
    switch (spec->kind) {
    case ATTR_BOOL:
        return attr_bool(lower, value, spec->name, &attr->i);
    case ATTR_INT: /* [1] is 1 */
        if (is_list(value) && value->nitems != 1) {
            diag_error(lower->diags, lower_span(lower, value->loc), "%s is a single number", spec->name);
            return false;
        }
        if (is_list(value)) value = value->items;
        return integer_eval(lower, value, spec->name, INT32_MIN, INT32_MAX, &attr->i);
    case ATTR_FLOAT:
        return real_eval(lower, value, spec->name, -1e300, 1e300, &attr->f);
    case ATTR_INTS:
        return attr_ints(lower, value, spec->name, attr);
    case ATTR_TEXT:
        if (value->kind == EXPR_NAME || value->kind == EXPR_STRING) {
            attr->text = strcmp(spec->name, "to") ? value->text : foreign_word("element type", value->text);
            return true;
        }
        diag_error(lower->diags, lower_span(lower, value->loc), "%s is a word", spec->name);
        return false;
    case ATTR_NONE:
        break;
    }
    return false;
}

static int find_operand(OpCode op, const char *name) {
    char own[64];
    for (int i = 0; i < op_nin(op); i++) {
        op_in_name(op, i, own, sizeof own);
        if (!strcmp(own, name)) return i;
    }
    return -1;
}

static bool unknown_argument(Lower *lower, OpCode op, const Expr *item) {
    char operands[MAX_IN][64];
    const char *names[MAX_IN + MAX_ATTRS];
    int n = 0;
    for (; n < op_nin(op); n++) {
        op_in_name(op, n, operands[n], sizeof operands[n]);
        names[n] = operands[n];
    }
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++)
        names[n++] = op_table[op].attrs[a].name;
    const char *list = names[0];
    for (int i = 1; i < n; i++)
        list = arena_printf(lower->arena, "%s, %s", list, names[i]);
    const char *nearest = name_nearest(item->text, names, n);
    diag_error(lower->diags, lower_span(lower, item->loc), "%s has no argument '%s'", op_table[op].name, item->text);
    const char *known = foreign_hint(lower->arena, "argument", item->text);
    if (known)
        diag_hint(lower->diags, "%s", known);
    else if (nearest)
        diag_hint(lower->diags, "did you mean %s? It takes: %s", nearest, list);
    else
        diag_hint(lower->diags, "it takes: %s", list);
    return false;
}

static bool too_many(Lower *lower, OpCode op, const Expr *item) {
    const Op *row = &op_table[op];
    int nin = op_nin(op);
    if (row->variadic && is_number(lower, item))
        diag_error(lower->diags, lower_span(lower, item->loc), "%s takes tensors", row->name);
    else if (row->variadic)
        diag_error(lower->diags, lower_span(lower, item->loc), "%s takes at most %d operands", row->name, (int)MAX_IN);
    else
        diag_error(lower->diags, lower_span(lower, item->loc), "%s takes %d operand%s (%s)", row->name, nin, nin == 1 ? "" : "s", row->ins);
    const char *attr = item->kind == EXPR_NAME ? foreign_attr(op, item->text) : NULL;
    if (attr && op_attr(op, attr) >= 0) {
        diag_hint(lower->diags, "attributes are given by name: %s = true", attr);
        return false;
    }
    if (row->attrs[0].name && !strcmp(row->attrs[0].name, "perm")) {
        diag_hint(lower->diags, "say for each dimension where it comes from: %s(x, perm = [1, 0]); of a matrix that is x.T", row->name);
        return false;
    }
    if (op_attr(op, "keep_dims") >= 0 && is_number(lower, item)) {
        diag_hint(lower->diags, "several axes are a list, %s(x, axes = [0, 1]); with keep_dims = true sizes of 1 stay", row->name);
        return false;
    }
    /* Arguments after the operands, in the order of the attributes. */
    const char *named = NULL;
    int a = 0;
    for (; item; item = item->next, a++) {
        const bool fits = a < MAX_ATTRS && row->attrs[a].name && (is_list(item) || is_number(lower, item));
        if (!fits) return false;
        const int n = item->loc.end - item->loc.begin;
        named = arena_printf(lower->arena, "%s%s%s = %.*s", named ? named : "", named ? ", " : "", row->attrs[a].name, n < 60 ? n : 60,
                             lower->text + item->loc.begin);
    }
    diag_hint(lower->diags, "attributes are given by name: %s", named);
    return false;
}

/* The place of a call's name. */
static Loc name_loc(const Lower *lower, const Expr *call) {
    const int n = (int)strlen(call->text);
    Loc name = call->loc;
    if (call->method) { /* it follows the method's object and a '.' */
        const char *text = lower->text;
        int at = call->items->loc.end;
        while (at + n < call->loc.end && strncmp(text + at, call->text, (size_t)n) != 0)
            at++;
        if (memchr(text + name.begin, '\n', (size_t)(at - name.begin))) return name;
        name.column += at - name.begin;
        name.begin = at;
    }
    name.end = name.begin + n;
    return name;
}

static bool unknown_operator(Lower *lower, const Expr *call) {
    const Symbol *symbol = names_look(lower, call->text);
    Span span = lower_span(lower, name_loc(lower, call));
    if (symbol && symbol->kind > SYMBOL_FAILED && !call->method) {
        diag_error(lower->diags, span, "%s is a %s, not an operator", call->text, symbol->kind == SYMBOL_NUMBER ? "number" : "tensor");
        diag_note(lower->diags, symbol->span, "%s is defined here", call->text);
        diag_hint(lower->diags, "a product is written with '*', that of matrices a @ b or matmul(a, b)");
        return false;
    }
    if (is_init_name(call->text)) {
        diag_error(lower->diags, span, "%s is an initial value, not an operator", call->text);
        diag_hint(lower->diags, "it belongs to a declaration: param w : f32[8, 4] = normal(0.01);");
        return false;
    }
    const char **names = arena_alloc(lower->arena, sizeof *names * (size_t)(NOPS + NFUNCTIONS + lower->cell.n));
    int n = 0;
    for (int op = 0; op < NOPS; op++)
        if (op_table[op].op_class == OP_CLASS_USER) names[n++] = op_table[op].name;
    for (int i = 0; i < NFUNCTIONS; i++)
        names[n++] = function_name[i];
    for (int i = 0; i < lower->cell.n; i++)
        names[n++] = lower->cell.at[i]->name;
    const char *nearest = name_nearest(call->text, names, n);
    diag_error(lower->diags, span, "unknown operator '%s'", call->text);
    if (hint_operator(lower, call)) return false;
    if (nearest) {
        diag_hint(lower->diags, "did you mean %s?", nearest);
        return false;
    }
    hint_lists(lower);
    return false;
}

/* The attribute of an unnamed argument after the operands; -1: none. Only where no other framework means something else by it. attr: the attributes
 * given so far. */
static int attr_by_place(const Lower *lower, OpCode op, const Expr *item, const Attr *attr) {
    static const char *const numbers[] = {"axes", "axis", "shape", "depth", "begin", "end", "low", "high", "keep_dims"},
                             *const lists[] = {"perm"}, *const words[] = {"to"};
    const bool list = is_list(item) || (item->kind == EXPR_PATH && !strcmp(item->last->text, "shape")), number = is_number(lower, item);
    const char *const *names = list || number ? numbers : words;
    DType dtype;
    const int n = list || number ? (int)(sizeof numbers / sizeof *numbers)
                  : item->kind == EXPR_NAME && dtype_parse(foreign_word("element type", item->text), &dtype) ? 1
                                                                                                             : 0;
    for (int a = 0; a < MAX_ATTRS && op_table[op].attrs[a].name; a++) {
        const AttrSpec *spec = &op_table[op].attrs[a];
        const bool more = attr[a].given && attr[a].n > 0 && number && spec->kind == ATTR_INTS && !strcmp(spec->name, "shape");
        if (attr[a].given && !more) continue;
        if (list && !strcmp(spec->name, lists[0])) return a;
        if (!strcmp(spec->name, "keep_dims") && (!attr[0].given || !is_truth(unbracket(item))))
            return -1; /* sum(x, 0, 1) may mean two axes */
        for (int i = 0; i < n; i++)
            if (!strcmp(spec->name, names[i])) return a;
        return -1;
    }
    return -1;
}

/* concat([a, b], axis = 1) is concat(a, b, axis = 1). */
static bool takes_list(OpCode op, const Expr *call) {
    return op_table[op].variadic && call->items && is_list(call->items) && call->items->nitems > 0;
}
static const Expr *first_argument(OpCode op, const Expr *call) {
    return takes_list(op, call) ? call->items->items : call->items;
}
static const Expr *behind_list(OpCode op, const Expr *call, const Expr *item) {
    return takes_list(op, call) && item == call->items->last ? call->items->next : NULL;
}

/* The place of argument `item` of the call: operand i, or attribute i - MAX_IN; -1 after a diagnostic. *position counts unnamed ones.
 */
static int place_argument(Lower *lower, OpCode op, const Expr *call, const Expr *item, const Attr *given, int *position) {
    if (item->kind != EXPR_KEYWORD) {
        const bool list = takes_list(op, call);
        const int most = list && call->items->nitems < MAX_IN ? call->items->nitems : op_table[op].variadic ? MAX_IN : op_nin(op);
        const bool attr_of_many = op_table[op].variadic && *position >= op_nin(op) && is_number(lower, item); /* concat(a, b, 1) */
        if (*position < most && !attr_of_many) return (*position)++;
        const int by_place = is_function_name(op_table[op].name) ? -1 : attr_by_place(lower, op, item, given);
        if (by_place >= 0) return MAX_IN + by_place;
        too_many(lower, op, item);
        return -1;
    }
    int operand = find_operand(op, item->text), attr = op_attr(op, foreign_attr(op, item->text));
    if (operand >= 0) return operand;
    if (attr >= 0) return MAX_IN + attr;
    unknown_argument(lower, op, item);
    return -1;
}

static bool lower_cell(Lower *lower, const Block *cell, const Expr *call, const Given *own, Operand *out) {
    Operand results[MAX_OUT];
    int n;
    const Given *given;
    const char *path = inner_path(lower, cell->name, call->loc);
    if (!path || !hint_choose(lower, call_hintable(lower, cell, call, path), own, &given) ||
        !cell_call(lower, cell, call, path, given, results, &n))
        return false;
    if (n != 1) {
        diag_error(lower->diags, lower_span(lower, call->loc), "%s has %d results and cannot be an operand", call->text, n);
        diag_hint(lower->diags, "give each a name: a, b = %s(...);", call->text);
        return false;
    }
    *out = results[0];
    out->expr = call;
    return true;
}

/* max(a, b) and min(a, b) of two tensors, or of a tensor and a real, compare element by element. An integer after a tensor could also mean an axis: an error. */
static bool extreme_meant(Lower *lower, const Expr *call, OpCode *op) {
    const Expr *a = call->items, *b = a ? a->next : NULL;
    if ((*op != OP_max && *op != OP_min) || call->nitems != 2 || a->kind == EXPR_KEYWORD || b->kind == EXPR_KEYWORD) return true;
    const char *name = op_table[*op].name;
    const OpCode elementwise = *op == OP_max ? OP_maximum : OP_minimum;
    const Expr *plain = unbracket(b);
    Number number = {.real = true};
    if (is_list(plain)) return true;
    if (is_number(lower, plain) && !number_eval(lower, plain, &number)) return false;
    *op = elementwise;
    if (number.real) return true;
    const char *at = lower->text + b->loc.begin;
    const int n = b->loc.end - b->loc.begin;
    diag_error(lower->diags, lower_span(lower, call->loc), "%s: is %.*s a number to compare with, or an axis?", name, n, at);
    diag_hint(lower->diags, "%s(x, %.*s) compares each element with it, %s(x, axes = %.*s) is the %s along the axis",
              op_table[elementwise].name, n, at, name, n, at, elementwise == OP_maximum ? "largest" : "smallest");
    return false;
}

/* The path of random numbers, which are a function of it: each call has its own. */
static const char *random_path(Lower *lower) {
    const Graph *graph = lower->graph;
    const char *path = lower->path ? lower->path : "loss";
    int n = 1;
    for (int i = 0; i < graph->inputs.n; i++)
        n += graph->inputs.at[i].kind == INPUT_RANDOM && strncmp(graph->inputs.at[i].name, path, strlen(path)) == 0 &&
             strncmp(graph->inputs.at[i].name + strlen(path), ".random", 7) == 0;
    return n > 1 ? arena_printf(lower->arena, "%s.random.%d", path, n) : arena_printf(lower->arena, "%s.random", path);
}

/* random(x): numbers in [0, 1), in x's shape, new at each step. They do not depend on the ranks: an input that prun fills. */
static bool lower_random(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out) {
    Operand like = {0};
    if (call->nitems != 1 || call->items->kind == EXPR_KEYWORD || outcome->own) {
        diag_error(lower->diags, lower_span(lower, call->loc),
                   outcome->own ? "random(x) has no strategy: it lies as it is used" : "random takes one tensor, whose shape it has");
        diag_hint(lower->diags, "u = random(x); y = where(u < 0.9, x / 0.9, 0.0);");
        return false;
    }
    if (!operand_lower(lower, call->items, &like)) return false;
    if (like.value < 0 || !dtype_is_float(lower->graph->values.at[like.value].type.dtype)) {
        diag_error(lower->diags, lower_span(lower, call->items->loc), "random takes a tensor of f32 or f64");
        return false;
    }
    const Span span = lower_span(lower, call->loc);
    Input input = {.name = random_path(lower), .type = lower->graph->values.at[like.value].type, .kind = INPUT_RANDOM, .span = span};
    input.like = like.value;
    *out = (Operand){.expr = call, .value = graph_input(lower->graph, graph_add_input(lower->graph, input))};
    return true;
}

static bool lower_call(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out) {
    if (is_of_module(lower, call)) return no_modules(lower, call);
    const Block *cell = cell_called(lower, call);
    if (!cell && !strcmp(call->text, "random")) return lower_random(lower, call, outcome, out);
    if (!cell && !strcmp(call->text, "einsum")) return einsum_lower(lower, call, outcome, out);
    if (!cell && is_manual_call(lower, call)) return manual_lower(lower, call, outcome, out);
    if (cell) return lower_cell(lower, cell, call, outcome->own, out);
    if (is_function(lower, call)) return function_eval(lower, call, &out->number);
    int found = op_find(call->text);
    if (found < 0 || op_table[found].op_class != OP_CLASS_USER) return unknown_operator(lower, call);
    OpCode op = (OpCode)found;
    if (!extreme_meant(lower, call, &op)) return false;
    Operand operands[MAX_IN] = {0};
    Attr attr[MAX_ATTRS] = {0};
    const Expr *attr_expr[MAX_ATTRS] = {0};
    int position = 0;
    bool ok = true;
    for (const Expr *item = first_argument(op, call); item; item = item->next ? item->next : behind_list(op, call, item)) {
        const Expr *value = item->kind == EXPR_KEYWORD ? item->items : item;
        int place = place_argument(lower, op, call, item, attr, &position);
        if (place < 0) return false;
        bool is_attr = place >= MAX_IN;
        const bool listed = is_attr && attr_expr[place - MAX_IN] && attr_expr[place - MAX_IN]->kind != EXPR_KEYWORD; /* reshape(x, 4, -1) */
        if (is_attr ? attr[place - MAX_IN].given && !listed : operands[place].expr != NULL) {
            char operand[64];
            if (!is_attr) op_in_name(op, place, operand, sizeof operand);
            diag_error(lower->diags, lower_span(lower, item->loc), "%s: %s is given twice", call->text, is_attr ? item->text : operand);
            return false;
        }
        if (is_attr) {
            attr_expr[place - MAX_IN] = item;
            ok &= attr_eval(lower, &op_table[op].attrs[place - MAX_IN], value, &attr[place - MAX_IN]);
        } else {
            ok &= operand_lower(lower, value, &operands[place]);
            operands[place].expr = value;
        }
    }
    int missing = 0, nin = position > op_nin(op) ? position : op_nin(op) - (op_table[op].optional && !operands[op_nin(op) - 1].expr);
    while (missing < nin && operands[missing].expr)
        missing++;
    char operand[64];
    if (missing < nin) {
        op_in_name(op, missing, operand, sizeof operand);
        diag_error(lower->diags, lower_span(lower, call->loc), "%s: operand %s is missing", call->text, operand);
        diag_hint(lower->diags, "it is called %s(%s%s)", call->text, op_table[op].ins, op_table[op].variadic ? ", ..." : "");
        return false;
    }
    return ok && operator_lower(lower, op, call, operands, nin, attr, attr_expr, outcome, out);
}

/* ---------------------------------------------------------------- expressions */

/* Evaluates and, or, not; on numbers only. */
static bool logic_eval(Lower *lower, const Expr *expr, Operand *out) {
    *out = (Operand){.expr = expr, .value = -1};
    if (number_eval(lower, expr, &out->number)) return true;
    if (!is_number(lower, expr))
        diag_hint(lower->diags, "conditions that are tensors: a and b is where(a, b, a), a or b is where(a, a, b), not a is a == 0");
    return false;
}

static bool lower_binary(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out) {
    if (strchr("&|", expr->op)) return logic_eval(lower, expr, out); /* the left side may decide the result alone */
    Operand operands[2] = {0};
    bool left = operand_lower(lower, expr->items, &operands[0]), right = operand_lower(lower, expr->last, &operands[1]);
    if (!left || !right) return false;
    if (operands[0].value < 0 && operands[1].value < 0) {
        *out = (Operand){.expr = expr, .value = -1};
        return number_combine(lower, expr, operands[0].number, operands[1].number, &out->number);
    }
    if (expr->op == '^') return power_lower(lower, expr, operands, outcome, out);
    OpCode op = OP_add;
    switch (expr->op) {
    case '+':
        break;
    case '-':
        op = OP_sub;
        break;
    case '*':
        op = OP_mul;
        break;
    case '/':
        op = OP_div;
        break;
    case '@':
        op = OP_matmul;
        break;
    case '<':
        op = OP_less;
        break;
    case '>':
        op = OP_greater;
        break;
    case 'l':
        op = OP_less_equal;
        break;
    case 'g':
        op = OP_greater_equal;
        break;
    case '=':
        op = OP_equal;
        break;
    case '!':
        op = OP_not_equal;
        break;
    default: /* % */
        diag_error(lower->diags, lower_span(lower, expr->loc), "%% is for integers, not for tensors");
        return false;
    }
    return operator_lower(lower, op, expr, operands, 2, NULL, NULL, outcome, out);
}

static bool not_a_tensor(Lower *lower, const Expr *expr, const char *what, const char *hint) {
    diag_error(lower->diags, lower_span(lower, expr->loc), "%s is no operand", what);
    if (hint) diag_hint(lower->diags, "%s", hint);
    return false;
}

static bool no_operator(Lower *lower, const Given *given) {
    diag_error(lower->diags, span_of(given->file, given->shard->loc), "there is no operator here to shard");
    diag_hint(lower->diags, "shard stands behind an operator, an input or a param: h = matmul(x, w) shard ((2, 4), (4, 1));");
    return false;
}

/* relu(matmul(x, w) shard ((2, 4), (4, 1))): the strategy belongs to the operator before it. */
static bool lower_sharded(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out) {
    const Shard *shard = NULL;
    if (!strategy_unwrap(lower, &expr, &shard)) return false;
    const Given own = {.shard = shard, .file = lower->file, .names = lower->names};
    int nodes = lower->graph->nodes.n;
    if (!value_lower(lower, expr, &(Outcome){.name = outcome->name, .own = &own}, out)) return false;
    const bool made = out->value >= 0 && lower->graph->values.at[out->value].node >= nodes;
    return made || no_operator(lower, &own);
}

static bool lower_kind(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out) {
    *out = (Operand){.expr = expr, .value = -1};
    switch ((ExprKind)expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
        return number_eval(lower, expr, &out->number);
    case EXPR_NAME: {
        if (is_number(lower, expr)) return number_eval(lower, expr, &out->number);
        const Symbol *symbol = names_use(lower, expr->text, expr->loc);
        if (!symbol) return false;
        out->value = symbol->value;
        out->number = symbol->number;
        return true;
    }
    case EXPR_NEG: {
        Operand operand;
        if (!operand_lower(lower, expr->items, &operand)) return false;
        out->number = operand.number;
        if (operand.value < 0) return number_negate(lower, expr, &out->number);
        operand.expr = expr->items;
        return operator_lower(lower, OP_neg, expr, &operand, 1, NULL, NULL, outcome, out);
    }
    case EXPR_NOT:
        return logic_eval(lower, expr, out);
    case EXPR_BINARY:
        return lower_binary(lower, expr, outcome, out);
    case EXPR_CALL:
        return lower_call(lower, expr, outcome, out);
    case EXPR_LIST:
        return not_a_tensor(lower, expr, "a list", "give it a name and a type: const c : f32[2] = [1, 2];");
    case EXPR_TUPLE:
        return not_a_tensor(lower, expr, "a tuple", "round brackets group one expression");
    case EXPR_STRING:
        return not_a_tensor(lower, expr, "a text", "texts stand in file(\"w.npy\")");
    case EXPR_KEYWORD:
        return not_a_tensor(lower, expr, "'name = value'", "it belongs directly into a call");
    case EXPR_DASH:
        return not_a_tensor(lower, expr, "'-'", NULL);
    case EXPR_RANGE:
        return not_a_tensor(lower, expr, "a range", "ranges stand in brackets behind a tensor: x[0:2, :]");
    case EXPR_PATH:
        return member_lower(lower, expr, outcome, out);
    case EXPR_INDEX:
        return index_lower(lower, expr, outcome, out);
    case EXPR_SHARD:
        return lower_sharded(lower, expr, outcome, out);
    }
    return false;
}

bool value_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out) {
    expr = unbracket(expr);
    if (!lower_work(lower, expr->loc) || !lower_deeper(lower, expr->loc)) return false;
    bool ok = lower_kind(lower, expr, outcome, out);
    lower->depth--;
    return ok;
}

bool operand_lower(Lower *lower, const Expr *expr, Operand *out) {
    return value_lower(lower, expr, &(Outcome){0}, out) && !message_misused(lower, expr, out->value);
}

bool strategy_unwrap(Lower *lower, const Expr **expr, const Shard **shard) {
    *expr = unbracket(*expr);
    for (; (*expr)->kind == EXPR_SHARD; *expr = unbracket((*expr)->items)) {
        if (*shard) {
            diag_error(lower->diags, lower_span(lower, (*shard)->loc), "a second strategy for one operator");
            diag_note(lower->diags, lower_span(lower, (*expr)->shard->loc), "the first one is here");
            return false;
        }
        *shard = (*expr)->shard;
    }
    return true;
}

/* Whether an expression of this kind computes a new value, unless it has numbers only; else it is another name for a value. */
static bool is_operator(const Expr *expr) {
    switch ((ExprKind)expr->kind) {
    case EXPR_CALL:
    case EXPR_BINARY:
    case EXPR_NEG:
    case EXPR_PATH:
    case EXPR_INDEX:
        return true;
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_STRING:
    case EXPR_NAME:
    case EXPR_LIST:
    case EXPR_TUPLE:
    case EXPR_KEYWORD:
    case EXPR_NOT:
    case EXPR_DASH:
    case EXPR_RANGE:
    case EXPR_SHARD:
        return false;
    }
    return false;
}

bool attach_hint(Lower *lower, const Expr *expr, int value, const Given *given) {
    Span span = span_of(given->file, given->shard->loc);
    if (!is_operator(expr) || value < 0 || op_table[graph_producer(lower->graph, value)->op].op_class != OP_CLASS_USER)
        return no_operator(lower, given);
    if (!shard_counts(lower, span)) return true;
    Node *node = &lower->graph->nodes.at[lower->graph->values.at[value].node];
    if (op_table[node->op].expand && !op_table[node->op].as_one) {
        diag_error(lower->diags, span, "%s is made of several operators and cannot be sharded as one", op_table[node->op].name);
        diag_hint(lower->diags, "it is split as its operand is: shard what computes that, y = matmul(x, w) shard ((8, 1), (1, 1));");
        return false;
    }
    return (node->hint = hint_given(lower, given, 0, "operator")) != NULL;
}

bool expr_lower(Lower *lower, const Expr *expr, const char *name, const Shard *shard, Symbol *symbol) {
    return results_lower(lower, expr, &name, 1, shard, NULL, symbol);
}

static void rename_result(Lower *lower, int value, const char *name) {
    const Value *result = &lower->graph->values.at[value];
    if (!strcmp(result->name, name)) return;
    graph_rename(lower->graph, value, name);
    if (result->index == 0) lower->graph->nodes.at[result->node].name = result->name;
}

/* A call of a cell as the whole value of a statement. */
static bool lower_outer_call(Lower *lower, const Block *cell, const Expr *expr, const char *const *names, int n, const Shard *shard,
                             const Marks *marks, Symbol *symbols) {
    Operand results[MAX_OUT];
    Given own = {.shard = shard, .file = lower->file, .names = lower->names};
    const Given *given;
    bool block = shard && shard->block;
    int nresults, nhints = lower->hints.n, nodes = lower->graph->nodes.n;
    if (!hint_choose(lower, call_hintable(lower, cell, expr, names[0]), shard && !block ? &own : NULL, &given)) return false;
    if (!marks_note(lower, marks)) return false;
    if (block && !hints_push(lower, names[0], shard)) return false;
    bool ok = cell_call(lower, cell, expr, names[0], given, results, &nresults);
    if (block) ok = hints_pop(lower, nhints, ok) && ok;
    if (!ok) return false;
    if (nresults != n) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "%s has %d result%s, and here %s %d name%s", expr->text, nresults,
                   nresults == 1 ? "" : "s", n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
        return false;
    }
    for (int i = 0; i < n; i++) {
        symbols[i].kind = results[i].value < 0 ? SYMBOL_NUMBER : SYMBOL_VALUE;
        symbols[i].value = results[i].value;
        symbols[i].number = results[i].number;
        /* What the call has computed gets the name of the call. */
        int node = results[i].value < 0 ? -1 : lower->graph->values.at[results[i].value].node;
        if (node >= nodes && op_table[lower->graph->nodes.at[node].op].op_class == OP_CLASS_USER)
            rename_result(lower, results[i].value, names[i]);
    }
    return true;
}

bool results_lower(Lower *lower, const Expr *expr, const char *const *names, int n, const Shard *shard, const Marks *marks,
                   Symbol *symbols) {
    Operand out;
    const char *name = names[0];
    Symbol *symbol = &symbols[0];
    if (!strategy_unwrap(lower, &expr, &shard)) return false;
    lower->path = name;
    const Block *cell = !is_of_module(lower, expr) ? cell_called(lower, expr) : NULL;
    if (cell) return lower_outer_call(lower, cell, expr, names, n, shard, marks, symbols);
    lower->nresults = n;
    if (n > 1 && !is_operator(expr)) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "one value, and here are %d names", n);
        diag_hint(lower->diags, "several names take the results of one operator: q, k, v = split(x, parts = 3);");
        return false;
    }
    if (shard && shard->block) {
        diag_error(lower->diags, lower_span(lower, shard->loc), "hints in braces are for the operators in a cell, and this calls none");
        diag_hint(lower->diags, "the strategy of one operator stands alone: h = matmul(x, w) shard ((2, 4), (4, 1));");
        return false;
    }
    const int nodes = lower->graph->nodes.n;
    if (!value_lower(lower, expr, &(Outcome){.name = name}, &out)) return false;
    symbol->kind = out.value < 0 ? SYMBOL_NUMBER : SYMBOL_VALUE;
    symbol->number = out.number;
    symbol->value = out.value;
    if (n > 1 && out.value < 0) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "one number, and here are %d names", n);
        return false;
    }
    for (int i = 1; i < n; i++) {
        symbols[i].kind = SYMBOL_VALUE;
        symbols[i].value = lower->graph->nodes.at[lower->graph->values.at[out.value].node].out[i];
        graph_rename(lower->graph, symbols[i].value, names[i]);
    }
    Given own = {.shard = shard, .file = lower->file, .names = lower->names};
    const Given *given = shard ? &own : NULL;
    /* A hint cannot name what is only another name for a value. */
    const bool made = is_operator(expr) && out.value >= 0 && lower->graph->values.at[out.value].node >= nodes;
    if (made && !hint_choose(lower, value_hintable(lower, out.value), given, &given)) return false;
    if (given && !made) return no_operator(lower, given);
    if (!made && marks_nothing(lower, expr, marks)) return false;
    if (made && !marks_note(lower, marks)) return false;
    if (made) {
        mark_operator(lower, out.value);
        stage_nodes(lower, nodes, known_last(lower)->stage);
    }
    return !given || attach_hint(lower, expr, out.value, given);
}
