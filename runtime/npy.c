/* npy: numpy's file format for one array, version 1 to 3 (numpy/lib/format.py): magic, version, the length of a header that is a Python
 * dict, data. */
#include <ctype.h>
#include <string.h>

#include "ir/file.h"
#include "runtime/data/data.h"

enum { MAX_HEADER_BYTES = 1 << 16 };
static const size_t max_file_bytes = (size_t)1 << 40;

const char *npy_value(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ')
        at++;
    if (*at++ != ':') return NULL;
    while (*at == ' ')
        at++;
    return at;
}

bool npy_shape(const char *header, Shape *shape) {
    const char *at = npy_value(header, "'shape'");
    if (!at || *at++ != '(') return false;
    shape->ndim = 0;
    for (;;) {
        while (*at == ' ' || *at == ',')
            at++;
        if (*at == ')') return true;
        if (!isdigit((unsigned char)*at) || shape->ndim == MAX_NDIM) return false;
        int64_t size = 0;
        for (; isdigit((unsigned char)*at); at++)
            if (!mul_checked(size, 10, &size) || size > INT64_MAX - 9)
                return false;
            else
                size += *at - '0';
        shape->dim[shape->ndim++] = size;
    }
}

/* The types that an initial value may have, each as a file of rows holds it too. */
static bool read_dtype(const char *at, DType *dtype, Stored *stored) {
    static const char *const names[NDTYPES] = {"'<f4'", "'<f8'", "'<i4'", "'<i8'", "'|b1'"};
    for (int t = 0; at && t < NDTYPES; t++)
        if (strncmp(at, names[t], 5) == 0) return *dtype = (DType)t, stored_npy(at + 1, stored);
    return false;
}

bool npy_read(const char *path, Arena *arena, Shape *shape, DType *dtype, double **data, Error *error) {
    char *text;
    size_t n;
    if (!file_read(arena, path, max_file_bytes, &text, &n, error)) return false;
    const unsigned char *bytes = (const unsigned char *)text;
    if (n < 12 || memcmp(text, "\x93NUMPY", 6) != 0) return error_set(error, EXIT_ENVIRONMENT, "%s: not a .npy file", path);
    bool is_long = bytes[6] > 1;
    size_t begin = is_long ? 12 : 10, length = bytes[8] | (size_t)bytes[9] << 8;
    if (is_long) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (bytes[6] < 1 || bytes[6] > 3) return error_set(error, EXIT_ENVIRONMENT, "%s: .npy version %d, known are 1 to 3", path, bytes[6]);
    if (length > MAX_HEADER_BYTES || n - begin < length) return error_set(error, EXIT_ENVIRONMENT, "%s: its header is cut off", path);
    const char *header = arena_copy(arena, text + begin, length), *order = npy_value(header, "'fortran_order'");
    Stored stored;
    if (!read_dtype(npy_value(header, "'descr'"), dtype, &stored)) {
        char type[32];
        const char *descr = npy_value(header, "'descr'");
        snprintf(type, sizeof type, "%.*s", descr ? (int)strcspn(descr, ",}") : 7, descr ? descr : "missing");
        text_printable(type);
        return error_set(error, EXIT_ENVIRONMENT, "%s: element type %s; initial values may be '<f4', '<f8', '<i4', '<i8' or '|b1'", path, type);
    }
    if (!order || strncmp(order, "False", 5) != 0)
        return error_set(error, EXIT_ENVIRONMENT, "%s: in Fortran order; save numpy.ascontiguousarray(x) instead", path);
    int64_t count, size;
    if (!npy_shape(header, shape) || !shape_count(shape, &count) ||
        !mul_checked(count, dtype_bytes[*dtype], &size))
        return error_set(error, EXIT_ENVIRONMENT, "%s: its shape cannot be read", path);
    if ((uint64_t)size != n - begin - length)
        return error_set(error, EXIT_ENVIRONMENT, "%s: holds %zu bytes of elements, its shape needs %lld", path, n - begin - length,
                         (long long)size);
    *data = arena_alloc(arena, (size_t)count * sizeof **data);
    for (int64_t i = 0; i < count; i++) {
        double element = stored_element(bytes + begin + length + i * dtype_bytes[*dtype], stored);
        (*data)[i] = *dtype == BOOL ? element != 0 : element;
    }
    return true;
}
