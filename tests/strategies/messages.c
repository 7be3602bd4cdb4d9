/* Messages of an exchange as digits say, against its pieces one by one. */
#include <criterion/criterion.h>

#include "strategies/pair.h"
#include "tests/strategies/pairs.h"

typedef struct Seen {
    int ranks_per_node, rank;
    Links received[2], sent[2];
} Seen;

static bool see(void *context, const Piece *piece) {
    Seen *seen = context;
    if (piece->from == piece->to) return true;
    Links *links = (piece->to == seen->rank ? seen->received : seen->sent) + piece->round;
    *(piece->from / seen->ranks_per_node == piece->to / seen->ranks_per_node ? &links->near : &links->far) += 1;
    return true;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static Links of_rank(const Pair *pair, int ranks_per_node, int rank) {
    Seen seen = {.ranks_per_node = ranks_per_node, .rank = rank};
    Links links = {0};
    pieces_received(pair->from, pair->to, pair->shape, pair->nranks, rank, see, &seen);
    if (pair->terms > 1) pieces_sent(pair->from, pair->to, pair->shape, pair->nranks, rank, see, &seen);
    for (int round = 0; round < 2; round++) {
        links.near += larger(seen.received[round].near, seen.sent[round].near);
        links.far += larger(seen.received[round].far, seen.sent[round].far);
    }
    return links;
}

/* Messages to other nodes take longer, those within one too. */
static bool slower(Links a, Links b) {
    return a.far != b.far ? a.far > b.far : a.near > b.near;
}

static Links by_pieces(const Pair *pair, int ranks_per_node) {
    Links most = {0};
    for (int rank = 0; rank < pair->nranks; rank++) {
        const Links links = of_rank(pair, ranks_per_node, rank);
        if (slower(links, most)) most = links;
    }
    return most;
}

/* Sizes of which no piece is so small that an owner has nothing of it; even: every digit divides them. The messages of the busiest rank; where there are sums, or parts of unequal
 * sizes, of few pairs fewer, but no fewer than those of rank 0. */
static void check(int nranks, int ranks_per_node, bool even, int npairs) {
    Machine machine = machine_cpu;
    int sums = 0, uneven = 0, in_both = 0, exact = 0, all = 0;
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
        const bool equal = counted.near == expected.near && counted.far == expected.far;
        all++;
        exact += equal;
        sums += pair.terms > 1;
        uneven += !pair.even;
        in_both += pair.terms > 1 && !pair_in_place(&pair);
        Text text = {0};
        layout_print(&text, &from, false);
        text_printf(&text, " -> ");
        layout_print(&text, &to, false);
        cr_expect(pair.terms == 1 && pair.even ? equal : !slower(of_rank(&pair, ranks_per_node, 0), counted),
                  "%d ranks, pair %d, %s: %lld near and %lld far, not %lld and %lld", nranks, i, text.at, (long long)counted.near,
                  (long long)counted.far, (long long)expected.near, (long long)expected.far);
        text_finish(&text);
    }
    cr_expect(exact > all * (even ? 95 : 60) / 100, "%d of %d are the busiest rank's", exact, all);
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

/* Rank 0 keeps its part, and so does 3; the parts of 1 and 2 are exchanged. */
static MoveSeconds of_swap(const Machine *machine, bool renamed) {
    static const int swapped[] = {0, 2, 1, 3};
    static const Order order = {.name = "swapped", .nranks = 4, .rank = swapped, .position = swapped};
    Layout from, to;
    const Shape shape = {.ndim = 1, .dim = {8}};
    layout_init(&from, 1), layout_init(&to, 1);
    layout_append(&from, 0, (Digit){2, 2}), layout_append(&from, 0, (Digit){2, 1});
    if (renamed) {
        to = from;
        to.order = &order;
    } else {
        layout_append(&to, 0, (Digit){2, 1}), layout_append(&to, 0, (Digit){2, 2});
    }
    return step_seconds(machine, COMM_EXCHANGE, &from, &to, &shape, 8, 4);
}

Test(messages, a_permutation_that_rank_0_has_no_part_in_takes_a_message) {
    Machine machine = {.ranks_per_node = 4, .rank = {.latency_s = 1, .bytes_per_s = 8}, .node = {.latency_s = 16, .bytes_per_s = 2}};
    for (int renamed = 0; renamed < 2; renamed++) {
        machine.ranks_per_node = 4;
        MoveSeconds seconds = of_swap(&machine, renamed);
        cr_expect(seconds.messages == 1 && seconds.messages_s == 1 && seconds.bytes_s == 1, "%d: %g s", renamed, move_seconds(seconds));
        machine.ranks_per_node = 2; /* 1 and 2 are in different nodes */
        seconds = of_swap(&machine, renamed);
        cr_expect(seconds.messages == 1 && seconds.messages_s == 16 && seconds.bytes_s == 4, "%d: %g s", renamed, move_seconds(seconds));
    }
}
