/* The reader of plans on any bytes: it accepts or refuses, never crashes, hangs, or uses more memory than a multiple of the text. What it
 * accepts prints, and the print reads back to the same print.
 *
 * A text that names a side file is tried with one of that size too, its checksum not asked for. ".valid.": accepted as it is; ".sided.": with a side file;
 * ".hostile.": refused even with a fresh checksum. */
#include "ir/plan.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/target.h"

/* Bytes of memory for a byte of text, and for an empty one. A line "read state=0 version=0 .." of 50 bytes is a node, a rule and a value of
 * 1.2 KiB together, in vectors that double. */
enum { MEMORY_PER_BYTE = 250, MEMORY_BASE = 64 << 10 };

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

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    const char *text = (const char *)bytes;
    Error error = {0};
    Text renewed = {0};
    bool strict = try_read(text, n, 0), accepted = plan_renew(&renewed, "fuzz.plan", text, n, &error) && try_read(renewed.at, renewed.n, 0);
    require(accepted || !strict, "a plan is refused after its checksum was renewed");
    text_finish(&renewed);
    bool sided = try_side(text, n);
    return strict && !sided ? ACCEPTED : sided ? SIDED : accepted ? PARTLY : REFUSED;
}
