#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/strategies/simulate.h"

enum { ROOM = 400 };

Test(redistribute, every_pair_of_layouts_arrives_at_the_bound, .timeout = 300) {
    static const int64_t sizes[][2] = {{8, 12}, {5, 7}, {3, 1}};
    static Layout layouts[ROOM];
    int64_t pairs = 0, refused = 0;
    for (int nranks = 1; nranks <= 8; nranks++) {
        for (int ndim = 1; ndim <= 2; ndim++) {
            int n = simulate_layouts(nranks, ndim, true, layouts, ROOM);
            cr_assert_leq(n, ROOM);
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                Shape shape = {.ndim = ndim, .dim = {sizes[s][0], sizes[s][1]}};
                for (int i = 0; i < n; i++)
                    for (int j = 0; j < n; j++)
                        *(simulate_policies(&layouts[i], &layouts[j], &shape, nranks) ? &pairs : &refused) += 1;
            }
        }
    }
    fprintf(stderr, "redistribution: %lld pairs of layouts simulated under three policies, %lld refused\n", (long long)pairs,
            (long long)refused);
    cr_assert_gt(pairs, 20000);
}

static Layout layout_of(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden), "%s", text);
    return layout;
}

static Conversion plan(const char *from, const char *to, int64_t rows, int64_t columns, int nranks, RedistributePolicy policy) {
    Layout a = layout_of(from), b = layout_of(to);
    Shape shape = {.ndim = 2, .dim = {rows, columns}};
    Conversion conversion;
    const char *why = NULL;
    cr_assert(redistribute(&a, &b, &shape, 4, nranks, policy, NULL, &conversion, &why), "%s", why);
    return conversion;
}

static void expect_steps(const Conversion *conversion, const char *expected) {
    Text text = {0};
    for (int i = 0; i < conversion->nsteps; i++)
        text_printf(&text, "%s%s", i ? " " : "", comm_name[conversion->step[i].kind]);
    cr_expect_str_eq(text.at ? text.at : "", expected);
    text_finish(&text);
}

Test(redistribute, canonical_form_of_the_quick_start_is_all_reduce_and_slice) {
    Conversion c = plan("[2@4 -] +sum(4@1)", "[2@4 4@1]", 16, 16, 8, REDISTRIBUTE_CANONICAL);
    expect_steps(&c, "all_reduce strided_slice");
    cr_expect_eq(c.received.max, 8 * 16 + 2 * 8 * 4); /* own quarter: three terms; then the other three quarters */
    c = plan("[2@4 -] +sum(4@1)", "[2@4 4@1]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "reduce_scatter");
    cr_expect_eq(c.received.max, 3 * 8 * 4);
    cr_expect_eq(c.rounds, 1);
}

/* Cases of MindSpore's tests; effects, not the order of operators. */
Test(redistribute, canonical_form_follows_mindspore_cases) {
    Conversion c = plan("[16@1 -]", "[- 16@1]", 512, 1024, 16, REDISTRIBUTE_CANONICAL); /* R2 */
    expect_steps(&c, "all_gather strided_slice");
    c = plan("[- 8@1]", "[- 4@2]", 32, 256, 8, REDISTRIBUTE_CANONICAL); /* T1: ranks 0, 1 together */
    expect_steps(&c, "all_gather");
    cr_expect_eq(c.received.max, 32 * 32);
    c = plan("[8@1 -]", "[4@2 -]", 32, 256, 8, REDISTRIBUTE_CANONICAL); /* T2 */
    expect_steps(&c, "all_gather");
    cr_expect_eq(c.received.max, 4 * 256);
    c = plan("[4@2 2@1]", "[- -]", 32, 256, 8, REDISTRIBUTE_CANONICAL); /* T3: two gathers */
    expect_steps(&c, "all_gather all_gather");
    c = plan("[8@1 -]", "[2@4 -]", 32, 256, 8, REDISTRIBUTE_CANONICAL); /* T4: four ranks together */
    expect_steps(&c, "all_gather");
    cr_expect_eq(c.received.max, 3 * 4 * 256);
    c = plan("[8@1 -]", "[- 8@1]", 32, 64, 8, REDISTRIBUTE_CANONICAL); /* T5 */
    expect_steps(&c, "all_gather strided_slice");
    c = plan("[2@8.2@2.2@1 -]", "[2@8.2@2 -]", 32, 64, 16, REDISTRIBUTE_CANONICAL); /* only the last digit differs */
    cr_expect_eq(c.received.max, 4 * 64);
    c = plan("[8@8 -]", "[8@8 8@1]", 32, 64, 64, REDISTRIBUTE_CANONICAL); /* T7: nothing moves */
    expect_steps(&c, "strided_slice");
    cr_expect_eq(c.received.total, 0);
}

Test(redistribute, collectives_are_named_where_they_are_exact) {
    Conversion c = plan("[8@1 -]", "[- 8@1]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "all_to_all");
    c = plan("[8@1 -]", "[- 8@1]", 15, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "exchange");
    c = plan("[2@4.2@1 -]", "[2@4 -]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "all_gather");
    c = plan("[2@4.2@1 -]", "[2@1.2@4 -]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "exchange");
    c = plan("[4@4 -]", "[- 4@4.2@2]", 16, 16, 16, REDISTRIBUTE_AUTO); /* split further than an AllToAll would */
    expect_steps(&c, "exchange");
    c = plan("[- -] +sum(8@1)", "[- -]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "all_reduce");
    c = plan("[- -] +sum(2@1)", "[- -]", 16, 16, 8, REDISTRIBUTE_AUTO); /* two terms: nothing is saved by joining the replicas */
    expect_steps(&c, "all_reduce");
    c = plan("[- -] +sum(4@1)", "[- -]", 16, 16, 8, REDISTRIBUTE_AUTO); /* four terms held twice: two reductions would do the sum twice */
    expect_steps(&c, "exchange");
    cr_expect_eq(c.received.total, (3 + 7) * 256);
    cr_expect_eq(c.rounds, 2);
    c = plan("[- -]", "[4@2 2@1]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "strided_slice");
    cr_expect_eq(c.rounds, 0);
    c = plan("[4@2 2@1]", "[4@2 2@1]", 16, 16, 8, REDISTRIBUTE_AUTO);
    expect_steps(&c, "");
}

Test(redistribute, many_small_messages_become_gathers_of_equal_traffic) {
    Conversion c = plan("[64@64 64@1]", "[- -]", 64, 64, 4096, REDISTRIBUTE_AUTO),
               direct = plan("[64@64 64@1]", "[- -]", 64, 64, 4096, REDISTRIBUTE_BOUND);
    expect_steps(&c, "all_gather all_gather");
    expect_steps(&direct, "exchange");
    cr_expect_eq(c.received.total, direct.received.total);
    cr_expect_eq(direct.received.total, direct.bound.total);
    cr_expect_eq(direct.bound.total, (int64_t)4096 * 4095);
}

/* Sums of a scalar over 32 of 1,024 ranks, which all need it: as an exchange its owner sends 1,023 messages. Large values stay at the bound, and so do small ones on the
 * ranks of one node. */
Test(redistribute, latency_counts_on_many_ranks) {
    Conversion c = plan("[- -] +sum(32@1)", "[- -]", 1, 1, 1024, REDISTRIBUTE_AUTO),
               exact = plan("[- -] +sum(32@1)", "[- -]", 1, 1, 1024, REDISTRIBUTE_BOUND);
    expect_steps(&c, "all_reduce");
    expect_steps(&exact, "exchange");
    cr_expect_eq(c.seconds.messages, 2 * 5);
    cr_expect_eq(exact.seconds.messages, 31 + 1023);
    cr_expect_eq(c.received.total, 2 * 31 * 32);
    cr_expect_eq(exact.received.total, 31 + 1023);
    c = plan("[1024@1 -]", "[- 1024@1]", 1024, 1024, 1024,
             REDISTRIBUTE_AUTO); /* 1 element from each: a gather of 4 MiB takes less than 1,023 messages */
    cr_expect_lt(c.seconds.messages, 1023);
    c = plan("[1024@1 -]", "[- 1024@1]", 1 << 16, 1 << 16, 1024, REDISTRIBUTE_AUTO);
    expect_steps(&c, "all_to_all");
    cr_expect_eq(c.received.total, c.bound.total);
    c = plan("[- -] +sum(32@1)", "[- -]", 1 << 16, 1 << 16, 1024, REDISTRIBUTE_AUTO);
    cr_expect_eq(c.received.total, c.bound.total);
    c = plan("[- -] +sum(4@1)", "[- -]", 1, 1, 8, REDISTRIBUTE_AUTO);
    cr_expect_eq(c.received.total, c.bound.total);
    c = plan("[- -] +sum(4@1)", "[- -]", 1, 1, 16, REDISTRIBUTE_AUTO); /* two nodes: each sums alone */
    expect_steps(&c, "all_reduce");
    cr_expect_eq(c.received.total, 2 * 3 * 4);
}

/* On machine cpu, of values from a few elements to some MiB a rank: never slower than what the other policies plan, and more than the bound only where that is faster. */
Test(redistribute, nothing_that_is_planned_is_faster) {
    static const char *const layouts[] = {"[- -]",
                                          "[64@4 -]",
                                          "[- 64@4]",
                                          "[16@16 16@1]",
                                          "[16@1 16@16]",
                                          "[256@1 -]",
                                          "[- -] +sum(256@1)",
                                          "[- -] +sum(16@1)",
                                          "[16@16 -] +sum(16@1)",
                                          "[- 4@1] +sum(64@4)",
                                          "[32@8 -] +sum(2@4)"};
    enum { N = sizeof layouts / sizeof *layouts };
    int more = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 6; k++)
            for (int64_t rows = 1; rows <= 1 << 14; rows *= 27) {
                Conversion c = plan(layouts[i], layouts[k], rows, 512, 256, REDISTRIBUTE_AUTO),
                           exact = plan(layouts[i], layouts[k], rows, 512, 256, REDISTRIBUTE_BOUND),
                           canonical = plan(layouts[i], layouts[k], rows, 512, 256, REDISTRIBUTE_CANONICAL);
                cr_expect_leq(move_seconds(c.seconds), 1.02 * move_seconds(exact.seconds), "%s -> %s", layouts[i], layouts[k]);
                if (exact.seconds.messages > 8)
                    cr_expect_leq(move_seconds(c.seconds), 1.02 * move_seconds(canonical.seconds), "%s -> %s", layouts[i], layouts[k]);
                cr_expect(c.received.total == c.bound.total || move_seconds(c.seconds) < move_seconds(exact.seconds), "%s -> %s",
                          layouts[i], layouts[k]);
                more += c.received.total > c.bound.total;
            }
    cr_expect_gt(more, 20);
}

Test(redistribute, the_worst_case_of_mindspore_is_at_the_bound) {
    /* MindSpore's planner on x4, y2, z4 of 16 x 8, [x.y z] -> [y.z x]: 1152 received there, 120 needed. */
    Conversion c = plan("[4@8.2@4 4@1]", "[2@4.4@1 4@8]", 16, 8, 32, REDISTRIBUTE_AUTO);
    cr_expect_eq(c.received.total, c.bound.total);
    cr_expect_eq(c.bound.total, 120);
}

Test(redistribute, a_sum_cannot_be_taken_apart) {
    Layout from = layout_of("[- -]"), to = layout_of("[- -] +sum(2@1)");
    Shape shape = {.ndim = 2, .dim = {4, 4}};
    Conversion conversion;
    const char *why = NULL;
    cr_expect(!redistribute(&from, &to, &shape, 4, 8, REDISTRIBUTE_AUTO, NULL, &conversion, &why));
    cr_expect_not_null(why);
    from = layout_of("[- -] +sum(2@1) +max(2@2)"), to = layout_of("[- -]"), why = NULL;
    cr_expect(!redistribute(&from, &to, &shape, 4, 8, REDISTRIBUTE_AUTO, NULL, &conversion, &why));
    cr_expect_not_null(why);
    to = layout_of("[- -] +max(2@2)");
    cr_expect(redistribute(&from, &to, &shape, 4, 8, REDISTRIBUTE_AUTO, NULL, &conversion, &why));
}
