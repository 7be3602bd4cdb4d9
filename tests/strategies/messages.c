/* Messages of an exchange as digits say, against its pieces one by one. */
#include <criterion/criterion.h>

#include "strategies/pair.h"
#include "tests/strategies/pairs.h"

typedef struct Seen {
    int ranks_per_node;
    Links received[2], sent[2];
} Seen;

static bool see(void *context, const Piece *piece) {
    Seen *seen = context;
    if (piece->from == piece->to) return true;
    Links *links = (piece->to == 0 ? seen->received : seen->sent) + piece->round;
    *(piece->from / seen->ranks_per_node == piece->to / seen->ranks_per_node ? &links->near : &links->far) += 1;
    return true;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static Links by_pieces(const Pair *pair, int ranks_per_node) {
    Seen seen = {.ranks_per_node = ranks_per_node};
    Links links = {0};
    pieces_received(pair->from, pair->to, pair->shape, pair->nranks, 0, see, &seen);
    if (pair->terms > 1) pieces_sent(pair->from, pair->to, pair->shape, pair->nranks, 0, see, &seen);
    for (int round = 0; round < 2; round++) {
        links.near += larger(seen.received[round].near, seen.sent[round].near);
        links.far += larger(seen.received[round].far, seen.sent[round].far);
    }
    return links;
}

/* Sizes of which no piece is so small that an owner has nothing of it; even: every digit divides them. */
static void check(int nranks, int ranks_per_node, bool even, int npairs) {
    Machine machine = machine_cpu;
    int sums = 0, uneven = 0, in_both = 0;
    machine.ranks_per_node = ranks_per_node;
    for (int i = 0; i < npairs; i++) {
        uint64_t seed = (uint64_t)i * 1000003 + (uint64_t)nranks;
        Shape shape = {.ndim = 3};
        Layout from, to;
        Pair pair;
        Links counted, expected;
        const int list = random_below(&seed, 2) ? 3 + REDUCE_SUM : -1;
        random_source(&seed, nranks, list, &from);
        random_target(&seed, nranks, list, &from, &to);
        for (int d = 0; d < 3; d++)
            shape.dim[d] = (even ? 1 : 100) * nranks * nranks + (even ? 0 : random_below(&seed, nranks));
        if (!pair_init(&pair, &from, &to, &shape, nranks, NULL) || !pair.refined) continue;
        cr_assert(messages_count(&machine, &pair, &counted));
        expected = by_pieces(&pair, ranks_per_node);
        sums += pair.terms > 1;
        uneven += !pair.even;
        in_both += pair.terms > 1 && !pair_in_place(&pair);
        Text text = {0};
        layout_print(&text, &from, false);
        text_printf(&text, " -> ");
        layout_print(&text, &to, false);
        cr_expect(counted.near == expected.near && counted.far == expected.far,
                  "%d ranks, pair %d, %s: %lld near and %lld far, not %lld and %lld", nranks, i, text.at, (long long)counted.near,
                  (long long)counted.far, (long long)expected.near, (long long)expected.far);
        text_finish(&text);
    }
    cr_assert(sums > npairs / 5 && in_both > npairs / 20 && (even || uneven > npairs / 5), "%d, %d and %d pairs say little", sums, in_both,
              uneven);
}

Test(messages, of_even_pairs) {
    check(16, 4, true, 2000);
    check(64, 8, true, 300);
}

Test(messages, of_uneven_pairs) {
    check(16, 4, false, 2000);
    check(64, 8, false, 300);
}

Test(messages, all_ranks_of_one_node_are_near) {
    check(16, 16, true, 300);
}

/* Of a piece of few cells only as many owners as there are cells have a share. */
Test(messages, of_small_pieces) {
    Layout from, to;
    Pair pair;
    Links counted;
    const Shape shape = {.ndim = 1, .dim = {2}};
    layout_init(&from, 1), layout_init(&to, 1);
    layout_append(&from, 1 + REDUCE_SUM, (Digit){16, 1});
    cr_assert(pair_init(&pair, &from, &to, &shape, 16, NULL));
    cr_assert(messages_count(&machine_cpu, &pair, &counted));
    const Links expected = by_pieces(&pair, machine_cpu.ranks_per_node);
    cr_expect(counted.near == expected.near && counted.far == expected.far, "%lld near and %lld far, not %lld and %lld",
              (long long)counted.near, (long long)counted.far, (long long)expected.near, (long long)expected.far);
}
