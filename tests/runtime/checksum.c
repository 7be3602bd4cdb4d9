/* A checkpoint's checksums: whatever boxes it was written in, a changed bit anywhere in the file is found by exactly one of those who share the check. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/checksum.h"
#include "tests/flip.h"

enum { NTENSORS = 3, NRANKS = 12, MOST = 100 };
/* Uneven boxes, more ranks than elements, a scalar, a type of one byte; the second is divided as by columns, by digits in another order. */
static const TensorType types[NTENSORS] = {{F32, false, {2, {5, 7}}}, {F64, false, {0}}, {BOOL, false, {2, {4, 9}}}};

static void make_layouts(Layout *layouts) {
    for (int t = 0; t < NTENSORS; t++)
        layout_init(&layouts[t], types[t].shape.ndim);
    cr_assert(layout_append(&layouts[0], 0, (Digit){2, 1}) && layout_append(&layouts[0], 0, (Digit){2, 6}) &&
              layout_append(&layouts[0], 1, (Digit){3, 2}));
    cr_assert(layout_append(&layouts[2], 1, (Digit){12, 1}));
}

/* A file as twelve ranks write it together, in path; *opened: what is said of it where it is read. */
static void write_file(char *path, Arena *arena, TensorFile *opened) {
    static const unsigned char elements[MOST * 8] = {1, 0, 1, 1, 200};
    Layout layouts[NTENSORS];
    TensorFile file = {.path = path, .fd = -1};
    Checksums sums;
    Text header = {0};
    Error error = {0};
    close(mkstemp(path));
    for (int t = 0; t < NTENSORS; t++)
        vec_push(arena, &file.tensors,
                 (StoredTensor){.name = t == 0   ? "w"
                                        : t == 1 ? "b"
                                                 : "mask",
                                .dtype = types[t].dtype,
                                .shape = types[t].shape});
    make_layouts(layouts);
    checksums_describe(&sums, &file, arena, layouts);
    tensors_layout(&file, &header);
    cr_assert(tensors_create(&file, &header, &error) && checksums_write_header(&sums, &file, &header, &error), "%s", error.text);
    for (int t = 0; t < NTENSORS; t++)
        for (int rank = 0; rank < NRANKS; rank++) {
            Box box;
            uint64_t checksum;
            layout_box(&layouts[t], &types[t].shape, rank, &box);
            if (!layout_holds_first(&layouts[t], NRANKS, rank)) continue;
            cr_assert(tensors_write(&file, t, &box, elements + rank, &checksum, &error) &&
                          checksums_write(&sums, &file, t, &layouts[t], rank, checksum, &error),
                      "%s", error.text);
        }
    cr_assert(tensors_commit(&file, &error) && tensors_open(opened, arena, path, &error), "%s", error.text);
    tensors_close(opened);
    text_finish(&header);
}

/* How many of `parts` find something wrong with its elements; -1: it is refused before. *error: what is wrong. */
static int finders(const char *path, int parts, Error *error) {
    Arena arena;
    TensorFile file;
    Checksums sums;
    int found = 0;
    arena_init(&arena);
    bool ok = tensors_open(&file, &arena, path, error) && checksums_open(&sums, &file, &arena, error);
    for (int t = 0; ok && t < file.tensors.n; t++)
        for (int part = 0; t != sums.tensor && part < parts; part++) {
            int64_t damaged;
            cr_assert(checksums_compare(&sums, &file, t, part, parts, &damaged, error), "%s", error->text);
            if (damaged < 0) continue;
            found++;
            cr_assert_not(checksums_say(&sums, &file, damaged, error));
        }
    tensors_close(&file);
    arena_finish(&arena);
    return ok ? found : -1;
}

Test(checksum, what_was_written_is_found_intact_by_any_number_of_readers) {
    char path[] = "/tmp/test-checksum-XXXXXX";
    Arena arena;
    TensorFile file;
    Error error = {0};
    arena_init(&arena);
    write_file(path, &arena, &file);
    for (int parts = 1; parts <= 20; parts++)
        cr_expect_eq(finders(path, parts, &error), 0, "%s", error.text);
    unlink(path);
    arena_finish(&arena);
}

Test(checksum, a_changed_bit_anywhere_is_found_once) {
    char path[] = "/tmp/test-checksum-XXXXXX";
    Arena arena;
    TensorFile file;
    Error error = {0};
    arena_init(&arena);
    write_file(path, &arena, &file);
    int64_t refused = 0;
    for (int64_t at = 0; at < file.bytes; at++)
        for (int bit = 0; bit < 8; bit += 7 - at % 3) {
            const int parts = 1 + (int)(at % 5);
            cr_assert(file_flip(path, (off_t)at, (unsigned char)(1 << bit)));
            error = (Error){0};
            int found = finders(path, parts, &error);
            cr_expect(at < file.tensors.at[0].begin ? found == -1 : found == 1 || found == -1, "byte %lld: %d of %d", (long long)at, found,
                      parts);
            cr_expect(error.code == EXIT_ENVIRONMENT && strncmp(error.text, path, strlen(path)) == 0, "%s", error.text);
            if (found == -1) refused++;
            cr_assert(file_flip(path, (off_t)at, (unsigned char)(1 << bit)));
        }
    cr_expect_eq(finders(path, 1, &error), 0);
    cr_expect_gt(refused, 0);
    unlink(path);
    arena_finish(&arena);
}

Test(checksum, the_box_is_named) {
    static const struct {
        int tensor, element;
        const char *words;
    } cases[] = {{0, 0, "damaged: 'w' [0:2, 0:3] is not what was written there"},
                 {0, 20, "damaged: 'w' [2:3, 5:7] is not what was written there"},
                 {0, 34, "damaged: 'w' [4:5, 5:7] is not what was written there"},
                 {1, 0, "damaged: 'b' is not what was written there"},
                 {2, 8, "damaged: 'mask' [0:4, 8:9] is not what was written there"}};
    char path[] = "/tmp/test-checksum-XXXXXX";
    Arena arena;
    TensorFile file;
    Error error = {0};
    arena_init(&arena);
    write_file(path, &arena, &file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const StoredTensor *tensor = &file.tensors.at[cases[i].tensor];
        off_t at = (off_t)(tensor->begin + cases[i].element * dtype_bytes[tensor->dtype]);
        cr_assert(file_flip(path, at, 1));
        cr_expect_eq(finders(path, 3, &error), 1);
        cr_expect(strstr(error.text, cases[i].words), "%s", error.text);
        cr_assert(file_flip(path, at, 1));
    }
    unlink(path);
    arena_finish(&arena);
}

/* A header that is consistent with itself, and says too little or nonsense. */
Test(checksum, boxes_that_cannot_be_are_refused) {
    static const char *const said[] = {NULL,        "",         "[2@1]",     "[2@1 -] +sum(2@2)",     "[3@1 -]",
                                       "[2@1 2@1]", "[2@1 -]x", "[2@1 | -]", "[65536@65536 65536@1]", "[2@2 -]",
                                       "[2@1 -]"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char path[] = "/tmp/test-checksum-XXXXXX";
        const uint64_t zeros[8] = {0};
        Arena arena;
        Text header = {0};
        Error error = {0};
        arena_init(&arena);
        close(mkstemp(path));
        TensorFile file = {.path = path, .fd = -1};
        const Shape shape = {2, {2, 2}}, three = {1, {3}};
        const Box half[] = {{.ndim = 2, .end = {1, 2}}, {.ndim = 2, .begin = {1}, .end = {2, 2}}}, all = {.ndim = 1, .end = {3}};
        uint64_t words[3];
        vec_push(&arena, &file.tensors, (StoredTensor){.name = "w", .dtype = I32, .shape = shape});
        vec_push(&arena, &file.tensors, (StoredTensor){.name = "pcc:checksums", .dtype = I64, .shape = three});
        vec_push(&arena, &file.metadata, (Metadata){"pcc.checksums", "xxh64"});
        if (said[i]) vec_push(&arena, &file.metadata, (Metadata){"pcc.boxes.w", said[i]});
        tensors_layout(&file, &header);
        words[0] = XXH64(header.at, header.n, 0);
        cr_assert(tensors_create(&file, &header, &error) && tensors_write(&file, 0, &half[0], zeros, &words[1], &error) &&
                  tensors_write(&file, 0, &half[1], zeros, &words[2], &error) && tensors_write(&file, 1, &all, words, NULL, &error) &&
                  tensors_commit(&file, &error));
        bool good = i == sizeof said / sizeof *said - 1;
        cr_expect_eq(finders(path, 1, &error), good ? 0 : -1, "%s: %s", said[i], error.text);
        if (!good) cr_expect(strstr(error.text, "damaged: it does not say in what boxes a tensor was written"), "%s", error.text);
        text_finish(&header);
        unlink(path);
        arena_finish(&arena);
    }
}
