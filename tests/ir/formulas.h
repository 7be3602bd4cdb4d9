/* formulas: what the elementwise operators are, of one element, in f64: written once more for the tests of gradients, or else the formulas of their rows. */
#pragma once
#include <criterion/criterion.h>
#include <math.h>

#include "ir/op.h"

#define FORMULA(name, X, Y, formula)                                                                                                       \
    case OP_##name: {                                                                                                                      \
        const double X = a, Y = b;                                                                                                         \
        return (void)X, (void)Y, formula;                                                                                                  \
    }
static double by_row(OpCode op, double a, double b) {
    switch ((int)op) {
#define UNARY_OP(name, title, types, formula, ...) FORMULA(name, x, y, formula)
#define UNARY_OP_X(name, title, types, formula, gradient, ...) FORMULA(name, x, y, formula) FORMULA(name##_grad, x, dy, gradient)
#define UNARY_OP_Y(name, title, types, formula, gradient, ...) FORMULA(name, x, y, formula) FORMULA(name##_grad, y, dy, gradient)
#define BINARY_OP(name, title, types, formula, ...) FORMULA(name, x, y, formula)
#include "ir/plainformula.def"
#include "ir/elementwise.def"
#include "ir/endformula.def"
    }
    cr_assert_fail("no formula for %s", op_table[op].name);
    return 0;
}

static double gelu(const Attr *attr, double x) {
    return attr[0].i ? x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) : x / 2 * (1 + erf(x / sqrt(2)));
}

static double binary(OpCode op, const Attr *attr, double a, double b) {
    const double h = 1e-4;
    switch ((int)op) {
    case OP_gelu:
        return gelu(attr, a);
    case OP_gelu_grad: /* by differences of fourth order: the formula is in the kernels */
        return b * (8 * (gelu(attr, a + h) - gelu(attr, a - h)) - (gelu(attr, a + 2 * h) - gelu(attr, a - 2 * h))) / (12 * h);
    case OP_silu:
        return a / (1 + exp(-a));
    case OP_silu_grad:
        return b * (1 + exp(-a) + a * exp(-a)) / ((1 + exp(-a)) * (1 + exp(-a)));
    case OP_rsqrt:
        return 1 / sqrt(a);
    case OP_rsqrt_grad:
        return -b * a * a * a / 2;
    case OP_maximum:
        return a > b ? a : b;
    case OP_minimum:
        return a < b ? a : b;
    case OP_max_share:
        return a == b ? 0.5 : a > b;
    case OP_clamp:
        return attr[0].given && a < attr[0].f ? attr[0].f : attr[1].given && a > attr[1].f ? attr[1].f : a;
    case OP_clamp_grad:
        return (attr[0].given && a < attr[0].f) || (attr[1].given && a > attr[1].f) ? 0 : b;
    case OP_abs:
        return fabs(a);
    case OP_abs_grad:
        return a == 0 ? 0 : copysign(1, a) * b;
    case OP_pow:
        return pow(a, b);
    case OP_expm1:
        return exp(a) - 1;
    case OP_expm1_grad:
        return exp(a) * b;
    case OP_hardswish:
        return a * fmin(fmax(a + 3, 0), 6) / 6;
    case OP_hardswish_grad:
        return a <= -3 ? 0 : a >= 3 ? b : (a / 3 + 0.5) * b;
    case OP_equal:
        return a == b;
    case OP_softplus:
        return log(1 + exp(a));
    case OP_sin:
        return sin(a);
    case OP_cos:
        return cos(a);
    case OP_add:
        return a + b;
    case OP_sub:
        return a - b;
    case OP_mul:
        return a * b;
    case OP_div:
        return a / b;
    case OP_stop_gradient:
    case OP_cast:
        return a;
    case OP_neg:
        return -a;
    case OP_relu:
        return a > 0 ? a : 0;
    case OP_tanh:
        return tanh(a);
    case OP_exp:
        return exp(a);
    case OP_log:
        return log(a);
    case OP_sqrt:
        return sqrt(a);
    case OP_sigmoid:
        return 1 / (1 + exp(-a));
    case OP_square:
        return a * a;
    case OP_sigmoid_grad:
        return a * (1 - a) * b;
    case OP_square_grad:
        return 2 * a * b;
    case OP_max_mask:
        return a == b;
    case OP_relu_grad:
        return a > 0 ? b : 0;
    case OP_tanh_grad:
        return (1 - a * a) * b;
    case OP_sqrt_grad:
        return b / (2 * a);
    }
    return by_row(op, a, b);
}
