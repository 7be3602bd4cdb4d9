#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/strategies/simulate.h"

enum { ROOM = 400 };

static const char *pair_text(const Layout *from, const Layout *to, const Shape *shape, int nranks, char text[512]) {
    Text t = {0};
    layout_print(&t, from, false);
    text_printf(&t, " -> ");
    layout_print(&t, to, false);
    text_printf(&t, " of ");
    shape_print(&t, shape);
    text_printf(&t, " on %d ranks", nranks);
    snprintf(text, 512, "%s", t.at);
    text_finish(&t);
    return text;
}

static int64_t sum_of(const int64_t *at, int n) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += at[i];
    return sum;
}

static int64_t most_of(const int64_t *at, int n) {
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        if (at[i] > most) most = at[i];
    return most;
}

/* Runs a conversion in the simulation; what it says it moves must be what was moved. */
static void check_conversion(const Layout *from, const Layout *to, const Shape *shape, int nranks, const Conversion *conversion,
                             const char *policy) {
    static World world;
    char text[512];
    simulate_begin(&world, from, shape, nranks);
    Ranges all = {0};
    const Layout *at = from;
    Traffic received_sum = {0};
    for (int i = 0; i < conversion->nsteps; i++) {
        Ranges counts = {0};
        const char *why = NULL;
        const ConversionStep *step = &conversion->step[i];
        bool good = simulate_step(&world, from, at, step, &counts, &why);
        cr_assert(good, "%s, %s, step %d (%s): %s", pair_text(from, to, shape, nranks, text), policy, i, comm_name[step->kind], why);
        Traffic received, sent;
        traffic_step(step->kind, at, &step->to, shape, nranks, &received, &sent);
        cr_assert(received.total == sum_of(counts.received, nranks) && received.max == most_of(counts.received, nranks),
                  "%s, %s, step %d (%s): received %lld, worst %lld; said to be %lld, %lld", pair_text(from, to, shape, nranks, text),
                  policy, i, comm_name[step->kind], (long long)sum_of(counts.received, nranks), (long long)most_of(counts.received, nranks),
                  (long long)received.total, (long long)received.max);
        cr_assert(sent.total == sum_of(counts.sent, nranks) && sent.max == most_of(counts.sent, nranks),
                  "%s, %s, step %d (%s): sent %lld, worst %lld; said to be %lld, %lld", pair_text(from, to, shape, nranks, text), policy, i,
                  comm_name[step->kind], (long long)sum_of(counts.sent, nranks), (long long)most_of(counts.sent, nranks),
                  (long long)sent.total, (long long)sent.max);
        for (int rank = 0; rank < nranks; rank++)
            all.received[rank] += counts.received[rank];
        received_sum.total += received.total;
        received_sum.max += received.max;
        at = &step->to;
    }
    cr_assert_eq(conversion->received.total, received_sum.total);
    cr_assert_eq(conversion->received.max, received_sum.max);
    cr_assert_geq(conversion->received.max, most_of(all.received, nranks));
    for (int rank = 0; rank < nranks; rank++)
        for (int cell = 0; cell < world.ncells; cell++)
            cr_assert_eq(world.terms[rank][cell], simulate_holds(to, shape, rank, cell) ? simulate_wanted(from, to, nranks, rank) : 0,
                         "%s, %s", pair_text(from, to, shape, nranks, text), policy);
}

/* All policies on one pair. Returns whether the pair is legal. */
static bool check_pair(const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    char text[512];
    Conversion exact, automatic, canonical;
    const char *why = NULL;
    bool legal = true;
    for (int list = shape->ndim; list < shape->ndim + NREDUCTIONS; list++)
        for (int k = 0; k < layout_count(to, list); k++)
            for (int rank = 0; rank < nranks; rank++)
                for (int value = 0; value < layout_list(to, list)[k].size; value++) {
                    /* Moving along a digit that the target owes must change the source's term. */
                    Digit digit = layout_list(to, list)[k];
                    int other = rank + (value - rank / digit.stride % digit.size) * digit.stride;
                    bool changes = other == rank;
                    for (int i = 0; i < layout_count(from, list); i++)
                        changes = changes || digit_of(layout_list(from, list)[i], rank) != digit_of(layout_list(from, list)[i], other);
                    legal = legal && changes;
                }
    bool done = redistribute(from, to, shape, 4, nranks, REDISTRIBUTE_BOUND, &exact, &why);
    if (!legal) {
        cr_assert(!done && why, "%s: illegal, but planned", pair_text(from, to, shape, nranks, text));
        return false;
    }
    if (!done) { /* sums kept over part of the ranks, in meshes that do not fit together */
        Layout a = *from, b = *to;
        cr_assert(!layout_refine(&a, &b) && layout_is_partial(to), "%s: %s", pair_text(from, to, shape, nranks, text), why);
        return false;
    }
    cr_assert(redistribute(from, to, shape, 4, nranks, REDISTRIBUTE_AUTO, &automatic, &why));
    cr_assert(redistribute(from, to, shape, 4, nranks, REDISTRIBUTE_CANONICAL, &canonical, &why));
    check_conversion(from, to, shape, nranks, &exact, "bound");
    check_conversion(from, to, shape, nranks, &automatic, "auto");
    check_conversion(from, to, shape, nranks, &canonical, "canonical");
    Traffic bound;
    simulate_bound(from, to, shape, nranks, &bound);
    cr_assert(exact.bound.total == bound.total && exact.bound.max == bound.max, "%s: bound %lld, %lld; said to be %lld, %lld",
              pair_text(from, to, shape, nranks, text), (long long)bound.total, (long long)bound.max, (long long)exact.bound.total,
              (long long)exact.bound.max);
    cr_assert_eq(exact.received.total, bound.total, "%s: received %lld, bound %lld", pair_text(from, to, shape, nranks, text),
                 (long long)exact.received.total, (long long)bound.total);
    cr_assert_leq(automatic.received.total, canonical.received.total, "%s", pair_text(from, to, shape, nranks, text));
    cr_assert_eq(automatic.received.total, bound.total, "%s", pair_text(from, to, shape, nranks, text));
    cr_assert_leq(exact.nsteps, 1);
    return true;
}

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
                        *(check_pair(&layouts[i], &layouts[j], &shape, nranks) ? &pairs : &refused) += 1;
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
    cr_assert(redistribute(&a, &b, &shape, 4, nranks, policy, &conversion, &why), "%s", why);
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

/* facts/mindspore.md 3.6; effects, not the order of operators. */
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

Test(redistribute, the_worst_case_of_mindspore_is_at_the_bound) {
    /* facts/planning.md 2.4: x4, y2, z4 of 16 x 8, [x.y z] -> [y.z x]: 1152 received there, 120 needed. */
    Conversion c = plan("[4@8.2@4 4@1]", "[2@4.4@1 4@8]", 16, 8, 32, REDISTRIBUTE_AUTO);
    cr_expect_eq(c.received.total, c.bound.total);
    cr_expect_eq(c.bound.total, 120);
}

Test(redistribute, a_sum_cannot_be_taken_apart) {
    Layout from = layout_of("[- -]"), to = layout_of("[- -] +sum(2@1)");
    Shape shape = {.ndim = 2, .dim = {4, 4}};
    Conversion conversion;
    const char *why = NULL;
    cr_expect(!redistribute(&from, &to, &shape, 4, 8, REDISTRIBUTE_AUTO, &conversion, &why));
    cr_expect_not_null(why);
    from = layout_of("[- -] +sum(2@1) +max(2@2)"), to = layout_of("[- -]"), why = NULL;
    cr_expect(!redistribute(&from, &to, &shape, 4, 8, REDISTRIBUTE_AUTO, &conversion, &why));
    cr_expect_not_null(why);
    to = layout_of("[- -] +max(2@2)");
    cr_expect(redistribute(&from, &to, &shape, 4, 8, REDISTRIBUTE_AUTO, &conversion, &why));
}
