/* file: see file.h. */
#include "tests/fuzz/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

void file_put(char path[FUZZ_PATH], const unsigned char *bytes, size_t n, bool compressed) {
    snprintf(path, FUZZ_PATH, "%s", "/tmp/fuzz-file-XXXXXX");
    int fd = mkstemp(path);
    require(fd >= 0, "no temporary file can be made");
    if (compressed) {
        gzFile file = gzdopen(fd, "wb1");
        require(file && (n == 0 || gzwrite(file, bytes, (unsigned)n) == (int)n) && gzclose(file) == Z_OK, "a temporary file cannot be written");
        return;
    }
    require(write(fd, bytes, n) == (ssize_t)n && close(fd) == 0, "a temporary file cannot be written");
}

void require_error(const Error *error, const char *path) {
    if (error->code != EXIT_ENVIRONMENT || !strstr(error->text, path)) fprintf(stderr, "exit code %d: %s\n", error->code, error->text);
    require(error->code == EXIT_ENVIRONMENT, "refused with another exit code");
    require(strstr(error->text, path) != NULL, "refused without the file's name");
    for (const char *at = error->text; *at; at++)
        require((unsigned char)*at >= ' ' && *at != 0x7f, "a message with control characters");
    require(strstr(error->text, "out of memory") == NULL, "asked for more memory than there is");
}

#ifdef PCC_LIBFUZZER

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n) {
    if (n > 1 << 16) return -1;
    try_bytes(data, n);
    return 0;
}

#else

int main(int argc, char **argv) {
    int failures = argc < 2;
    for (int i = 1; i < argc; i++) {
        Arena arena;
        Error error;
        char *bytes;
        size_t n;
        arena_init(&arena);
        if (!file_read(&arena, argv[i], 1 << 24, &bytes, &n, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return EXIT_ENVIRONMENT;
        }
        bool accepted = try_bytes((const unsigned char *)bytes, n);
        if (strstr(argv[i], accepted ? ".hostile." : ".valid.")) {
            fprintf(stderr, "%s: %s\n", argv[i], accepted ? "accepted" : "refused");
            failures++;
        }
        arena_finish(&arena);
    }
    if (argc < 2) printf("usage: %s FILE...\n", argv[0]);
    return failures ? EXIT_MISMATCH : EXIT_DONE;
}

#endif
