/* Golden diagnostics: for each NAME.dsl in a folder what the frontend, the pass `rows` and decode.c say about it, compared with NAME.err, whole.
 *
 *   golden DIR [--bless]      --bless writes the .err files anew: read the diff
 *
 * What they import lies in DIR/parts. A first line `# flags: --ranks 2 --mode auto --replicas 4 -D batch=8 --hints FILE --shard HINT` (a hint without
 * spaces) says how a file is compiled; else for 8 ranks. */
#include "compiler/compiler.h"
#include "compiler/rows.h"
#include "ir/file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 32, MAX_TEXT = 1 << 20 };

/* Reads the words of the flags line into overrides; the words live in the arena. */
static void read_flags(Arena *arena, const char *text, Overrides *flags) {
    static const char mark[] = "# flags: ";
    if (strncmp(text, mark, sizeof mark - 1) != 0) return;
    char *line = arena_copy(arena, text + sizeof mark - 1, strcspn(text + sizeof mark - 1, "\n")), *rest = NULL;
    const char **names = arena_alloc(arena, MAX_WORDS * sizeof *names);
    int64_t *values = arena_alloc(arena, MAX_WORDS * sizeof *values);
    flags->define_name = names;
    flags->define_value = values;
    const char **shards = arena_alloc(arena, MAX_WORDS * sizeof *shards), **hints = arena_alloc(arena, MAX_WORDS * sizeof *hints);
    flags->shard = shards;
    flags->hint_file = hints;
    for (char *flag = strtok_r(line, " ", &rest); flag; flag = strtok_r(NULL, " ", &rest)) {
        char *value = strtok_r(NULL, " ", &rest), *equals = value ? strchr(value, '=') : NULL;
        if (!value) break;
        if (!strcmp(flag, "--ranks")) flags->nranks = atoi(value);
        if (!strcmp(flag, "--replicas")) flags->replicas = atoi(value);
        if (!strcmp(flag, "--mode")) flags->mode = value;
        if (!strcmp(flag, "--search")) flags->search = value;
        if (!strcmp(flag, "--dataset")) flags->dataset = value;
        if (!strcmp(flag, "--gradients")) flags->gradients = value;
        if (!strcmp(flag, "--stages")) flags->stages = value;
        if (!strcmp(flag, "--chunks")) flags->chunks = value;
        if (!strcmp(flag, "--shard") && flags->nshards < MAX_WORDS) shards[flags->nshards++] = value;
        if (!strcmp(flag, "--hints") && flags->nhint_files < MAX_WORDS) hints[flags->nhint_files++] = value;
        if (strcmp(flag, "-D") != 0 || !equals || flags->ndefines == MAX_WORDS) continue;
        names[flags->ndefines] = arena_copy(arena, value, (size_t)(equals - value));
        values[flags->ndefines++] = strtoll(equals + 1, NULL, 10);
    }
}

/* What the frontend says about the file, on the heap; NULL when it cannot be read. */
static char *diagnose(const char *directory, const char *file) {
    Arena arena;
    Diags diags;
    Graph graph;
    Error error;
    char *text, *said = NULL;
    size_t n, nsaid;
    arena_init(&arena);
    diags_init(&diags, &arena);
    if (file_read(&arena, arena_printf(&arena, "%s/%s", directory, file), MAX_TEXT, &text, &n, &error)) {
        Overrides flags = {.nranks = 8};
        read_flags(&arena, text, &flags);
        Graph eval;
        LossRows rows, eval_rows = {0};
        flags.rows = &rows;
        Source source;
        bool accepted =
            frontend_read(&source, file, text, n, &flags, &arena, &diags) && frontend_train(&source, &flags, &graph, &arena, &diags);
        flags.rows = &eval_rows;
        if (accepted && graph.settings.has_eval) accepted = frontend_eval(&source, &flags, &eval, &arena, &diags);
        Generation generation;
        Graph text_graph;
        flags.rows = NULL;
        if (accepted && graph.settings.has_generate)
            accepted = frontend_generate(&source, &flags, &generation, &text_graph, &arena, &diags) &&
                       graph_decode(&text_graph, &generation, 1, &diags);
        accepted = accepted && loss_rows_apply(&graph, &rows, &diags) && loss_rows_apply(&eval, &eval_rows, &diags);
        FILE *out = open_memstream(&said, &nsaid);
        diags_print(&diags, out);
        if (accepted) fprintf(out, "accepted\n");
        fclose(out);
    } else {
        fprintf(stderr, "%s\n", error.text);
    }
    arena_finish(&arena);
    return said;
}

static bool check(const char *directory, const char *file, bool bless) {
    Arena arena;
    Error error = {0};
    char *want = NULL, *said = diagnose(directory, file);
    size_t n = 0;
    if (!said) return false;
    arena_init(&arena);
    const char *path = arena_printf(&arena, "%s/%.*s.err", directory, (int)strlen(file) - 4, file);
    bool same =
        bless ? file_write(path, said, strlen(said), &error) : file_read(&arena, path, MAX_TEXT, &want, &n, &error) && !strcmp(said, want);
    if (!same && !error.text[0]) fprintf(stderr, "%s: expected\n%s%s: found\n%s", file, want, file, said);
    if (!same && error.text[0]) fprintf(stderr, "%s\n", error.text);
    arena_finish(&arena);
    free(said);
    return same;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: golden DIR [--bless]\n");
        return EXIT_USAGE;
    }
    bool bless = argc > 2 && !strcmp(argv[2], "--bless");
    /* In it, so that messages hold no folder's name. */
    DIR *directory = chdir(argv[1]) == 0 ? opendir(".") : NULL;
    if (!directory) {
        perror(argv[1]);
        return EXIT_ENVIRONMENT;
    }
    Arena arena;
    VEC(const char *) files = {0};
    arena_init(&arena);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        size_t n = strlen(entry->d_name);
        if (n > 4 && !strcmp(entry->d_name + n - 4, ".dsl")) vec_push(&arena, &files, arena_copy(&arena, entry->d_name, n));
    }
    closedir(directory);
    if (files.n) qsort(files.at, (size_t)files.n, sizeof *files.at, by_name);
    int failed = 0;
    for (int i = 0; i < files.n; i++)
        failed += !check(".", files.at[i], bless);
    printf("%d of %d differ\n", failed, files.n);
    arena_finish(&arena);
    return failed || files.n == 0;
}
