#include "frontend/lower.h"

#include <float.h>
#include <string.h>

/* ---------------------------------------------------------------- data */

/* The first of the net's inputs that numpy_rand cannot fill, and why. */
static bool check_numpy_rand(Lower *lower, const Expr *value, const Expr *rows_expr) {
    const Graph *graph = lower->graph;
    int64_t rows = graph->settings.data_rows;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        int first = input->type.hidden ? 1 : 0;
        if (input->type.dtype == I32) {
            diag_error(lower->diags, lower_span(lower, value->loc), "numpy_rand draws real numbers, and input %s is i32", input->name);
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

static Input *input_find(Graph *graph, const char *name) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (!strcmp(graph->inputs.at[i].name, name)) return &graph->inputs.at[i];
    return NULL;
}

static bool unknown_input(Lower *lower, const Expr *item) {
    const Graph *graph = lower->graph;
    const char **names = arena_alloc(lower->arena, sizeof *names * (size_t)(graph->inputs.n + 1));
    for (int i = 0; i < graph->inputs.n; i++)
        names[i] = graph->inputs.at[i].name;
    const char *nearest = name_nearest(item->text, names, graph->inputs.n);
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
        /* No more memory than the text accounts for: a literal that is too short is an error before it is stored. */
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
        diag_error(lower->diags, lower_span(lower, value->loc), "per_rank is for mode data_parallel, and this is mode %s",
                   mode_name[graph->settings.mode]);
        diag_hint(lower->diags, "in the other modes a net sees one batch, that of all ranks together");
        return false;
    }
    graph->settings.data = DATA_PER_RANK;
    bool ok = true;
    for (const Expr *item = value->items; item; item = item->next)
        ok &= per_rank_input(lower, item);
    for (int i = 0; ok && i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->per_rank) continue;
        diag_error(lower->diags, lower_span(lower, value->loc), "per_rank does not give input %s", input->name);
        diag_note(lower->diags, input->span, "%s is declared here", input->name);
        ok = false;
    }
    return ok;
}

typedef bool CallFn(Lower *lower, const Expr *value);
typedef struct Builtin {
    const char *name;
    CallFn *eval; /* NULL: known, not built yet */
} Builtin;

static bool call_builtin(Lower *lower, const Expr *value, const char *what, const Builtin *builtins, int n, const char *hint) {
    Span span = lower_span(lower, value->loc);
    const char *names[8];
    for (int i = 0; i < n; i++)
        names[i] = builtins[i].name;
    const char *name = value->kind == EXPR_CALL || value->kind == EXPR_NAME ? value->text : NULL;
    if (!name) {
        diag_error(lower->diags, span, "this is no %s", what);
        diag_hint(lower->diags, "%s", hint);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) != 0) continue;
        if (builtins[i].eval && value->kind == EXPR_CALL) return builtins[i].eval(lower, value);
        diag_error(lower->diags, span, builtins[i].eval ? "%s needs its arguments" : "%s is not built yet", name);
        diag_hint(lower->diags, "%s", hint);
        return false;
    }
    const char *nearest = name_nearest(name, names, n);
    diag_error(lower->diags, span, "unknown %s '%s'", what, name);
    if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(lower->diags, "%s", hint);
    return false;
}

static bool eval_data(Lower *lower, const Expr *value) {
    static const Builtin builtins[] = {
        {"numpy_rand", eval_numpy_rand}, {"per_rank", eval_per_rank}, {"npy", NULL}, {"idx", NULL}, {"normal", NULL}};
    return call_builtin(lower, value, "data source", builtins, 5,
                        "data = numpy_rand(seed = 1); or, in mode data_parallel, per_rank(x = [...], ...)");
}

/* ---------------------------------------------------------------- optimizer */

static bool eval_rate(Lower *lower, const Expr *value, const char *const *parameters, int n, double *const *out) {
    const Expr *argument[2];
    if (!call_arguments(lower, value, parameters, n, n, argument)) {
        diag_hint(lower->diags, n == 1 ? "optimizer = sgd(lr = 0.1);" : "optimizer = momentum(lr = 0.1, momentum = 0.9);");
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!real_eval(lower, argument[i], parameters[i], 0, i == 0 ? DBL_MAX : 1, out[i])) return false;
    return true;
}

static bool eval_sgd(Lower *lower, const Expr *value) {
    static const char *const parameters[] = {"lr"};
    Settings *settings = &lower->graph->settings;
    settings->optimizer = OPTIMIZER_SGD;
    return eval_rate(lower, value, parameters, 1, (double *[]){&settings->lr});
}

static bool eval_momentum(Lower *lower, const Expr *value) {
    static const char *const parameters[] = {"lr", "momentum"};
    Settings *settings = &lower->graph->settings;
    settings->optimizer = OPTIMIZER_MOMENTUM;
    return eval_rate(lower, value, parameters, 2, (double *[]){&settings->lr, &settings->momentum});
}

static bool eval_optimizer(Lower *lower, const Expr *value) {
    static const Builtin builtins[] = {{"sgd", eval_sgd}, {"momentum", eval_momentum}, {"adam", NULL}, {"adamw", NULL}};
    return call_builtin(lower, value, "optimizer", builtins, 4, "optimizer = sgd(lr = 0.1); or momentum(lr = 0.1, momentum = 0.9);");
}

/* ---------------------------------------------------------------- numbers */

static bool eval_epochs(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "epochs", 1, INT32_MAX, &lower->graph->settings.epochs);
}

static bool eval_steps(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "steps", 1, INT32_MAX, &lower->graph->settings.steps);
}

static bool eval_log_every(Lower *lower, const Expr *value) {
    return integer_eval(lower, value, "log_every", 1, INT32_MAX, &lower->graph->settings.log_every);
}

static bool eval_seed(Lower *lower, const Expr *value) {
    int64_t seed = 0;
    bool ok = integer_eval(lower, value, "seed", 0, INT64_MAX, &seed);
    lower->graph->settings.seed = (uint64_t)seed;
    return ok;
}

enum { DATA, OPTIMIZER, EPOCHS, STEPS, LOG_EVERY, SEED, NTRAIN };
const Setting train_settings[] = {
    [DATA] = {"data", eval_data},    [OPTIMIZER] = {"optimizer", eval_optimizer}, [EPOCHS] = {"epochs", eval_epochs},
    [STEPS] = {"steps", eval_steps}, [LOG_EVERY] = {"log_every", eval_log_every}, [SEED] = {"seed", eval_seed}};
const int ntrain_settings = NTRAIN;

bool train_lower(Lower *lower, const Block *block) {
    Settings *settings = &lower->graph->settings;
    settings->epochs = settings->steps = 1;
    bool given[NTRAIN] = {false};
    if (!settings_lower(lower, block, "train", train_settings, ntrain_settings, parallel_settings, nparallel_settings, "parallel", given))
        return false;
    bool ok = true;
    if (!given[DATA] && lower->graph->inputs.n > 0) {
        diag_error(lower->diags, lower_span(lower, block->loc), "train does not say where the data comes from");
        diag_hint(lower->diags, "data = numpy_rand(seed = 1);");
        ok = false;
    }
    if (!given[OPTIMIZER]) {
        diag_error(lower->diags, lower_span(lower, block->loc), "train has no optimizer");
        diag_hint(lower->diags, "optimizer = sgd(lr = 0.1);");
        ok = false;
    }
    return ok;
}
