/* target: see target.h. */
#include "ir/file.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

#ifdef PCC_LIBFUZZER

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n) {
    if (n > 1 << 16) return -1;
    try_bytes(data, n);
    return 0;
}

#else

/* Whether the file's name says this, where it says anything. */
static bool as_named(const char *name, Verdict verdict) {
    bool sided = strstr(name, ".sided.") != NULL;
    if (strstr(name, ".valid.")) return verdict == ACCEPTED;
    if (strstr(name, ".hostile.")) return verdict == REFUSED;
    return sided == (verdict == SIDED);
}

int main(int argc, char **argv) {
    static const char *const words[] = {
        [REFUSED] = "refused", [PARTLY] = "accepted in part", [SIDED] = "accepted with a side file", [ACCEPTED] = "accepted"};
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        Arena arena;
        Error error;
        char *bytes;
        size_t n;
        arena_init(&arena);
        if (!file_read(&arena, argv[i], (size_t)64 << 20, &bytes, &n, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return EXIT_ENVIRONMENT;
        }
        Verdict verdict = try_bytes((const unsigned char *)bytes, n);
        if (!as_named(argv[i], verdict)) {
            fprintf(stderr, "%s: %s\n", argv[i], words[verdict]);
            failures++;
        }
        arena_finish(&arena);
    }
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return EXIT_USAGE;
    }
    return failures ? EXIT_MISMATCH : EXIT_DONE;
}

#endif
