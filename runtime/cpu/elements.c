/* elements: see elements.h. The loops carry nothing from one element to the next, which `omp simd` tells the compiler. Compiled once for
 * each of vector.c's variants. */
#include "runtime/cpu/elements.h"

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/functions.h"

/* A loop's name, its element types and its body: x, y, z are elements of the operands. SETUP: what all elements share, from `attr` and the
 * operands. */
#define EACH(...) _Pragma("omp simd") for (int64_t i = 0; i < n; i++) __VA_ARGS__
#define BEGIN(name, suffix, R)                                                                                                             \
    static void each_##name##_##suffix(void *out_, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {            \
        R *out = out_;                                                                                                                     \
        (void)attr, (void)stride;
#define ELEMENT1(name, suffix, T, R, SETUP, expression)                                                                                    \
    BEGIN(name, suffix, R)                                                                                                                 \
    const T *a = in[0];                                                                                                                    \
    SETUP;                                                                                                                                 \
    if (stride[0]) {                                                                                                                       \
        EACH({                                                                                                                             \
            const T x = a[i];                                                                                                              \
            out[i] = expression;                                                                                                           \
        })                                                                                                                                 \
    } else {                                                                                                                               \
        const T x = *a;                                                                                                                    \
        const R same = expression;                                                                                                         \
        EACH(out[i] = same;)                                                                                                               \
    }                                                                                                                                      \
    }
#define ELEMENT2(name, suffix, T, R, SETUP, expression)                                                                                    \
    BEGIN(name, suffix, R)                                                                                                                 \
    const T *a = in[0], *b = in[1];                                                                                                        \
    SETUP;                                                                                                                                 \
    if (stride[0] && stride[1]) {                                                                                                          \
        EACH({                                                                                                                             \
            const T x = a[i], y = b[i];                                                                                                    \
            out[i] = expression;                                                                                                           \
        })                                                                                                                                 \
    } else if (stride[0]) {                                                                                                                \
        const T y = *b;                                                                                                                    \
        EACH({                                                                                                                             \
            const T x = a[i];                                                                                                              \
            out[i] = expression;                                                                                                           \
        })                                                                                                                                 \
    } else if (stride[1]) {                                                                                                                \
        const T x = *a;                                                                                                                    \
        EACH({                                                                                                                             \
            const T y = b[i];                                                                                                              \
            out[i] = expression;                                                                                                           \
        })                                                                                                                                 \
    } else {                                                                                                                               \
        const T x = *a, y = *b;                                                                                                            \
        const R same = expression;                                                                                                         \
        EACH(out[i] = same;)                                                                                                               \
    }                                                                                                                                      \
    }
#define REAL1(name, SETUP, f32_expression, f64_expression)                                                                                 \
    ELEMENT1(name, f32, float, float, SETUP(float), f32_expression)                                                                        \
    ELEMENT1(name, f64, double, double, SETUP(double), f64_expression)
#define REAL2(name, SETUP, f32_expression, f64_expression)                                                                                 \
    ELEMENT2(name, f32, float, float, SETUP(float), f32_expression)                                                                        \
    ELEMENT2(name, f64, double, double, SETUP(double), f64_expression)
#define NOTHING(T)

/* Integers wrap, as docs/language.md says: computed without sign, where C defines it. */
#define I32_OF(operation, x, y) (int32_t)((uint32_t)(x)operation(uint32_t)(y))
#define I64_OF(operation, x, y) (int64_t)((uint64_t)(x)operation(uint64_t)(y))

/* ---------------------------------------------------------------- one operand */

REAL1(neg, NOTHING, -x, -x)
ELEMENT1(neg, i32, int32_t, int32_t, , I32_OF(-, 0, x))
ELEMENT1(neg, i64, int64_t, int64_t, , I64_OF(-, 0, x))
REAL1(relu, NOTHING, x < 0 ? 0 : x, x < 0 ? 0 : x) /* keeps nan */
REAL1(tanh, NOTHING, tanh_f32(x), tanh_f64(x))
REAL1(exp, NOTHING, exp_f32(x), exp_f64(x))
REAL1(log, NOTHING, log_f32(x), log_f64(x))
REAL1(sqrt, NOTHING, sqrtf(x), sqrt(x))
REAL1(sigmoid, NOTHING, 1 / (1 + exp_f32(-x)), 1 / (1 + exp_f64(-x))) /* exp may overflow: the result is 0 then, as it should */
REAL1(silu, NOTHING, x / (1 + exp_f32(-x)), x / (1 + exp_f64(-x)))
REAL1(rsqrt, NOTHING, 1 / sqrtf(x), 1 / sqrt(x))
#define GELU_SCALE 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715
REAL1(gelu, NOTHING, x *normal_f32(x), x *normal_f64(x))
REAL1(gelu_tanh, NOTHING, x / 2 * (1 + tanh_f32((float)GELU_SCALE * (x + (float)GELU_CUBE * x * x * x))),
      x / 2 * (1 + tanh_f64(GELU_SCALE * (x + GELU_CUBE * x * x * x))))
REAL1(abs, NOTHING, fabsf(x), fabs(x))
ELEMENT1(abs, i32, int32_t, int32_t, , x < 0 ? (int32_t)(0 - (uint32_t)x) : x)
ELEMENT1(abs, i64, int64_t, int64_t, , x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
REAL1(sin, NOTHING, sin_f32(x), sin_f64(x))
REAL1(cos, NOTHING, cos_f32(x), cos_f64(x))
REAL1(softplus, NOTHING, (x > 0 ? x : 0) + log1p_f32(exp_f32(-fabsf(x))), (x > 0 ? x : 0) + log1p_f64(exp_f64(-fabs(x))))
REAL1(square, NOTHING, x *x, x *x)
ELEMENT1(square, i32, int32_t, int32_t, , I32_OF(*, x, x))
ELEMENT1(square, i64, int64_t, int64_t, , I64_OF(*, x, x))

/* Bounds are of the element type: reals rounded to it, integers stopped at its ends. A bound that is left out is beyond all numbers. */
#define BOUNDS(T) const T low = attr[0].given ? (T)attr[0].f : -(T)INFINITY, high = attr[1].given ? (T)attr[1].f : (T)INFINITY
#define INTEGER_BOUNDS(T, TYPE)                                                                                                            \
    const T low = (T)integer_of(attr[0].given ? attr[0].f : -(double)INFINITY, TYPE),                                                      \
            high = (T)integer_of(attr[1].given ? attr[1].f : (double)INFINITY, TYPE)
#define CLAMPED x<low ? low : x> high ? high : x /* keeps nan */
REAL1(clamp, BOUNDS, CLAMPED, CLAMPED)
ELEMENT1(clamp, i32, int32_t, int32_t, INTEGER_BOUNDS(int32_t, I32), CLAMPED)
ELEMENT1(clamp, i64, int64_t, int64_t, INTEGER_BOUNDS(int64_t, I64), CLAMPED)

/* ---------------------------------------------------------------- two operands */

REAL2(add, NOTHING, x + y, x + y)
ELEMENT2(add, i32, int32_t, int32_t, , I32_OF(+, x, y))
ELEMENT2(add, i64, int64_t, int64_t, , I64_OF(+, x, y))
REAL2(sub, NOTHING, x - y, x - y)
ELEMENT2(sub, i32, int32_t, int32_t, , I32_OF(-, x, y))
ELEMENT2(sub, i64, int64_t, int64_t, , I64_OF(-, x, y))
REAL2(mul, NOTHING, x *y, x *y)
ELEMENT2(mul, i32, int32_t, int32_t, , I32_OF(*, x, y))
ELEMENT2(mul, i64, int64_t, int64_t, , I64_OF(*, x, y))
REAL2(div, NOTHING, x / y, x / y)
/* A nan stays. */
#define LARGER (x > y) | (x != x) ? x : y
#define SMALLER (x < y) | (x != x) ? x : y
REAL2(maximum, NOTHING, LARGER, LARGER)
ELEMENT2(maximum, i32, int32_t, int32_t, , LARGER)
ELEMENT2(maximum, i64, int64_t, int64_t, , LARGER)
REAL2(minimum, NOTHING, SMALLER, SMALLER)
ELEMENT2(minimum, i32, int32_t, int32_t, , SMALLER)
ELEMENT2(minimum, i64, int64_t, int64_t, , SMALLER)
/* What the larger one takes of the gradient; a nan takes it, as in PyTorch. */
REAL2(max_share, NOTHING, x == y ? 0.5f : x < y ? 0 : 1, x == y ? 0.5 : x < y ? 0 : 1)
REAL2(max_mask, NOTHING, (float)(x == y), (double)(x == y)) /* y is the maximum */

/* Gradients: x is the forward result, y its gradient. */
REAL2(relu_grad, NOTHING, x > 0 ? y : 0, x > 0 ? y : 0)
REAL2(tanh_grad, NOTHING, y *(1 - x * x), y *(1 - x * x))
REAL2(sqrt_grad, NOTHING, y / (2 * x), y / (2 * x))
REAL2(sigmoid_grad, NOTHING, y *x *(1 - x), y *x *(1 - x))
REAL2(rsqrt_grad, NOTHING, -y / 2 * x * x * x, -y / 2 * x * x * x)
/* x is the forward operand. */
static inline float silu_slope_f32(float x) {
    float s = 1 / (1 + exp_f32(-x));
    return s * (1 + x * (1 - s));
}
static inline double silu_slope_f64(double x) {
    double s = 1 / (1 + exp_f64(-x));
    return s * (1 + x * (1 - s));
}
static inline float gelu_slope_f32(float x) {
    return normal_f32(x) + x * density_f32(x);
}
static inline double gelu_slope_f64(double x) {
    return normal_f64(x) + x * density_f64(x);
}
static inline float gelu_tanh_slope_f32(float x) {
    float t = tanh_f32((float)GELU_SCALE * (x + (float)GELU_CUBE * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * (float)GELU_SCALE * (1 + 3 * (float)GELU_CUBE * x * x);
}
static inline double gelu_tanh_slope_f64(double x) {
    double t = tanh_f64(GELU_SCALE * (x + GELU_CUBE * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
}
REAL2(silu_grad, NOTHING, y *silu_slope_f32(x), y *silu_slope_f64(x))
REAL2(gelu_grad, NOTHING, y *gelu_slope_f32(x), y *gelu_slope_f64(x))
REAL2(gelu_tanh_grad, NOTHING, y *gelu_tanh_slope_f32(x), y *gelu_tanh_slope_f64(x))
REAL2(square_grad, NOTHING, 2 * x * y, 2 * x * y)
REAL2(abs_grad, NOTHING, x > 0 ? y : x < 0 ? -y : 0, x > 0 ? y : x < 0 ? -y : 0)
#define CLAMP_SLOPE (x >= low) & (x <= high) ? y : 0 /* a nan has no gradient */
REAL2(clamp_grad, BOUNDS, CLAMP_SLOPE, CLAMP_SLOPE)

/* Clipping: x times min(1, norm / (sqrt(y) + 1e-6)), y the same for all; a norm that is no number stays one. */
static double clip_scale(double squares, double norm) {
    const double scale = norm / (sqrt(squares) + 1e-6);
    return scale > 1 ? 1 : scale;
}
#define CLIP_SCALE(T) const T scale = (T)clip_scale((double)*b, attr[0].f)
REAL2(clip, CLIP_SCALE, ((void)y, scale *x), ((void)y, scale *x))

/* ---------------------------------------------------------------- between element types */

#define COMPARE(name, OP)                                                                                                                  \
    ELEMENT2(name, f32, float, uint8_t, , x OP y)                                                                                          \
    ELEMENT2(name, f64, double, uint8_t, , x OP y)                                                                                         \
    ELEMENT2(name, i32, int32_t, uint8_t, , x OP y)                                                                                        \
    ELEMENT2(name, i64, int64_t, uint8_t, , x OP y)                                                                                        \
    ELEMENT2(name, u8, uint8_t, uint8_t, , x OP y)
COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)
COMPARE(equal, ==)
COMPARE(not_equal, !=)

#define WHERE(bits)                                                                                                                        \
    static void each_where_##bits(void *out_, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {                 \
        uint##bits##_t *out = out_;                                                                                                        \
        const uint##bits##_t *a = in[1], *b = in[2];                                                                                       \
        const uint8_t *condition = in[0];                                                                                                  \
        const int64_t step = stride[0], a_step = stride[1], b_step = stride[2];                                                            \
        (void)attr;                                                                                                                        \
        if (step && a_step && b_step)                                                                                                      \
            EACH(out[i] = condition[i] ? a[i] : b[i];)                                                                                     \
        else                                                                                                                               \
            for (int64_t i = 0; i < n; i++)                                                                                                \
                out[i] = condition[i * step] ? a[i * a_step] : b[i * b_step];                                                              \
    }
WHERE(8)
WHERE(32)
WHERE(64)

/* A real that an integer type cannot hold becomes its nearest number, nan 0; an integer keeps its low bits. */
#define CAST(suffix, T, F32_, F64_, I32_, I64_)                                                                                            \
    ELEMENT1(cast_##suffix, f32, T, float, , F32_)                                                                                         \
    ELEMENT1(cast_##suffix, f64, T, double, , F64_)                                                                                        \
    ELEMENT1(cast_##suffix, i32, T, int32_t, , I32_)                                                                                       \
    ELEMENT1(cast_##suffix, i64, T, int64_t, , I64_)                                                                                       \
    ELEMENT1(cast_##suffix, u8, T, uint8_t, , x != 0)
CAST(f32, float, x, x, (int32_t)integer_of((double)x, I32), integer_of((double)x, I64))
CAST(f64, double, (float)x, x, (int32_t)integer_of(x, I32), integer_of(x, I64))
CAST(i32, int32_t, (float)x, x, x, x)
CAST(i64, int64_t, (float)x, (double)x, (int32_t)(uint32_t)(uint64_t)x, x)
CAST(u8, uint8_t, x != 0, x != 0, x != 0, x != 0)

/* ---------------------------------------------------------------- all of them */

#define REALS(name) [OP_##name] = {[F32] = each_##name##_f32, [F64] = each_##name##_f64}
#define NUMBERS(name)                                                                                                                      \
    [OP_##name] = {[F32] = each_##name##_f32, [F64] = each_##name##_f64, [I32] = each_##name##_i32, [I64] = each_##name##_i64}
#define ANY(name)                                                                                                                          \
    [OP_##name] = {[F32] = each_##name##_f32,                                                                                              \
                   [F64] = each_##name##_f64,                                                                                              \
                   [I32] = each_##name##_i32,                                                                                              \
                   [I64] = each_##name##_i64,                                                                                              \
                   [BOOL] = each_##name##_u8}

#define NAME(variant) NAME_(variant)
#define NAME_(variant) element_loop_##variant
ElementLoop *NAME(VECTOR)(OpCode op, const Attr *attr, DType in, DType out);
ElementLoop *NAME(VECTOR)(OpCode op, const Attr *attr, DType in, DType out) {
    static ElementLoop *const loops[NOPS][NDTYPES] = {
        NUMBERS(neg),
        REALS(relu),
        REALS(tanh),
        REALS(exp),
        REALS(log),
        REALS(sqrt),
        REALS(sigmoid),
        REALS(silu),
        REALS(rsqrt),
        REALS(gelu),
        NUMBERS(abs),
        REALS(sin),
        REALS(cos),
        REALS(softplus),
        NUMBERS(square),
        NUMBERS(clamp),
        NUMBERS(add),
        NUMBERS(sub),
        NUMBERS(mul),
        REALS(div),
        NUMBERS(maximum),
        NUMBERS(minimum),
        REALS(max_share),
        REALS(max_mask),
        REALS(relu_grad),
        REALS(tanh_grad),
        REALS(sqrt_grad),
        REALS(sigmoid_grad),
        REALS(rsqrt_grad),
        REALS(silu_grad),
        REALS(gelu_grad),
        REALS(square_grad),
        REALS(abs_grad),
        REALS(clamp_grad),
        REALS(clip),
        ANY(less),
        ANY(less_equal),
        ANY(greater),
        ANY(greater_equal),
        ANY(equal),
        ANY(not_equal),
        [OP_where] = {[F32] = each_where_32, [F64] = each_where_64, [I32] = each_where_32, [I64] = each_where_64, [BOOL] = each_where_8},
    };
    static ElementLoop *const with_tanh[2][NDTYPES] = {{each_gelu_tanh_f32, each_gelu_tanh_f64},
                                                       {each_gelu_tanh_grad_f32, each_gelu_tanh_grad_f64}};
    static ElementLoop *const casts[NDTYPES][NDTYPES] = {
        [F32] = {each_cast_f32_f32, each_cast_f32_f64, each_cast_f32_i32, each_cast_f32_i64, each_cast_f32_u8},
        [F64] = {each_cast_f64_f32, each_cast_f64_f64, each_cast_f64_i32, each_cast_f64_i64, each_cast_f64_u8},
        [I32] = {each_cast_i32_f32, each_cast_i32_f64, each_cast_i32_i32, each_cast_i32_i64, each_cast_i32_u8},
        [I64] = {each_cast_i64_f32, each_cast_i64_f64, each_cast_i64_i32, each_cast_i64_i64, each_cast_i64_u8},
        [BOOL] = {each_cast_u8_f32, each_cast_u8_f64, each_cast_u8_i32, each_cast_u8_i64, each_cast_u8_u8},
    };
    if (op == OP_cast) return casts[in][out];
    if ((op == OP_gelu || op == OP_gelu_grad) && attr[0].i) return with_tanh[op == OP_gelu_grad][in];
    return loops[op][in];
}
