#include "compile.h"
#include "compiler/facts.h"

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
            cr_expect_eq(facts->rank_bytes, x.b->placement.arena_bytes + facts->states + facts->inputs + facts->constants);
            cr_expect_eq(x.c.plan.programs.at[0].sent_bytes, sent);
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
    facts_init(&again, &plan.graph, &plan.programs.at[0], 0, &x.arena);
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
