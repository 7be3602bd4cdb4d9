/* elementtype: the loops of elementwise.def's rows for one element type; included once for each type. ELEMENT: the type; SUFFIX: its name
 * in names of loops; IF_REAL(...): its arguments if the type is real, else nothing; ABS: the type's absolute value; ADD, SUB, MUL, NEG:
 * the type's, where they differ from C's. */
#ifndef ADD
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define NEG(a) (-(a))
#endif
#define UNARY_OP(name, title, types, formula, ...) types##_ROW(LOOP_1(name, SUFFIX, ELEMENT, ELEMENT, , formula))
#define UNARY_OP_X(name, title, types, formula, gradient, ...)                                                                             \
    types##_ROW(LOOP_1(name, SUFFIX, ELEMENT, ELEMENT, , formula))                                                                         \
        REAL_ROW(LOOP_2(name##_grad, SUFFIX, ELEMENT, ELEMENT, x, dy, , gradient))
#define UNARY_OP_Y(name, title, types, formula, gradient, ...)                                                                             \
    types##_ROW(LOOP_1(name, SUFFIX, ELEMENT, ELEMENT, , formula))                                                                         \
        REAL_ROW(LOOP_2(name##_grad, SUFFIX, ELEMENT, ELEMENT, y, dy, , gradient))
#define BINARY_OP(name, title, types, formula, ...) types##_ROW(LOOP_2(name, SUFFIX, ELEMENT, ELEMENT, x, y, , formula))
#define UNARY_FORMULA(name, types, formula) types##_ROW(LOOP_1(name, SUFFIX, ELEMENT, ELEMENT, , formula))
#define BINARY_FORMULA(name, types, formula) types##_ROW(LOOP_2(name, SUFFIX, ELEMENT, ELEMENT, x, y, , formula))
#define NUMBER_ROW(...) __VA_ARGS__
#define REAL_ROW(...) IF_REAL(__VA_ARGS__)

#define REAL(number) ((ELEMENT)(number))
#define FMA(a, b, c) ((a) * (b) + (c))
#define FUNCTION(name) FUNCTION_(name, SUFFIX)
#define FUNCTION_(name, suffix) FUNCTION__(name, suffix)
#define FUNCTION__(name, suffix) name##_##suffix
#define EXP(a) FUNCTION(exp)(a)
#define LOG(a) FUNCTION(log)(a)
#define LOG1P(a) FUNCTION(log1p)(a)
#define TANH(a) FUNCTION(tanh)(a)
#define SIN(a) FUNCTION(sin)(a)
#define COS(a) FUNCTION(cos)(a)
#define SQRT(a) FUNCTION(sqrt)(a)
#define POW(a, b) FUNCTION(pow)(a, b)
#define FLOOR(a) FUNCTION(floor)(a)
#define NORMAL(a) FUNCTION(normal)(a)
#define DENSITY(a) FUNCTION(density)(a)
#define GELU(a) FUNCTION(gelu)(a)

#include "ir/elementwise.def"

#include "ir/endformula.def"
#undef NUMBER_ROW
#undef REAL_ROW
#undef FUNCTION
#undef FUNCTION_
#undef FUNCTION__
#undef ELEMENT
#undef SUFFIX
#undef IF_REAL
