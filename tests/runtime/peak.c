#include <criterion/criterion.h>
#include <math.h>

#include "runtime/profile.h"

enum { N = 5 };
static const double flops[N] = {8e6, 1e6, 4e6, 64e6, 1e5}, bytes[N] = {1e5, 1e5, 9e5, 2e5, 3e4};

static void expect_rates(ProductRates rates, double flops_per_s, double bytes_per_s, double start_s) {
    cr_expect_float_eq(rates.flops_per_s, flops_per_s, 1e-6 * flops_per_s);
    cr_expect_float_eq(rates.bytes_per_s, bytes_per_s, 1e-6 * bytes_per_s);
    cr_expect_float_eq(rates.start_s, start_s, 1e-6 * start_s);
}

/* Seconds at certain rates give these rates back, of fewer terms too. */
Test(peak, rates_of_products_are_those_at_which_they_ran) {
    for (int with = 0; with < 4; with++) {
        const double bytes_per_s = with & 1 ? 1e10 : 0, start_s = with & 2 ? 3e-6 : 0;
        double seconds[N];
        for (int i = 0; i < N; i++)
            seconds[i] = flops[i] / 2e11 + (with & 1 ? bytes[i] / bytes_per_s : 0) + start_s;
        const ProductRates rates = fit_products(flops, bytes, seconds, N);
        if (with == 3) expect_rates(rates, 2e11, bytes_per_s, start_s);
        cr_expect_float_eq(rates.flops_per_s, 2e11, 1e5);
        cr_expect(with & 2 ? fabs(rates.start_s - start_s) < 1e-11 : rates.start_s < 1e-11, "%g s", rates.start_s);
        cr_expect(with & 1 ? fabs(rates.bytes_per_s - bytes_per_s) < 1e5 : rates.bytes_per_s == 0 || rates.bytes_per_s > 1e15, "%g B/s",
                  rates.bytes_per_s);
    }
}

/* What would take less than no time is left out, one or both; one size shows arithmetic alone. */
Test(peak, terms_that_take_no_time_are_left_out) {
    double seconds[N];
    for (int i = 0; i < N; i++)
        seconds[i] = flops[i] / 2e11 - bytes[i] / 1e14 + 1e-6;
    ProductRates rates = fit_products(flops, bytes, seconds, N);
    cr_expect(rates.bytes_per_s == 0 && fabs(rates.start_s - 1e-6) < 1e-7, "%g B/s, %g s", rates.bytes_per_s, rates.start_s);
    for (int i = 0; i < N; i++)
        seconds[i] = flops[i] / 2e11 + bytes[i] / 1e10 - 1e-7;
    rates = fit_products(flops, bytes, seconds, N);
    cr_expect(fabs(rates.bytes_per_s / 1e10 - 1) < 0.1 && rates.start_s == 0, "%g B/s, %g s", rates.bytes_per_s, rates.start_s);
    for (int i = 0; i < N; i++)
        seconds[i] = flops[i] / 2e11 - bytes[i] / 1e14;
    rates = fit_products(flops, bytes, seconds, N);
    cr_expect(rates.flops_per_s > 1.9e11 && rates.flops_per_s < 2.1e11 && rates.bytes_per_s == 0 && rates.start_s == 0);
    expect_rates(fit_products(flops, bytes, seconds, 1), flops[0] / seconds[0], 0, 0);
}

/* Where bytes grow as FLOPs do, nothing tells them apart: FLOPs alone are said, whatever rounding leaves of the difference. */
Test(peak, terms_that_do_not_tell_apart_are_left_out) {
    for (int per_byte = 3; per_byte < 60; per_byte += 2) {
        double alike[N], seconds[N];
        for (int i = 0; i < N; i++) {
            alike[i] = flops[i] / per_byte;
            seconds[i] = flops[i] / 2e11 + 3e-6;
        }
        expect_rates(fit_products(flops, alike, seconds, N), 2e11, 0, 3e-6);
    }
}

/* All sizes count alike: the small one is not lost beside a large one that is far off. */
Test(peak, errors_count_as_shares) {
    const double some[N] = {1e6, 1e6, 1e6, 1e6, 1e9}, none[N] = {0};
    const double seconds[N] = {1e-5, 1e-5, 1e-5, 1e-5, 2e-2};
    const ProductRates rates = fit_products(some, none, seconds, N);
    cr_expect(fabs(1e6 / rates.flops_per_s + rates.start_s - 1e-5) < 1e-6, "%g FLOP/s, %g s", rates.flops_per_s, rates.start_s);
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
