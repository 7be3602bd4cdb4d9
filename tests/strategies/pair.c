#include <criterion/criterion.h>

#include "strategies/pair.h"
#include "tests/strategies/simulate.h"

/* Cells that ranks both need and hold, cell by cell. */
static int64_t overlap(const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    int64_t cells = 0, n = shape_elements(shape);
    for (int rank = 0; rank < nranks; rank++)
        for (int cell = 0; cell < n; cell++)
            cells += simulate_holds(from, shape, rank, cell) && simulate_holds(to, shape, rank, cell);
    return cells;
}

Test(pair, overlap_is_what_ranks_hold_of_what_they_need) {
    static const int64_t sizes[][2] = {{8, 8}, {6, 5}, {12, 2}};
    static Layout layouts[400];
    for (int nranks = 2; nranks <= 8; nranks += 2)
        for (size_t s = 0; s < 3; s++) {
            int n = simulate_layouts(nranks, 2, false, layouts, 400);
            Shape shape = {.ndim = 2, .dim = {sizes[s][0], sizes[s][1]}};
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    Pair pair;
                    cr_assert(pair_init(&pair, &layouts[i], &layouts[j], &shape, nranks, NULL));
                    cr_assert_eq(pair_overlap_total(&pair), overlap(&layouts[i], &layouts[j], &shape, nranks));
                }
        }
}

static Layout layout_of(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden));
    return layout;
}

Test(pair, digits_of_other_radices_are_aligned_where_they_can_be) {
    Layout from = layout_of("[8@1 -]"), to = layout_of("[2@1 4@2]"), odd = layout_of("[3@4 -]"), even = layout_of("[2@2 -]");
    Shape shape = {.ndim = 2, .dim = {24, 24}};
    Pair pair;
    cr_assert(pair_init(&pair, &from, &to, &shape, 24, NULL));
    cr_expect(pair.aligned);
    cr_assert(pair_init(&pair, &odd, &even, &shape, 24, NULL));
    cr_expect(pair.refined && pair.even && !pair.aligned);
}

Test(pair, combinations_of_values_are_enumerated_once) {
    Layout from = layout_of("[2@4 -]"), to = layout_of("[- 3@8]");
    Shape shape = {.ndim = 2, .dim = {24, 24}};
    Pair pair;
    cr_assert(pair_init(&pair, &from, &to, &shape, 24, NULL));
    bool set[MAX_ATOMS] = {true, true};
    int seen[24] = {0}, n = 0;
    for (AtomCounter c = atoms_first(&pair, set); !c.done; atoms_next(&c), n++)
        seen[c.rank]++;
    cr_expect_eq(n, 6);
    for (int rank = 0; rank < 24; rank++)
        cr_expect_eq(seen[rank], rank % 4 == 0);
}

/* Terms that stay apart: what a rank holds of another term is nothing that it needs. */
Test(pair, overlap_between_device_orders_is_of_the_same_terms) {
    Arena arena;
    arena_init(&arena);
    const int rank[] = {1, 0, 2, 3}, reversed[] = {3, 2, 1, 0};
    Shape shape = {.ndim = 2, .dim = {8, 8}};
    Layout from = layout_of("[2@1 -] +sum(2@2)"), to = layout_of("[2@1 -] +sum(2@2)");
    Pair pair;
    to.order = order_make(&arena, "order1", rank, 4); /* ranks 0 and 1 exchange their halves of one term */
    cr_assert(pair_init(&pair, &from, &to, &shape, 4, NULL));
    cr_expect(pair.mixed && !pair.refined);
    cr_expect_eq(pair_overlap_total(&pair), 2 * 32);
    to = layout_of("[- -] +sum(2@2)");
    to.order = order_make(&arena, "order1", reversed, 4); /* each needs all of the term that it has nothing of */
    cr_assert(pair_init(&pair, &from, &to, &shape, 4, NULL));
    cr_expect_eq(pair_overlap_total(&pair), 0);
    from.order = to.order; /* one order: as if it were the natural one */
    cr_assert(pair_init(&pair, &from, &to, &shape, 4, NULL));
    cr_expect(!pair.mixed && pair.refined);
    cr_expect_eq(pair_overlap_total(&pair), 4 * 32);
    arena_finish(&arena);
}
