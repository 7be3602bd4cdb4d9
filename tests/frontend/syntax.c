#include "compile.h"

#include "frontend/ast.h"

#include <stdlib.h>

/* text, then `n` times `unit`, then `end`. */
static char *repeat(const char *text, const char *unit, int n, const char *end) {
    Text out = {0};
    text_append(&out, text, strlen(text));
    for (int i = 0; i < n; i++)
        text_append(&out, unit, strlen(unit));
    text_append(&out, end, strlen(end));
    return out.at;
}

/* nerrors, the last of which says `message`. */
static void expect_errors(const char *text, size_t n, int nerrors, const char *message) {
    Compiled c;
    Overrides flags = {.nranks = 8};
    compile_with(&c, text, n, &flags);
    cr_assert_eq(c.diags.nerrors, nerrors, "%d errors, first: %s", c.diags.nerrors, c.diags.items.n ? c.diags.items.at[0].text : "");
    int last = c.diags.items.n - 1;
    while (c.diags.items.at[last].kind != DIAG_ERROR)
        last--;
    cr_assert(strstr(c.diags.items.at[last].text, message), "%s", c.diags.items.at[last].text);
    compiled_finish(&c);
}

static void expect_one_error(const char *text, size_t n, const char *message) {
    expect_errors(text, n, 1, message);
}

Test(syntax, two_hundred_thousand_open_brackets_are_one_diagnostic) {
    const char *const units[] = {"(", "[", "{", "-(", "f(", "[[1],"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        char *text = repeat("net q { h = ", units[i], 200000, "");
        if (units[i][0] == '{')
            expect_errors(text + 12, strlen(text + 12), 2, "nest more than 256 deep"); /* the first: that it is no block */
        else
            expect_one_error(text, strlen(text), "nest more than 256 deep");
        free(text);
    }
}

Test(syntax, deep_expressions_without_brackets_are_one_diagnostic) {
    char *minus = repeat("net q { h = ", "-", 200000, "1; loss h; }"), *plus = repeat("net q { h = 1", "+1", 200000, "; loss h; }");
    expect_one_error(minus, strlen(minus), "nests too deeply");
    expect_one_error(plus, strlen(plus), "nests too deeply");
    free(minus);
    free(plus);
}

Test(syntax, a_thousand_levels_are_lowered) {
    char *text = repeat(HEAD "    h = ", "-", 990, "x;" TAIL TRAIN);
    Compiled c;
    compile(&c, text, 8);
    expect_accepted(&c);
    compiled_finish(&c);
    free(text);
}

Test(syntax, only_the_first_twenty_errors_are_kept_and_looked_for) {
    char *text = repeat("net q {", " h = ;", 100000, "}");
    Compiled c;
    compile(&c, text, 8);
    cr_assert_eq(c.diags.nerrors, DIAG_MAX_ERRORS);
    compiled_finish(&c);
    free(text);
}

Test(syntax, a_nul_byte_is_no_text) {
    static const char text[] = "net q {\0}";
    expect_one_error(text, sizeof text - 1, "NUL byte");
}

Test(syntax, a_file_over_sixteen_mebibytes_is_refused) {
    size_t n = MAX_SOURCE_BYTES + 1;
    char *text = malloc(n);
    memset(text, '\n', n);
    expect_one_error(text, n, "at most 16777216");
    free(text);
}

Test(syntax, an_unclosed_bracket_is_noted_where_it_was_opened) {
    Compiled c;
    compile(&c, NET("    h = matmul(x, relu(w);"), 8);
    expect_error(&c, 5, 26, "expected ')' before ';'");
    cr_assert_eq(c.diags.items.at[1].kind, DIAG_NOTE);
    cr_assert_eq(c.diags.items.at[1].span.column, 15);
    compiled_finish(&c);
}

Test(syntax, a_brace_ends_what_is_open_inside) {
    Compiled c;
    compile(&c, "net q {\n a = f((1\n}\ntrain {\n steps 4;\n}\n", 8);
    expect_error(&c, 3, 1, "expected ')' before '}'");
    cr_assert_eq(c.diags.items.at[1].kind, DIAG_NOTE);
    cr_assert_eq(c.diags.items.at[1].span.line, 2);
    cr_assert_eq(c.diags.nerrors, 2, "the block behind it is read as one");
    compiled_finish(&c);
}

Test(syntax, recovery_at_semicolons_and_braces_shows_several_errors) {
    Compiled c;
    compile(&c, "net q {\n a = ;\n b = (1;\n c 3;\n}\ntrain {\n steps 4;\n x = ];\n}\n", 8);
    expect_error(&c, 2, 6, "expected an expression, found ';'");
    cr_assert_eq(c.diags.nerrors, 6);
    compiled_finish(&c);
}

Test(syntax, lookalike_characters_are_named_and_understood) {
    Compiled c;
    compile(&c, NET("    h = matmul（x，w）；"), 8);
    expect_error(&c, 5, 15, "is not '('");
    cr_assert_eq(c.diags.nerrors, 4);
    compiled_finish(&c);
}

Test(syntax, a_byte_order_mark_and_wide_spaces_are_white_space) {
    Compiled c;
    compile(&c, "\xef\xbb\xbf" NET("    h =\xc2\xa0relu(x);\r\n"), 8);
    expect_accepted(&c);
    compiled_finish(&c);
}

Test(syntax, empty_statements_are_allowed) {
    Compiled c;
    compile(&c, HEAD ";;" TAIL ";" TRAIN ";", 8);
    expect_accepted(&c);
    compiled_finish(&c);
}

Test(syntax, numbers_beyond_their_type_are_out_of_range) {
    static const struct {
        const char *text;
        bool fits;
    } cases[] = {{"9223372036854775807", true},
                 {"9223372036854775808", false},
                 {"1e308", true},
                 {"1e309", false},
                 {"1e-320", true},
                 {"1e-400", false},
                 {"0.0e-400", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        char text[512];
        snprintf(text, sizeof text, NET("    h = %s;"), cases[i].text);
        compile(&c, text, 8);
        cr_assert_eq(c.accepted, cases[i].fits, "%s", cases[i].text);
        if (!cases[i].fits) expect_error(&c, 5, 9, "out of range");
        compiled_finish(&c);
    }
}
