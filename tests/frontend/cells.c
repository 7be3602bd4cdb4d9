#include "tests/frontend/compile.h"

#define CELLS                                                                                                                              \
    "cell linear(x, out, std = 0.1) { param weight : f32[size(x, -1), out] = normal(std); y = matmul(x, weight) shard; return y; }\n"      \
    "cell block(x, dim) { fc1 = linear(x, 2 * dim); fc2 = linear(relu(fc1), dim, std = 0.2); return x + fc2; }\n"                          \
    "cell both(x) { return relu(x), -x; }\n"                                                                                               \
    "cell half(n) { return n / 2; }\n"

static void expect_states(const Graph *graph, int n, const char *const *names) {
    cr_assert_eq(graph->states.n, n, "%d states", graph->states.n);
    for (int i = 0; i < n; i++)
        cr_expect_str_eq(graph->states.at[i].name, names[i]);
}

Test(cells, parameters_are_named_by_the_path_of_the_call) {
    Compiled c;
    compile(&c, CELLS NET("h = block(x, 32);\nz = relu(linear(h, 4)) + relu(linear(h, 4));"), 8);
    expect_accepted(&c);
    expect_states(&c.graph, 5, (const char *const[]){"w", "h.fc1.weight", "h.fc2.weight", "z.linear.weight", "z.linear_2.weight"});
    cr_expect_eq(c.graph.states.at[2].init.a, 0.2);
    cr_expect_eq(c.graph.states.at[1].init.a, 0.1);
    compiled_finish(&c);
}

Test(cells, results_are_called_as_the_call_is) {
    Compiled c;
    compile(&c, CELLS NET("p, q = both(x);\nr = block(p, 32);"), 8);
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "p")->op, OP_relu);
    cr_expect_eq(node_named(&c.graph, "q")->op, OP_neg);
    cr_expect_eq(node_named(&c.graph, "r")->op, OP_add);
    cr_expect_eq(node_named(&c.graph, "r.fc1")->op, OP_matmul);
    compiled_finish(&c);
}

Test(cells, numbers_go_in_and_out) {
    Compiled c;
    compile(&c, CELLS NET("let n = half(batch);\nconst c : f32[n] = ones;\ns = x * half(4);"), 8);
    expect_accepted(&c);
    expect_type(&c.graph, "c", "f32[8]");
    compiled_finish(&c);
}

Test(cells, locals_are_the_calls_own) {
    Compiled c;
    compile(&c, CELLS NET("h = block(x, 32);\nz = fc1;"), 8);
    expect_error(&c, 10, 5, "unknown name 'fc1'");
    compiled_finish(&c);
}

Test(cells, a_strategy_on_a_call_reaches_the_operator_that_asks_for_it) {
    Compiled c;
    compile(&c, CELLS NET("h = linear(x, 8) shard ((2, 4), (4, 1));"), 8);
    expect_accepted(&c);
    const Node *node = node_named(&c.graph, "h");
    cr_assert(node->hint);
    cr_expect_eq(node->hint->in[0].dim[1].split, 4);
    compiled_finish(&c);
}

Test(cells, a_strategy_on_a_call_goes_to_its_result_where_nothing_asks) {
    Compiled c;
    compile(&c, "cell f(x) { h = relu(x); return h * h; }\n" NET("h = f(x) shard ((8, 1), (8, 1));"), 8);
    expect_accepted(&c);
    cr_expect(node_named(&c.graph, "h")->hint);
    cr_expect_not(node_named(&c.graph, "h.h")->hint);
    compiled_finish(&c);
}

Test(cells, hints_behind_a_call_name_operators_in_it) {
    Compiled c;
    compile(&c, CELLS NET("h = block(x, 32) shard { fc1 = ((2, 4), (4, 1)); fc2.weight = (2, 4); };"), 8);
    expect_accepted(&c);
    cr_expect(node_named(&c.graph, "h.fc1")->hint);
    cr_expect_not(node_named(&c.graph, "h.fc2")->hint);
    cr_expect(c.graph.states.at[2].hint);
    compiled_finish(&c);
}

Test(cells, the_chain_of_calls_is_shown) {
    Compiled c;
    compile(&c, CELLS NET("h = block(x, 31);"), 8);
    cr_assert_not(c.accepted);
    cr_expect_eq(c.diags.nerrors, 1);
    int notes = 0;
    for (int i = 0; i < c.diags.items.n; i++)
        notes += strstr(c.diags.items.at[i].text, "in cell block, called here as h") != NULL;
    cr_expect_eq(notes, 1);
    compiled_finish(&c);
}

Test(cells, one_mistake_in_a_cell_is_one_message) {
    Compiled c;
    compile(&c, "cell f(x) { return relu(nothing); }\n" NET("a = f(x);\nb = f(x);\nfor i in 0..3 { d = f(x); }"), 8);
    cr_assert_not(c.accepted);
    cr_expect_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
}

Test(cells, one_cell_with_two_mistaken_calls_is_two_messages) {
    Compiled c;
    compile(&c, "cell f(x, w) { return matmul(x, w); }\n" NET("a = f(x, x);\nb = f(t, x);"), 8);
    cr_expect_eq(c.diags.nerrors, 2);
    compiled_finish(&c);
}

Test(cells, work_in_data_parallel) {
    Compiled c;
    Overrides flags = {.nranks = 2, .mode = "data_parallel"};
    const char *text = CELLS NET("h = block(x, 32);\nfor i in 0..2 { h = block(h, 32); }");
    compile_with(&c, text, strlen(text), &flags);
    expect_accepted(&c);
    cr_expect_eq(c.graph.states.n, 7);
    compiled_finish(&c);
}

Test(cells, numbers_of_cells_stand_wherever_numbers_do) {
    Compiled c;
    compile(
        &c,
        CELLS NET(
            "const c : f32[half(batch)] = ones;\nh = x;\nfor i in 0..half(4) { h = relu(h); }\nif half(2) == 1 { z = sum(h, axes = [half(2)]); }"),
        8);
    expect_accepted(&c);
    expect_type(&c.graph, "c", "f32[8]");
    expect_type(&c.graph, "h.1", "f32[16, 32]");
    expect_type(&c.graph, "z", "f32[16]");
    compiled_finish(&c);
}

Test(cells, a_cell_may_define_nothing) {
    Compiled c;
    compile(&c, "cell two() { return 2; }\n" NET("z = x * two();"), 8);
    expect_accepted(&c);
    compiled_finish(&c);
}
