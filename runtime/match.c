/* match: see match.h. */
#include "runtime/match.h"

#include <stdlib.h>
#include <string.h>

#include "ir/wildcard.h"
#include "runtime/index.h"

/* ---------------------------------------------------------------- names */

enum { MOST_GROUPS = 6 };

/* Names for a message; those that differ only in numbers behind their first part are grouped, "layer.*.weight (12)". */
typedef struct Names {
    Arena *arena;
    int n, ngroups;
    struct {
        const char *name, *first;
        int n;
    } group[MOST_GROUPS];
} Names;

static void names_add(Names *names, const char *name) {
    const size_t first = strcspn(name, ".");
    const char *group = arena_printf(names->arena, "%.*s%s", (int)first, name, path_without_numbers(name + first, names->arena));
    names->n++;
    for (int i = 0; i < names->ngroups; i++)
        if (strcmp(names->group[i].name, group) == 0) {
            names->group[i].n++;
            return;
        }
    if (names->ngroups == MOST_GROUPS) return;
    names->group[names->ngroups].name = group;
    names->group[names->ngroups].first = name;
    names->group[names->ngroups++].n = 1;
}

/* The names as text, in the arena. */
static const char *names_text(const Names *names) {
    Text text = {0};
    int left = names->n;
    for (int i = 0; i < names->ngroups; i++) {
        const bool one = names->group[i].n == 1;
        text_printf(&text, one ? "%s%.120s" : "%s%.120s (%d)", i > 0 ? ", " : "", one ? names->group[i].first : names->group[i].name,
                    names->group[i].n);
        left -= names->group[i].n;
    }
    if (left > 0) text_printf(&text, " and %d more", left);
    if (text.n > 0) text_printable(text.at); /* one line, whatever the file says */
    const char *copy = arena_copy(names->arena, text.at ? text.at : "", text.n);
    text_finish(&text);
    return copy;
}

static const char *plural(int n) {
    return n == 1 ? "" : "s";
}

/* A name as a message may show it, whatever the file says. In the arena. */
static const char *printable(const char *name, Arena *arena) {
    char *copy = arena_copy(arena, name, strlen(name));
    text_printable(copy);
    return copy;
}

/* ---------------------------------------------------------------- rules */

static bool matches_any(const char *const *patterns, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (pattern_matches(patterns[i], name, NULL)) return true;
    return false;
}

static bool matches_nothing(const Graph *graph, const char *option, const char *rule, const char *pattern, Arena *arena, Error *error) {
    const char **names = arena_alloc(arena, ((size_t)graph->states.n + 1) * sizeof *names);
    int n = 0;
    for (int i = 0; i < graph->states.n; i++)
        if (state_is_own(&graph->states.at[i])) names[n++] = graph->states.at[i].name;
    const char *near = name_nearest(pattern, names, n);
    const size_t end = strlen(pattern);
    if (!near && end > 2 && strcmp(pattern + end - 2, ".*") == 0) { /* a name, where the net has names below it? */
        const char *deeper = arena_printf(arena, "%s*", pattern);
        for (int i = 0; !near && i < n; i++)
            if (pattern_matches(deeper, names[i], NULL)) near = deeper;
    }
    return error_set(error, EXIT_USAGE, "%s %s: the net has no %s with the path %s%s%s%s", option, rule,
                     strcmp(option, "--transpose") ? "parameter" : "matrix", pattern,
                     near ? "; did you mean " : "; * is any name, ** any number of them", near ? near : "", near ? "?" : "");
}

/* Checks that each pattern matches some parameter, a matrix where `matrices`. */
static bool check_patterns(const Graph *graph, const char *option, const char *const *patterns, int n, bool matrices, Arena *arena,
                           Error *error) {
    for (int k = 0; k < n; k++) {
        bool found = false;
        for (int i = 0; !found && i < graph->states.n; i++) {
            const State *state = &graph->states.at[i];
            found = state_is_own(state) && (!matrices || state->type.shape.ndim >= 2) && pattern_matches(patterns[k], state->name, NULL);
        }
        if (!found) return matches_nothing(graph, option, patterns[k], patterns[k], arena, error);
    }
    return true;
}

typedef struct Rename {
    const char *rule, *net, *file;
    bool used;
} Rename;

/* "encoder.*=bert.encoder.*": what the net calls it, what the file calls it. */
static bool rename_read(const char *rule, Arena *arena, Rename *rename, Error *error) {
    const char *is = strchr(rule, '=');
    if (!is || is == rule || !is[1])
        return error_set(error, EXIT_USAGE, "--rename %s: it says NET=FILE, a path of the net and what the file has for it", rule);
    *rename = (Rename){.rule = rule, .net = arena_copy(arena, rule, (size_t)(is - rule)), .file = is + 1};
    const char *net = pattern_wilds(rename->net, arena), *file = pattern_wilds(rename->file, arena);
    if (strlen(net) > MAX_WILDS) return error_set(error, EXIT_USAGE, "--rename %s: more than %d * and **", rule, MAX_WILDS);
    return strcmp(net, file) == 0 ||
           error_set(error, EXIT_USAGE, "--rename %s: both sides have the same * and **, in the same order: each stands for the same names",
                     rule);
}

/* names[i]: the name that the file should have for state i. Rules are applied one after the other, each to the results of those before. */
static bool rename_states(const Graph *graph, const LoadRules *rules, Arena *arena, const char **names, Error *error) {
    Rename *renames = arena_alloc(arena, ((size_t)rules->nrenames + 1) * sizeof *renames);
    for (int k = 0; k < rules->nrenames; k++)
        if (!rename_read(rules->renames[k], arena, &renames[k], error)) return false;
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        names[i] = state->name;
        for (int k = 0; state_is_own(state) && k < rules->nrenames; k++) {
            Wilds wilds;
            if (!pattern_matches(renames[k].net, names[i], &wilds)) continue;
            names[i] = pattern_path(renames[k].file, &wilds, arena);
            renames[k].used = true;
        }
    }
    for (int k = 0; k < rules->nrenames; k++)
        if (!renames[k].used) return matches_nothing(graph, "--rename", renames[k].rule, renames[k].net, arena, error);
    return true;
}

/* Checks that no tensor goes to two parameters. */
static bool check_collisions(const TensorFile *file, const Graph *graph, const Match *matches, Arena *arena, Error *error) {
    int *taken = arena_alloc(arena, ((size_t)file->tensors.n + 1) * sizeof *taken);
    for (int i = 0; i < graph->states.n; i++)
        for (int k = 0; k < match_ntensors(&matches[i]); k++) {
            const int tensor = match_tensor(&matches[i], k);
            int *by = &taken[tensor];
            if (*by > 0)
                return error_set(error, EXIT_USAGE, "--rename: %s and %s of the net would both be %.200s of %s",
                                 graph->states.at[*by - 1].name, graph->states.at[i].name, printable(file->tensors.at[tensor].name, arena),
                                 file->path);
            *by = i + 1;
        }
    return true;
}

/* Which tensors of the file are taken by a match. */
static bool *taken_tensors(const TensorFile *file, const Graph *graph, const Match *matches, Arena *arena) {
    bool *taken = arena_alloc(arena, (size_t)file->tensors.n + 1);
    for (int i = 0; i < graph->states.n; i++)
        for (int k = 0; k < match_ntensors(&matches[i]); k++)
            taken[match_tensor(&matches[i], k)] = true;
    return taken;
}

/* ---------------------------------------------------------------- tensors in pieces */

/* Finds the pieces of a tensor that the file has under names with a number somewhere in them: "experts.0.w1.weight", "experts.1.w1.weight", .. for experts.w1.weight. *pattern has a * for the number. False:
 * there are none. */
static bool find_pieces(const TensorFile *file, const char *name, Arena *arena, Match *match, const char **pattern) {
    for (int before = (int)strlen(name) - 1; before > 0; before--) {
        VEC(int) pieces = {0};
        const char *dot = name + before;
        if (*dot != '.') continue;
        for (int k = 0;; k++) {
            const int found = tensors_find(file, arena_printf(arena, "%.*s.%d%s", before, name, k, dot));
            if (found < 0) break;
            vec_push(arena, &pieces, found);
        }
        if (pieces.n == 0) continue;
        *match = (Match){.tensor = pieces.at[0], .npieces = pieces.n, .piece = pieces.at};
        *pattern = arena_printf(arena, "%.*s.*%s", before, name, dot);
        return true;
    }
    return false;
}

/* The shape that the pieces have together, which must be the state's. Each piece must have the same shape, else it is {0}. */
static Shape shape_of_pieces(const TensorFile *file, const Match *match) {
    Shape shape = file->tensors.at[match->tensor].shape;
    for (int k = 1; k < match->npieces; k++)
        if (!shape_equal(&file->tensors.at[match->piece[k]].shape, &shape)) return (Shape){0};
    if (match->npieces == 0 || shape.ndim == MAX_NDIM) return shape;
    memmove(shape.dim + 1, shape.dim, sizeof *shape.dim * (size_t)shape.ndim++);
    shape.dim[0] = match->npieces;
    return shape;
}

/* ---------------------------------------------------------------- what does not fit */

typedef struct Misfits {
    Names missing, transposed, shaped, unread;
    int first; /* the first state that does not fit */
} Misfits;

static bool is_unread(const TensorFile *file, const char *name) {
    for (int i = 0; i < file->unread.n; i++)
        if (strcmp(file->unread.at[i], name) == 0) return true;
    return false;
}

/* The shape with its last two dimensions exchanged. */
static Shape turned(const Shape *shape) {
    Shape flipped = *shape;
    if (shape->ndim < 2) return flipped;
    flipped.dim[shape->ndim - 2] = shape->dim[shape->ndim - 1];
    flipped.dim[shape->ndim - 1] = shape->dim[shape->ndim - 2];
    return flipped;
}

static void match_one(const TensorFile *file, const State *state, const char *name, const LoadRules *rules, Match *match, Misfits *misfits,
                      int number) {
    const char *pattern;
    match->tensor = tensors_find(file, name);
    const bool pieces = match->tensor < 0 && !is_unread(file, name) && state->type.shape.ndim > 1 &&
                        find_pieces(file, name, misfits->missing.arena, match, &pattern);
    const bool matrix = state->type.shape.ndim == 2 + pieces;
    match->transposed = matrix && matches_any(rules->transposes, rules->ntransposes, state->name);
    Names *why = NULL;
    if (match->tensor < 0) {
        why = is_unread(file, name) ? &misfits->unread : &misfits->missing;
    } else {
        const Shape shape = shape_of_pieces(file, match), flipped = turned(&state->type.shape),
                    *as = match->transposed ? &flipped : &state->type.shape, *other = match->transposed ? &state->type.shape : &flipped;
        if (!shape_equal(&shape, as)) why = matrix && shape_equal(&shape, other) ? &misfits->transposed : &misfits->shaped;
    }
    if (!why) return;
    names_add(why, state->name);
    if (misfits->first < 0) misfits->first = number;
}

/* The name in the file that is nearest to a missing one, among tensors that no parameter takes; NULL: none is near. */
static const char *near_tensor(const TensorFile *file, const Graph *graph, const Match *matches, const char *name, Arena *arena) {
    const char **names = arena_alloc(arena, ((size_t)file->tensors.n + 1) * sizeof *names);
    const bool *taken = taken_tensors(file, graph, matches, arena);
    int n = 0;
    for (int i = 0; i < file->tensors.n; i++)
        if (!taken[i]) names[n++] = file->tensors.at[i].name;
    const char *near = name_nearest(name, names, n);
    return near ? printable(near, arena) : NULL;
}

/* Appends what is wrong with one parameter. */
static void misfit_one(const TensorFile *file, const Graph *graph, const char *name, const Match *matches, const Misfits *misfits,
                       Text *text, Arena *arena) {
    const State *state = &graph->states.at[misfits->first];
    const Match *match = &matches[misfits->first];
    if (misfits->unread.n > 0) {
        text_printf(text, "'%s' is of a type that prun does not read: it reads F64, F32, F16, BF16, I64, I32 and BOOL", name);
    } else if (misfits->missing.n > 0) {
        const char *near = near_tensor(file, graph, matches, name, arena);
        if (near)
            text_printf(text, "has no '%s'; did you mean %s?", name, near);
        else
            text_printf(text, "has no '%s'; with --fresh %s it begins as the net says", name, state->name);
    } else {
        const Shape shape = shape_of_pieces(file, match);
        Match again;
        const char *pattern;
        const bool pieces = match->npieces > 0 && find_pieces(file, name, arena, &again, &pattern);
        if (pieces)
            text_printf(text, "the %d tensors '%s' are %s", match->npieces, pattern, shape.ndim > 0 ? "together " : "of several shapes");
        else
            text_printf(text, "the shape of '%s' is ", name);
        if (!pieces || shape.ndim > 0) shape_print(text, &shape);
        text_printf(text, ", and the net's is ");
        shape_print(text, &state->type.shape);
        if (misfits->transposed.n > 0)
            text_printf(text, match->transposed ? ": it fits as it is, without --transpose" : ": it fits transposed: --transpose %s",
                        state->name);
    }
}

static void misfit_list(Text *text, const Names *names, const char *what) {
    if (names->n > 0) text_printf(text, "\n  %s, %d: %s", what, names->n, names_text(names));
}

/* Tensors that nothing takes, and that have no parameter's name (--fresh). It leaves out what prun itself keeps in a checkpoint besides parameters: checksums, and the optimizer's "w.momentum" of a "w". */
static void unexpected(const TensorFile *file, const Graph *graph, const Match *matches, Names *names) {
    bool *taken = taken_tensors(file, graph, matches, names->arena);
    const bool own = tensors_metadata(file, "pcc.net") != NULL;
    for (int i = 0; i < graph->states.n; i++) {
        const int same = matches[i].tensor >= 0 ? -1 : tensors_find(file, graph->states.at[i].name);
        if (same >= 0) taken[same] = true;
    }
    for (int t = 0; t < file->tensors.n; t++) {
        const char *name = file->tensors.at[t].name, *dot = strrchr(name, '.');
        const bool slot = own && dot && tensors_find(file, arena_copy(names->arena, name, (size_t)(dot - name))) >= 0;
        if (!taken[t] && !slot && !(own && strncmp(name, "pcc:", 4) == 0)) names_add(names, name);
    }
    for (int i = 0; i < file->unread.n; i++) {
        bool expected = false;
        for (int s = 0; !expected && s < graph->states.n; s++)
            expected = strcmp(graph->states.at[s].name, file->unread.at[i]) == 0;
        if (!expected) names_add(names, file->unread.at[i]);
    }
}

/* How many names at the end two paths have in common; *bytes: their length. */
static int same_names(const char *a, const char *b, size_t *bytes) {
    size_t na = strlen(a), nb = strlen(b), n = 0;
    int names = 0;
    *bytes = 0;
    while (n < na && n < nb && a[na - n - 1] == b[nb - n - 1]) {
        n++;
        const bool ends = (n == na || a[na - n - 1] == '.') && (n == nb || b[nb - n - 1] == '.');
        if (ends) names++, *bytes = n;
    }
    return names;
}

/* A --rename for a parameter that the file may have under another name: the tensor of its shape whose path shares the most names with its end. NULL: none. */
static const char *rename_example(const TensorFile *file, const State *state, const char *name, Arena *arena) {
    const StoredTensor *best = NULL;
    int most = 0;
    size_t same = 0, bytes;
    for (int t = 0; t < file->tensors.n; t++) {
        const StoredTensor *tensor = &file->tensors.at[t];
        const Shape flipped = turned(&state->type.shape);
        const bool fits =
            shape_equal(&tensor->shape, &state->type.shape) || (state->type.shape.ndim == 2 && shape_equal(&tensor->shape, &flipped));
        const int names = fits && strlen(tensor->name) < 200 ? same_names(name, tensor->name, &bytes) : 0;
        if (names > most) {
            most = names;
            same = bytes;
            best = tensor;
        }
    }
    if (!best) return NULL;
    const char *wild = most > 1 || same == strlen(name) || same == strlen(best->name) ? "**" : "*";
    return printable(arena_printf(arena, "--rename '%.*s%s=%.*s%s'", (int)(strlen(name) - same), name, wild,
                                  (int)(strlen(best->name) - same), best->name, wild),
                     arena);
}

static bool misfit(const TensorFile *file, const Graph *graph, const char *const *names, const Match *matches, const Misfits *misfits,
                   const LoadRules *rules, Arena *arena, Error *error) {
    const int first = misfits->first, n = misfits->missing.n + misfits->transposed.n + misfits->shaped.n + misfits->unread.n;
    Text text = {0};
    if (n == 1) {
        misfit_one(file, graph, names[first], matches, misfits, &text, arena);
    } else {
        Names extra = {.arena = arena};
        unexpected(file, graph, matches, &extra);
        text_printf(&text, "does not fit the net");
        misfit_list(&text, &misfits->missing, "missing");
        misfit_list(&text, &misfits->transposed,
                    rules->ntransposes > 0 ? "fits the other way round, with --transpose or without" : "fits transposed, with --transpose");
        misfit_list(&text, &misfits->shaped, "of another shape");
        misfit_list(&text, &misfits->unread, "of a type that prun does not read");
        misfit_list(&text, &extra, "unexpected, in the file and not in the net");
        const char *example = matches[first].tensor < 0 ? rename_example(file, &graph->states.at[first], names[first], arena) : NULL;
        if (misfits->missing.n > 0)
            text_printf(&text, "\n  --rename NET=FILE says what the file calls a parameter%s%s; --fresh NET lets one begin as the net says",
                        example ? ", " : "", example ? example : "");
    }
    error_set(error, EXIT_ENVIRONMENT, "%s: %s", file->path, text.at);
    text_finish(&text);
    return false;
}

/* ---------------------------------------------------------------- all of them */

bool match_parameters(const TensorFile *file, const Graph *graph, const LoadRules *rules, Arena *arena, Match *matches, Error *error) {
    const char **names = arena_alloc(arena, ((size_t)graph->states.n + 1) * sizeof *names);
    Misfits misfits = {{.arena = arena}, {.arena = arena}, {.arena = arena}, {.arena = arena}, -1};
    for (int i = 0; i < graph->states.n; i++)
        matches[i] = (Match){.tensor = -1};
    if (!rename_states(graph, rules, arena, names, error) ||
        !check_patterns(graph, "--transpose", rules->transposes, rules->ntransposes, true, arena, error) ||
        !check_patterns(graph, "--fresh", rules->fresh, rules->nfresh, false, arena, error))
        return false;
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        if (state_is_own(state) && !matches_any(rules->fresh, rules->nfresh, state->name))
            match_one(file, state, names[i], rules, &matches[i], &misfits, i);
    }
    if (!check_collisions(file, graph, matches, arena, error)) return false;
    for (int i = 0; i < graph->states.n; i++) /* an average that the file does not have begins as its parameter */
        if (state_is_average(graph, i)) {
            matches[i] = matches[graph->states.at[i].parameter];
            const int own = tensors_find(file, graph->states.at[i].name);
            if (own >= 0) matches[i].tensor = own, matches[i].npieces = 0;
        }
    return (misfits.first < 0 || misfit(file, graph, names, matches, &misfits, rules, arena, error));
}

void match_report(const TensorFile *file, const Graph *graph, const Match *matches) {
    Arena arena;
    arena_init(&arena);
    Names extra = {.arena = &arena}, fresh = {.arena = &arena}, square = {.arena = &arena};
    unexpected(file, graph, matches, &extra);
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        const Shape *shape = &state->type.shape;
        if (state_is_own(state) && matches[i].tensor < 0) names_add(&fresh, state->name);
        const bool matrix = matches[i].tensor >= 0 && !matches[i].transposed && shape->ndim == 2 + (matches[i].npieces > 0);
        if (matrix && shape->dim[shape->ndim - 2] == shape->dim[shape->ndim - 1] && shape->dim[shape->ndim - 1] > 1)
            names_add(&square, state->name);
    }
    if (extra.n > 0)
        fprintf(stderr, "prun: note: %s: %d tensor%s that the net has no parameter for: %s\n", file->path, extra.n, plural(extra.n),
                names_text(&extra));
    if (fresh.n > 0)
        fprintf(stderr, "prun: note: %s: %d parameter%s newly initialised, as --fresh says: %s\n", file->path, fresh.n, plural(fresh.n),
                names_text(&fresh));
    if (square.n > 0 && !tensors_metadata(file, "pcc.net"))
        fprintf(
            stderr,
            "prun: warning: %s: %d square matri%s loaded as stored; whether the file has %s transposed cannot be told from the shape: %s; --transpose PATTERN turns "
            "them\n",
            file->path, square.n, square.n == 1 ? "x is" : "ces are", square.n == 1 ? "it" : "them", names_text(&square));
    arena_finish(&arena);
}
