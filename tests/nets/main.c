/* pcc-fuzz-net, which `pcc fuzz-net` runs: writes the net of a seed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/file.h"
#include "tests/nets/net.h"

static void help(FILE *out) {
    fputs(
        "usage: pcc fuzz-net --seed N [-o FILE]\n"
        "Writes a random net, to the standard output or to FILE. Its first lines say how to compile it, and how to compare a run of it with\n"
        "one rank. All operators of the table take part, with random shapes, attributes, strategies and layouts; a seed is always the same net.\n"
        "  --seed N   which net\n"
        "  -o FILE    write it to FILE\n"
        "Exit codes: 0 done, 2 usage, 3 the net cannot be written.\n",
        out);
}

static int usage_error(const char *what) {
    fprintf(stderr, "pcc fuzz-net: %s\n", what);
    help(stderr);
    return EXIT_USAGE;
}

/* Only digits: strtoull takes signs and blanks. */
static bool read_seed(const char *text, uint64_t *seed) {
    if (*text == '\0' || strlen(text) > 19 || text[strspn(text, "0123456789")] != '\0') return false;
    *seed = strtoull(text, NULL, 10);
    return true;
}

int main(int argc, char **argv) {
    standard_files();
    const char *output = NULL;
    uint64_t seed = 0;
    bool seeded = false;
    for (int i = 1; i < argc; i++) {
        bool is_seed = strncmp(argv[i], "--seed", 6) == 0 && (argv[i][6] == '=' || argv[i][6] == '\0');
        bool is_output = strcmp(argv[i], "-o") == 0;
        if (strcmp(argv[i], "--help") == 0) {
            help(stdout);
            return EXIT_DONE;
        }
        if (!is_seed && !is_output) return usage_error("takes --seed N and -o FILE");
        const char *value = is_seed && argv[i][6] == '=' ? argv[i] + 7 : i + 1 < argc ? argv[++i] : "";
        if (is_output && *value == '\0') return usage_error("-o takes a file");
        if (is_output) output = value;
        if (is_seed && !read_seed(value, &seed)) return usage_error("--seed takes a number of at most 19 digits");
        seeded |= is_seed;
    }
    if (!seeded) return usage_error("which one? --seed N");
    Arena arena;
    FuzzNet net;
    Text text = {0};
    Error error = {0};
    arena_init(&arena);
    fuzz_make(&net, &arena, seed);
    fuzz_print(&text, &net);
    bool done = true;
    if (output)
        done = file_write(output, text.at, text.n, &error);
    else
        fwrite(text.at, 1, text.n, stdout);
    if (done && (fflush(stdout) != 0 || ferror(stdout)))
        done = error_set(&error, EXIT_ENVIRONMENT, "cannot write the output: is the disk full?");
    if (!done) fprintf(stderr, "pcc fuzz-net: %s\n", error.text);
    text_finish(&text);
    arena_finish(&arena);
    return done ? EXIT_DONE : error.code;
}
