/* The reader of plans on any bytes: it accepts or refuses, never crashes, hangs, or uses more memory than a multiple of the text. What it
 * accepts prints, and the print reads back to the same print.
 *
 * With -DPCC_LIBFUZZER: an entry for libFuzzer. Else a main that replays the files given as arguments. A file whose name contains
 * ".valid." must be accepted by plan_read as it is, one with ".hostile." refused even with a fresh checksum. */
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

static bool try_read(const char *text, size_t n, int flags) {
    Arena arena, again_arena;
    Plan plan, again;
    Error error = {0};
    arena_init(&arena);
    bool accepted = plan_read(&plan, &arena, "fuzz.plan", text, n, flags, &error);
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
        bool strict, accepted = try_plan(text, n, &strict);
        printf("%s: %s\n", argv[i], accepted ? "accepted" : "refused");
        if ((accepted && strstr(argv[i], ".hostile.")) || (!strict && strstr(argv[i], ".valid."))) {
            printf("%s: not as its name says\n", argv[i]);
            failed++;
        }
        arena_finish(&arena);
    }
    if (argc < 2) printf("usage: %s FILE...\n", argv[0]);
    return failed ? EXIT_MISMATCH : argc < 2 ? EXIT_USAGE : EXIT_DONE;
}

#endif
