/* .npy files, as rows of an input (plain and through gzip) and as initial values. */
#include <unistd.h>

#include "runtime/state.h"
#include "tests/fuzz/rows.h"

static bool try_whole(const unsigned char *bytes, size_t n) {
    Arena arena;
    Shape shape = {0};
    DType dtype;
    double *elements;
    Error error = {0};
    char path[FUZZ_PATH];
    arena_init(&arena);
    file_put(path, bytes, n, false);
    bool ok = npy_read(path, &arena, &shape, &dtype, &elements, &error);
    if (!ok) require_error(&error, path);
    double sum = 0;
    for (int64_t i = 0; ok && i < shape_elements(&shape); i++)
        sum += elements[i]; /* all of them are there */
    require(sum == sum || sum != sum, "summed");
    unlink(path);
    arena_finish(&arena);
    return ok;
}

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    bool rows = try_rows(FILE_NPY, bytes, n), whole = try_whole(bytes, n);
    return rows || whole ? ACCEPTED : REFUSED;
}
