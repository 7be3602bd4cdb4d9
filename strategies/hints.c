/* What a user wrote after `shard`, checked by MindSpore's rules (docs/language.md). Every mistake is reported at the number or the name
 * at fault, with what would be legal there. */
#include <inttypes.h>
#include <string.h>

#include "strategies/choice.h"

/* The digits of one dimension's axes, major first. */
typedef struct Digits {
    int n;
    Digit at[sizeof((HintDim *)0)->axis / sizeof *((HintDim *)0)->axis];
} Digits;

/* One hint under examination. */
typedef struct Check {
    const Graph *graph;
    const char *what; /* begins every message: "matmul", "w"; where another operator stands for the one written, its name, "p" */
    bool named, strict;
    Diags *diags;
} Check;

/* What messages write after a number of ranks. */
static const char *in_a_stage(const Graph *graph) {
    return settings_stages(&graph->settings) > 1 ? " in a stage" : "";
}

/* "1, 2, 4, 8": the legal splits of a dimension of this size. */
static void legal_splits(const Check *check, int64_t size, bool divides, Text *text) {
    int nranks = check->graph->nranks;
    for (int split = 1; split <= nranks && split <= size; split++)
        if (nranks % split == 0 && (!divides || size % split == 0)) text_printf(text, "%s%d", text->n ? ", " : "", split);
    if (text->n == 0) text_printf(text, "1");
}

static bool reject_split(const Check *check, const HintDim *dim, int64_t size, bool divides, const char *reason) {
    Text legal = {0};
    legal_splits(check, size, divides, &legal);
    diag_error(check->diags, dim->span, "%s: %s", check->what, reason);
    if (check->named)
        diag_hint(check->diags, "axes whose sizes multiply to one of %s are legal here; - leaves the dimension whole", legal.at);
    else
        diag_hint(check->diags, "legal here: %s", legal.at);
    text_finish(&legal);
    return false;
}

/* Checks one dimension's split against its size. `place` names the dimension. */
static bool check_split(const Check *check, const HintDim *dim, int64_t split, int64_t size, bool divides, const char *place) {
    char reason[256];
    if (split < 1) {
        snprintf(reason, sizeof reason, "%s is split %" PRId64 " ways; the least is 1", place, split);
        return reject_split(check, dim, size, divides, reason);
    }
    if (split > 1 && split > size) {
        snprintf(reason, sizeof reason, "%s has %" PRId64 " element%s, it cannot be split %" PRId64 " ways", place, size,
                 size == 1 ? "" : "s", split);
        return reject_split(check, dim, size, divides, reason);
    }
    if (divides && size % split != 0) {
        snprintf(reason, sizeof reason, "%s has %" PRId64 " elements, which %" PRId64 " does not divide", place, size, split);
        return reject_split(check, dim, size, divides, reason);
    }
    return true;
}

static bool reject_axis(const Check *check, const HintDim *dim, const char *name) {
    Arena arena;
    arena_init(&arena);
    const Settings *settings = &check->graph->settings;
    int n = settings_naxes(settings);
    const char **names = arena_alloc(&arena, (size_t)(n + 1) * sizeof *names);
    Text all = {0};
    for (int i = 0; i < n; i++) {
        names[i] = settings_axis(settings, i)->name;
        text_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    diag_error(check->diags, dim->span, "%s: the mesh has no axis %s", check->what, name);
    const char *nearest = name_nearest(name, names, n);
    if (nearest)
        diag_hint(check->diags, "did you mean %s?", nearest);
    else if (n > 0)
        diag_hint(check->diags, "its axes are %s", all.at);
    else
        diag_hint(check->diags, "name the axes in the parallel block: mesh (dp = 2, tp = 4);");
    text_finish(&all);
    arena_finish(&arena);
    return false;
}

/* The digits of one dimension: those of its axes; none for a tuple's number, which is placed in a mesh later. *split: into how many. False
 * after diagnostics. */
static bool dim_digits(const Check *check, const HintDim *dim, Digits *digits, int64_t *split) {
    *digits = (Digits){0};
    *split = check->named ? 1 : dim->split;
    if (!check->named) return true;
    for (int i = 0; i < dim->naxes; i++) {
        const Axis *axis = axis_find(&check->graph->settings, dim->axis[i]);
        if (!axis) return reject_axis(check, dim, dim->axis[i]);
        *split *= axis->size;
        if (axis->size > 1) digits->at[digits->n++] = axis->digit;
    }
    return true;
}

/* Checks that an axis divides at most one dimension of a tensor. */
static bool check_axes_once(const Check *check, const HintTuple *tuple) {
    for (int d = 0; d < tuple->ndim; d++)
        for (int i = 0; i < tuple->dim[d].naxes; i++)
            for (int e = 0; e <= d; e++)
                for (int k = 0; k < (e < d ? tuple->dim[e].naxes : i); k++) {
                    if (strcmp(tuple->dim[d].axis[i], tuple->dim[e].axis[k]) != 0) continue;
                    diag_error(check->diags, tuple->dim[d].span, "%s: axis %s is used twice in one tensor", check->what,
                               tuple->dim[d].axis[i]);
                    if (e < d) diag_note(check->diags, tuple->dim[e].span, "here first");
                    diag_hint(check->diags, "an axis divides one dimension of a tensor at most; - leaves a dimension whole");
                    return false;
                }
    return true;
}

static bool check_ndim(const Check *check, const HintTuple *tuple, const char *tensor, const TensorType *type) {
    if (tuple->ndim == type->shape.ndim) return true;
    Text shape = {0};
    type_print(&shape, type);
    diag_error(check->diags, tuple->span, "%s: %s is %s, with %d dimension%s; its tuple has %d", check->what, tensor, shape.at,
               type->shape.ndim, type->shape.ndim == 1 ? "" : "s", tuple->ndim);
    text_finish(&shape);
    Text example = {0};
    for (int d = 0; d < type->shape.ndim; d++)
        text_printf(&example, "%s%s", d ? ", " : "", check->named ? "-" : "1");
    diag_hint(check->diags, "one %s a dimension: (%s) leaves it whole", check->named ? "axis, a.b or -" : "number",
              example.at ? example.at : "");
    text_finish(&example);
    return false;
}

/* ---- operators */

/* Suggests the candidate that agrees with the user's splits in the most factors. */
static void hint_nearest(const Check *check, const Node *node, const int64_t *wanted) {
    if (check->named || candidates_count(node, check->graph->nranks) > 20000) return;
    Arena arena;
    arena_init(&arena);
    Splits all = candidate_splits(node->rule, check->graph->nranks, check->strict, &arena);
    int best = 0, best_score = -1;
    for (int i = 0; i < all.n; i++) {
        int score = 0;
        for (int f = 0; f < all.nfactors; f++)
            score += all.at[(size_t)i * all.nfactors + f] == wanted[f];
        if (score > best_score) best = i, best_score = score;
    }
    Text text = {0};
    splits_print(&text, check->graph, node, all.at + (size_t)best * all.nfactors);
    diag_hint(check->diags, "%s would be one for %d rank%s", text.at, check->graph->nranks, check->graph->nranks == 1 ? "" : "s");
    text_finish(&text);
    arena_finish(&arena);
}

/* The customary name of a factor; NULL: it has none. */
static const char *factor_name(const Node *node, int factor) {
    static const char *const letters[] = {"m", "k", "n"};
    int letter = factor - (node->rule->nfactors - 3);
    return node->op == OP_matmul && letter >= 0 ? letters[letter] : NULL;
}

/* Where a factor first got its split. */
typedef struct Use {
    bool used;
    int operand, dim;
    int64_t split;
    Digits digits;
} Use;

static bool digits_equal(const Digits *a, const Digits *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!digit_equal(a->at[i], b->at[i])) return false;
    return true;
}

static const char *operand_text(const Graph *graph, const Node *node, int operand) {
    return graph->values.at[node->in[operand]].name;
}

/* use: what the tuples say so far, per factor. */
static bool factor_conflict(const Check *check, const Node *node, const Hint *hint, int factor, const Use *use, int operand, int dim,
                            int64_t split) {
    const Use *first = &use[factor];
    const char *name = factor_name(node, factor);
    const char *a = operand_text(check->graph, node, first->operand), *b = operand_text(check->graph, node, operand);
    const HintDim *here = &hint->in[operand].dim[dim];
    if (check->named && split == first->split)
        diag_error(check->diags, here->span, "%s: dimension %d of %s and dimension %d of %s run over the same index, but on other axes",
                   check->what, first->dim, a, dim, b);
    else if (name)
        diag_error(check->diags, here->span, "%s: %s is split %" PRId64 " along %s, %s %" PRId64, check->what, a, first->split, name, b,
                   split);
    else
        diag_error(check->diags, here->span,
                   "%s: dimension %d of %s is split %" PRId64 ", dimension %d of %s, which runs over the same index, %" PRId64, check->what,
                   first->dim, a, first->split, dim, b, split);
    diag_note(check->diags, hint->in[first->operand].dim[first->dim].span, "%s is split here", a);
    diag_hint(check->diags, "both must be split alike");
    int64_t wanted[MAX_FACTORS];
    for (int f = 0; f < node->rule->nfactors; f++)
        wanted[f] = use[f].used ? use[f].split : 1;
    hint_nearest(check, node, wanted);
    return false;
}

/* Checks every operand's tuple against its shape, and the operands against each other. use: per factor. */
static bool check_operands(const Check *check, const Node *node, const Hint *hint, Use *use) {
    bool good = true;
    for (int i = 0; i < node->nin; i++) {
        const HintTuple *tuple = &hint->in[i];
        const TensorType *type = &check->graph->values.at[node->in[i]].type;
        const char *tensor = operand_text(check->graph, node, i);
        if (!check_ndim(check, tuple, tensor, type) || (check->named && !check_axes_once(check, tuple))) {
            good = false;
            continue;
        }
        for (int d = 0; d < tuple->ndim; d++) {
            char place[160], reason[256];
            snprintf(place, sizeof place, "dimension %d of %s", d, tensor);
            int factor = node->rule->in[i][d];
            const Factor *f = factor >= 0 ? &node->rule->factor[factor] : NULL;
            Digits digits;
            int64_t split;
            if (!dim_digits(check, &tuple->dim[d], &digits, &split)) {
                good = false;
                continue;
            }
            if (split != 1 && (!f || f->whole) && type->shape.dim[d] > 1) {
                snprintf(reason, sizeof reason, "%s must be whole for %s", place, op_table[node->op].name);
                good = reject_split(check, &tuple->dim[d], 1, false, reason);
                continue;
            }
            /* A factor of a reshape can be shorter than the dimension that it leads. */
            int64_t size = f ? f->size : type->shape.dim[d];
            if (f && f->divides && f->size < type->shape.dim[d])
                snprintf(place, sizeof place, "the leading factor of dimension %d of %s", d, tensor);
            else if (f && !f->divides && f->size != type->shape.dim[d])
                snprintf(place, sizeof place, "%s dimension %d of %s",
                         op_table[node->op].places     ? "what is cut out of"
                         : op_table[node->op].variadic ? "what is joined along"
                                                       : "the number of windows over",
                         d, tensor);
            if (!check_split(check, &tuple->dim[d], split, size, f && (f->divides || check->strict), place)) {
                good = false;
                continue;
            }
            if (!f) continue;
            if (!use[factor].used)
                use[factor] = (Use){.used = true, .operand = i, .dim = d, .split = split, .digits = digits};
            else if (use[factor].split != split || !digits_equal(&use[factor].digits, &digits))
                good = factor_conflict(check, node, hint, factor, use, i, d, split);
        }
    }
    return good;
}

/* Named strategies: checks that an axis splits one factor only. */
static bool check_axes_of_factors(const Check *check, const Node *node, const Hint *hint, const Use *use) {
    const Settings *settings = &check->graph->settings;
    for (int f = 0; f < node->rule->nfactors; f++)
        for (int g = 0; g < f; g++)
            for (int i = 0; i < use[f].digits.n; i++)
                for (int k = 0; k < use[g].digits.n; k++) {
                    if (use[f].digits.at[i].stride != use[g].digits.at[k].stride) continue;
                    const HintDim *here = &hint->in[use[f].operand].dim[use[f].dim], *there = &hint->in[use[g].operand].dim[use[g].dim];
                    const char *axis = "";
                    for (int a = 0; a < settings_naxes(settings); a++)
                        if (digit_equal(settings_axis(settings, a)->digit, use[f].digits.at[i])) axis = settings_axis(settings, a)->name;
                    diag_error(check->diags, here->span, "%s: axis %s splits two different indices of %s", check->what, axis,
                               op_table[node->op].name);
                    diag_note(check->diags, there->span, "here the other one");
                    diag_hint(check->diags, "give one of them another axis, or -");
                    return false;
                }
    return true;
}

/* Rejects overlapping digits, which axes of two meshes may have. */
static bool check_apart(const Check *check, Span span, const Digit *digits, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            if (digits_compatible(digits[i], digits[k])) continue;
            diag_error(check->diags, span, "%s: axes of two meshes that overlap, %d@%d and %d@%d, split one tensor", check->what,
                       (int)digits[k].size, (int)digits[k].stride, (int)digits[i].size, (int)digits[i].stride);
            diag_hint(check->diags, "one strategy takes its axes from one mesh");
            return false;
        }
    return true;
}

/* Warns of splits that do not divide: they are legal, but cost time. */
static void warn_uneven(const Check *check, const Node *node, const Hint *hint, const Use *use) {
    for (int f = 0; f < node->rule->nfactors; f++)
        if (use[f].used)
            uneven_warning(check->diags, hint->in[use[f].operand].dim[use[f].dim].span, check->what, node->rule->factor[f].size,
                           use[f].split);
}

bool uneven_warning(Diags *diags, Span span, const char *what, int64_t size, int64_t split) {
    int64_t most = size / split + 1;
    double percent = 100.0 * ((double)most * (double)split / (double)size - 1);
    if (size % split == 0 || percent < UNEVEN_PERCENT) return false;
    diag_warning(diags, WARN_UNEVEN, span,
                 "%s: %" PRId64 " does not divide %" PRId64 ": the largest part is %" PRId64 ", the smallest %" PRId64
                 " (the busiest rank has %.0f %% over the average)",
                 what, split, size, most, size / split, percent);
    return true;
}

bool strategy_from_hint(const Graph *graph, const Node *node, const Hint *hint, bool strict_divide, Strategy *strategy, Diags *diags) {
    const Op *op = &op_table[node->op];
    Check check = {.graph = graph,
                   .what = op->op_class == OP_CLASS_USER ? op->name : node->name,
                   .named = hint->named,
                   .strict = strict_divide,
                   .diags = diags};
    if (op->op_class == OP_CLASS_LEAF) {
        diag_error(diags, hint->span, "%s: only operators, inputs and parameters take a strategy", node->name);
        diag_hint(diags, "write it behind the operator that uses %s", node->name);
        return false;
    }
    if (hint->nin != node->nin) {
        const bool user = op->op_class == OP_CLASS_USER; /* operands of what a pad or an upsample expands to have other names */
        diag_error(diags, hint->span, "%s takes %d operand%s%s%s%s, the strategy has %d tuple%s", check.what, node->nin,
                   node->nin == 1 ? "" : "s", user ? " (" : "", user ? op->ins : "", user ? ")" : "", hint->nin, hint->nin == 1 ? "" : "s");
        int64_t none[MAX_FACTORS] = {0};
        hint_nearest(&check, node, none);
        return false;
    }
    Use use[MAX_FACTORS];
    memset(use, 0, sizeof use);
    if (!check_operands(&check, node, hint, use)) return false;
    if (hint->named && !check_axes_of_factors(&check, node, hint, use)) return false;
    int64_t used = 1, wanted[MAX_FACTORS];
    int32_t splits[MAX_FACTORS];
    bool over = false;
    for (int f = 0; f < node->rule->nfactors; f++) {
        wanted[f] = use[f].used ? use[f].split : 1;
        over = over || !mul_checked(used, wanted[f], &used) || used > INT32_MAX;
        if (!over) splits[f] = (int32_t)wanted[f];
    }
    if (over || used > graph->nranks || graph->nranks % used != 0) {
        if (over || used > graph->nranks)
            diag_error(diags, hint->span, "%s: the strategy needs %s%" PRId64 " ranks, there %s %d%s", check.what, over ? "more than " : "",
                       over ? (int64_t)INT32_MAX : used, graph->nranks == 1 ? "is" : "are", graph->nranks, in_a_stage(graph));
        else
            diag_error(diags, hint->span, "%s: the strategy needs %" PRId64 " ranks, which does not divide %d%s", check.what, used,
                       graph->nranks, in_a_stage(graph));
        hint_nearest(&check, node, wanted);
        return false;
    }
    warn_uneven(&check, node, hint, use);
    if (!hint->named) {
        strategy_from_splits(splits, node->rule->nfactors, graph->nranks, strategy);
        return true;
    }
    *strategy = (Strategy){.nfactors = node->rule->nfactors};
    for (int f = 0; f < node->rule->nfactors; f++)
        for (int i = 0; i < use[f].digits.n; i++)
            strategy_append(strategy, f, use[f].digits.at[i]);
    return check_apart(&check, hint->span, strategy->digit, strategy->start[MAX_FACTORS]);
}

static bool operand_has(const Node *node, int factor) {
    for (int i = 0; i < node->nin; i++)
        for (int d = 0; d < MAX_NDIM; d++)
            if (node->rule->in[i][d] == factor) return true;
    return false;
}

bool strategy_from_result(const Graph *graph, const Node *node, const Hint *hint, bool strict_divide, Strategy *strategy, Diags *diags) {
    const TensorType *type = &graph->values.at[node->out[0]].type;
    const char *what = arena_printf(graph->arena, "result of %s", node->name);
    const Check check = {.graph = graph, .what = what, .named = hint->named, .strict = strict_divide, .diags = diags};
    Layout said, made;
    if (!layout_from_hint(graph, &hint->out, hint->named, type, what, false, strict_divide, &said, diags)) return false;
    layout_init(&made, type->shape.ndim);
    for (int d = 0; d < type->shape.ndim; d++) {
        const int factor = node->rule->out[0][d];
        if (factor < 0) continue;
        const bool own = !node->rule->factor[factor].whole && !operand_has(node, factor);
        for (int i = 0; own && i < layout_count(&said, d); i++)
            strategy_append(strategy, factor, layout_list(&said, d)[i]);
        for (int i = 0; i < strategy_count(strategy, factor); i++)
            layout_append(&made, d, strategy_digits(strategy, factor)[i]);
    }
    if (!check_apart(&check, hint->span, strategy->digit, strategy->start[MAX_FACTORS])) return false;
    layout_canonical(&said, &type->shape);
    layout_canonical(&made, &type->shape);
    if (layout_equal(&said, &made)) return true;
    diag_error(diags, hint->out.span, "%s: its operands are split otherwise", what);
    diag_hint(diags, "a dimension of the result that is one of an operand too is split as it is there; one that must be whole is -");
    return false;
}

/* ---- tensors */

bool layout_from_hint(const Graph *graph, const HintTuple *tuple, bool named, const TensorType *type, const char *what, bool leftover_first,
                      bool strict_divide, Layout *layout, Diags *diags) {
    layout_init(layout, type->shape.ndim);
    if (graph->nranks == 1) return true; /* nothing to split over: the same text runs on one rank */
    Check check = {.graph = graph, .what = what, .named = named, .strict = strict_divide, .diags = diags};
    if (!check_ndim(&check, tuple, "it", type) || (named && !check_axes_once(&check, tuple))) return false;
    int32_t sizes[MAX_NDIM];
    Digits digits[MAX_NDIM];
    int64_t used = 1;
    bool good = true, over = false;
    for (int d = 0; d < tuple->ndim; d++) {
        char place[32];
        snprintf(place, sizeof place, "dimension %d", d);
        int64_t split;
        if (!dim_digits(&check, &tuple->dim[d], &digits[d], &split) ||
            !check_split(&check, &tuple->dim[d], split, type->shape.dim[d], strict_divide, place)) {
            good = false;
            continue;
        }
        over = over || !mul_checked(used, split, &used) || used > INT32_MAX;
        if (!over) sizes[d] = (int32_t)split;
    }
    if (!good) return false;
    if (over || used > graph->nranks || graph->nranks % used != 0) {
        if (over || used > graph->nranks)
            diag_error(diags, tuple->span, "%s: the layout needs %s%" PRId64 " ranks, there are %d%s", what, over ? "more than " : "",
                       over ? (int64_t)INT32_MAX : used, graph->nranks, in_a_stage(graph));
        else
            diag_error(diags, tuple->span, "%s: the layout needs %" PRId64 " ranks, which does not divide %d%s", what, used, graph->nranks,
                       in_a_stage(graph));
        diag_hint(diags, "the product of the numbers must divide %d; the ranks left over hold copies", graph->nranks);
        return false;
    }
    if (!named) {
        Digit mesh[MAX_NDIM];
        mesh_digits(sizes, tuple->ndim, leftover_first ? 1 : (int32_t)(graph->nranks / used), mesh);
        for (int d = 0; d < tuple->ndim; d++)
            digits[d] = (Digits){.n = 1, .at = {mesh[d]}};
    }
    for (int d = 0; d < tuple->ndim; d++)
        for (int i = 0; i < digits[d].n; i++)
            layout_append(layout, d, digits[d].at[i]);
    return check_apart(&check, tuple->span, layout->digit, layout->start[layout->ndim]);
}
