#include "ir/npy.h"
#include "ir/file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file's bytes: version 1 or 2, the header's words, a few elements. */
static size_t make(char *bytes, int version, const char *words) {
    size_t n = strlen(words), lead = version > 1 ? 12 : 10;
    memcpy(bytes, "\x93NUMPY", 6);
    memset(bytes + 6, 0, 6);
    bytes[6] = (char)version;
    bytes[8] = (char)(n & 255);
    bytes[9] = (char)(n >> 8);
    memcpy(bytes + lead, words, n);
    memset(bytes + lead + n, 1, 8);
    return lead + n + 8;
}

static bool reads(Arena *arena, int version, const char *words, NpyHeader *header, Error *error) {
    char bytes[512];
    size_t n = make(bytes, version, words);
    return npy_header(header, arena, "a.npy", bytes, n, error);
}

Test(npy, says_the_type_that_holds_its_elements) {
    static const struct {
        char code[8];
        DType dtype;
    } types[] = {{"<f4", F32}, {">f8", F64}, {"<i4", I32}, {">i8", I64}, {"|b1", BOOL}, {"|u1", I32}, {"|i1", I32}, {"<i2", I32}};
    Arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int version = 1; version <= 3; version++) {
            NpyHeader header;
            Error error = {0};
            const char *words = arena_printf(&arena, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }", types[i].code);
            cr_assert(reads(&arena, version, words, &header, &error), "%s: %s", types[i].code, error.text);
            cr_expect_eq(header.dtype, types[i].dtype, "%s", types[i].code);
            cr_expect(header.shape.ndim == 2 && header.shape.dim[0] == 2 && header.shape.dim[1] == 3);
            cr_expect_eq(header.begin, (version > 1 ? 12 : 10) + strlen(words));
            cr_expect_eq(strncmp(header.descr, types[i].code, 3), 0);
        }
    arena_finish(&arena);
}

Test(npy, refuses_the_rest_with_a_reason) {
    static const char *const wrong[][2] = {
        {"{'descr': '<f1', 'fortran_order': False, 'shape': (2,), }", "element type '<f1'"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "element type '<c8'"},
        {"{'fortran_order': False, 'shape': (2,), }", "element type missing"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "in Fortran order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, }", "its shape cannot be read"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", "its shape cannot be read"},
        {"{'descr': '<f4', 'fortran_order': False, }", "its shape cannot be read"}};
    Arena arena;
    arena_init(&arena);
    NpyHeader header;
    Error error = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_not(reads(&arena, 1, wrong[i][0], &header, &error), "%s", wrong[i][0]);
        cr_expect(strstr(error.text, wrong[i][1]), "%s", error.text);
    }
    cr_assert_not(reads(&arena, 4, "", &header, &error));
    cr_expect(strstr(error.text, ".npy version 4"), "%s", error.text);
    cr_assert_not(npy_header(&header, &arena, "a.npy", "\x93NUMPY\x01\x00\xff\x00 {}", 13, &error));
    cr_expect(strstr(error.text, "cut off"), "%s", error.text);
    cr_assert_not(npy_header(&header, &arena, "a.npy", "no npy file here", 16, &error));
    arena_finish(&arena);
}

Test(npy, is_read_from_a_file_without_its_elements) {
    char path[] = "/tmp/pcc-npy-XXXXXX", bytes[512];
    close(mkstemp(path));
    Arena arena;
    NpyHeader header;
    Error error = {0};
    arena_init(&arena);
    size_t n = make(bytes, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000), }");
    cr_assert(file_write(path, bytes, n, &error), "%s", error.text);
    cr_assert(npy_file_header(&header, &arena, path, &error), "%s", error.text);
    cr_expect_eq(header.shape.dim[0], 1000000);
    unlink(path);
    cr_assert_not(npy_file_header(&header, &arena, path, &error));
    cr_expect(strstr(error.text, "cannot open"), "%s", error.text);
    arena_finish(&arena);
}
