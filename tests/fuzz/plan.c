/* The reader of plans on any bytes: it accepts or refuses, never crashes, hangs, or uses more memory than a multiple of the text. What it
 * accepts prints, and the print reads back to the same print.
 *
 * A text that names a side file is tried with one of that size too, its checksum not asked for.
 *
 * With -DPCC_LIBFUZZER: an entry for libFuzzer. Else a main that replays the files given as arguments. A file whose name contains
 * ".valid." must be accepted by plan_read as it is, one with ".sided." with a side file, one with ".hostile." refused even with a fresh
 * checksum. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of memory for a byte of text, and for an empty one. A line "read state=0 version=0 .." of 50 bytes is a node, a rule and a value of
 * 1.2 KiB together, in vectors that double. */
enum { MEMORY_PER_BYTE = 250, MEMORY_BASE = 64 << 10 };

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "plan_read: %s\n", what);
    abort();
}

static bool try_files(const PlanFiles *files, int flags) {
    size_t n = files->n + files->nside;
    Arena arena, again_arena;
    Plan plan, again;
    Error error = {0};
    arena_init(&arena);
    bool accepted = plan_read_files(&plan, &arena, "fuzz.plan", files, flags, &error);
    require(accepted || (error.code == EXIT_REJECTED && error.text[0]), "refused without a message");
    require(arena.used_bytes <= MEMORY_BASE + MEMORY_PER_BYTE * n, "used more memory than a multiple of the text");
    if (accepted) {
        Text first = {0}, second = {0};
        arena_init(&again_arena);
        plan_print(&first, &plan);
        bool same = plan_read(&again, &again_arena, "printed.plan", first.at, first.n, 0, &error);
        if (!same) fprintf(stderr, "%s\n", error.text);
        require(same, "what it printed does not read back");
        plan_print(&second, &again);
        require(first.n == second.n && memcmp(first.at, second.at, first.n) == 0, "what it printed prints otherwise");
        text_finish(&first);
        text_finish(&second);
        arena_finish(&again_arena);
    }
    arena_finish(&arena);
    return accepted;
}

static bool try_read(const char *text, size_t n, int flags) {
    return try_files(&(PlanFiles){.text = text, .n = n}, flags);
}

/* With a side file as large as the text says, up to 64 KiB, of any numbers. */
static bool try_side(const char *text, size_t n) {
    enum { MAX_SIDE = 64 << 10 };
    char bytes[32] = "", *side;
    const char *line = NULL;
    for (size_t at = 0; at + 6 < n && !line; at++)
        if (memcmp(text + at, "\nside ", 6) == 0) line = text + at + 1;
    for (size_t at = 0; line && line + at + 6 < text + n && line[at] != '\n'; at++)
        if (memcmp(line + at, "bytes=", 6) == 0)
            for (size_t i = 0; i + 1 < sizeof bytes && line + at + 6 + i < text + n; i++)
                bytes[i] = line[at + 6 + i];
    long size = strtol(bytes, NULL, 10);
    if (size < 1 || size > MAX_SIDE) return false;
    side = malloc((size_t)size);
    require(side != NULL, "out of memory");
    for (long i = 0; i < size; i++)
        side[i] = (char)(i * 37 + i / 8);
    bool accepted = try_files(&(PlanFiles){.text = text, .n = n, .side = side, .nside = (size_t)size}, PLAN_IGNORE_CHECKSUM);
    free(side);
    return accepted;
}

/* As it is, which it returns in *strict, and with a fresh checksum. */
static bool try_plan(const char *text, size_t n, bool *strict) {
    Error error = {0};
    Text renewed = {0};
    bool accepted = false;
    *strict = try_read(text, n, 0);
    if (plan_renew(&renewed, "fuzz.plan", text, n, &error)) accepted = try_read(renewed.at, renewed.n, 0);
    require(accepted || !*strict, "a plan is refused after its checksum was renewed");
    text_finish(&renewed);
    return accepted;
}

#ifdef PCC_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    bool strict;
    try_plan((const char *)data, n, &strict);
    try_side((const char *)data, n);
    return 0;
}

#else

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        Arena arena;
        char *text;
        size_t n;
        Error error;
        arena_init(&arena);
        if (!file_read(&arena, argv[i], (size_t)64 << 20, &text, &n, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return EXIT_ENVIRONMENT;
        }
        bool strict, accepted = try_plan(text, n, &strict), sided = try_side(text, n);
        printf("%s: %s\n", argv[i], accepted || sided ? "accepted" : "refused");
        if (((accepted || sided) && strstr(argv[i], ".hostile.")) || (sided != (strstr(argv[i], ".sided.") != NULL)) || (!strict && strstr(argv[i], ".valid."))) {
            printf("%s: not as its name says\n", argv[i]);
            failed++;
        }
        arena_finish(&arena);
    }
    if (argc < 2) printf("usage: %s FILE...\n", argv[0]);
    return failed ? EXIT_MISMATCH : argc < 2 ? EXIT_USAGE : EXIT_DONE;
}

#endif
