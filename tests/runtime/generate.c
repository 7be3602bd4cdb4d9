/* Which token is drawn by its logits. */
#include <criterion/criterion.h>
#include <math.h>

#include "runtime/generate.h"

enum { N = 5 };
static const double logits[N] = {0, 2, 1, 2, -1};

/* The share of draws that give each token, over many values of the number that says which. */
static void shares(double temperature, int64_t top_k, double *share) {
    enum { DRAWS = 10000 };
    for (int i = 0; i < N; i++)
        share[i] = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int64_t token = token_draw(logits, N, temperature, top_k, (i + 0.5) / DRAWS);
        cr_assert(token >= 0 && token < N);
        share[token] += 1.0 / DRAWS;
    }
}

static void expect_shares(double temperature, int64_t top_k, const bool *drawn) {
    double share[N], sum = 0;
    shares(temperature, top_k, share);
    for (int i = 0; i < N; i++)
        sum += drawn[i] ? exp(logits[i] / temperature) : 0;
    for (int i = 0; i < N; i++)
        cr_expect_float_eq(share[i], drawn[i] ? exp(logits[i] / temperature) / sum : 0, 2e-4, "token %d: %g", i, share[i]);
}

Test(generate, tokens_come_with_their_probabilities) {
    expect_shares(1, 0, (bool[]){true, true, true, true, true});
    expect_shares(0.3, 0, (bool[]){true, true, true, true, true});
    expect_shares(7, N, (bool[]){true, true, true, true, true});
}

Test(generate, top_k_leaves_the_most_likely_and_of_equal_ones_the_first) {
    expect_shares(1, 3, (bool[]){false, true, true, true, false});
    expect_shares(2, 2, (bool[]){false, true, false, true, false});
    expect_shares(1, 1, (bool[]){false, true, false, false, false});
}

Test(generate, temperature_0_is_the_first_of_the_most_likely) {
    for (int i = 0; i < 10; i++)
        cr_expect_eq(token_draw(logits, N, 0, 0, i / 10.0), 1);
}

Test(generate, what_is_no_number_is_said) {
    cr_expect_eq(token_draw((double[]){0, NAN}, 2, 1, 0, 0.5), -1);
    cr_expect_eq(token_draw((double[]){-INFINITY, -INFINITY}, 2, 1, 0, 0.5), -1);
    cr_expect_eq(token_draw((double[]){0, INFINITY}, 2, 1, 0, 0.5), -1);
    cr_expect_eq(token_draw((double[]){-INFINITY, 0}, 2, 1, 0, 0.0), 1);
    cr_expect_eq(token_draw((double[]){-INFINITY, 0}, 2, 1, 0, 0.9999999999), 1);
}
