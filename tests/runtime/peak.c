#include <criterion/criterion.h>
#include <math.h>

#include "runtime/profile.h"

enum { N = 4 };
static const double flops[N] = {8e6, 1e6, 4e6, 64e6}, bytes[N] = {1e5, 1e5, 9e5, 2e5};

/* Seconds at certain rates give these rates back. */
Test(peak, rates_of_products_are_those_at_which_they_ran) {
    double seconds[N], f, b;
    for (int i = 0; i < N; i++)
        seconds[i] = flops[i] / 2e11 + bytes[i] / 1e10;
    fit_products(flops, bytes, seconds, N, &f, &b);
    cr_expect(fabs(f / 2e11 - 1) < 1e-9 && fabs(b / 1e10 - 1) < 1e-9, "%g FLOP/s, %g B/s", f, b);
}

/* What no bytes explain is arithmetic alone, and what one size shows too. */
Test(peak, bytes_that_take_no_time_are_left_out) {
    double seconds[N], f, b;
    for (int i = 0; i < N; i++)
        seconds[i] = flops[i] / 2e11 - bytes[i] / 1e14;
    fit_products(flops, bytes, seconds, N, &f, &b);
    cr_expect(f > 1.9e11 && f < 2.1e11 && b == 0, "%g FLOP/s, %g B/s", f, b);
    fit_products(flops, bytes, seconds, 1, &f, &b);
    cr_expect(fabs(f / (flops[0] / seconds[0]) - 1) < 1e-9 && b == 0, "%g FLOP/s, %g B/s", f, b);
}

/* All sizes count alike: the small one is not lost beside a large one that is far off. */
Test(peak, errors_count_as_shares) {
    const double some[N] = {1e6, 1e6, 1e6, 1e9}, none[N] = {1, 1, 1, 1};
    const double seconds[N] = {1e-5, 1e-5, 1e-5, 2e-2};
    double f, b;
    fit_products(some, none, seconds, N, &f, &b);
    cr_expect(f > 5e10 && f < 1.2e11, "%g FLOP/s", f);
}

/* Passes over 1, 2, 4 .. MiB: two caches, of which the second is half as fast, and memory; small differences do not count. */
Test(peak, caches_end_where_passes_get_slower) {
    static const double size[] = {1, 2, 4, 8, 16, 32}, rate[] = {90, 100, 95, 50, 48, 20};
    PeakCache cache[MAX_PEAK_CACHES];
    cr_assert_eq(find_caches(size, rate, 6, 18, cache), 2);
    cr_expect(cache[0].bytes == 4 && cache[0].bytes_per_s == 95, "%g B/s, %g B", cache[0].bytes_per_s, cache[0].bytes);
    cr_expect(cache[1].bytes == 16 && cache[1].bytes_per_s == 49, "%g B/s, %g B", cache[1].bytes_per_s, cache[1].bytes);
    cr_assert_eq(find_caches(size, (const double[]){20, 20, 20, 20, 20, 20}, 6, 18, cache), 1, "as slow as memory");
    cr_expect(cache[0].bytes == 1 && cache[0].bytes_per_s == 18);
    cr_assert_eq(find_caches(size, (const double[]){100, 76, 74, 140, 140, 20}, 6, 18, cache), 2);
    cr_expect_eq(cache[1].bytes_per_s, 88, "what seems faster farther away is not");
    static const double steps[] = {100, 60, 40, 28, 25, 24};
    cr_assert_eq(find_caches(size, steps, 6, 18, cache), MAX_PEAK_CACHES);
    cr_expect(cache[2].bytes == 32, "the last one has the rest");
}
