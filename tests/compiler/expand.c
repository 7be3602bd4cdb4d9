#include "compile.h"
#include "proof/field.h"

/* A function along rows between two parameters: nothing but it, and the loss, communicates. `shard` is a tuple. */
static void rows_net(Compiled *x, const char *size, const char *function, const char *shard, const char *more, int nranks, int optimize) {
    char text[1024];
    snprintf(text, sizeof text,
             "net n() { param x : f32[%s] = normal(1); param r : f32[%s] = normal(1);\n y = %s shard (%s); z = y * r shard (%s, %s); loss "
             "sum(z); }\n"
             "train { optimizer = sgd(lr = 0.1); steps = 2; %s}\nparallel { mode = auto; }\n",
             size, size, function, shard, shard, shard, more);
    compiled_init(x, nranks, optimize);
    x->options.proof.full = true;
    x->diags.silenced = x->options.silenced = 1 << WARN_UNEVEN | 1 << WARN_REPLICATED;
    if (compiled_run(x, text)) return;
    diags_print(&x->diags, stderr);
    cr_assert_fail("does not compile: %s\n%s", x->c.error.text, text);
}

static const char *const functions[] = {"softmax(x)", "log_softmax(x)"};
enum { NFUNCTIONS = 2 };

static const Node *maker(const Graph *g, const char *value) {
    return &g->nodes.at[g->values.at[value_named(g, value)].node];
}

Test(expand, whole_rows_stay_one_operator) {
    for (int optimize = 0; optimize <= 2; optimize++) {
        Compiled x;
        rows_net(&x, "8, 12", "softmax(x)", "(4, 1)", "", 4, optimize);
        cr_expect_eq(count_op(x.graph, OP_softmax), 1);
        cr_expect_eq(count_op(x.graph, OP_softmax_grad), 1);
        cr_expect_eq(count_op(x.graph, OP_exp), 0);
        cr_expect_null(x.b->front.chosen_node);
        cr_expect_eq(x.b->front.chosen.nodes.at, x.b->front.graph.nodes.at);
        compiled_finish(&x);
    }
}

Test(expand, split_rows_become_operators_that_can_be_split) {
    static const OpCode whole[] = {OP_softmax, OP_softmax_grad, OP_log_softmax, OP_log_softmax_grad};
    for (int k = 0; k < NFUNCTIONS; k++) {
        Compiled x;
        rows_net(&x, "8, 12", functions[k], "(1, 4)", "", 4, 2);
        const Graph *g = x.graph;
        for (int i = 0; i < 4; i++)
            cr_expect_eq(count_op(g, whole[i]), 0);
        cr_expect_eq(count_op(g, OP_max), 1);
        cr_expect_eq(count_op(g, OP_exp), 1, "the gradient has the exponentials of the forward pass");
        cr_expect_eq(count_op(&x.b->front.chosen, k ? OP_log_softmax : OP_softmax), 1);
        const Node *y = maker(g, "y"), *most = maker(g, "y.max");
        cr_expect_eq(y->op, k ? OP_sub : OP_div);
        cr_expect_eq(y->from, STRATEGY_USER);
        cr_expect_not_null(y->hint);
        assert_layout(g->values.at[y->out[0]].layout, "[- 4@1]");
        assert_layout(g->values.at[most->out[0]].layout, "[- -] +max(4@1)");
        assert_layout(x.b->sharded.need[most - g->nodes.at][0], "[- 4@1]");
        cr_expect_eq(x.b->front.chosen.nodes.at[chosen_of(x.b, (int)(most - g->nodes.at))].op, k ? OP_log_softmax : OP_softmax);
        cr_expect(x.c.proof.simplified && x.c.proof.gradients_run && x.c.proof.whole_plan);
        compiled_finish(&x);
    }
}

/* What a step sends beyond what it sends with tanh in place of the function, by the busiest rank. */
static int64_t extra_bytes(const char *size, int function, const char *shard, int nranks, int optimize, int *communications) {
    Compiled with, without;
    rows_net(&with, size, functions[function], shard, "", nranks, optimize);
    rows_net(&without, size, "tanh(x)", shard, "", nranks, optimize);
    *communications = count_op(&with.b->spmd.graph, OP_convert) - count_op(&without.b->spmd.graph, OP_convert);
    cr_expect_eq(count_kind(&with.b->spmd.graph, COMM_ALL_GATHER), 0);
    cr_expect_eq(count_kind(&with.b->spmd.graph, COMM_ALL_TO_ALL), 0);
    cr_expect_eq(count_kind(&with.b->spmd.graph, COMM_EXCHANGE), 0);
    cr_expect_eq(count_kind(&with.b->spmd.graph, COMM_ALL_REDUCE), count_kind(&without.b->spmd.graph, COMM_ALL_REDUCE) + 3);
    int64_t bytes = with.c.plan.programs.at[0].sent_bytes - without.c.plan.programs.at[0].sent_bytes;
    compiled_finish(&with);
    compiled_finish(&without);
    return bytes;
}

/* Of an AllReduce over R ranks each sends 2 (R - 1) / R of the tensor, here a number a row. */
Test(expand, two_numbers_a_row_are_reduced_forward_and_one_backward) {
    static const int ranks[] = {2, 3, 4, 6, 8};
    for (int i = 0; i < 5; i++)
        for (int optimize = 0; optimize <= 2; optimize++)
            for (int function = 0; function < NFUNCTIONS; function++) {
                char shard[32];
                int communications, R = ranks[i];
                snprintf(shard, sizeof shard, "(1, %d)", R);
                cr_expect_eq(extra_bytes("24, 13", function, shard, R, optimize, &communications), 3 * 2 * (R - 1) * 24 / R * 4);
                cr_expect_eq(communications, 3);
            }
}

Test(expand, ranks_with_other_rows_take_no_part) {
    int communications;
    cr_expect_eq(extra_bytes("24, 12", 0, "(4, 2)", 8, 2, &communications), 3 * 2 * 1 * (24 / 4) / 2 * 4);
    cr_expect_eq(communications, 3);
}

Test(expand, the_axis_may_be_any) {
    Compiled x;
    rows_net(&x, "4, 6, 3", "log_softmax(x, axis = 1)", "(2, 3, 1)", "", 6, 2);
    cr_expect_eq(count_op(x.graph, OP_log_softmax), 0);
    assert_layout(x.graph->values.at[value_named(x.graph, "y.sum")].layout, "[2@3 - -] +sum(3@1)");
    compiled_finish(&x);
    rows_net(&x, "4, 6, 3", "log_softmax(x, axis = 1)", "(2, 1, 3)", "", 6, 2);
    cr_expect_eq(count_op(x.graph, OP_log_softmax), 1);
    compiled_finish(&x);
}

Test(expand, a_result_asked_for_in_another_layout_is_converted_to_it) {
    Compiled x;
    compiled(&x,
             "net n() { param x : f32[8, 12] = normal(1);\n y = softmax(x) shard ((1, 4)) -> (4, 1); loss sum(y * y); }\n" TRAIN
             "parallel { mode = auto; }\n",
             4, 2);
    int y = value_named(x.graph, "y");
    assert_layout(x.graph->values.at[y].layout, "[- 4@1]");
    assert_layout(x.b->sharded.home[y], "[4@1 -]");
    compiled_finish(&x);
}

/* Gradients that two users of a result give are added up in a node that reuses the strategy of the operator. */
Test(expand, what_reused_its_strategy_reuses_its_last_operators) {
    Compiled x;
    compiled(&x,
             "net n() { param x : f32[8, 12] = normal(1); param r : f32[8, 12] = normal(1);\n y = softmax(x) shard ((1, 4)); loss "
             "sum(tanh(y) + exp(y)); }\n" TRAIN "parallel { mode = auto; }\n",
             4, 2);
    const Node *sum = maker(x.graph, "d_y");
    cr_assert_eq(sum->op, OP_add);
    cr_expect_eq(x.graph->nodes.at[sum->origin].op, OP_div);
    assert_layout(x.graph->values.at[sum->out[0]].layout, "[- 4@1]");
    compiled_finish(&x);
}

Test(expand, every_batch_of_a_step_is_expanded_alike) {
    for (int k = 0; k < NFUNCTIONS; k++) {
        Compiled x;
        char text[512];
        snprintf(
            text, sizeof text,
            "net n() { input x : f32[4, 6]; param w : f32[6, 12] = normal(1); y = %s(matmul(x, w)) shard ((1, 4)); loss mean(y * y); }\n"
            "train { data = numpy_rand(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); accumulate = 3; }\n",
            k ? "log_softmax" : "softmax");
        compiled_init(&x, 4, 2);
        x.options.proof.full = true;
        cr_assert(compiled_run(&x, text), "%s", x.c.error.text);
        const Graph *g = x.graph;
        cr_expect_eq(count_op(g, OP_softmax) + count_op(g, OP_log_softmax), 0);
        cr_expect_eq(count_op(g, OP_max), 3);
        for (int n = g->nforward; n < g->nodes.n; n++) {
            const Node *node = &g->nodes.at[n], *origin = &g->nodes.at[node->origin];
            if (node->op != OP_max && node->op != OP_exp) continue;
            cr_expect(node->micro > 0 && node->origin < g->nforward && origin->op == node->op, "%s", node->name);
        }
        cr_expect(x.c.proof.simplified && x.c.proof.gradients_run);
        compiled_finish(&x);
    }
}

/* The rows of a norm are split, and so are its weight and bias; each batch of a step has its own mean, and its own gradient. */
Test(expand, norms_of_split_rows_reduce_numbers_a_row) {
    for (int centered = 0; centered < 2; centered++)
        for (int batches = 1; batches <= 3; batches += 2) {
            Compiled x;
            char text[768];
            snprintf(
                text, sizeof text,
                "net n() { input x : f32[4, 6]; param w : f32[6, 12] = normal(1); param g : f32[12] = uniform(0.5, 1.5); param b : f32[12] = normal(1);\n"
                " h = matmul(x, w); y = %s shard (%s); loss mean(y * y * y); }\n"
                "train { data = numpy_rand(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); accumulate = %d; }\n",
                centered ? "layer_norm(h, g, b, eps = 0.25)" : "rms_norm(h + b, g, eps = 0.25)",
                centered ? "(2, 4), (4), (4)" : "(2, 4), (4)", batches);
            compiled_init(&x, 8, 2);
            x.options.proof.full = true;
            cr_assert(compiled_run(&x, text), "%s", x.c.error.text);
            const Graph *g = x.graph;
            cr_expect_eq(
                count_op(g, OP_layer_norm) + count_op(g, OP_rms_norm) + count_op(g, OP_layer_norm_grad) + count_op(g, OP_rms_norm_grad), 0);
            cr_expect_eq(count_op(g, OP_rsqrt), batches);
            assert_layout(g->values.at[value_named(g, "g.grad")].layout, "[4@1] +sum(2@4)");
            for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
                const Node *node = &x.b->spmd.graph.nodes.at[n];
                const Value *of = &x.b->spmd.graph.values.at[node->nin > 0 ? node->in[0] : 0];
                if (node->op == OP_convert && batches == 1 && strncmp(of->name, "w.grad", 6) != 0)
                    cr_expect_leq(shape_elements(&of->type.shape), 12, "%s is a number a row, or a sum of rows", of->name);
            }
            cr_expect(x.c.proof.simplified && x.c.proof.gradients_run);
            compiled_finish(&x);
        }
}

/* Of a batch that is split nothing crosses ranks but numbers a channel, and the gradients of other parameters. */
Test(expand, batch_norm_of_a_split_batch_reduces_numbers_a_channel) {
    for (int batches = 1; batches <= 3; batches += 2) {
        Compiled x;
        char text[768];
        snprintf(
            text, sizeof text,
            "net n() { input x : f32[8, 6, 4]; param v : f32[8, 6, 4] = normal(1); param g : f32[6] = uniform(0.5, 1.5); param b : f32[6] = normal(1);\n"
            " y, mean, variance = batch_norm(x * v, g, b, eps = 0.25) shard ((4, 2, 1), (2), (2)); loss mean(y * y * y) + sum(mean * variance); }\n"
            "train { data = numpy_rand(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); accumulate = %d; }\n",
            batches);
        compiled_init(&x, 8, 2);
        x.options.proof.full = true;
        cr_assert(compiled_run(&x, text), "%s", x.c.error.text);
        const Graph *g = x.graph;
        cr_expect_eq(count_op(g, OP_batch_norm) + count_op(g, OP_batch_norm_grad), 0);
        cr_expect_eq(count_op(g, OP_rsqrt), 2 * batches);
        assert_layout(g->values.at[value_named(g, "y")].layout, "[4@2 2@1 -]");
        for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
            const Node *node = &x.b->spmd.graph.nodes.at[n];
            const Value *of = &x.b->spmd.graph.values.at[node->nin > 0 ? node->in[0] : 0];
            if (node->op == OP_convert) cr_expect_leq(shape_elements(&of->type.shape), 6, "%s is a number a channel", of->name);
        }
        cr_expect(x.c.proof.simplified && x.c.proof.gradients_run);
        compiled_finish(&x);
    }
}

/* Channels that are split are each whole: one operator, and one for its gradient, which is proved. */
Test(expand, batch_norm_of_split_channels_is_one_operator) {
    Compiled x;
    compiled_init(&x, 2, 2);
    x.options.proof.full = true;
    cr_assert(
        compiled_run(
            &x,
            "net n() { input x : f32[8, 6, 4]; param v : f32[8, 6, 4] = normal(1); param g : f32[6] = uniform(0.5, 1.5); param b : f32[6] = normal(1);\n"
            " y, mean, variance = batch_norm(x * v, g, b, eps = 0.25) shard ((1, 2, 1), (2), (2)); loss mean(y * y * y) + sum(mean * variance); }\n"
            "train { data = numpy_rand(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); }\n"),
        "%s", x.c.error.text);
    cr_expect_eq(count_op(x.graph, OP_batch_norm), 1);
    cr_expect_eq(count_op(x.graph, OP_batch_norm_grad), 1);
    assert_layout(x.graph->values.at[value_named(x.graph, "y")].layout, "[- 2@1 -]");
    cr_expect(x.c.proof.gradients_run);
    compiled_finish(&x);
}

/* An attention whose keys are split: the gradient is computed of each rank's keys, and no rank gets those of others. */
Test(expand, the_gradient_of_an_attention_is_split_as_its_keys_are) {
    for (int masked = 0; masked < 2; masked++) {
        Compiled x;
        char text[768];
        snprintf(
            text, sizeof text,
            "net n() { input t : f32[8, 12]; input on : bool[6, 12]; param q : f32[6, 8] = normal(1); param v : f32[12, 8] = normal(1); param w : f32[8, 8] = normal(1);\n"
            " k = matmul(transpose(t), w); y = dot_product_attention(q, k, v%s) shard %s; loss mean(y * y); }\n"
            "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); epochs = 1; steps = 2; }\nparallel { mode = auto; dataset = full_batch; }\n",
            masked ? ", on" : "", masked ? "((1, 1), (4, 1), (4, 1), (1, 4))" : "((1, 1), (4, 1), (4, 1))");
        compiled(&x, text, 4, 2);
        const Graph *g = x.graph;
        cr_expect_eq(count_op(g, OP_dot_product_attention), 0);
        for (int n = 0; n < g->nodes.n; n++) {
            const Node *node = &g->nodes.at[n];
            if (node->op != OP_attention_grad) continue;
            assert_layout(x.b->sharded.need[n][2], "[4@1 -]");
            assert_layout(x.b->sharded.need[n][3], "[4@1 -]");
            if (masked) assert_layout(x.b->sharded.need[n][7], "[- 4@1]");
            assert_layout(x.b->sharded.made[node->out[0]], "[- -] +sum(4@1)");
            assert_layout(x.b->sharded.made[node->out[1]], "[4@1 -]");
        }
        cr_expect_eq(count_op(g, OP_attention_grad), 1);
        compiled_finish(&x);
    }
}

/* Scores of a query against keys that lie on several ranks, as they come out of a product whose second operand is split. */
Test(expand, propagation_splits_rows_that_are_there_split) {
    Compiled x;
    compiled(
        &x,
        "net n() { input q : f32[6, 8]; input label : f32[6, 8]; param k : f32[128, 8] = normal(1); param v : f32[128, 8] = normal(1);\n"
        " s = matmul(q, k, transpose_b = true) shard ((1, 1), (4, 1)); p = softmax(s); c = matmul(p, v); loss mse(c, label); }\n" TRAIN
        "parallel { mode = auto; dataset = full_batch; }\n",
        4, 2);
    assert_layout(x.graph->values.at[value_named(x.graph, "p")].layout, "[- 4@1]");
    cr_expect_eq(maker(x.graph, "p")->from, STRATEGY_PROPAGATED);
    for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
        const Node *node = &x.b->spmd.graph.nodes.at[n];
        if (node->op == OP_convert)
            cr_expect_leq(shape_elements(&x.b->spmd.graph.values.at[node->in[0]].type.shape), 6 * 8, "%s is a row of scores", node->name);
    }
    compiled_finish(&x);
}

Test(expand, an_eval_splits_the_rows_that_training_splits) {
    static const char *const modes[] = {"auto", "semi_auto"};
    for (int m = 0; m < 2; m++) {
        Compiled x;
        char text[1024];
        snprintf(text, sizeof text,
                 "net n(batch = 16) { input x : f32[batch, 8]; input t : f32[batch, 12]; param w : f32[8, 12] = normal(1);\n"
                 " y = softmax(matmul(x, w)) shard ((2, 4)); loss mse(y, t); }\n"
                 "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }\n"
                 "eval { batch = 12; data = normal(seed = 2); steps = 3; }\nparallel { mode = %s; }\n",
                 modes[m]);
        compiled(&x, text, 8, 2);
        const Graph *g = &program_eval(&x.c)->sharded.graph;
        cr_expect_eq(count_op(g, OP_softmax), 0);
        assert_layout(g->values.at[value_named(g, "y")].layout, "[2@4 4@1]");
        compiled_finish(&x);
    }
}

Test(expand, hidden_slices_have_whole_rows) {
    Compiled x;
    compiled(&x,
             "net n() { input x : f32[4, 8]; param w : f32[8, 12] = normal(1); loss mean(square(softmax(matmul(x, w)))); }\n" TRAIN
             "parallel { mode = data_parallel; }\n",
             4, 2);
    cr_expect_eq(count_op(x.graph, OP_softmax), 1);
    compiled_finish(&x);
}

/* ---------------------------------------------------------------- templates of several results */

/* split as one slice for each of its results. */
static void slices(Graph *g, const Node *node, int *out) {
    const Shape *shape = &g->values.at[node->in[0]].type.shape;
    const int axis = (int)node->attr[1].i;
    const int64_t size = shape->dim[axis] / node->nout;
    Attr attr[MAX_ATTRS] = {{.given = true, .n = shape->ndim}, {.given = true, .n = shape->ndim}};
    memcpy(attr[1].ints, shape->dim, sizeof *shape->dim * (size_t)shape->ndim);
    for (int k = 0; k < node->nout; k++) {
        attr[0].ints[axis] = k * size;
        attr[1].ints[axis] = (k + 1) * size;
        out[k] = graph_emit(g, OP_slice, node->in, 1, attr, node->name, node->span);
    }
}

static ExpandFn *of_split(const Graph *g, int id) {
    return g->nodes.at[id].op == OP_split ? slices : NULL;
}

#define PARTS(SHARD)                                                                                                                       \
    "net n() { param x : f32[8, 6] = normal(1); param w : f32[6, 6] = normal(1);\n g = matmul(x, w); h = tanh(g)" SHARD                    \
    "; a, b, c = split(h, parts = 3, axis = 1)" SHARD "; r = relu(a)" SHARD "; loss sum(b * r); }\n" TRAIN "parallel { mode = auto; }\n"

Test(expand, each_result_of_a_template_replaces_its_own) {
    Compiled x;
    char why[512] = "";
    int ngradients;
    parsed(&x, PARTS(""));
    const Graph before = *x.graph;
    cr_assert(graph_expand(x.graph, of_split, NULL));
    cr_assert(graph_verify(x.graph, "expand", &x.b->error), "%s", x.b->error.text);
    cr_expect_eq(count_op(x.graph, OP_split), 0);
    cr_expect_eq(count_op(x.graph, OP_slice), 3);
    for (int k = 0; k < 3; k++) {
        const Node *part = maker(x.graph, (const char *const[]){"a", "b", "c"}[k]);
        cr_expect_eq(part->attr[0].ints[1], 2 * k);
        cr_expect_str_eq(part->name, x.graph->values.at[part->out[0]].name);
    }
    cr_expect(field_same(&before, x.graph, 1, why, sizeof why), "%s", why);
    graph_differentiate(x.graph);
    cr_expect(field_gradients(x.graph, 1, &ngradients, why, sizeof why), "%s", why);
    cr_expect_eq(ngradients, 2);
    cr_expect_not(graph_expand(x.graph, of_split, NULL), "there is no more");
    compiled_finish(&x);
}

/* The net of a split under strategies, through all passes, with `slices` in its place or not. */
static void split_under_strategies(Compiled *x, bool expanded) {
    char why[512] = "";
    compiled_init(x, 4, 2);
    cr_assert(parsed_on(x, PARTS(" shard ((4, 1))")));
    Front *front = &x->b->front;
    cr_assert(build_run(x->b, NULL, pass_assign), "%s", x->b->error.text);
    if (expanded) {
        const Graph before = front->graph;
        Expanded made;
        cr_assert(graph_expand(&front->graph, of_split, &made));
        front->chosen_node = made.origin;
        front->out_layout = NULL;
        cr_assert(graph_verify(&front->graph, "expand", &x->b->error), "%s", x->b->error.text);
        cr_expect(field_same(&before, &front->graph, 1, why, sizeof why), "%s", why);
        for (int n = 0; n < front->graph.nodes.n; n++) {
            const Node *stands = front->graph.nodes.at[n].op == OP_slice ? maker(&front->graph, "a") : &front->graph.nodes.at[n];
            cr_expect_eq(made.node[made.origin[n]], stands - front->graph.nodes.at);
        }
    }
    cr_assert(build_run(x->b, pass_assign, NULL), "%s", x->b->error.text);
    x->graph = &x->b->sharded.graph;
}

Test(expand, results_of_a_template_are_split_as_the_operators) {
    Compiled whole, parts;
    split_under_strategies(&whole, false);
    split_under_strategies(&parts, true);
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "b" : "a";
        cr_expect_eq(maker(parts.graph, name)->op, OP_slice);
        assert_layout(parts.b->sharded.made[value_named(parts.graph, name)], "[4@1 -]");
        assert_layout(whole.b->sharded.made[value_named(whole.graph, name)], "[4@1 -]");
    }
    cr_expect_eq(count_op(&parts.b->spmd.graph, OP_convert), count_op(&whole.b->spmd.graph, OP_convert));
    for (int n = 0; n < parts.graph->nodes.n; n++)
        if (parts.graph->nodes.at[n].op == OP_concat) assert_layout(parts.b->sharded.made[parts.graph->nodes.at[n].out[0]], "[4@1 -]");
    cr_expect_eq(count_op(parts.graph, OP_concat), 1, "the gradient, whose origin was the split");
    compiled_finish(&whole);
    compiled_finish(&parts);
}
