#include "compile.h"

#define NET(BODY) "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones;\n" BODY "\n}\n" TRAIN "parallel { mode = semi_auto; }\n"

static void simplified(Compiled *x, const char *text, int what) {
    Error error;
    parsed(x, text);
    graph_simplify(x->graph, what);
    cr_assert(graph_verify(x->graph, "simplify", &error), "%s", error.text);
}

Test(simplify, composites_are_expanded) {
    Compiled x;
    simplified(&x, NET("loss mse(matmul(x, w), x);"), SIMPLIFY_ALL);
    for (int n = 0; n < x.graph->nodes.n; n++)
        cr_expect(op_table[x.graph->nodes.at[n].op].expand == NULL);
    cr_expect_eq(count_op(x.graph, OP_mean), 1);
    compiled_finish(&x);
}

Test(simplify, equal_nodes_become_one) {
    Compiled x;
    simplified(&x, NET("loss sum(relu(matmul(x, w)) + relu(matmul(x, w)));"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_matmul), 1);
    cr_expect_eq(count_op(x.graph, OP_relu), 1);
    compiled_finish(&x);
}

Test(simplify, nodes_of_other_attributes_or_hints_stay_apart) {
    Compiled x;
    simplified(&x, NET("h = matmul(x, w) shard ((1, 1), (1, 1)); loss sum(matmul(x, w) + matmul(x, w, transpose_b = true) + h);"),
               SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_matmul), 3);
    compiled_finish(&x);
}

Test(simplify, times_one_and_minus_zero_vanish) {
    Compiled x;
    simplified(&x, NET("loss sum((matmul(x, w) * 1 / 1 - 0) * 1);"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_mul) + count_op(x.graph, OP_div) + count_op(x.graph, OP_sub), 0);
    compiled_finish(&x);
}

Test(simplify, adding_a_float_zero_stays_for_it_changes_minus_zero) {
    Compiled x;
    simplified(&x, NET("loss sum(matmul(x, w) + 0);"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_add), 1);
    compiled_finish(&x);
}

/* A loop over losses begins with 0. A sum of what is not negative has no -0, whatever the order in which it is added up. */
Test(simplify, adding_zero_to_what_is_never_minus_zero_vanishes) {
    static const struct {
        const char *loss;
        int adds;
    } cases[] = {
        {"loss 0 + mse(matmul(x, w), label);", 0},
        {"loss sum(square(matmul(x, w)) + 0);", 0},
        {"loss sum(exp(matmul(x, w)) * 2 + 0);", 0},
        {"loss 0 + mean(-log_softmax(matmul(x, w)));", 0},
        {"total = 0; for i in 0..3 { total = total + mse(matmul(x, w) * (i + 1), label); } loss total;", 2},
        {"loss sum(exp(matmul(x, w)) * -2 + 0);", 1},
        {"loss sum(-exp(matmul(x, w)) + 0);", 1},
        {"loss sum(relu(matmul(x, w)) + 0);", 1},         /* the larger of -0 and 0 may be either */
        {"loss sum(-log_softmax(matmul(x, w)) + 0);", 1}, /* -log(1) is -0 */
        {"loss 0 + sum(matmul(x, w));", 1},               /* what is too small for a float keeps its sign */
        {"loss sum(square(matmul(x, w)) * matmul(x, w) + 0);", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const modes[] = {"stand_alone", "data_parallel"};
        for (int mode = 0; mode < 2; mode++) {
            Compiled x;
            Text text = {0};
            text_printf(&text,
                        "net n() { input x : f32[8, 4]; input label : f32[8, 4]; param w : f32[4, 4] = ones; %s }\n" TRAIN
                        "parallel { mode = %s; }\n",
                        cases[i].loss, modes[mode]);
            simplified(&x, text.at, SIMPLIFY_ALL);
            cr_expect_eq(count_op(x.graph, OP_add), cases[i].adds, "%s, %s: %d additions", cases[i].loss, modes[mode],
                         count_op(x.graph, OP_add));
            compiled_finish(&x);
            text_finish(&text);
        }
    }
}

Test(simplify, inverse_pairs_vanish_and_what_they_used_dies) {
    Compiled x;
    simplified(&x, NET("loss sum(neg(neg(transpose(transpose(matmul(x, w))))));"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_neg) + count_op(x.graph, OP_transpose), 0);
    compiled_finish(&x);
}

Test(simplify, dimensions_counted_from_the_end_are_the_same_ones) {
    Compiled x;
    simplified(&x, NET("loss sum(transpose(transpose(matmul(x, w), perm = [-1, 0]), perm = [1, -2]));"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_transpose), 0);
    compiled_finish(&x);
}

Test(simplify, a_transpose_that_is_not_undone_stays) {
    Compiled x;
    simplified(&x,
               "net n() { input x : f32[2, 3, 4]; param w : f32[2, 3, 4] = ones;\n"
               "loss sum(transpose(transpose(x * w, perm = [1, 2, 0]), perm = [1, 2, 0])); }\n" TRAIN "parallel { mode = semi_auto; }\n",
               SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_transpose), 2);
    compiled_finish(&x);
}

Test(simplify, reshapes_in_a_row_become_one) {
    Compiled x;
    simplified(&x, NET("loss sum(reshape(reshape(matmul(x, w), shape = [16]), shape = [2, -1]));"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_reshape), 1);
    compiled_finish(&x);
}

Test(simplify, a_hint_keeps_an_identity) {
    Compiled x;
    simplified(&x, NET("h = matmul(x, w) * 1 shard ((1, 1), ()); loss sum(h);"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_mul), 1);
    compiled_finish(&x);
}

Test(simplify, what_no_output_needs_is_gone) {
    Compiled x;
    simplified(&x, NET("unused = exp(matmul(x, x)); loss sum(matmul(x, w));"), SIMPLIFY_ALL);
    cr_expect_eq(count_op(x.graph, OP_exp), 0);
    cr_expect_eq(count_op(x.graph, OP_matmul), 1);
    compiled_finish(&x);
}

/* What an index input holds in the proof follows from the net as it is written: its uses may be taken away, and what is computed from it simplified. */
Test(simplify, uses_of_an_index_may_go) {
    static const char *const index[] = {"i",
                                        "i + 0",
                                        "i - 0",
                                        "i * 1",
                                        "-(-i)",
                                        "i - 1",
                                        "3 - i",
                                        "2 * i - 1",
                                        "i + j - j",
                                        "i + 0 * i",
                                        "reshape(i + 0, shape = [4, 2])",
                                        "slice(concat(i, i - 0), begin = [4], end = [12])",
                                        "where(less(i, 2), i, i * 1)",
                                        "cast(cast(i + 0, to = i64) * 1, to = i32)",
                                        "max(reshape(i + 0, shape = [8, 1]), axes = 1)"};
    static const char *const use[] = {"embedding(t, k)", "one_hot(k, depth = 5) * 1.5", "pick(y, reshape(k, shape = [8]))",
                                      "cross_entropy(y, reshape(k, shape = [8]))"};
    static const char *const unused[] = {"i", "embedding(u, i)", "pick(x, i - 0)", "one_hot(-(-i), depth = 2)", "embedding(u, i + 5)"};
    for (size_t a = 0; a < sizeof index / sizeof *index; a++)
        for (size_t b = 0; b < sizeof use / sizeof *use; b++)
            for (size_t c = 0; c < sizeof unused / sizeof *unused; c++) {
                Compiled x;
                Text text = {0};
                text_printf(
                    &text,
                    "net n() { input i : i32[8]; input j : i32[8]; input x : f32[8, 7];\n"
                    "param t : f32[7, 4] = normal(1); param u : f32[3, 4] = normal(1); param w : f32[7, 5] = normal(1);\n"
                    "y = matmul(x, w); k = %s; e = %s; unused = %s; loss mean(square(e)) + mean(square(y)) + mean(square(embedding(t, j))); }\n"
                    "train { data = npy(i = \"i\", j = \"j\", x = \"x\"); optimizer = sgd(lr = 0.1); }\n",
                    index[a], use[b], unused[c]);
                compiled_init(&x, 4, 2);
                x.options.proof.full = true;
                cr_expect(compiled_run(&x, text.at), "%s: %s", text.at, x.c.error.text);
                compiled_finish(&x);
                text_finish(&text);
            }
}

/* Its update overwrites it: what is reported after the step is a copy. The proof shows that this is the value from before. */
Test(simplify, a_loss_that_is_a_parameter_is_reported_as_it_was) {
    static const char *const losses[] = {"loss w;", "loss w * 1;", "loss reshape(w, shape = []);"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        for (int level = 0; level <= 2; level++) {
            Compiled x;
            char net[512];
            snprintf(net, sizeof net, "net n { input x : f32[8, 4]; param w : f32[] = ones; %s }\n" TRAIN, losses[i]);
            compiled(&x, net, 2, level);
            cr_expect_neq(graph_producer(&x.b->front.graph, x.b->front.graph.loss)->op, OP_read, "%s", losses[i]);
            cr_expect_not_null(strstr(x.c.text.at, "write 0 "), "%s", x.c.text.at);
            compiled_finish(&x);
        }
}
