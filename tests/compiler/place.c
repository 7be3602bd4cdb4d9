#include "compile.h"
#include "compiler/sharded.h"

#define PARALLEL "parallel { mode = auto; dataset = full_batch; }\n"

static void compile_net(Compiled *x, const char *statements, int nranks) {
    char text[2048];
    snprintf(text, sizeof text, "net n() { %s }\n" TRAIN PARALLEL, statements);
    compiled(x, text, nranks, 2);
}

Test(place, a_gradient_is_gathered_before_it_is_expanded) {
    Compiled x;
    compile_net(&x,
                "input x : f32[16, 32]; input label : f32[16]; param w : f32[32, 32] = normal(0.1);\n"
                "h = matmul(x, w) shard ((1, 1), (1, 8)); s = sum(h, axes = 1) shard ((8, 1)); loss mse(s, label);",
                8);
    const Graph *g = &x.b->spmd.graph;
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_sum_grad) {
            assert_layout(g->values.at[g->nodes.at[n].in[0]].layout, "[-]");
            assert_layout(g->values.at[g->nodes.at[n].out[0]].layout, "[- 8@1]");
        }
    cr_expect_eq(count_op(g, OP_sum_grad), 1);
    cr_expect_eq(count_kind(g, COMM_ALL_TO_ALL), 1, "only h itself is exchanged");
    compiled_finish(&x);
}

Test(place, what_the_user_said_stays) {
    Compiled x;
    compile_net(
        &x,
        "input x : f32[16, 32]; input label : f32[16, 4]; param w : f32[32, 32] = normal(0.1);\n"
        "h = matmul(x, w) shard ((1, 1), (1, 4)); t = transpose(h) shard ((1, 1)); u = slice(t, begin = [0, 0], end = [4, 16]) shard ((1, 1));\n"
        "loss mse(transpose(u), label);",
        4);
    const Graph *g = &x.b->spmd.graph;
    assert_layout(g->values.at[value_named(g, "t")].layout, "[- -]");
    compiled_finish(&x);
}

Test(place, nobody_computes_more) {
    for (int i = 0; i < NNETS; i++) {
        Compiled x;
        compiled(&x, nets[i], 4, 2);
        for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
            const Node *now = &x.b->spmd.graph.nodes.at[n];
            if (now->op == OP_convert || now->strategy == NULL || op_table[now->op].flops == 0) continue;
            const Node *then = &x.graph->nodes.at[x.b->spmd.whole_node.at[n]];
            double more = 1, less = 1;
            for (int f = 0; f < now->rule->nfactors; f++) {
                int64_t a = strategy_split(now->strategy, f), b = strategy_split(then->strategy, f), size = now->rule->factor[f].size;
                more *= (double)((size + a - 1) / a);
                less *= (double)((size + b - 1) / b);
            }
            cr_expect_leq(more, less, "net %d: %s", i, now->name);
        }
        compiled_finish(&x);
    }
}

/* A kernel that works along rows stays with whole ones, whatever its operand's layout. */
Test(place, no_node_is_moved_to_rows_that_its_kernel_cannot_split) {
    Compiled x;
    compile_net(&x, "param a : f32[8, 12] = normal(1); y = softmax(a) shard ((4, 1)); loss sum(y * y);", 4);
    const Graph *g = x.graph;
    const Node *softmax = &g->nodes.at[g->values.at[value_named(g, "y")].node];
    Layout layout;
    Strategy strategy;
    cr_assert_eq(softmax->op, OP_softmax);
    layout_init(&layout, 2);
    layout_append(&layout, 0, (Digit){4, 1});
    cr_expect(strategy_of(softmax, softmax->rule->in[0], &layout, &strategy));
    layout_init(&layout, 2);
    layout_append(&layout, 1, (Digit){4, 1});
    cr_expect_not(strategy_of(softmax, softmax->rule->in[0], &layout, &strategy));
    compiled_finish(&x);
}
