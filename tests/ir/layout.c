#include "tests/ir/random.h"
#include <criterion/criterion.h>
#include <string.h>

/* A layout from its text. */
static Layout parsed(const char *text) {
    Layout layout;
    bool hidden;
    const char *at = text;
    cr_assert(layout_read(&at, &layout, &hidden), "%s", text);
    cr_assert_eq(*at, '\0', "%s: rest '%s'", text, at);
    return layout;
}

static void check_printed(const Layout *layout, bool hidden, const char *expected) {
    Text text = {0};
    layout_print(&text, layout, hidden);
    cr_assert_str_eq(text.at, expected);
    text_finish(&text);
}

static void check_canonical(const char *text, Shape shape, const char *expected) {
    Layout layout = parsed(text);
    layout_canonical(&layout, &shape);
    check_printed(&layout, false, expected);
}

Test(layout, appending_keeps_lists_apart_and_drops_size_1) {
    Layout l;
    layout_init(&l, 2);
    cr_assert(layout_is_whole(&l));
    cr_assert(layout_append(&l, 1, (Digit){2, 1}));
    cr_assert(layout_append(&l, 0, (Digit){4, 8}));
    cr_assert(layout_append(&l, 0, (Digit){1, 4}));
    cr_assert_not(layout_is_partial(&l));
    cr_assert(layout_append(&l, 2, (Digit){2, 2}));
    cr_assert(layout_append(&l, 2, (Digit){2, 4}));
    cr_assert(layout_append(&l, 0, (Digit){3, 32}));
    check_printed(&l, false, "[4@8.3@32 2@1] +sum(2@4.2@2)");
    cr_assert_eq(layout_split(&l, 0), 12);
    cr_assert_eq(layout_split(&l, 2), 4);
    cr_assert_eq(layout_split(&l, 3), 1);
    cr_assert(layout_is_partial(&l));
    layout_complete(&l, &l);
    check_printed(&l, false, "[4@8.3@32 2@1]");
    for (int i = 0; i < MAX_DIGITS - 3; i++)
        cr_assert(layout_append(&l, 1, (Digit){2, 1}));
    cr_assert_not(layout_append(&l, 1, (Digit){2, 1}), "no room");
}

Test(layout, text_is_read_back) {
    const char *const texts[] = {"[]",
                                 "[] +sum(8@1)",
                                 "[-]",
                                 "[2@4.2@1 -] +sum(2@2)",
                                 "[- - 3@2 -] +sum(2@6) +max(2@1) +min(2@12)",
                                 "[4@2.2@1 - 2@8] +sum(2@16)",
                                 "[- - 4@1~sees(32,2,1,1) -]",
                                 "[2@4 2@2~seen(7,1,0,2) 2@1~around(9,3,-1,5)] +sum(2@8)",
                                 "[2@1 -] only(4@2=3)",
                                 "[] only(2@1=0)",
                                 "[- 2@1] +sum(2@2) only(2@4=1)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Layout l = parsed(texts[i]);
        check_printed(&l, false, texts[i]);
    }
    const char *const hidden[] = {"[8@1 | - -]", "[8@1 |]", "[- | 2@1]"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        const char *at = hidden[i];
        Layout l;
        bool is_hidden;
        cr_assert(layout_read(&at, &l, &is_hidden));
        cr_assert(is_hidden);
        check_printed(&l, true, hidden[i]);
    }
    const char *at = "[2@1 -] f32 x";
    Layout l;
    bool is_hidden;
    cr_assert(layout_read(&at, &l, &is_hidden));
    cr_assert_str_eq(at, " f32 x", "stops after the layout");
}

Test(layout, text_that_is_none_is_refused) {
    const char *const texts[] = {"",
                                 "[",
                                 "]",
                                 "[2]",
                                 "[2@]",
                                 "[@1]",
                                 "[2@1",
                                 "[2@1.]",
                                 "[2@1 x]",
                                 "[2@1-]",
                                 "[--]",
                                 "[0@1]",
                                 "[2@0]",
                                 "[-2@1]",
                                 "[99999999999@1]",
                                 "[2@1 | - | -]",
                                 "[| -]",
                                 "[- - - - - - - - - -]",
                                 "[-] +",
                                 "[-] +sum",
                                 "[-] +sum()",
                                 "[-] +sum(2@1",
                                 "[-] +mul(2@1)",
                                 "[-] +sum(2@1) +sum(2@2)",
                                 "[-] only(2@1=2)",
                                 "[-] only(2@1=-1)",
                                 "[-] only(2@1)",
                                 "[-] only(2@1=0",
                                 "[2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1."
                                 "2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1.2@1]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *at = texts[i];
        Layout l;
        bool hidden;
        cr_assert_not(layout_read(&at, &l, &hidden), "%s", texts[i]);
        cr_assert_eq(at, texts[i], "moved though it failed: %s", texts[i]);
    }
}

Test(layout, canonical_merges_neighbours_only_where_no_box_changes) {
    check_canonical("[2@4.2@2.2@1]", (Shape){1, {8}}, "[8@1]");
    check_canonical("[2@4.2@2]", (Shape){1, {8}}, "[4@2]");
    check_canonical("[2@2.2@4]", (Shape){1, {8}}, "[2@2.2@4]");
    check_canonical("[2@4.2@1]", (Shape){1, {8}}, "[2@4.2@1]");
    check_canonical("[2@2.2@1]", (Shape){1, {6}}, "[2@2.2@1]"); /* 2 1 2 1, not 2 2 1 1 */
    check_canonical("[2@2.2@1]", (Shape){1, {7}}, "[4@1]");     /* 2 2 2 1 both ways */
    check_canonical("[2@2.2@1]", (Shape){1, {1}}, "[4@1]");
    check_canonical("[2@2.2@1]", (Shape){1, {2}}, "[2@2.2@1]");          /* 1 0 1 0 */
    check_canonical("[2@8.2@2.2@1]", (Shape){1, {13}}, "[2@8.2@2.2@1]"); /* 7: yes, 6: no */
    check_canonical("[2@8.2@2.2@1]", (Shape){1, {15}}, "[2@8.4@1]");     /* 8 and 7: yes */
    check_canonical("[- -] +sum(2@2.2@8.2@1.2@4)", (Shape){2, {3, 3}}, "[- -] +sum(16@1)");
    check_canonical("[-] +sum(2@8) +max(2@4)", (Shape){1, {3}}, "[-] +sum(2@8) +max(2@4)");
}

static const int ranks_tried[] = {1, 2, 4, 6, 8, 12, 16, 24};

Test(layout, canonical_keeps_every_box_and_term_and_is_its_own_canonical) {
    uint64_t seed = 11;
    int merged = 0;
    for (int trial = 0; trial < 5000; trial++) {
        int nranks = ranks_tried[random_below(&seed, 8)];
        Shape shape = {2, {random_below(&seed, 20), 1 + random_below(&seed, 20)}};
        Digit digits[MAX_DIGITS];
        int n = random_mesh(&seed, nranks, digits);
        Layout l, c;
        layout_init(&l, 2);
        random_assign(&seed, digits, n, &l, 3);
        c = l;
        layout_canonical(&c, &shape);
        cr_assert(layout_valid(&c, nranks, NULL));
        merged += c.start[5] < l.start[5];
        for (int rank = 0; rank < nranks; rank++) {
            Box a, b;
            layout_box(&l, &shape, rank, &a);
            layout_box(&c, &shape, rank, &b);
            for (int i = 0; i < 2; i++)
                cr_assert(a.begin[i] == b.begin[i] && a.end[i] == b.end[i], "trial %d", trial);
        }
        cr_assert_eq(layout_split(&l, 2), layout_split(&c, 2));
        Layout again = c;
        layout_canonical(&again, &shape);
        cr_assert(layout_equal(&again, &c));
        cr_assert_eq(layout_hash(&again), layout_hash(&c));
        cr_assert(layout_same(&l, &c, &shape, nranks));
    }
    cr_assert_gt(merged, 200, "the trials say little: %d merged", merged);
}

Test(layout, same_looks_at_boxes_and_terms) {
    Shape six = {1, {6}}, seven = {1, {7}};
    Layout nested = parsed("[2@2.2@1]"), flat = parsed("[4@1]"), swapped = parsed("[2@1.2@2]");
    cr_assert_not(layout_same(&nested, &flat, &six, 4));
    cr_assert(layout_same(&nested, &flat, &seven, 4));
    cr_assert_not(layout_same(&swapped, &flat, &seven, 4));
    /* One cell in each half: the minor digit leaves it to its first part, the other parts are empty. */
    Layout a = parsed("[2@6.3@2 -]"), b = parsed("[2@6 -]");
    cr_assert_not(layout_same(&a, &b, &(Shape){2, {2, 1}}, 12));
    /* Where a dimension is empty, how others lie does not matter. */
    Layout c = parsed("[2@1 2@2]"), d = parsed("[2@1 -]");
    cr_assert(layout_same(&c, &d, &(Shape){2, {0, 4}}, 4));
    cr_assert_not(layout_same(&c, &d, &(Shape){2, {1, 4}}, 4));
    Layout sum = parsed("[-] +sum(2@2.2@1)"), same = parsed("[-] +sum(4@1)"), max = parsed("[-] +max(4@1)"), part = parsed("[-] +sum(2@1)");
    cr_assert(layout_same(&sum, &same, &six, 4));
    cr_assert_not(layout_same(&sum, &max, &six, 4));
    cr_assert_not(layout_same(&sum, &part, &six, 4));
    cr_assert_not(layout_same(&sum, &nested, &six, 4));
    cr_assert_not(layout_equal(&sum, &same));
}

/* Equality by brute force: the boxes of every rank. */
Test(layout, same_agrees_with_the_boxes_of_all_ranks) {
    uint64_t seed = 5;
    int equal = 0;
    for (int trial = 0; trial < 20000; trial++) {
        int nranks = ranks_tried[random_below(&seed, 6)];
        Shape shape = {1, {1 + random_below(&seed, 9)}};
        Layout l[2];
        for (int k = 0; k < 2; k++) {
            Digit digits[MAX_DIGITS];
            int n = random_mesh(&seed, nranks, digits);
            layout_init(&l[k], 1);
            random_assign(&seed, digits, n, &l[k], 1);
        }
        bool expected = true;
        for (int rank = 0; rank < nranks; rank++) {
            Box a, b;
            layout_box(&l[0], &shape, rank, &a);
            layout_box(&l[1], &shape, rank, &b);
            if (box_elements(&a) || box_elements(&b)) expected = expected && a.begin[0] == b.begin[0] && a.end[0] == b.end[0];
        }
        equal += expected;
        cr_assert_eq(layout_same(&l[0], &l[1], &shape, nranks), expected, "trial %d", trial);
    }
    cr_assert_gt(equal, 200);
}

Test(layout, invalid_ones_are_refused_with_the_reason) {
    const char *why;
    Layout good = parsed("[2@4.2@1 -] +sum(2@2)");
    cr_assert(layout_valid(&good, 8, &why));
    cr_assert(layout_valid(&good, 24, &why));
    const struct {
        const char *text;
        int nranks;
    } bad[] = {{"[2@4]", 4},         {"[3@1]", 8},     {"[2@3]", 8},           {"[2@1 2@1]", 8},
               {"[4@1 2@2]", 8},     {"[2@3 2@1]", 6}, {"[2@1] +sum(2@1)", 8}, {"[2147483647@2147483647]", 8},
               {"[2@1073741824]", 8}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Layout l = parsed(bad[i].text);
        why = NULL;
        cr_assert_not(layout_valid(&l, bad[i].nranks, &why), "%s on %d", bad[i].text, bad[i].nranks);
        cr_assert_not_null(why);
    }
    Layout l = good;
    l.digit[0].size = 1;
    cr_assert_not(layout_valid(&l, 8, NULL));
    l = good, l.digit[1].stride = 0;
    cr_assert_not(layout_valid(&l, 8, NULL));
    l = good, l.ndim = MAX_NDIM + 1;
    cr_assert_not(layout_valid(&l, 8, NULL));
    l = good, l.start[2] = 200;
    cr_assert_not(layout_valid(&l, 8, NULL));
}

Test(layout, digits_are_compatible_when_one_mesh_has_both) {
    cr_assert(digits_compatible((Digit){2, 3}, (Digit){3, 1}));
    cr_assert(digits_compatible((Digit){2, 12}, (Digit){3, 2}));
    cr_assert_not(digits_compatible((Digit){2, 3}, (Digit){2, 1}), "2x3 and 3x2");
    cr_assert_not(digits_compatible((Digit){4, 1}, (Digit){2, 2}));
    cr_assert_not(digits_compatible((Digit){2, 2}, (Digit){2, 2}));
    cr_assert(digit_within((Digit){2, 2}, (Digit){4, 1}));
    cr_assert(digit_within((Digit){4, 1}, (Digit){4, 1}));
    cr_assert_not(digit_within((Digit){4, 1}, (Digit){2, 2}));
    cr_assert_not(digit_within((Digit){2, 4}, (Digit){4, 1}));
}

Test(layout, digits_of_a_mesh_have_the_last_axis_fastest) {
    Digit d[3];
    mesh_digits((const int32_t[]){2, 3, 4}, 3, 5, d);
    cr_assert(d[0].size == 2 && d[0].stride == 60 && d[1].size == 3 && d[1].stride == 20 && d[2].size == 4 && d[2].stride == 5);
    cr_assert_eq(digit_of(d[1], 119), 2);
}

Test(layout, refining_cuts_at_each_others_boundaries) {
    Layout a = parsed("[8@1 -] +sum(4@8)"), b = parsed("[2@2 2@16.2@4]");
    cr_assert(layout_refine(&a, &b));
    check_printed(&a, false, "[2@4.2@2.2@1 -] +sum(2@16.2@8)");
    check_printed(&b, false, "[2@2 2@16.2@4]");
    Layout c = parsed("[2@3]"), d = parsed("[3@2]"), e = parsed("[2@1]");
    cr_assert_not(layout_refine(&c, &d));
    cr_assert_not(layout_refine(&c, &e), "disjoint, but of different meshes");
}

Test(layout, chains_are_mixed_radices_of_the_ranks) {
    Digit chain[MAX_DIGITS];
    const Digit a[] = {{2, 2}}, b[] = {{4, 1}}, c[] = {{3, 4}};
    cr_assert_eq(digits_chain(a, 1, b, 1, 24, chain), 3);
    cr_assert(chain[0].size == 6 && chain[0].stride == 4 && chain[1].size == 2 && chain[1].stride == 2 && chain[2].size == 2 &&
              chain[2].stride == 1);
    cr_assert_eq(digits_chain(c, 1, NULL, 0, 24, chain), 3);
    cr_assert(chain[0].size == 2 && chain[1].size == 3 && chain[2].size == 4);
    cr_assert_eq(digits_chain(NULL, 0, NULL, 0, 1, chain), 0);
    cr_assert_eq(digits_chain(c, 1, NULL, 0, 8, chain), -1);
    cr_assert_eq(digits_chain((const Digit[]){{2, 3}}, 1, (const Digit[]){{2, 1}}, 1, 6, chain), -1);
}

Test(layout, summed_digits_are_those_no_longer_owed) {
    Digit d[MAX_DIGITS];
    Reduction kind;
    Layout from = parsed("[2@8] +sum(4@1)"), whole = parsed("[-]"), keeps = parsed("[2@1] +sum(2@2)"), other = parsed("[-] +sum(2@4)"),
           max = parsed("[-] +max(2@1)");
    cr_assert_eq(layout_summed(&from, &whole, d, &kind), 1);
    cr_assert(d[0].size == 4 && d[0].stride == 1 && kind == REDUCE_SUM);
    cr_assert_eq(layout_summed(&from, &keeps, d, &kind), 1);
    cr_assert(d[0].size == 2 && d[0].stride == 1);
    cr_assert_eq(layout_summed(&from, &from, d, &kind), 0);
    cr_assert_eq(layout_summed(&from, &other, d, &kind), -1, "owed by nobody");
    cr_assert_eq(layout_summed(&whole, &max, d, &kind), -1);
    Layout both = parsed("[-] +sum(2@2) +max(2@1)");
    cr_assert_eq(layout_summed(&both, &whole, d, &kind), -1, "two kinds at once");
    cr_assert_eq(layout_summed(&both, &max, d, &kind), 1);
    Layout sum = parsed("[-] +sum(2@2)");
    cr_assert_eq(layout_summed(&both, &sum, d, &kind), 1);
    cr_assert_eq(kind, REDUCE_MAX);
}

Test(layout, device_orders_are_part_of_a_layout) {
    Arena arena;
    arena_init(&arena);
    const int natural[] = {0, 1, 2, 3}, reversed[] = {3, 2, 1, 0}, swapped[] = {1, 0, 3, 2};
    Shape shape = {1, {8}};
    cr_assert_null(order_make(&arena, "order1", natural, 4), "the natural order is none");
    const Order *a = order_make(&arena, "order1", reversed, 4), *b = order_make(&arena, "order2", reversed, 4),
                *c = order_make(&arena, "order3", swapped, 4);
    cr_assert(order_equal(a, b) && !order_equal(a, c) && !order_equal(a, NULL));
    Layout plain = parsed("[2@2]"), la = plain, lb = plain, lc = plain;
    la.order = a, lb.order = b, lc.order = c;
    cr_assert(layout_equal(&la, &lb) && layout_hash(&la) == layout_hash(&lb));
    cr_assert_not(layout_equal(&la, &plain));
    cr_assert_neq(layout_hash(&la), layout_hash(&plain));
    /* Swapping the ranks of a pair that has one half moves nothing; reversing all does. */
    cr_assert(layout_same(&lc, &plain, &shape, 4));
    cr_assert_not(layout_same(&la, &plain, &shape, 4));
    Layout sum = parsed("[-] +sum(2@2)"), sum_c = sum, sum_a = sum;
    sum_c.order = c, sum_a.order = a;
    cr_assert(layout_same(&sum, &sum_c, &shape, 4));
    cr_assert_not(layout_same(&sum, &sum_a, &shape, 4));
    Layout whole = parsed("[-]");
    whole.order = a;
    layout_canonical(&whole, &shape);
    cr_assert_null(whole.order, "a whole layout is that of every order");
    cr_assert(layout_valid(&la, 4, NULL));
    cr_assert_not(layout_valid(&la, 8, NULL), "an order of other ranks");
    Text text = {0};
    layout_print(&text, &la, false);
    cr_assert_str_eq(text.at, "[2@2] %order1");
    /* Readers of plans cannot hold one, and see that there is something left. */
    const char *at = text.at;
    Layout read;
    bool hidden;
    cr_assert(layout_read(&at, &read, &hidden));
    cr_assert_str_eq(at, " %order1");
    text_finish(&text);
    arena_finish(&arena);
}

Test(layout, a_halo_that_changes_no_part_is_left_out) {
    check_canonical("[- - 4@1~sees(8,2,0,1) -]", (Shape){4, {1, 1, 16, 3}}, "[- - 4@1 -]"); /* windows of 2 by steps of 2 */
    check_canonical("[- - 4@1~sees(7,2,0,1) -]", (Shape){4, {1, 1, 15, 3}}, "[- - 4@1~sees(7,2,0,1) -]");
    check_canonical("[- - 4@1~sees(8,1,0,0) -]", (Shape){4, {1, 1, 8, 3}}, "[- - 4@1 -]");
    check_canonical("[- - 4@1~sees(8,1,1,1) -]", (Shape){4, {1, 1, 8, 3}}, "[- - 4@1~sees(8,1,1,1) -]");
    check_canonical("[- - 2@2.2@1~sees(8,1,1,1) -]", (Shape){4, {1, 1, 8, 3}}, "[- - 4@1~sees(8,1,1,1) -]");
    const Layout one = parsed("[- - 4@1~sees(8,1,1,1) -]"), other = parsed("[- - 4@1~sees(8,1,1,2) -]"), none = parsed("[- - 4@1 -]");
    cr_assert_not(layout_equal(&one, &other));
    cr_assert_not(layout_equal(&one, &none));
    const Shape shape = {4, {1, 1, 8, 3}};
    cr_assert_not(layout_same(&one, &none, &shape, 4));
}

Test(layout, impossible_halos_are_not_valid) {
    const char *const wrong[] = {"[2@1~sees(0,1,1,1) -]", "[2@1~sees(8,0,1,1) -]", "[2@1~seen(281474976710657,1,1,1) -]",
                                 "[2@1~sees(281474976710656,1048576,0,0) -]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const Layout layout = parsed(wrong[i]);
        cr_assert_not(layout_valid(&layout, 2, NULL), "%s", wrong[i]);
    }
    const char *const unread[] = {"[2@1~sees(8,1,1) -]", "[2@1~near(8,1,1,1) -]", "[2@1~sees(8,1,1,1 -]",
                                  "[2@1~sees(8,1,1,1) - - - - - - - -]", "[-~sees(8,1,1,1) -]"};
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++) {
        Layout layout;
        bool hidden;
        const char *at = unread[i];
        cr_assert_not(layout_read(&at, &layout, &hidden), "%s", unread[i]);
    }
}

Test(layout, a_pin_is_part_of_a_layout) {
    const Layout one = parsed("[2@1 -] only(2@4=1)"), other = parsed("[2@1 -] only(2@4=0)"), all = parsed("[2@1 -]");
    const Shape shape = {2, {4, 3}};
    cr_assert(layout_equal(&one, &one));
    cr_assert_not(layout_equal(&one, &other));
    cr_assert_not(layout_equal(&one, &all));
    cr_assert_not(layout_same(&one, &other, &shape, 8));
    cr_assert_not(layout_same(&one, &all, &shape, 8));
    cr_assert_neq(layout_hash(&one), layout_hash(&other));
    Layout complete = parsed("[- -] +sum(2@1) only(2@4=1)");
    layout_complete(&complete, &complete);
    check_printed(&complete, false, "[- -] only(2@4=1)");
    cr_assert_not(layout_is_whole(&complete));
    const char *const wrong[] = {"[2@4 -] only(2@4=1)", "[- -] only(4@4=1)", "[- -] +sum(8@1) only(2@4=1)"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const Layout layout = parsed(wrong[i]);
        cr_expect_not(layout_valid(&layout, 8, NULL), "%s", wrong[i]);
    }
    cr_assert(layout_valid(&one, 8, NULL));
}
