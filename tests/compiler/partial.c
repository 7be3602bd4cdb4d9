#include "compile.h"

#include "compiler/sharded.h"

#define PARALLEL "parallel { mode = auto; dataset = full_batch; }\n"

static void compile_net(Compiled *x, const char *statements, const char *tail, int nranks) {
    char text[2048];
    snprintf(text, sizeof text, "net n() { %s }\n" TRAIN "%s", statements, tail);
    compiled(x, text, nranks, 2);
}

/* Communications that add up terms. */
static int count_sums(const Compiled *x) {
    const Graph *g = &x->b->spmd.graph;
    int count = 0;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        count += node->op == OP_convert && layout_is_partial(g->values.at[node->in[0]].layout) &&
                 !layout_is_partial(g->values.at[node->out[0]].layout);
    }
    return count;
}

static const Layout *layout_of(const Compiled *x, const char *value) {
    return x->b->spmd.graph.values.at[value_named(&x->b->spmd.graph, value)].layout;
}

Test(partial, several_sums_are_added_up_before_one_reduction) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; input label : f32[8, 8]; param w0 : f32[8, 8] = ones; param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
        "e = matmul(x, w0) shard ((1, 1), (1, 1)); h = tanh(e) shard ((1, 1)); p = matmul(h, a) shard ((1, 1), (1, 4)); q = matmul(h, b) shard ((1, 1), (1, 4));\n"
        "d = p * q shard ((1, 4), (1, 4)); loss sum(d);",
        PARALLEL, 4);
    assert_layout(layout_of(&x, "h.grad"), "[- -] +sum(4@1)");
    assert_layout(layout_of(&x, "h.grad_2"), "[- -] +sum(4@1)");
    assert_layout(layout_of(&x, "d_h"), "[- -] +sum(4@1)");
    cr_expect_eq(count_sums(&x), 2, "d_h and the loss, saw %d", count_sums(&x));
    compiled_finish(&x);
}

Test(partial, terms_are_added_up_as_they_lie_whatever_the_split_of_their_sum) {
    Compiled x;
    /* p and q owe 4@1, over which their sum is split: one ReduceScatter of p + q, not one of each. */
    compile_net(&x,
                "input x : f32[8, 8]; input label : f32[8, 8]; param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
                "p = matmul(x, a) shard ((1, 4), (4, 1)); q = matmul(label, b) shard ((1, 4), (4, 1)); h = p + q; loss mse(h, label);",
                PARALLEL, 4);
    assert_layout(layout_of(&x, "h"), "[- -] +sum(4@1)");
    cr_expect_eq(count_sums(&x), 2, "h and the loss, saw %d", count_sums(&x));
    compiled_finish(&x);
}

Test(partial, scaled_and_turned_terms_are_added_up_as_they_lie) {
    Compiled x;
    compile_net(&x,
                "input x : f32[8, 8]; input label : f32[8, 8]; param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
                "p = matmul(x, a) shard ((1, 4), (4, 1)); q = matmul(label, b) shard ((1, 4), (4, 1)); s = transpose(-q);\n"
                "h = 3 * p - s / 2; loss mse(h, label);",
                PARALLEL, 4);
    assert_layout(layout_of(&x, "s"), "[- -] +sum(4@1)");
    assert_layout(layout_of(&x, "h"), "[- -] +sum(4@1)");
    cr_expect_eq(count_sums(&x), 2, "h and the loss, saw %d", count_sums(&x));
    compiled_finish(&x);
}

Test(partial, terms_that_are_to_be_converted_alike_are_added_up_first) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; input label : f32[8, 8]; param a : f32[8, 8] = ones;\n"
        "e = matmul(x, a) shard ((4, 1), (1, 1)); h = tanh(e) shard ((4, 1)); p = square(h) shard ((1, 4)); q = gelu(h) shard ((1, 4));\n"
        "m = p * q shard ((1, 4), (1, 4)); loss sum(m);",
        PARALLEL, 4);
    assert_layout(layout_of(&x, "d_h"), "[- 4@1]");
    compiled_finish(&x);
}

Test(partial, a_term_of_fewer_dimensions_than_the_other_is_left_as_it_is) {
    Compiled x;
    compile_net(&x, "input x : f32[2, 2, 1]; input label : f32[1, 2]; v = -x; h = label - v; loss sum(h);",
                "parallel { mode = semi_auto; dataset = auto; }\n", 2);
    cr_expect_eq(layout_of(&x, "h")->ndim, 3);
    compiled_finish(&x);
}

Test(partial, a_sum_with_a_strategy_of_its_own_keeps_it) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; input label : f32[8, 8]; param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
        "p = matmul(x, a) shard ((1, 4), (4, 1)); q = matmul(label, b) shard ((1, 4), (4, 1)); h = p + q shard ((4, 1), (4, 1)); loss mse(h, label);",
        PARALLEL, 4);
    assert_layout(layout_of(&x, "h"), "[4@1 -]");
    compiled_finish(&x);
}

Test(partial, products_are_added_up_first_so_that_a_residual_does_not_stand_between_them) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; param w0 : f32[8, 8] = ones; param a : f32[8, 8] = ones; param b : f32[8, 8] = ones;\n"
        "e = matmul(x, w0) shard ((1, 1), (1, 1)); h = tanh(e) shard ((1, 1)); p = matmul(h, a) shard ((1, 1), (1, 4)); q = matmul(h, b) shard ((1, 1), (1, 4));\n"
        "d = h * h shard ((1, 1), (1, 1)); f = sum(d) shard ((1, 1)); g = p * q shard ((1, 4), (1, 4)); loss sum(g) + f;",
        PARALLEL, 4);
    cr_expect_eq(count_sums(&x), 2, "saw %d", count_sums(&x));
    compiled_finish(&x);
}

Test(partial, a_sum_is_completed_behind_what_makes_it_smaller) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; input label : f32[8]; param w : f32[8, 16] = ones;\n"
        "h = matmul(x, w) shard ((1, 4), (4, 1)); t = transpose(h) shard ((1, 1)); m = mean(t, axes = 0) shard ((1, 1)); loss mse(m, label);",
        PARALLEL, 4);
    assert_layout(layout_of(&x, "t"), "[- -] +sum(4@1)");
    assert_layout(layout_of(&x, "m"), "[-] +sum(4@1)");
    compiled_finish(&x);
}

Test(partial, a_product_takes_one_sum_when_its_result_is_smaller) {
    Compiled x;
    compile_net(&x,
                "input x : f32[8, 8]; input label : f32[8, 2]; param w : f32[8, 32] = ones; param v : f32[32, 2] = ones;\n"
                "h = matmul(x, w) shard ((1, 4), (4, 1)); y = matmul(h, v) shard ((1, 1), (1, 1)); loss mse(tanh(y), label);",
                PARALLEL, 4);
    /* v's gradient takes h too: it is completed for that alone, or passed on through both. */
    cr_expect_leq(count_sums(&x), 4);
    compiled_finish(&x);
    compile_net(&x,
                "input x : f32[8, 8]; input v : f32[32, 2]; input label : f32[8, 2]; param w : f32[8, 32] = ones;\n"
                "h = matmul(x, w) shard ((1, 4), (4, 1)); y = matmul(h, v) shard ((1, 1), (1, 1)); loss mse(tanh(y), label);",
                PARALLEL, 4);
    assert_layout(layout_of(&x, "y"), "[- -] +sum(4@1)");
    compiled_finish(&x);
}

Test(partial, a_whole_value_is_never_added_to_a_sum_that_is_owed) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; input label : f32[8]; param w : f32[8, 8] = ones; param b : f32[8] = ones;\n"
        "h = matmul(x, w) shard ((1, 4), (4, 1)); y = h + b shard ((1, 1), (1)); m = sum(y, axes = 1) shard ((1, 1)); loss mse(m, label);",
        PARALLEL, 4);
    assert_layout(layout_of(&x, "y"), "[- -]");
    compiled_finish(&x);
}

Test(partial, a_value_that_a_nonlinear_operator_needs_is_completed_once_for_all) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[8, 8]; input label : f32[8, 8]; param w : f32[8, 8] = ones;\n"
        "h = matmul(x, w) shard ((1, 4), (4, 1)); a = tanh(h) shard ((1, 1)); b = -h shard ((1, 1)); y = a + b shard ((1, 1), (1, 1)); loss mse(y, label);",
        PARALLEL, 4);
    assert_layout(layout_of(&x, "b"), "[- -]");
    compiled_finish(&x);
}

Test(partial, what_brings_nothing_is_not_put_off) {
    Compiled x;
    compile_net(&x,
                "input x : f32[8, 8]; input label : f32[8, 8]; param w : f32[8, 8] = ones;\n"
                "h = matmul(x, w) shard ((1, 4), (4, 1)); b = -h shard ((1, 1)); y = tanh(b) shard ((1, 1)); loss mse(y, label);",
                PARALLEL, 4);
    assert_layout(layout_of(&x, "b"), "[- -]");
    compiled_finish(&x);
}

Test(partial, a_digit_that_the_operator_uses_is_not_passed_on) {
    Compiled x;
    compile_net(&x,
                "input x : f32[8, 8]; input label : f32[8]; param w : f32[8, 8] = ones;\n"
                "h = matmul(x, w) shard ((1, 4), (4, 1)); m = sum(h, axes = 1) shard ((4, 1)); loss mse(m, label);",
                PARALLEL, 4);
    assert_layout(layout_of(&x, "m"), "[4@1]");
    compiled_finish(&x);
}

static ConversionCost cost_of_all(Build *b) {
    ConversionCost sum = {0};
    Edit edit = edit_begin(b);
    for (int v = 0; v < edit.g->values.n; v++)
        cost_add(&sum, value_cost(&edit, v));
    return sum;
}

Test(partial, never_more_is_received_than_without) {
    int lower = 0;
    for (int i = 0; i < NNETS; i++)
        for (int nranks = 2; nranks <= 12; nranks += 2) {
            Compiled x;
            compiled_init(&x, nranks, 2);
            if (parsed_on(&x, nets[i]) && build_run(x.b, NULL, pass_partial)) { /* else a hint does not fit so many ranks */
                ConversionCost before = cost_of_all(x.b);
                cr_assert(pass_partial(x.b));
                ConversionCost between = cost_of_all(x.b);
                cr_assert(pass_place(x.b));
                ConversionCost after = cost_of_all(x.b);
                cr_expect(cost_not_worse(between, before), "net %d, %d ranks: partial", i, nranks);
                cr_expect(cost_not_worse(after, between), "net %d, %d ranks: place", i, nranks);
                lower += after.total < before.total;
            }
            compiled_finish(&x);
        }
    cr_expect_gt(lower, 0);
}

/* v3's gradient lies in thirds and halves and owes a sum; tanh wants it in halves of all ranks: 3@4 and 2@6 are not of one mesh. */
Test(partial, a_sum_is_not_passed_on_between_meshes_that_cannot_be_refined_together) {
    Compiled x;
    compile_net(&x,
                "param w0 : f64[3, 2] = ones; param w1 : f64[2, 2] = ones; param w4 : f64[2, 3] = ones;\n"
                "v2 = matmul(w0, w1); v3 = tanh(v2) shard ((1, 2)); v5 = matmul(v3, w4); loss sum(v5);",
                "parallel { mode = auto; }\n", 12);
    cr_expect_eq(x.c.error.code, 0, "%s", x.c.error.text);
    compiled_finish(&x);
}
