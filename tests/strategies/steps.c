/* Steps counted once for all shapes that they divide alike are what they are for each. */
#include <criterion/criterion.h>

#include "strategies/pair.h"
#include "tests/strategies/pairs.h"

static bool traffic_equal(Traffic a, Traffic b) {
    return a.total == b.total && a.max == b.max;
}

/* Multiples of the ranks, of which there are large ones so that sums have shares for all; sizes that divide by some digits, and by none. */
static int64_t random_size(uint64_t *seed, int nranks) {
    static const int64_t sizes[] = {1, 2, 3, 7, 12, 30, 64, 90};
    const int how = random_below(seed, 4);
    return how == 0 ? sizes[random_below(seed, 8)] : (int64_t)nranks * (1 + random_below(seed, 5));
}

static void expect_counted_alike(int list, uint64_t seed) {
    static const int ranks[] = {2, 6, 8, 12, 36, 64};
    int exchanges = 0, few = 0;
    for (int i = 0; i < 600; i++) {
        Arena arena;
        arena_init(&arena);
        const int nranks = ranks[random_below(&seed, 6)];
        Steps *steps = steps_create(&arena, &machine_gpu8, nranks);
        Layout from, to;
        Digit summed[MAX_DIGITS];
        Reduction kind;
        random_source(&seed, nranks, list, &from);
        random_target(&seed, nranks, list, &from, &to);
        if (layout_summed(&from, &to, summed, &kind) < 0) {
            arena_finish(&arena);
            continue;
        }
        for (int k = 0; k < 6; k++) {
            Shape shape = {.ndim = 3};
            Traffic received, sent, all_received, all_sent;
            for (int d = 0; d < 3; d++)
                shape.dim[d] = random_size(&seed, nranks);
            steps_traffic(steps, COMM_EXCHANGE, &from, &to, &shape, &received, &sent);
            traffic_step(COMM_EXCHANGE, &from, &to, &shape, nranks, &all_received, &all_sent);
            cr_assert(traffic_equal(received, all_received) && traffic_equal(sent, all_sent), "%d ranks, case %d", nranks, i);
            const StepLinks links = steps_links(steps, COMM_EXCHANGE, &from, &to, &shape),
                            all_links = step_links(&machine_gpu8, COMM_EXCHANGE, &from, &to, &shape, nranks);
            cr_assert_eq(links.messages, all_links.messages, "%d ranks, case %d", nranks, i);
            cr_assert(links.messages_s == all_links.messages_s && links.bytes_per_s == all_links.bytes_per_s);
            exchanges += all_received.total > 0;
        }
        few += steps->counted.n < 6;
        arena_finish(&arena);
    }
    cr_expect(exchanges > 1000 && few > 50, "%d exchanges, %d pairs of layouts counted for several shapes", exchanges, few);
}

Test(steps, shapes_that_are_divided_alike_are_counted_once) {
    expect_counted_alike(-1, 1);
}

Test(steps, sums_are_counted_once_where_each_rank_has_an_even_share) {
    expect_counted_alike(3 + REDUCE_SUM, 2);
}
