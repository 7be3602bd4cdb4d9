#include "tests/frontend/compile.h"

Test(loops, carry_values_and_number_names) {
    Compiled c;
    compile(&c, NET("h = x;\nfor i in 0..3 {\n param p : f32[32] = ones;\n h = h * p;\n}\nz = h;"), 8);
    expect_accepted(&c);
    cr_expect_eq(c.graph.states.n, 4);
    cr_expect_str_eq(c.graph.states.at[3].name, "p.2");
    const Node *last = node_named(&c.graph, "h.2"), *first = node_named(&c.graph, "h.0");
    cr_expect_eq(last->in[0], node_named(&c.graph, "h.1")->out[0]);
    cr_expect_eq(c.graph.nodes.at[c.graph.values.at[first->in[0]].node].op, OP_input);
    compiled_finish(&c);
}

Test(loops, end_before_their_limit_and_may_be_empty) {
    Compiled c;
    compile(&c, NET("let n = 0;\nfor i in 2..5 { n2 = i; }\nh = x;\nfor i in 5..2 { h = relu(h); }\nfor i in -1..1 { h = h + i; }"), 8);
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "h.0")->op, OP_add);
    cr_expect_eq(node_named(&c.graph, "h.-1")->op, OP_add);
    compiled_finish(&c);
}

Test(loops, nest) {
    Compiled c;
    compile(&c, NET("h = x;\nlet n = 1;\nfor i in 0..2 {\n for j in 0..i + 1 { h = relu(h); n = n + j; }\n}\nconst c : f32[n] = ones;"), 8);
    expect_accepted(&c);
    node_named(&c.graph, "h.1.1");
    expect_type(&c.graph, "c", "f32[2]");
    compiled_finish(&c);
}

Test(loops, names_of_an_iteration_are_gone_after_it) {
    Compiled c;
    compile(&c, NET("for i in 0..2 { h = relu(x); }\nfor j in 0..2 { h = relu(x); }\nz = i;"), 8);
    expect_error(&c, 7, 5, "i is known only in the loop that defines it");
    cr_expect_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(loops, parameters_are_not_carried) {
    Compiled c;
    compile(&c, NET("for i in 0..2 { w = w * 2; }"), 8);
    expect_error(&c, 5, 17, "w is defined twice");
    compiled_finish(&c);
}

Test(loops, the_first_iteration_that_fails_is_the_last) {
    Compiled c;
    compile(&c, NET("h = x;\nfor i in 0..100 {\n h = matmul(h, w);\n}"), 8);
    cr_expect_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(conditions, take_one_branch_and_keep_what_it_defines) {
    Compiled c;
    compile(&c,
            NET("if batch == 16 and not eps > 1 { h = relu(x); } else { h = tanh(x); }\n"
                "if batch < 16 { g = relu(h); } else if batch >= 16 and eps != 0.5 { g = exp(h); } else { g = tanh(h); }\nz = g;"),
            8);
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "h")->op, OP_relu);
    cr_expect_eq(node_named(&c.graph, "g")->op, OP_tanh);
    compiled_finish(&c);
}

Test(conditions, may_give_a_name_from_outside_another_value) {
    Compiled c;
    compile(&c, NET("h = x;\nif true { h = relu(h); }\nif false { h = exp(nothing); }\nz = tanh(h);"), 8);
    expect_accepted(&c);
    const Node *z = node_named(&c.graph, "z");
    cr_expect_eq(c.graph.nodes.at[c.graph.values.at[z->in[0]].node].op, OP_relu);
    compiled_finish(&c);
}

Test(conditions, stop_where_the_left_side_decides) {
    Compiled c;
    compile(&c, NET("let n = 0;\nif n > 0 and 12 / n > 1 { h = relu(x); }\nif n == 0 or 12 / n > 1 { h = tanh(x); }"), 8);
    expect_accepted(&c);
    compiled_finish(&c);
}

Test(functions, of_numbers) {
    Compiled c;
    compile(
        &c,
        NET("const a : f32[ceil_div(7, 2)] = ones;\nconst b : f32[max(2, min(9, 5))] = ones;\nconst d : f32[size(x, -1), ndim(x)] = ones;\n"
            "s = x * (1 / sqrt(16));\nm = max(x, axes = 1);\nr = sqrt(x);"),
        8);
    expect_accepted(&c);
    expect_type(&c.graph, "a", "f32[4]");
    expect_type(&c.graph, "b", "f32[5]");
    expect_type(&c.graph, "d", "f32[32, 2]");
    expect_type(&c.graph, "m", "f32[16]");
    cr_expect_eq(node_named(&c.graph, "r")->op, OP_sqrt);
    compiled_finish(&c);
}

/* Each of these would be written out for minutes, or for ever. */
Test(limits, hostile_texts_are_refused) {
    static const char *const texts[] = {
        NET("for i in 0..1000000000 { }"),
        NET("for i in 0..100000 { for j in 0..100000 { for k in 0..100000 { } } }"),
        NET("h = x;\nfor i in 0..100000 { for j in 0..100000 { h = relu(h); } }"),
        NET("let n = 3;\nfor i in 0..100000 { for j in 0..100 { n = -n + (1 + 2 * (3 - 1)); } }"),
        "cell a(x) { return a(x); }\n" NET("h = a(x);"),
        "cell a(n) { return n + n; } cell b(n) { return a(a(a(a(a(a(a(a(a(a(n)))))))))); } cell c(n) { return "
        "b(b(b(b(b(b(b(b(b(b(n)))))))))); }\n"
        "cell d(n) { return c(c(c(c(c(c(c(c(c(c(n)))))))))); } cell e(n) { return d(d(d(d(d(d(d(d(d(d(n)))))))))); }\n"
        "cell f(n) { return e(e(e(e(e(e(e(e(e(e(n)))))))))); }\n" NET("let n = f(0);\nlet m = f(f(f(f(f(f(f(f(f(f(f(f(n))))))))))));"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Compiled c;
        compile(&c, texts[i], 8);
        cr_expect_not(c.accepted, "%s", texts[i]);
        cr_expect_eq(c.diags.nerrors, 1, "%d errors: %s", c.diags.nerrors, texts[i]);
        compiled_finish(&c);
    }
}
