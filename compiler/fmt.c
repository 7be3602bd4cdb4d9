/* pcc fmt: files in their standard form (frontend/format.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/commands.h"
#include "frontend/frontend.h"
#include "ir/file.h"

enum { MAX_FILE_BYTES = 1 << 26 };

static void help(FILE *out) {
    fputs("usage: pcc fmt [--check] FILE..\n"
          "Writes each file in its standard form; '-': the standard input to the standard output. Tokens and comments stay as they are.\n"
          "  --check  change nothing; print the names of files that are not in that form, and exit with 1\n"
          "Exit codes: 0 done, 1 a file with syntax errors (it is left alone), or --check found one, 2 usage, 3 environment.\n",
          out);
}

/* All of the standard input, in the arena. */
static bool read_input(Arena *arena, char **text, size_t *n, Error *error) {
    Text all = {0};
    char block[1 << 14];
    for (size_t got; (got = fread(block, 1, sizeof block, stdin)) > 0;)
        text_append(&all, block, got);
    bool ok = !ferror(stdin) && all.n <= MAX_FILE_BYTES;
    *text = arena_copy(arena, all.n > 0 ? all.at : "", all.n);
    *n = all.n;
    text_finish(&all);
    return ok || error_set(error, EXIT_ENVIRONMENT, "cannot read the standard input");
}

static int format_file(const char *path, bool check) {
    Arena arena;
    Diags diags;
    Error error = {0};
    Text formatted = {0};
    char *text = NULL;
    size_t n = 0;
    bool standard = strcmp(path, "-") == 0;
    arena_init(&arena);
    diags_init(&diags, &arena);
    bool done = standard ? read_input(&arena, &text, &n, &error) : file_read(&arena, path, MAX_FILE_BYTES, &text, &n, &error);
    int code = done ? EXIT_DONE : error.code;
    if (done && !frontend_format(standard ? "standard input" : path, text, n, &formatted, &arena, &diags)) code = EXIT_REJECTED;
    bool changes = code == EXIT_DONE && (formatted.n != n || (n > 0 && memcmp(formatted.at, text, n) != 0));
    diags_print(&diags, stderr);
    if (changes && check) {
        printf("%s\n", path);
        code = EXIT_REJECTED;
    } else if (code == EXIT_DONE && standard && !check) {
        fwrite(formatted.n > 0 ? formatted.at : "", 1, formatted.n, stdout);
    } else if (changes && !file_write(path, formatted.n > 0 ? formatted.at : "", formatted.n, &error)) {
        code = error.code;
    }
    if (error.code != 0) fprintf(stderr, "pcc fmt: %s\n", error.text);
    text_finish(&formatted);
    arena_finish(&arena);
    return code;
}

int fmt_command(int argc, char **argv) {
    bool check = false;
    int code = EXIT_DONE, nfiles = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            help(stdout);
            return EXIT_DONE;
        }
        if (strcmp(argv[i], "--check") == 0) {
            check = true;
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            fprintf(stderr, "pcc fmt: unknown option '%s'\n", argv[i]);
            help(stderr);
            return EXIT_USAGE;
        }
    }
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') continue;
        int one = format_file(argv[i], check);
        if (one > code) code = one;
        nfiles++;
    }
    if (nfiles > 0) return code;
    help(stderr);
    return EXIT_USAGE;
}
