/* What the CPU's kernels give at the ends of their ranges, and where PyTorch or a formula says what they give; all of them against the plain ones: tests/ops. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/element.h"
#include "tests/ops/call.h"
#include "tests/shape.h"

static void put_integer(const Operand *o, int64_t i, int64_t value) {
    if (o->dtype == I32) ((int32_t *)o->data)[i] = (int32_t)(uint32_t)(uint64_t)value;
    if (o->dtype == I64) ((int64_t *)o->data)[i] = value;
    if (o->dtype == BOOL) ((uint8_t *)o->data)[i] = value & 1;
}

static const Shape scalar = {0};

/* PyTorch 2's values of softplus and of bce_with_logits, in f64; f32 is near them. */
Test(kernels, softplus_is_exact_at_both_ends) {
    const double x[] = {-1000, -40, -20, -1, 0, 1, 20, 40, 1000};
    const double expected[] = {0,
                               4.248354255291589e-18,
                               2.061153620314381e-09,
                               0.31326168751822286,
                               0.6931471805599453,
                               1.3132616875182228,
                               20.000000002061153,
                               40,
                               1000};
    for (int i = 0; i < 9; i++) {
        double y;
        float x32 = (float)x[i], y32;
        Error error;
        KernelCall call = {.op = OP_softplus,
                           .nin = 1,
                           .nout = 1,
                           .in = {{(void *)&x[i], F64, scalar, scalar, {0}}},
                           .out = {{&y, F64, scalar, scalar, {0}}}};
        cr_assert(backend_cpu.kernels[OP_softplus](&call, &error));
        cr_assert_float_eq(y, expected[i], 1e-15 * expected[i], "softplus(%g) is %.17g", x[i], y);
        cr_assert(cpu_reference_kernels[OP_softplus](&call, &error));
        cr_assert_float_eq(y, expected[i], 1e-14 * expected[i], "plain softplus(%g) is %.17g", x[i], y);
        call.in[0] = (Operand){&x32, F32, scalar, scalar, {0}}, call.out[0] = (Operand){&y32, F32, scalar, scalar, {0}};
        cr_assert(backend_cpu.kernels[OP_softplus](&call, &error));
        cr_assert_float_eq(y32, expected[i], 3e-7 * expected[i] + 1e-40, "f32 softplus(%g) is %.9g", x[i], (double)y32);
    }
}

/* PyTorch 2.15's layer_norm and rms_norm of three rows, eps 1e-5, in f64: values and gradients. The last row is nearly constant. */
Test(kernels, norms_are_pytorchs) {
    static const double x[12] = {0.5, -1.25, 2, 0.125, 3, 3.5, -2.25, 1, 0.25, 0.25, 0.25, 0.5}, weight[4] = {1.5, -0.5, 0.75, 2},
                        bias[4] = {0.25, -1, 0.5, 0}, dy[12] = {1, -0.5, 0.25, 2, 0.5, 1.5, -1, 0.75, -2, 0.125, 1, 0.5};
    static const double y[2][12] = {
        {0.4525540420487567, -0.31131625703422716, 1.5735364228584106, -0.37810087849101254, 1.370254775944248, -1.484060705654922,
         -0.682491152385595, -0.27660611751709824, -0.6156561359267876, -0.7114479546910708, 0.06717193203660621, 3.4626245437071503},
        {0.6213343155050305, 0.5177785962541921, 1.242668631010061, 0.20711143850167682, 1.7221122826029263, -0.6697103321233602,
         -0.6457921059760973, 0.7653832367124116, 1.1338415874540926, -0.3779471958180309, 0.5669207937270463, 3.023577566544247}};
    static const double dx[2][12] = {
        {0.03187269917707636, -1.2541494044698087, -0.9260866111072331, 2.148363316399966, 0.18209034021494652, -0.501573279766961,
         -0.2737704934469367, 0.5932534329989512, -20.586864531529113, 6.537027727510228, 14.039380905542387, 0.010455898476504188},
        {1.1493858351271542, 0.44031842820894396, -0.21779760465536976, 3.2904623170561025, 0.16879607574518768, -0.4249451247927822,
         -0.19835173525067937, 0.5346298815269865, -8.935763898273853, -0.05400479655012866, 2.402651976267072, 3.2935151692620206}};
    static const double dweight[2][4] = {{1.662662467916304, 2.0687278486033063, 1.3573962535157384, 0.38382796336686326},
                                         {-0.5235284787344612, 2.6213963915787803, 2.0311734099408785, 1.250024543904893}},
                        dbias[4] = {-0.5, 1.125, 0.25, 3.25};
    const Shape rows = {2, {3, 4}}, row = {1, {4}}, numbers = {2, {3, 1}};
    const Attr eps[MAX_ATTRS] = {{.given = true, .f = 1e-5}};
    for (int rms = 0; rms < 2; rms++) {
        double out[3][12], number[2][3]; /* of each row its mean, where there is one, and its root */
        Error error;
        KernelCall call = {
            .op = rms ? OP_rms_norm : OP_layer_norm,
            .attr = eps,
            .nin = 3 - rms,
            .nout = 3 - rms,
            .in = {{(void *)x, F64, rows, rows, {0}}, {(void *)weight, F64, row, row, {0}}, {(void *)bias, F64, row, row, {0}}},
            .out = {{out[0], F64, rows, rows, {0}}, {number[0], F64, numbers, numbers, {0}}, {number[1], F64, numbers, numbers, {0}}}};
        cr_assert(backend_cpu.kernels[call.op](&call, &error));
        cr_expect_float_eq(number[0][0], rms ? 0.8284457542 : 0.34375, 1e-9, "rms %d: %.17g", rms, number[0][0]);
        for (int i = 0; i < 12; i++)
            cr_expect_float_eq(out[0][i], y[rms][i], 1e-13 * (1 + fabs(y[rms][i])), "rms %d, y[%d] is %.17g", rms, i, out[0][i]);
        call = (KernelCall){.op = rms ? OP_rms_norm_grad : OP_layer_norm_grad,
                            .attr = eps,
                            .nin = 5 - rms,
                            .nout = 3 - rms,
                            .in = {{(void *)x, F64, rows, rows, {0}},
                                   {(void *)dy, F64, rows, rows, {0}},
                                   {(void *)weight, F64, row, row, {0}},
                                   {number[0], F64, numbers, numbers, {0}},
                                   {number[1], F64, numbers, numbers, {0}}},
                            .out = {{out[0], F64, rows, rows, {0}}, {out[1], F64, row, row, {0}}, {out[2], F64, row, row, {0}}}};
        cr_assert(backend_cpu.kernels[call.op](&call, &error));
        for (int i = 0; i < 12; i++)
            cr_expect_float_eq(out[0][i], dx[rms][i], 1e-12 * (1 + fabs(dx[rms][i])), "rms %d, dx[%d] is %.17g", rms, i, out[0][i]);
        for (int i = 0; i < 4; i++) {
            cr_expect_float_eq(out[1][i], dweight[rms][i], 1e-13, "rms %d, dweight[%d] is %.17g", rms, i, out[1][i]);
            if (!rms) cr_expect_float_eq(out[2][i], dbias[i], 1e-15, "dbias[%d] is %.17g", i, out[2][i]);
        }
    }
}

/* Integers wrap; a nan stays in all of them, and takes part in the gradient as in PyTorch. */
Test(kernels, magnitudes_bounds_and_larger_ones_at_the_ends) {
    int32_t x[4] = {INT32_MIN, -7, 7, INT32_MAX}, y[4];
    const int32_t magnitude[] = {INT32_MIN, 7, 7, INT32_MAX}, clamped[] = {-5, -5, 7, INT32_MAX};
    Attr bounds[MAX_ATTRS] = {{.given = true, .f = -5}, {.given = true, .f = 1e30}};
    Error error;
    KernelCall call = {.op = OP_abs,
                       .nin = 1,
                       .nout = 1,
                       .attr = bounds,
                       .in = {{x, I32, SHAPE(4), SHAPE(4), {0}}},
                       .out = {{y, I32, SHAPE(4), SHAPE(4), {0}}}};
    cr_assert(backend_cpu.kernels[OP_abs](&call, &error));
    cr_assert_arr_eq(y, magnitude, sizeof y);
    cr_assert(backend_cpu.kernels[OP_clamp](&call, &error));
    cr_assert_arr_eq(y, clamped, sizeof y);
    int64_t w = INT64_MAX - 1, z;
    bounds[1].f = 9223372036854775807.0; /* 2^63 as a double: the end of the type */
    call.in[0] = (Operand){&w, I64, scalar, scalar, {0}}, call.out[0] = (Operand){&z, I64, scalar, scalar, {0}};
    cr_assert(backend_cpu.kernels[OP_clamp](&call, &error));
    cr_assert_eq(z, INT64_MAX - 1);
    const OpCode ops[] = {OP_abs, OP_clamp, OP_sin, OP_cos, OP_softplus, OP_maximum, OP_minimum};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int side = 0; side < op_nin(ops[k]); side++) {
            double a[2] = {1, 1}, b;
            a[side] = NAN;
            KernelCall real = {.op = ops[k], .nin = op_nin(ops[k]), .nout = 1, .attr = bounds, .out = {{&b, F64, scalar, scalar, {0}}}};
            real.in[0] = (Operand){&a[0], F64, scalar, scalar, {0}}, real.in[1] = (Operand){&a[1], F64, scalar, scalar, {0}};
            cr_assert(backend_cpu.kernels[ops[k]](&real, &error) && isnan(b), "%s", op_table[ops[k]].name);
            cr_assert(cpu_reference_kernels[ops[k]](&real, &error) && isnan(b), "plain %s", op_table[ops[k]].name);
        }
}

Test(kernels, reals_that_do_not_fit_an_integer_become_the_nearest) {
    double x[] = {1e300, -1e300, NAN, -2.9, INFINITY};
    int32_t y[5];
    int64_t z[5];
    Operand in = {x, F64, SHAPE(5), SHAPE(5), {0}}, narrow = {y, I32, SHAPE(5), SHAPE(5), {0}}, wide = {z, I64, SHAPE(5), SHAPE(5), {0}};
    KernelCall call = {.op = OP_cast, .nin = 1, .nout = 1, .in = {in}, .out = {narrow}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_cast](&call, &error));
    cr_assert(y[0] == INT32_MAX && y[1] == INT32_MIN && y[2] == 0 && y[3] == -2 && y[4] == INT32_MAX);
    call.out[0] = wide;
    cr_assert(backend_cpu.kernels[OP_cast](&call, &error));
    cr_assert(z[0] == INT64_MAX && z[1] == INT64_MIN && z[2] == 0 && z[3] == -2 && z[4] == INT64_MAX);
    /* Integers beyond 2^53 stay what they are; i32 has their low bits. */
    int64_t large[] = {(INT64_C(1) << 53) + 1, INT64_MIN};
    call.in[0] = (Operand){large, I64, SHAPE(2), SHAPE(2), {0}};
    call.out[0].local = call.out[0].global = SHAPE(2);
    cr_assert(backend_cpu.kernels[OP_cast](&call, &error));
    cr_assert(z[0] == large[0] && z[1] == large[1]);
    large[1] = (INT64_C(5) << 32) - 3;
    call.out[0] = narrow;
    call.out[0].local = call.out[0].global = SHAPE(2);
    cr_assert(backend_cpu.kernels[OP_cast](&call, &error));
    cr_assert(y[0] == 1 && y[1] == -3);
}

/* exp(1000) is infinite. */
Test(kernels, a_softmax_of_large_numbers_is_finite) {
    float x[6] = {1000, 1001, -1000, 1e30f, 1e30f, -INFINITY}, y[6];
    Rule rule;
    TensorType type = {F32, false, SHAPE(2, 3)};
    cr_assert(rule_infer(OP_softmax, &type, 1, NULL, &rule, NULL));
    Attr attr[MAX_ATTRS] = {{0}};
    KernelCall call = {.op = OP_softmax,
                       .attr = attr,
                       .nin = 1,
                       .nout = 1,
                       .rule = &rule,
                       .in = {{x, F32, type.shape, type.shape, {0}}},
                       .out = {{y, F32, type.shape, type.shape, {0}}}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_softmax](&call, &error));
    const double expected[6] = {1 / (1 + exp(1)), 1 / (1 + exp(-1)), 0, 0.5, 0.5, 0};
    for (int i = 0; i < 6; i++)
        cr_assert_float_eq(y[i], expected[i], 1e-6);
}

/* A rank that an uneven split left nothing must not decide the maximum; a nan must. */
Test(kernels, a_maximum_of_nothing_is_below_every_number_and_nan_stays) {
    double x[40], y;
    for (int i = 0; i < 40; i++)
        x[i] = -i;
    Rule rule;
    TensorType type = {F64, false, SHAPE(40)};
    cr_assert(rule_infer(OP_max, &type, 1, NULL, &rule, NULL));
    KernelCall call = {.op = OP_max,
                       .nin = 1,
                       .nout = 1,
                       .rule = &rule,
                       .in = {{x, F64, SHAPE(0), type.shape, {0}}},
                       .out = {{&y, F64, scalar, scalar, {0}}}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_max](&call, &error));
    cr_assert(isinf(y) && y < 0);
    call.in[0].local = type.shape;
    cr_assert(backend_cpu.kernels[OP_max](&call, &error));
    cr_assert_eq(y, 0);
    for (int at = 0; at < 40; at++) {
        double kept = x[at];
        x[at] = NAN;
        cr_assert(backend_cpu.kernels[OP_max](&call, &error));
        cr_assert(isnan(y), "%d", at);
        cr_assert(backend_cpu.kernels[OP_min](&call, &error));
        cr_assert(isnan(y), "%d", at);
        x[at] = kept;
    }
    cr_assert(backend_cpu.kernels[OP_min](&call, &error));
    cr_assert_eq(y, -39);
    call.in[0].local = SHAPE(0);
    cr_assert(backend_cpu.kernels[OP_min](&call, &error));
    cr_assert(isinf(y) && y > 0);
}

#define NUMBER(number)                                                                                                                     \
    { .given = true, .f = number }

Test(kernels, updates_are_the_textbook_formulas) {
    double w[3] = {1, 2, 3}, v[3] = {0.5, -1, 0}, g[3] = {10, 20, -30}, new_w[3], new_v[3];
    Attr attr[MAX_ATTRS] = {{.given = true, .f = 0.1}, {.given = true, .f = 0.9}};
    Operand shape = {.dtype = F64, .local = SHAPE(3), .global = SHAPE(3)};
    KernelCall call = {.op = OP_momentum, .attr = attr, .nin = 3, .nout = 2, .in = {shape, shape, shape}, .out = {shape, shape}};
    void *in[3] = {w, v, g}, *out[2] = {new_w, new_v};
    for (int i = 0; i < 3; i++)
        call.in[i].data = in[i];
    for (int i = 0; i < 2; i++)
        call.out[i].data = out[i];
    Error error;
    cr_assert(backend_cpu.kernels[OP_momentum](&call, &error));
    for (int i = 0; i < 3; i++) {
        cr_assert_float_eq(new_v[i], 0.9 * v[i] + g[i], 1e-12);
        cr_assert_float_eq(new_w[i], w[i] - 0.1 * (0.9 * v[i] + g[i]), 1e-12);
    }
    call.op = OP_sgd;
    call.nin = 2;
    call.nout = 1;
    attr[1] = (Attr){0};
    call.in[1].data = g;
    cr_assert(backend_cpu.kernels[OP_sgd](&call, &error));
    for (int i = 0; i < 3; i++)
        cr_assert_float_eq(new_w[i], w[i] - 0.1 * g[i], 1e-12);
}

/* Three updates of two parameters, written out from torch.optim's documentation: w, m, v after each, with gradients 0.5 and -2 times the update's number
 * (so that corrections, moments and eps all show). */
static void adam_by_hand(bool decoupled, double w[2], double m[2], double v[2], int update) {
    const double lr = 0.05, beta1 = 0.9, beta2 = 0.999, eps = 1e-4, decay = 0.1;
    for (int i = 0; i < 2; i++) {
        double g = (i ? -2 : 0.5) * update;
        if (decoupled)
            w[i] *= 1 - lr * decay;
        else
            g += decay * w[i];
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        double m_hat = m[i] / (1 - pow(beta1, update)), v_hat = v[i] / (1 - pow(beta2, update));
        w[i] -= lr * m_hat / (sqrt(v_hat) + eps);
    }
}

Test(kernels, adam_and_adamw_are_pytorchs) {
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        double w[2] = {1, -3}, m[2] = {0}, v[2] = {0}, expected_w[2] = {1, -3}, expected_m[2] = {0}, expected_v[2] = {0}, g[2], update;
        const Attr attr[MAX_ATTRS] = {NUMBER(0.05), NUMBER(0.9), NUMBER(0.999), NUMBER(1e-4), NUMBER(0.1)};
        Operand tensor = {.dtype = F64, .local = SHAPE(2), .global = SHAPE(2)}, one = {.dtype = F64};
        KernelCall call = {.op = decoupled ? OP_adamw : OP_adam,
                           .attr = attr,
                           .nin = 5,
                           .nout = 3,
                           .in = {tensor, tensor, tensor, tensor, one},
                           .out = {tensor, tensor, tensor}};
        void *in[5] = {w, m, v, g, &update}, *out[3] = {w, m, v}; /* in place */
        for (int i = 0; i < 5; i++)
            call.in[i].data = in[i];
        for (int i = 0; i < 3; i++)
            call.out[i].data = out[i];
        for (int step = 1; step <= 3; step++) {
            Error error;
            update = step;
            g[0] = 0.5 * step;
            g[1] = -2 * step;
            cr_assert(backend_cpu.kernels[call.op](&call, &error));
            adam_by_hand(decoupled, expected_w, expected_m, expected_v, step);
            for (int i = 0; i < 2; i++) {
                cr_assert_float_eq(w[i], expected_w[i], 1e-12);
                cr_assert_float_eq(m[i], expected_m[i], 1e-12);
                cr_assert_float_eq(v[i], expected_v[i], 1e-12);
            }
        }
    }
}

Test(kernels, gradients_are_clipped_as_clip_grad_norm_does) {
    double x[3] = {3, 4, 0}, squares, y[3];
    const Attr attr[MAX_ATTRS] = {NUMBER(2)};
    Operand tensor = {.data = x, .dtype = F64, .local = SHAPE(3), .global = SHAPE(3)}, one = {.data = &squares, .dtype = F64};
    KernelCall call = {.op = OP_sum_squares, .attr = attr, .nin = 1, .nout = 1, .in = {tensor}, .out = {one}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_sum_squares](&call, &error));
    cr_assert_float_eq(squares, 25, 0);
    call = (KernelCall){.op = OP_clip, .attr = attr, .nin = 2, .nout = 1, .in = {tensor, one}, .out = {tensor}};
    call.out[0].data = y;
    cr_assert(backend_cpu.kernels[OP_clip](&call, &error));
    for (int i = 0; i < 3; i++)
        cr_assert_float_eq(y[i], x[i] * 2 / (5 + 1e-6), 1e-15);
    squares = 3; /* a norm below 2 */
    cr_assert(backend_cpu.kernels[OP_clip](&call, &error));
    for (int i = 0; i < 3; i++)
        cr_assert_float_eq(y[i], x[i], 0);
}

/* As in PyTorch, JAX and C's unsigned: modulo 2^32 and 2^64. */
static void expect_wrapped(OpCode op, int nin, DType dtype, int64_t a, int64_t b, int64_t expected) {
    int64_t x[2] = {0}, y = 0;
    Operand number = {.dtype = dtype};
    KernelCall call = {.op = op, .nin = nin, .nout = 1, .in = {number, number}, .out = {number}};
    Error error;
    for (int i = 0; i < 2; i++) {
        call.in[i].data = &x[i];
        put_integer(&call.in[i], 0, i ? b : a);
    }
    call.out[0].data = &y;
    KernelFn *const kernels[] = {backend_cpu.kernels[op], cpu_reference_kernels[op]};
    for (int k = 0; k < 2; k++) {
        cr_assert(kernels[k](&call, &error));
        const int64_t result = dtype == I32 ? *(const int32_t *)call.out[0].data : y;
        cr_assert_eq(result, expected, "%s%s %s(%lld, %lld) is %lld, not %lld", k ? "plainly " : "", dtype_name[dtype], op_table[op].name,
                     (long long)a, (long long)b, (long long)result, (long long)expected);
    }
}

Test(kernels, integers_wrap) {
    for (int dtype = I32; dtype <= I64; dtype++) {
        const DType t = (DType)dtype;
        const int64_t least = t == I32 ? INT32_MIN : INT64_MIN, most = t == I32 ? INT32_MAX : INT64_MAX;
        expect_wrapped(OP_add, 2, t, most, 1, least);
        expect_wrapped(OP_add, 2, t, least, least, 0);
        expect_wrapped(OP_add, 2, t, most, most, -2);
        expect_wrapped(OP_sub, 2, t, least, 1, most);
        expect_wrapped(OP_sub, 2, t, 0, least, least);
        expect_wrapped(OP_mul, 2, t, most, most, 1);
        expect_wrapped(OP_mul, 2, t, least, -1, least);
        expect_wrapped(OP_mul, 2, t, most, 2, -2);
        expect_wrapped(OP_neg, 1, t, least, 0, least);
        expect_wrapped(OP_neg, 1, t, most, 0, least + 1);
        expect_wrapped(OP_square, 1, t, least, 0, 0);
        expect_wrapped(OP_square, 1, t, most, 0, 1);
    }
}

/* However a sum is divided, its parts add up to it: the row, and all in one. */
Test(kernels, parts_of_an_integer_sum_add_up_to_it) {
    int32_t x[8] = {2147483647, 1, 0, 0, -2147483647, -1, -2, -2}, sum, parts = 0;
    Rule rule;
    TensorType type = {I32, false, SHAPE(8)};
    cr_assert(rule_infer(OP_sum, &type, 1, NULL, &rule, NULL));
    KernelCall call = {.op = OP_sum,
                       .nin = 1,
                       .nout = 1,
                       .rule = &rule,
                       .in = {{x, I32, SHAPE(8), type.shape, {0}}},
                       .out = {{&sum, I32, scalar, scalar, {0}}}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_sum](&call, &error));
    cr_assert_eq(sum, -4);
    for (int part = 0; part < 2; part++) {
        int32_t one;
        call.in[0].data = x + 4 * part;
        call.in[0].local = SHAPE(4);
        call.out[0].data = &one;
        cr_assert(backend_cpu.kernels[OP_sum](&call, &error));
        parts = (int32_t)((uint32_t)parts + (uint32_t)one);
    }
    cr_assert_eq(parts, sum);
}

Test(kernels, long_f32_sums_are_added_in_double) {
    enum { N = 1 << 20 };
    float *x = malloc(N * sizeof *x), sum;
    for (int i = 0; i < N; i++)
        x[i] = 0.1f;
    Rule rule;
    TensorType type = {F32, false, SHAPE(N)};
    cr_assert(rule_infer(OP_sum, &type, 1, NULL, &rule, NULL));
    KernelCall call = {.op = OP_sum,
                       .nin = 1,
                       .nout = 1,
                       .rule = &rule,
                       .in = {{x, F32, type.shape, type.shape, {0}}},
                       .out = {{&sum, F32, scalar, scalar, {0}}}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_sum](&call, &error));
    cr_assert_eq(sum, (float)((double)0.1f * N)); /* f32 additions would give 100958.3 */
    free(x);
}

/* Equal numbers: one accumulator, or eight, would round the same way again and again, and be wrong by more than 1e-12. */
Test(kernels, long_f64_sums_are_added_in_halves) {
    enum { N = 1 << 20 };
    double *x = malloc(N * sizeof *x), sum;
    for (int i = 0; i < N; i++)
        x[i] = 0.1;
    Rule rule;
    TensorType type = {F64, false, SHAPE(N)};
    cr_assert(rule_infer(OP_sum, &type, 1, NULL, &rule, NULL));
    KernelCall call = {.op = OP_sum,
                       .nin = 1,
                       .nout = 1,
                       .rule = &rule,
                       .in = {{x, F64, type.shape, type.shape, {0}}},
                       .out = {{&sum, F64, scalar, scalar, {0}}}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_sum](&call, &error));
    cr_assert_float_eq(sum / (0.1 * N), 1, 2e-14, "%.17g", sum);
    free(x);
}

/* The slice [2, 5) x [1, 3) of a box that begins at (1, 0). */
Test(kernels, convert_takes_the_box_out_of_the_box) {
    float in[4 * 6], out[3 * 2];
    for (int i = 0; i < 24; i++)
        in[i] = (float)i;
    KernelCall call = {.op = OP_convert,
                       .nin = 1,
                       .nout = 1,
                       .in = {{in, F32, SHAPE(4, 6), SHAPE(9, 6), {2, {1, 0}, {5, 6}}}},
                       .out = {{out, F32, SHAPE(3, 2), SHAPE(9, 6), {2, {2, 1}, {5, 3}}}}};
    Error error;
    cr_assert(backend_cpu.kernels[OP_convert](&call, &error), "%s", error.text);
    const float expected[] = {7, 8, 13, 14, 19, 20};
    cr_assert_arr_eq(out, expected, sizeof expected);
    call.out[0].box.end[0] = 6;
    call.out[0].local.dim[0] = 4;
    cr_assert_not(backend_cpu.kernels[OP_convert](&call, &error), "a slice outside its operand");
}
