#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "strategies/choice.h"
#include "tests/strategies/nets.h"

/* Ordered factorisations of n over factors of these sizes, counted from the last factor on: ways[r] to make r. */
static int64_t count_products(const int64_t *size, int nfactors, int n) {
    int64_t ways[4097] = {0};
    ways[1] = 1;
    for (int f = nfactors - 1; f >= 0; f--) {
        int64_t next[4097] = {0};
        for (int r = 1; r <= n; r++)
            for (int split = 1; ways[r] && split * r <= n; split++)
                if (split <= size[f] || split == 1) next[split * r] += ways[r];
        memcpy(ways, next, sizeof ways);
    }
    return ways[n];
}

static int64_t count_expected(const int64_t *size, int nfactors, int nranks) {
    for (int used = nranks; used > 1; used--)
        if (nranks % used == 0 && count_products(size, nfactors, used) > 0) return count_products(size, nfactors, used);
    return 1;
}

static Node *matmul(Net *net, int nranks, int64_t m, int64_t k, int64_t n) {
    net_init(net, nranks);
    return net_node(net, net_op(net, OP_matmul, net_input(net, "x", 2, (int64_t[]){m, k}), net_input(net, "w", 2, (int64_t[]){k, n}), "y"));
}

Test(candidates, as_many_as_an_independent_count) {
    static const int64_t sizes[][3] = {{16, 32, 16}, {512, 512, 512}, {4096, 4096, 4096}, {2, 3, 5}, {1, 1, 7}, {1, 1, 1}, {6, 4, 100}};
    int64_t tried = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int nranks = 1; nranks <= 4096; nranks = nranks < 64 ? nranks + 1 : nranks * 2) {
            Net net;
            Node *node = matmul(&net, nranks, sizes[s][0], sizes[s][1], sizes[s][2]);
            int64_t expected = count_expected(sizes[s], 3, nranks);
            Candidates all = candidates(node, nranks, &net.arena);
            cr_assert_eq(all.n, expected, "%lld candidates on %d ranks, expected %lld", (long long)all.n, nranks, (long long)expected);
            cr_assert_eq(candidates_count(node, nranks), expected);
            tried += expected;
            net_finish(&net);
        }
    fprintf(stderr, "candidates: %lld counted\n", (long long)tried);
}

Test(candidates, powers_of_primes_follow_the_binomial_formula) {
    Net net;
    Node *node = matmul(&net, 4096, 4096, 4096, 4096);
    cr_expect_eq(candidates_count(node, 4096), 91);   /* 2^12 over 3: C(14, 2) */
    cr_expect_eq(candidates_count(node, 72), 10 * 6); /* 2^3 x 3^2: C(5, 2) x C(4, 2) */
    net_finish(&net);
}

Test(candidates, are_in_order_distinct_and_valid) {
    Net net;
    Node *node = matmul(&net, 24, 7, 12, 5);
    Candidates all = candidates(node, 24, &net.arena);
    int before[3] = {0};
    for (int i = 0; i < all.n; i++) {
        int split[3], product = 1, order = 0;
        for (int f = 0; f < 3; f++) {
            split[f] = (int)strategy_split(&all.at[i], f);
            product *= split[f];
            cr_expect_leq(split[f], node->rule->factor[f].size);
            if (order == 0) order = split[f] - before[f];
        }
        cr_expect_eq(product, 24);
        cr_expect_gt(order, 0);
        memcpy(before, split, sizeof before);
        Layout layout;
        const char *why;
        strategy_out_layout(node, &all.at[i], 0, 2, &layout);
        cr_expect(layout_valid(&layout, 24, &why), "%s", why);
    }
    net_finish(&net);
}

Test(candidates, ranks_left_over_are_the_last_fastest_digit) {
    Strategy strategy;
    strategy_from_splits((int32_t[]){2, 1, 2}, 3, 8, &strategy);
    cr_expect_eq(strategy_digits(&strategy, 0)[0].stride, 4);
    cr_expect_eq(strategy_count(&strategy, 1), 0);
    cr_expect_eq(strategy_digits(&strategy, 2)[0].stride, 2);
}

Test(candidates, a_reshape_splits_only_where_it_divides) {
    Net net;
    net_init(&net, 4);
    int x = net_input(&net, "x", 2, (int64_t[]){6, 4});
    Attr attr[MAX_ATTRS] = {{.given = true, .n = 1, .ints = {24}}};
    Node *node = net_node(&net, net_op_attr(&net, OP_reshape, x, attr, "y"));
    Candidates all = candidates(node, 4, &net.arena);
    for (int i = 0; i < all.n; i++)
        for (int f = 0; f < node->rule->nfactors; f++)
            if (node->rule->factor[f].divides) cr_expect_eq(node->rule->factor[f].size % strategy_split(&all.at[i], f), 0);
    cr_expect_gt(all.n, 0);
    net_finish(&net);
}

Test(candidates, strategies_print_as_tuples_or_say_that_they_cannot) {
    Net net;
    Node *node = matmul(&net, 8, 16, 32, 16);
    Strategy strategy;
    Text text = {0};
    strategy_from_splits((int32_t[]){2, 4, 1}, 3, 8, &strategy);
    cr_expect(strategy_print(&text, node, &net.graph, &strategy));
    cr_expect_str_eq(text.at, "((2, 4), (4, 1))");
    text_finish(&text);
    text = (Text){0};
    strategy.digit[0].stride = 1;
    strategy.digit[1].stride = 2;
    cr_expect(!strategy_print(&text, node, &net.graph, &strategy));
    text_finish(&text);
    net_finish(&net);
}

Test(candidates, the_batch_is_dimension_0_of_the_first_operand_that_depends_on_an_input) {
    Net net;
    net_init(&net, 8);
    int x = net_input(&net, "x", 2, (int64_t[]){16, 4}), w = net_parameter(&net, "w", 2, (int64_t[]){16, 16});
    int product = net_op(&net, OP_matmul, w, x, "product");
    Strategy strategy;
    /* x's dimension 0 is contracted here: the batch is k. */
    strategy_batch(&net.graph, net_node(&net, product), &strategy);
    cr_expect_eq(strategy_count(&strategy, 0), 0);
    cr_expect_eq(strategy_split(&strategy, 1), 8);
    int squares = net_op(&net, OP_mul, w, w, "squares"); /* depends on no input: whole */
    strategy_batch(&net.graph, net_node(&net, squares), &strategy);
    cr_expect_eq(strategy_count(&strategy, 0), 0);
    cr_expect_eq(strategy_count(&strategy, 1), 0);
    net_finish(&net);
}

Test(candidates, the_batch_is_followed_where_operators_take_it) {
    Net net;
    net_init(&net, 8);
    int x = net_input(&net, "x", 2, (int64_t[]){16, 24}), w = net_parameter(&net, "w", 3, (int64_t[]){8, 24, 32});
    int turned = net_op(&net, OP_transpose, x, -1, "turned");
    int crossed = net_op(&net, OP_relu, turned, -1, "crossed");
    int experts = net_op(&net, OP_matmul, x, w, "experts"); /* [8, 16, 32] */
    int activated = net_op(&net, OP_relu, experts, -1, "activated");
    int product = net_op(&net, OP_matmul, turned, x, "product"); /* [24, 24]: the batch is contracted, */
    int after = net_op(&net, OP_relu, product, -1, "after");     /* and dimension 0 takes its place */
    const struct {
        int value, operand, dim;
    } expected[] = {{crossed, 0, 1}, {experts, 0, 0}, {activated, 0, 1}, {product, 0, 1}, {after, 0, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const Node *node = net_node(&net, expected[i].value);
        Strategy strategy;
        strategy_batch(&net.graph, node, &strategy);
        for (int f = 0; f < node->rule->nfactors; f++)
            cr_expect_eq(strategy_count(&strategy, f), f == node->rule->in[expected[i].operand][expected[i].dim], "%s, factor %d",
                         node->name, f);
    }
    net_finish(&net);
}

Test(candidates, a_batch_is_split_no_further_than_it_has) {
    Factor five = {.size = 5}, six = {.size = 6}, whole = {.size = 8, .whole = true};
    cr_expect_eq(split_largest(&five, 8, false), 4);
    cr_expect_eq(split_largest(&five, 8, true), 1);
    cr_expect_eq(split_largest(&six, 8, true), 2);
    cr_expect_eq(split_largest(&whole, 8, false), 1);
}
