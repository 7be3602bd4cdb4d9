/* headers: reads the header of a binary file. IDX: LeCun's format of MNIST (yann.lecun.com/exdb/mnist); .npy: numpy/lib/format.py. */
#include <stdlib.h>
#include <string.h>

#include "ir/npy.h"
#include "runtime/data/data.h"
#include "runtime/data/rows.h"

static bool fails(const char *path, Error *error, const char *text) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s", path, text);
}

bool header_of_npy(Stream *stream, const char *path, Stored *stored, Shape *shape, int64_t *begin, Error *error) {
    enum { MAX_HEADER_BYTES = 1 << 16 };
    unsigned char magic[12];
    if (!stream_read(stream, magic, 10, error)) return false;
    if (memcmp(magic, "\x93NUMPY", 6) != 0 || magic[6] < 1 || magic[6] > 3) return fails(path, error, "not a .npy file of version 1 to 3");
    if (magic[6] > 1 && !stream_read(stream, magic + 10, 2, error)) return false;
    int64_t length = magic[8] | magic[9] << 8;
    if (magic[6] > 1) length |= (int64_t)magic[10] << 16 | (int64_t)magic[11] << 24;
    if (length > MAX_HEADER_BYTES) return fails(path, error, "its header is too long");
    char *header = calloc(1, (size_t)length + 1);
    if (!header) return fails(path, error, "out of memory");
    bool ok = stream_read(stream, header, length, error);
    if (ok) {
        const char *descr = npy_value(header, "'descr'"), *order = npy_value(header, "'fortran_order'");
        if (!descr || *descr != '\'' || !stored_npy(descr + 1, stored))
            ok = fails(path, error, "elements of a type that prun does not read: it reads u1, i1, i2, i4, i8, f4, f8 and b1");
        else if (!order || strncmp(order, "False", 5) != 0)
            ok = fails(path, error, "in Fortran order; save numpy.ascontiguousarray(x) instead");
        else if (!npy_shape(header, shape))
            ok = fails(path, error, "its shape cannot be read");
    }
    free(header);
    *begin = (magic[6] > 1 ? 12 : 10) + length;
    return ok;
}

bool header_of_idx(Stream *stream, const char *path, Stored *stored, Shape *shape, int64_t *begin, Error *error) {
    unsigned char magic[4], size[4];
    if (!stream_read(stream, magic, 4, error)) return false;
    if (magic[0] != 0 || magic[1] != 0 || !stored_idx(magic[2], stored))
        return fails(path, error, "not an IDX file: its first bytes are others");
    if (magic[3] < 1 || magic[3] > MAX_NDIM) return fails(path, error, "an IDX file of so many dimensions is not read");
    shape->ndim = magic[3];
    for (int d = 0; d < shape->ndim; d++) {
        if (!stream_read(stream, size, 4, error)) return false;
        shape->dim[d] = (int64_t)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
    }
    *begin = 4 + 4 * shape->ndim;
    return true;
}
