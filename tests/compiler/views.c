#include "compile.h"

/* The values that are views, and what of, in the order of the steps: "qt<q kt<k". */
static const char *views(const Compiled *x) {
    static char names[512];
    const Graph *g = &x->b->spmd.graph;
    names[0] = '\0';
    for (int i = 0; i < x->b->placement.order.n; i++) {
        const Node *node = &g->nodes.at[x->b->placement.order.at[i].node];
        for (int o = 0; o < node->nout && node->op != OP_write; o++) {
            const Location *at = &x->b->placement.location[node->out[o]];
            if (at->place == PLACE_VIEW)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s<%s", names[0] ? " " : "",
                         g->values.at[node->out[o]].name, g->values.at[at->at].name);
        }
    }
    return names;
}

static void expect(const char *net, int nranks, int optimize, const char *expected) {
    Compiled x;
    compiled(&x, net, nranks, optimize);
    cr_expect_str_eq(views(&x), expected, "%s\n%s", net, views(&x));
    compiled_finish(&x);
}

#define TRAINED " train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 1; } parallel { mode = auto; }"

/* Nothing that is trained depends on x: no gradients. */
#define FORWARD(statements)                                                                                                                \
    "net n() { input x : f32[4, 8, 6, 16]; input y : f32[4, 6, 16, 8]; input z : f32[4, 6, 8, 48]; param p : f32[8] = zeros; " statements  \
    " + sum(p); }" TRAINED

Test(views, a_transpose_before_a_product_is_one) {
    expect(FORWARD("xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(matmul(xt, y))"), 1, 2, "xt<x");
}

Test(views, nothing_is_one_below_O2) {
    for (int o = 0; o < 2; o++)
        expect(FORWARD("xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(matmul(xt, y))"), 1, o, "");
}

Test(views, several_products_may_read_one) {
    expect(FORWARD("xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(matmul(xt, y)) + sum(matmul(xt, xt, transpose_b = true))"), 1, 2,
           "xt<x");
}

Test(views, what_a_sum_reads_is_copied) {
    expect(FORWARD("xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(matmul(xt, y)) + sum(xt)"), 1, 2, "");
}

/* The library would be given the transpose of a matrix, and round elsewhere. */
Test(views, what_would_be_another_product_is_copied) {
    expect(
        FORWARD(
            "yt = transpose(y, perm = [0, 1, 3, 2]); xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(matmul(xt, yt, transpose_b = true))"),
        1, 2, "xt<x");
}

/* Rows of all places are one matrix as they lie, and a matrix for each head in the view. */
Test(views, what_would_be_more_products_is_copied) {
    expect(FORWARD("xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(matmul(xt, reshape(sum(y, axes = [0, 1]), shape = [16, 8])))"), 1, 2,
           "");
}

Test(views, a_split_and_what_reshapes_its_parts_are_views) {
    expect(FORWARD("a, b, c = split(z, parts = 3, axis = 3); at = reshape(a, shape = [24, 8, 16]); bt = reshape(b, shape = [24, 8, 16]); "
                   "ct = reshape(c, shape = [24, 8, 16]); loss sum(matmul(matmul(at, bt, transpose_b = true), ct))"),
           1, 2, "a<z b<z c<z at<a bt<b ct<c");
}

Test(views, a_split_of_which_one_part_is_copied_is_copied) {
    expect(FORWARD("a, b, c = split(z, parts = 3, axis = 3); loss sum(matmul(matmul(a, b, transpose_b = true), c)) + sum(c)"), 1, 2, "");
}

Test(views, elementwise_operators_read_them_where_neighbours_lie_side_by_side) {
    expect(FORWARD("xt = transpose(x, perm = [0, 2, 1, 3]); loss sum(exp(xt) * 2, axes = [0, 1, 2, 3])"), 1, 2, "xt<x");
    expect(FORWARD("xt = transpose(x); loss sum(exp(xt) * 2, axes = [0, 1, 2, 3])"), 1, 2, "");
}

Test(views, a_small_slice_keeps_no_large_tensor_alive) {
    expect(FORWARD("h = exp(z); a = slice(h, begin = [0, 0, 0, 0], end = [4, 6, 8, 24]); loss sum(matmul(a, a, transpose_b = true))"), 1, 2,
           "a<h");
    expect(FORWARD("h = exp(z); a = slice(h, begin = [0, 0, 0, 0], end = [4, 6, 8, 16]); loss sum(matmul(a, a, transpose_b = true))"), 1, 2,
           "");
}

/* Nor is it written by strides: m is read itself. */
Test(views, a_step_reads_views_of_no_more_steps_than_a_plan_allows) {
    char net[8192];
    int n = snprintf(net, sizeof net, "net n() { input x : f32[200, 8]; param w : f32[8, 8] = ones; s0 = matmul(x, w);\n");
    for (int i = 1; i <= MAX_VIEWS + 1; i++)
        n += snprintf(net + n, sizeof net - (size_t)n, "s%d = slice(s%d, begin = [1, 0], end = [%d, 8]);\n", i, i - 1, 201 - i);
    snprintf(net + n, sizeof net - (size_t)n, "loss mean(tanh(s%d)); }" TRAINED, MAX_VIEWS + 1);
    Compiled x;
    compiled(&x, net, 1, 2);
    int nviews = 0;
    for (int v = 0; v < x.b->spmd.graph.values.n; v++)
        nviews += x.b->placement.view[v] >= 0;
    cr_expect(nviews == MAX_VIEWS, "%d", nviews);
    compiled_finish(&x);
}

Test(views, a_product_that_is_read_itself_is_stored) {
    Compiled x;
    compiled(&x, FORWARD("m = matmul(transpose(x, perm = [0, 2, 1, 3]), y); loss sum(transpose(m, perm = [0, 2, 1, 3])) + sum(m)"), 1, 2);
    for (int i = 0; i < x.b->placement.order.n; i++)
        cr_expect(x.b->placement.order.at[i].fused == 0 || x.b->spmd.graph.nodes.at[x.b->placement.order.at[i].node].op != OP_matmul);
    compiled_finish(&x);
}

/* The operand of a view lasts until the view's last reader: nothing else lies there meanwhile. */
Test(views, what_a_view_lies_in_is_kept) {
    Compiled x;
    compiled(
        &x,
        FORWARD(
            "h = exp(x); xt = transpose(h, perm = [0, 2, 1, 3]); m = matmul(xt, y); e = exp(y) * 2; f = sum(matmul(xt, e)); loss sum(m) + f"),
        1, 2);
    const Graph *g = &x.b->spmd.graph;
    int64_t begin = -1, end = -1;
    for (int v = 0; v < g->values.n; v++)
        if (strcmp(g->values.at[v].name, "h") == 0) begin = x.b->placement.location[v].at, end = begin + x.b->spmd.box_bytes[v];
    cr_assert_geq(begin, 0);
    for (int v = 0; v < g->values.n; v++) {
        const Location *at = &x.b->placement.location[v];
        if (strcmp(g->values.at[v].name, "m") == 0 || strcmp(g->values.at[v].name, "e") == 0)
            cr_expect(at->place != PLACE_ARENA || at->at >= end || at->at + x.b->spmd.box_bytes[v] <= begin, "%s lies in h",
                      g->values.at[v].name);
    }
    cr_expect_str_eq(views(&x), "xt<h");
    compiled_finish(&x);
}

/* No product reads a parameter after its update. */
Test(views, a_view_of_a_parameter_is_read_before_its_update) {
    Compiled x;
    compiled(&x, "net n() { input x : f32[4, 6]; param w : f32[8, 6] = normal(0.5); loss mean(square(matmul(x, transpose(w)))); }" TRAINED,
             1, 2);
    cr_expect_str_empty(views(&x)); /* it would be the transpose of a matrix */
    compiled_finish(&x);
    compiled(
        &x,
        "net n() { input x : f32[6, 4, 8]; param w : f32[8, 6, 5] = normal(0.5); wt = transpose(w, perm = [1, 0, 2]); loss mean(square(matmul(x, wt))); }" TRAINED,
        1, 2);
    cr_expect_str_eq(views(&x), "wt<w");
    compiled_finish(&x);
}
