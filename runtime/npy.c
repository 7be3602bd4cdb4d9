/* npy: numpy's file format for one array, version 1 to 3 (numpy/lib/format.py): magic, version, the length of a header that is a Python
 * dict, data. */
#include <ctype.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MAX_HEADER_BYTES = 1 << 16 };
static const size_t max_file_bytes = (size_t)1 << 40;

/* Where the value of a key begins in the header, or NULL. */
static const char *header_value(const char *header, const char *key) {
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

static bool read_shape(const char *at, Shape *shape) {
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

static bool read_dtype(const char *at, DType *dtype) {
    static const char *const names[NDTYPES] = {"'<f4'", "'<f8'", "'<i4'", "'<i8'", "'|b1'"};
    for (int t = 0; at && t < NDTYPES; t++)
        if (strncmp(at, names[t], 5) == 0) return *dtype = (DType)t, true;
    return false;
}

/* Little-endian on any machine. */
static uint64_t load(const unsigned char *at, int bytes) {
    uint64_t word = 0;
    for (int i = bytes - 1; i >= 0; i--)
        word = word << 8 | at[i];
    return word;
}

static double element(const unsigned char *at, DType dtype) {
    if (dtype == BOOL) return at[0] != 0;
    if (dtype == I64) {
        int64_t value;
        uint64_t whole = load(at, 8);
        memcpy(&value, &whole, sizeof value);
        return (double)value;
    }
    uint32_t half = (uint32_t)load(at, 4);
    if (dtype == F64) {
        double value;
        uint64_t whole = load(at, 8);
        memcpy(&value, &whole, sizeof value);
        return value;
    }
    if (dtype == F32) {
        float value;
        memcpy(&value, &half, sizeof value);
        return value;
    }
    int32_t value;
    memcpy(&value, &half, sizeof value);
    return value;
}

bool npy_read(const char *path, Arena *arena, Shape *shape, DType *dtype, double **data, Error *error) {
    char *text;
    size_t n;
    if (!file_read(arena, path, max_file_bytes, &text, &n, error)) return false;
    const unsigned char *bytes = (const unsigned char *)text;
    if (n < 12 || memcmp(text, "\x93NUMPY", 6) != 0) return error_set(error, EXIT_REJECTED, "%s: not a .npy file", path);
    bool is_long = bytes[6] > 1;
    size_t begin = is_long ? 12 : 10, length = (size_t)load(bytes + 8, is_long ? 4 : 2);
    if (bytes[6] < 1 || bytes[6] > 3) return error_set(error, EXIT_REJECTED, "%s: .npy version %d, known are 1 to 3", path, bytes[6]);
    if (length > MAX_HEADER_BYTES || n - begin < length) return error_set(error, EXIT_REJECTED, "%s: its header is cut off", path);
    const char *header = arena_copy(arena, text + begin, length), *order = header_value(header, "'fortran_order'");
    if (!read_dtype(header_value(header, "'descr'"), dtype))
        return error_set(error, EXIT_REJECTED, "%s: element type %.12s; prun reads '<f4', '<f8' and '<i4'", path,
                         header_value(header, "'descr'") ? header_value(header, "'descr'") : "missing");
    if (!order || strncmp(order, "False", 5) != 0)
        return error_set(error, EXIT_REJECTED, "%s: in Fortran order; save numpy.ascontiguousarray(x) instead", path);
    int64_t count, size;
    if (!read_shape(header_value(header, "'shape'"), shape) || !shape_count(shape, &count) ||
        !mul_checked(count, dtype_bytes[*dtype], &size))
        return error_set(error, EXIT_REJECTED, "%s: its shape cannot be read", path);
    if ((uint64_t)size != n - begin - length)
        return error_set(error, EXIT_REJECTED, "%s: holds %zu bytes of elements, its shape needs %lld", path, n - begin - length,
                         (long long)size);
    *data = arena_alloc(arena, (size_t)count * sizeof **data);
    for (int64_t i = 0; i < count; i++)
        (*data)[i] = element(bytes + begin + length + i * dtype_bytes[*dtype], *dtype);
    return true;
}
