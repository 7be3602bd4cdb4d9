/* file: see file.h. */
#include "tests/fuzz/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

void file_put(char path[FUZZ_PATH], const unsigned char *bytes, size_t n, bool compressed) {
#ifdef PCC_LIBFUZZER /* alone in its folder, and the name is the same each time, as all else is */
    static int number;
    snprintf(path, FUZZ_PATH, "fuzz-file-%d", number = (number + 1) % 10);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
#else
    snprintf(path, FUZZ_PATH, "%s", "/tmp/fuzz-file-XXXXXX");
    int fd = mkstemp(path);
#endif
    require(fd >= 0, "no temporary file can be made");
    if (compressed) {
        gzFile file = gzdopen(fd, "wb1");
        require(file && (n == 0 || gzwrite(file, bytes, (unsigned)n) == (int)n) && gzclose(file) == Z_OK,
                "a temporary file cannot be written");
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
    /* Not where the message quotes the file. */
    require(strncmp(strstr(error->text, path) + strlen(path), ": out of memory", 15) != 0, "asked for more memory than there is");
}
