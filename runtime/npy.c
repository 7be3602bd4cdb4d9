/* npy: reads whole arrays from numpy's file format. */
#include <string.h>

#include "ir/file.h"
#include "ir/npy.h"
#include "runtime/data/data.h"
#include "runtime/data/rows.h"
#include "runtime/state.h"

static const size_t max_file_bytes = (size_t)1 << 40;

bool npy_read(const char *path, Arena *arena, Shape *shape, DType *dtype, double **data, Error *error) {
    char *text;
    size_t n;
    NpyHeader header;
    Stored stored;
    int64_t count, size;
    if (!file_read(arena, path, max_file_bytes, &text, &n, error) || !npy_header(&header, arena, path, text, n, error)) return false;
    if (!stored_npy(header.descr, &stored) || !shape_count(&header.shape, &count) || !mul_checked(count, stored_bytes[stored.kind], &size))
        return error_set(error, EXIT_ENVIRONMENT, "%s: its elements cannot be read", path);
    if ((uint64_t)size != n - header.begin)
        return error_set(error, EXIT_ENVIRONMENT, "%s: holds %zu bytes of elements, its shape needs %lld", path, n - header.begin,
                         (long long)size);
    const unsigned char *bytes = (const unsigned char *)text + header.begin;
    *shape = header.shape;
    *dtype = header.dtype;
    *data = arena_alloc(arena, (size_t)count * sizeof **data);
    for (int64_t i = 0; i < count; i++) {
        double element = stored_element(bytes + i * stored_bytes[stored.kind], stored);
        (*data)[i] = *dtype == BOOL ? element != 0 : element;
    }
    return true;
}
