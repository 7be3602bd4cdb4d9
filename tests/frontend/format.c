#include "frontend/frontend.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_format(const char *text, const char *want) {
    Arena arena;
    Diags diags;
    Text once = {0}, twice = {0};
    arena_init(&arena);
    diags_init(&diags, &arena);
    cr_assert(frontend_format("a.dsl", text, strlen(text), &once, &arena, &diags), "%s", diags.items.n ? diags.items.at[0].text : "");
    cr_expect_str_eq(once.at ? once.at : "", want);
    cr_assert(frontend_format("a.dsl", once.at ? once.at : "", once.n, &twice, &arena, &diags));
    cr_expect_str_eq(twice.at ? twice.at : "", want, "the second time");
    text_finish(&once);
    text_finish(&twice);
    arena_finish(&arena);
}

Test(format, puts_statements_on_lines_of_their_own) {
    expect_format("net q{a=1;b = 2 ;}", "net q {\n    a = 1;\n    b = 2;\n}\n");
    expect_format("", "");
}

Test(format, spaces_tokens) {
    expect_format("net q { y=matmul ( x,w )*-2-- 3 ; z = - x + not( a<1 ) ; }",
                  "net q {\n    y = matmul(x, w) * -2 - -3;\n    z = -x + not (a < 1);\n}\n");
    expect_format("parallel { mesh(dp=2) ; dataset=(( dp . tp , - ),-) ; }",
                  "parallel {\n    mesh (dp = 2);\n    dataset = ((dp.tp, -), -);\n}\n");
    expect_format("hints{a.*.b=(1,-)->( 2 ) ;}", "hints { a.*.b = (1, -) -> (2); }\n");
}

Test(format, spaces_what_stands_behind_a_value) {
    expect_format("net q { y = relu( ( x@w ).shard ( (2,4) ) ) [ 0 , 1 : , :-1 , a+1:b, ... ] . T**-2 ; z=f( x shard((2,4)) ) ; }",
                  "net q {\n    y = relu((x @ w).shard((2, 4)))[0, 1:, :-1, a + 1:b, ...].T ** -2;\n    z = f(x shard ((2, 4)));\n}\n");
}

Test(format, keeps_ranges_together_unless_that_changes_them) {
    expect_format("net q { for i in 0 .. n+1 { } for i in 1. .. 2 { } }",
                  "net q {\n    for i in 0..n + 1 { }\n    for i in 1. ..2 { }\n}\n");
}

Test(format, aligns_neighbouring_lines) {
    expect_format("net q { input x : f32; param long : f32[2]=ones;\nparam b:f32 = zeros;\n\nh=1;\n    lo = 2;\n}",
                  "net q {\n    input x    : f32;\n    param long : f32[2] = ones;\n    param b    : f32    = zeros;\n\n    h  = 1;\n    "
                  "lo = 2;\n}\n");
    expect_format("train { a=1; steps=2; checkpoint every 3 steps; }",
                  "train {\n    a     = 1;\n    steps = 2;\n    checkpoint every 3 steps;\n}\n");
}

Test(format, keeps_the_unit_of_a_setting_behind_its_number) {
    expect_format("eval{every=100   steps ;batch=3;}", "eval {\n    every = 100 steps;\n    batch = 3;\n}\n");
}

Test(format, keeps_comments_where_they_are) {
    expect_format("# one \n\n\n\n#two\nnet q { # three\n# four\na = 1;# five\n}#six",
                  "# one\n\n#two\nnet q {  # three\n    # four\n    a = 1;  # five\n}  #six\n");
}

Test(format, keeps_the_line_breaks_of_a_statement) {
    expect_format("net q { y = f(x,\n  [1,\n2],\n    b = 3); z = g(\n1,\n2);\n}",
                  "net q {\n    y = f(x,\n          [1,\n           2],\n          b = 3);\n    z = g(\n        1,\n        2);\n}\n");
}

Test(format, keeps_short_blocks_in_one_line) {
    expect_format("net q { if a { b = 1; } else { b = 2; } if a { b = 1; c = 2; } y = f(x) shard { a = (1); } ; }",
                  "net q {\n    if a { b = 1; } else { b = 2; }\n    if a {\n        b = 1;\n        c = 2;\n    }\n    y = f(x) shard { a "
                  "= (1); };\n}\n");
}

Test(format, refuses_what_does_not_parse) {
    Arena arena;
    Diags diags;
    Text out = {0};
    const char text[] = "net q { a = ; }";
    arena_init(&arena);
    diags_init(&diags, &arena);
    cr_expect_not(frontend_format("a.dsl", text, strlen(text), &out, &arena, &diags));
    cr_expect_eq(diags.nerrors, 1);
    cr_expect_eq(out.n, 0);
    text_finish(&out);
    arena_finish(&arena);
}
