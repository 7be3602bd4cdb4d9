#include "tests/frontend/compile.h"

#define CELLS                                                                                                                              \
    "cell fc(x, out) { param weight : f32[size(x, -1), out] = normal(0.1); return matmul(x, weight); }\n"                                  \
    "cell block(x) { fc1 = fc(x, 64); fc2 = fc(relu(fc1), 32); return fc2; }\n"
#define BODY "h = x;\nfor layer in 0..3 { h = block(h); }\nlast = relu(h);"

static void compile_hints(Compiled *c, const char *text, int nshards, const char *const *shards) {
    Overrides flags = {.nranks = 8, .nshards = nshards, .shard = shards};
    compile_with(c, text, strlen(text), &flags);
}

static int count_hints(const Graph *graph) {
    int n = 0;
    for (int i = 0; i < graph->nodes.n; i++)
        n += graph->nodes.at[i].hint != NULL;
    for (int i = 0; i < graph->states.n; i++)
        n += graph->states.at[i].hint != NULL;
    for (int i = 0; i < graph->inputs.n; i++)
        n += graph->inputs.at[i].hint != NULL;
    return n;
}

static void expect_hints(const char *hints, int n) {
    char text[4096];
    Compiled c;
    snprintf(text, sizeof text, "%shints { %s }\n", CELLS NET(BODY), hints);
    compile(&c, text, 8);
    expect_accepted(&c);
    cr_expect_eq(count_hints(&c.graph), n, "%s: %d", hints, count_hints(&c.graph));
    compiled_finish(&c);
}

Test(patterns, match_names_pieces_and_any_number_of_names) {
    expect_hints("h.*.fc1 = ((8, 1), (1, 1));", 3);
    expect_hints("h.1.fc1 = ((8, 1), (1, 1));", 1);
    expect_hints("**.fc1 = ((8, 1), (1, 1));", 3);
    expect_hints("h.*.fc* = ((8, 1), (1, 1));", 6);
    expect_hints("*.0.*1 = ((8, 1), (1, 1));", 1);
    expect_hints("**.weight = (1, 8); x = (8, 1);", 7);
    expect_hints("h.**.weight = (1, 8); l*t = (8, 1);", 7);
    expect_hints("h.**.fc2.**.weight = (1, 8);", 3);
    expect_hints("**.last.** = (8, 1); x.** = (8, 1); **.t = (8, 1);", 3);
    expect_hints("h.0.fc1.**.** = ((8, 1));", 2);
}

Test(patterns, hints_may_stand_before_the_net_and_use_its_numbers_and_axes) {
    Compiled c;
    compile(&c, "hints { **.fc1 = ((dp, -), (-, tp)); last = ((batch, 1)); }\n" CELLS NET(BODY) "parallel { mesh (dp = 2, tp = 4); }\n", 8);
    expect_accepted(&c);
    cr_expect(node_named(&c.graph, "h.0.fc1")->hint->named);
    cr_expect_eq(node_named(&c.graph, "last")->hint->in[0].dim[0].split, 16);
    compiled_finish(&c);
}

Test(patterns, flags_go_before_files) {
    Compiled c;
    compile_hints(&c, CELLS NET(BODY) "hints { last = (8, 1); }\n", 1, (const char *const[]){"last = (2, 4)"});
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "last")->hint->in[0].dim[1].split, 4);
    compiled_finish(&c);
}

Test(patterns, one_that_matches_nothing_is_an_error_with_the_nearest_path) {
    Compiled c;
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"h.*.fcl=((8,1),(1,1))"});
    expect_error(&c, 1, 1, "no operator, parameter or input has the path h.*.fcl");
    cr_expect_str_eq(c.diags.items.at[1].text, "did you mean h.*.fc1?");
    compiled_finish(&c);
}

Test(patterns, where_no_path_is_near_one_that_ends_alike_is_shown) {
    Compiled c;
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"encoder.*.h.*.fc1=((8,1),(1,1))"});
    expect_error(&c, 1, 1, "no operator, parameter or input has the path encoder.*.h.*.fc1");
    cr_expect_str_eq(c.diags.items.at[1].text, "did you mean h.*.fc1?");
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"encoder.decoder=((8,1),(1,1))"});
    cr_expect(strncmp(c.diags.items.at[1].text, "paths are names", 15) == 0, "%s", c.diags.items.at[1].text);
    compiled_finish(&c);
}

Test(patterns, two_that_differ_are_an_error_with_both_places) {
    Compiled c;
    compile(&c, CELLS NET(BODY) "hints {\n h.*.fc1 = ((8, 1), (1, 1));\n h.2.fc1 = ((1, 8), (8, 1)); }\n", 8);
    expect_error(&c, 15, 12, "a second strategy for h.2.fc1");
    cr_expect_eq(c.diags.items.at[1].span.line, 14);
    compiled_finish(&c);
}

Test(patterns, two_that_agree_are_one) {
    expect_hints("h.*.fc1 = ((8, 1), (1, 1)); h.2.* = ((8,1),(1,1));", 4);
}

Test(patterns, two_that_say_the_same_in_other_words_are_one) {
    expect_hints("last = (8, 1); las* = ((8, 1)); *t = ((batch / 2, 1,),);", 2);
    expect_hints("h.*.fc1 = ((8, 1), (1, 1)) -> (8, 1); h.2.fc1 = (((8, 1), (1, 1))) -> (4 + 4, 1);", 3);
}

Test(patterns, the_same_words_may_mean_two_strategies) {
    Compiled c;
    compile(&c, "cell f(x, k) { y = relu(x) shard (k, 1); return y; }\n" NET("h = f(x, 2) shard { y = (k, 1); };") "let k = 4;\n", 8);
    expect_error(&c, 6, 25, "a second strategy for h.y");
    compiled_finish(&c);
}

/* The strategy that the operator `path` of a net with these statements has with --shard hint; NULL: none. */
static void expect_reached(const char *statements, const char *hint, const char *path) {
    Compiled c;
    const char *shards[] = {hint};
    const char *text = statements;
    Overrides flags = {.nranks = 8, .nshards = 1, .shard = shards};
    compile_with(&c, text, strlen(text), &flags);
    expect_accepted(&c);
    for (int i = 0; i < c.graph.nodes.n; i++) {
        const Node *node = &c.graph.nodes.at[i];
        cr_expect_eq(node->hint != NULL, !strcmp(node->name, path), "%s: %s", hint, node->name);
    }
    compiled_finish(&c);
}

Test(patterns, reach_operators_in_expressions_under_their_statement) {
    static const char net[] = HEAD
        "    param v : f32[8, 8] = normal(0.01);\n    y = matmul(relu(matmul(x, w)) + 1, v);\n    p, q = split(y, parts = 2, axis = 1);\n    z = abs_of(q);\n" TAIL
            TRAIN "cell abs_of(x) { return relu(x) + relu(-x); }\n";
    expect_reached(net, "y.matmul=((2,4),(4,1))", "y.matmul");
    expect_reached(net, "y.relu=(2,4)", "y.relu");
    expect_reached(net, "y.a*=((2,4),())", "y.add");
    expect_reached(net, "y=((2,4),(4,1))", "y");
    expect_reached(net, "q=(8,1)", "p");
    expect_reached(net, "z.relu_2=(8,1)", "z.relu_2");
    expect_reached(net, "z=((8,1),(8,1))", "z");
}

Test(patterns, a_second_value_of_a_name_has_a_path_of_its_own) {
    static const char net[] = HEAD "    for i in 0..2 {\n        h = relu(x);\n        if i == 1 { h = tanh(h); }\n    }\n" TAIL TRAIN;
    expect_reached(net, "h.1=(8,1)", "h.1");
    expect_reached(net, "h.1_2=(8,1)", "h.1_2");
}

Test(patterns, every_path_that_is_listed_can_be_hinted_and_no_other_has_a_hint) {
    static const char net[] = HEAD
        "    param v : f32[8, 8] = normal(0.01);\n    y = matmul(relu(matmul(x, w)) ** 3, v);\n    z = lin(y[:, 0:4] shard ((1, 1)));\n" TAIL
            TRAIN
        "cell lin(x) { param u : f32[4, 8] = ones;\n    y = matmul(x, u) shard;\n    if 1 { y = y + 1; }\n    return relu(y); }\n";
    Compiled c;
    Paths paths = {0};
    Overrides flags = {.nranks = 8, .paths = &paths};
    compile_with(&c, net, strlen(net), &flags);
    expect_accepted(&c);
    cr_assert_geq(paths.n, 14);
    for (int i = 0; i < paths.n; i++) {
        const char *hint = arena_printf(&c.arena, "%s=%s", paths.at[i].path, strstr(paths.at[i].what, "mse") ? "(1)" : "wrong"),
                   *shards[] = {hint};
        Overrides with = {.nranks = 8, .nshards = 1, .shard = shards};
        Compiled again;
        compile_with(&again, net, strlen(net), &with);
        cr_expect_eq(again.diags.nerrors, 1, "%s", hint);
        cr_expect(again.diags.nerrors && !strstr(again.diags.items.at[0].text, "has the path"), "%s", hint);
        compiled_finish(&again);
    }
    compiled_finish(&c);
}

Test(patterns, reach_iterations_below_zero) {
    Compiled c;
    compile(&c, NET("h = x;\nfor i in -2..1 { h = relu(h); }") "hints { h.-2 = (8, 1); h.-1 = (4, 1); h.0 = (2, 1); }\n", 8);
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "h.-2")->hint->in[0].dim[0].split, 8);
    cr_expect_eq(node_named(&c.graph, "h.-1")->hint->in[0].dim[0].split, 4);
    compiled_finish(&c);
}

Test(patterns, a_flag_may_end_as_a_hint_in_a_file_does) {
    Compiled c;
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"last = ((8, 1));"});
    expect_accepted(&c);
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"*=recompute"}); /* no operator of C's */
    expect_accepted(&c);
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"last = (8, 1); x = (8, 1)"});
    expect_error(&c, 1, 16, "expected the end of the hint, found 'x'");
    cr_expect_str_eq(c.diags.items.at[1].text, "each hint has a --shard of its own");
    compiled_finish(&c);
}

Test(patterns, the_nearest_path_is_found_behind_any_number_of_names) {
    Compiled c;
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"**.wieght=(8,1)"});
    expect_error(&c, 1, 1, "no operator, parameter or input has the path **.wieght");
    cr_expect_str_eq(c.diags.items.at[1].text, "did you mean **.weight?");
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"x=recompute"});
    expect_error(&c, 1, 1, "x is a parameter or an input: operators are recomputed");
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY) "parallel { stages = 2; }", 1, (const char *const[]){"x=stage 0"});
    expect_error(&c, 1, 1, "x is a parameter or an input: it lies in the stage of the operators that use it");
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"x=regather"});
    expect_error(&c, 1, 1, "x is an input: parameters and results of operators are gathered again");
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"h.1=regather"}); /* all within the call */
    expect_accepted(&c);
    for (int n = 0; n < c.graph.nodes.n; n++) {
        const Node *node = &c.graph.nodes.at[n];
        const char *name = node->op == OP_read ? c.graph.states.at[node->state].name : c.graph.values.at[node->out[0]].name;
        cr_expect_eq(node->regather != NULL, !strncmp(name, "h.1", 3), "%s", name);
    }
    compiled_finish(&c);
    compile_hints(&c, CELLS NET(BODY), 1, (const char *const[]){"**.*.fc1.wieght=(8,1)"});
    expect_error(&c, 1, 1, "no operator, parameter or input has the path **.*.fc1.wieght");
    cr_expect_str_eq(c.diags.items.at[1].text, "did you mean **.*.fc1.weight?");
    compiled_finish(&c);
}
