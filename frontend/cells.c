/* Calls of cells: the body is expanded inline where it is called, with its parameters and values below the path of the call. Only those
 * names remain of a cell in the graph. A cell sees its arguments, what it defines, the numbers of files and other cells. */
#include "frontend/lower.h"

#include <string.h>

/* ---------------------------------------------------------------- limits, paths */

bool lower_work(Lower *lower, Loc loc) {
    if (!lower->frame && !lower->loops) return true;
    if (lower->full) return false;
    if (++lower->work <= MAX_WORK) return true;
    diag_error(lower->diags, lower_span(lower, loc), "loops and cells are written out in more than %d steps", (int)MAX_WORK);
    lower->full = true;
    return false;
}

bool lower_deeper(Lower *lower, Loc loc) {
    if (++lower->depth <= MAX_DEPTH) return true;
    lower->depth--;
    if (!lower->full)
        diag_error(lower->diags, lower_span(lower, loc), "calls, blocks and expressions nest more than %d deep", (int)MAX_DEPTH);
    lower->full = true;
    return false;
}

const char *path_of(Lower *lower, const char *name, Loc loc) {
    if (!lower->prefix[0] && !lower->suffix[0]) return name;
    const char *path = arena_printf(lower->arena, "%s%s%s", lower->prefix, name, lower->suffix);
    if (strlen(path) <= MAX_PATH_BYTES) return path;
    diag_error(lower->diags, lower_span(lower, loc), "the path of %s has more than %d bytes", name, (int)MAX_PATH_BYTES);
    return NULL;
}

const char *inner_path(Lower *lower, const char *name, Loc loc) {
    const char *base = arena_printf(lower->arena, "%s.%s", lower->path, name);
    Symbol *count = names_find(&lower->paths, base);
    if (!count) count = names_insert(&lower->paths, lower->arena, base);
    if (++count->number.i > 1) base = arena_printf(lower->arena, "%s_%d", base, (int)count->number.i);
    if (strlen(base) <= MAX_PATH_BYTES) return base;
    diag_error(lower->diags, lower_span(lower, loc), "the path of %s has more than %d bytes", name, (int)MAX_PATH_BYTES);
    return NULL;
}

/* ---------------------------------------------------------------- definitions */

/* Inside a cell that has the name of an operator, that name means the operator. */
const Block *cell_find(const Lower *lower, const char *name) {
    const Symbol *symbol = names_find(&lower->cells, name);
    const Block *cell = symbol ? lower->cell.at[symbol->value] : NULL;
    return cell && lower->frame && lower->frame->cell == cell && op_find(name) >= 0 ? NULL : cell;
}

/* Whether the arguments of a call, by number and names, fit a cell. */
static bool fits_cell(const Block *cell, const Expr *call) {
    int without_name = 0;
    for (const Expr *item = call->items; item; item = item->next) {
        const Entry *entry = cell->entries;
        without_name += item->kind != EXPR_KEYWORD;
        while (item->kind == EXPR_KEYWORD && entry && strcmp(entry->name, item->text) != 0)
            entry = entry->next;
        if (!entry) return false;
    }
    int i = 0;
    for (const Entry *entry = cell->entries; entry; entry = entry->next, i++) {
        int given = i < without_name;
        for (const Expr *item = call->items; item; item = item->next)
            given += item->kind == EXPR_KEYWORD && strcmp(entry->name, item->text) == 0;
        if (given > 1 || (given == 0 && !entry->value)) return false;
    }
    return without_name <= i;
}

static bool fits_operator(OpCode op, const Expr *call) {
    int without_name = 0;
    for (const Expr *item = call->items; item; item = item->next) {
        without_name += item->kind != EXPR_KEYWORD;
        if (item->kind == EXPR_KEYWORD && op_attr(op, item->text) < 0) return false;
    }
    return op_table[op].op_class == OP_CLASS_USER && without_name <= op_nin(op) && without_name >= op_nin(op) - op_table[op].optional;
}

const Block *cell_called(const Lower *lower, const Expr *call) {
    const Block *cell = call->kind == EXPR_CALL ? cell_find(lower, call->text) : NULL;
    const int op = cell ? op_find(cell->name) : -1;
    return op >= 0 && !fits_cell(cell, call) && fits_operator((OpCode)op, call) ? NULL : cell;
}

static bool parameters_well(Lower *lower, const Block *cell) {
    int n = 0;
    bool optional = false;
    for (const Entry *entry = cell->entries; entry; entry = entry->next, n++) {
        Span span = lower_span(lower, entry->name_loc);
        if (n == MAX_PARAMETERS) {
            diag_error(lower->diags, span, "a cell has at most %d parameters", (int)MAX_PARAMETERS);
            return false;
        }
        for (const Entry *other = cell->entries; other != entry; other = other->next)
            if (!strcmp(other->name, entry->name)) {
                diag_error(lower->diags, span, "cell %s has a parameter %s already", cell->name, entry->name);
                diag_note(lower->diags, lower_span(lower, other->name_loc), "the first one is here");
                return false;
            }
        if (optional && !entry->value) {
            diag_error(lower->diags, span, "%s has no default, and a parameter before it has one", entry->name);
            diag_hint(lower->diags, "parameters with defaults come last");
            return false;
        }
        optional |= entry->value != NULL;
    }
    return true;
}

/* An imported cell may have the name of an operator, and then comes before it: for layer_norm(x) it declares the parameters. */
static bool cell_define(Lower *lower, const Block *cell, bool imported) {
    Span span = lower_span(lower, cell->name_loc);
    int op = op_find(cell->name);
    Symbol *symbol = names_find(&lower->cells, cell->name);
    if (symbol) {
        const Block *first = lower->cell.at[symbol->value];
        diag_error(lower->diags, span, "a second cell %s", cell->name);
        diag_note(lower->diags, span_of(first->file, first->name_loc), "the first one is here");
        return false;
    }
    if (op >= 0 && op_table[op].op_class == OP_CLASS_USER && !imported) {
        diag_error(lower->diags, span, "%s is an operator and cannot be a cell", cell->name);
        diag_hint(lower->diags, "leave the cell out: %s(%s) calls the operator; or give the cell another name", cell->name,
                  op_table[op].ins);
        return false;
    }
    if (is_function_name(cell->name)) {
        diag_error(lower->diags, span, "%s is a function of numbers and cannot be a cell", cell->name);
        return false;
    }
    symbol = names_insert(&lower->cells, lower->arena, cell->name);
    symbol->value = lower->cell.n;
    vec_push(lower->arena, &lower->cell, cell);
    return parameters_well(lower, cell);
}

bool cells_define(Lower *lower, const Block *blocks) {
    const int own = lower->file;
    bool ok = true;
    for (const Block *block = blocks; block; block = block->next) {
        if (block->kind != BLOCK_CELL) continue;
        SourcePlace place = lower_enter(lower, block->file, block->directory);
        bool defined = cell_define(lower, block, block->file != own);
        Symbol *symbol = names_find(&lower->cells, block->name);
        if (!defined && symbol) symbol->kind = SYMBOL_FAILED; /* calls of it report nothing */
        ok &= defined;
        lower_leave(lower, place);
    }
    return ok;
}

/* ---------------------------------------------------------------- arguments */

static const char *parameter_list(Lower *lower, const Block *cell) {
    const char *list = "";
    for (const Entry *entry = cell->entries; entry; entry = entry->next)
        list = arena_printf(lower->arena, entry->value ? "%s%s%s = ..." : "%s%s%s", list, list[0] ? ", " : "", entry->name);
    return list;
}

static const char *parameter_name(const Block *cell, int i) {
    const Entry *entry = cell->entries;
    while (i-- > 0)
        entry = entry->next;
    return entry->name;
}

/* The parameter that an argument is for; -1 after a diagnostic. *position counts arguments without a name. */
static int place_argument(Lower *lower, const Block *cell, const Expr *item, int *position) {
    const char *names[MAX_PARAMETERS];
    int n = 0;
    for (const Entry *entry = cell->entries; entry; entry = entry->next)
        names[n++] = entry->name;
    Span span = lower_span(lower, item->loc);
    if (item->kind != EXPR_KEYWORD && *position < n) return (*position)++;
    if (item->kind != EXPR_KEYWORD) {
        diag_error(lower->diags, span, "%s takes at most %d argument%s", cell->name, n, n == 1 ? "" : "s");
    } else {
        for (int i = 0; i < n; i++)
            if (!strcmp(names[i], item->text)) return i;
        const char *nearest = name_nearest(item->text, names, n);
        diag_error(lower->diags, span, "%s has no argument '%s'", cell->name, item->text);
        if (nearest) diag_hint(lower->diags, "did you mean %s?", nearest);
    }
    diag_note(lower->diags, span_of(cell->file, cell->name_loc), "it is %s(%s)", cell->name, parameter_list(lower, cell));
    return -1;
}

/* Lowers the arguments of a call: arguments[i].expr is NULL where parameter i has its default. */
static bool arguments_lower(Lower *lower, const Block *cell, const Expr *call, Operand *arguments) {
    int position = 0, i = 0;
    bool ok = true;
    for (const Expr *item = call->items; item; item = item->next) {
        int place = place_argument(lower, cell, item, &position);
        if (place < 0) return false;
        if (arguments[place].expr) {
            diag_error(lower->diags, lower_span(lower, item->loc), "%s: %s is given twice", cell->name, parameter_name(cell, place));
            return false;
        }
        const Expr *value = item->kind == EXPR_KEYWORD ? item->items : item;
        ok &= operand_lower(lower, value, &arguments[place]);
        arguments[place].expr = value;
    }
    for (const Entry *entry = cell->entries; entry; entry = entry->next, i++) {
        if (entry->value || arguments[i].expr) continue;
        diag_error(lower->diags, lower_span(lower, call->loc), "%s: argument %s is missing", cell->name, entry->name);
        diag_note(lower->diags, span_of(cell->file, cell->name_loc), "it is %s(%s)", cell->name, parameter_list(lower, cell));
        return false;
    }
    return ok;
}

/* Defines the parameters in the cell that has been entered; defaults may refer to earlier parameters. */
static bool parameters_lower(Lower *lower, const Block *cell, Operand *arguments) {
    int i = 0;
    bool ok = true;
    for (const Entry *entry = cell->entries; entry; entry = entry->next, i++) {
        Symbol *symbol;
        if (!names_define(lower, entry->name, entry->name_loc, &symbol)) return false;
        bool known = arguments[i].expr || operand_lower(lower, entry->value, &arguments[i]);
        symbol = names_find(&lower->names, entry->name);
        symbol->kind = !known ? SYMBOL_FAILED : arguments[i].value < 0 ? SYMBOL_NUMBER : SYMBOL_VALUE;
        symbol->value = arguments[i].value;
        symbol->number = arguments[i].number;
        ok &= known;
    }
    return ok;
}

/* ---------------------------------------------------------------- diagnostics in cells */

/* At the end of a call, adds the chain of calls to its diagnostics that have none yet. */
static void finish_diagnostics(Lower *lower, int first) {
    Diags *diags = lower->diags;
    if (first < lower->noted) first = lower->noted;
    int n = diags->items.n - first;
    if (n > 0) {
        Diag *items = arena_alloc(lower->arena, sizeof *items * (size_t)n);
        memcpy(items, diags->items.at + first, sizeof *items * (size_t)n);
        diags->items.n = first;
        bool dropped = diags->dropped;
        diags->dropped = false;
        for (int i = 0; i < n; i++) {
            vec_push(diags->arena, &diags->items, items[i]);
            bool ends = i + 1 == n || items[i + 1].kind == DIAG_ERROR || items[i + 1].kind == DIAG_WARNING;
            if (ends) diag_calls(diags, lower->frame->call);
        }
        diags->dropped = dropped;
    }
    lower->noted = diags->items.n;
}

/* ---------------------------------------------------------------- calls */

static bool calls_itself(Lower *lower, const Block *cell, const Expr *call) {
    for (const Frame *frame = lower->frame; frame; frame = frame->outer) {
        if (frame->cell != cell) continue;
        diag_error(lower->diags, lower_span(lower, call->loc),
                   frame == lower->frame ? "cell %s calls itself" : "cell %s calls itself by way of others", cell->name);
        diag_hint(lower->diags, "a cell is written out where it is called; repeat with for i in 0..n { ... }");
        return true;
    }
    return false;
}

/* Where a cell has no `shard` that takes the strategy of its call, gives it to the operator that made the result. */
static bool shard_result(Lower *lower, const Frame *frame, const Expr *call, int first_node) {
    int value = frame->results[0].value;
    Node *node = value < 0 ? NULL : &lower->graph->nodes.at[lower->graph->values.at[value].node];
    bool own = node && lower->graph->values.at[value].node >= first_node && op_table[node->op].op_class == OP_CLASS_USER;
    if (own && !node->hint) return attach_hint(lower, call, value, frame->given);
    diag_error(lower->diags, span_of(frame->given->file, frame->given->shard->loc),
               "cell %s has no operator that takes the strategy of a call", frame->cell->name);
    diag_note(lower->diags, span_of(frame->cell->file, frame->cell->name_loc), "%s is defined here", frame->cell->name);
    diag_hint(lower->diags, "mark one in it with shard alone, y = matmul(x, w) shard; or name one here: shard { y = ((2, 4), (4, 1)); }");
    return false;
}

static bool body_lower(Lower *lower, Frame *frame, const Expr *call, Operand *arguments) {
    const Block *cell = frame->cell;
    int first_node = lower->graph->nodes.n;
    SourcePlace place = lower_enter(lower, cell->file, cell->directory);
    names_ahead(lower, cell->statements);
    bool ok = parameters_lower(lower, cell, arguments) && statements_lower(lower, cell->statements);
    if (ok && !frame->returned) {
        diag_error(lower->diags, lower_span(lower, cell->name_loc), "cell %s returns nothing", cell->name);
        diag_hint(lower->diags, "its last statement is return y;");
        ok = false;
    }
    if (ok && frame->given && !frame->given_used) ok = shard_result(lower, frame, call, first_node);
    lower_leave(lower, place);
    return ok;
}

/* Begins names, paths and blocks for a call; frame keeps those of the caller. */
static void frame_enter(Lower *lower, Frame *frame) {
    CellCall *site = arena_alloc(lower->arena, sizeof *site);
    *site =
        (CellCall){.cell = frame->cell->name, .path = frame->path, .span = frame->span, .outer = lower->frame ? lower->frame->call : NULL};
    frame->call = site;
    frame->outer = lower->frame;
    frame->names = lower->names;
    frame->prefix = lower->prefix;
    frame->suffix = lower->suffix;
    frame->block = lower->block;
    frame->loops = lower->loops;
    frame->nlocals = lower->locals.n;
    lower->names = lower->spare.n ? lower->spare.at[--lower->spare.n] : (Names){0};
    lower->prefix = arena_printf(lower->arena, "%s.", frame->path);
    lower->suffix = "";
    lower->block = 0;
    lower->frame = frame;
}

static void frame_leave(Lower *lower, const Frame *frame) {
    if (lower->names.symbols.n > 0) {
        map_clear(&lower->names.map);
        lower->names.symbols.n = 0;
        vec_push(lower->arena, &lower->spare, lower->names);
    }
    lower->names = frame->names;
    lower->prefix = frame->prefix;
    lower->suffix = frame->suffix;
    lower->block = frame->block;
    lower->loops = frame->loops;
    lower->locals.n = frame->nlocals;
    lower->path = frame->caller;
    lower->nresults = frame->wanted;
    lower->frame = frame->outer;
}

void stage_nodes(Lower *lower, int first, const StageHint *stage) {
    Graph *graph = lower->graph;
    for (int n = first; stage && n < graph->nodes.n; n++)
        if (graph->nodes.at[n].asked == NULL && op_table[graph->nodes.at[n].op].op_class == OP_CLASS_USER) graph->nodes.at[n].asked = stage;
}

/* Marks a call's nodes, those from `first` on: their gathered results are gathered again. */
static void regather_nodes(Lower *lower, int first, const RegatherHint *regather) {
    Graph *graph = lower->graph;
    for (int n = first; regather && n < graph->nodes.n; n++)
        if (op_table[graph->nodes.at[n].op].op_class == OP_CLASS_USER) graph->nodes.at[n].regather = regather;
}

/* Marks a call's nodes, those from `first` on, to be recomputed for gradients, except its results, which others use. */
static void mark_call(Lower *lower, int first, const Operand *results, int nresults) {
    Graph *graph = lower->graph;
    for (int n = first; n < graph->nodes.n; n++)
        if (op_table[graph->nodes.at[n].op].op_class == OP_CLASS_USER) graph->nodes.at[n].recompute = true;
    for (int i = 0; i < nresults; i++)
        if (results[i].value >= 0 && graph->values.at[results[i].value].node >= first)
            graph->nodes.at[graph->values.at[results[i].value].node].recompute = false;
}

bool cell_call(Lower *lower, const Block *cell, const Expr *call, const char *path, const Given *given, Operand *results, int *nresults) {
    const int thing = lower->known.n - 1, nodes = lower->graph->nodes.n; /* the call, as hint_choose has noted it */
    Operand arguments[MAX_PARAMETERS] = {{0}};
    Frame frame = {
        .cell = cell, .span = lower_span(lower, call->loc), .path = path, .given = given, .caller = lower->path, .wanted = lower->nresults};
    if (names_find(&lower->cells, cell->name)->kind == SYMBOL_FAILED || calls_itself(lower, cell, call) || !lower_work(lower, call->loc) ||
        !room_for_node(lower, call->loc) || !arguments_lower(lower, cell, call, arguments) || !lower_deeper(lower, call->loc))
        return false;
    int first = lower->diags->items.n;
    frame_enter(lower, &frame);
    bool ok = body_lower(lower, &frame, call, arguments);
    finish_diagnostics(lower, first);
    frame_leave(lower, &frame);
    lower->depth--;
    *nresults = frame.nresults;
    memcpy(results, frame.results, sizeof frame.results);
    lower->known.at[thing].id = ok ? results[0].value : -1;
    if (ok && lower->known.at[thing].recompute) mark_call(lower, nodes, results, *nresults);
    if (ok) regather_nodes(lower, nodes, lower->known.at[thing].regather);
    if (ok) stage_nodes(lower, nodes, lower->known.at[thing].stage);
    return ok;
}

/* ---------------------------------------------------------------- return */

/* return linear(x, 4); returns all results of the call. */
static bool return_call(Lower *lower, const Block *cell, const Expr *call, const Given *given, const Marks *marks) {
    Frame *frame = lower->frame;
    const char *path = inner_path(lower, cell->name, call->loc);
    const Given *chosen;
    if (!path || !hint_choose(lower, call_hintable(lower, cell, call, path), given, &chosen)) return false;
    return marks_note(lower, marks) && cell_call(lower, cell, call, path, chosen, frame->results, &frame->nresults);
}

bool return_lower(Lower *lower, const Statement *statement) {
    Frame *frame = lower->frame;
    Span span = lower_span(lower, statement->name_loc);
    if (!frame || lower->suffix[0]) {
        diag_error(lower->diags, span, !frame ? "return stands in a cell" : "return does not stand in a loop");
        if (!frame)
            diag_hint(lower->diags, "a net says what is to become small, loss mse(y, label); and an eval block what prun --predict writes");
        return false;
    }
    if (statement->next) {
        diag_error(lower->diags, span, "nothing follows a return");
        return false;
    }
    frame->returned = true;
    lower->path = frame->path;
    const Expr *list = statement->value, *only = list->nitems == 1 ? unbracket(list->items) : NULL;
    const Shard *shard = statement->shard;
    if (only && !strategy_unwrap(lower, &only, &shard)) return false;
    Given own = {.shard = shard, .file = lower->file, .names = lower->names};
    const Block *cell = only ? cell_called(lower, only) : NULL;
    if (shard && (!only || shard->block)) {
        diag_error(lower->diags, lower_span(lower, shard->loc), "give the result a name above to shard it: y = ... shard ...; return y;");
        return false;
    }
    if (cell) return return_call(lower, cell, only, shard ? &own : NULL, &statement->marks);
    if (statement->marks.recompute) {
        diag_error(lower->diags, span, "only a call is computed again: its result is kept, what an operator gives here is the result");
        return false;
    }
    if (statement->marks.stage) {
        diag_error(lower->diags, lower_span(lower, statement->marks.stage->loc),
                   "give the result a name above to say its stage: y = ... stage 1; return y;");
        return false;
    }
    if (list->nitems > MAX_OUT) {
        diag_error(lower->diags, span, "a cell returns at most %d results", (int)MAX_OUT);
        return false;
    }
    bool ok = true;
    lower->nresults = 1;
    for (const Expr *item = list->items; item; item = item->next)
        ok &= value_lower(lower, only ? only : item, &(Outcome){.name = only ? frame->path : NULL}, &frame->results[frame->nresults++]);
    if (!ok || !shard) return ok;
    bool marks = !shard->in;
    if (marks && frame->given) frame->given_used = true;
    const Given *given = marks ? frame->given : &own;
    return !given || attach_hint(lower, only, frame->results[0].value, given);
}
