#include "ir/base.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *printed(Arena *arena, const Diags *diags) {
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    diags_print(diags, file);
    long n = ftell(file);
    rewind(file);
    char *text = arena_alloc(arena, (size_t)n + 1);
    cr_assert_eq(fread(text, 1, (size_t)n, file), (size_t)n);
    fclose(file);
    return text;
}

static int begin(Arena *arena, Diags *diags, const char *text) {
    arena_init(arena);
    diags_init(diags, arena);
    return diags_add_file(diags, "net.dsl", text, strlen(text));
}

Test(diag, shows_line_underline_note_and_hint) {
    Arena arena;
    Diags diags;
    int file = begin(&arena, &diags, "net f() {\n    param w : f32[31, 16];\r\n    h = matmul(x, w);\n}\n");
    diag_error(&diags, (Span){file, 3, 9, 12}, "matmul: contracted sizes differ: x has %d, w has %d", 32, 31);
    diag_note(&diags, (Span){file, 2, 11, 1}, "w is declared f32[31, 16] here");
    diag_hint(&diags, "transpose_b = 1");
    diag_warning(&diags, WARN_REPLICATED, (Span){0}, "nothing is sharded");
    cr_assert_eq(diags.nerrors, 1);
    cr_assert_eq(diags.nwarnings, 1);
    cr_assert_str_eq(printed(&arena, &diags), "net.dsl:3:9: error: matmul: contracted sizes differ: x has 32, w has 31\n"
                                              "    3 |     h = matmul(x, w);\n"
                                              "      |         ^~~~~~~~~~~~\n"
                                              "net.dsl:2:11: note: w is declared f32[31, 16] here\n"
                                              "    hint: transpose_b = 1\n"
                                              "warning: nothing is sharded [-Wreplicated]\n");
    arena_finish(&arena);
}

Test(diag, underline_follows_tabs_and_characters) {
    Arena arena;
    Diags diags;
    int file = begin(&arena, &diags, "\t\xc3\xa4 = \xc3\xb6\xc3\xb6;\x1b\n");
    diag_error(&diags, (Span){file, 1, 7, 4}, "no");
    cr_assert_str_eq(printed(&arena, &diags), "net.dsl:1:7: error: no\n"
                                              "    1 | \t\xc3\xa4 = \xc3\xb6\xc3\xb6;?\n"
                                              "      | \t    ^~\n");
    arena_finish(&arena);
}

Test(diag, a_long_line_is_cut_around_the_span) {
    Arena arena;
    Diags diags;
    char *line = malloc(200001);
    memset(line, '(', 200000);
    line[200000] = '\0';
    line[100000] = 'x';
    int file = begin(&arena, &diags, line);
    diag_error(&diags, (Span){file, 1, 100001, 100000}, "too deep");
    char *text = printed(&arena, &diags);
    cr_assert_lt(strlen(text), 500);
    cr_assert_not_null(strchr(text, 'x'));
    char *excerpt = strchr(text, '\n') + 1, *under = strchr(excerpt, '\n') + 1;
    cr_assert_eq(strchr(excerpt, 'x') - excerpt, strchr(under, '^') - under, "the caret is not below x:\n%s", text);
    free(line);
    arena_finish(&arena);
}

Test(diag, places_outside_the_file_are_harmless) {
    Arena arena;
    Diags diags;
    int file = begin(&arena, &diags, "a\nb");
    int length;
    cr_assert_eq(strncmp(diags_line(&diags, (Span){file, 2, 1, 1}, &length), "b", 1), 0);
    cr_assert_eq(length, 1);
    cr_assert_str_eq(diags_line(&diags, (Span){file, 3, 1, 1}, &length), "");
    cr_assert_str_eq(diags_line(&diags, (Span){file, 0, 0, 0}, &length), "");
    cr_assert_str_eq(diags_line(&diags, (Span){7, 1, 1, 1}, &length), "");
    diag_error(&diags, (Span){file, 2, 50, 50}, "beyond");
    diag_error(&diags, (Span){file, 9, 1, 0}, "below");
    diag_error(&diags, (Span){file, 2, 2, 1}, "at the end");
    cr_assert_not_null(strstr(printed(&arena, &diags), "at the end\n    2 | b\n      |  ^\n"));
    arena_finish(&arena);
}

Test(diag, beyond_twenty_errors_are_counted_not_kept) {
    Arena arena;
    Diags diags;
    int file = begin(&arena, &diags, "a\n");
    for (int i = 0; i < 50; i++) {
        diag_error(&diags, (Span){file, 1, 1, 1}, "error %d", i);
        diag_note(&diags, (Span){file, 1, 1, 1}, "note %d", i);
    }
    diag_warning(&diags, WARN_UNEVEN, (Span){0}, "still shown");
    diag_hint(&diags, "with its hint");
    cr_assert_eq(diags.nerrors, 50);
    cr_assert_eq(diags.items.n, 2 * DIAG_MAX_ERRORS + 2);
    char *text = printed(&arena, &diags);
    cr_assert_not_null(strstr(text, "note 19"));
    cr_assert_null(strstr(text, "note 20"));
    cr_assert_not_null(strstr(text, "with its hint"));
    cr_assert_not_null(strstr(text, "30 more errors not shown"));
    arena_finish(&arena);
}

Test(diag, what_is_said_twice_is_kept_once) {
    Arena arena;
    Diags diags;
    int file = begin(&arena, &diags, "a\n");
    for (int i = 0; i < 100; i++) {
        diag_error(&diags, (Span){file, 1, 1, 1}, "the same");
        diag_note(&diags, (Span){file, 1, 1, 1}, "its note");
        diag_warning(&diags, WARN_UNEVEN, (Span){file, 1, 1, 1}, "the same");
    }
    diag_error(&diags, (Span){file, 1, 2, 1}, "the same");
    cr_assert_eq(diags.nerrors, 2, "at another place it is another");
    cr_assert_eq(diags.nwarnings, 1);
    cr_assert_eq(diags.items.n, 4);
    arena_finish(&arena);
}

Test(diag, calls_are_shown_from_the_innermost_long_chains_in_part) {
    Arena arena;
    Diags diags;
    int file = begin(&arena, &diags, "a\nb\nc\n");
    CellCall call[20];
    for (int i = 0; i < 20; i++)
        call[i] = (CellCall){.cell = "f", .path = i ? "h.g" : "h", .span = {file, i + 1, 1, 1}, .outer = i ? &call[i - 1] : NULL};
    diag_error(&diags, (Span){file, 1, 1, 1}, "wrong");
    diag_calls(&diags, &call[1]);
    cr_assert_eq(diags.items.n, 3);
    cr_assert_str_eq(diags.items.at[1].text, "in cell f, called here as h.g");
    cr_assert_eq(diags.items.at[2].span.line, 1);
    diag_error(&diags, (Span){file, 2, 1, 1}, "wrong");
    diag_calls(&diags, &call[19]);
    cr_assert_eq(diags.items.n, 3 + 1 + 7);
    cr_assert_str_eq(diags.items.at[9].text, "and 14 more calls, the first of which is:");
    cr_assert_eq(diags.items.at[10].span.line, 1);
    arena_finish(&arena);
}

Test(name, nearest_is_within_a_third_of_the_length) {
    const char *const names[] = {"matmul", "relu", "transpose", "mse", "momentum"};
    cr_assert_str_eq(name_nearest("matmull", names, 5), "matmul");
    cr_assert_str_eq(name_nearest("matmlu", names, 5), "matmul");
    cr_assert_str_eq(name_nearest("rleu", names, 5), "relu", "a swap is one edit: of 4 letters no more may differ");
    cr_assert_str_eq(name_nearest("rel", names, 5), "relu");
    cr_assert_str_eq(name_nearest("transopse", names, 5), "transpose");
    cr_assert_str_eq(name_nearest("ms", names, 5), "mse");
    cr_assert_null(name_nearest("conv", names, 5));
    cr_assert_null(name_nearest("x", names, 5));
    cr_assert_null(name_nearest("", names, 5));
    cr_assert_null(name_nearest("relu", names, 0));
    char longest[1000];
    memset(longest, 'r', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cr_assert_null(name_nearest(longest, names, 5));
}
