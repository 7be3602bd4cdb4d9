/* Hints by path: `layer.*.fc1 = ((dp, -), (-, tp));`, `layer.* = recompute;`, `**.weight = regather;`, `layer.3 = stage 1;` in a hints block or after the call of
 * a cell, `--shard` on the command line. A pattern is names joined by '.'; '*' stands for one name or a piece of one, '**' for any number of names. A hint that matches
 * nothing in the net is an error; so are two different ones for one thing, except that the command line overrides files. */
#include "frontend/lower.h"

#include <string.h>

#include "ir/wildcard.h"

/* ---------------------------------------------------------------- where hints come from */

static bool hint_add(Lower *lower, PathHint hint) {
    if (lower->hints.n < MAX_HINTS) {
        vec_push(lower->arena, &lower->hints, hint);
        return true;
    }
    diag_error(lower->diags, hint.span, "more than %d hints at a time", (int)MAX_HINTS);
    return false;
}

/* `stage 2` of a pattern, in the text of its file. */
static bool pattern_stage(Lower *lower, const Pattern *pattern, int file, const StageHint **stage) {
    SourcePlace place = lower_enter(lower, file, lower->directory);
    const bool ok = !pattern->shard->stage || stage_eval(lower, pattern->shard->stage, stage);
    lower_leave(lower, place);
    return ok;
}

static const RegatherHint *pattern_regather(Lower *lower, const char *path, Span span) {
    RegatherHint *regather = arena_alloc(lower->arena, sizeof *regather);
    *regather = (RegatherHint){.path = path, .span = span};
    vec_push(lower->arena, &lower->graph->settings.regathers, regather);
    return regather;
}

static bool add_patterns(Lower *lower, const Pattern *first, const char *prefix, int file) {
    bool ok = true;
    for (const Pattern *pattern = first; pattern && ok; pattern = pattern->next) {
        if (pattern->mesh && !prefix) continue;
        if (pattern->mesh) {
            diag_error(lower->diags, span_of(file, pattern->loc), "a mesh stands in a hints block or in the parallel block");
            return false;
        }
        PathHint hint = {.pattern = prefix ? arena_printf(lower->arena, "%s.%s", prefix, pattern->path) : pattern->path,
                         .span = span_of(file, pattern->loc),
                         .given = {.shard = pattern->shard, .file = file, .names = lower->names}};
        if (pattern->shard->regather) hint.regather = pattern_regather(lower, hint.pattern, hint.span);
        ok = pattern_stage(lower, pattern, file, &hint.stage) && hint_add(lower, hint);
    }
    return ok;
}

/* A flag's hint; diagnostics name the flag as its file. */
static bool flag_read(Lower *lower, const char *name, const char *text) {
    Parse *parse = arena_alloc(lower->arena, sizeof *parse);
    int file = diags_add_file(lower->diags, name, text, strlen(text)), n = lower->hints.n;
    const bool ok = parse_text(parse, lower->arena, lower->diags, file, PARSE_HINT, NULL) && add_patterns(lower, parse->hint, NULL, file);
    for (; n < lower->hints.n; n++)
        lower->hints.at[n].given.flag = true;
    return ok;
}

/* Reads the meshes of all hints blocks, before any strategy. */
static bool read_meshes(Lower *lower, const Block *blocks) {
    bool ok = true;
    for (const Block *block = blocks; block; block = block->next) {
        SourcePlace place = lower_enter(lower, block->file, block->directory);
        for (const Pattern *pattern = block->patterns; pattern; pattern = pattern->next)
            if (pattern->mesh) ok = hint_mesh_eval(lower, pattern->mesh) && ok;
        lower_leave(lower, place);
    }
    return ok;
}

/* Collects the lines of a `hints found` block for pass propagate, which knows the names. Strategies are left out on one rank, and in modes without them. */
static bool read_found(Lower *lower, const Block *block) {
    Settings *settings = &lower->graph->settings;
    bool ok = true;
    for (const Pattern *pattern = block->patterns; pattern && ok; pattern = pattern->next) {
        const Given given = {.shard = pattern->shard, .file = block->file, .names = lower->names};
        const Span span = span_of(block->file, pattern->loc);
        if (pattern->mesh || found_is_setting(pattern)) continue;
        if (pattern->shard->recompute) {
            if (!settings->recompute_none)
                vec_push(lower->arena, &settings->found, ((FoundHint){.path = pattern->path, .recompute = true, .span = span}));
            continue;
        }
        if (!shard_counts(lower, span)) continue;
        if (!found_is_strategy(lower, block, pattern)) return false;
        const StageHint *stage = NULL;
        const Hint *hint = NULL;
        ok = pattern->shard->stage ? pattern_stage(lower, pattern, block->file, &stage) : (hint = hint_given(lower, &given, 0, "")) != NULL;
        if (ok && (stage || hint) && (stage || lower->graph->nranks > 1))
            vec_push(lower->arena, &settings->found, ((FoundHint){.path = pattern->path, .hint = hint, .stage = stage, .span = span}));
    }
    return ok;
}

bool hints_read(Lower *lower, const Block *blocks) {
    const Overrides *flags = lower->overrides;
    bool ok = true;
    for (int i = 0; i < flags->nshards; i++)
        ok = flag_read(lower, flags->nshards == 1 ? "--shard" : arena_printf(lower->arena, "--shard %d", i + 1), flags->shard[i]) && ok;
    if (flags->what_if != NULL) ok = flag_read(lower, "--what-if", flags->what_if) && ok;
    if (!read_meshes(lower, blocks)) return false;
    for (const Block *block = blocks; block; block = block->next)
        ok = (block->kind == BLOCK_HINTS && block->name ? read_found(lower, block)
                                                        : add_patterns(lower, block->patterns, NULL, block->file)) &&
             ok;
    return ok;
}

bool hints_push(Lower *lower, const char *path, const Shard *shard) {
    return add_patterns(lower, shard->patterns, path, lower->file);
}

/* The last n names of a path; all where it has fewer. */
static const char *last_names(const char *path, int n) {
    const char *at = path + strlen(path);
    while (at > path && !(at[-1] == '.' && --n == 0))
        at--;
    return at;
}

/* The first path that shares the most final names with the pattern, at least one. */
static const char *same_end(const char *pattern, int nnames, const char *const *names, int n) {
    for (int k = nnames - 1; k > 0; k--) {
        const char *end = last_names(pattern, k);
        for (int i = 0; i < n && end[strspn(end, "*.-0123456789")] != '\0'; i++)
            if (strcmp(last_names(names[i], k), end) == 0) return names[i];
    }
    return NULL;
}

/* The path nearest to a pattern, with '*' allowed for numbers of loops: by spelling, or else one with the same end. For a pattern that begins with '**', only the
 * names after that count. */
static const char *nearest_path(Lower *lower, const char *pattern, bool states) {
    const char *lead = strncmp(pattern, "**.", 3) ? "" : "**.";
    VEC(const char *) paths = {0};
    for (int i = 0; i < lower->known.n; i++)
        for (int k = 0; k < lower->known.at[i].nnames && (!states || lower->known.at[i].kind == PATH_PARAM); k++)
            vec_push(lower->arena, &paths, lower->known.at[i].name[k]);
    const char **names = arena_alloc(lower->arena, sizeof *names * (size_t)(paths.n + 1));
    pattern += strlen(lead);
    int nnames = 1;
    for (const char *at = pattern; *at; at++)
        nnames += *at == '.';
    for (int i = 0; i < paths.n; i++) {
        const char *path = paths.at[i];
        if (lead[0]) path = last_names(path, nnames);
        names[i] = strchr(pattern, '*') ? path_without_numbers(path, lower->arena) : path;
    }
    const char *nearest = name_nearest(pattern, names, paths.n);
    if (!nearest) nearest = same_end(pattern, nnames, names, paths.n);
    return nearest ? arena_printf(lower->arena, "%s%s", lead, nearest) : NULL;
}

static void no_such_path(Lower *lower, const char *pattern, bool states, Span span) {
    const char *nearest = strlen(pattern) <= 200 && lower->known.n <= 20000 ? nearest_path(lower, pattern, states) : NULL;
    diag_error(lower->diags, span, "no %s has the path %s", states ? "parameter or state" : "operator, parameter or input", pattern);
    if (nearest)
        diag_hint(lower->diags, "did you mean %s?", nearest);
    else
        diag_hint(
            lower->diags,
            "paths are names from the net inwards, encoder.layer.0.fc1; * is any name, ** any number of them; pcc --list-paths shows all");
}

static bool covers_something(const Lower *lower, const char *pattern) {
    for (int i = 0; i < lower->known.n; i++)
        for (int k = 0; k < lower->known.at[i].nnames; k++)
            if (pattern_covers(pattern, lower->known.at[i].name[k])) return true;
    return false;
}

static bool unmatched(Lower *lower, int first, int end) {
    bool ok = true;
    for (int i = first; i < end && lower->diags->nerrors < DIAG_MAX_ERRORS; i++) {
        if (lower->hints.at[i].matched) continue;
        const Shard *shard = lower->hints.at[i].given.shard;
        const char *pattern = lower->hints.at[i].pattern;
        if (shard_is_mark(shard) && covers_something(lower, pattern))
            diag_error(lower->diags, lower->hints.at[i].span,
                       shard->regather    ? "%s is an input: parameters and results of operators are gathered again"
                       : shard->recompute ? "%s is a parameter or an input: operators are recomputed"
                                          : "%s is a parameter or an input: it lies in the stage of the operators that use it",
                       pattern);
        else
            no_such_path(lower, pattern, shard_is_at(shard), lower->hints.at[i].span);
        ok = false;
    }
    return ok;
}

bool hints_pop(Lower *lower, int n, bool check) {
    bool ok = !check || unmatched(lower, n, lower->hints.n);
    lower->hints.n = n;
    return ok;
}

bool hints_matched(Lower *lower) {
    return unmatched(lower, 0, lower->hints.n);
}

bool forbids_matched(Lower *lower) {
    const Settings *settings = &lower->graph->settings;
    bool ok = true;
    for (int i = 0; i < settings->forbids.n; i++) {
        const Forbidden *forbidden = &settings->forbids.at[i];
        if (!forbidden->path || covers_something(lower, forbidden->path)) continue;
        no_such_path(lower, forbidden->path, false, forbidden->span);
        ok = false;
    }
    return ok;
}

/* ---------------------------------------------------------------- the strategy of one thing */

static bool same_tuple(const HintTuple *a, const HintTuple *b) {
    bool same = a->ndim == b->ndim;
    for (int d = 0; d < a->ndim && same; d++) {
        const HintDim *one = &a->dim[d], *other = &b->dim[d];
        same = one->split == other->split && one->naxes == other->naxes;
        for (int i = 0; i < one->naxes && same; i++)
            same = !strcmp(one->axis[i], other->axis[i]);
    }
    return same;
}

/* Whether two strategies are the same, however they are written. *known: false after a diagnostic about one of them. */
static bool same_strategy(Lower *lower, const Given *first, const Given *second, bool *known) {
    const Hint *a = hint_given(lower, first, 0, ""), *b = a ? hint_given(lower, second, 0, "") : NULL;
    *known = a && b;
    bool same = *known && a->named == b->named && a->nin == b->nin && a->nout == b->nout && a->at == b->at;
    for (int i = 0; same && i < a->nin; i++)
        same = same_tuple(&a->in[i], &b->in[i]);
    return same && (a->nout == 0 || same_tuple(&a->out, &b->out));
}

static Span given_span(const Given *given) {
    return span_of(given->file, given->shard->loc);
}

static bool conflict(Lower *lower, const char *path, const Given *first, const Given *second) {
    diag_error(lower->diags, given_span(second), "a second strategy for %s", path);
    diag_note(lower->diags, given_span(first), "the first one is here");
    diag_hint(lower->diags, "take one of them away; --shard on the command line goes before both");
    return false;
}

/* The path by which a hint applies to a thing: one that its pattern matches, or, for regather, one within such a path; NULL: none. */
static const char *matched_name(const PathHint *hint, const Hintable *thing) {
    const char *pattern = hint->pattern;
    for (int i = 0; i < thing->nnames; i++) {
        const char *name = thing->name[i];
        if (pattern[0] != '*' && pattern[0] != name[0]) continue;
        if (hint->regather ? pattern_covers(pattern, name) : pattern_matches(pattern, name, NULL)) return name;
    }
    return NULL;
}

/* Whether a hint may apply to this kind of thing. */
static bool hint_suits(const Shard *shard, PathKind kind) {
    if (shard->regather) return kind != PATH_INPUT;
    if (shard_is_mark(shard)) return kind == PATH_OPERATOR || kind == PATH_CALL;
    return kind == PATH_PARAM || !shard_is_at(shard);
}

static bool stages_conflict(Lower *lower, const char *path, const StageHint *first, const StageHint *second) {
    diag_error(lower->diags, second->span, "a second stage for %s", path);
    diag_note(lower->diags, first->span, "the first one is here");
    diag_hint(lower->diags, "take one of them away; --shard on the command line goes before both");
    return false;
}

/* Notes the stage of a thing; one from the command line overrides those of files. */
static bool stage_note(Lower *lower, const char *path, const StageHint *stage, bool flag) {
    Hintable *thing = known_last(lower);
    if (thing->stage && thing->stage_flag == flag && thing->stage->stage != stage->stage)
        return stages_conflict(lower, path, thing->stage, stage);
    if (thing->stage && (thing->stage_flag || !flag)) return true;
    thing->stage = stage;
    thing->stage_flag = flag;
    return true;
}

bool marks_note(Lower *lower, const Marks *marks) {
    const StageHint *stage = NULL;
    if (!marks) return true;
    known_last(lower)->recompute |= marks->recompute;
    if (marks->stage && !stage_eval(lower, marks->stage, &stage)) return false;
    return !stage || stage_note(lower, known_last(lower)->name[0], stage, false);
}

void mark_operator(Lower *lower, int value) {
    const Hintable *named = known_last(lower);
    Node *node = &lower->graph->nodes.at[lower->graph->values.at[value].node];
    if (op_table[node->op].op_class != OP_CLASS_USER) return;
    if (named->recompute) node->recompute = true;
    if (named->stage) node->asked = named->stage;
    node->regather = named->regather;
}

bool marks_nothing(Lower *lower, const Expr *expr, const Marks *marks) {
    if (!marks || (!marks->recompute && !marks->stage)) return false;
    diag_error(lower->diags, lower_span(lower, expr->loc), "there is nothing here %s",
               marks->recompute ? "to compute again" : "that a stage could run");
    diag_hint(lower->diags, "%s stands behind the call of a cell, or an operator: h = block(x) %s;",
              marks->recompute ? "recompute" : "stage", marks->recompute ? "recompute" : "stage 1");
    return true;
}

bool hint_choose(Lower *lower, Hintable thing, const Given *own, const Given **given) {
    Frame *frame = lower->frame;
    vec_push(lower->arena, &lower->known, thing);
    if (own && !own->shard->in) { /* shard alone: the strategy of the call */
        if (!frame) {
            diag_error(lower->diags, given_span(own), "shard has no strategy");
            diag_hint(lower->diags, "shard ((2, 4), (4, 1)); alone it stands in a cell, where it takes the strategy of the call");
            return false;
        }
        frame->given_used = true;
        own = frame->given;
    }
    const Given *chosen = own;
    for (int i = 0; i < lower->hints.n; i++) {
        PathHint *hint = &lower->hints.at[i];
        bool differs =
            hint->pattern[0] != '*' && hint->pattern[0] != thing.name[0][0] && thing.nnames == 1; /* most do, and there may be many */
        if (differs) continue;
        if (++lower->compared > MAX_COMPARED) {
            if (!lower->full)
                diag_error(lower->diags, hint->span, "so many hints for so many operators: more than %d comparisons", (int)MAX_COMPARED);
            lower->full = true;
            return false;
        }
        const char *name = matched_name(hint, &thing);
        const Shard *shard = hint->given.shard;
        if (!name || !hint_suits(shard, thing.kind)) continue;
        hint->matched = true;
        if (hint->regather) known_last(lower)->regather = hint->regather;
        if (shard->recompute) known_last(lower)->recompute = true;
        if (shard->recompute || shard->regather) continue;
        if (shard->stage) {
            if (hint->stage && !stage_note(lower, name, hint->stage, hint->given.flag)) return false;
            continue;
        }
        bool known = true, both = chosen && chosen->flag == hint->given.flag && shard_counts(lower, given_span(chosen));
        if (both && !same_strategy(lower, chosen, &hint->given, &known)) return known && conflict(lower, name, chosen, &hint->given);
        if (!chosen || (hint->given.flag && !chosen->flag)) chosen = &hint->given;
    }
    if (chosen && chosen != own) {
        /* The list of hints may move while a call is lowered. */
        Given *copy = arena_alloc(lower->arena, sizeof *copy);
        *copy = *chosen;
        chosen = copy;
    }
    *given = chosen;
    return true;
}

/* ---------------------------------------------------------------- the things */

const char *const path_kind_name[NPATHS] = {
    [PATH_OPERATOR] = "operator", [PATH_CALL] = "call", [PATH_PARAM] = "param", [PATH_INPUT] = "input"};

Hintable value_hintable(const Lower *lower, int value) {
    const Graph *graph = lower->graph;
    const Node *node = graph_producer(graph, value);
    const int named = op_named(node->op, node->nout);
    const char **name = arena_alloc(lower->arena, sizeof *name * (size_t)named);
    for (int i = 0; i < named; i++)
        name[i] = graph->values.at[node->out[i]].name;
    return (Hintable){
        .name = name, .nnames = named, .kind = PATH_OPERATOR, .what = op_table[node->op].name, .id = value, .span = node->span};
}

Hintable call_hintable(Lower *lower, const Block *cell, const Expr *call, const char *path) {
    const char **name = arena_alloc(lower->arena, sizeof *name);
    *name = path;
    return (Hintable){.name = name, .nnames = 1, .kind = PATH_CALL, .what = cell->name, .id = -1, .span = lower_span(lower, call->loc)};
}

void paths_list(Lower *lower, Paths *paths) {
    const Graph *graph = lower->graph;
    for (int i = 0; i < lower->known.n; i++) {
        const Hintable *thing = &lower->known.at[i];
        const bool is_value = thing->kind == PATH_OPERATOR || thing->kind == PATH_CALL;
        const TensorType *type = thing->kind == PATH_PARAM   ? &graph->states.at[thing->id].type
                                 : thing->kind == PATH_INPUT ? &graph->inputs.at[thing->id].type
                                 : thing->id >= 0            ? &graph->values.at[thing->id].type
                                                             : NULL;
        for (int k = 0; k < thing->nnames; k++)
            vec_push(
                lower->arena, paths,
                ((NamedPath){.path = thing->name[k],
                             .kind = thing->kind,
                             .what = thing->what,
                             .type = type ? type_text(lower, type) : "",
                             .value = is_value && thing->id >= 0 && thing->nnames == 1 ? graph->values.at[thing->id].name : thing->name[k],
                             .span = thing->span}));
    }
}
