/* Sums, means, maxima and places: rows, columns, several dimensions, one result of many elements and many of few. */
#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

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
