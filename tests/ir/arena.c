#include "ir/base.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(arena, memory_is_zeroed_aligned_and_separate) {
    Arena arena;
    arena_init(&arena);
    unsigned char *blocks[200];
    for (int i = 0; i < 200; i++) {
        size_t bytes = (size_t)i * 37;
        blocks[i] = arena_alloc(&arena, bytes);
        cr_assert_eq((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < bytes; k++)
            cr_assert_eq(blocks[i][k], 0);
        memset(blocks[i], i + 1, bytes);
    }
    for (int i = 0; i < 200; i++)
        for (size_t k = 0; k < (size_t)i * 37; k++)
            cr_assert_eq(blocks[i][k], (unsigned char)(i + 1));
    cr_assert_geq(arena.used_bytes, (size_t)37 * 199 * 100);
    arena_finish(&arena);
    cr_assert_eq(arena.used_bytes, 0);
}

Test(arena, one_allocation_may_exceed_every_block) {
    Arena arena;
    arena_init(&arena);
    char *large = arena_alloc(&arena, 20 << 20);
    large[(20 << 20) - 1] = 1;
    arena_finish(&arena);
}

Test(arena, text_is_copied_and_formatted) {
    Arena arena;
    arena_init(&arena);
    cr_assert_str_eq(arena_copy(&arena, "abcdef", 3), "abc");
    cr_assert_str_eq(arena_copy(&arena, NULL, 0), "");
    cr_assert_str_eq(arena_printf(&arena, "%s-%d", "x", 7), "x-7");
    cr_assert_eq(strlen(arena_printf(&arena, "%300d", 1)), 300);
    arena_finish(&arena);
}

Test(vec, pushing_keeps_what_is_there) {
    Arena arena;
    arena_init(&arena);
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++)
        vec_push(&arena, &v, i * i);
    cr_assert_eq(v.n, 1000);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(v.at[i], i * i);
    arena_finish(&arena);
}

Test(text, grows_and_ends_with_nul) {
    Text text = {0};
    for (int i = 0; i < 1000; i++)
        text_printf(&text, "%d,", i % 10);
    cr_assert_eq(text.n, 2000);
    cr_assert_eq(strlen(text.at), 2000);
    char wide[5000];
    memset(wide, 'w', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    text_printf(&text, "%s", wide);
    cr_assert_eq(strlen(text.at), 6999);
    text_append(&text, "a\0b", 3);
    cr_assert_eq(text.n, 7002);
    cr_assert_eq(text.at[7001], 'b');
    cr_assert_eq(text.at[7002], '\0');
    text_finish(&text);
    cr_assert_null(text.at);
}

Test(error, keeps_code_and_text_and_cuts_what_is_long) {
    Error error;
    cr_assert_not(error_set(&error, EXIT_REJECTED, "bad %d", 3));
    cr_assert_eq(error.code, EXIT_REJECTED);
    cr_assert_str_eq(error.text, "bad 3");
    error_set(&error, EXIT_INTERNAL, "%2000d", 1);
    cr_assert_eq(strlen(error.text), sizeof error.text - 1);
}

Test(error, says_who_failed_and_whether_that_is_reported) {
    Error error;
    error_set(&error, EXIT_ENVIRONMENT, "no room");
    cr_assert_eq(error.rank, -1);
    cr_assert_not(error.reported);
    cr_assert_not(error_prefix(&error, "step %d: ", 12));
    cr_assert_str_eq(error.text, "step 12: no room");
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    error_prefix(&error, "%2000d", 1);
    cr_assert_eq(strlen(error.text), sizeof error.text - 1);
    cr_assert_not(error_of_rank(&error, 3, EXIT_MISMATCH, "rank %d differs", 3));
    error_prefix(&error, "in w: ");
    cr_assert_eq(error.rank, 3);
    cr_assert_eq(error.code, EXIT_MISMATCH);
    cr_assert_str_eq(error.text, "in w: rank 3 differs");
    cr_assert_not(error_reported(&error, EXIT_REJECTED));
    cr_assert(error.reported);
    cr_assert_eq(error.code, EXIT_REJECTED);
    error_prefix(&error, "more");
    cr_assert_str_eq(error.text, "");
    error_set(&error, EXIT_USAGE, "anew");
    cr_assert_not(error.reported);
}
