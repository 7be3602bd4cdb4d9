#include "compile.h"

Test(collectives, a_partial_sum_that_is_split_afterwards_is_reduce_scattered) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    const Graph *g = &x.b->spmd.graph;
    int h = value_named(g, "h");
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_convert && g->nodes.at[n].in[0] == h) cr_expect_eq(g->nodes.at[n].comm, COMM_REDUCE_SCATTER);
    cr_expect_eq(count_kind(g, COMM_STRIDED_SLICE), 0, "nothing is only sliced");
    compiled_finish(&x);
}

Test(collectives, nothing_changes_below_O2) {
    Compiled x, y;
    compiled(&x, quickstart, 8, 0);
    compiled(&y, quickstart, 8, 1);
    cr_expect_eq(x.b->spmd.graph.nodes.n, y.b->spmd.graph.nodes.n);
    cr_expect_gt(count_kind(&y.b->spmd.graph, COMM_STRIDED_SLICE), 0);
    compiled_finish(&x);
    compiled_finish(&y);
}

Test(collectives, no_more_is_sent_than_in_canonical_form) {
    static const RedistributePolicy policies[] = {REDISTRIBUTE_AUTO, REDISTRIBUTE_BOUND};
    for (int i = 0; i < NNETS; i++)
        for (int p = 0; p < 2; p++) {
            Compiled x, y;
            compiled(&x, nets[i], 4, 1);
            compiled_init(&y, 4, 2);
            y.options.redistribution = policies[p];
            cr_assert(compiled_run(&y, nets[i]));
            cr_expect_leq(y.c.plan.programs.at[0].sent_bytes, x.c.plan.programs.at[0].sent_bytes, "net %d, policy %d", i, p);
            compiled_finish(&x);
            compiled_finish(&y);
        }
}

Test(collectives, a_smaller_part_is_cut_from_a_larger_one_that_is_there) {
    Compiled x;
    compiled(&x,
             "net n() { input x : f32[8, 8]; param w : f32[8, 8] = ones;\n"
             "h = matmul(x, w) shard ((1, 4), (4, 1)); a = relu(h) shard ((4, 1)); b = matmul(h, w) shard ((1, 1), (1, 4)); loss sum(a + "
             "b); }\n" TRAIN "parallel { mode = auto; dataset = auto; }\n",
             4, 2);
    const Graph *g = &x.b->spmd.graph;
    int h = value_named(g, "h"), from_partial = 0;
    for (int n = 0; n < g->nodes.n; n++)
        from_partial += g->nodes.at[n].op == OP_convert && g->nodes.at[n].in[0] == h;
    cr_expect_eq(from_partial, 1, "the sum is completed once; relu's rows are cut from it");
    compiled_finish(&x);
}
