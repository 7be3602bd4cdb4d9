/* The order of rows is PyTorch's: vectors printed by torch 2. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/data/data.h"
#include "runtime/data/sampler.h"

static void expect_permutation(uint64_t seed, const int64_t *expected) {
    int64_t order[10];
    random_permutation(seed, 10, order);
    cr_assert_arr_eq(order, expected, sizeof order, "seed %d", (int)seed);
}

Test(sampler, permutations_are_those_of_torch_randperm) {
    expect_permutation(0, (const int64_t[]){4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
    expect_permutation(1, (const int64_t[]){5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
    expect_permutation(42, (const int64_t[]){2, 6, 1, 8, 4, 5, 0, 9, 3, 7});
}

/* The rows of one rank of an epoch, batch by batch: a batch takes `each` rows of every rank. */
static int rank_rows(Sampler *sampler, int64_t epoch, int rank, int64_t each, int64_t *rows) {
    Error error;
    int n = 0;
    cr_assert(sampler_begin(sampler, epoch, &error));
    for (int64_t step = 0; step < sampler_batches(sampler); step++)
        for (int64_t k = 0; k < each; k++) {
            bool filler;
            rows[n++] = sampler_row(sampler, step, rank * each + k, &filler);
        }
    return n;
}

static void expect_rows(Sampler *sampler, int64_t epoch, int rank, int64_t each, int n, const int64_t *expected) {
    int64_t rows[64];
    cr_assert_eq(rank_rows(sampler, epoch, rank, each, rows), n, "epoch %d, rank %d", (int)epoch, rank);
    cr_assert_arr_eq(rows, expected, sizeof *rows * (size_t)n, "epoch %d, rank %d", (int)epoch, rank);
}

Test(sampler, shuffled_rows_are_dealt_out_as_distributed_sampler_does) {
    Sampler sampler;
    sampler_init(&sampler, 10, 2, 2, true, 0, false);
    expect_rows(&sampler, 0, 0, 1, 5, (const int64_t[]){4, 7, 3, 0, 6});
    expect_rows(&sampler, 0, 1, 1, 5, (const int64_t[]){1, 5, 9, 8, 2});
    expect_rows(&sampler, 1, 0, 1, 5, (const int64_t[]){5, 1, 0, 9, 7});
    expect_rows(&sampler, 1, 1, 1, 5, (const int64_t[]){6, 2, 8, 3, 4});
    sampler_finish(&sampler);
}

Test(sampler, what_is_missing_is_filled_from_the_beginning_or_the_rest_is_dropped) {
    Sampler sampler;
    sampler_init(&sampler, 10, 4, 4, false, 0, false);
    expect_rows(&sampler, 0, 0, 1, 3, (const int64_t[]){0, 4, 8});
    expect_rows(&sampler, 0, 2, 1, 3, (const int64_t[]){2, 6, 0});
    expect_rows(&sampler, 0, 3, 1, 3, (const int64_t[]){3, 7, 1});
    sampler_init(&sampler, 10, 4, 4, false, 0, true);
    expect_rows(&sampler, 0, 0, 1, 2, (const int64_t[]){0, 4});
    expect_rows(&sampler, 0, 3, 1, 2, (const int64_t[]){3, 7});
    sampler_init(&sampler, 3, 8, 8, false, 0, false);
    for (int rank = 0; rank < 8; rank++)
        expect_rows(&sampler, 0, rank, 1, 1, (const int64_t[]){rank % 3});
    sampler_init(&sampler, 3, 8, 8, false, 0, true);
    cr_assert_eq(sampler_batches(&sampler), 0);
}

/* 10 rows of 4 ranks, two a batch: DistributedSampler gives each rank 3 rows, with drop_last 2; in the last batch there are then 4 rows, or none. */
Test(sampler, shares_of_an_epoch_are_equal_where_that_is_asked_for) {
    static const struct {
        Uneven uneven;
        int places, fillers; /* of the last batch */
    } cases[] = {{UNEVEN_JOIN, 10, 6}, {UNEVEN_PAD, 12, 4}, {UNEVEN_DROP, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Sampler sampler;
        Error error;
        int fillers = 0;
        sampler_init(&sampler, 10, 8, 4, false, 0, false);
        sampler_even(&sampler, cases[i].uneven);
        cr_assert_eq(sampler.places, cases[i].places);
        cr_assert(sampler_begin(&sampler, 0, &error));
        const int64_t last = sampler_batches(&sampler) - 1;
        cr_assert_eq(last, cases[i].places > 8);
        for (int64_t place = 0; place < 8; place++) {
            bool filler;
            const int64_t at = last * 8 + place % 2 * 4 + place / 2;
            cr_assert_eq(sampler_row(&sampler, last, place, &filler), at % 10);
            fillers += filler;
        }
        cr_assert_eq(fillers, cases[i].fillers);
    }
    Sampler few;
    sampler_init(&few, 3, 8, 8, false, 0, false);
    sampler_even(&few, UNEVEN_PAD);
    cr_assert(few.places == 8 && sampler_batches(&few) == 1);
    sampler_even(&few, UNEVEN_DROP);
    cr_assert(few.places == 0 && sampler_batches(&few) == 0);
}

Test(sampler, a_batch_holds_the_same_rows_whoever_has_which) {
    for (int64_t world = 1; world <= 8; world *= 2) {
        Sampler sampler;
        Error error;
        sampler_init(&sampler, 50, 16, world, true, 7, false);
        cr_assert(sampler_begin(&sampler, 3, &error));
        int64_t order[50];
        random_permutation(10, 50, order);
        for (int64_t step = 0; step < 4; step++) {
            int times[50] = {0}, fillers = 0;
            for (int64_t place = 0; place < 16; place++) {
                bool filler;
                int64_t row = sampler_row(&sampler, step, place, &filler);
                fillers += filler;
                times[row] += !filler;
            }
            for (int64_t k = step * 16; k < step * 16 + 16 && k < 50; k++)
                cr_assert_eq(times[order[k]], 1);
            cr_assert_eq(fillers, step == 3 ? 14 : 0);
        }
        sampler_finish(&sampler);
    }
}

/* torch.utils.data.random_split of 7765 rows, generator seed 42; scikit-learn rounds a test up. */
Test(sampler, rows_are_split_as_torch_does) {
    static const int64_t train[] = {1317, 4872, 3219, 3417, 2062, 4700, 2411, 7023}, valid[] = {5969, 6452, 3596, 3266, 1851};
    RowSplit split = {.nshares = 2, .share = {0.9, 0.1}, .seed = 42};
    int64_t n, *row = split_part(&split, 7765, &n);
    cr_assert_eq(n, 6989);
    cr_assert_eq(memcmp(row, train, sizeof train), 0);
    free(row);
    split.part = 1;
    row = split_part(&split, 7765, &n);
    cr_assert_eq(n, 776);
    cr_assert_eq(memcmp(row, valid, sizeof valid), 0);
    free(row);
    split.test = true;
    cr_assert(split_rows(&split, 7765, 0) == 6988 && split_rows(&split, 7765, 1) == 777);
    /* What is left over: 0.5 and two of 0.25 of 7 are 3, 1 and 1, and two rows more. */
    split = (RowSplit){.nshares = 3, .share = {0.5, 0.25, 0.25}};
    cr_assert(split_rows(&split, 7, 0) == 4 && split_rows(&split, 7, 1) == 2 && split_rows(&split, 7, 2) == 1);
}
