#include <math.h>
#include "compile.h"

static void expect_declaration_error(const char *declaration, int column, const char *error) {
    Compiled c;
    char text[1024];
    snprintf(text, sizeof text, NET("    %s"), declaration);
    compile(&c, text, 8);
    expect_error(&c, 5, column, error);
    compiled_finish(&c);
}

Test(types, scalars_are_written_with_or_without_brackets) {
    Compiled c;
    compile(&c, NET("    const a : f64 = 2;\n    const b : i32[] = -3;"), 8);
    expect_accepted(&c);
    expect_type(&c.graph, "a", "f64[]");
    expect_type(&c.graph, "b", "i32[]");
    cr_assert_float_eq(node_named(&c.graph, "b")->data[0], -3, 0);
    compiled_finish(&c);
}

Test(types, literals_are_row_major) {
    Compiled c;
    compile(&c, NET("    const c : f32[2, 3] = [[1, 2, 3], [4.5, -5, batch]];"), 8);
    expect_accepted(&c);
    const double want[] = {1, 2, 3, 4.5, -5, 16}, *data = node_named(&c.graph, "c")->data;
    for (int i = 0; i < 6; i++)
        cr_assert_float_eq(data[i], want[i], 0);
    compiled_finish(&c);
}

Test(types, initial_values_reach_their_states) {
    Compiled c;
    compile(&c,
            NET("    param a : f32[2] = normal(0.5);\n    param b : f32[2] = uniform(-1, high = 3);\n    param c : f32[2] = zeros;\n    "
                "param d : f64[2] = ones;\n"
                "    param e : f32[2] = [1, 2];\n    param f : f32[2] = file(\"sub/f.npy\");\n    param g : f32[2] = file(\"/g.npy\");"),
            8);
    expect_accepted(&c);
    const State *states = c.graph.states.at + 1; /* after w */
    cr_assert_eq(states[0].init.kind, INIT_NORMAL);
    cr_assert_float_eq(states[0].init.a, 0.5, 0);
    cr_assert_eq(states[1].init.kind, INIT_UNIFORM);
    cr_assert_float_eq(states[1].init.a, -1, 0);
    cr_assert_float_eq(states[1].init.b, 3, 0);
    cr_assert_eq(states[2].init.kind, INIT_ZEROS);
    cr_assert_eq(states[3].init.kind, INIT_ONES);
    cr_assert_eq(states[4].init.kind, INIT_LITERAL);
    cr_assert_float_eq(states[4].init.data[1], 2, 0);
    cr_assert_str_eq(states[5].init.file, "dir/sub/f.npy", "relative to the source file");
    cr_assert_str_eq(states[6].init.file, "/g.npy");
    compiled_finish(&c);
}

Test(types, absurd_sizes_are_refused_before_anything_is_allocated) {
    expect_declaration_error("param v : f32[16777216, 16777216, 2] = zeros;", 15, "more than 2^48 elements");
    expect_declaration_error("param v : f32[9223372036854775807, 9223372036854775807] = zeros;", 15, "more than 2^48 elements");
    Compiled c;
    compile(&c, NET("    param v : f32[16777216, 16777216] = zeros;"), 8);
    expect_accepted(&c);
    cr_assert_lt(c.arena.used_bytes, (size_t)1 << 20);
    compiled_finish(&c);
}

Test(types, literals_are_checked_against_their_shape) {
    expect_declaration_error("const v : f32[2, 2] = [[1, 2], [3]];", 36, "1 element, but dimension 1 of f32[2, 2] has size 2");
    expect_declaration_error("const v : f32[2] = [[1, 2]];", 24, "1 element, but dimension 0 of f32[2] has size 2");
    expect_declaration_error("const v : f32[1, 2] = [1];", 28, "needs a list of 2 numbers");
    expect_declaration_error("const v : f32 = [1];", 21, "a single number is needed here, not a list");
    expect_declaration_error("const v : f32[281474976710656] = [1, 2];", 38, "2 elements, but dimension 0");
}

Test(types, initial_values_are_checked) {
    expect_declaration_error("param v : f32[2] = uniform(2, 2);", 24, "is not below");
    expect_declaration_error("param v : f32[2] = normal(-1);", 31, "a standard deviation is 0 to");
    expect_declaration_error("param v : f32[2] = normal(1, 2);", 34, "takes at most 1 argument");
    expect_declaration_error("param v : f32[2] = normal(mean = 1);", 31, "has no argument 'mean'");
    expect_declaration_error("param v : f32[2] = zeros(1);", 30, "takes at most 0 arguments");
    expect_declaration_error("param v : f32[2] = file(3);", 29, "file takes the path");
    expect_declaration_error("param v : f32[2] = \"v.npy\";", 24, "a text is no initial value");
    expect_declaration_error("param v : f32[2] = xavier();", 24, "xavier is for weights of two dimensions");
    expect_declaration_error("param v : f32[2] = kaiming(3);", 24, "kaiming is for weights of two dimensions");
    expect_declaration_error("param v : f32[2, 2] = kaiming(fan_in = 0);", 44, "fan_in");
    expect_declaration_error("param v : f32[2] = causal(-1);", 24, "causal is for a matrix");
    expect_declaration_error("param v : f32[2, 2] = causal();", 27, "causal needs behind");
    expect_declaration_error("param v : i32[2] = zeros;", 15, "i32 has no gradient");
}

/* Nothing is read for it where it says its type; where it does not, the file is there or it is an error. */
Test(types, a_const_of_a_file_is_a_state_that_nothing_writes) {
    Compiled c;
    compile(&c,
            "net q {\n    input x : f32[2, 6];\n    const k : i32[2] = file(\"sub/k.npy\");\n    param v : f32[4, 6] = ones;\n"
            "    loss sum(x * embedding(v, k));\n}\ntrain { data = numpy_rand(seed = 1); optimizer = sgd(lr = 1); }\n",
            1);
    expect_accepted(&c);
    const State *k = &c.graph.states.at[0];
    cr_assert(state_is_const(k) && k->parameter == 0 && k->type.dtype == I32);
    cr_assert_str_eq(k->init.file, "dir/sub/k.npy");
    cr_assert(k->index.begin == 0 && k->index.end == 4, "an index of four rows");
    cr_assert_not(state_is_const(&c.graph.states.at[1]));
    compiled_finish(&c);
    expect_declaration_error("const v = file(\"none.npy\");", 15, "v says no type, and that of the file cannot be read: cannot open ");
    expect_declaration_error("const v = zeros;", 11, "v needs a type");
    expect_declaration_error("const v : f32[2] = normal(1);", 24, "a constant is zeros, ones, causal(..), a literal or file(\"c.npy\")");
}

Test(types, weights_begin_by_their_rows_and_columns) {
    Compiled c;
    compile(&c,
            "net q {\n    input x : f32[2, 6];\n    param v : f32[6, 18] = xavier();\n    param w : f32[18, 8] = kaiming();\n"
            "    param u : f32[2, 8] = kaiming(fan_in = 8);\n"
            "    const mask : f32[2, 8] = causal(-5);\n    loss sum(matmul(matmul(x, v), w) + mask + u);\n}\n"
            "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 1); }\n",
            1);
    expect_accepted(&c);
    const Init *v = &c.graph.states.at[0].init, *w = &c.graph.states.at[1].init;
    cr_assert(v->kind == INIT_UNIFORM && v->a == -0.5 && v->b == 0.5);
    cr_assert(w->kind == INIT_NORMAL && fabs(w->a - 1.0 / 3) < 1e-15);
    cr_assert(c.graph.states.at[2].init.a == 0.5, "a weight [out, in] says what goes into an output");
    const double expected[] = {0, -5, -5, -5, -5, -5, -5, -5, 0, 0, -5, -5, -5, -5, -5, -5}, *mask = NULL;
    for (int n = 0; n < c.graph.nodes.n; n++)
        if (c.graph.nodes.at[n].op == OP_constant && c.graph.nodes.at[n].data) mask = c.graph.nodes.at[n].data;
    cr_assert(mask && memcmp(mask, expected, sizeof expected) == 0);
    compiled_finish(&c);
}
