/* found: --write-hints, the strategies of a plan as a `hints found` block with named axes, which gives the same plan again.
 *
 * Before: a whole compilation. Every operator that strategies are chosen for has a line, and every input and state whose layout is a choice. Names that differ only in the
 * numbers of loops share a line; those few that say something else have lines after it, since the last match counts. Settings that a search took for memory or time have lines
 * too, and so have operators that it lets be recomputed. */
#include <assert.h>
#include <string.h>

#include "compiler/budget.h"
#include "compiler/compiler.h"
#include "ir/wildcard.h"

/* Something that a hint may name, and its strategy; NULL: it gets no line. */
typedef struct Line {
    const char *name, *pattern, *strategy;
    bool written;
} Line;

typedef struct Found {
    const Graph *g;
    Arena *arena;
    VEC(Digit) digits; /* of all strategies and layouts, each once */
    VEC(Axis) axes;    /* of the net's mesh, and of `meshes` */
    Text meshes;       /* "mesh (a = 2, b = 4);" */
    VEC(Line) lines;
} Found;

/* ---------------------------------------------------------------- axes */

static void note_digits(Found *f, const Digit *digits, int n) {
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < f->digits.n && !digit_equal(f->digits.at[k], digits[i]))
            k++;
        if (k == f->digits.n) vec_push(f->arena, &f->digits, digits[i]);
    }
}

static const Axis *axis_of(const Found *f, Digit digit) {
    for (int i = 0; i < f->axes.n; i++)
        if (digit_equal(f->axes.at[i].digit, digit)) return &f->axes.at[i];
    return NULL;
}

/* The next of a, b, .. z, a2, .. that is no axis of the net. */
static const char *next_name(const Found *f, int *number) {
    const char *name;
    do {
        const int letter = 'a' + *number % 26, round = *number / 26 + 1;
        name = round == 1 ? arena_printf(f->arena, "%c", letter) : arena_printf(f->arena, "%c%d", letter, round);
        ++*number;
    } while (axis_find(&f->g->settings, name) != NULL);
    return name;
}

/* The axes of a mesh that has these digits, major first; returns how many, -1: there is none. */
static int one_mesh(const Digit *digits, int n, int nranks, Digit chain[MAX_DIGITS]) {
    const int naxes = digits_chain(digits, n, NULL, 0, nranks, chain);
    for (int i = 0; i < n && naxes >= 0; i++) {
        bool there = false;
        for (int k = 0; k < naxes; k++)
            there = there || digit_equal(chain[k], digits[i]);
        if (!there) return -1;
    }
    return naxes;
}

/* Makes meshes for the digits that the net's mesh lacks: each takes as many of them as it can, in order. */
static void make_meshes(Found *f) {
    const MeshAxes *mesh = &f->g->settings.mesh;
    for (int i = 0; i < mesh->n; i++)
        vec_push(f->arena, &f->axes, mesh->at[i]);
    for (int first = 0, number = 0; first < f->digits.n; first++) {
        Digit member[MAX_DIGITS], chain[MAX_DIGITS];
        int n = 0;
        if (axis_of(f, f->digits.at[first]) != NULL) continue;
        for (int k = first; k < f->digits.n && n < MAX_DIGITS; k++) {
            if (axis_of(f, f->digits.at[k]) != NULL) continue;
            member[n++] = f->digits.at[k];
            if (one_mesh(member, n, f->g->nranks, chain) < 0) n--;
        }
        const int naxes = one_mesh(member, n, f->g->nranks, chain);
        text_printf(&f->meshes, "mesh (");
        for (int k = 0; k < naxes; k++) {
            const Axis axis = {.name = next_name(f, &number), .size = chain[k].size, .digit = chain[k]};
            text_printf(&f->meshes, "%s%s = %d", k > 0 ? ", " : "", axis.name, (int)axis.size);
            vec_push(f->arena, &f->axes, axis);
        }
        text_printf(&f->meshes, ");\n");
    }
}

static void print_dim(Text *text, const Found *f, const Digit *digits, int n) {
    if (n == 0) text_printf(text, "-");
    for (int i = 0; i < n; i++)
        text_printf(text, "%s%s", i > 0 ? "." : "", axis_of(f, digits[i])->name);
}

/* ---------------------------------------------------------------- lines */

/* "(a, -)": the axes of each dimension of an operand or a result. Marks in said the factors that this tensor has. */
static void print_tensor(Text *text, const Found *f, const Node *node, const int8_t *factors, int value, bool *said) {
    text_printf(text, "(");
    for (int d = 0; d < f->g->values.at[value].type.shape.ndim; d++) {
        const int factor = factors[d];
        if (d > 0) text_printf(text, ", ");
        print_dim(text, f, factor < 0 ? NULL : strategy_digits(node->strategy, factor),
                  factor < 0 ? 0 : strategy_count(node->strategy, factor));
        if (factor >= 0) said[factor] = true;
    }
    text_printf(text, ")");
}

static bool all_said(const Strategy *strategy, const bool *said) {
    for (int k = 0; k < strategy->nfactors; k++)
        if (!said[k] && strategy_count(strategy, k) > 0) return false;
    return true;
}

/* "((a, -), (-, b))": its operands; then " -> (a, b)": its result, where that splits a factor that no operand has. */
static const char *strategy_text(Found *f, const Node *node) {
    bool said[MAX_FACTORS] = {0};
    Text text = {0};
    text_printf(&text, "(");
    for (int i = 0; i < node->nin; i++) {
        if (i > 0) text_printf(&text, ", ");
        print_tensor(&text, f, node, node->rule->in[i], node->in[i], said);
    }
    text_printf(&text, ")");
    if (!all_said(node->strategy, said)) {
        text_printf(&text, " -> ");
        print_tensor(&text, f, node, node->rule->out[0], node->out[0], said);
    }
    assert(all_said(node->strategy, said)); /* factors that no operand has are in result 0 */
    const char *copy = arena_copy(f->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static const char *layout_text(const Found *f, const Layout *layout) {
    Text text = {0};
    text_printf(&text, "(");
    for (int d = 0; d < layout->ndim; d++) {
        if (d > 0) text_printf(&text, ", ");
        print_dim(&text, f, layout_list(layout, d), layout_count(layout, d));
    }
    text_printf(&text, ")");
    const char *copy = arena_copy(f->arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static void add_line(Found *f, const char *name, const char *strategy) {
    vec_push(f->arena, &f->lines, ((Line){.name = name, .pattern = path_without_numbers(name, f->arena), .strategy = strategy}));
}

static bool is_choice(const Layout *layout, const TensorType *type) {
    return layout != NULL && type->shape.ndim > 0 && !type->hidden;
}

static void find_lines(Found *f) {
    const Graph *g = f->g;
    for (int pass = 0; pass < 2; pass++) { /* finds all digits before any axis is named */
        for (int i = 0; i < g->inputs.n; i++) {
            const Input *input = &g->inputs.at[i];
            const bool choice = is_choice(input->layout, &input->type);
            if (pass > 0) add_line(f, input->name, choice ? layout_text(f, input->layout) : NULL);
            if (pass == 0 && choice) note_digits(f, input->layout->digit, input->layout->start[input->layout->ndim]);
        }
        for (int s = 0; s < g->states.n; s++) {
            const State *state = &g->states.at[s];
            const bool choice = is_choice(state->layout, &state->type);
            const int at = state->hint != NULL ? state->hint->at : 0;
            if (pass > 0 && at > 0)
                add_line(f, state->name, arena_printf(f->arena, "at(%d)", at - 1));
            else if (pass > 0)
                add_line(f, state->name, choice ? layout_text(f, state->layout) : NULL);
            if (pass == 0 && choice) note_digits(f, state->layout->digit, state->layout->start[state->layout->ndim]);
        }
        for (int n = 0; n < g->nforward; n++) {
            const Node *node = &g->nodes.at[n];
            if (node_is_leaf(node) || node->strategy == NULL) continue;
            if (pass > 0) add_line(f, node->name, strategy_text(f, node));
            if (pass == 0) note_digits(f, node->strategy->digit, node->strategy->start[MAX_FACTORS]);
        }
        if (pass == 0) make_meshes(f);
    }
}

/* Whether lines share a pattern: it matches several of its own, else only single ones, which follow; all have a strategy. */
static bool is_shared(const Found *f, const char *pattern) {
    int n = 0;
    if (strchr(pattern, '*') == NULL) return false;
    for (int i = 0; i < f->lines.n; i++) {
        const Line *line = &f->lines.at[i];
        if (line->name[0] != pattern[0] || !pattern_matches(pattern, line->name, NULL)) continue;
        const bool own = strcmp(line->pattern, pattern) == 0;
        if (line->strategy == NULL || (!own && strchr(line->pattern, '*') != NULL)) return false;
        n += own;
    }
    return n > 1;
}

/* The strategy that most lines of a pattern have; of several the first. */
static const char *most_said(const Found *f, const char *pattern) {
    const char *most = NULL;
    int best = 0;
    for (int i = 0; i < f->lines.n && best < f->lines.n - i; i++) {
        if (strcmp(f->lines.at[i].pattern, pattern) != 0) continue;
        int n = 0;
        for (int k = i; k < f->lines.n; k++)
            n += strcmp(f->lines.at[k].pattern, pattern) == 0 && strcmp(f->lines.at[k].strategy, f->lines.at[i].strategy) == 0;
        if (n > best) best = n, most = f->lines.at[i].strategy;
    }
    return most;
}

static void print_shared(Text *text, Found *f, const char *pattern) {
    const char *most = most_said(f, pattern);
    text_printf(text, "%s = %s;\n", pattern, most);
    for (int i = 0; i < f->lines.n; i++) {
        Line *line = &f->lines.at[i];
        if (strcmp(line->pattern, pattern) != 0) continue;
        line->written = true;
        if (strcmp(line->strategy, most) != 0) text_printf(text, "%s = %s;\n", line->name, line->strategy);
    }
}

static void print_lines(Text *text, Found *f) {
    for (int single = 0; single < 2; single++)
        for (int i = 0; i < f->lines.n; i++) {
            const Line *line = &f->lines.at[i];
            if (line->strategy == NULL || line->written) continue;
            if (single)
                text_printf(text, "%s = %s;\n", line->name, line->strategy);
            else if (is_shared(f, line->pattern))
                print_shared(text, f, line->pattern);
        }
}

/* Prints stages: the first and the last operator of each, which enclose all others; where stages do not follow each other in the order of the net, all operators. */
static void print_stages(Text *text, const Graph *g) {
    bool ordered = true;
    int before = 0;
    const Node *last = NULL, *said = NULL; /* with a stage; printed last */
    for (int n = 0; n < g->nforward; n++) {
        ordered = ordered && (g->nodes.at[n].stage == 0 || node_is_leaf(&g->nodes.at[n]) || g->nodes.at[n].stage >= before);
        if (!node_is_leaf(&g->nodes.at[n]) && g->nodes.at[n].stage > before) before = g->nodes.at[n].stage;
    }
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node) || node->stage == 0) continue;
        const bool first = last == NULL || last->stage != node->stage;
        if (first && last != said) text_printf(text, "%s = stage %d;\n", last->name, last->stage - 1);
        if (!ordered || first) text_printf(text, "%s = stage %d;\n", (said = node)->name, node->stage - 1);
        last = node;
    }
    if (last != said) text_printf(text, "%s = stage %d;\n", last->name, last->stage - 1);
}

/* Prints settings that were found beside strategies, where the user gave none. */
static void print_settings(Text *text, const Settings *s) {
    const bool states = !s->shard_states_given && s->shard_states != SHARD_OPTIMIZER;
    const Regather usual = s->shard_states_given && s->shard_states == SHARD_PARAMETERS ? REGATHER_PARAMETERS : REGATHER_NONE;
    if (states) text_printf(text, "shard_states = %s;\n", shard_states_name[s->shard_states]);
    if (!s->regather_given && (states || s->regather != usual)) text_printf(text, "regather = %s;\n", regather_name[s->regather]);
    if (s->regather_share > 0) text_printf(text, "regather_share = %.17g;\n", s->regather_share);
    if (!s->shard_from_given && s->shard_bytes != SHARD_BYTES) text_printf(text, "shard_from = %lld;\n", (long long)s->shard_bytes);
    const int64_t unit = s->bucket_bytes % 1024 == 0 ? 1024 : 1;
    if (!s->bucket_given && s->bucket_bytes != BUCKET_BYTES)
        text_printf(text, "bucket = %lld%s;\n", (long long)(s->bucket_bytes / unit), unit > 1 ? " KiB" : "");
    if (s->micro_batches > 1 && (s->micro_span.line == 0 || s->micro_found))
        text_printf(text, "micro_batches = %lld;\n", (long long)s->micro_batches);
    if (s->chunks > 1 && (s->chunks_span.line == 0 || s->chunks_found)) text_printf(text, "chunks = %lld;\n", (long long)s->chunks);
}

/* Whether recompute was found, by the search or by the hints that were given. */
static bool recompute_found(const Build *b) {
    const Measures *measures = b->front.measures;
    const Settings *settings = &b->front.graph.settings;
    bool found = false;
    for (int k = 0; measures != NULL && k < measures->n; k++)
        found = found || measures->taken[k].marks != NULL;
    for (int i = 0; i < settings->found.n; i++)
        found = found || settings->found.at[i].recompute;
    return found;
}

/* Prints what is recomputed: one line for a pattern where all its operators are. */
static void print_recompute(Text *text, Found *f) {
    f->lines.n = 0;
    for (int n = 0; n < f->g->nforward; n++)
        if (!node_is_leaf(&f->g->nodes.at[n])) add_line(f, f->g->nodes.at[n].name, f->g->nodes.at[n].recompute ? "recompute" : NULL);
    print_lines(text, f);
}

bool hints_print(Text *text, Compilation *c) {
    const Build *b = program_train(c);
    Found f = {.g = &b->front.chosen, .arena = c->arena};
    Text lines = {0};
    if (f.g->settings.mode == MODE_AUTO || f.g->settings.mode == MODE_SEMI_AUTO) find_lines(&f); /* the others look at no strategies */
    measures_print(&lines, b, "# With ", "\n");
    text_printf(&lines, "# Net %s on %d ranks", f.g->name, b->front.graph.nranks);
    if (b->nroles > 1) text_printf(&lines, " in %d stages", b->nroles);
    for (int i = 0; i < c->options->overrides.nhint_files; i++) /* the user's axes and strategies are not repeated */
        text_printf(&lines, "%s--hints %s", i == 0 ? ", with " : " ", c->options->overrides.hint_file[i]);
    text_printf(&lines, ": --hints with this file%s gives the plan that it is of.\nhints found {\n%s",
                c->options->overrides.nhint_files > 0 ? " beside that" : "", f.meshes.at != NULL ? f.meshes.at : "");
    print_settings(&lines, &b->front.graph.settings);
    text_printf(&lines, "\n");
    print_lines(&lines, &f);
    print_stages(&lines, f.g);
    if (recompute_found(b)) print_recompute(&lines, &f);
    text_printf(&lines, "}\n");
    const bool done = frontend_format(c->options->hints_file, lines.at, lines.n, text, c->arena, c->diags);
    text_finish(&lines);
    text_finish(&f.meshes);
    return done;
}
