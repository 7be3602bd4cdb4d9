#include "compile.h"

static void expect_statement_error(const char *statement, int column, const char *error) {
    Compiled c;
    char text[1024];
    snprintf(text, sizeof text, NET("    h = %s;"), statement);
    compile(&c, text, 8);
    expect_error(&c, 5, column, error);
    compiled_finish(&c);
}

Test(express, infix_operators_are_nodes) {
    Compiled c;
    compile(&c, NET("    h = -x + x * x - x / x;"), 8);
    expect_accepted(&c);
    cr_assert_eq(node_named(&c.graph, "h")->op, OP_sub);
    cr_assert_eq(node_named(&c.graph, "h.add")->op, OP_add);
    cr_assert_eq(node_named(&c.graph, "h.neg")->op, OP_neg);
    cr_assert_eq(node_named(&c.graph, "h.mul")->op, OP_mul);
    cr_assert_eq(node_named(&c.graph, "h.div")->op, OP_div);
    compiled_finish(&c);
}

Test(express, numbers_take_the_element_type_of_their_tensor) {
    Compiled c;
    compile(&c, NET("    input z : f64[4];\n    input n : i32[4];\n    a = 2 * z;\n    b = n - 3;\n    h = mul(x, eps);"), 8);
    cr_assert_not(c.accepted, "numpy_rand does not fill i32");
    expect_type(&c.graph, "constant", "f64[]");
    expect_type(&c.graph, "constant_2", "i32[]");
    expect_type(&c.graph, "constant_3", "f32[]");
    cr_assert_float_eq(node_named(&c.graph, "constant_3")->attr[0].f, 0.5, 0);
    compiled_finish(&c);
}

Test(express, operands_and_attributes_are_given_by_name_in_any_order) {
    Compiled c;
    compile(&c,
            NET("    h = matmul(transpose_b = true, b = w, a = t);\n    s = sum(x, keep_dims = 1, axes = (1));\n    r = sum(x, axes = "
                "-1);\n    e = mse(x, x, reduction = sum);"),
            8);
    expect_accepted(&c);
    expect_type(&c.graph, "h", "f32[16, 32]");
    expect_type(&c.graph, "s", "f32[16, 1]");
    expect_type(&c.graph, "r", "f32[16]");
    cr_assert_str_eq(node_named(&c.graph, "e")->attr[0].text, "sum");
    compiled_finish(&c);
}

Test(express, another_name_for_a_tensor_is_no_node) {
    Compiled c;
    compile(&c, NET("    a = (x);\n    h = relu(a);"), 8);
    expect_accepted(&c);
    cr_assert_eq(node_named(&c.graph, "h")->in[0], node_named(&c.graph, "x")->out[0]);
    compiled_finish(&c);
}

Test(express, spans_are_those_of_the_operator_calls) {
    Compiled c;
    compile(&c, NET("    h = relu(matmul(x, w) + 1);"), 8);
    expect_accepted(&c);
    cr_assert_eq(node_named(&c.graph, "h")->span.column, 9);
    cr_assert_eq(node_named(&c.graph, "h.matmul")->span.column, 14);
    cr_assert_eq(node_named(&c.graph, "h.matmul")->span.length, 12);
    cr_assert_eq(node_named(&c.graph, "h.add")->span.length, 16);
    compiled_finish(&c);
}

Test(express, a_shape_mistake_names_the_operands_and_where_they_come_from) {
    Compiled c;
    compile(&c, NET("    h = matmul(x, t);"), 8);
    expect_error(&c, 5, 9, "matmul: contracted sizes differ: x has 32, t has 16");
    cr_assert_eq(c.diags.items.at[1].kind, DIAG_NOTE);
    cr_assert_str_eq(c.diags.items.at[1].text, "t is declared f32[16, 8] here");
    cr_assert_eq(c.diags.items.at[1].span.line, 3);
    compiled_finish(&c);
}

Test(express, mistakes_in_calls_are_diagnosed) {
    expect_statement_error("matmul(x)", 9, "operand b is missing");
    expect_statement_error("relu(x, w)", 17, "relu takes 1 operand (x)");
    expect_statement_error("relu(x, x = w)", 17, "relu: x is given twice");
    expect_statement_error("sum(x, axes = 0, axes = 1)", 26, "sum: axes is given twice");
    expect_statement_error("sum(x, axs = 0)", 16, "sum has no argument 'axs'");
    expect_statement_error("sum(x, w)", 16, "sum takes 1 operand (x)");
    expect_statement_error("sum(x, axes = [0.5])", 24, "axes is an integer, not 0.5");
    expect_statement_error("sum(x, axes = 2)", 16, "out of range");
    expect_statement_error("sum(x, keep_dims = yes)", 28, "keep_dims is true or false");
    expect_statement_error("sum(x, axes = [0,0,0,0,0,0,0,0,0])", 23, "axes has 9 numbers");
    expect_statement_error("mse(x, x, reduction = 3)", 31, "reduction is a word");
    expect_statement_error("reshape(x)", 9, "shape is missing");
    expect_statement_error("replicate(x)", 9, "unknown operator 'replicate'");
    expect_statement_error("normal(0.1)", 9, "an initial value, not an operator");
    expect_statement_error("batch(x)", 9, "batch is a number, not an operator");
    expect_statement_error("relu(batch)", 9, "only numbers");
    expect_statement_error("relu([1])", 14, "a list is no operand");
    expect_statement_error("relu((x, x))", 14, "a tuple is no operand");
    expect_statement_error("relu(\"x\")", 14, "a text is no operand");
    expect_statement_error("x % 2", 9, "% is for integers");
    expect_statement_error("x shard (8, 1)", 11, "there is no operator here to shard");
    expect_statement_error("mse(x, x) shard ((8, 1), (8, 1))", 19, "cannot be sharded as one");
}

Test(express, several_names_take_the_results_of_one_operator) {
    Compiled c;
    compile(&c, NET("    q, k, v = split(x, parts = 2, axis = -1);\n"), 8);
    expect_error(&c, 5, 15, "split has 2 results, and here are 3 names");
    compiled_finish(&c);
    compile(&c, NET("    q, k = split(x, parts = 2, axis = -1);\n    h = q - k;\n    k2, h2 = split(h, parts = 2) shard ((1, 4));"), 8);
    expect_accepted(&c);
    expect_type(&c.graph, "q", "f32[16, 16]");
    expect_type(&c.graph, "k2", "f32[8, 16]");
    const Node *split = node_named(&c.graph, "q");
    cr_assert_str_eq(c.graph.values.at[split->out[1]].name, "k");
    cr_assert_eq(c.graph.values.at[split->out[1]].type.shape.dim[1], 16);
    cr_assert_eq(node_named(&c.graph, "h")->in[1], split->out[1]);
    compiled_finish(&c);
}

Test(express, results_and_names_are_as_many) {
    expect_statement_error("split(x, parts = 2)", 9, "split has 2 results, and here is 1 name");
    expect_statement_error("relu(split(x, parts = 2))", 14, "split has 2 results and cannot be an operand");
    expect_statement_error("split(x, parts = 16)", 18, "16 parts: there may be 1 to 8");
    expect_statement_error("split(x)", 9, "parts is missing");
    Compiled c;
    compile(&c, NET("    a, b = x + x;"), 8);
    expect_error(&c, 5, 12, "add has 1 result, and here are 2 names");
    compiled_finish(&c);
    compile(&c, NET("    a, b = x;"), 8);
    expect_error(&c, 5, 12, "one value, and here are 2 names");
    compiled_finish(&c);
    compile(&c, NET("    a, b = -batch;"), 8);
    expect_error(&c, 5, 12, "one number, and here are 2 names");
    compiled_finish(&c);
    compile(&c, NET("    a, a = split(x, parts = 2);\n    b = relu(a);"), 8);
    expect_error(&c, 5, 8, "a");
    cr_assert_eq(c.diags.nerrors, 1);
    compiled_finish(&c);
    compile(&c, NET("    a, b, c, d, e, f, g, h, i = split(x, parts = 8);"), 8);
    expect_error(&c, 5, 29, "an operator has at most 8 results");
    compiled_finish(&c);
}

Test(express, the_last_operand_of_some_operators_repeats) {
    Compiled c;
    compile(&c, NET("    h = concat(x, relu(x), x * 2, x);"), 8);
    expect_accepted(&c);
    expect_type(&c.graph, "h", "f32[64, 32]");
    compiled_finish(&c);
    expect_statement_error("concat(x)", 9, "operand b is missing");
    expect_statement_error("concat(x, x, x, x, x, x, x, x, x)", 40, "concat takes at most 8 operands");
    expect_statement_error("concat(x, w)", 9, "shapes differ beyond axis 0");
}

Test(express, results_over_2_to_the_48_are_refused) {
    Compiled c;
    compile(&c, NET("    param u : f32[16777216, 1] = zeros;\n    param v : f32[1, 16777217] = zeros;\n    h = u + v;"), 8);
    expect_error(&c, 7, 9, "more than 2^48 elements");
    compiled_finish(&c);
}

Test(express, no_text_makes_more_than_a_hundred_thousand_nodes) {
    Text text = {0};
    text_printf(&text, HEAD);
    for (int i = 0; i < 120; i++) {
        text_printf(&text, "h%d = ", i);
        for (int k = 0; k < 900; k++)
            text_append(&text, "-", 1);
        text_printf(&text, "x;\n");
    }
    text_printf(&text, TAIL TRAIN);
    Compiled c;
    compile(&c, text.at, 8);
    cr_assert_str_eq(c.diags.items.at[0].text, "the net has more than 100000 operators");
    cr_assert_eq(c.diags.items.n, 1);
    compiled_finish(&c);
    text_finish(&text);
}
