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
