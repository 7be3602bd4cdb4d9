/* The examples of the documentation and the samples compile: each file named *.dsl, and in each *.md the text between "```net" and "```". A fence
 * "```net ranks=2", or a line "--ranks 2" in a comment of a sample, says for how many ranks; else 8. A page imports from samples/, beside its folder. */
#include "compiler/rows.h"
#include "ir/file.h"

#include <stdlib.h>
#include <string.h>

static bool compiles(const char *name, const char *text, size_t n, int nranks) {
    Arena arena;
    Diags diags;
    Graph graph;
    Error error = {0};
    LossRows rows;
    arena_init(&arena);
    const char *slash = strrchr(name, '/'),
               *library = arena_printf(&arena, "%.*s/../samples", slash ? (int)(slash - name) : 1, slash ? name : ".");
    Overrides flags = {.nranks = nranks, .rows = &rows, .folder = &library, .nfolders = 1};
    diags_init(&diags, &arena);
    bool ok = frontend_compile(name, text, n, &flags, &graph, &arena, &diags) && loss_rows_apply(&graph, &rows, &diags);
    diags_print(&diags, stderr);
    if (ok && !graph_verify(&graph, "lower", &error)) {
        fprintf(stderr, "%s: %s\n", name, error.text);
        ok = false;
    }
    printf("%s: %s\n", name, ok ? graph.name : "rejected");
    arena_finish(&arena);
    return ok;
}

static int ranks_after(const char *text, const char *end, const char *mark) {
    const char *at = strstr(text, mark);
    return at && at < end ? atoi(at + strlen(mark)) : 8;
}

/* Compiles the examples of a page; returns the number of those that fail, 1 when there is none. */
static int check_page(const char *name, const char *text) {
    static const char open[] = "\n```net", close[] = "\n```";
    int failed = 0, n = 0;
    for (const char *at = text; (at = strstr(at, open)); n++) {
        const char *line = at + sizeof open - 1, *begin = line + strcspn(line, "\n"), *end = strstr(begin, close);
        if (!end) return failed + 1;
        failed += !compiles(name, begin, (size_t)(end + 1 - begin), ranks_after(line, begin, "ranks="));
        at = end;
    }
    return n ? failed : 1;
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        Arena arena;
        Error error;
        char *text;
        size_t n;
        arena_init(&arena);
        if (!file_read(&arena, argv[i], 1 << 24, &text, &n, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return EXIT_ENVIRONMENT;
        }
        if (strstr(argv[i], ".md"))
            failed += check_page(argv[i], text);
        else if (strncmp(text, "net ", 4) == 0 || strstr(text, "\nnet ")) /* others are imported by those */
            failed += !compiles(argv[i], text, n, ranks_after(text, text + n, "--ranks "));
        arena_finish(&arena);
    }
    return failed > 0;
}
