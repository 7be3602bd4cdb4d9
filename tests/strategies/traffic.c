#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "strategies/strategies.h"
#include "tests/strategies/simulate.h"

/* A small generator of its own, so that failures can be repeated anywhere. */
static uint32_t random_below(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* Deals the digits of a random mesh of nranks to dimensions, partial sums (if wanted) and nothing. */
static void random_layout(uint64_t *state, int nranks, int ndim, bool partial, Layout *layout) {
    layout_init(layout, ndim);
    Digit digit[16];
    int n = 0;
    for (int rest = nranks; rest > 1;) {
        int size = 2 + (int)random_below(state, 7);
        if (rest % size != 0) continue;
        rest /= size;
        digit[n++] = (Digit){.size = size, .stride = rest};
    }
    for (int i = n - 1; i > 0; i--) {
        int k = (int)random_below(state, (uint32_t)i + 1);
        Digit swap = digit[i];
        digit[i] = digit[k], digit[k] = swap;
    }
    for (int i = 0; i < n; i++) {
        int list = (int)random_below(state, (uint32_t)ndim + 1 + partial);
        if (list <= ndim && (list < ndim || partial)) layout_append(layout, list, digit[i]);
    }
}

typedef struct Count {
    int64_t received[4096], sent[4096];
} Count;

static bool count_piece(void *context, const Piece *piece) {
    Count *count = context;
    if (piece->from == piece->to) return true;
    count->received[piece->to] += piece->count;
    count->sent[piece->from] += piece->count;
    return true;
}

typedef struct Count64k {
    int rank;
    int64_t received;
} Count64k;

static bool count_of_rank(void *context, const Piece *piece) {
    Count64k *count = context;
    if (piece->from != piece->to) count->received += piece->count;
    return true;
}

static Traffic traffic_of(const int64_t *at, int n) {
    Traffic traffic = {0};
    for (int i = 0; i < n; i++) {
        traffic.total += at[i];
        if (at[i] > traffic.max) traffic.max = at[i];
    }
    return traffic;
}

/* The formulas against counting every piece of every rank; box.c's pieces are simulated in redistribute.c. */
static void check_exchange(const Layout *from, const Layout *to, const Shape *shape, int nranks, uint64_t seed) {
    static Count count;
    count = (Count){0};
    for (int rank = 0; rank < nranks; rank++)
        pieces_received(from, to, shape, nranks, rank, count_piece, &count);
    Traffic received, sent, bound, counted_received = traffic_of(count.received, nranks), counted_sent = traffic_of(count.sent, nranks);
    traffic_step(COMM_EXCHANGE, from, to, shape, nranks, &received, &sent);
    traffic_bound(from, to, shape, nranks, &bound);
    Text text = {0};
    layout_print(&text, from, false);
    text_printf(&text, " -> ");
    layout_print(&text, to, false);
    text_printf(&text, " of ");
    shape_print(&text, shape);
    cr_assert(received.total == counted_received.total && received.max == counted_received.max && sent.total == counted_sent.total &&
                  sent.max == counted_sent.max,
              "seed %llu, %d ranks, %s: said received %lld %lld, sent %lld %lld; counted %lld %lld, %lld %lld", (unsigned long long)seed,
              nranks, text.at, (long long)received.total, (long long)received.max, (long long)sent.total, (long long)sent.max,
              (long long)counted_received.total, (long long)counted_received.max, (long long)counted_sent.total,
              (long long)counted_sent.max);
    cr_assert_eq(bound.total, counted_received.total, "seed %llu, %d ranks, %s: bound %lld", (unsigned long long)seed, nranks, text.at,
                 (long long)bound.total);
    text_finish(&text);
}

static void check_random(uint64_t seed, int cases, bool partial) {
    static const int ranks[] = {2, 4, 6, 8, 12, 16, 24, 36, 64, 96};
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 12, 16, 24, 30, 64, 96};
    uint64_t state = seed;
    for (int i = 0; i < cases; i++) {
        int nranks = ranks[random_below(&state, 10)];
        Shape shape = {.ndim = 1 + (int)random_below(&state, 3)};
        bool even = random_below(&state, 2);
        for (int d = 0; d < shape.ndim; d++)
            shape.dim[d] = even ? (int64_t)nranks << random_below(&state, 2) : sizes[random_below(&state, 12)];
        Layout from, to;
        random_layout(&state, nranks, shape.ndim, partial, &from);
        random_layout(&state, nranks, shape.ndim, false, &to);
        /* Some targets go on owing what the source owes. */
        if (partial && random_below(&state, 4) == 0) {
            for (int k = 0; k < layout_count(&from, shape.ndim); k++) {
                Layout longer = to;
                layout_append(&longer, shape.ndim, layout_list(&from, shape.ndim)[k]);
                if (layout_valid(&longer, nranks, NULL)) to = longer;
            }
        }
        Digit summed[MAX_DIGITS];
        Reduction kind;
        if (layout_summed(&from, &to, summed, &kind) < 0) continue;
        check_exchange(&from, &to, &shape, nranks, seed);
    }
}

Test(traffic, plain_exchanges_are_counted_exactly, .timeout = 300) {
    check_random(1, 20000, false);
}

Test(traffic, exchanges_of_partial_sums_are_counted_exactly, .timeout = 300) {
    check_random(2, 6000, true);
}

Test(traffic, four_thousand_ranks_are_counted_exactly, .timeout = 300) {
    uint64_t state = 3;
    for (int i = 0; i < 40; i++) {
        int nranks = i % 2 ? 4096 : 1536;
        Shape shape = {.ndim = 2, .dim = {i % 4 < 2 ? 4096 : 500, 768}};
        Layout from, to;
        random_layout(&state, nranks, 2, false, &from);
        random_layout(&state, nranks, 2, false, &to);
        /* Counting takes a box per pair of ranks that meet: keep those with few. */
        if (layout_split(&from, 0) * layout_split(&from, 1) > 512) continue;
        check_exchange(&from, &to, &shape, nranks, 3);
        Traffic bound;
        traffic_bound(&from, &to, &shape, nranks, &bound);
        cr_assert_eq(traffic_exchange(&from, &to, &shape, nranks), bound.total);
    }
}

Test(traffic, sums_scattered_over_many_ranks_are_counted_without_their_pieces, .timeout = 20) {
    /* 65,536 ranks, sizes that do not divide: 4e9 pieces. */
    const int nranks = 1 << 16;
    Shape shape = {.ndim = 2, .dim = {100003, 1009}};
    Layout from, to;
    layout_init(&from, 2), layout_init(&to, 2);
    layout_append(&from, 2 + REDUCE_SUM, (Digit){nranks, 1});
    layout_append(&to, 0, (Digit){nranks, 1});
    Traffic received, sent;
    traffic_step(COMM_EXCHANGE, &from, &to, &shape, nranks, &received, &sent);
    cr_expect_eq(received.total, (nranks - 1) * INT64_C(100003) * 1009);
    cr_expect_eq(received.max, (nranks - 1) * INT64_C(2) * 1009);
    cr_expect_eq(sent.total, received.total);
    cr_expect_eq(sent.max, INT64_C(100002) * 1009);
}

/* Random layouts of partial values on many ranks, of sizes that do not divide: the count of classes against that of all pieces. */
Test(traffic, uneven_partial_sums_of_hundreds_of_ranks_are_counted_exactly, .timeout = 300) {
    uint64_t state = 7;
    int counted = 0;
    for (int i = 0; i < 400; i++) {
        static const int ranks[] = {256, 192, 144, 512};
        int nranks = ranks[i % 4];
        Shape shape = {.ndim = 2, .dim = {1 + (int64_t)random_below(&state, 600), 1 + (int64_t)random_below(&state, 90)}};
        Layout from, to;
        random_layout(&state, nranks, 2, true, &from);
        random_layout(&state, nranks, 2, false, &to);
        if (layout_split(&from, 0) * layout_split(&from, 1) > 128) continue; /* of the pieces there must be few */
        counted += layout_is_partial(&from);
        check_exchange(&from, &to, &shape, nranks, 7);
    }
    cr_assert_gt(counted, 150);
}

/* What took a minute when pieces were counted: 65,536 ranks, sums onto other digits. */
Test(traffic, uneven_partial_sums_of_65536_ranks_are_counted_without_their_pieces, .timeout = 60) {
    static const char *const pairs[][2] = {
        {"[256@256 -] +sum(256@1)", "[- 256@256]"}, {"[32768@2 -] +sum(2@1)", "[- 32768@2]"},
        {"[- 256@1] +sum(256@256)", "[65536@1 -]"}, {"[4096@16 -] +sum(16@1)", "[16@1.16@16 -]"},
        {"[- -] +sum(256@256)", "[256@1 256@256]"},
    };
    Shape shape = {.ndim = 2, .dim = {100003, 1009}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *at[2] = {pairs[i][0], pairs[i][1]};
        Layout from, to;
        bool hidden;
        cr_assert(layout_read(&at[0], &from, &hidden) && layout_read(&at[1], &to, &hidden));
        Traffic received, sent, bound;
        traffic_step(COMM_EXCHANGE, &from, &to, &shape, 1 << 16, &received, &sent);
        traffic_bound(&from, &to, &shape, 1 << 16, &bound);
        cr_expect_eq(received.total, bound.total);
        cr_expect_eq(sent.total, bound.total);
        cr_expect_geq(received.max, (bound.total + (1 << 16) - 1) >> 16);
        cr_expect_geq(sent.max, (bound.total + (1 << 16) - 1) >> 16);
        /* One rank's pieces are few enough to be counted. */
        static Count64k count;
        for (int rank = 0; rank < 1 << 16; rank += 21845) {
            count = (Count64k){.rank = rank};
            pieces_received(&from, &to, &shape, 1 << 16, rank, count_of_rank, &count);
            cr_expect_leq(count.received, received.max, "rank %d of pair %zu", rank, i);
        }
    }
}

Test(traffic, an_all_reduce_of_a_group_moves_twice_what_it_adds) {
    Layout from, to;
    layout_init(&from, 1), layout_init(&to, 1);
    layout_append(&from, 1 + REDUCE_SUM, (Digit){.size = 4, .stride = 1});
    Shape shape = {.ndim = 1, .dim = {10}};
    Traffic received, sent;
    traffic_step(COMM_ALL_REDUCE, &from, &to, &shape, 8, &received, &sent);
    cr_expect_eq(received.total, 2 * 2 * 3 * 10); /* two groups */
    cr_expect_eq(received.max, 10 + 2 * 3);
    cr_expect_eq(sent.max, received.max);
}

Test(traffic, a_reduce_scatter_moves_all_terms_but_ones_own) {
    Layout from, to;
    layout_init(&from, 1), layout_init(&to, 1);
    layout_append(&from, 1 + REDUCE_SUM, (Digit){.size = 4, .stride = 1});
    layout_append(&to, 0, (Digit){.size = 4, .stride = 1});
    Shape shape = {.ndim = 1, .dim = {12}};
    Traffic received, sent;
    traffic_step(COMM_REDUCE_SCATTER, &from, &to, &shape, 8, &received, &sent);
    cr_expect_eq(received.total, 2 * 4 * 3 * 3); /* two groups of four ranks, each of which adds three terms to its own three cells */
    cr_expect_eq(sent.total, received.total);
    cr_expect_eq(received.max, 9);
    cr_expect_eq(sent.max, 9);
}

Test(traffic, a_slice_moves_nothing) {
    Layout from, to;
    layout_init(&from, 1), layout_init(&to, 1);
    layout_append(&to, 0, (Digit){.size = 4, .stride = 1});
    Shape shape = {.ndim = 1, .dim = {10}};
    Traffic received, sent;
    traffic_step(COMM_STRIDED_SLICE, &from, &to, &shape, 4, &received, &sent);
    cr_expect_eq(received.total, 0);
    cr_expect_eq(traffic_exchange(&from, &to, &shape, 4), 0);
    cr_expect_eq(traffic_exchange(&to, &from, &shape, 4), 30);
}
