#include "compile.h"
#include "compiler/facts.h"
#include "ir/workspace.h"

Test(facts, sums_of_kinds_and_totals_are_those_of_the_communications) {
    for (int n = 0; n < NNETS; n++)
        for (int level = 0; level <= 2; level++) {
            Compiled x;
            compiled(&x, nets[n], 4, level);
            const Facts *facts = x.b->facts;
            facts_bounds(x.b->facts, &x.arena);
            int64_t sent = 0, received = 0, bound = 0, all = 0;
            int count = 0;
            for (int i = 0; i < facts->communications.n; i++) {
                const Communication *made = &facts->communications.at[i];
                sent += made->sent.max;
                received += made->received.max;
                bound += made->bound.max;
                all += made->received.total;
                count += made->kind != COMM_STRIDED_SLICE;
                cr_expect(i == 0 || made->step > facts->communications.at[i - 1].step, "in the order in which they start");
            }
            cr_expect_eq(facts->all.sent, sent);
            cr_expect_eq(facts->all.received, received);
            cr_expect_eq(facts->all.bound, bound);
            cr_expect_eq(facts->received.total, all);
            cr_expect_eq(facts->all.count, count);
            cr_expect_geq(all, facts->bound.total);
            cr_expect_eq(facts->rank_bytes, x.b->placement.arena_bytes + facts->inner + facts->states + facts->inputs + facts->constants);
            cr_expect_eq(x.c.plan.programs.at[0].sent_bytes, sent);
            compiled_finish(&x);
        }
}

Test(facts, a_rank_has_room_for_the_inner_values_of_the_largest_fused_step) {
    for (int level = 1; level <= 2; level++) {
        Compiled x;
        compiled(
            &x,
            "net n(batch = 64) { input x : f32[batch, 32]; param w : f32[32, 48] = normal(0.1); y = tanh(exp(matmul(x, w)) + 1); loss mean(y * y); }\n" TRAIN,
            4, level);
        const Facts *facts = x.b->facts;
        int64_t room[64] = {0}, most = 0; /* per fused step; every value has 16 rows of 48 on a rank */
        for (int i = 0; i < facts->role->steps.n; i++) {
            const Step *step = &facts->role->steps.at[i];
            if (step->fused == 0 || facts->role->instances.at[step->out[0]].place != PLACE_INNER) continue;
            room[step->fused] += 16 * 48 * 4;
            if (room[step->fused] > most) most = room[step->fused];
        }
        cr_expect_eq(facts->inner, most);
        cr_expect_eq(most > 0, level == 2);
        cr_expect_eq(facts->rank_bytes, facts->role->arena_bytes + facts->inner + facts->states + facts->inputs + facts->constants);
        compiled_finish(&x);
    }
}

Test(facts, a_plan_that_is_read_back_has_those_of_the_plan_that_was_made) {
    Compiled x;
    Plan plan;
    Error error;
    Facts again;
    compiled(&x, quickstart, 8, 2);
    cr_assert(plan_read(&plan, &x.arena, "net.plan", x.c.text.at, x.c.text.n, 0, &error), "%s", error.text);
    facts_init(&again, &plan.graph, &plan.programs.at[0], 0, NULL, &x.arena);
    facts_bounds(&again, &x.arena);
    facts_bounds(x.b->facts, &x.arena);
    const Facts *facts = x.b->facts;
    cr_assert_eq(again.communications.n, facts->communications.n);
    cr_expect_eq(again.all.sent, facts->all.sent);
    cr_expect_eq(again.received.total, facts->received.total);
    cr_expect_eq(again.bound.total, facts->bound.total);
    cr_expect_eq(again.rank_bytes, facts->rank_bytes);
    compiled_finish(&x);
}

/* A product on 4 ranks, of m x k and k x n: 2^34 multiplications on a rank, and a size that is no multiple of 16 bytes. */
Test(facts, large_products_with_odd_rows_have_room_on_gpus) {
    static const struct {
        int m, k, n;
        const char *more, *attr;
        bool odd;
    } cases[] = {
        {16384, 4096, 1025, "", "shard ((4, 1), (1, 1))", true},
        {16384, 4096, 1028, "", "shard ((4, 1), (1, 1))", false},
        {16384, 4096, 1028, " precision = bf16;", "shard ((4, 1), (1, 1))", true}, /* its gradients too */
        {16384, 4097, 1028, "", "shard ((4, 1), (1, 1))", true},
        {16384, 4096, 1000, "", "shard ((4, 1), (1, 1))", false},
        {8192, 4096, 1025, "", "shard ((4, 1), (1, 1))", false},
        {4100, 4096, 1032, "", "shard ((1, 1), (1, 1))", false},
        {4097, 4096, 1032, "", "shard ((1, 1), (1, 1))", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int cuda = 0; cuda < 2; cuda++) {
            Machine machine = machine_gpu8;
            Compiled x;
            char net[512];
            machine.cuda = cuda;
            snprintf(
                net, sizeof net,
                "net n(batch = %d) { input x : f32[batch, %d]; param w : f32[%d, %d] = normal(0.1); loss mean(square(matmul(x, w) %s)); }\n"
                "train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2;%s }\n"
                "parallel { search = sharding_propagation; memory = 1 TiB; }\n",
                cases[i].m, cases[i].k, cases[i].k, cases[i].n, cases[i].attr, cases[i].more);
            compiled_init(&x, 4, 2);
            x.options.machine = &machine;
            cr_assert(compiled_run(&x, net), "%s", compiled_said(&x));
            const int64_t base = WORKSPACE_REDUCTIONS + WORKSPACE_PRODUCTS, workspace = base + (cases[i].odd ? WORKSPACE_ODD_ROWS : 0);
            cr_expect_eq(x.b->facts->workspace, cuda ? workspace : 0, "case %zu: %lld bytes", i, (long long)x.b->facts->workspace);
            compiled_finish(&x);
        }
}
