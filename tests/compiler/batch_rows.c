#include "compiler/rows.h"
#include "tests/frontend/compile.h"

/* Where the rows of the batch (4) are in the value `v` that the statement makes of x: f32[4, 4, 6] and the parameter w: f32[6, 4]. */
static BatchRows trace(const char *statement, const char *parallel) {
    Compiled c;
    char text[1024];
    snprintf(text, sizeof text,
             "net q(batch = 4) {\n input x : f32[batch, 4, 6];\n param w : f32[6, 4] = zeros;\n %s\n loss sum(v);\n}\n"
             "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }\n%s",
             statement, parallel);
    compile(&c, text, 2);
    expect_accepted(&c);
    const Graph *g = &c.graph;
    const BatchRows *rows = batch_rows_trace(g, &c.arena, 4);
    const BatchRows found = rows[g->nodes.at[g->values.at[g->loss].node].in[0]];
    arena_finish(&c.arena);
    return found;
}

static void expect_rows(const char *statement, int at, bool mixed) {
    const BatchRows found = trace(statement, "");
    cr_expect_eq(found.at, at, "%s: rows at %d, expected %d", statement, found.at, at);
    cr_expect_eq(found.mixed, mixed, "%s: %s", statement, found.mixed ? "mixed" : "apart");
}

Test(batch_rows, rows_stay_apart_through_what_works_on_each) {
    expect_rows("v = relu(x) * 2;", 0, false);
    expect_rows("v = matmul(x, w);", 0, false);
    expect_rows("v = softmax(x);", 0, false);
    expect_rows("v = softmax(x, axis = 1);", 0, false);
    expect_rows("v = x - mean(x, axes = (1, 2), keep_dims = true);", 0, false);
    expect_rows("v = matmul(x, x, transpose_b = true);", 0, false);
    expect_rows("v = slice(x, begin = [0, -2, 0], end = [batch, 4, 6]);", 0, false);
    expect_rows("v = concat(x, relu(x), axis = 1);", 0, false);
    expect_rows("v = pad(x, before = [0, 1, 0], after = [0, 0, 2]);", 0, false);
    expect_rows("v = max_pool(reshape(x, shape = (4, 24)), kernel_size = [1, 2]);", 0, false);
}

Test(batch_rows, rows_are_followed_where_dimensions_move) {
    expect_rows("v = transpose(x, perm = (1, 0, 2));", 1, false);
    expect_rows("v = transpose(transpose(x, perm = (1, 0, 2)), perm = (1, 0, 2));", 0, false);
    expect_rows("v = reshape(x, shape = (batch * 4, 6));", 0, false);
    expect_rows("v = reshape(matmul(reshape(x, shape = (16, 6)), w), shape = (4, 2, 8));", 0, false);
    expect_rows("v = reshape(transpose(x, perm = (1, 0, 2)), shape = (2, 2, 4, 6));", 2, false);
}

Test(batch_rows, rows_that_depend_on_others_are_mixed) {
    expect_rows("v = x - mean(x, axes = 0, keep_dims = true);", 0, true);
    expect_rows("v = softmax(x, axis = 0);", 0, true);
    expect_rows("y = reshape(x, shape = (4, 24)); v = matmul(y, y, transpose_b = true);", 0, true);
    expect_rows("v = sum(x, axes = 0);", -1, true);
    expect_rows("v = concat(x, x, axis = 0);", -1, true);
    expect_rows("v = slice(x, begin = [1, 0, 0], end = [3, 4, 6]);", -1, true);
    expect_rows("v = slice(x, begin = [0, 0, 0], end = [2, 4, 6]);", -1, true);
    expect_rows("v = pad(x, before = [1, 0, 0], after = [0, 0, 0]);", -1, true);
    expect_rows("v = max_pool(reshape(x, shape = (4, 24)), kernel_size = [3, 1], stride = 1, padding = [1, 0]);", -1, true);
}

Test(batch_rows, a_parameter_of_the_batchs_size_has_no_rows) {
    expect_rows("v = w + sum(w);", -1, false);
    expect_rows("v = transpose(w);", -1, false);
}

Test(batch_rows, replicas_are_no_rows) {
    const BatchRows found = trace("v = relu(x);", "parallel { mode = data_parallel; }");
    cr_expect_eq(found.at, 1);
    cr_expect_not(found.mixed);
}
