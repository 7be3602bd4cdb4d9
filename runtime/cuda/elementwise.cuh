/* elementwise: what each ElementOp does to numbers of one type. Products that are added to something are written as fma where they are to be fused, so that
 * the compiler has no choice and an element's result does not depend on which loop computed it. */
#pragma once

template <class T> constexpr bool is_real = false;
template <> constexpr bool is_real<float> = true;
template <> constexpr bool is_real<double> = true;

/* Long functions of f64: as calls, so that no launch of other operators lacks registers for them. */
#ifdef __CUDACC__
#define CALLED static __device__ __noinline__
#else
#define CALLED static inline
#endif

__device__ __forceinline__ float real_fma(float x, float y, float z) { return fmaf(x, y, z); }
__device__ __forceinline__ double real_fma(double x, double y, double z) { return fma(x, y, z); }
__device__ __forceinline__ float real_exp(float x) { return expf(x); }
CALLED double real_exp(double x) { return exp(x); }
__device__ __forceinline__ float real_log(float x) { return logf(x); }
CALLED double real_log(double x) { return log(x); }
__device__ __forceinline__ float real_tanh(float x) { return tanhf(x); }
CALLED double real_tanh(double x) { return tanh(x); }
__device__ __forceinline__ float real_sqrt(float x) { return sqrtf(x); }
__device__ __forceinline__ double real_sqrt(double x) { return sqrt(x); }
__device__ __forceinline__ float real_pow(float x, float y) { return powf(x, y); }
CALLED double real_pow(double x, double y) { return pow(x, y); }
__device__ __forceinline__ float real_floor(float x) { return floorf(x); }
__device__ __forceinline__ double real_floor(double x) { return floor(x); }
__device__ __forceinline__ float real_sin(float x) { return sinf(x); }
CALLED double real_sin(double x) { return sin(x); }
__device__ __forceinline__ float real_cos(float x) { return cosf(x); }
CALLED double real_cos(double x) { return cos(x); }
__device__ __forceinline__ float real_log1p(float x) { return log1pf(x); }
CALLED double real_log1p(double x) { return log1p(x); }
__device__ __forceinline__ float magnitude_of(float x) { return fabsf(x); }
__device__ __forceinline__ double magnitude_of(double x) { return fabs(x); }
__device__ __forceinline__ float real_erfc(float x) { return erfcf(x); }
CALLED double real_erfc(double x) { return erfc(x); }

/* ---------------------------------------------------------------- integers: they wrap, computed without sign */

__device__ __forceinline__ int32_t sum_of(int32_t x, int32_t y) { return (int32_t)((uint32_t)x + (uint32_t)y); }
__device__ __forceinline__ int32_t difference_of(int32_t x, int32_t y) { return (int32_t)((uint32_t)x - (uint32_t)y); }
__device__ __forceinline__ int32_t product_of(int32_t x, int32_t y) { return (int32_t)((uint32_t)x * (uint32_t)y); }
__device__ __forceinline__ int32_t negative_of(int32_t x) { return (int32_t)(0 - (uint32_t)x); }
__device__ __forceinline__ int64_t sum_of(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
__device__ __forceinline__ int64_t difference_of(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
__device__ __forceinline__ int64_t product_of(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
__device__ __forceinline__ int64_t negative_of(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

__device__ __forceinline__ int32_t magnitude_of(int32_t x) { return x < 0 ? (int32_t)(0 - (uint32_t)x) : x; }
__device__ __forceinline__ int64_t magnitude_of(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }

__device__ __forceinline__ float sum_of(float x, float y) { return x + y; }
__device__ __forceinline__ float difference_of(float x, float y) { return x - y; }
__device__ __forceinline__ float product_of(float x, float y) { return x * y; }
__device__ __forceinline__ float negative_of(float x) { return -x; }
__device__ __forceinline__ double sum_of(double x, double y) { return x + y; }
__device__ __forceinline__ double difference_of(double x, double y) { return x - y; }
__device__ __forceinline__ double product_of(double x, double y) { return x * y; }
__device__ __forceinline__ double negative_of(double x) { return -x; }

/* ---------------------------------------------------------------- element types into each other: a real that a type cannot hold becomes its nearest number, nan 0; an integer keeps its low bits */

template <class To> __device__ __forceinline__ To convert_real(double value) {
    if constexpr (is_real<To>) {
        return (To)value;
    } else {
        constexpr bool wide = sizeof(To) == 8;
        constexpr double least = wide ? -9223372036854775808.0 : (double)INT32_MIN, most = wide ? 9223372036854775808.0 : (double)INT32_MAX;
        constexpr To at_least = wide ? (To)INT64_MIN : (To)INT32_MIN, at_most = wide ? (To)INT64_MAX : (To)INT32_MAX;
        return value != value ? 0 : value <= least ? at_least : value >= most ? at_most : (To)value;
    }
}
template <class To, class From> __device__ __forceinline__ To convert(From value) {
    if constexpr (is_real<To> || is_real<From>)
        return convert_real<To>((double)value);
    else
        return (To)value;
}

/* ---------------------------------------------------------------- functions of reals */

/* The normal distribution's share below x is erfc(-x / sqrt(2)) / 2, which keeps its digits where it is small; its density. */
template <class T> __device__ __forceinline__ T normal_of(T x) { return real_erfc(-x * (T)0.70710678118654752440) / 2; }
template <class T> __device__ __forceinline__ T density_of(T x) { return (T)0.39894228040143267794 * real_exp(-x * x / 2); }

/* min(1, norm / (sqrt(s) + 1e-6)); a norm that is no number stays one. */
template <class T> __device__ __forceinline__ T clip_scale(T s, double norm) {
    const double scale = norm / (sqrt((double)s) + 1e-6);
    return (T)(scale > 1 ? 1 : scale);
}

/* ---------------------------------------------------------------- all of them, on packs of 16 bytes */

template <class T> struct __align__(16) Pack {
    static constexpr int width = 16 / (int)sizeof(T);
    T at[width];
};

/* The two numbers of a step. */
struct Constants {
    double at[2];
};

/* The same for every element of a pack; x and y are those of the operands. */
#define EACH(name, expression) EACH_OF(name, x, y, expression)
#define EACH_OF(name, X, Y, expression)                                                                                                    \
    case name:                                                                                                                             \
        _Pragma("unroll") for (int k = 0; k < Pack<T>::width; k++) {                                                                       \
            const T X = a.at[k], Y = b.at[k];                                                                                              \
            (void)X, (void)Y;                                                                                                              \
            r.at[k] = (expression);                                                                                                        \
        }                                                                                                                                  \
        break;

/* What the formulas of elementwise.def are made of. */
#define REAL(number) ((T)(number))
#define FMA(a, b, c) real_fma((T)(a), (T)(b), (T)(c))
#define ADD(a, b) sum_of(a, b)
#define SUB(a, b) difference_of(a, b)
#define MUL(a, b) product_of(a, b)
#define NEG(a) negative_of(a)
#define ABS(a) magnitude_of(a)
#define EXP(a) real_exp(a)
#define LOG(a) real_log(a)
#define LOG1P(a) real_log1p(a)
#define TANH(a) real_tanh(a)
#define SIN(a) real_sin(a)
#define COS(a) real_cos(a)
#define SQRT(a) real_sqrt(a)
#define POW(a, b) real_pow((T)(a), (T)(b))
#define FLOOR(a) real_floor(a)
#define NORMAL(a) normal_of(a)
#define GELU(a) ((a) * normal_of(a))
#define DENSITY(a) density_of(a)

template <class T> __device__ __forceinline__ Pack<T> element_apply_real(int op, const Pack<T> &a, const Pack<T> &b, const Constants &constants) {
    Pack<T> r = a;
    const T low = (T)constants.at[0], high = (T)constants.at[1];
    switch (op) {
#define ROW_REAL(...) __VA_ARGS__
#define ROW_NUMBER(...)
#define UNARY_OP(name, title, types, formula, ...) ROW_##types(EACH(ELEMENT_##name, formula))
#define UNARY_OP_X(name, title, types, formula, gradient, ...) ROW_##types(EACH(ELEMENT_##name, formula)) EACH_OF(ELEMENT_##name##_grad, x, dy, gradient)
#define UNARY_OP_Y(name, title, types, formula, gradient, ...) ROW_##types(EACH(ELEMENT_##name, formula)) EACH_OF(ELEMENT_##name##_grad, y, dy, gradient)
#define BINARY_OP(name, title, types, formula, ...) ROW_##types(EACH(ELEMENT_##name, formula))
#define UNARY_FORMULA(name, types, formula) EACH(ELEMENT_##name, formula)
#define BINARY_FORMULA(name, types, formula) EACH(ELEMENT_##name, formula)
#include "ir/elementwise.def"
#undef ROW_REAL
#undef ROW_NUMBER
        EACH(ELEMENT_CLAMP_GRAD, x >= low && x <= high ? y : 0)
        EACH(ELEMENT_DIVIDE, x / low)
    case ELEMENT_CLIP: { /* b is one number */
        const T scale = clip_scale(b.at[0], constants.at[0]);
#pragma unroll
        for (int k = 0; k < Pack<T>::width; k++)
            r.at[k] = scale * a.at[k];
        break;
    }
    }
    return r;
}

/* op on packs; c is where's second choice. */
template <class T> __device__ __forceinline__ Pack<T> element_apply(int op, const Pack<T> &a, const Pack<T> &b, const Pack<T> &c, const Constants &constants) {
    Pack<T> r = a;
    const T low = convert_real<T>(constants.at[0]), high = convert_real<T>(constants.at[1]);
    switch (op) {
    case ELEMENT_COPY:
        break;
        EACH(ELEMENT_CONSTANT, (T)constants.at[0])
#define ROW_REAL(...)
#define ROW_NUMBER(...) __VA_ARGS__
#define UNARY_OP(name, title, types, formula, ...) ROW_##types(EACH(ELEMENT_##name, formula))
#define UNARY_OP_X(name, title, types, formula, ...) ROW_##types(EACH(ELEMENT_##name, formula))
#define UNARY_OP_Y(name, title, types, formula, ...) ROW_##types(EACH(ELEMENT_##name, formula))
#define BINARY_OP(name, title, types, formula, ...) ROW_##types(EACH(ELEMENT_##name, formula))
#include "ir/elementwise.def"
#undef ROW_REAL
#undef ROW_NUMBER
        EACH(ELEMENT_TRUTH, x != 0)
        EACH(ELEMENT_LESS, x < y)
        EACH(ELEMENT_LESS_EQUAL, x <= y)
        EACH(ELEMENT_GREATER, x > y)
        EACH(ELEMENT_GREATER_EQUAL, x >= y)
        EACH(ELEMENT_EQUAL, x == y)
        EACH(ELEMENT_NOT_EQUAL, x != y)
        EACH(ELEMENT_WHERE, x != 0 ? y : c.at[k])
        EACH(ELEMENT_CLAMP, x < low ? low : x > high ? high : x)
    default:
        if constexpr (is_real<T>) r = element_apply_real(op, a, b, constants);
        break;
    }
    return r;
}
#undef EACH
#undef EACH_OF
#include "ir/endformula.def"
