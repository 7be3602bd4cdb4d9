/* 20,000 random pairs of layouts of 3 dimensions on 16 ranks (and some on 12, whose meshes need not fit together): sub-axes, device orders on
 * either side, partial sums on one side or both, uneven and empty boxes. Each is planned under every policy and simulated cell by cell. The
 * pairs are dealt to several tests, which run at the same time. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/strategies/pairs.h"
#include "tests/strategies/simulate.h"

typedef struct Seen {
    int pairs, refused, moved, uneven, empty, owed, kept, one_order, two_orders, unfit;
} Seen;

static const Order *random_order(Arena *arena, uint64_t *seed, const char *name, int nranks) {
    int rank[SIMULATE_RANKS];
    for (int i = 0; i < nranks; i++)
        rank[i] = i;
    for (int i = nranks - 1; i > 0; i--) {
        int j = random_below(seed, i + 1), swap = rank[i];
        rank[i] = rank[j];
        rank[j] = swap;
    }
    return order_make(arena, name, rank, nranks);
}

static void look(Seen *seen, const Layout *from, const Layout *to, const Shape *shape, int nranks, int list) {
    bool uneven = false;
    for (int d = 0; d < 3; d++)
        uneven = uneven || shape->dim[d] % layout_split(from, d) != 0 || shape->dim[d] % layout_split(to, d) != 0;
    Box last;
    layout_box(to, shape, order_rank(to->order, nranks - 1), &last);
    const Order *order;
    bool agree = layout_orders_agree(from, to, &order);
    Layout a = *from, b = *to;
    seen->uneven += uneven;
    seen->empty += box_elements(&last) == 0;
    seen->owed += list >= 0 && layout_is_partial(from);
    seen->kept += layout_is_partial(to);
    seen->one_order += agree && order;
    seen->two_orders += !agree;
    seen->unfit += !layout_refine(&a, &b);
    seen->moved += !layout_same(from, to, shape, nranks);
}

/* Pairs number `shard` * n to `shard` * n + n - 1. */
static Seen simulate_shard(int shard, int n, int nranks) {
    Seen seen = {0};
    for (int i = 0; i < n; i++) {
        uint64_t seed = (uint64_t)(shard * n + i) * 1000003 + (uint64_t)nranks; /* the pair alone can be run again from it */
        Arena arena;
        arena_init(&arena);
        static const int64_t sizes[] = {1, 2, 3, 4, 4, 5, 6, 8};
        Shape shape = {.ndim = 3};
        do
            for (int d = 0; d < 3; d++)
                shape.dim[d] = sizes[random_below(&seed, 8)];
        while (shape_elements(&shape) > SIMULATE_CELLS);
        Layout from, to;
        int list = random_below(&seed, 2) ? 3 + random_below(&seed, NREDUCTIONS) : -1;
        random_source(&seed, nranks, list, &from);
        random_target(&seed, nranks, list, &from, &to);
        int orders = random_below(&seed, 4);
        if (orders == 1) from.order = to.order = random_order(&arena, &seed, "order1", nranks);
        if (orders == 2) to.order = random_order(&arena, &seed, "order1", nranks);
        if (orders == 3)
            from.order = random_order(&arena, &seed, "order1", nranks), to.order = random_order(&arena, &seed, "order2", nranks);
        layout_canonical(&from, &shape);
        layout_canonical(&to, &shape);
        cr_assert(layout_valid(&from, nranks, NULL) && layout_valid(&to, nranks, NULL));
        look(&seen, &from, &to, &shape, nranks, list);
        *(simulate_policies(&from, &to, &shape, nranks) ? &seen.pairs : &seen.refused) += 1;
        arena_finish(&arena);
    }
    fprintf(
        stderr,
        "redistribution on %d ranks, shard %d: %d pairs simulated, %d refused; %d move something, %d uneven, %d with empty boxes, %d of "
        "partial values, %d stay partial, %d in one device order, %d between two, %d of meshes that do not fit\n",
        nranks, shard, seen.pairs, seen.refused, seen.moved, seen.uneven, seen.empty, seen.owed, seen.kept, seen.one_order, seen.two_orders,
        seen.unfit);
    return seen;
}

enum { SHARDS = 10, PAIRS = 2000 };

static void check_shard(int shard) {
    Seen seen = simulate_shard(shard, PAIRS, 16);
    cr_assert_eq(seen.pairs, PAIRS, "all pairs are legal");
    const int counts[] = {seen.moved, seen.uneven, seen.empty, seen.owed, seen.kept, seen.one_order, seen.two_orders};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        cr_assert_gt(counts[i], PAIRS / 10, "the pairs say little: count %zu is %d", i, counts[i]);
}

#define SHARD(n)                                                                                                                           \
    Test(redistribute_random, pairs_are_right_and_at_the_bound_##n, .timeout = 300) {                                                      \
        check_shard(n);                                                                                                                    \
    }
SHARD(0)
SHARD(1)
SHARD(2)
SHARD(3)
SHARD(4)
SHARD(5)
SHARD(6)
SHARD(7)
SHARD(8)
SHARD(9)

Test(redistribute_random, pairs_of_meshes_that_do_not_fit_together_are_too, .timeout = 300) {
    Seen seen = simulate_shard(0, 1500, 12);
    cr_assert_gt(seen.pairs, 1200);
    cr_assert_gt(seen.unfit, 100);
}
