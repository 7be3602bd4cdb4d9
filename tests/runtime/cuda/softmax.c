/* Softmax, its logarithm and their gradients: rows in a warp's registers, in a block's, longer ones, and rows side by side. */
#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

#include <criterion/criterion.h>
#include <math.h>

static void run_op(const Device *device, OpCode op, const void *x, void *y, DType dtype, Shape shape) {
    Rule rule;
    TensorType type = {dtype, false, shape};
    Error error;
    Attr attr[MAX_ATTRS] = {{0}};
    cr_assert(rule_infer(op, &type, 1, attr, &rule, NULL));
    KernelCall call = {.op = op,
                       .attr = attr,
                       .nin = 1,
                       .nout = 1,
                       .rule = &rule,
                       .in = {{(void *)x, dtype, shape, shape, {0}}},
                       .out = {{y, dtype, shape, shape, {0}}}};
    cr_assert(check_run(device, &call, 0, false, &error), "%s", error.text);
}

/* exp(1000) is infinite. */
Test(rows, a_softmax_of_large_numbers_is_finite) {
    float x[6] = {1000, 1001, -1000, 1e30f, 1e30f, -INFINITY}, y[6];
    const Device *device = fixture_device();
    run_op(device, OP_softmax, x, y, F32, SHAPE(2, 3));
    const double expected[6] = {1 / (1 + exp(1)), 1 / (1 + exp(-1)), 0, 0.5, 0.5, 0};
    for (int i = 0; i < 6; i++)
        cr_assert_float_eq(y[i], expected[i], 1e-6);
}

static double log_of(double x) {
    return log(x);
}

/* What masks put in: whole stretches of minus infinity, at the ends and in the middle, which threads see alone. A row of nothing else, or with a nan or plus
 * infinity in it, has no softmax: nan, as the CPU says. */
Test(rows, infinite_and_nan_elements_are_those_of_the_plain_kernel) {
    const int64_t lengths[] = {5, 40, 1000, 3000, 6000};
    static double x[3 * 6000], y[3 * 6000];
    const double odd[] = {-INFINITY, NAN, INFINITY};
    const Device *device = fixture_device();
    for (int l = 0; l < 5; l++)
        for (int what = 0; what < 3; what++)
            for (int apart = 0; apart < 2; apart++) {
                int64_t n = lengths[l];
                for (int64_t i = 0; i < n; i++) {
                    bool first = i == 0 || what == 0; /* row 0: one, or all; row 1: a half of them, or one in the middle */
                    x[apart ? i * 3 : i] = first ? odd[what] : (double)i / (double)n;
                    x[apart ? i * 3 + 1 : n + i] = (what == 0 ? i < n / 2 : i == n / 2) ? odd[what] : (double)i / (double)n;
                    x[apart ? i * 3 + 2 : 2 * n + i] = (double)(i % 7);
                }
                Shape shape = apart ? SHAPE(n, 3) : SHAPE(3, n);
                for (int log = 0; log < 2; log++) {
                    OpCode op = log ? OP_log_softmax : OP_softmax;
                    Rule rule;
                    TensorType type = {F64, false, shape};
                    Attr attr[MAX_ATTRS] = {{.given = apart, .i = 0}};
                    Error error;
                    cr_assert(rule_infer(op, &type, 1, attr, &rule, NULL));
                    KernelCall call = {.op = op,
                                       .attr = attr,
                                       .nin = 1,
                                       .nout = 1,
                                       .rule = &rule,
                                       .in = {{x, F64, shape, shape, {0}}},
                                       .out = {{y, F64, shape, shape, {0}}}};
                    cr_assert(check_run(device, &call, 0, false, &error), "%s", error.text);
                    for (int row = 0; row < 3; row++) {
                        double most = -INFINITY, sum = 0;
                        for (int64_t i = 0; i < n; i++)
                            most = fmax(most, x[apart ? i * 3 + row : row * n + i]);
                        for (int64_t i = 0; i < n; i++)
                            sum += exp(x[apart ? i * 3 + row : row * n + i] - most);
                        for (int64_t i = 0; i < n; i++) {
                            int64_t at = apart ? i * 3 + row : row * n + i;
                            double b = log ? x[at] - most - log_of(sum) : exp(x[at] - most) / sum, a = y[at];
                            cr_assert((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= check_tolerance(F64, (double)n, 1, b),
                                      "%s of %lld, row %d, %lld: %g, %g", op_table[op].name, (long long)n, row, (long long)i, a, b);
                        }
                    }
                }
            }
}
