#include "compile.h"
#include "compiler/sharded.h"

/* A sharded graph of the first net that must not verify after one change. */
static void sharded(Compiled *x) {
    compiled_init(x, 4, 2);
    cr_assert(parsed_on(x, nets[0]) && build_run(x->b, NULL, pass_partial), "%s", x->b->error.text);
    x->graph = &x->b->sharded.graph;
    cr_assert(sharded_verify(&x->b->sharded, "test", &x->b->error), "%s", x->b->error.text);
}

static void refused(Compiled *x, const char *why) {
    cr_assert_not(sharded_verify(&x->b->sharded, "test", &x->b->error), "%s", why);
    cr_expect_not_null(strstr(x->b->error.text, why), "%s", x->b->error.text);
    compiled_finish(x);
}

static int node_of(const Compiled *x, OpCode op) {
    for (int n = 0; n < x->graph->nodes.n; n++)
        if (x->graph->nodes.at[n].op == op) return n;
    cr_assert_fail("no %s", op_table[op].name);
    return -1;
}

static const Layout *split(Compiled *x, int value, bool partial) {
    Layout layout;
    const Shape *shape = &x->graph->values.at[value].type.shape;
    layout_init(&layout, shape->ndim);
    cr_assert(layout_append(&layout, partial ? shape->ndim + REDUCE_SUM : 0, (Digit){4, 1}));
    return graph_layout(x->graph, &layout, shape);
}

Test(sharded, an_operand_lies_as_the_strategy_says) {
    Compiled x;
    sharded(&x);
    int n = node_of(&x, OP_tanh), value = x.graph->nodes.at[n].in[0];
    const Layout *other = split(&x, value, false);
    x.b->sharded.need[n][0] = x.b->sharded.need[n][0] == other ? whole_layout(x.graph, &x.graph->values.at[value].type.shape) : other;
    refused(&x, "an operand does not lie as its strategy says");
}

Test(sharded, a_result_lies_as_the_strategy_says) {
    Compiled x;
    sharded(&x);
    int value = x.graph->nodes.at[node_of(&x, OP_tanh)].out[0];
    const Layout *other = split(&x, value, false);
    x.b->sharded.made[value] = x.b->sharded.made[value] == other ? whole_layout(x.graph, &x.graph->values.at[value].type.shape) : other;
    refused(&x, "a result does not lie");
}

Test(sharded, what_is_not_linear_takes_no_sums) {
    for (int linear = 0; linear < 2; linear++) {
        Compiled x;
        compiled_init(&x, 4, 2);
        const char *net =
            linear
                ? "net n() { input x : f32[8, 8]; param w : f32[8, 8] = ones; h = matmul(x, w) shard ((1, 4), (4, 1)); t = -h shard ((1, 1)); loss sum(t); }\n" TRAIN
                : "net n() { input x : f32[8, 8]; param w : f32[8, 8] = ones; h = matmul(x, w) shard ((1, 4), (4, 1)); t = tanh(h) shard ((1, 1)); loss sum(t); }\n" TRAIN;
        cr_assert(parsed_on(&x, net) && build_run(x.b, NULL, pass_partial));
        x.graph = &x.b->sharded.graph;
        Sharded *s = &x.b->sharded;
        int n = node_of(&x, linear ? OP_neg : OP_tanh), h = x.graph->nodes.at[n].in[0], t = x.graph->nodes.at[n].out[0];
        cr_assert(layout_is_partial(s->made[h]) && !layout_is_partial(s->need[n][0]));
        s->need[n][0] = s->made[h];
        s->made[t] = split(&x, t, true);
        if (linear)
            cr_expect(sharded_verify(s, "test", &x.b->error), "%s", x.b->error.text);
        else
            refused(&x, "in which it is not linear");
        if (linear) compiled_finish(&x);
    }
}

Test(sharded, no_operand_owes_a_sum_that_its_value_does_not) {
    Compiled x;
    sharded(&x);
    int n = node_of(&x, OP_tanh), value = x.graph->nodes.at[n].in[0];
    x.b->sharded.need[n][0] = split(&x, value, true);
    refused(&x, "as a partial sum that it is not");
}

Test(sharded, what_is_reported_is_complete) {
    Compiled x;
    sharded(&x);
    x.b->sharded.report_need[0] = split(&x, x.graph->loss, true);
    refused(&x, "what is reported");
}
