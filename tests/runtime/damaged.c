/* Files that somebody damaged: whatever their bytes are, opening and reading them ends with the rows or with one clear error. Seeded; under the sanitizers in CI.
 * PCC_DAMAGED=100000 tries more of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data/data.h"
#include "runtime/data/rows.h"
#include "runtime/tensors.h"
#include "tests/random.h"

typedef struct Bytes {
    unsigned char at[1024];
    size_t n;
} Bytes;

/* Overwrites, cuts, doubles, or writes numbers that are near a limit. */
static void damage(Bytes *bytes, uint64_t *state) {
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, ',', '\n', '"', '{', '}', '9', '-', '('};
    int times = 1 + (int)(random_next(state) % 4);
    while (times-- > 0 && bytes->n > 0) {
        size_t at = random_next(state) % bytes->n, n = 1 + random_next(state) % 8;
        switch (random_next(state) % 5) {
        case 0:
            bytes->at[at] ^= (unsigned char)(1u << random_next(state) % 8);
            break;
        case 1:
            bytes->at[at] = edges[random_next(state) % sizeof edges];
            break;
        case 2:
            for (size_t i = 0; i < n && at + i < bytes->n; i++)
                bytes->at[at + i] = 0xff;
            break;
        case 3:
            bytes->n = at;
            break;
        case 4:
            if (bytes->n + n > sizeof bytes->at || at + n > bytes->n) break;
            memmove(bytes->at + at + n, bytes->at + at, bytes->n - at);
            bytes->n += n;
            break;
        }
    }
}

static void write_bytes(const char *path, const Bytes *bytes, bool compressed) {
    if (compressed) {
        gzFile file = gzopen(path, "wb1");
        gzwrite(file, bytes->at, (unsigned)bytes->n);
        gzclose(file);
        return;
    }
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    fwrite(bytes->at, 1, bytes->n, file);
    fclose(file);
}

static void check_error(const Error *error) {
    cr_assert(error->code == EXIT_ENVIRONMENT, "code %d: %s", error->code, error->text);
    cr_assert(error->text[0] != '\0' && !strchr(error->text, '\n'), "one line: %s", error->text);
}

/* Opens, holds and reads; true when all of it worked. */
static bool read_rows(const RowFile *file) {
    Error error = {0};
    Rows *rows = rows_open(file, &error);
    if (!rows) return check_error(&error), false;
    const int64_t held[] = {0, rows_count(rows) - 1};
    float row[8];
    bool ok = rows_hold(rows, held, held[1] > 0 ? 2 : 1, &error) && rows_read(rows, held[1], 0, 0, 4, row, &error);
    if (!ok) check_error(&error);
    rows_close(rows);
    return ok;
}

static int trials(void) {
    const char *more = getenv("PCC_DAMAGED");
    return more ? atoi(more) : 600;
}

static void try_rows(const Bytes *good, FileFormat format, bool compressed, uint64_t seed) {
    char path[] = "/tmp/test-damaged-XXXXXX";
    int fd = mkstemp(path), read = 0;
    cr_assert(fd >= 0);
    close(fd);
    RowFile file = {
        .format = format, .path = path, .input = "x", .row = {.ndim = 1, .dim = {4}}, .stored = {STORED_F32, false}, .dtype = F32};
    write_bytes(path, good, compressed);
    cr_assert(read_rows(&file), "the undamaged file is read");
    for (int i = 0; i < trials(); i++) {
        Bytes bytes = *good;
        damage(&bytes, &seed);
        write_bytes(path, &bytes, compressed);
        read += read_rows(&file);
    }
    unlink(path);
    cr_assert_gt(read, 0, "some damage goes unseen: bytes of elements");
    cr_assert_lt(read, trials());
}

Test(damaged, npy_files) {
    Bytes good = {.n = 128 + 3 * 16};
    int header = snprintf((char *)good.at + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }");
    memset(good.at + 10 + header, ' ', (size_t)(118 - header));
    memcpy(good.at, "\x93NUMPY\x01\x00\x76\x00", 10);
    try_rows(&good, FILE_NPY, false, 1);
    try_rows(&good, FILE_NPY, true, 2);
}

Test(damaged, idx_files) {
    Bytes good = {.at = {0, 0, 8, 2, 0, 0, 0, 5, 0, 0, 0, 4}, .n = 12 + 20};
    try_rows(&good, FILE_IDX, false, 3);
    try_rows(&good, FILE_IDX, true, 4);
}

Test(damaged, csv_files) {
    Bytes good;
    good.n = (size_t)snprintf((char *)good.at, sizeof good.at, "a,b,c,d\n1,2,3,4\n-5e3,0.25,7,8\n9,10,11,12\n");
    try_rows(&good, FILE_CSV, false, 5);
    try_rows(&good, FILE_CSV, true, 6);
}

Test(damaged, compressed_bytes_themselves) {
    Bytes good = {.at = {0, 0, 8, 2, 0, 0, 0, 5, 0, 0, 0, 4}, .n = 12 + 20};
    char path[] = "/tmp/test-damaged-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    write_bytes(path, &good, true);
    FILE *in = fopen(path, "rb");
    Bytes packed;
    packed.n = fread(packed.at, 1, sizeof packed.at, in);
    fclose(in);
    RowFile file = {.format = FILE_IDX, .path = path, .input = "x", .row = {.ndim = 1, .dim = {4}}, .dtype = F32};
    uint64_t seed = 7;
    for (int i = 0; i < trials(); i++) {
        Bytes bytes = packed;
        damage(&bytes, &seed);
        write_bytes(path, &bytes, false);
        read_rows(&file);
    }
    unlink(path);
}

Test(damaged, safetensors_files) {
    char path[] = "/tmp/test-damaged-XXXXXX";
    int fd = mkstemp(path), opened = 0;
    cr_assert(fd >= 0);
    close(fd);
    Bytes good = {.n = 0};
    int header = snprintf((char *)good.at + 8, 600,
                          "{\"__metadata__\":{\"pcc.epoch\":\"3\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                          "\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[24,32]}}");
    good.at[0] = (unsigned char)header;
    good.n = 8 + (size_t)header + 32;
    uint64_t seed = 8;
    for (int i = 0; i < trials(); i++) {
        Bytes bytes = good;
        if (i > 0) damage(&bytes, &seed);
        write_bytes(path, &bytes, false);
        Arena arena;
        TensorFile file;
        Error error = {0};
        arena_init(&arena);
        bool ok = tensors_open(&file, &arena, path, &error);
        cr_assert(ok || i > 0, "%s", error.text);
        if (!ok) check_error(&error);
        for (int t = 0; ok && t < file.tensors.n; t++) {
            const Shape *shape = &file.tensors.at[t].shape;
            if (shape_elements(shape) > 16) continue;
            Box box = {.ndim = shape->ndim};
            memcpy(box.end, shape->dim, sizeof box.end);
            double elements[16];
            if (!tensors_read(&file, t, &box, F64, elements, &error)) check_error(&error);
        }
        opened += ok;
        tensors_close(&file);
        arena_finish(&arena);
    }
    unlink(path);
    cr_assert_gt(opened, 1);
    cr_assert_lt(opened, trials());
}
