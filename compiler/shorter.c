/* shorter: makes programs for shorter texts. If the data say `length = [32, 64, 128]` the net is lowered once for each length, as with a -D of the number of places of its texts,
 * and compiled as a program of its own over the states of train: `train_32`, `train_64`, of an eval `eval_32`. prun does each step with the program for the shortest texts that its
 * batch fits into.
 *
 * So a program for shorter texts has the inputs of the one for the longest, with as many rows and fewer places, and gives results of the same types. Other differences due to
 * the number of places, such as a parameter that has them, are refused here. Strategies and layouts of states are train's (pass follow). */
#include <string.h>

#include "compiler/compiler.h"

/* Whether inputs are the same but for their places, and those of files that have fewer say that they may. False after a diagnostic. */
static bool inputs_fit(const Compilation *c, const Graph *longest, const Graph *g, const TextLengths *lengths) {
    for (int i = 0; i < g->inputs.n; i++) {
        const Input *own = &g->inputs.at[i], *of = i < longest->inputs.n ? &longest->inputs.at[i] : NULL;
        const int ndim = own->type.shape.ndim;
        bool same = of != NULL && strcmp(of->name, own->name) == 0 && of->type.shape.ndim == ndim, grows = false;
        for (int d = 0; same && d < ndim; d++) {
            const int64_t less = of->type.shape.dim[d] - own->type.shape.dim[d];
            grows = grows || less < 0 || (less > 0 && d <= own->type.hidden && own->kind == INPUT_DATA);
        }
        if (!same || grows) {
            diag_error(c->diags, lengths->span, "%s %s has not the same rows for each length",
                       own->kind == INPUT_DATA ? "input" : "random numbers of", own->name);
            return false;
        }
        if (own->kind != INPUT_DATA || type_equal(&own->type, &of->type) || own->file.lengths) continue;
        diag_error(c->diags, own->span, "%s is of %s too, and its data do not say that its texts may be shorter", own->name,
                   lengths->number);
        diag_hint(c->diags, "%s = csv(.., tokens = .., length = [..])", own->name);
        return false;
    }
    return true;
}

/* Whether what the net gives is the same for each length: what an eval predicts may be a number for each place. */
static bool results_fit(const Graph *longest, const Graph *g, const LossRows *rows, const LossRows *longest_rows) {
    const int own = rows->prediction, of = longest_rows->prediction;
    return own < 0 || of < 0 || type_equal(&g->values.at[own].type, &longest->values.at[of].type);
}

static bool parse_one(Compilation *c, const Build *of, const Overrides *given, const TextLengths *lengths, int64_t length, bool *fits) {
    const Build *train = program_train(c);
    Build *b = arena_alloc(c->arena, sizeof *b);
    Graph *graph = arena_alloc(c->arena, sizeof *graph);
    LossRows *rows = arena_alloc(c->arena, sizeof *rows);
    Overrides overrides = *given;
    const unsigned silenced = c->diags->silenced;
    overrides.rows = rows;
    overrides.paths = NULL;
    overrides.length_number = lengths->number;
    overrides.length = length;
    c->diags->silenced = ~0u;
    const bool parsed = (of->kind == PROGRAM_EVAL ? frontend_eval : frontend_train)(&c->read, &overrides, graph, c->arena, c->diags);
    c->diags->silenced = silenced;
    if (!parsed) {
        diag_note(c->diags, lengths->span, "so it is with texts of %lld places", (long long)length);
        return false;
    }
    const char *where = arena_printf(c->arena, "the net for texts of %lld places", (long long)length);
    const char *hint = arena_printf(
        c->arena, "a net for texts of several lengths has parameters for the longest ones, of which it takes a part: position[0:%s, :]",
        lengths->number);
    *fits = results_fit(&of->front.graph, graph, rows, &of->front.rows);
    if (!*fits) return true;
    if (!inputs_fit(c, &of->front.graph, graph, lengths) || !take_states(train, graph, where, hint)) return false;
    follower_init(b, arena_printf(c->arena, "%s_%lld", of->name, (long long)length), of->kind, train, graph);
    b->shorter = true;
    b->front.rows = *rows;
    if (!parse_whole(b, &c->read, &overrides)) return error_set(&c->error, EXIT_INTERNAL, "the net of a whole batch was rejected");
    vec_push(c->arena, &c->programs, b);
    return true;
}

bool shorter_parse(Compilation *c, const Build *of, const Overrides *overrides) {
    const TextLengths lengths = of->front.graph.settings.lengths;
    bool fits = true;
    if (lengths.n > 1 && settings_stages(&of->front.graph.settings) > 1) {
        diag_error(c->diags, lengths.span, "a net in stages takes texts of one length");
        diag_hint(c->diags, "length = %lld, or no stages", (long long)lengths.at[lengths.n - 1]);
        return false;
    }
    for (int i = 0; i + 1 < lengths.n && fits; i++)
        if (!parse_one(c, of, overrides, &lengths, lengths.at[i], &fits)) return false;
    return true;
}
