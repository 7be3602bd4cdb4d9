#include "compile.h"

static void differentiated(Compiled *x, const char *text) {
    Error error;
    parsed(x, text);
    graph_simplify(x->graph, SIMPLIFY_ALL);
    graph_differentiate(x->graph);
    cr_assert(graph_verify(x->graph, "autodiff", &error), "%s", error.text);
    graph_simplify(x->graph, SIMPLIFY_SHARE | SIMPLIFY_DEAD);
    cr_assert(graph_verify(x->graph, "prune", &error), "%s", error.text);
}

#define NET_OF(k)                                                                                                                          \
    "net n() { input x : f32[4, 6]; param w : f32[6, 6] = ones; v = w * 2; h = tanh(matmul(x, v)); loss mean(h * h); }\n"                  \
    "train { data = numpy_rand(seed = 1); epochs = 1; steps = 2; optimizer = sgd(lr = 0.5); accumulate = " k "; }\n"

static int input_named(const Graph *g, const char *name) {
    for (int i = 0; i < g->inputs.n; i++)
        if (strcmp(g->inputs.at[i].name, name) == 0) return i;
    return -1;
}

Test(accumulate, every_batch_has_inputs_of_its_own) {
    Compiled x;
    differentiated(&x, NET_OF("3"));
    const Graph *g = x.graph;
    cr_assert_eq(g->inputs.n, 3);
    cr_assert_eq(g->inputs.at[0].micro, 0);
    for (int micro = 1; micro < 3; micro++) {
        char name[16];
        snprintf(name, sizeof name, "x.%d", micro);
        cr_assert_geq(input_named(g, name), 0);
        const Input *input = &g->inputs.at[input_named(g, name)];
        cr_assert_eq(input->micro, micro);
        cr_assert_eq(input->of, 0);
        cr_assert_eq(input->kind, INPUT_DATA);
    }
    compiled_finish(&x);
}

Test(accumulate, what_depends_on_no_input_is_there_once) {
    Compiled x;
    differentiated(&x, NET_OF("3"));
    cr_expect_geq(value_named(x.graph, "v"), 0);
    for (int v = 0; v < x.graph->values.n; v++)
        cr_expect_str_neq(x.graph->values.at[v].name, "v.1");
    cr_expect_eq(count_op(x.graph, OP_tanh), 3);
    cr_expect_eq(count_op(x.graph, OP_sgd), 1);
    compiled_finish(&x);
}

Test(accumulate, one_batch_is_the_net_as_it_was) {
    Compiled one, none;
    differentiated(&one, NET_OF("1"));
    differentiated(&none,
                   "net n() { input x : f32[4, 6]; param w : f32[6, 6] = ones; v = w * 2; h = tanh(matmul(x, v)); loss mean(h * h); }\n"
                   "train { data = numpy_rand(seed = 1); epochs = 1; steps = 2; optimizer = sgd(lr = 0.5); }\n");
    cr_assert_eq(one.graph->nodes.n, none.graph->nodes.n);
    cr_assert_eq(one.graph->inputs.n, 1);
    compiled_finish(&one);
    compiled_finish(&none);
}

/* So the activations of a batch are dead before the next one's are made, and strategies are chosen for one. */
Test(accumulate, batches_run_one_after_the_other) {
    Compiled x;
    differentiated(&x, NET_OF("3"));
    const Graph *g = x.graph;
    int forward[3] = {-1, -1, -1}, backward[3] = {-1, -1, -1}, nforward = 0, nbackward = 0;
    for (int n = 0; n < g->nodes.n; n++) {
        if (g->nodes.at[n].op == OP_tanh) forward[nforward++] = n;
        if (g->nodes.at[n].op == OP_tanh_grad) backward[nbackward++] = n;
    }
    for (int i = 0; i < 3; i++)
        cr_expect(forward[i] < backward[i] && (i == 2 || backward[i] < forward[i + 1]));
    cr_expect_lt(forward[0], g->nforward);
    cr_expect_geq(forward[1], g->nforward);
    for (int i = 1; i < 3; i++) {
        cr_expect_eq(g->nodes.at[forward[i]].origin, forward[0]);
        cr_expect_eq(g->nodes.at[backward[i]].origin, g->nodes.at[backward[0]].origin);
    }
    compiled_finish(&x);
}

Test(accumulate, a_loss_without_inputs_has_one_batch) {
    Compiled x;
    differentiated(
        &x, "net n() { param w : f32[6] = ones; loss sum(w * w); }\ntrain { steps = 1; optimizer = sgd(lr = 0.5); accumulate = 3; }\n");
    cr_expect_eq(count_op(x.graph, OP_sgd), 1);
    cr_expect_eq(x.graph->inputs.n, 0);
    compiled_finish(&x);
}

static const char layers[] =
    "net n(batch = 64) { input x : f32[batch, 64]; param a : f32[64, 256] = normal(0.1); param b : f32[256, 256] = normal(0.1); param c : f32[256, 64] = normal(0.1);\n"
    "h = tanh(matmul(x, a)); i = tanh(matmul(h, b)); j = tanh(i); k = tanh(j * j); l = tanh(k); loss mean(matmul(l, c)); }\n"
    "train { data = numpy_rand(seed = 1); steps = 2; optimizer = sgd(lr = 0.5); %s }\nparallel { mode = semi_auto; }\n";

/* Gradients are there twice, the sum and what is added to it; activations once. */
Test(accumulate, the_arena_does_not_grow_with_the_number_of_batches) {
    int64_t bytes[3];
    const char *const settings[] = {"", "accumulate = 2;", "accumulate = 8;"};
    for (int i = 0; i < 3; i++) {
        Compiled x;
        char text[1024];
        snprintf(text, sizeof text, layers, settings[i]);
        compiled(&x, text, 4, 2);
        bytes[i] = x.b->placement.arena_bytes;
        compiled_finish(&x);
    }
    cr_expect_leq(bytes[1], bytes[0] + (int64_t)4 * (64 * 256 + 256 * 256 + 256 * 64) + 4096);
    cr_expect_leq(bytes[2], bytes[1] + 1024);
}

Test(accumulate, every_parameter_has_one_reduction) {
    Compiled x;
    char text[1024];
    snprintf(text, sizeof text, layers, "accumulate = 8;");
    compiled(&x, text, 4, 2);
    int reductions = 0;
    for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
        const Node *node = &x.b->spmd.graph.nodes.at[n];
        reductions += node->op == OP_convert && layout_is_partial(x.b->spmd.graph.values.at[node->in[0]].layout);
    }
    cr_expect_eq(reductions, 4, "%d: three parameters' and the loss's", reductions);
    compiled_finish(&x);
}
