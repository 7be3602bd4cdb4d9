#include "compile.h"

#include "frontend/lower.h"

Test(names, the_table_finds_what_was_inserted_and_nothing_else) {
    Arena arena;
    Names names = {0};
    arena_init(&arena);
    cr_assert_null(names_find(&names, "n0"));
    for (int i = 0; i < 5000; i++)
        names_insert(&names, &arena, arena_printf(&arena, "n%d", i))->value = i;
    for (int i = 0; i < 5000; i++) {
        const Symbol *symbol = names_find(&names, arena_printf(&arena, "n%d", i));
        cr_assert_not_null(symbol);
        cr_assert_eq(symbol->value, i);
    }
    cr_assert_null(names_find(&names, "n5000"));
    arena_finish(&arena);
}

Test(names, a_second_definition_is_an_error_with_a_note_at_the_first) {
    Compiled c;
    compile(&c, NET("    h = relu(x);\n    param h : f32[2] = zeros;"), 8);
    expect_error(&c, 6, 11, "h is defined twice");
    cr_assert_eq(c.diags.items.at[1].kind, DIAG_NOTE);
    cr_assert_eq(c.diags.items.at[1].span.line, 5);
    compiled_finish(&c);
}

Test(names, numbers_and_tensors_share_their_names) {
    Compiled c;
    compile(&c, NET("    batch = relu(x);"), 8);
    expect_error(&c, 5, 5, "batch is defined twice");
    compiled_finish(&c);
}

Test(names, a_failed_definition_is_not_reported_again) {
    Compiled c;
    compile(&c, NET("    h = relu(nothing);\n    a = relu(h);\n    b = a + h;"), 8);
    expect_error(&c, 5, 14, "unknown name 'nothing'");
    cr_assert_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(names, a_definition_does_not_use_its_own_name) {
    Compiled c;
    compile(&c, NET("    h = relu(h);\n    a = relu(h);"), 8);
    expect_error(&c, 5, 14, "h is used in its own definition");
    cr_assert_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
    compile(&c, "net q(a = a + 1, b = c, c = 2) { param w : f32[c] = ones; loss sum(w); } train { optimizer = sgd(lr = 1); }", 8);
    expect_error(&c, 1, 11, "a is used in its own definition");
    cr_assert_eq(c.diags.nerrors, 2);
    const Diag *second = &c.diags.items.at[3];
    cr_assert_str_eq(second->text, "c is used before its definition");
    cr_assert_eq(second->span.column, 22);
    compiled_finish(&c);
}

Test(names, the_nearest_name_is_a_hint) {
    Compiled c;
    compile(&c, NET("    hidden = relu(x);\n    a = relu(hiden);"), 8);
    expect_error(&c, 6, 14, "unknown name 'hiden'");
    cr_assert_str_eq(c.diags.items.at[1].text, "did you mean hidden?");
    compiled_finish(&c);
}

Test(names, a_name_is_known_from_its_definition_on) {
    Compiled c;
    compile(&c, NET("    a = relu(h);\n    h = relu(x);"), 8);
    expect_error(&c, 5, 14, "h is used before its definition");
    compiled_finish(&c);
}
