#include "compile.h"

static void differentiated(Compiled *x, const char *text) {
    Error error;
    parsed(x, text);
    graph_simplify(&x->c.graph, SIMPLIFY_ALL);
    graph_differentiate(&x->c.graph);
    graph_simplify(&x->c.graph, SIMPLIFY_SHARE | SIMPLIFY_DEAD);
    cr_assert(graph_verify(&x->c.graph, "autodiff", &error), "%s", error.text);
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
    cr_expect_eq(writes_of(&x.c.graph, "w"), 1);
    cr_expect_eq(writes_of(&x.c.graph, "w2"), 1);
    cr_expect_eq(writes_of(&x.c.graph, "w.momentum"), 1);
    compiled_finish(&x);
}

Test(grad, a_state_that_the_loss_does_not_depend_on_is_not_updated) {
    Compiled x;
    differentiated(
        &x, "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones; param unused : f32[4] = ones; loss sum(matmul(x, w)); }\n" TRAIN);
    cr_expect_eq(writes_of(&x.c.graph, "w"), 1);
    cr_expect_eq(writes_of(&x.c.graph, "unused"), 0);
    compiled_finish(&x);
}

Test(grad, slots_start_at_zero_and_belong_to_their_parameter) {
    Compiled x;
    differentiated(&x, quickstart);
    const Graph *g = &x.c.graph;
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
    cr_expect_eq(count_op(&x.c.graph, OP_add), 1);
    cr_expect_eq(count_op(&x.c.graph, OP_sgd), 1);
    compiled_finish(&x);
}

Test(grad, gradient_nodes_name_forward_origins) {
    Compiled x;
    differentiated(&x, quickstart);
    const Graph *g = &x.c.graph;
    cr_expect_gt(g->nforward, 0);
    for (int n = g->nforward; n < g->nodes.n; n++)
        if (op_table[g->nodes.at[n].op].op_class == OP_CLASS_INTERNAL)
            cr_expect_lt(g->nodes.at[n].origin, g->nforward, "%s", g->nodes.at[n].name);
    compiled_finish(&x);
}

Test(grad, nobody_computes_the_gradient_of_an_input) {
    Compiled x;
    differentiated(&x, "net n() { input x : f32[4, 4]; param w : f32[4, 4] = ones; loss sum(matmul(x, w)); }\n" TRAIN);
    cr_expect_eq(count_op(&x.c.graph, OP_einsum), 1);
    compiled_finish(&x);
}
