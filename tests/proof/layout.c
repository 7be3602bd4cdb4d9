#include "proof/internal.h"
#include "tests/ir/random.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static Layout parsed(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden));
    return layout;
}

static DigitSet set_of(const char *text) { /* the digits of dimension 0 */
    Layout layout = parsed(text);
    DigitSet set = {0};
    cr_assert(set_add_list(&set, &layout, 0));
    return set;
}

Test(proof_layout, sets_join_neighbouring_digits) {
    DigitSet a = set_of("[2@4.2@1.2@2]"), b = set_of("[8@1]"), c = set_of("[2@4.2@1]");
    cr_assert(set_equal(&a, &b));
    cr_assert_not(set_equal(&a, &c));
    cr_assert_not(set_add(&a, (Digit){2, 2}), "a digit inside another");
    cr_assert_not(set_add(&c, (Digit){4, 1}), "a digit over another");
    DigitSet d = set_of("[3@2]");
    cr_assert_not(set_add(&d, (Digit){2, 3}), "digits of 2x3 and 3x2 cannot stand together");
}

Test(proof_layout, sets_subtract_parts_of_digits) {
    DigitSet a = set_of("[8@1]"), b = set_of("[2@2]"), expected = set_of("[2@4.2@1]"), rest;
    cr_assert(set_subtract(&a, &b, &rest));
    cr_assert(set_equal(&rest, &expected));
    cr_assert_not(set_subtract(&b, &a, &rest), "the whole is not within its part");
    DigitSet six = set_of("[6@1]"), two_of_three = set_of("[2@3]"), three_of_two = set_of("[3@2]");
    cr_assert(set_subtract(&six, &two_of_three, &rest));
    cr_assert(set_subtract(&six, &three_of_two, &rest));
    DigitSet crooked = set_of("[2@2]");
    cr_assert_not(set_subtract(&six, &crooked, &rest), "2@2 ends within 6@1 at no boundary of it");
}

/* On random layouts this folder's formulas agree with ir/box.c: boxes, senders, owners, shares, terms. */
Test(proof_layout, random_exchanges_are_shown) {
    uint64_t seed = 20261121;
    static const int ranks[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
    int shown = 0, with_sums = 0;
    for (int round = 0; round < 4000; round++) {
        int nranks = ranks[random_below(&seed, 9)], ndim = 1 + random_below(&seed, 3);
        Layout from, to;
        Digit digits[32];
        layout_init(&from, ndim);
        layout_init(&to, ndim);
        bool sums = random_below(&seed, 2);
        random_assign(&seed, digits, random_mesh(&seed, nranks, digits), &from, ndim + sums);
        random_assign(&seed, digits, random_mesh(&seed, nranks, digits), &to, ndim);
        Shape shape = {.ndim = ndim};
        for (int d = 0; d < ndim; d++)
            shape.dim[d] = 1 + random_below(&seed, 9);
        Sample sample;
        sample_ranks(nranks, &sample);
        char why[512];
        cr_assert(box_check(&from, &shape, &sample, why, sizeof why), "%s", why);
        bool ok = conversion_check(COMM_EXCHANGE, &from, &to, &shape, nranks, &sample, why, sizeof why);
        if (!ok) {
            Text text = {0};
            layout_print(&text, &from, false);
            text_printf(&text, " -> ");
            layout_print(&text, &to, false);
            shape_print(&text, &shape);
            cr_assert(ok, "round %d: %s on %d ranks: %s", round, text.at, nranks, why);
        }
        shown++;
        with_sums += layout_is_partial(&from);
    }
    cr_assert_gt(with_sums, 500);
    printf("%d conversions shown, %d with sums\n", shown, with_sums);
}

/* Each kind accepts its pattern and refuses another's. */
typedef struct Pattern {
    char kind, from[40], to[40];
    bool legal;
} Pattern;

Test(proof_layout, kinds_have_their_patterns) {
    static const Pattern patterns[] = {
        {COMM_ALL_REDUCE, "[- -] +sum(8@1)", "[- -]", true},
        {COMM_ALL_REDUCE, "[- -] +sum(8@1)", "[8@1 -]", false},
        {COMM_ALL_REDUCE, "[- -] +sum(4@1)", "[- -]", true},
        {COMM_REDUCE_SCATTER, "[- -] +sum(4@1)", "[4@1 -]", true},
        {COMM_ALL_REDUCE, "[8@1 -]", "[- -]", false},
        {COMM_ALL_REDUCE, "[- -] +sum(8@1)", "[- -] +sum(2@4)", true},
        {COMM_ALL_GATHER, "[8@1 -]", "[- -]", true},
        {COMM_ALL_GATHER, "[8@1 -]", "[2@4 -]", true},
        {COMM_ALL_GATHER, "[8@1 -]", "[2@1 -]", false},
        {COMM_ALL_GATHER, "[8@1 -]", "[8@1 -]", true},
        {COMM_REDUCE_SCATTER, "[- -] +sum(8@1)", "[8@1 -]", true},
        {COMM_REDUCE_SCATTER, "[- -] +sum(8@1)", "[- 8@1]", true},
        {COMM_REDUCE_SCATTER, "[2@4 -] +sum(4@1)", "[- 4@1]", false},
        {COMM_ALL_TO_ALL, "[8@1 -]", "[- 8@1]", true},
        {COMM_ALL_TO_ALL, "[8@1 -]", "[- 4@1]", false},
        {COMM_STRIDED_SLICE, "[2@4 -]", "[8@1 -]", true},
        {COMM_STRIDED_SLICE, "[8@1 -]", "[2@4 -]", false},
        {COMM_STRIDED_SLICE, "[- -] +sum(8@1)", "[- -]", false},
        {COMM_STRIDED_SLICE, "[- -] only(2@4=1)", "[- -] only(8@1=5)", true},
        {COMM_STRIDED_SLICE, "[- -] only(2@4=1)", "[- -] only(8@1=3)", false},
        {COMM_STRIDED_SLICE, "[- -] only(8@1=5)", "[- -] only(2@4=1)", false},
        {COMM_EXCHANGE, "[8@1 -]", "[8@1~sees(16,1,1,1) -]", true},
        {COMM_EXCHANGE, "[8@1 -]", "[8@1~around(16,3,5,2) -]", true},
        {COMM_EXCHANGE, "[- 8@1]", "[8@1~seen(31,2,3,3) -]", true},
        {COMM_EXCHANGE, "[8@1~sees(16,1,1,1) -]", "[8@1 -]", false},
        {COMM_STRIDED_SLICE, "[- -]", "[8@1~sees(16,1,1,1) -]", true},
        {COMM_STRIDED_SLICE, "[2@4 -]", "[8@1~sees(16,1,1,1) -]", false},
        {COMM_ALL_GATHER, "[8@1 -]", "[8@1~sees(16,1,1,1) -]", true},
        {COMM_EXCHANGE, "[- -]", "[- -] +sum(8@1)", false},
        {COMM_EXCHANGE, "[- -] +sum(2@1)", "[- -] +sum(2@2)", false},
    };
    Sample sample;
    sample_ranks(8, &sample);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        Layout from = parsed(patterns[i].from), to = parsed(patterns[i].to);
        Shape shape = {2, {16, 8}};
        char why[512];
        bool ok = conversion_check((CommKind)patterns[i].kind, &from, &to, &shape, 8, &sample, why, sizeof why);
        cr_assert_eq(ok, patterns[i].legal, "%s %s -> %s", comm_name[(int)patterns[i].kind], patterns[i].from, patterns[i].to);
    }
}

Test(proof_layout, many_ranks_are_sampled) {
    Layout from = parsed("[- -] +sum(4096@1)"), to = parsed("[4096@1 -]");
    Shape shape = {2, {4096, 3}};
    Sample sample;
    sample_ranks(4096, &sample);
    cr_assert_geq(sample.n, 64);
    char why[512];
    cr_assert(conversion_check(COMM_REDUCE_SCATTER, &from, &to, &shape, 4096, &sample, why, sizeof why), "%s", why);
    layout_init(&to, 2);
    cr_assert(conversion_check(COMM_ALL_REDUCE, &from, &to, &shape, 4096, &sample, why, sizeof why), "%s", why);
}

Test(proof_layout, invalid_layouts_are_refused) {
    const char *why;
    Layout l = parsed("[4@1 2@2]");
    cr_assert_not(own_layout_valid(&l, 2, 8, &why));
    l = parsed("[3@1 -]");
    cr_assert_not(own_layout_valid(&l, 2, 8, &why));
    l = parsed("[4@2 2@1]");
    cr_assert(own_layout_valid(&l, 2, 8, &why));
    cr_assert_not(own_layout_valid(&l, 3, 8, &why));
    l = parsed("[4@2 -] +sum(2@4)");
    cr_assert_not(own_layout_valid(&l, 2, 8, &why));
}

Test(proof_layout, small_shapes_stand_for_large_ones_that_are_divided_alike) {
    const Shape large = {.ndim = 3, .dim = {24, 30, 5}};
    Layout from = parsed("[4@1 - -]"), to = parsed("[- 3@1 2@3]"), sums = parsed("[- - -] +sum(4@1)");
    Shape alike;
    conversion_shape(&from, &to, &large, 12, &alike);
    cr_assert(alike.dim[0] == 8 && alike.dim[1] == 6 && alike.dim[2] == 5,
              "of 6 parts two, of 10 two, uneven ones as they are: saw %lld %lld %lld", (long long)alike.dim[0], (long long)alike.dim[1],
              (long long)alike.dim[2]);
    conversion_shape(&sums, &from, &large, 8, &alike);
    cr_assert(shape_equal(&alike, &large), "owners share 24 / 4 * 30 * 5 elements, and 8 does not divide them: their number counts");
    const Shape even = {.ndim = 3, .dim = {32, 30, 5}};
    conversion_shape(&sums, &from, &even, 4, &alike);
    cr_assert(alike.dim[0] == 4 * 2 * 4 && alike.dim[1] == 2 && alike.dim[2] == 3, "any owners have even shares: saw %lld %lld %lld",
              (long long)alike.dim[0], (long long)alike.dim[1], (long long)alike.dim[2]);
}
