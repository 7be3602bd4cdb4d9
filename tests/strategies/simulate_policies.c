/* Conversions as they are planned, in the simulation: each policy's result, figures and bound on one pair of layouts. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/strategies/simulate.h"

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
    for (int rank = 0; rank < nranks; rank++) {
        uint32_t wanted = simulate_wanted(from, to, nranks, rank);
        for (int cell = 0; cell < world.ncells; cell++)
            if (world.terms[rank][cell] != (simulate_holds(to, shape, rank, cell) ? wanted : 0))
                cr_assert_fail("%s, %s: rank %d ends with other terms", pair_text(from, to, shape, nranks, text), policy, rank);
    }
}

bool simulate_policies(const Layout *from, const Layout *to, const Shape *shape, int nranks) {
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
    bool done = redistribute(from, to, shape, 4, nranks, REDISTRIBUTE_BOUND, NULL, &exact, &why);
    if (!legal) {
        cr_assert(!done && why, "%s: illegal, but planned", pair_text(from, to, shape, nranks, text));
        return false;
    }
    if (!done) { /* sums kept over part of the ranks, in meshes that do not fit together */
        Layout a = *from, b = *to;
        cr_assert(!layout_refine(&a, &b) && layout_is_partial(to), "%s: %s", pair_text(from, to, shape, nranks, text), why);
        return false;
    }
    cr_assert(redistribute(from, to, shape, 4, nranks, REDISTRIBUTE_AUTO, NULL, &automatic, &why));
    cr_assert(redistribute(from, to, shape, 4, nranks, REDISTRIBUTE_CANONICAL, NULL, &canonical, &why));
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
    cr_assert(automatic.received.total == bound.total || (nranks > machine_cpu.ranks_per_node && exact.seconds.messages > 8 &&
                                                          move_seconds(automatic.seconds) < move_seconds(exact.seconds)),
              "%s: received %lld, bound %lld", pair_text(from, to, shape, nranks, text), (long long)automatic.received.total,
              (long long)bound.total);
    cr_assert_leq(exact.nsteps, 1);
    return true;
}
