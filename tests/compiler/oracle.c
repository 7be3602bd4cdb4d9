#include "compile.h"
#include "compiler/facts.h"
#include "compiler/oracle.h"

#define NET(hint)                                                                                                                                           \
    "net n(batch = 48) { input x : f32[batch, 96]; input t : f32[batch, 24]; param w : f32[96, 192] = normal(0.1); param v : f32[192, 24] = normal(0.1);\n" \
    "  h = matmul(x, w)" hint "; a = softmax(h); y = matmul(a, v); loss mse(y, t); }\n" TRAIN_MOMENTUM

static const char *const hinted[] = {NET(" shard ((2, 4), (4, 1))"), NET(" shard ((8, 1), (1, 1))"), NET(" shard ((1, 1), (1, 8))"),
                                     NET(" shard ((4, 1), (1, 2))")};
enum { NHINTED = sizeof hinted / sizeof *hinted };

static void assert_same(const BuildCost *a, const BuildCost *b) {
    cr_expect_eq(a->sent_bytes, b->sent_bytes);
    cr_expect_eq(a->received_bytes, b->received_bytes);
    cr_expect_eq(a->arena_bytes, b->arena_bytes);
    cr_expect_eq(a->inner_bytes, b->inner_bytes);
    cr_expect_eq(a->state_bytes, b->state_bytes);
    cr_expect_eq(a->input_bytes, b->input_bytes);
    cr_expect_eq(a->constant_bytes, b->constant_bytes);
    cr_expect_eq(a->step_s, b->step_s);
    cr_expect_eq(a->communication_s, b->communication_s);
    cr_expect_eq(a->exposed_s, b->exposed_s);
    cr_expect_eq(a->kernel_s, b->kernel_s);
    cr_expect_eq(a->flops, b->flops);
}

Test(oracle, a_program_costs_what_its_plan_says) {
    for (int o = 0; o <= 2; o++)
        for (int i = 0; i < NNETS; i++) {
            Compiled x;
            BuildCost cost, tried;
            Error error;
            compiled(&x, nets[i], 4, o);
            build_cost(x.b, &cost);
            cr_expect_eq(cost.sent_bytes, x.c.plan.programs.at[0].sent_bytes);
            cr_expect_eq(cost.arena_bytes, x.c.plan.programs.at[0].roles.at[0].arena_bytes);
            cr_expect_eq(memory_bytes(&cost), x.b->facts->rank_bytes);
            cr_expect_gt(cost.communication_s, 0);
            cr_expect_geq(cost.step_s, cost.kernel_s);
            cr_assert(build_try(x.b, NULL, NULL, &tried, &error), "%s", error.text);
            assert_same(&cost, &tried);
            compiled_finish(&x);
        }
}

/* Strategies of a net with another hint, softmax over split rows included: the program that is made of them costs what that net does, and nothing has changed after. */
Test(oracle, other_strategies_cost_what_they_cost_when_compiled) {
    for (int i = 0; i < NHINTED; i++)
        for (int k = 0; k < NHINTED; k++) {
            Compiled x, y;
            BuildCost before, after, tried, compiled_so;
            Error error;
            compiled(&x, hinted[i], 8, 2);
            compiled(&y, hinted[k], 8, 2);
            build_cost(x.b, &before);
            build_cost(y.b, &compiled_so);
            const Graph *theirs = &y.b->front.chosen;
            cr_assert_eq(x.b->front.chosen.nodes.n, theirs->nodes.n);
            const Strategy **strategy = arena_alloc(&x.arena, sizeof *strategy * (size_t)theirs->nodes.n);
            for (int n = 0; n < theirs->nforward; n++)
                strategy[n] = theirs->nodes.at[n].strategy;
            cr_assert(build_try(x.b, strategy, NULL, &tried, &error), "%s", error.text);
            assert_same(&compiled_so, &tried);
            build_cost(x.b, &after);
            assert_same(&before, &after);
            if (i != k)
                cr_expect_neq(before.state_bytes * 1000 + before.sent_bytes, compiled_so.state_bytes * 1000 + compiled_so.sent_bytes);
            compiled_finish(&x);
            compiled_finish(&y);
        }
}

Test(oracle, a_strategy_that_a_node_may_not_have_is_refused) {
    Compiled x;
    BuildCost cost;
    Error error;
    compiled(&x, "net n() { input x : f32[8, 6]; param w : f32[12] = ones; y = reshape(x, shape = [4, 12]); loss sum(y * w); }\n" TRAIN, 4,
             2);
    const Graph *g = &x.b->front.chosen;
    const Strategy **strategy = arena_alloc(&x.arena, sizeof *strategy * (size_t)g->nodes.n);
    for (int n = 0; n < g->nforward; n++)
        if (g->nodes.at[n].op == OP_reshape) {
            Strategy *thirds = arena_alloc(&x.arena, sizeof *thirds);
            thirds->nfactors = g->nodes.at[n].rule->nfactors;
            cr_assert(strategy_append(thirds, 0, (Digit){2, 2}) && strategy_append(thirds, 0, (Digit){2, 2})); /* one digit twice */
            strategy[n] = thirds;
        }
    cr_expect_not(build_try(x.b, strategy, NULL, &cost, &error));
    cr_expect_neq(error.text[0], '\0');
    compiled_finish(&x);
}
