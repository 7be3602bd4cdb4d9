#include "compile.h"

static void differentiated(Compiled *x, const char *text) {
    Error error;
    parsed(x, text);
    graph_simplify(x->graph, SIMPLIFY_ALL);
    graph_differentiate(x->graph);
    graph_simplify(x->graph, SIMPLIFY_SHARE | SIMPLIFY_DEAD);
    cr_assert(graph_verify(x->graph, "autodiff", &error), "%s", error.text);
}

static int writes_of(const Graph *g, const char *state) {
    int count = 0;
    for (int n = 0; n < g->nodes.n; n++)
        count += g->nodes.at[n].op == OP_write && strcmp(g->states.at[g->nodes.at[n].state].name, state) == 0;
    return count;
}

Test(grad, every_state_that_the_loss_depends_on_is_written_once) {
    Compiled x;
    differentiated(&x, quickstart);
    cr_expect_eq(writes_of(x.graph, "w"), 1);
    cr_expect_eq(writes_of(x.graph, "w2"), 1);
    cr_expect_eq(writes_of(x.graph, "w.momentum"), 1);
    compiled_finish(&x);
}

Test(grad, a_state_that_the_loss_does_not_depend_on_is_not_updated) {
    Compiled x;
    differentiated(
        &x, "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones; param unused : f32[4] = ones; loss sum(matmul(x, w)); }\n" TRAIN);
    cr_expect_eq(writes_of(x.graph, "w"), 1);
    cr_expect_eq(writes_of(x.graph, "unused"), 0);
    compiled_finish(&x);
}

Test(grad, slots_start_at_zero_and_belong_to_their_parameter) {
    Compiled x;
    differentiated(&x, quickstart);
    const Graph *g = x.graph;
    cr_assert_eq(g->states.n, 4);
    for (int s = 2; s < 4; s++) {
        cr_expect_eq(g->states.at[s].init.kind, INIT_ZEROS);
        cr_expect_eq(g->states.at[s].parameter, s - 2);
        cr_expect(!g->states.at[s].trainable);
    }
    compiled_finish(&x);
}

Test(grad, gradients_of_several_uses_are_added) {
    Compiled x;
    differentiated(&x, "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones; loss sum(matmul(matmul(x, w), w)); }\n" TRAIN);
    cr_expect_eq(count_op(x.graph, OP_add), 1);
    cr_expect_eq(count_op(x.graph, OP_sgd), 1);
    compiled_finish(&x);
}

Test(grad, gradient_nodes_name_forward_origins) {
    Compiled x;
    differentiated(&x, quickstart);
    const Graph *g = x.graph;
    cr_expect_gt(g->nforward, 0);
    for (int n = g->nforward; n < g->nodes.n; n++)
        if (op_table[g->nodes.at[n].op].op_class == OP_CLASS_INTERNAL)
            cr_expect_lt(g->nodes.at[n].origin, g->nforward, "%s", g->nodes.at[n].name);
    compiled_finish(&x);
}

Test(grad, nobody_computes_the_gradient_of_an_input) {
    Compiled x;
    differentiated(&x, "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones; loss sum(matmul(x, w)); }\n" TRAIN);
    cr_expect_eq(count_op(x.graph, OP_einsum), 1);
    compiled_finish(&x);
}

#define NET_OF(train)                                                                                                                      \
    "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones; param b : f32[4] = ones; loss sum(matmul(x, w) + b); }\n"                  \
    "train { data = numpy_rand(seed = 1); epochs = 1; steps = 2; " train " }\n"

static const Node *first_of(const Graph *g, OpCode op) {
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == op) return &g->nodes.at[n];
    cr_assert(false, "no %s", op_table[op].name);
    return NULL;
}

static const Input *input_of(const Graph *g, int value) {
    const Node *node = &g->nodes.at[g->values.at[value].node];
    cr_assert_eq(node->op, OP_input);
    return &g->inputs.at[node->state];
}

Test(grad, adam_has_two_slots_and_the_number_of_the_update) {
    Compiled x;
    differentiated(&x, NET_OF("optimizer = adam(lr = 0.5);"));
    const Graph *g = x.graph;
    cr_assert_eq(count_op(g, OP_adam), 2);
    static const char *const states[] = {"w", "w.m", "w.v", "b", "b.m", "b.v"};
    for (int s = 0; s < 6; s++)
        cr_expect_eq(writes_of(g, states[s]), 1, "%s", states[s]);
    const Node *adam = first_of(g, OP_adam);
    cr_assert_eq(adam->nin, 5);
    cr_assert_eq(input_of(g, adam->in[4])->kind, INPUT_UPDATE);
    cr_assert_eq(g->inputs.n, 2, "one input for both parameters");
    cr_assert_float_eq(adam->attr[op_attr(OP_adam, "lr")].f, 0.5, 0);
    cr_assert_not(adam->attr[op_attr(OP_adam, "weight_decay")].given);
    compiled_finish(&x);
}

Test(grad, only_a_schedule_makes_the_rate_an_operand) {
    Compiled x;
    differentiated(&x, NET_OF("optimizer = sgd(lr = 0.5); schedule = constant;"));
    cr_assert_eq(first_of(x.graph, OP_sgd)->nin, 2);
    cr_assert_eq(x.graph->inputs.n, 1);
    compiled_finish(&x);
    differentiated(&x, NET_OF("optimizer = sgd(lr = 0.5, weight_decay = 0.25); schedule = linear;"));
    const Node *sgd = first_of(x.graph, OP_sgd);
    cr_assert_eq(sgd->nin, 3);
    cr_assert_eq(input_of(x.graph, sgd->in[2])->kind, INPUT_RATE);
    cr_assert_float_eq(sgd->attr[op_attr(OP_sgd, "weight_decay")].f, 0.25, 0);
    compiled_finish(&x);
}

Test(grad, clipping_takes_the_norm_of_all_gradients) {
    Compiled x;
    differentiated(&x, NET_OF("optimizer = sgd(lr = 0.5); clip = norm(2);"));
    const Graph *g = x.graph;
    cr_assert_eq(count_op(g, OP_sum_squares), 2);
    cr_assert_eq(count_op(g, OP_clip), 2);
    int norm = -1;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_sgd) cr_assert_eq(g->nodes.at[g->values.at[node->in[1]].node].op, OP_clip);
        if (node->op != OP_clip) continue;
        cr_assert(norm < 0 || norm == node->in[1]);
        norm = node->in[1];
        cr_assert_float_eq(node->attr[0].f, 2, 0);
    }
    compiled_finish(&x);
}

Test(grad, the_norm_of_gradients_of_two_element_types_is_f64) {
    Compiled x;
    parsed(&x, "net n() { param a : f64[2, 2] = normal(1); param b : f32[2, 2] = normal(1); loss sum(matmul(cast(a, to = f32), b)); }\n"
               "train { optimizer = sgd(lr = 0.1); clip = norm(1); }\n");
    const Graph *g = x.graph;
    graph_differentiate(x.graph);
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op == OP_clip) cr_expect_eq(g->values.at[node->in[1]].type.dtype, g->values.at[node->in[0]].type.dtype);
        if (node->op == OP_add) cr_expect_eq(g->values.at[node->out[0]].type.dtype, F64);
    }
    cr_expect_eq(count_op(g, OP_clip), 2);
    compiled_finish(&x);
}
