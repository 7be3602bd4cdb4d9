/* Sums, means, maxima and places: rows, columns, several dimensions, one result of many elements and many of few. */
#include "tests/cuda/check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(reduce, over_every_set_of_axes) {
    const OpCode ops[] = {OP_sum, OP_mean, OP_max, OP_min};
    const Shape x[] = {SHAPE(8, 6), SHAPE(4, 6, 3), SHAPE(70, 33), SHAPE(2, 3, 4, 5)};
    const Device *device = fixture_device();
    for (size_t op = 0; op < sizeof ops / sizeof *ops; op++)
        for (size_t s = 0; s < sizeof x / sizeof *x; s++)
            for (int axes = 0; axes < 1 << x[s].ndim; axes++) { /* none given: all */
                Check check = {.op = ops[op], .nin = 1, .in = {x[s]}, .attr = {[1] = INT(axes % 2)}};
                check.attr[0].given = axes != 0;
                for (int d = 0; d < x[s].ndim; d++)
                    if (axes & 1 << d) check.attr[0].ints[check.attr[0].n++] = d;
                check_all(device, &check);
            }
}

/* Each way of going about it: groups of lanes, a block a row, several blocks a row, columns with and without parts. */
Test(reduce, of_every_length) {
    const Shape x[] = {SHAPE(3, 1), SHAPE(300, 2), SHAPE(37, 64), SHAPE(5, 1000), SHAPE(3, 5001), SHAPE(1, 40000), SHAPE(3000, 3), SHAPE(4100, 40), SHAPE(2, 700, 5)};
    const Device *device = fixture_device();
    for (size_t s = 0; s < sizeof x / sizeof *x; s++)
        for (int axis = 0; axis < x[s].ndim; axis++) {
            check_all(device, &(Check){.op = OP_sum, .nin = 1, .in = {x[s]}, .attr = {INTS(axis)}});
            check_all(device, &(Check){.op = OP_max, .nin = 1, .in = {x[s]}, .attr = {INTS(axis)}});
            check_all(device, &(Check){.op = OP_min, .nin = 1, .in = {x[s]}, .attr = {INTS(axis)}});
            check_all(device, &(Check){.op = OP_first, .nin = 1, .in = {x[s]}, .attr = {INT(axis)}});
        }
}

Test(reduce, to_shapes_that_broadcast) {
    const Device *device = fixture_device();
    check_all(device, &(Check){.op = OP_sum_to, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(6)}});
    check_all(device, &(Check){.op = OP_sum_to, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(8, 1)}});
    check_all(device, &(Check){.op = OP_sum_to, .nin = 1, .in = {SHAPE(5, 8, 6)}, .attr = {INTS(1, 6)}});
    check_all(device, &(Check){.op = OP_sum_to, .nin = 1, .in = {SHAPE(600, 100)}, .attr = {INTS(100)}});
    for (int mean = 0; mean < 2; mean++) {
        check_all(device, &(Check){.op = OP_replica_sum, .nin = 1, .in = {SHAPE(5, 4, 6)}, .hidden = true, .attr = {INT(mean)}});
        check_all(device, &(Check){.op = OP_replica_sum, .nin = 1, .in = {SHAPE(1, 41, 60)}, .hidden = true, .attr = {INT(mean)}});
        check_all(device, &(Check){.op = OP_replica_sum, .nin = 1, .in = {SHAPE(1, 1, 3)}, .hidden = true, .attr = {INT(mean)}});
    }
}

static void run_op(const Device *device, OpCode op, const Operand *in, const Operand *out, const Rule *rule) {
    KernelCall call = {.op = op, .nin = 1, .nout = 1, .in = {*in}, .out = {*out}, .rule = rule, .attr = (Attr[MAX_ATTRS]){{0}}};
    Error error;
    cr_assert(check_run(device, &call, 0, false, &error), "%s", error.text);
}

/* A rank that an uneven split left nothing must not decide the maximum; a nan must. */
Test(reduce, a_maximum_of_nothing_is_below_every_number_and_nan_stays) {
    double x[1100], y;
    const Device *device = fixture_device();
    for (int i = 0; i < 1100; i++)
        x[i] = -i;
    Rule rule;
    TensorType type = {F64, false, SHAPE(1100)};
    cr_assert(rule_infer(OP_max, &type, 1, (Attr[MAX_ATTRS]){{0}}, &rule, NULL));
    Operand in = {x, F64, SHAPE(0), type.shape, {0}}, out = {&y, F64, SCALAR, SCALAR, {0}};
    run_op(device, OP_max, &in, &out, &rule);
    cr_assert(isinf(y) && y < 0);
    in.local = type.shape;
    run_op(device, OP_max, &in, &out, &rule);
    cr_assert_eq(y, 0);
    for (int at = 0; at < 1100; at += 97) {
        double kept = x[at];
        x[at] = NAN;
        run_op(device, OP_max, &in, &out, &rule);
        cr_assert(isnan(y), "%d", at);
        x[at] = kept;
    }
    int64_t z[3] = {INT64_MIN, INT64_MIN + 1, INT64_MIN}, most;
    type = (TensorType){I64, false, SHAPE(3)};
    in = (Operand){z, I64, SHAPE(3), SHAPE(3), {0}}, out = (Operand){&most, I64, SCALAR, SCALAR, {0}};
    run_op(device, OP_max, &in, &out, &rule);
    cr_assert_eq(most, INT64_MIN + 1);
    in.local = SHAPE(0);
    run_op(device, OP_max, &in, &out, &rule);
    cr_assert_eq(most, INT64_MIN);
    run_op(device, OP_min, &in, &out, &rule);
    cr_assert_eq(most, INT64_MAX);
}

Test(reduce, sums_of_integers_wrap) {
    int32_t x[3] = {INT32_MAX, INT32_MAX, -7}, y;
    int64_t w[2] = {INT64_MAX, 2}, z;
    const Device *device = fixture_device();
    Rule rule;
    TensorType type = {I32, false, SHAPE(3)};
    cr_assert(rule_infer(OP_sum, &type, 1, (Attr[MAX_ATTRS]){{0}}, &rule, NULL));
    run_op(device, OP_sum, &(Operand){x, I32, SHAPE(3), SHAPE(3), {0}}, &(Operand){&y, I32, SCALAR, SCALAR, {0}}, &rule);
    cr_assert_eq(y, -9);
    run_op(device, OP_sum, &(Operand){w, I64, SHAPE(2), SHAPE(2), {0}}, &(Operand){&z, I64, SCALAR, SCALAR, {0}}, &rule);
    cr_assert_eq(z, INT64_MIN + 1);
}

/* The counters of reductions by several blocks are 0 again after each. */
Test(reduce, many_long_sums_behind_each_other) {
    enum { N = 30000 };
    static float x[N];
    float y;
    const Device *device = fixture_device();
    Rule rule;
    TensorType type = {F32, false, SHAPE(N)};
    cr_assert(rule_infer(OP_sum, &type, 1, (Attr[MAX_ATTRS]){{0}}, &rule, NULL));
    for (int round = 1; round < 5; round++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)round;
        run_op(device, OP_sum, &(Operand){x, F32, SHAPE(N), SHAPE(N), {0}}, &(Operand){&y, F32, SCALAR, SCALAR, {0}}, &rule);
        cr_assert_eq(y, (float)(round * N));
    }
}
