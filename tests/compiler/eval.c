#include "compile.h"

#define HELD(hint, rest)                                                                                                                                  \
    "net q(batch = 16) { input x : f32[batch, 32]; input t : f32[batch, 16]; param w : f32[32, 16] = normal(0.1); param v : f32[16, 16] = normal(0.1);\n" \
    "  h = matmul(x, w)" hint "; a = relu(h); y = matmul(a, v); loss mse(y, t); }\n"                                                                      \
    "train { data = numpy_rand(seed = 1); optimizer = momentum(lr = 0.1, momentum = 0.9); steps = 2; }\n" rest

static const Node *named(const Graph *g, const char *name) {
    for (int n = 0; n < g->nodes.n; n++)
        if (strcmp(g->nodes.at[n].name, name) == 0) return &g->nodes.at[n];
    cr_assert_fail("no node %s", name);
    return NULL;
}

static bool same_strategy(const Compilation *c, const char *name) {
    const Strategy *a = named(&program_train(c)->sharded.graph, name)->strategy,
                   *b = named(&program_eval(c)->sharded.graph, name)->strategy;
    return a->nfactors == b->nfactors && memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->digit, b->digit, sizeof a->digit) == 0;
}

Test(eval, operators_have_the_strategies_that_they_have_in_training) {
    Compiled x;
    compiled(&x, HELD(" shard ((2, 4), (4, 1))", "eval { batch = 10; data = normal(seed = 2); steps = 3; }"), 8, 2);
    cr_expect(same_strategy(&x.c, "h"));
    cr_expect(same_strategy(&x.c, "y"));
    cr_expect_eq(x.diags.nwarnings, 0, "what there is to warn of is said of training");
    compiled_finish(&x);
}

Test(eval, a_split_that_its_batch_is_too_short_for_is_left_out) {
    Compiled x;
    compiled(&x, HELD(" shard ((8, 1), (1, 1))", "eval { batch = 3; data = normal(seed = 2); steps = 3; }"), 8, 2);
    cr_expect_not(same_strategy(&x.c, "h"));
    cr_expect_eq(x.diags.nerrors, 0);
    compiled_finish(&x);
}

Test(eval, states_lie_as_training_stores_them) {
    static const int levels[] = {0, 1, 2};
    for (int i = 0; i < 3; i++) {
        Compiled x;
        compiled(&x, HELD(" shard ((2, 4), (4, 1))", "eval { batch = 12; data = normal(seed = 2); steps = 3; }"), 8, levels[i]);
        const Graph *train = x.graph, *eval = &program_eval(&x.c)->sharded.graph;
        cr_assert_eq(train->states.n, eval->states.n, "the optimizer's too: numbers of states mean the same in both");
        for (int s = 0; s < train->states.n; s++)
            cr_expect(layout_equal(train->states.at[s].layout, eval->states.at[s].layout));
        cr_expect_eq(count_op(eval, OP_write), 0);
        compiled_finish(&x);
    }
}

Test(eval, training_is_compiled_as_without_it) {
    Compiled with, without;
    compiled(&with, HELD(" shard ((2, 4), (4, 1))", "eval { batch = 12; data = normal(seed = 2); steps = 3; }"), 8, 2);
    compiled(&without, HELD(" shard ((2, 4), (4, 1))", ""), 8, 2);
    const Role *a = &with.c.plan.programs.at[0].roles.at[0], *b = &without.c.plan.programs.at[0].roles.at[0];
    cr_expect_eq(a->steps.n, b->steps.n);
    cr_expect_eq(a->arena_bytes, b->arena_bytes);
    cr_expect_eq(with.c.plan.programs.at[0].sent_bytes, without.c.plan.programs.at[0].sent_bytes);
    cr_expect_neq(with.c.net_hash, without.c.net_hash);
    cr_expect_eq(with.c.plan.programs.n, 2);
    cr_expect_eq(without.c.plan.programs.n, 1);
    compiled_finish(&with);
    compiled_finish(&without);
}

Test(eval, the_hash_is_of_its_data_too_and_not_of_the_ranks) {
    Compiled a, b, c;
    compiled(&a, HELD("", "eval { batch = 12; data = normal(seed = 2); steps = 3; }"), 8, 2);
    compiled(&b, HELD("", "eval { batch = 12; data = normal(seed = 2); steps = 3; }"), 3, 0);
    compiled(&c, HELD("", "eval { batch = 12; data = normal(seed = 3); steps = 3; }"), 8, 2);
    cr_expect_eq(a.c.net_hash, b.c.net_hash);
    cr_expect_neq(a.c.net_hash, c.c.net_hash);
    compiled_finish(&a);
    compiled_finish(&b);
    compiled_finish(&c);
}

Test(eval, every_mode_and_many_ranks_compile_and_are_proved) {
    static const char *const modes[] = {"auto", "semi_auto", "data_parallel"};
    static const int ranks[] = {1, 2, 3, 6, 64};
    for (int m = 0; m < 3; m++)
        for (int r = 0; r < 5; r++) {
            Compiled x;
            compiled_init(&x, ranks[r], 2);
            x.options.overrides.mode = modes[m];
            x.options.proof.full = true;
            cr_assert(compiled_run(&x, HELD("", "eval { batch = 10; data = normal(seed = 2); steps = 3; predict = h; }")),
                      "%s, %d ranks: %s", modes[m], ranks[r], x.c.error.text);
            cr_expect(x.c.proof.whole_plan && x.c.proof.simplified);
            compiled_finish(&x);
        }
}

/* A branch that the eval does not take has a parameter of training: those behind it keep their numbers. */
Test(eval, parameters_are_trainings_by_their_names) {
    Compiled x;
    compiled(&x,
             "net q(batch = 16, noise = 1) { input x : f32[batch, 4]; h = x; if noise > 0 { param u : f32[4] = ones; h = x * u; }\n"
             "  param w : f32[4] = ones; loss mean(square(h * w)); }\n"
             "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); } eval { noise = 0; data = normal(seed = 2); steps = 3; }",
             2, 2);
    cr_expect_eq(program_eval(&x.c)->sharded.graph.states.n, 2);
    for (int n = 0; n < program_eval(&x.c)->sharded.graph.nodes.n; n++) {
        const Node *node = &program_eval(&x.c)->sharded.graph.nodes.at[n];
        if (node->op == OP_read) cr_expect_str_eq(program_eval(&x.c)->sharded.graph.states.at[node->state].name, "w");
    }
    compiled_finish(&x);
}
