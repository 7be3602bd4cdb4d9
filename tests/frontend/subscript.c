#include "compile.h"

/* The node that a statement `h = ...` makes last, the type of h, and how many nodes it makes. */
static void expect_form(const char *statement, OpCode op, const char *type, int nnodes) {
    Compiled c, plain;
    char text[1024];
    snprintf(text, sizeof text, NET("    y = reshape(x, shape = [4, 4, 32]);\n    %s"), statement);
    compile(&c, text, 8);
    compile(&plain, NET("    y = reshape(x, shape = [4, 4, 32]);\n"), 8);
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "h")->op, op, "%s: %s", statement, op_table[node_named(&c.graph, "h")->op].name);
    expect_type(&c.graph, "h", type);
    int made = 0;
    for (int i = 0; i < c.graph.nodes.n; i++)
        made += c.graph.nodes.at[i].op != OP_constant;
    cr_expect_eq(made - plain.graph.nodes.n, nnodes, "%s: %d nodes", statement, made - plain.graph.nodes.n);
    compiled_finish(&c);
    compiled_finish(&plain);
}

static void expect_mistake(const char *statement, int column, const char *message) {
    Compiled c;
    char text[1024];
    snprintf(text, sizeof text, NET("    %s"), statement);
    compile(&c, text, 8);
    expect_error(&c, 5, column, message);
    compiled_finish(&c);
}

Test(subscript, ranges_are_slices) {
    expect_form("h = x[0:4];", OP_slice, "f32[4, 32]", 1);
    expect_form("h = x[-4:, 1:-1];", OP_slice, "f32[4, 30]", 1);
    expect_form("h = y[..., :2];", OP_slice, "f32[4, 4, 2]", 1);
    expect_form("h = y[1:2, ..., 3:];", OP_slice, "f32[1, 4, 29]", 1);
    Compiled c;
    compile(&c, NET("    h = x[-4:, 1:-1];"), 8);
    expect_accepted(&c);
    const Node *h = node_named(&c.graph, "h");
    cr_expect(h->attr[0].ints[0] == 12 && h->attr[0].ints[1] == 1 && h->attr[1].ints[0] == 16 && h->attr[1].ints[1] == 31);
    compiled_finish(&c);
}

Test(subscript, a_number_takes_its_dimension_away) {
    expect_form("h = x[3];", OP_reshape, "f32[32]", 2);
    expect_form("h = x[-1, -1];", OP_reshape, "f32[]", 2);
    expect_form("h = y[:, 0];", OP_reshape, "f32[4, 32]", 2);
    expect_form("h = x[0:1][0];", OP_reshape, "f32[32]", 2); /* the slice; of a dimension of size 1 nothing is cut */
}

Test(subscript, none_is_a_new_dimension_of_size_one) {
    expect_form("h = x[:, None];", OP_reshape, "f32[16, 1, 32]", 1);
    expect_form("h = x[None, ..., None, 0:4];", OP_reshape, "f32[1, 16, 1, 4]", 2);
}

Test(subscript, all_of_a_tensor_is_the_tensor) {
    Compiled c;
    compile(&c, NET("    h = relu(x[:, :]) + x[...];"), 8);
    expect_accepted(&c);
    cr_expect_eq(node_named(&c.graph, "h.relu")->in[0], node_named(&c.graph, "h")->in[1]);
    compiled_finish(&c);
}

Test(subscript, mistakes_are_diagnosed_where_they_are) {
    expect_mistake("h = x[16];", 11, "a subscript is -16 to 15, not 16");
    expect_mistake("h = x[0, 0, 0];", 9, "3 subscripts for a tensor of 2 dimensions");
    expect_mistake("h = x[4:4];", 11, "4:4 is no part of dimension 0, which has size 16");
    expect_mistake("h = x[0:17];", 11, "0:17 is no part");
    expect_mistake("h = x[0:4:2];", 11, "there are no steps");
    expect_mistake("h = x[t];", 11, "known when the net is compiled");
    expect_mistake("h = x[[0]];", 11, "not a list");
    expect_mistake("h = x[..., ...];", 16, "'...' stands once");
    expect_mistake("h = x[None, None, None, None, None, None, None];", 9, "at most 8 dimensions");
    expect_mistake("h = batch[0];", 9, "a number has no elements");
    expect_mistake("h = x[0;", 12, "expected ']' before ';'");
}

Test(subscript, sizes_are_members) {
    Compiled c;
    compile(
        &c,
        NET("    let n = x.shape[-1] / x.ndim;\n    h = reshape(x, shape = [-1, n]);\n    g = h.reshape(x.shape);\n    f = relu(x).reshape(x.shape[0] * 2, -1);\n"),
        8);
    expect_accepted(&c);
    expect_type(&c.graph, "h", "f32[32, 16]");
    expect_type(&c.graph, "g", "f32[16, 32]");
    expect_type(&c.graph, "f", "f32[32, 16]");
    compiled_finish(&c);
    expect_mistake("h = x.shape;", 11, "a shape is no tensor");
    expect_mistake("h = x.dtype;", 11, "a tensor has no 'dtype'");
    expect_mistake("h = x.relu;", 11, "a tensor has no 'relu'");
    expect_mistake("let n = x.shape[2];", 21, "an axis is -2 to 1, not 2");
}

Test(subscript, members_transpose) {
    expect_form("h = x.T;", OP_transpose, "f32[32, 16]", 1);
    expect_form("h = y.mT;", OP_transpose, "f32[4, 32, 4]", 1);
    expect_form("h = x.T.T;", OP_transpose, "f32[16, 32]", 2);
    expect_mistake("h = x[None].T;", 9, ".T is the transpose of a matrix, and this is f32[1, 16, 32]");
}

Test(subscript, powers_are_squares_and_products) {
    expect_form("h = x ** 2;", OP_square, "f32[16, 32]", 1);
    expect_form("h = x ** 3;", OP_mul, "f32[16, 32]", 2);
    expect_form("h = x ** 8;", OP_square, "f32[16, 32]", 3);
    expect_form("h = x ** 0.5;", OP_sqrt, "f32[16, 32]", 1);
    expect_form("h = x ** -0.5;", OP_rsqrt, "f32[16, 32]", 1);
    expect_form("h = x ** -1;", OP_div, "f32[16, 32]", 1);
    expect_form("h = x ** -2;", OP_div, "f32[16, 32]", 2);
    expect_form("h = -x ** 2;", OP_neg, "f32[16, 32]", 2);
}

Test(subscript, powers_of_numbers_are_numbers) {
    Compiled c;
    compile(&c, NET("    h = reshape(x, shape = [2 ** 3, 0 ** 0 * (-1) ** 4 * 1 ** 9223372036854775807, -1]);\n    g = x * 2 ** -1;\n"), 8);
    expect_accepted(&c);
    expect_type(&c.graph, "h", "f32[8, 1, 64]");
    compiled_finish(&c);
    expect_mistake("let n = 2 ** 63;", 13, "does not fit in a 64-bit integer");
    expect_mistake("let n = 0 ** -1;", 13, "0 ** -1 is no number");
    expect_mistake("let n = 2 @ 3;", 13, "@ is the product of matrices");
}
