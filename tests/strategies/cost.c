#include <criterion/criterion.h>

#include "strategies/choice.h"
#include "tests/strategies/nets.h"
#include "tests/strategies/simulate.h"

Test(cost, layouts_of_one_meaning_have_one_number) {
    Arena arena;
    arena_init(&arena);
    CostMemo *memo = cost_memo_create(&arena, 8);
    Shape even = {.ndim = 1, .dim = {16}}, uneven = {.ndim = 1, .dim = {10}};
    Layout one, two;
    layout_init(&one, 1), layout_init(&two, 1);
    layout_append(&one, 0, (Digit){8, 1});
    layout_append(&two, 0, (Digit){2, 4});
    layout_append(&two, 0, (Digit){4, 1});
    cr_expect_eq(cost_layout(memo, &one, &even), cost_layout(memo, &two, &even));
    cr_expect_neq(cost_layout(memo, &one, &uneven), cost_layout(memo, &two, &uneven));
    cr_expect_neq(cost_layout(memo, &one, &even), cost_layout(memo, &one, &uneven));
    Layout partial = one;
    layout_init(&partial, 1);
    layout_append(&partial, 1 + REDUCE_SUM, (Digit){8, 1});
    layout_init(&one, 1);
    cr_expect_eq(cost_layout(memo, &partial, &even), cost_layout(memo, &one, &even)); /* partial sums are completed at once */
    arena_finish(&arena);
}

Test(cost, a_thousand_remembered_conversions_are_those_counted_anew) {
    Arena arena;
    arena_init(&arena);
    CostMemo *memo = cost_memo_create(&arena, 8);
    static Layout layouts[400];
    int n = simulate_layouts(8, 2, false, layouts, 400);
    Shape shape = {.ndim = 2, .dim = {8, 6}};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                cr_assert_eq(cost_convert(memo, cost_layout(memo, &layouts[i], &shape), cost_layout(memo, &layouts[j], &shape)),
                             traffic_exchange(&layouts[i], &layouts[j], &shape, 8));
    arena_finish(&arena);
}

Test(cost, flops_are_those_of_the_largest_part) {
    Net net;
    net_init(&net, 8);
    int x = net_input(&net, "x", 2, (int64_t[]){10, 7}), w = net_input(&net, "w", 2, (int64_t[]){7, 4});
    Node *node = net_node(&net, net_op(&net, OP_matmul, x, w, "y"));
    cr_expect_eq(cost_flops(OP_matmul, node->rule, (int32_t[]){4, 2, 1}), 2.0 * 3 * 4 * 4);
    net_finish(&net);
}
