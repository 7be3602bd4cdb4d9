/* The frontend and the pass `rows` on any bytes: it accepts or refuses, never crashes, hangs, or uses more memory than a multiple of the text; it refuses with
 * a diagnostic; what it accepts is a verified graph that prints and reads back to the same print. ".valid.": accepted in mode auto; ".hostile.": refused in
 * every mode. */
#include "compiler/rows.h"
#include "ir/plan.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/target.h"

/* Bytes of memory for a byte of text, and for an empty one. "x=--------a;" is a node, a rule and a value for each "-", 2.5 KiB together, in
 * vectors that double. */
enum { MEMORY_PER_BYTE = 4000, MEMORY_BASE = 64 << 10 };
/* What loops and cells may make of any text: as many operators as a net may have, a string for the path of each, and small things for each step. */
enum { MEMORY_REPEATED = 1100 << 20 };

static void require_graph(const Graph *graph) {
    Arena arena;
    Graph again;
    Error error = {0};
    Text first = {0}, second = {0};
    arena_init(&arena);
    bool verified = graph_verify(graph, "lower", &error);
    if (!verified) fprintf(stderr, "%s\n", error.text);
    require(verified, "accepted what does not verify");
    graph_print(&first, graph);
    bool same = graph_read(&again, &arena, "printed", first.at, first.n, &error);
    if (!same) fprintf(stderr, "%s\n%s", error.text, first.at);
    require(same, "what it printed does not read back");
    graph_print(&second, &again);
    require(first.n == second.n && memcmp(first.at, second.at, first.n) == 0, "what it printed prints otherwise");
    text_finish(&first);
    text_finish(&second);
    arena_finish(&arena);
}

static bool contains(const char *text, size_t n, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(text + i, word, length) == 0) return true;
    return false;
}

/* The standard form says the same, and is its own standard form. */
static void try_format(const char *text, size_t n) {
    Arena arena;
    Diags diags;
    Text once = {0}, twice = {0};
    arena_init(&arena);
    diags_init(&diags, &arena);
    bool formatted = frontend_format("fuzz.dsl", text, n, &once, &arena, &diags);
    require(formatted == (diags.nerrors == 0), "not formatted without a diagnostic");
    if (formatted) {
        require(frontend_format("fuzz.dsl", once.at ? once.at : "", once.n, &twice, &arena, &diags), "what was formatted does not parse");
        require(once.n == twice.n && (once.n == 0 || memcmp(once.at, twice.at, once.n) == 0), "formatting again changes the text");
    }
    text_finish(&once);
    text_finish(&twice);
    arena_finish(&arena);
}

static bool try_compile(const char *text, size_t n, const Overrides *flags) {
    Arena arena;
    Diags diags;
    Graph graph;
    arena_init(&arena);
    diags_init(&diags, &arena);
    LossRows rows;
    Overrides own = *flags;
    own.rows = &rows;
    Source source;
    bool accepted = frontend_read(&source, "fuzz.dsl", text, n, &own, &arena, &diags) &&
                    frontend_train(&source, &own, &graph, &arena, &diags) && loss_rows_apply(&graph, &rows, &diags);
    require(accepted == (diags.nerrors == 0), "refused without a diagnostic, or accepted with one");
    bool repeats = contains(text, n, "for") || contains(text, n, "cell");
    require(arena.used_bytes <= MEMORY_BASE + MEMORY_PER_BYTE * n + (repeats ? MEMORY_REPEATED : 0),
            "used more memory than a multiple of the text");
    char *said = NULL;
    size_t nsaid;
    FILE *out = open_memstream(&said, &nsaid);
    diags_print(&diags, out);
    fclose(out);
    free(said);
    if (accepted) require_graph(&graph);
    if (accepted && graph.settings.has_eval) {
        int nerrors = diags.nerrors;
        Graph eval;
        bool evaluates = frontend_eval(&source, &own, &eval, &arena, &diags) && loss_rows_apply(&eval, &rows, &diags);
        require(evaluates == (diags.nerrors == nerrors), "an eval refused without a diagnostic, or accepted with one");
        if (evaluates) require_graph(&eval);
    }
    arena_finish(&arena);
    return accepted;
}

/* In the modes that take different ways. */
Verdict try_bytes(const unsigned char *bytes, size_t n) {
    static const char *const names[] = {"batch"};
    static const int64_t values[] = {24};
    static const Overrides modes[] = {{.nranks = 8, .mode = "auto"},
                                      {.nranks = 8},
                                      {.nranks = 2, .mode = "data_parallel", .gradients = "sum"},
                                      {.nranks = 1, .mode = "stand_alone", .ndefines = 1, .define_name = names, .define_value = values}};
    const char *text = (const char *)bytes;
    Verdict verdict = REFUSED;
    try_format(text, n);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (try_compile(text, n, &modes[i]) && verdict == REFUSED) verdict = i == 0 ? ACCEPTED : PARTLY;
    return verdict;
}
