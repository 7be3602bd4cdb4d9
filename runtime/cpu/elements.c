/* elements: see elements.h. No loop carries a dependence between elements, which `omp simd` tells the compiler. Compiled once for
 * each of vector.c's variants. */
#include "runtime/cpu/elements.h"

#include <string.h>

#include "ir/half.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/functions.h"
#include "runtime/cpu/vector.h"

/* The loop `name` from elements T to elements R. X and Y: names of the operands' elements; SETUP: declares what all elements share (from
 * `attr` and the operands); expression: the result's element. */
#define LOOP_1(...) LOOP_1_(__VA_ARGS__)
#define LOOP_2(...) LOOP_2_(__VA_ARGS__)
#define UNUSED __attribute__((unused)) /* some of the near loops */
/* A loop returns nothing, or the largest magnitude, as bits, of the first operand's elements (see "near 0"). */
#define EACH(...)                                                                                                                          \
    _Pragma(SIMD) for (int64_t i = 0; i < n; i++) {                                                                                        \
        __VA_ARGS__                                                                                                                        \
    }
#define BEGIN(name, suffix, R)                                                                                                             \
    UNUSED static SEEN each_##name##_##suffix(void *out_, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {     \
        R *out = out_;                                                                                                                     \
        (void)attr, (void)stride;                                                                                                          \
        SEE_NONE
#define LOOP_1_(name, suffix, T, R, SETUP, expression)                                                                                     \
    BEGIN(name, suffix, R)                                                                                                                 \
    const T *a = in[0];                                                                                                                    \
    SETUP;                                                                                                                                 \
    if (stride[0]) {                                                                                                                       \
        EACH(const T x = a[i]; SEE(x) out[i] = expression;)                                                                                \
    } else {                                                                                                                               \
        const T x = *a;                                                                                                                    \
        const R same = expression;                                                                                                         \
        SEE(x)                                                                                                                             \
        EACH(out[i] = same;)                                                                                                               \
    }                                                                                                                                      \
    SEE_END                                                                                                                                \
    }
#define LOOP_2_(name, suffix, T, R, X, Y, SETUP, expression)                                                                               \
    BEGIN(name, suffix, R)                                                                                                                 \
    const T *a = in[0], *b = in[1];                                                                                                        \
    SETUP;                                                                                                                                 \
    if (stride[0] && stride[1]) {                                                                                                          \
        EACH(const T X = a[i]; const T Y = b[i]; SEE(X) out[i] = expression;)                                                              \
    } else if (stride[0]) {                                                                                                                \
        const T Y = *b;                                                                                                                    \
        EACH(const T X = a[i]; SEE(X) out[i] = expression;)                                                                                \
    } else if (stride[1]) {                                                                                                                \
        const T X = *a;                                                                                                                    \
        SEE(X)                                                                                                                             \
        EACH(const T Y = b[i]; out[i] = expression;)                                                                                       \
    } else {                                                                                                                               \
        const T X = *a, Y = *b;                                                                                                            \
        const R same = expression;                                                                                                         \
        SEE(X)                                                                                                                             \
        EACH(out[i] = same;)                                                                                                               \
    }                                                                                                                                      \
    SEE_END                                                                                                                                \
    }

/* ---------------------------------------------------------------- the table's rows */

#define REAL_TYPE(...) __VA_ARGS__
#define INTEGER_TYPE(...)
/* Integers wrap, as docs/language.md says: computed as unsigned, for which C defines it. */
#define WRAP(T, U, a, operation, b) ((T)((U)(a)operation(U)(b)))

#define SIMD "omp simd"
#define SEEN void
#define SEE_NONE
#define SEE(x)
#define SEE_END
#define ELEMENT float
#define SUFFIX f32
#define IF_REAL REAL_TYPE
#define ABS(a) fabsf(a)
#include "runtime/cpu/elementtype.h"
#define ELEMENT double
#define SUFFIX f64
#define IF_REAL REAL_TYPE
#define ABS(a) fabs(a)
#include "runtime/cpu/elementtype.h"
#define ELEMENT int32_t
#define SUFFIX i32
#define IF_REAL INTEGER_TYPE
#define ADD(a, b) WRAP(int32_t, uint32_t, a, +, b)
#define SUB(a, b) WRAP(int32_t, uint32_t, a, -, b)
#define MUL(a, b) WRAP(int32_t, uint32_t, a, *, b)
#define NEG(a) WRAP(int32_t, uint32_t, 0, -, a)
#define ABS(a) ((a) < 0 ? NEG(a) : (a))
#include "runtime/cpu/elementtype.h"
#define ELEMENT int64_t
#define SUFFIX i64
#define IF_REAL INTEGER_TYPE
#define ADD(a, b) WRAP(int64_t, uint64_t, a, +, b)
#define SUB(a, b) WRAP(int64_t, uint64_t, a, -, b)
#define MUL(a, b) WRAP(int64_t, uint64_t, a, *, b)
#define NEG(a) WRAP(int64_t, uint64_t, 0, -, a)
#define ABS(a) ((a) < 0 ? NEG(a) : (a))
#include "runtime/cpu/elementtype.h"

/* ---------------------------------------------------------------- operators with attributes */

/* Bounds have the element type: reals are rounded to it, integers saturated. A missing bound limits nothing. */
#define BOUNDS(T)                                                                                                                          \
    const T low = attr[0].given ? (T)attr[0].f : -(T)INFINITY;                                                                             \
    const T high = attr[1].given ? (T)attr[1].f : (T)INFINITY
#define INTEGER_BOUNDS(T, TYPE)                                                                                                            \
    const T low = (T)integer_of(attr[0].given ? attr[0].f : -(double)INFINITY, TYPE);                                                      \
    const T high = (T)integer_of(attr[1].given ? attr[1].f : (double)INFINITY, TYPE)
#define CLAMPED x<low ? low : x> high ? high : x /* keeps nan */
LOOP_1(clamp, f32, float, float, BOUNDS(float), CLAMPED)
LOOP_1(clamp, f64, double, double, BOUNDS(double), CLAMPED)
LOOP_1(clamp, i32, int32_t, int32_t, INTEGER_BOUNDS(int32_t, I32), CLAMPED)
LOOP_1(clamp, i64, int64_t, int64_t, INTEGER_BOUNDS(int64_t, I64), CLAMPED)
#define CLAMP_SLOPE (x >= low) & (x <= high) ? dy : 0 /* a nan has no gradient */
LOOP_2(clamp_grad, f32, float, float, x, dy, BOUNDS(float), CLAMP_SLOPE)
LOOP_2(clamp_grad, f64, double, double, x, dy, BOUNDS(double), CLAMP_SLOPE)

/* Clipping: x times min(1, norm / (sqrt(y) + 1e-6)), y the same for all; nan stays nan. */
static double clip_scale(double squares, double norm) {
    const double scale = norm / (sqrt(squares) + 1e-6);
    return scale > 1 ? 1 : scale;
}
#define CLIP_SCALE(T) const T scale = (T)clip_scale((double)*b, attr[0].f)
LOOP_2(clip, f32, float, float, x, y, CLIP_SCALE(float), ((void)y, scale *x))
LOOP_2(clip, f64, double, double, x, y, CLIP_SCALE(double), ((void)y, scale *x))

/* ---------------------------------------------------------------- between element types */

#define COMPARE(name, OP)                                                                                                                  \
    LOOP_2(name, f32, float, uint8_t, x, y, , x OP y)                                                                                      \
    LOOP_2(name, f64, double, uint8_t, x, y, , x OP y)                                                                                     \
    LOOP_2(name, i32, int32_t, uint8_t, x, y, , x OP y)                                                                                    \
    LOOP_2(name, i64, int64_t, uint8_t, x, y, , x OP y)                                                                                    \
    LOOP_2(name, u8, uint8_t, uint8_t, x, y, , x OP y)
COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)
COMPARE(equal, ==)
COMPARE(not_equal, !=)

/* out[i] = condition[i] ? x : y of each element, both of which are read. */
#define CHOOSE(T, X, Y)                                                                                                                    \
    EACH({                                                                                                                                 \
        const T x = X, y = Y;                                                                                                              \
        out[i] = condition[i] ? x : y;                                                                                                     \
    })
#define WHERE(bits)                                                                                                                        \
    static void each_where_##bits(void *out_, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {                 \
        typedef uint##bits##_t T;                                                                                                          \
        T *out = out_;                                                                                                                     \
        const T *a = in[1], *b = in[2];                                                                                                    \
        const uint8_t *condition = in[0];                                                                                                  \
        (void)attr;                                                                                                                        \
        if (!stride[0]) { /* all from one operand; out may be either */                                                                    \
            const T *one = *condition ? a : b, same = *one;                                                                                \
            if (stride[*condition ? 1 : 2])                                                                                                \
                memmove(out, one, (size_t)n * sizeof *out);                                                                                \
            else                                                                                                                           \
                EACH(out[i] = same;)                                                                                                       \
        } else if (stride[1] && stride[2]) {                                                                                               \
            CHOOSE(T, a[i], b[i])                                                                                                          \
        } else {                                                                                                                           \
            const T first = *a, second = *b;                                                                                               \
            if (stride[1]) {                                                                                                               \
                CHOOSE(T, a[i], second)                                                                                                    \
            } else if (stride[2]) {                                                                                                        \
                CHOOSE(T, first, b[i])                                                                                                     \
            } else {                                                                                                                       \
                CHOOSE(T, first, second)                                                                                                   \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
WHERE(8)
WHERE(16)
WHERE(32)
WHERE(64)

/* A real beyond an integer type's range is saturated, nan becomes 0; an integer keeps its low bits. */
#define CAST(suffix, T, TRUTH, F32_, F64_, I32_, I64_)                                                                                     \
    LOOP_1(cast_##suffix, f32, T, float, , F32_)                                                                                           \
    LOOP_1(cast_##suffix, f64, T, double, , F64_)                                                                                          \
    LOOP_1(cast_##suffix, i32, T, int32_t, , I32_)                                                                                         \
    LOOP_1(cast_##suffix, i64, T, int64_t, , I64_)                                                                                         \
    LOOP_1(cast_##suffix, u8, T, uint8_t, , TRUTH)                                                                                         \
    LOOP_1(cast_##suffix, f16, T, uint16_t, , f16_of_f32(F32_))                                                                            \
    LOOP_1(cast_##suffix, bf16, T, uint16_t, , bf16_of_f32(F32_))
/* Casts from 16-bit types, by way of f32. */
#define CAST_HALF(suffix, VALUE)                                                                                                           \
    CAST(suffix, uint16_t, VALUE != 0, VALUE, VALUE, (int32_t)integer_of((double)VALUE, I32), integer_of((double)VALUE, I64))
CAST(f32, float, x != 0, x, x, (int32_t)integer_of((double)x, I32), integer_of((double)x, I64))
CAST(f64, double, x != 0, (float)x, x, (int32_t)integer_of(x, I32), integer_of(x, I64))
CAST(i32, int32_t, x != 0, (float)x, x, x, x)
CAST(i64, int64_t, x != 0, (float)x, (double)x, (int32_t)(uint32_t)(uint64_t)x, x)
CAST(u8, uint8_t, x != 0, x != 0, x != 0, x != 0, x != 0)
CAST_HALF(f16, f16_to_f32(x))
CAST_HALF(bf16, bf16_to_f32(x))

/* ---------------------------------------------------------------- near 0 */

/* Functions that are computed in one way near 0 and in another far from it: the loops above compute both for each element. These compute only the near one, and return
 * the largest magnitude of their elements, as bits (those of a nan are larger than any number's). */
#undef SIMD
#undef SEEN
#undef SEE_NONE
#undef SEE
#undef SEE_END
#define SIMD "omp simd reduction(max : seen)"
#define SEEN BITS
#define SEE_NONE BITS seen = 0;
#define SEE(x)                                                                                                                             \
    {                                                                                                                                      \
        const BITS bits = BITS_OF(x) & (BITS)-1 >> 1;                                                                                      \
        seen = bits > seen ? bits : seen;                                                                                                  \
    }
#define SEE_END return seen;
#define ELEMENT float
#define SUFFIX near_f32
#define IF_REAL REAL_TYPE
#define ABS(a) fabsf(a)
#define BITS uint32_t
#define BITS_OF float_bits
#include "runtime/cpu/elementtype.h"
#undef BITS
#undef BITS_OF
#define ELEMENT double
#define SUFFIX near_f64
#define IF_REAL REAL_TYPE
#define ABS(a) fabs(a)
#define BITS uint64_t
#define BITS_OF bits_of_f64
#include "runtime/cpu/elementtype.h"

/* Block by block. A block in which an element is far is computed again, from a copy where the result overlaps an operand. The next block is prefetched, so that memory is
 * not idle while a block is computed. */
enum { BLOCK = 256, LINE = 64 };
#define NEAR_LOOP(name, suffix, T, BITS_OF, limit, nin)                                                                                    \
    static void blocks_##name##_##suffix(void *out, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {           \
        for (int64_t begin = 0; begin < n; begin += BLOCK) {                                                                               \
            const int64_t most = n - begin < BLOCK ? n - begin : BLOCK;                                                                    \
            T kept[BLOCK], *to = (T *)out + begin;                                                                                         \
            const T *x = (const T *)in[0] + begin * stride[0];                                                                             \
            const void *at[2] = {x, nin > 1 ? (const T *)in[1] + begin * stride[1] : NULL};                                                \
            const int64_t next = begin + 2 * BLOCK <= n ? BLOCK * stride[0] * (int64_t)sizeof *x : 0;                                      \
            for (int64_t byte = 0; byte < next; byte += LINE)                                                                              \
                __builtin_prefetch((const char *)x + next + byte);                                                                         \
            for (int k = 0; k < nin; k++)                                                                                                  \
                if (at[k] == to) at[k] = memcpy(kept, to, (size_t)most * sizeof *to);                                                      \
            if (each_##name##_near_##suffix(to, at, stride, attr, most) > BITS_OF(limit))                                                  \
                each_##name##_##suffix(to, at, stride, attr, most);                                                                        \
        }                                                                                                                                  \
    }
NEAR_LOOP(sin, f32, float, float_bits, NEAR_TURNS, 1)
NEAR_LOOP(cos, f32, float, float_bits, NEAR_TURNS, 1)
NEAR_LOOP(sin, f64, double, bits_of_f64, NEAR_TURNS, 1)
NEAR_LOOP(cos, f64, double, bits_of_f64, NEAR_TURNS, 1)
NEAR_LOOP(exp, f32, float, float_bits, NEAR_EXP, 1)
NEAR_LOOP(sigmoid, f32, float, float_bits, NEAR_EXP, 1)
NEAR_LOOP(silu, f32, float, float_bits, NEAR_EXP, 1)
NEAR_LOOP(silu_grad, f32, float, float_bits, NEAR_EXP, 2)
NEAR_LOOP(softplus, f32, float, float_bits, NEAR_EXP, 1)
NEAR_LOOP(expm1, f32, float, float_bits, NEAR_EXP, 1)
NEAR_LOOP(gelu, f32, float, float_bits, NEAR_GELU, 1)
NEAR_LOOP(gelu_grad, f32, float, float_bits, NEAR_BELL, 2)

/* ---------------------------------------------------------------- halves */

/* Runs a loop of f32 over 16-bit elements, block by block; each result is rounded once. */
enum { HALF_BLOCK = 256, HALF_OPERANDS = 2 };
typedef struct HalfLoop {
    ElementLoop *loop, *widen, *narrow; /* narrow NULL: the results are bools */
    int nin;
} HalfLoop;
static void run_halves(const HalfLoop *half, void *out, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {
    float wide[HALF_OPERANDS][HALF_BLOCK], result[HALF_BLOCK];
    const void *operand[HALF_OPERANDS] = {wide[0], wide[1]};
    for (int64_t begin = 0; begin < n; begin += HALF_BLOCK) {
        const int64_t most = n - begin < HALF_BLOCK ? n - begin : HALF_BLOCK;
        for (int i = 0; i < half->nin; i++)
            half->widen(wide[i], (const void *const[]){(const uint16_t *)in[i] + begin * stride[i]}, (const int64_t[]){1}, NULL,
                        stride[i] ? most : 1);
        half->loop(half->narrow ? (void *)result : (uint8_t *)out + begin, operand, stride, attr, most);
        if (half->narrow) half->narrow((uint16_t *)out + begin, (const void *const[]){result}, (const int64_t[]){1}, NULL, most);
    }
}
#define HALF_LOOP(name, wide, suffix, nin, narrow)                                                                                         \
    static void each_##name##_##suffix(void *out, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n) {             \
        static const HalfLoop half = {wide, each_cast_##suffix##_f32, narrow, nin};                                                        \
        run_halves(&half, out, in, stride, attr, n);                                                                                       \
    }
#define HALF_LOOPS(name, nin)                                                                                                              \
    HALF_LOOP(name, each_##name##_f32, f16, nin, each_cast_f32_f16)                                                                        \
    HALF_LOOP(name, each_##name##_f32, bf16, nin, each_cast_f32_bf16)
#define HALF_TRUTHS(name)                                                                                                                  \
    HALF_LOOP(name, each_##name##_f32, f16, 2, NULL)                                                                                       \
    HALF_LOOP(name, each_##name##_f32, bf16, 2, NULL)
#define UNARY_OP(name, ...) HALF_LOOPS(name, 1)
#define UNARY_OP_X(name, ...) HALF_LOOPS(name, 1) HALF_LOOPS(name##_grad, 2)
#define UNARY_OP_Y(name, ...) HALF_LOOPS(name, 1) HALF_LOOPS(name##_grad, 2)
#define BINARY_OP(name, ...) HALF_LOOPS(name, 2)
#include "ir/elementwise.def"
HALF_LOOP(gelu, blocks_gelu_f32, f16, 1, each_cast_f32_f16)
HALF_LOOP(gelu, blocks_gelu_f32, bf16, 1, each_cast_f32_bf16)
HALF_LOOPS(gelu_grad, 2)
HALF_LOOPS(gelu_tanh, 1)
HALF_LOOPS(gelu_tanh_grad, 2)
HALF_LOOPS(max_share, 2)
HALF_LOOPS(max_mask, 2)
HALF_LOOPS(clamp, 1)
HALF_LOOPS(clamp_grad, 2)
HALF_LOOPS(clip, 2)
HALF_TRUTHS(less)
HALF_TRUTHS(less_equal)
HALF_TRUTHS(greater)
HALF_TRUTHS(greater_equal)
HALF_TRUTHS(equal)
HALF_TRUTHS(not_equal)

/* ---------------------------------------------------------------- all of them */

ElementLoop *OF_VARIANT(element_loop)(OpCode op, const Attr *attr, DType in, DType out) {
    static ElementLoop *const loops[NOPS][NDTYPES] = {
#define FLOAT_LOOPS(name) [F32] = each_##name##_f32, [F64] = each_##name##_f64, [F16] = each_##name##_f16, [BF16] = each_##name##_bf16
#define REAL_LOOPS(name) [OP_##name] = {FLOAT_LOOPS(name)},
#define NUMBER_LOOPS(name) [OP_##name] = {FLOAT_LOOPS(name), [I32] = each_##name##_i32, [I64] = each_##name##_i64},
#define ANY_LOOPS(name) [OP_##name] = {FLOAT_LOOPS(name), [I32] = each_##name##_i32, [I64] = each_##name##_i64, [BOOL] = each_##name##_u8},
#define UNARY_OP(name, title, types, ...) types##_LOOPS(name)
#define UNARY_OP_X(name, title, types, ...) types##_LOOPS(name) REAL_LOOPS(name##_grad)
#define UNARY_OP_Y(name, title, types, ...) types##_LOOPS(name) REAL_LOOPS(name##_grad)
#define BINARY_OP(name, title, types, ...) types##_LOOPS(name)
#include "ir/elementwise.def"
        REAL_LOOPS(gelu) REAL_LOOPS(gelu_grad) REAL_LOOPS(max_share) REAL_LOOPS(max_mask) NUMBER_LOOPS(clamp) REAL_LOOPS(clamp_grad)
            REAL_LOOPS(clip) ANY_LOOPS(less) ANY_LOOPS(less_equal) ANY_LOOPS(greater) ANY_LOOPS(greater_equal) ANY_LOOPS(equal)
                ANY_LOOPS(not_equal)[OP_where] = {[F32] = each_where_32,
                                                  [F64] = each_where_64,
                                                  [I32] = each_where_32,
                                                  [I64] = each_where_64,
                                                  [BOOL] = each_where_8,
                                                  [F16] = each_where_16,
                                                  [BF16] = each_where_16},
    };
    static ElementLoop *const with_tanh[2][NDTYPES] = {{FLOAT_LOOPS(gelu_tanh)}, {FLOAT_LOOPS(gelu_tanh_grad)}};
#define CASTS(from)                                                                                                                        \
    {                                                                                                                                      \
        each_cast_##from##_f32, each_cast_##from##_f64, each_cast_##from##_i32, each_cast_##from##_i64, each_cast_##from##_u8,             \
            each_cast_##from##_f16, each_cast_##from##_bf16                                                                                \
    }
    static ElementLoop *const casts[NDTYPES][NDTYPES] = {CASTS(f32), CASTS(f64), CASTS(i32), CASTS(i64),
                                                         CASTS(u8),  CASTS(f16), CASTS(bf16)};
    static ElementLoop *const near[NOPS][NDTYPES] = {
        [OP_sin] = {blocks_sin_f32, blocks_sin_f64},
        [OP_cos] = {blocks_cos_f32, blocks_cos_f64},
        [OP_exp] = {blocks_exp_f32},
        [OP_sigmoid] = {blocks_sigmoid_f32},
        [OP_silu] = {blocks_silu_f32},
        [OP_silu_grad] = {blocks_silu_grad_f32},
        [OP_softplus] = {blocks_softplus_f32},
        [OP_expm1] = {blocks_expm1_f32},
        [OP_gelu] = {blocks_gelu_f32},
        [OP_gelu_grad] = {blocks_gelu_grad_f32},
    };
    if (op == OP_cast || op == OP_compress) return casts[in][out];
    if ((op == OP_gelu || op == OP_gelu_grad) && attr[0].i) return with_tanh[op == OP_gelu_grad][in];
    return near[op][in] ? near[op][in] : loops[op][in];
}
