#include "compile.h"

static const char before[] = "net q { # ", behind[] = "\n param w : f32[4] = ones; loss sum(w); }\ntrain { optimizer = sgd(lr = 1); }\n";

static void compile_around(Compiled *c, const char *begin, const char *middle) {
    char text[256];
    snprintf(text, sizeof text, "%s%s%s%s", begin, before, middle, behind);
    compile(c, text, 1);
}

Test(characters, that_change_the_direction_of_text_are_errors_in_comments_too) {
    static const char *const named[] = {"\xd8\x9c U+061C",     "\xe2\x80\x8e U+200E", "\xe2\x80\x8f U+200F", "\xe2\x80\xaa U+202A",
                                        "\xe2\x80\xab U+202B", "\xe2\x80\xac U+202C", "\xe2\x80\xad U+202D", "\xe2\x80\xae U+202E",
                                        "\xe2\x81\xa6 U+2066", "\xe2\x81\xa7 U+2067", "\xe2\x81\xa8 U+2068", "\xe2\x81\xa9 U+2069"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        Compiled c;
        compile_around(&c, "", named[i]);
        cr_assert_eq(c.diags.nerrors, 1, "%s", named[i]);
        cr_expect_eq(c.diags.items.at[0].span.column, 11);
        cr_expect(strstr(c.diags.items.at[0].text, strchr(named[i], ' ') + 1), "%s", c.diags.items.at[0].text);
        compiled_finish(&c);
    }
}

Test(characters, in_texts_are_seen_with_all_their_places) {
    Compiled c;
    compile(&c, "import \"a\xe2\x80\xae.dsl\";\nnet q { param w : f32[4] = file(\"\xe2\x81\xa6w.npy\"); loss sum(w); }\n", 1);
    expect_error(&c, 1, 10, "the character U+202E changes the direction");
    cr_expect_eq(c.diags.nerrors, 2);
    compiled_finish(&c);
}

Test(characters, a_byte_order_mark_stands_at_the_beginning_alone) {
    Compiled c;
    compile_around(&c, "\xef\xbb\xbf", "");
    expect_accepted(&c);
    compiled_finish(&c);
    compile_around(&c, "", "\xef\xbb\xbf");
    expect_error(&c, 1, 11, "a byte order mark (U+FEFF), which is not seen, behind the beginning of the file");
    cr_expect_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(characters, of_any_language_may_stand_in_comments) {
    Compiled c;
    compile_around(&c, "", "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xe2\x80\x94 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x99\x82 \xe2");
    expect_accepted(&c);
    compiled_finish(&c);
}
