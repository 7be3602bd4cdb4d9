/* npy: the header of numpy's .npy format. */
#include "ir/npy.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ir/file.h"

enum { MAX_HEADER_BYTES = 1 << 16, LEAD_BYTES = 12 };

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

static bool read_dtype(const char *descr, DType *dtype) {
    static const struct {
        const char *code;
        DType dtype;
    } types[] = {{"f4", F32}, {"f8", F64}, {"i4", I32}, {"i8", I64}, {"b1", BOOL}, {"u1", I32}, {"i1", I32}, {"i2", I32}, {"f2", F16}};
    if (!descr || descr[0] != '\'' || !strchr("<>|", descr[1]) || descr[1] == '\0') return false;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strncmp(descr + 2, types[t].code, 2) == 0 && descr[4] == '\'') return *dtype = types[t].dtype, true;
    return false;
}

bool npy_header(NpyHeader *header, Arena *arena, const char *path, const char *text, size_t n, Error *error) {
    const unsigned char *bytes = (const unsigned char *)text;
    if (n < LEAD_BYTES || memcmp(text, "\x93NUMPY", 6) != 0) return error_set(error, EXIT_ENVIRONMENT, "%s: not a .npy file", path);
    if (bytes[6] < 1 || bytes[6] > 3) return error_set(error, EXIT_ENVIRONMENT, "%s: .npy version %d, known are 1 to 3", path, bytes[6]);
    bool is_long = bytes[6] > 1;
    size_t begin = is_long ? LEAD_BYTES : 10, length = bytes[8] | (size_t)bytes[9] << 8;
    if (is_long) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > MAX_HEADER_BYTES || n - begin < length) return error_set(error, EXIT_ENVIRONMENT, "%s: its header is cut off", path);
    const char *words = arena_copy(arena, text + begin, length), *order = npy_value(words, "'fortran_order'"),
               *descr = npy_value(words, "'descr'");
    *header = (NpyHeader){.begin = begin + length};
    if (!read_dtype(descr, &header->dtype)) {
        char type[32];
        snprintf(type, sizeof type, "%.*s", descr ? (int)strcspn(descr, ",}") : 7, descr ? descr : "missing");
        text_printable(type);
        return error_set(error, EXIT_ENVIRONMENT, "%s: element type %s; prun reads f2, f4, f8, i1, i2, i4, i8, u1 and b1", path, type);
    }
    header->descr = descr + 1;
    if (!order || strncmp(order, "False", 5) != 0)
        return error_set(error, EXIT_ENVIRONMENT, "%s: in Fortran order; save numpy.ascontiguousarray(x) instead", path);
    int64_t count, size;
    if (!npy_shape(words, &header->shape) || !shape_count(&header->shape, &count) || !mul_checked(count, dtype_bytes[header->dtype], &size))
        return error_set(error, EXIT_ENVIRONMENT, "%s: its shape cannot be read", path);
    return true;
}

bool npy_file_header(NpyHeader *header, Arena *arena, const char *path, Error *error) {
    int fd = file_open(path, error);
    if (fd < 0) return false;
    const size_t most = LEAD_BYTES + MAX_HEADER_BYTES;
    char *bytes = arena_alloc(arena, most);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n<most; n += got> 0 ? (size_t)got : 0) {
        do
            got = read(fd, bytes + n, most - n);
        while (got < 0 && errno == EINTR);
        if (got < 0) {
            error_set(error, EXIT_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
            close(fd);
            return false;
        }
    }
    close(fd);
    return npy_header(header, arena, path, bytes, n, error);
}
