/* shard: strategies as written, `((2, 4), (4, 1)) -> (8, 1)` or with axes, to hints; the mesh; the dataset strategy. */
#include "frontend/lower.h"

#include <string.h>

enum { MAX_TUPLES = sizeof(((Hint *)0)->in) / sizeof(HintTuple), MAX_AXES = sizeof(((HintDim *)0)->axis) / sizeof(const char *) };

/* The form of a strategy so far: mixing counts and axes is an error at the second kind. */
typedef struct Form {
    const Expr *count, *axis; /* the first of each; NULL: none yet */
} Form;

/* "dp, tp" */
static const char *axis_list(const Lower *lower) {
    const Settings *settings = &lower->graph->settings;
    const char *list = "";
    for (int i = 0; i < settings_naxes(settings); i++)
        list = arena_printf(lower->arena, "%s%s%s", list, i ? ", " : "", settings_axis(settings, i)->name);
    return list;
}

static bool axis_eval(Lower *lower, const Expr *name, HintDim *dim) {
    Span span = lower_span(lower, name->loc);
    if (dim->naxes == MAX_AXES) {
        diag_error(lower->diags, span, "a dimension is split by at most %d axes", (int)MAX_AXES);
        return false;
    }
    const Axis *axis = axis_find(&lower->graph->settings, name->text);
    if (axis) {
        dim->axis[dim->naxes++] = axis->name;
        return true;
    }
    const Settings *settings = &lower->graph->settings;
    if (settings_naxes(settings) == 0) {
        diag_error(lower->diags, span, "'%s' is no axis: there is no mesh", name->text);
        diag_hint(lower->diags, "name the axes in the parallel block: mesh (dp = 2, tp = 4);");
        return false;
    }
    const char *names[2 * MAX_DIGITS];
    for (int i = 0; i < settings_naxes(settings); i++)
        names[i] = settings_axis(settings, i)->name;
    const char *nearest = name_nearest(name->text, names, settings_naxes(settings));
    diag_error(lower->diags, span, "the mesh has no axis '%s'", name->text);
    if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(lower->diags, "its axes are %s; '-' is a dimension that is not split", axis_list(lower));
    if (settings->mesh.n > 0) diag_note(lower->diags, settings->mesh_span, "the mesh is here");
    return false;
}

static bool mixed(Lower *lower, const Expr *expr, const Form *form) {
    if (!form->count || !form->axis) return false;
    diag_error(lower->diags, lower_span(lower, expr->loc), "a strategy is written with counts or with axes, not with both");
    diag_note(lower->diags, lower_span(lower, (expr == form->count ? form->axis : form->count)->loc), "the other kind is here");
    diag_hint(lower->diags, "with axes '-' is a dimension that is not split, with counts it is 1");
    return true;
}

/* On a single rank nothing is split, without an error: the same text is meant for more ranks. A stage of one rank cannot split: an error. */
static bool stage_splits(Lower *lower, const HintDim *dim) {
    const Graph *graph = lower->graph;
    if (dim->split == 1 || graph->nranks > 1 || settings_stages(&graph->settings) == 1) return true;
    diag_error(lower->diags, dim->span, "a split in %lld, and a stage has one rank", (long long)dim->split);
    diag_hint(lower->diags, "strategies are of the ranks of one stage: fewer stages have more");
    return false;
}

/* One dimension: a count, an axis, axes joined by '.', or '-'. */
static bool dim_eval(Lower *lower, const Expr *expr, Form *form, HintDim *dim) {
    expr = unbracket(expr);
    *dim = (HintDim){.span = lower_span(lower, expr->loc)};
    if (expr->kind == EXPR_STRING || (expr->kind == EXPR_CALL && !is_number(lower, expr))) {
        diag_error(lower->diags, dim->span, "this is neither an axis nor a count");
        diag_hint(lower->diags, "axes stand by their names alone: ((dp, -), (-, tp))");
        return false;
    }
    bool is_axis = expr->kind == EXPR_DASH || expr->kind == EXPR_PATH || (expr->kind == EXPR_NAME && !is_number(lower, expr)) ||
                   (expr->kind == EXPR_NAME && axis_find(&lower->graph->settings, expr->text));
    const Expr **first = is_axis ? &form->axis : &form->count;
    bool begins = !*first;
    if (begins) *first = expr;
    if (begins && mixed(lower, expr, form)) return false;
    if (!is_axis) return integer_eval(lower, expr, "a split", 1, INT32_MAX, &dim->split) && stage_splits(lower, dim);
    if (expr->kind == EXPR_DASH) return true;
    if (expr->kind == EXPR_NAME) return axis_eval(lower, expr, dim);
    for (const Expr *name = expr->items; name; name = name->next) {
        if (name->kind != EXPR_NAME) {
            diag_error(lower->diags, lower_span(lower, name->loc), "axes are joined by '.', and this is no name of one");
            return false;
        }
        if (!axis_eval(lower, name, dim)) return false;
    }
    return true;
}

static bool is_tuple(const Expr *expr) {
    return expr->kind == EXPR_TUPLE || expr->kind == EXPR_LIST;
}

static bool round_brackets(Lower *lower, const Expr *expr) {
    if (expr->kind == EXPR_TUPLE) return true;
    diag_error(lower->diags, lower_span(lower, expr->loc), "strategies are written in round brackets");
    diag_hint(lower->diags, "one tuple an operand, one number a dimension: shard ((2, 4), (4, 1));");
    return false;
}

static bool tuple_eval(Lower *lower, const Expr *expr, Form *form, HintTuple *tuple) {
    *tuple = (HintTuple){.span = lower_span(lower, expr->loc)};
    if (!round_brackets(lower, expr)) return false;
    if (expr->nitems > MAX_NDIM - 1) {
        diag_error(lower->diags, tuple->span, "%d splits; a tensor has at most %d dimensions", expr->nitems, MAX_NDIM - 1);
        return false;
    }
    for (const Expr *item = expr->items; item; item = item->next)
        if (!dim_eval(lower, item, form, &tuple->dim[tuple->ndim++])) return false;
    return true;
}

/* How many of a tuple's items are tuples themselves. */
static int count_tuples(const Expr *expr) {
    int n = 0;
    for (const Expr *item = expr->items; item; item = item->next)
        n += is_tuple(item);
    return n;
}

/* Reads the tuples of ((2, 4), (4, 1)) or (((2, 4), (4, 1))); (2, 4) is a single tuple. one: they are for one tensor, so () is a tuple
 * too, that of a scalar. */
static bool tuples_eval(Lower *lower, const Expr *expr, bool one, Form *form, HintTuple *tuples, int *n) {
    Span span = lower_span(lower, expr->loc);
    if (!is_tuple(expr)) {
        static const char *const marks[] = {"regather", "recompute"};
        const char *nearest = expr->kind == EXPR_NAME ? name_nearest(expr->text, marks, 2) : NULL;
        diag_error(lower->diags, span, "a strategy is one tuple an operand: shard ((2, 4), (4, 1));");
        if (nearest) diag_hint(lower->diags, "a hint of a path may also be a word alone: layer.* = %s;", nearest);
        return false;
    }
    if (!round_brackets(lower, expr)) return false;
    if (expr->nitems == 1 && is_tuple(expr->items) && expr->items->nitems > 0 && count_tuples(expr->items) == expr->items->nitems)
        expr = expr->items;
    if (!round_brackets(lower, expr)) return false;
    int nested = count_tuples(expr);
    *n = 0;
    if (nested == 0 && (one || expr->nitems > 0)) return tuple_eval(lower, expr, form, &tuples[(*n)++]);
    if (expr->nitems == 0) {
        diag_error(lower->diags, span, "the strategy is empty");
        diag_hint(lower->diags, "one tuple an operand, one number a dimension: shard ((2, 4), (4, 1));");
        return false;
    }
    if (expr->nitems > MAX_TUPLES) {
        diag_error(lower->diags, span, "%d tuples; a strategy has at most %d", expr->nitems, (int)MAX_TUPLES);
        return false;
    }
    for (const Expr *item = expr->items; item; item = item->next) {
        if (!is_tuple(item)) {
            diag_error(lower->diags, lower_span(lower, item->loc), "this is no tuple, and others here are");
            diag_hint(lower->diags, "one tuple an operand, one number a dimension: ((2, 4), (4, 1)); a tuple of one number is (4)");
            return false;
        }
        for (const Expr *dim = item->items; dim; dim = dim->next)
            if (is_tuple(dim) && (dim->kind == EXPR_LIST || is_tuple(unbracket(dim)))) {
                diag_error(lower->diags, lower_span(lower, dim->loc), "too many brackets: a strategy is a tuple of tuples of numbers");
                if (dim->items && unbracket(dim)->items->kind == EXPR_NAME)
                    diag_hint(lower->diags, "several axes of one dimension are joined by '.', the major one first: ((dp.tp, -), (-, -))");
                return false;
            }
        if (!tuple_eval(lower, item, form, &tuples[(*n)++])) return false;
    }
    return true;
}

bool shard_counts(Lower *lower, Span span) {
    Mode mode = lower->graph->settings.mode;
    if (mode == MODE_SEMI_AUTO || mode == MODE_AUTO) return true;
    if (!lower->warned_shard) {
        diag_warning(lower->diags, WARN_NO_EFFECT, span, "shard has no effect in mode %s: only semi_auto and auto look at strategies",
                     mode_name[mode]);
        lower->warned_shard = true;
    }
    return false;
}

bool shard_is_at(const Shard *shard) {
    return shard && shard->in && shard->in->kind == EXPR_CALL && !shard->in->method && !strcmp(shard->in->text, "at");
}

/* at(3): a state on one rank. */
static bool at_eval(Lower *lower, const Shard *shard, const char *what, Hint *hint) {
    const Graph *graph = lower->graph;
    const Expr *call = shard->in, *item = call->items;
    int64_t rank;
    if (shard->out || call->nitems != 1 || item->kind == EXPR_KEYWORD) {
        diag_error(lower->diags, hint->span, "at has one rank: shard at(3)");
        return false;
    }
    if (!strncmp(what, "operator", 8) || !strncmp(what, "input", 5)) {
        diag_error(lower->diags, hint->span, "only a parameter or a state lies on one rank, and this is an %.*s", (int)strcspn(what, " "),
                   what);
        diag_hint(lower->diags, "a lookup in a table is done where the table lies: param table : f32[1000, 8] = zeros shard at(3);");
        return false;
    }
    if (!integer_eval(lower, item, "a rank", 0, MAX_RANKS - 1, &rank)) return false;
    if (graph->nranks > 1 && rank >= graph->nranks) {
        const bool staged = settings_stages(&graph->settings) > 1;
        diag_error(lower->diags, lower_span(lower, item->loc),
                   staged ? "a stage has no rank %lld: it has %d" : "there is no rank %lld: there are %d", (long long)rank, graph->nranks);
        if (staged)
            diag_hint(
                lower->diags,
                "at counts the ranks of the stage that uses the table, from 0; stage says which that is: h = embedding(table, index) stage 1;");
        else
            diag_hint(lower->diags, "the first one is rank 0; in a loop at(i %% %d) deals tables out", graph->nranks);
        return false;
    }
    hint->at = (int)rank + 1;
    return true;
}

const Hint *hint_eval(Lower *lower, const Shard *shard, int tensors, const char *what) {
    Hint *hint = arena_alloc(lower->arena, sizeof *hint);
    Form form = {0};
    hint->span = lower_span(lower, shard->loc);
    hint->call = lower->frame ? lower->frame->call : NULL;
    if (shard_is_at(shard)) return at_eval(lower, shard, what, hint) ? hint : NULL;
    if (!tuples_eval(lower, shard->in, tensors == 1, &form, hint->in, &hint->nin)) return NULL;
    if (tensors > 0 && hint->nin != tensors) {
        diag_error(lower->diags, hint->span, "%d tuples for %s, which has one", hint->nin, what);
        diag_hint(lower->diags, "one number a dimension: shard (4, 1);");
        return NULL;
    }
    if (shard->out && tensors > 0) {
        diag_error(lower->diags, lower_span(lower, shard->out->loc), "only an operator has an output strategy");
        return NULL;
    }
    HintTuple out[MAX_TUPLES];
    if (shard->out && !tuples_eval(lower, shard->out, true, &form, out, &hint->nout)) return NULL;
    if (hint->nout > 1) {
        diag_error(lower->diags, lower_span(lower, shard->out->loc), "%d output strategies; an operator has one result: -> (8, 1)",
                   hint->nout);
        return NULL;
    }
    if (hint->nout) hint->out = out[0];
    hint->named = form.axis != NULL;
    return hint;
}

const Hint *hint_given(Lower *lower, const Given *given, int tensors, const char *what) {
    SourcePlace place = lower_enter(lower, given->file, lower->directory);
    Names names = lower->names;
    lower->names = given->names;
    const Hint *hint = hint_eval(lower, given->shard, tensors, what);
    lower->names = names;
    lower_leave(lower, place);
    return hint;
}

const Hint *hint_of_dataset(Lower *lower, const Expr *value) {
    Hint *hint = arena_alloc(lower->arena, sizeof *hint);
    Form form = {0};
    hint->span = lower_span(lower, value->loc);
    int ninputs = graph_declared(lower->graph);
    if (ninputs > MAX_TUPLES) {
        diag_error(lower->diags, hint->span, "a dataset strategy is for at most %d inputs; this net has %d", (int)MAX_TUPLES, ninputs);
        diag_hint(lower->diags, "write shard at each input instead");
        return NULL;
    }
    if (!tuples_eval(lower, value, false, &form, hint->in, &hint->nin)) return NULL;
    if (hint->nin != ninputs) {
        diag_error(lower->diags, hint->span, "%d tuple%s, but the net has %d input%s", hint->nin, hint->nin == 1 ? "" : "s", ninputs,
                   ninputs == 1 ? "" : "s");
        diag_hint(lower->diags, "one tuple an input, in the order of their declaration");
        for (int i = 0; i < ninputs; i++)
            diag_note(lower->diags, lower->graph->inputs.at[i].span, "input %s", lower->graph->inputs.at[i].name);
        return NULL;
    }
    hint->named = form.axis != NULL;
    return hint;
}

/* ---------------------------------------------------------------- the mesh */

/* Adds the axes of a mesh to the list axes. */
static bool axes_eval(Lower *lower, const Expr *value, MeshAxes *axes) {
    const Span whole = lower_span(lower, value->loc);
    const Settings *settings = &lower->graph->settings;
    if (value->kind != EXPR_CALL || value->nitems == 0) {
        diag_error(lower->diags, whole, "a mesh is a list of axes: mesh (dp = 2, tp = 4);");
        return false;
    }
    int64_t product = 1;
    int32_t sizes[MAX_DIGITS];
    const int first = axes->n;
    for (const Expr *item = value->items; item; item = item->next) {
        Span span = lower_span(lower, item->loc);
        int64_t size;
        if (item->kind != EXPR_KEYWORD) {
            diag_error(lower->diags, span, "an axis has a name and a size: dp = 2");
            diag_hint(lower->diags, "mesh (dp = 2, tp = 4);");
            return false;
        }
        if (axis_find(settings, item->text)) {
            diag_error(lower->diags, span, "the mesh has an axis '%s' already", item->text);
            return false;
        }
        if (axes->n == MAX_DIGITS) {
            diag_error(lower->diags, span, "a mesh has at most %d axes", (int)MAX_DIGITS);
            return false;
        }
        if (!integer_eval(lower, item->items, "the size of an axis", 1, INT32_MAX, &size)) return false;
        if (!mul_checked(product, size, &product) || product > INT32_MAX) {
            diag_error(lower->diags, whole, "the mesh has more than %lld ranks", (long long)INT32_MAX);
            return false;
        }
        sizes[axes->n - first] = (int32_t)size;
        vec_push(lower->arena, axes, ((Axis){.name = item->text, .size = (int32_t)size}));
    }
    const int replicas = lower->overrides->replicas;
    const int nranks = settings->mode == MODE_MANUAL && replicas > 0 ? replicas : lower->graph->nranks;
    const int stages = settings_stages(settings);
    if (nranks * stages == 1 || (nranks == 1 && product == 1))
        return true; /* nothing to split over: the same text also runs on one rank (file_lower drops the axes) */
    if (product > nranks || nranks % product != 0) {
        /* Strategies with its axes have no effect in other modes, and every net is compared with its run on one rank. */
        if (settings->mode == MODE_STAND_ALONE || settings->mode == MODE_DATA_PARALLEL) {
            axes->n = first;
            return true;
        }
        diag_error(lower->diags, whole, "the mesh has %lld ranks, which does not divide the %d rank%s of %s", (long long)product, nranks,
                   nranks == 1 ? "" : "s", stages > 1 ? "a stage" : "this run");
        diag_hint(lower->diags, "--ranks %lld would fit; so does --ranks 1, where nothing is split", (long long)product * stages);
        return false;
    }
    Digit digits[MAX_DIGITS];
    mesh_digits(sizes, axes->n - first, (int32_t)(nranks / product), digits);
    for (int i = first; i < axes->n; i++)
        axes->at[i].digit = digits[i - first];
    return true;
}

bool mesh_eval(Lower *lower, const Expr *value) {
    lower->graph->settings.mesh_span = lower_span(lower, value->loc);
    return axes_eval(lower, value, &lower->graph->settings.mesh);
}

bool hint_mesh_eval(Lower *lower, const Expr *value) {
    return axes_eval(lower, value, &lower->graph->settings.hint_axes);
}
