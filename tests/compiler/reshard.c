#include "compile.h"
#include "compiler/convert.h"

/* By the dumps' stage: -O0 and -O1 run what reshard made. */
Test(reshard, every_operand_lies_as_its_node_needs) {
    for (int i = 0; i < NNETS; i++)
        for (int o = 0; o <= 1; o++) {
            Compiled x;
            compiled(&x, nets[i], 4, o);
            const Graph *g = &x.b->spmd.graph;
            for (int n = 0; n < g->nodes.n; n++)
                for (int k = 0; g->nodes.at[n].op != OP_convert && k < g->nodes.at[n].nin; k++)
                    cr_expect_eq(g->values.at[g->nodes.at[n].in[k]].layout, x.b->sharded.need[x.b->spmd.whole_node.at[n]][k],
                                 "net %d -O%d: %s operand %d", i, o, g->nodes.at[n].name, k);
            cr_expect_eq(g->values.at[g->loss].layout, x.b->sharded.report_need[0]);
            compiled_finish(&x);
        }
}

Test(reshard, the_form_is_canonical) {
    for (int i = 0; i < NNETS; i++) {
        Compiled x;
        compiled(&x, nets[i], 4, 1);
        cr_expect_eq(count_kind(&x.b->spmd.graph, COMM_EXCHANGE) + count_kind(&x.b->spmd.graph, COMM_ALL_TO_ALL) +
                         count_kind(&x.b->spmd.graph, COMM_REDUCE_SCATTER),
                     0);
        compiled_finish(&x);
    }
}

Test(reshard, a_partial_sum_is_completed_once_for_all_its_users) {
    Compiled x;
    compiled(&x,
             "net n() { input x : f32[8, 8]; param w : f32[8, 8] = ones;\n"
             "h = matmul(x, w) shard ((1, 4), (4, 1)); a = relu(h) shard ((4, 1)); b = tanh(h) shard ((1, 4)); loss sum(a + b); }\n" TRAIN
             "parallel { mode = auto; dataset = auto; }\n",
             4, 0);
    int completions = 0;
    for (int n = 0; n < x.b->spmd.graph.nodes.n; n++) {
        const Node *node = &x.b->spmd.graph.nodes.at[n];
        completions += node->op == OP_convert && node->in[0] == value_named(&x.b->spmd.graph, "h");
    }
    cr_expect_eq(completions, 1);
    compiled_finish(&x);
}

Test(reshard, an_output_strategy_is_where_its_users_convert_from) {
    Compiled x;
    compiled(&x, nets[2], 4, 0);
    const Graph *g = &x.b->spmd.graph;
    int y = value_named(x.graph, "y"), asked = 0;
    assert_layout(x.b->sharded.home[y], "[- 4@1]");
    for (int v = 0; v < g->values.n; v++)
        asked += x.b->spmd.whole_value.at[v] == y && g->values.at[v].layout == x.b->sharded.home[y];
    cr_expect_geq(asked, 1);
    compiled_finish(&x);
}

Test(reshard, equal_conversions_of_a_value_are_one) {
    for (int i = 0; i < NNETS; i++)
        for (int o = 0; o <= 2; o++) {
            Compiled x;
            compiled(&x, nets[i], 4, o);
            const Graph *g = &x.b->spmd.graph;
            for (int a = 0; a < g->nodes.n; a++)
                for (int b = 0; b < a; b++) {
                    const Node *p = &g->nodes.at[a], *q = &g->nodes.at[b];
                    if (p->op == OP_convert && q->op == OP_convert && p->in[0] == q->in[0])
                        cr_expect(p->comm != q->comm || g->values.at[p->out[0]].layout != g->values.at[q->out[0]].layout);
                }
            compiled_finish(&x);
        }
}

Test(reshard, digits_of_a_collective_are_those_that_change) {
    Layout from, to;
    Digit digits[MAX_DIGITS];
    int dim;
    layout_init(&from, 2);
    layout_append(&from, 0, (Digit){8, 1});
    layout_init(&to, 2);
    layout_append(&to, 0, (Digit){2, 4});
    cr_assert_eq(convert_digits(COMM_ALL_GATHER, &from, &to, digits, &dim), 1);
    cr_expect_eq(digits[0].size, 4);
    cr_expect_eq(digits[0].stride, 1);
    cr_expect_eq(dim, 0);
}
