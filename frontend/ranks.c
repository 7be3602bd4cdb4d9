/* ranks: mode manual: the numbers of ranks, values that differ by rank, and groups of ranks. In all modes: how many replicas share statistics. */
#include "frontend/lower.h"

#include <string.h>

/* ---------------------------------------------------------------- each rank's numbers */

bool mentions_rank(const Lower *lower, const Expr *expr) {
    if (!expr || !lower->manual) return false;
    if (expr->kind == EXPR_NAME) return strcmp(expr->text, "rank") == 0 && names_look(lower, "rank") == names_find(&lower->globals, "rank");
    for (const Expr *item = expr->items; item; item = item->next)
        if (mentions_rank(lower, item)) return true;
    return false;
}

int rank_set(Lower *lower, int rank) {
    Symbol *symbol = names_find(&lower->globals, "rank");
    if (!lower->manual || !symbol) return -1;
    symbol->kind = rank < 0 ? SYMBOL_CONST : SYMBOL_NUMBER;
    symbol->number = (Number){.i = rank, .f = rank};
    return rank;
}

int rank_own(Lower *lower, int value, const char *name, Span span) {
    const Attr hide[MAX_ATTRS] = {{.given = true, .i = 1}};
    return graph_emit(lower->graph, OP_expose, &value, 1, hide, name, span);
}

TensorType rank_type(const Lower *lower, TensorType type) {
    if (!lower->manual) return type;
    memmove(type.shape.dim + 1, type.shape.dim, sizeof *type.shape.dim * (size_t)type.shape.ndim++);
    type.shape.dim[0] = lower->graph->replicas;
    return type;
}

/* The number of each rank: the count of the ranks before it. */
static int rank_value(Lower *lower) {
    Graph *graph = lower->graph;
    const TensorType type = {.dtype = I32, .shape = {.ndim = 1, .dim = {graph->replicas}}};
    const Attr before[MAX_ATTRS] = {{.given = true, .i = 0}, {0}, {.given = true, .i = 1}};
    const Span span = lower_span(lower, lower->net->name_loc);
    const int ones = graph_constant(graph, type, NULL, 1, "rank.ones", span);
    return rank_own(lower, graph_emit(graph, OP_cumsum, &ones, 1, before, "ranks", span), "rank", span);
}

/* Defines batch_norm_replicas: the number of replicas over whose rows a batch_norm computes statistics. A count of its operand's rows is multiplied by it. */
static void together_define(Lower *lower) {
    const Settings *settings = &lower->graph->settings;
    const bool together = lower->hidden && settings->mode == MODE_DATA_PARALLEL && settings->batch_norm_global;
    const int n = together ? lower->graph->replicas : 1;
    if (names_find(&lower->globals, "batch_norm_replicas")) return;
    Symbol *symbol = names_insert(&lower->globals, lower->arena, "batch_norm_replicas");
    symbol->kind = SYMBOL_NUMBER;
    symbol->number = (Number){.i = n, .f = n};
}

void ranks_define(Lower *lower) {
    together_define(lower);
    if (!lower->manual) return;
    Symbol *symbol = names_find(&lower->globals, "rank");
    if (!symbol) symbol = names_insert(&lower->globals, lower->arena, "rank");
    const Span span = lower_span(lower, lower->net->name_loc);
    *symbol = (Symbol){.name = "rank", .kind = SYMBOL_CONST, .value = lower->rank = rank_value(lower), .span = span};
    symbol = names_find(&lower->globals, "nranks");
    if (!symbol) symbol = names_insert(&lower->globals, lower->arena, "nranks");
    const int n = lower->graph->replicas;
    *symbol = (Symbol){.name = "nranks", .kind = SYMBOL_NUMBER, .number = {.i = n, .f = n}, .value = -1, .span = span};
}

/* ---------------------------------------------------------------- groups */

bool group_eval(Lower *lower, const Expr *value) {
    if (value->kind != EXPR_CALL || value->nitems == 0) {
        diag_error(lower->diags, lower_span(lower, value->loc), "a group is a name and its ranks");
        diag_hint(lower->diags, "group (evens = [0, 2], odds = [1, 3]);");
        return false;
    }
    for (const Expr *item = value->items; item; item = item->next) {
        const Span span = lower_span(lower, item->loc);
        if (item->kind != EXPR_KEYWORD || item->items->kind != EXPR_LIST || item->items->nitems == 0) {
            diag_error(lower->diags, span, "a group is a name and its ranks");
            diag_hint(lower->diags, "group (evens = [0, 2], odds = [1, 3]);");
            return false;
        }
        RankGroup group = {.name = item->text, .list = item->items, .file = lower->file, .span = span};
        for (int i = 0; i < lower->groups.n; i++)
            if (!strcmp(lower->groups.at[i].name, group.name)) {
                diag_error(lower->diags, span, "there is a group '%s' already", group.name);
                diag_note(lower->diags, lower->groups.at[i].span, "it is here");
                return false;
            }
        vec_push(lower->arena, &lower->groups, group);
    }
    return true;
}

bool groups_check(Lower *lower) {
    const int n = lower->graph->replicas, file = lower->file;
    bool ok = true;
    for (int i = 0; i < lower->groups.n && ok; i++) {
        RankGroup *group = &lower->groups.at[i];
        lower->file = group->file;
        if (!lower->manual) {
            diag_error(lower->diags, group->span, "groups are of mode manual, and this is mode %s", mode_name[lower->graph->settings.mode]);
            diag_hint(lower->diags, "in the other modes pcc inserts communications, and finds who takes part in them");
            ok = false;
            break;
        }
        if (axis_find(&lower->graph->settings, group->name)) {
            diag_error(lower->diags, group->span, "'%s' is an axis of the mesh already", group->name);
            ok = false;
            break;
        }
        group->place = arena_alloc(lower->arena, sizeof *group->place * (size_t)n);
        for (int r = 0; r < n; r++)
            group->place[r] = -1;
        for (const Expr *item = group->list->items; item && ok; item = item->next) {
            int64_t rank;
            if (!(ok = integer_eval(lower, item, "a rank of a group", 0, n - 1, &rank))) continue;
            if (group->place[rank] >= 0) {
                diag_error(lower->diags, lower_span(lower, item->loc), "rank %d is in the group twice", (int)rank);
                ok = false;
            }
            group->place[rank] = group->size++;
        }
    }
    lower->file = file;
    return ok;
}
