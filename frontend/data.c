/* The data of a train block: the source of inputs, the order of rows, and how the last rows of an epoch are treated. */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

#include "ir/lookup.h"

/* The first of the net's inputs that numpy_rand cannot fill, and why. */
static bool check_numpy_rand(Lower *lower, const Expr *value, const Expr *rows_expr) {
    const Graph *graph = lower->graph;
    int64_t rows = graph->settings.data_rows;
    for (int i = 0; i < graph_declared(graph); i++) {
        const Input *input = &graph->inputs.at[i];
        int first = input->type.hidden ? 1 : 0;
        if (!dtype_is_float(input->type.dtype)) {
            diag_error(lower->diags, lower_span(lower, value->loc), "numpy_rand draws real numbers, and input %s is %s", input->name,
                       dtype_name[input->type.dtype]);
            diag_note(lower->diags, input->span, "%s is declared here", input->name);
            return false;
        }
        if (rows_expr && input->type.shape.ndim == first) {
            diag_error(lower->diags, lower_span(lower, rows_expr->loc), "input %s is a single number: it has no rows", input->name);
            return false;
        }
        if (rows_expr && rows > input->type.shape.dim[first]) {
            diag_error(lower->diags, lower_span(lower, rows_expr->loc), "%lld rows are more than input %s has: %lld", (long long)rows,
                       input->name, (long long)input->type.shape.dim[first]);
            diag_note(lower->diags, input->span, "%s is declared %s here", input->name, type_text(lower, &input->type));
            return false;
        }
    }
    return true;
}

static bool eval_numpy_rand(Lower *lower, const Expr *value) {
    static const char *const parameters[] = {"seed", "rows"};
    const Expr *argument[2];
    Settings *settings = &lower->graph->settings;
    if (!call_arguments(lower, value, parameters, 2, 1, argument)) {
        diag_hint(lower->diags, "data = numpy_rand(seed = 1, rows = 2); rows may be left out");
        return false;
    }
    settings->data = DATA_NUMPY_RAND;
    if (!integer_eval(lower, argument[0], "seed", 0, UINT32_MAX, &settings->data_seed)) return false;
    if (argument[1] && !integer_eval(lower, argument[1], "rows", 1, INT64_MAX, &settings->data_rows)) return false;
    return check_numpy_rand(lower, value, argument[1]);
}

Input *input_find(Graph *graph, const char *name) {
    for (int i = 0; i < graph_declared(graph); i++)
        if (!strcmp(graph->inputs.at[i].name, name)) return &graph->inputs.at[i];
    return NULL;
}

bool unknown_input(Lower *lower, const Expr *item) {
    const Graph *graph = lower->graph;
    const char **names = arena_alloc(lower->arena, sizeof *names * (size_t)(graph_declared(graph) + 1));
    for (int i = 0; i < graph_declared(graph); i++)
        names[i] = graph->inputs.at[i].name;
    const char *nearest = name_nearest(item->text, names, graph_declared(graph));
    diag_error(lower->diags, lower_span(lower, item->loc), "the net has no input '%s'", item->text);
    if (nearest) diag_hint(lower->diags, "did you mean %s?", nearest);
    return false;
}

/* x = [literal of rank 0, literal of rank 1, ...] */
static bool per_rank_input(Lower *lower, const Expr *item) {
    Graph *graph = lower->graph;
    Input *input = item->kind == EXPR_KEYWORD ? input_find(graph, item->text) : NULL;
    Span span = lower_span(lower, item->loc);
    if (item->kind != EXPR_KEYWORD) {
        diag_error(lower->diags, span, "per_rank takes the inputs by name: x = [literal of rank 0, literal of rank 1, ...]");
        return false;
    }
    if (!input) return unknown_input(lower, item);
    const Expr *list = item->items;
    if (input->per_rank) {
        diag_error(lower->diags, span, "input %s is given twice", input->name);
        return false;
    }
    if (list->kind != EXPR_LIST || list->nitems != graph->replicas) {
        diag_error(
            lower->diags, lower_span(lower, list->loc), "%s needs a list of %d literals, one a replica%s", input->name, graph->replicas,
            list->kind == EXPR_LIST ? arena_printf(lower->arena, "; there %s %d", list->nitems == 1 ? "is" : "are", list->nitems) : "");
        diag_hint(lower->diags, "the number of replicas is that of the ranks (--ranks), or --replicas");
        return false;
    }
    TensorType type = input->type;
    type.hidden = false;
    memmove(type.shape.dim, type.shape.dim + 1, sizeof *type.shape.dim * (size_t)--type.shape.ndim);
    int64_t elements = shape_elements(&type.shape);
    double *data = NULL;
    int replica = 0;
    for (const Expr *literal = list->items; literal; literal = literal->next, replica++) {
        /* Memory is bounded by the length of the text: a literal that is too short is an error before it is stored. */
        if (!data && elements <= literal->loc.end - literal->loc.begin)
            data = arena_alloc(lower->arena, sizeof *data * (size_t)elements * (size_t)list->nitems);
        double *scratch = data ? data + replica * elements
                               : arena_alloc(lower->arena, sizeof *data * (size_t)(literal->loc.end - literal->loc.begin + 1));
        if (!literal_eval(lower, literal, &type, scratch)) {
            diag_note(lower->diags, input->span, "%s is declared %s here", input->name, type_text(lower, &type));
            return false;
        }
    }
    input->per_rank = data;
    return true;
}

static bool eval_per_rank(Lower *lower, const Expr *value) {
    Graph *graph = lower->graph;
    if (!lower->hidden) {
        diag_error(lower->diags, lower_span(lower, value->loc), "per_rank is for modes data_parallel and manual, and this is mode %s",
                   mode_name[graph->settings.mode]);
        diag_hint(lower->diags, "in the other modes a net sees one batch, that of all ranks together");
        return false;
    }
    graph->settings.data = DATA_PER_RANK;
    bool ok = true;
    for (const Expr *item = value->items; item; item = item->next)
        ok &= per_rank_input(lower, item);
    for (int i = 0; ok && i < graph_declared(graph); i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->per_rank) continue;
        diag_error(lower->diags, lower_span(lower, value->loc), "per_rank does not give input %s", input->name);
        diag_note(lower->diags, input->span, "%s is declared here", input->name);
        ok = false;
    }
    return ok;
}

/* ---------------------------------------------------------------- random rows */

bool input_can_be_drawn(Lower *lower, const Expr *value, const Input *input) {
    if (dtype_is_float(input->type.dtype) || input->type.dtype == BOOL || range_known(input->index)) return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "%s draws real numbers and indices, and input %s is %s", value->text,
               input->name, dtype_name[input->type.dtype]);
    diag_note(lower->diags, input->span, "%s is declared here", input->name);
    return false;
}

static bool eval_random(Lower *lower, const Expr *value, DataKind kind) {
    static const char *const parameters[] = {"seed"};
    const Expr *argument[1];
    Settings *settings = &lower->graph->settings;
    if (!call_arguments(lower, value, parameters, 1, 1, argument)) {
        diag_hint(lower->diags, "data = %s(seed = 1);", value->text);
        return false;
    }
    settings->data = kind;
    for (int i = 0; i < graph_declared(lower->graph); i++) {
        if (!input_can_be_drawn(lower, value, &lower->graph->inputs.at[i])) return false;
    }
    return integer_eval(lower, argument[0], "seed", 0, INT64_MAX, &settings->data_seed);
}
static bool eval_normal(Lower *lower, const Expr *value) {
    return eval_random(lower, value, DATA_NORMAL);
}
static bool eval_uniform(Lower *lower, const Expr *value) {
    return eval_random(lower, value, DATA_UNIFORM);
}

/* ---------------------------------------------------------------- the settings */

bool eval_data(Lower *lower, const Expr *value) {
    static const Builtin builtins[] = {{"numpy_rand", eval_numpy_rand},
                                       {"per_rank", eval_per_rank},
                                       {"npy", eval_files},
                                       {"idx", eval_files},
                                       {"csv", eval_files},
                                       {"raw", eval_files},
                                       {"cifar10", eval_files},
                                       {"pictures", eval_files},
                                       {"files", eval_files},
                                       {"normal", eval_normal},
                                       {"uniform", eval_uniform}};
    return call_builtin(
        lower, value, "data source", builtins, (int)(sizeof builtins / sizeof *builtins),
        "data = numpy_rand(seed = 1); npy(x = \"x.npy\", ...), idx(..), csv(..), raw(..), cifar10(..), pictures(..), normal(seed = 1); or, in mode "
        "data_parallel, per_rank(x = [...], ...)");
}

/* order = file; or shuffle(seed = 0). */
bool eval_order(Lower *lower, const Expr *value) {
    static const char *const parameters[] = {"seed"};
    const Expr *argument[1] = {NULL};
    Settings *settings = &lower->graph->settings;
    settings->shuffle = value->kind == EXPR_CALL && strcmp(value->text, "shuffle") == 0;
    if (value->kind == EXPR_NAME && strcmp(value->text, "file") == 0) return true;
    if (!settings->shuffle) {
        diag_error(lower->diags, lower_span(lower, value->loc), "the order of rows is file or shuffle(seed = ..)");
        diag_hint(lower->diags, "order = shuffle(seed = 0); every epoch has another order");
        return false;
    }
    return call_arguments(lower, value, parameters, 1, 0, argument) &&
           (!argument[0] || integer_eval(lower, argument[0], "seed", 0, UINT32_MAX, &settings->shuffle_seed));
}

static bool share_eval(Lower *lower, const Expr *expr, const char *what, double *share) {
    Number number;
    if (!number_eval(lower, expr, &number)) return false;
    *share = number.f;
    if (number.f > 0 && number.f < 1) return true;
    diag_error(lower->diags, lower_span(lower, expr->loc), "%s is above 0 and below 1, not %s", what, number_text(lower->arena, number));
    return false;
}

/* Reads an argument of split(..) that is no share: seed, part, test. */
static bool split_named(Lower *lower, const Expr *item, RowSplit *split, int64_t *part, double *test) {
    static const char *const names[] = {"seed", "part", "test"};
    if (!strcmp(item->text, "seed")) return integer_eval(lower, item->items, "seed", 0, UINT32_MAX, &split->seed);
    if (!strcmp(item->text, "part")) return integer_eval(lower, item->items, "part", 0, MAX_SHARES - 1, part);
    if (!strcmp(item->text, "test")) return share_eval(lower, item->items, "test, a share of the rows,", test);
    const char *nearest = name_nearest(item->text, names, 3);
    diag_error(lower->diags, lower_span(lower, item->loc), "split has no argument '%s'", item->text);
    if (nearest) diag_hint(lower->diags, "did you mean %s?", nearest);
    return false;
}

/* rows = split(0.9, 0.1, seed = 42), or split(test = 0.1, seed = 42): train has the first part, eval the second, unless part = .. names another. */
bool eval_split(Lower *lower, const Expr *value) {
    RowSplit split = {0};
    double test = 0, sum = 0;
    int64_t part = lower->eval ? 1 : 0;
    bool ok = value->kind == EXPR_CALL && strcmp(value->text, "split") == 0;
    for (const Expr *item = ok ? value->items : NULL; item; item = item->next) {
        if (item->kind == EXPR_KEYWORD) {
            if (!split_named(lower, item, &split, &part, &test)) return false;
            continue;
        }
        if (split.nshares == MAX_SHARES)
            return diag_error(lower->diags, lower_span(lower, item->loc), "a split has at most %d shares", MAX_SHARES), false;
        if (!share_eval(lower, item, "a share of the rows", &split.share[split.nshares])) return false;
        sum += split.share[split.nshares++];
    }
    split.test = test > 0;
    if (split.test && split.nshares == 0) {
        split = (RowSplit){.nshares = 2, .share = {1 - test, test}, .test = true, .seed = split.seed};
    } else if (!ok || split.test || split.nshares < 2 || fabs(sum - 1) > 1e-9) {
        diag_error(lower->diags, lower_span(lower, value->loc),
                   ok && !split.test && split.nshares > 1 ? "the shares of a split sum to 1, and these to %g"
                                                          : "rows are shared out by a split",
                   sum);
        diag_hint(lower->diags, "rows = split(0.9, 0.1, seed = 42); or split(test = 0.1, seed = 42)");
        return false;
    }
    if (part >= split.nshares) {
        diag_error(lower->diags, lower_span(lower, value->loc), "a split of %d parts has none with the number %lld, counted from 0",
                   split.nshares, (long long)part);
        return false;
    }
    split.part = (int)part;
    lower->graph->settings.split = split;
    return true;
}

bool eval_last(Lower *lower, const Expr *value) {
    int last = choice(lower, "last", value, last_name, NLASTS);
    if (last >= 0) lower->graph->settings.last = (Last)last;
    return last >= 0;
}

/* uneven = pad; Where the last batch is not set, it is short, as in a DataLoader. */
bool eval_uneven(Lower *lower, const Expr *value) {
    const int uneven = choice(lower, "uneven", value, uneven_name, NUNEVENS);
    if (uneven >= 0) lower->graph->settings.uneven = (Uneven)uneven;
    return uneven >= 0;
}

bool data_complete(Lower *lower, const Block *block, bool steps_given) {
    Settings *settings = &lower->graph->settings;
    if (settings->data == DATA_FILES && !steps_given) settings->steps = 0; /* as many as the rows give */
    const bool split = settings->split.nshares > 0;
    if (settings->data != DATA_FILES && (settings->shuffle || split || settings->uneven != UNEVEN_JOIN || settings->last != LAST_DROP)) {
        const char *name = settings->shuffle ? "order" : split ? "split" : settings->uneven != UNEVEN_JOIN ? "uneven" : "last";
        diag_error(lower->diags, setting_span(lower, block, name), "%s is for files of rows, and this data has no last row", name);
        diag_hint(lower->diags, "leave it out, or say data = npy(x = \"x.npy\", ...);");
        return false;
    }
    lower->rows.span = lower_span(lower, block->loc);
    if (settings->last != LAST_DROP) lower->rows.use = LOSS_WEIGHED;
    return true;
}
