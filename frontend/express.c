#include "frontend/lower.h"

#include <string.h>

enum { QUOTE_BYTES = 24 }; /* of an operand's text in a message */

int replicate(Lower *lower, int value, const char *name, Span span) {
    if (!lower->hidden) return value;
    Attr attr[MAX_ATTRS] = {{.given = true, .i = lower->graph->replicas}, {.given = true, .i = lower->graph->settings.gradients_mean}};
    return graph_emit(lower->graph, OP_replicate, &value, 1, attr, name, span);
}

bool room_for_node(Lower *lower, Loc loc) {
    if (lower->graph->nodes.n < MAX_NODES) return true;
    /* Said once: all that follows fails the same way. */
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

/* The element type of a number that is operand `at`: that of the tensors which must agree with it. */
static DType lifted_type(const Lower *lower, OpCode op, const Operand *operands, int n, int at) {
    DType dtype = op_type(op, false, at) == 'i' ? I32 : F32;
    for (int i = n - 1; i >= 0; i--)
        if (operands[i].value >= 0 && op_type(op, false, i) == op_type(op, false, at))
            dtype = lower->graph->values.at[operands[i].value].type.dtype;
    return dtype;
}

/* A number beside a tensor: a scalar constant of the tensor's element type. */
static bool lift(Lower *lower, Operand *operand, DType dtype) {
    if (!number_fits(lower, operand->expr, operand->number, dtype)) return false;
    Span span = lower_span(lower, operand->expr->loc);
    int constant = graph_constant(lower->graph, (TensorType){.dtype = dtype}, NULL, operand->number.f, NULL, span);
    operand->value = replicate(lower, constant, NULL, span);
    if (operand->number.power != 0) vec_push(lower->arena, &lower->batch_numbers, (BatchNumber){operand->value, operand->number.power});
    return true;
}

/* As many results as names for them: one, unless the statement names several and this is its outermost operator (it alone is named). */
static bool check_results(Lower *lower, const Expr *expr, const Node *node, bool outermost) {
    int wanted = outermost ? lower->nresults : 1;
    if (node->nout == wanted) return true;
    const char *op = op_table[node->op].name;
    Span span = lower_span(lower, expr->loc);
    if (!outermost)
        diag_error(lower->diags, span, "%s has %d results and cannot be an operand", op, node->nout);
    else
        diag_error(lower->diags, span, "%s has %d result%s, and here %s %d name%s", op, node->nout, node->nout == 1 ? "" : "s",
                   wanted == 1 ? "is" : "are", wanted, wanted == 1 ? "" : "s");
    if (node->nout == 1) return false;
    const char *names = "a";
    for (int i = 1; i < node->nout; i++)
        names = arena_printf(lower->arena, "%s, %c", names, 'a' + i);
    diag_hint(lower->diags, "give each a name: %s = %s(...);", names, op);
    return false;
}

/* attr_expr[i]: where attribute i was written, or NULL. */
static bool apply(Lower *lower, OpCode op, const Expr *expr, Operand *operands, int n, const Attr *attr, const Expr *const *attr_expr,
                  const char *name, Operand *out) {
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
    /* Operators without a name of their own are called by their cell. */
    const char *called = name || !lower->prefix[0] ? name : arena_printf(lower->arena, "%s%s", lower->prefix, op_table[op].name);
    int node = graph_add(lower->graph, op, in, n, attr, called, span, &error);
    if (node < 0) return reject(lower, op, expr, operands, n, attr_expr, &error);
    if (!check_results(lower, expr, &lower->graph->nodes.at[node], name != NULL)) return false;
    *out = (Operand){.expr = expr, .value = lower->graph->nodes.at[node].out[0]};
    return true;
}

/* ---------------------------------------------------------------- calls */

static bool attr_bool(Lower *lower, const Expr *value, const char *name, int64_t *out) {
    const Expr *plain = unbracket(value);
    if (plain->kind == EXPR_NAME && (!strcmp(plain->text, "true") || !strcmp(plain->text, "false"))) {
        *out = plain->text[0] == 't';
        return true;
    }
    if (plain->kind == EXPR_INT && plain->integer >= 0 && plain->integer <= 1) {
        *out = plain->integer;
        return true;
    }
    if (plain->kind != EXPR_INT && is_number(lower, plain)) return integer_eval(lower, plain, name, 0, 1, out);
    diag_error(lower->diags, lower_span(lower, value->loc), "%s is true or false", name);
    return false;
}

static bool attr_ints(Lower *lower, const Expr *value, const char *name, Attr *attr) {
    bool is_list = value->kind == EXPR_LIST || value->kind == EXPR_TUPLE;
    int n = is_list ? value->nitems : 1;
    if (n > MAX_NDIM - 1) {
        diag_error(lower->diags, lower_span(lower, value->loc), "%s has %d numbers; a tensor has at most %d dimensions", name, n,
                   MAX_NDIM - 1);
        return false;
    }
    for (const Expr *item = is_list ? value->items : value; item; item = is_list ? item->next : NULL)
        if (!integer_eval(lower, item, name, -((int64_t)1 << 48), (int64_t)1 << 48, &attr->ints[attr->n++])) return false;
    return true;
}

static bool attr_eval(Lower *lower, const AttrSpec *spec, const Expr *value, Attr *attr) {
    attr->given = true;
    switch (spec->kind) {
    case ATTR_BOOL:
        return attr_bool(lower, value, spec->name, &attr->i);
    case ATTR_INT:
        return integer_eval(lower, value, spec->name, INT32_MIN, INT32_MAX, &attr->i);
    case ATTR_FLOAT:
        return real_eval(lower, value, spec->name, -1e300, 1e300, &attr->f);
    case ATTR_INTS:
        return attr_ints(lower, value, spec->name, attr);
    case ATTR_TEXT:
        if (value->kind == EXPR_NAME || value->kind == EXPR_STRING) {
            attr->text = value->text;
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
    if (nearest)
        diag_hint(lower->diags, "did you mean %s? It takes: %s", nearest, list);
    else
        diag_hint(lower->diags, "it takes: %s", list);
    return false;
}

static bool too_many(Lower *lower, OpCode op, const Expr *item) {
    const Op *row = &op_table[op];
    int nin = op_nin(op);
    if (row->variadic)
        diag_error(lower->diags, lower_span(lower, item->loc), "%s takes at most %d operands", row->name, (int)MAX_IN);
    else
        diag_error(lower->diags, lower_span(lower, item->loc), "%s takes %d operand%s (%s)", row->name, nin, nin == 1 ? "" : "s", row->ins);
    /* What stands behind the operands in the order of the attributes. */
    const char *named = NULL;
    int a = 0;
    for (; item; item = item->next, a++) {
        const bool fits = a < MAX_ATTRS && row->attrs[a].name && (item->kind == EXPR_LIST || item->kind == EXPR_TUPLE || is_number(lower, item));
        if (!fits) return false;
        const int n = item->loc.end - item->loc.begin;
        named = arena_printf(lower->arena, "%s%s%s = %.*s", named ? named : "", named ? ", " : "", row->attrs[a].name, n < 60 ? n : 60, lower->text + item->loc.begin);
    }
    diag_hint(lower->diags, "attributes are given by name: %s", named);
    return false;
}

static bool unknown_operator(Lower *lower, const Expr *call) {
    const Symbol *symbol = names_look(lower, call->text);
    Loc name = call->loc;
    name.end = name.begin + (int)strlen(call->text);
    Span span = lower_span(lower, name);
    if (symbol && symbol->kind > SYMBOL_FAILED) {
        diag_error(lower->diags, span, "%s is a %s, not an operator", call->text, symbol->kind == SYMBOL_NUMBER ? "number" : "tensor");
        diag_note(lower->diags, symbol->span, "%s is defined here", call->text);
        diag_hint(lower->diags, "a product is written with '*', a matrix product matmul(a, b)");
        return false;
    }
    if (is_init_name(call->text)) {
        diag_error(lower->diags, span, "%s is an initial value, not an operator", call->text);
        diag_hint(lower->diags, "it belongs to a declaration: param w : f32[8, 4] = normal(0.01);");
        return false;
    }
    const char *list = "";
    const char **names = arena_alloc(lower->arena, sizeof *names * (size_t)(NOPS + NFUNCTIONS + lower->cell.n));
    int n = 0;
    for (int op = 0; op < NOPS; op++) {
        if (op_table[op].op_class != OP_CLASS_USER) continue;
        names[n++] = op_table[op].name;
        list = arena_printf(lower->arena, "%s%s%s", list, n > 1 ? ", " : "", op_table[op].name);
    }
    for (int i = 0; i < NFUNCTIONS; i++)
        names[n++] = function_name[i];
    for (int i = 0; i < lower->cell.n; i++)
        names[n++] = lower->cell.at[i]->name;
    const char *nearest = name_nearest(call->text, names, n);
    diag_error(lower->diags, span, "unknown operator '%s'", call->text);
    if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(lower->diags, "there are: %s", list);
    return false;
}

/* Where argument `item` of the call goes: operand i, or attribute i - MAX_IN; -1 after a diagnostic. *position counts those without a name.
 */
static int place_argument(Lower *lower, OpCode op, const Expr *item, int *position) {
    if (item->kind != EXPR_KEYWORD) {
        if (*position < (op_table[op].variadic ? (int)MAX_IN : op_nin(op))) return (*position)++;
        too_many(lower, op, item);
        return -1;
    }
    int operand = find_operand(op, item->text), attr = op_attr(op, item->text);
    if (operand >= 0) return operand;
    if (attr >= 0) return MAX_IN + attr;
    unknown_argument(lower, op, item);
    return -1;
}

static bool lower_cell(Lower *lower, const Block *cell, const Expr *call, Operand *out) {
    Operand results[MAX_OUT];
    int n;
    const Given *given;
    const char *path = cell_path(lower, cell, call->loc);
    if (!path || !hint_choose(lower, path, NULL, &given) || !cell_call(lower, cell, call, path, given, results, &n)) return false;
    if (n != 1) {
        diag_error(lower->diags, lower_span(lower, call->loc), "%s has %d results and cannot be an operand", call->text, n);
        diag_hint(lower->diags, "give each a name: a, b = %s(...);", call->text);
        return false;
    }
    *out = results[0];
    out->expr = call;
    return true;
}

/* max(a, b) and min(a, b) of two tensors, or with a real, compare element by element. Behind a tensor an integer may as well be meant as an axis: an error. */
static bool extreme_meant(Lower *lower, const Expr *call, OpCode *op) {
    const Expr *a = call->items, *b = a ? a->next : NULL;
    if ((*op != OP_max && *op != OP_min) || call->nitems != 2 || a->kind == EXPR_KEYWORD || b->kind == EXPR_KEYWORD) return true;
    const char *name = op_table[*op].name;
    const OpCode elementwise = *op == OP_max ? OP_maximum : OP_minimum;
    const Expr *plain = unbracket(b);
    Number number = {.real = true};
    if (plain->kind == EXPR_LIST || plain->kind == EXPR_TUPLE) return true;
    if (is_number(lower, plain) && !number_eval(lower, plain, &number)) return false;
    *op = elementwise;
    if (number.real) return true;
    const char *at = lower->text + b->loc.begin;
    const int n = b->loc.end - b->loc.begin;
    diag_error(lower->diags, lower_span(lower, call->loc), "%s: is %.*s a number to compare with, or an axis?", name, n, at);
    diag_hint(lower->diags, "%s(x, %.*s) compares each element with it, %s(x, axes = %.*s) is the %s along the axis", op_table[elementwise].name, n, at, name, n, at,
              elementwise == OP_maximum ? "largest" : "smallest");
    return false;
}

static bool lower_call(Lower *lower, const Expr *call, const char *name, Operand *out) {
    const Block *cell = cell_find(lower, call->text);
    if (cell) return lower_cell(lower, cell, call, out);
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
    for (const Expr *item = call->items; item; item = item->next) {
        const Expr *value = item->kind == EXPR_KEYWORD ? item->items : item;
        int place = place_argument(lower, op, item, &position);
        if (place < 0) return false;
        bool is_attr = place >= MAX_IN;
        if (is_attr ? attr[place - MAX_IN].given : operands[place].expr != NULL) {
            char operand[64];
            if (!is_attr) op_in_name(op, place, operand, sizeof operand);
            diag_error(lower->diags, lower_span(lower, item->loc), "%s: %s is given twice", call->text, is_attr ? item->text : operand);
            return false;
        }
        if (is_attr) {
            attr_expr[place - MAX_IN] = item;
            ok &= attr_eval(lower, &op_table[op].attrs[place - MAX_IN], value, &attr[place - MAX_IN]);
        } else {
            ok &= operand_lower(lower, value, NULL, &operands[place]);
            operands[place].expr = value;
        }
    }
    int nin = position > op_nin(op) ? position : op_nin(op), missing = 0;
    while (missing < nin && operands[missing].expr)
        missing++;
    if (missing < nin) {
        char operand[64];
        op_in_name(op, missing, operand, sizeof operand);
        diag_error(lower->diags, lower_span(lower, call->loc), "%s: operand %s is missing", call->text, operand);
        diag_hint(lower->diags, "it is called %s(%s%s)", call->text, op_table[op].ins, op_table[op].variadic ? ", ..." : "");
        return false;
    }
    return ok && apply(lower, op, call, operands, nin, attr, attr_expr, name, out);
}

/* ---------------------------------------------------------------- expressions */

/* Operators of numbers that some operator of tensors is meant with. */
static bool numbers_only(Lower *lower, const Expr *expr) {
    static const struct {
        char op;
        const char *name;
    } tensors[] = {{'<', "less"}, {'>', "greater"}, {'l', "less_equal"}, {'g', "greater_equal"}, {'=', "equal"}, {'!', "not_equal"}};
    diag_error(lower->diags, lower_span(lower, expr->loc),
               expr->op == '%' ? "%% is for integers, not for tensors" : "conditions are about numbers, not about tensors");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (tensors[i].op == expr->op) diag_hint(lower->diags, "%s(a, b) compares tensors element by element", tensors[i].name);
    return false;
}

static bool lower_binary(Lower *lower, const Expr *expr, const char *name, Operand *out) {
    if (strchr("&|", expr->op)) { /* the right side may be decided by the left one */
        *out = (Operand){.expr = expr, .value = -1};
        return number_eval(lower, expr, &out->number);
    }
    Operand operands[2] = {0};
    bool left = operand_lower(lower, expr->items, NULL, &operands[0]), right = operand_lower(lower, expr->last, NULL, &operands[1]);
    if (!left || !right) return false;
    if (operands[0].value < 0 && operands[1].value < 0) {
        *out = (Operand){.expr = expr, .value = -1};
        return number_combine(lower, expr, operands[0].number, operands[1].number, &out->number);
    }
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
    default: /* %, comparisons, and, or */
        return numbers_only(lower, expr);
    }
    return apply(lower, op, expr, operands, 2, NULL, NULL, name, out);
}

static bool not_a_tensor(Lower *lower, const Expr *expr, const char *what, const char *hint) {
    diag_error(lower->diags, lower_span(lower, expr->loc), "%s is no operand", what);
    if (hint) diag_hint(lower->diags, "%s", hint);
    return false;
}

static bool lower_kind(Lower *lower, const Expr *expr, const char *name, Operand *out) {
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
        if (!operand_lower(lower, expr->items, NULL, &operand)) return false;
        out->number = operand.number;
        if (operand.value < 0) return number_negate(lower, expr, &out->number);
        operand.expr = expr->items;
        return apply(lower, OP_neg, expr, &operand, 1, NULL, NULL, name, out);
    }
    case EXPR_NOT:
        return number_eval(lower, expr, &out->number);
    case EXPR_BINARY:
        return lower_binary(lower, expr, name, out);
    case EXPR_CALL:
        return lower_call(lower, expr, name, out);
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
    case EXPR_PATH:
        return not_a_tensor(lower, expr, "a name with '.'", "names have no '.'; real numbers are written 0.5");
    }
    return false;
}

bool operand_lower(Lower *lower, const Expr *expr, const char *name, Operand *out) {
    expr = unbracket(expr);
    if (!lower_work(lower, expr->loc) || !lower_deeper(lower, expr->loc)) return false;
    bool ok = lower_kind(lower, expr, name, out);
    lower->depth--;
    return ok;
}

bool attach_hint(Lower *lower, const Expr *expr, int value, const Given *given) {
    bool is_op = expr->kind == EXPR_CALL || expr->kind == EXPR_BINARY || expr->kind == EXPR_NEG;
    Span span = span_of(given->file, given->shard->loc);
    if (!is_op || value < 0 || op_table[lower->graph->nodes.at[lower->graph->values.at[value].node].op].op_class != OP_CLASS_USER) {
        diag_error(lower->diags, span, "there is no operator here to shard");
        diag_hint(lower->diags, "shard stands behind an operator, an input or a param: h = matmul(x, w) shard ((2, 4), (4, 1));");
        return false;
    }
    if (!shard_counts(lower, span)) return true;
    Node *node = &lower->graph->nodes.at[lower->graph->values.at[value].node];
    if (op_table[node->op].expand) {
        diag_error(lower->diags, span, "%s is made of several operators and cannot be sharded as one", op_table[node->op].name);
        diag_hint(lower->diags, "write them out and shard one: d = y - label shard ((8, 1), (8, 1)); loss mean(d * d);");
        return false;
    }
    return (node->hint = hint_given(lower, given, 0, "operator")) != NULL;
}

bool expr_lower(Lower *lower, const Expr *expr, const char *name, const Shard *shard, Symbol *symbol) {
    return results_lower(lower, expr, &name, 1, shard, symbol);
}

static void rename_result(Lower *lower, int value, const char *name) {
    const Value *result = &lower->graph->values.at[value];
    if (!strcmp(result->name, name)) return;
    graph_rename(lower->graph, value, name);
    if (result->index == 0) lower->graph->nodes.at[result->node].name = result->name;
}

/* A call of a cell as the whole value of a statement. */
static bool lower_outer_call(Lower *lower, const Block *cell, const Expr *expr, const char *const *names, int n, const Shard *shard,
                             Symbol *symbols) {
    Operand results[MAX_OUT];
    Given own = {.shard = shard, .file = lower->file, .names = lower->names};
    const Given *given;
    bool block = shard && shard->block;
    int nresults, nhints = lower->hints.n, nodes = lower->graph->nodes.n;
    if (!hint_choose(lower, names[0], shard && !block ? &own : NULL, &given)) return false;
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
        /* What the call has computed is called as the call is. */
        int node = results[i].value < 0 ? -1 : lower->graph->values.at[results[i].value].node;
        if (node >= nodes && op_table[lower->graph->nodes.at[node].op].op_class == OP_CLASS_USER)
            rename_result(lower, results[i].value, names[i]);
    }
    return true;
}

bool results_lower(Lower *lower, const Expr *expr, const char *const *names, int n, const Shard *shard, Symbol *symbols) {
    Operand out;
    const char *name = names[0];
    Symbol *symbol = &symbols[0];
    expr = unbracket(expr);
    lower->path = name;
    const Block *cell = expr->kind == EXPR_CALL ? cell_find(lower, expr->text) : NULL;
    if (cell) return lower_outer_call(lower, cell, expr, names, n, shard, symbols);
    lower->nresults = n;
    bool is_op = expr->kind == EXPR_CALL || expr->kind == EXPR_BINARY || expr->kind == EXPR_NEG;
    if (n > 1 && !is_op) {
        diag_error(lower->diags, lower_span(lower, expr->loc), "one value, and here are %d names", n);
        diag_hint(lower->diags, "several names take the results of one operator: q, k, v = split(x, parts = 3);");
        return false;
    }
    if (shard && shard->block) {
        diag_error(lower->diags, lower_span(lower, shard->loc), "hints in braces are for the operators in a cell, and this calls none");
        diag_hint(lower->diags, "the strategy of one operator stands alone: h = matmul(x, w) shard ((2, 4), (4, 1));");
        return false;
    }
    if (!operand_lower(lower, expr, name, &out)) return false;
    Given own = {.shard = shard, .file = lower->file, .names = lower->names};
    const Given *given = shard ? &own : NULL;
    /* Another name for something is not what a hint could mean. */
    if ((is_op && out.value >= 0) && !hint_choose(lower, name, given, &given)) return false;
    if (given && !attach_hint(lower, expr, out.value, given)) return false;
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
    return true;
}
