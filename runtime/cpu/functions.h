/* functions: exp, log, ... of one number, without branches and calls, so that a compiler vectorizes the loops that call them. Whatever the
 * vectors, threads and remainders, loops give the same digits on every processor, because each function is the same IEEE additions,
 * multiplications, divisions and fused multiply-adds in the same order (so the compiler must neither contract nor reassociate here). The alternative was a
 * vector library: SLEEF 3.5's functions that keep their digits without fused operations take two to four times as long where they compute in pairs of
 * floats (erfc 8.8 ns an element, tanh 5.2, with AVX).
 *
 * Errors, in units of the last place, as tests/runtime/functions.c finds them:
 *   exp, log, log1p, sin, cos 1; tanh 5 (of f64 2.5); density 4; normal 8 in its tail; gelu of f32 8 up to 2 either way, 24 where it is less than -2; pow 8 where it is far from 1
 * Reductions of exp, log, log1p, and of the tanh of f64: FDLIBM (Sun Microsystems 1993). The normal distribution: Shepherd and Laframboise, "Chebyshev
 * approximation of (1 + 2x) exp(x^2) erfc(x)", Mathematics of Computation 36 (1981), in f64. sin and cos: Payne and Hanek, "Radian reduction for
 * trigonometric functions", SIGNUM 18 (1983). The polynomials and the parts of pi / 2 are printed by tools/coefficients.py. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ir/half.h"

/* In a long file a compiler would otherwise call the functions, and not vectorize the loop. */
#define INLINE static inline __attribute__((always_inline))

/* Values of polynomials by Horner's rule: POLYNOMIAL(degree, x, terms from the lowest power on). */
#define POLYNOMIAL(degree, ...) POLYNOMIAL_##degree(__VA_ARGS__)
#define POLYNOMIAL_1(x, a, b) ((b) * (x) + (a))
#define POLYNOMIAL_2(x, a, ...) (POLYNOMIAL_1(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_3(x, a, ...) (POLYNOMIAL_2(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_4(x, a, ...) (POLYNOMIAL_3(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_5(x, a, ...) (POLYNOMIAL_4(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_6(x, a, ...) (POLYNOMIAL_5(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_7(x, a, ...) (POLYNOMIAL_6(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_8(x, a, ...) (POLYNOMIAL_7(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_9(x, a, ...) (POLYNOMIAL_8(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_10(x, a, ...) (POLYNOMIAL_9(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_11(x, a, ...) (POLYNOMIAL_10(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_12(x, a, ...) (POLYNOMIAL_11(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_13(x, a, ...) (POLYNOMIAL_12(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_14(x, a, ...) (POLYNOMIAL_13(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_15(x, a, ...) (POLYNOMIAL_14(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_16(x, a, ...) (POLYNOMIAL_15(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_17(x, a, ...) (POLYNOMIAL_16(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_18(x, a, ...) (POLYNOMIAL_17(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_19(x, a, ...) (POLYNOMIAL_18(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_20(x, a, ...) (POLYNOMIAL_19(x, __VA_ARGS__) * (x) + (a))
#define POLYNOMIAL_21(x, a, ...) (POLYNOMIAL_20(x, __VA_ARGS__) * (x) + (a))
/* a + b x + ... of f32 by Estrin's rule, given the square of x: as many operations as Horner's, but a dependency chain half as long. */
#define ESTRIN_3(...) ESTRIN_3_(__VA_ARGS__)
#define ESTRIN_3_(x, square, a, b, c, d) fma_f32(fma_f32(d, x, c), square, fma_f32(b, x, a))
#define ESTRIN_4(...) ESTRIN_4_(__VA_ARGS__)
#define ESTRIN_4_(x, square, a, b, c, d, e) fma_f32(fma_f32(e, square, fma_f32(d, x, c)), square, fma_f32(b, x, a))
#define ESTRIN_5(...) ESTRIN_5_(__VA_ARGS__)
#define ESTRIN_5_(x, square, a, b, c, d, e, f) fma_f32(fma_f32(fma_f32(f, x, e), square, fma_f32(d, x, c)), square, fma_f32(b, x, a))

/* 2^e: the largest error of the function, relative to it. */
#define EXP_F32 5.0e-1f, 1.6666577e-1f, 4.16665546e-2f, 8.36317905e-3f, 1.39261836e-3f                       /* 2^-27.0 */
#define BELL_F32 -5.00000005e-1f, 1.25e-1f, -2.08331315e-2f, 2.60415406e-3f, -2.61536115e-4f, 2.17713281e-5f /* 2^-27.8 */
#define EXP_F64                                                                                                                            \
    5.0e-1, 1.6666666666666671e-1, 4.16666666666666698e-2, 8.33333333332613513e-3, 1.38888888888837483e-3, 1.98412698748206253e-4,         \
        2.48015873255477412e-5, 2.75572554002064244e-6, 2.75572736431102953e-7, 2.51052170047207452e-8,                                    \
        2.09146869680868772e-9                                                 /* 2^-62.2 */
#define LOG_F32 6.66666666e-1f, 4.00001219e-1f, 2.85508166e-1f, 2.33305819e-1f /* 2^-36.0 */
#define LOG_F64                                                                                                                            \
    6.66666666666666969e-1, 3.99999999998994432e-1, 2.85714286260032688e-1, 2.22222111302598745e-1, 1.81828894556750916e-1,                \
        1.53317106182068142e-1, 1.46165854249300037e-1                                                          /* 2^-57.7 */
#define SIN_F32 -1.6666666663854167e-1, 8.33333187427371365e-3, -1.98400864995935933e-4, 2.72498952306112264e-6 /* 2^-36.0 */
#define SIN_F64                                                                                                                            \
    -1.66666666666666646e-1, 8.33333333333094729e-3, -1.98412698367567725e-4, 2.75573161016178744e-6, -2.5051131650235178e-8,              \
        1.59181152632657681e-10                                                                                  /* 2^-56.2 */
#define COS_F32 4.16666666643202666e-2, -1.38888876716525038e-3, 2.48006001803638046e-5, -2.73009336872125662e-7 /* 2^-40.0 */
#define COS_F64                                                                                                                            \
    4.16666666666666654e-2, -1.38888888888873965e-3, 2.48015872987645608e-5, -2.75573172711451459e-7, 2.08761461465586094e-9,              \
        -1.13826236474744751e-11 /* 2^-60.6 */
#define TAIL_OVER_F32 5.0e-1f, 4.37648605e-1f, 1.82731053e-1f, 4.04559213e-2f, 4.08775936e-3f
#define TAIL_UNDER_F32 1.0f, 1.67318205f, 1.20046432f, 4.68133146e-1f, 1.01414523e-1f, 1.02463709e-2f /* 2^-27.3 */
#define TANH_OVER_F32 1.0f, 1.33819301e-1f, 3.4965633e-3f, 2.06213091e-5f, 1.33645708e-8f
#define TANH_UNDER_F32 1.0f, 4.6715251e-1f, 2.58809455e-2f, 3.28706344e-4f, 7.78209535e-7f /* 2^-25.4 */
#define GELU_OVER_F32 5.0e-1f, 3.44100473e-1f, 1.09519382e-1f, 1.47321663e-2f
#define GELU_UNDER_F32 1.0f, 1.48608049f, 9.04812502e-1f, 2.7412409e-1f, 3.69411529e-2f /* 2^-22.8, up to 8 */
#define TAIL_F64                                                                                                                           \
    9.38687718658583528e-2, 9.38687714032542808e-2, 8.86718990445015814e-2, 7.82778413531463485e-2, 6.35540848262338164e-2,                \
        4.61830208194328158e-2, 2.88531677330447812e-2, 1.20361376623783569e-2, 7.33889214672551231e-3, -2.04278107568054735e-2,           \
        3.68974451646044622e-2, -8.00551356763105571e-2, 9.75383921332766143e-2, -5.14928995247153511e-2, -7.89117803283959604e-2,         \
        2.52243120447654804e-1, -3.44565818360173481e-1, 2.89093640176547434e-1, -1.58010415678185561e-1, 5.53902699704620852e-2,          \
        -1.14085376561692514e-2, 1.0569432336344016e-3 /* 2^-53.3 */

INLINE uint64_t bits_of_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE double f64_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* The magnitude of x with the sign of s. */
INLINE float with_sign_f32(float x, float s) {
    return bits_float((float_bits(x) & 0x7fffffff) | (float_bits(s) & 0x80000000));
}
INLINE double with_sign_f64(double x, double s) {
    return f64_of_bits((bits_of_f64(x) & 0x7fffffffffffffff) | (bits_of_f64(s) & 0x8000000000000000));
}
/* a b + c, rounded once, for processors without such an instruction: computed in f64, in which the product is exact. Where the sum lies halfway between two floats, or is so
 * small that floats are sparser, what the sum lost decides: the sum's last bit is made odd, so that rounding does not take it for a tie. */
static inline float fused_by_f64(float a, float b, float c) {
    const double product = (double)a * b, sum = product + c;
    const uint64_t bits = bits_of_f64(sum);
    const int halfway = (bits & 0x1fffffff) == 0x10000000, small = fabs(sum) < 0x1p-125;
    if (!(halfway | small)) return (float)sum;
    const double back = sum - product, lost = (product - (sum - back)) + (c - back);
    const int inexact = (lost > 0) | (lost < 0), up = (lost > 0) == (sum > 0);
    return (float)f64_of_bits(inexact && !(bits & 1) ? bits + 2 * (uint64_t)up - 1 : bits);
}
INLINE float fma_f32(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return fused_by_f64(a, b, c);
#endif
}
/* x if wanted, else 0. With a conditional, the compiler would propagate the constant 0 through what follows, and compute that in two ways. */
INLINE float keep_f32(int wanted, float x) {
    return bits_float(float_bits(x) & (0 - (uint32_t)wanted));
}

/* The largest integer not above x. Adding and subtracting 2^23 gives the nearest one. Larger numbers are integers. */
INLINE float floor_f32(float x) {
    const float a = fabsf(x), near = with_sign_f32((a + 8388608.0f) - 8388608.0f, x);
    return a < 8388608.0f ? (near > x ? near - 1 : near) : x;
}
INLINE double floor_f64(double x) {
    const double a = fabs(x), near = with_sign_f64((a + 4503599627370496.0) - 4503599627370496.0, x);
    return a < 4503599627370496.0 ? (near > x ? near - 1 : near) : x;
}

INLINE float sqrt_f32(float x) {
    return sqrtf(x);
}
INLINE double sqrt_f64(double x) {
    return sqrt(x);
}

/* ---------------------------------------------------------------- exp: 2^n (1 + r + r^2 p(r)), x = n log(2) + r */

/* Adding and subtracting 1.5 2^23 rounds to an integer, which is then in the lowest bits of the sum. */
#define ROUND_F32 12582912.0f
#define NEAR_EXP 87
#define NEAR_BELL 13
#define NEAR_GELU 8
#define ROUND_F64 6755399441055744.0

/* For x - c, c small: p, r and n, with exp(r) = 1 + r + r^2 p. f64: for x + c, exp(r) - 1 and n. */
INLINE float exp_parts_f32(float x, float c, float *r_, uint32_t *n) {
    const float shifted = fma_f32(x, 1.44269504f, ROUND_F32), whole = shifted - ROUND_F32;
    /* log(2) in two parts, the first of 10 bits: the first difference is exact */
    const float r = fma_f32(whole, 2.12194440e-4f, fma_f32(whole, -0.693359375f, x)) - c, square = r * r;
    *n = float_bits(shifted);
    *r_ = r;
    return ESTRIN_4(r, square, EXP_F32);
}
INLINE float exp_of_rest_f32(float x, float c, uint32_t *n) {
    float r;
    const float p = exp_parts_f32(x, c, &r, n);
    return fma_f32(fma_f32(p, r, 1), r, 1);
}
INLINE double exp_parts_f64(double x, double c, uint64_t *n) {
    const double shifted = x * 1.4426950408889634 + ROUND_F64, whole = shifted - ROUND_F64;
    const double high = x - whole * 6.93147180369123816490e-01, low = whole * 1.90821492927058770002e-10 - c, r = high - low;
    *n = bits_of_f64(shifted);
    return high + (r * r * POLYNOMIAL(10, r, EXP_F64) - low);
}
/* 2^n, if it is a normal number. */
INLINE float power_f32(uint32_t n) {
    return bits_float((n + 127) << 23);
}
INLINE double power_f64(uint64_t n) {
    return f64_of_bits((n + 1023) << 52);
}

/* exp where it is a normal number and far from infinity: |x| at most NEAR_EXP. */
INLINE float exp_near_f32(float x) {
    uint32_t n;
    const float e = exp_of_rest_f32(x, 0, &n);
    return bits_float(float_bits(e) + (n << 23));
}
INLINE float exp_f32(float x) {
    const int under =
        x<-104, over = x> 89; /* masked beforehand, because an underflow in one lane of a vector can take a hundred times as long */
    uint32_t n;
    const float e = exp_of_rest_f32(keep_f32(!(under | over), x), 0, &n);
    const uint32_t half = (uint32_t)((int32_t)(n << 9) >> 10), rest = n - half; /* in two steps: 2^n may be no normal number */
    return under ? 0 : over ? (float)INFINITY : e * power_f32(half) * power_f32(rest);
}
INLINE double exp_f64(double x) {
    const int under = x < -746;
    const double y = under ? 0 : x > 710 ? 710 : x;
    uint64_t n;
    const double e = exp_parts_f64(y, 0, &n) + 1;
    const uint64_t half = ((n + 2048) >> 1 & 2047) - 1024, rest = n - half;
    return under ? 0 : e * power_f64(half) * power_f64(rest);
}
/* exp of a number that is not above 0. Results that are not normal numbers become 0: negligible beside the largest, which is 1. */
INLINE float power_of_f32(float x) {
    const int under = x < -87;
    uint32_t n;
    const float e = exp_of_rest_f32(keep_f32(!under, x), 0, &n);
    return under ? 0 : e * power_f32(n);
}
INLINE double power_of_f64(double x) {
    const int under = x < -708;
    uint64_t n;
    const double e = exp_parts_f64(under ? 0 : x, 0, &n) + 1;
    return under ? 0 : e * power_f64(n);
}

/* ---------------------------------------------------------------- tanh; f64: -t / (2 + t), t = exp(-2 |x|) - 1 */

/* f32: x p(x^2) / q(x^2), and 1 where it is within half a unit in the last place of 1. */
INLINE float tanh_f32(float x) {
    const int one = fabsf(x) > 9.011f;
    const float a = keep_f32(!one, x), square = a * a, fourth = square * square;
    const float y = a * (ESTRIN_4(square, fourth, TANH_OVER_F32) / ESTRIN_4(square, fourth, TANH_UNDER_F32));
    return with_sign_f32(one | (fabsf(y) > 1) ? 1 : y, x);
}
INLINE double tanh_f64(double x) {
    const double a = fabs(x), y = a > 20 ? -40 : -2 * a;
    uint64_t n;
    const double e = exp_parts_f64(y, 0, &n), scale = power_f64(n), t = scale * e + (scale - 1);
    return with_sign_f64(-t / (2 + t), x);
}

/* ---------------------------------------------------------------- log: n log(2) + log(1 + f), 1 + f between sqrt(1/2) and sqrt(2) */

/* log(2^n (1 + f)) + c, c small. */
INLINE float log_parts_f32(float n, float f, float c) {
    const float s = f / (2 + f), z = s * s, half = f * f / 2, rest = s * (half + z * POLYNOMIAL(3, z, LOG_F32));
    return n * 6.9313812256e-01f - ((half - (rest + (n * 9.0580006145e-06f + c))) - f);
}
INLINE double log_parts_f64(double n, double f, double c) {
    const double s = f / (2 + f), z = s * s, half = f * f / 2, rest = s * (half + z * POLYNOMIAL(6, z, LOG_F64));
    return n * 6.93147180369123816490e-01 - ((half - (rest + (n * 1.90821492927058770002e-10 + c))) - f);
}
/* Splits a positive, normal x into n and f: x = 2^n (1 + f); returns f. */
INLINE float split_f32(float x, float *n) {
    const uint32_t bits = float_bits(x) + (0x3f800000 - 0x3f3504f3);
    *n = (float)((int32_t)(bits >> 23) - 127);
    return bits_float((bits & 0x007fffff) + 0x3f3504f3) - 1;
}
INLINE double split_f64(double x, double *n) {
    const uint64_t bits = bits_of_f64(x) + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
    *n = f64_of_bits((bits >> 52) | 0x4330000000000000) - (4503599627370496.0 + 1023); /* an integer below 2^52 as a double */
    return f64_of_bits((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - 1;
}

INLINE float log_f32(float x) {
    const int small = x < 1.17549435e-38f;
    float n;
    const float f = split_f32(small ? x * 33554432 : x, &n), y = log_parts_f32(small ? n - 25 : n, f, 0);
    return x > 0 ? (x <= 3.40282347e+38f ? y : x) : x == 0 ? -(float)INFINITY : (float)NAN;
}
INLINE double log_f64(double x) {
    const int small = x < 2.2250738585072014e-308;
    double n;
    const double f = split_f64(small ? x * 18014398509481984 : x, &n), y = log_parts_f64(small ? n - 54 : n, f, 0);
    return x > 0 ? (x <= 1.7976931348623157e+308 ? y : x) : x == 0 ? -(double)INFINITY : (double)NAN;
}
/* log(1 + x), from the rounded sum 1 + x and its rounding error. */
INLINE float log1p_f32(float x) {
    const float u = 1 + x, c = (x - (u - 1)) / u;
    float n;
    const float f = split_f32(u, &n), y = log_parts_f32(n, f, c);
    return x > -1 ? (x <= 3.40282347e+38f ? y : x) : x == -1 ? -(float)INFINITY : (float)NAN;
}
INLINE double log1p_f64(double x) {
    const double u = 1 + x, c = (x - (u - 1)) / u;
    double n;
    const double f = split_f64(u, &n), y = log_parts_f64(n, f, c);
    return x > -1 ? (x <= 1.7976931348623157e+308 ? y : x) : x == -1 ? -(double)INFINITY : (double)NAN;
}

/* ---------------------------------------------------------------- sin and cos: of r, x = n pi / 2 + r
 *
 * Up to NEAR_TURNS, r is x minus n times the parts of pi / 2 (Cody and Waite). Beyond, pi / 2 would need more parts than a loop has time for: the digits
 * of 2 / pi that matter are looked up instead. Which way an element takes depends only on that element. */

#define NEAR_TURNS 1e6                 /* n has 20 bits */
#define QUARTER_0 0x1.921fb54400000p+0 /* the first 33 bits of pi / 2, so that their product with n is exact; 33, 33, 53 more */
#define QUARTER_1 0x1.0b4611a600000p-34
#define QUARTER_2 0x1.3198a2e000000p-69
#define QUARTER_3 0x1.b839a252049c1p-104

/* The digits of 2 / pi, 24 bits each. */
static const double turn_digits[] = {
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163, 0xabdebb, 0xc561b7, 0x246e3a, 0x424dd2,
    0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5, 0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41, 0x3991d6, 0x398353,
    0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8, 0x97ffde, 0x05980f, 0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e,
    0x5fea2d, 0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08, 0x560330, 0x46fc7b, 0x6babf0, 0xcfbc20,
};

/* Adds the nearest integer to *count, modulo 2^32, and returns the rest. */
INLINE double take_whole(double x, uint64_t *count) {
    const double shifted = x + ROUND_F64;
    *count += bits_of_f64(shifted);
    return x - (shifted - ROUND_F64);
}

/* The first digit that matters for a number whose last bit is worth 2^exponent: products with earlier digits are multiples of 4. */
INLINE uint64_t first_digit(uint64_t biased, uint64_t bits) {
    const uint64_t exponent = biased - (1023 + bits + 2), positive = (exponent >> 63) - 1; /* all ones, or 0 */
    return (exponent & positive) * 2731 >> 16;                                             /* over 24 */
}
/* x 2 / pi minus the nearest integer n; *n has the last bits of n. x has 24 bits, so each product is exact. */
INLINE double quarters_f32(double x, uint64_t *n) {
    const uint64_t first = first_digit(bits_of_f64(x) >> 52 & 2047, 23);
    const double step = 0x1p-24, scaled = x * power_f64(0 - 24 * first - 24);
    uint64_t count = 0;
    const double a = take_whole(scaled * turn_digits[first + 0], &count), b = take_whole(scaled * step * turn_digits[first + 1], &count);
    const double c = take_whole(scaled * (step * step) * turn_digits[first + 2], &count),
                 d = scaled * (step * step * step) * turn_digits[first + 3];
    const double sum = (a + b + c) + ROUND_F64, left = ((a + b) - (sum - ROUND_F64)) + c;
    *n = count + bits_of_f64(sum);
    return left + d;
}

/* sin(n pi / 2 + r), in double */
INLINE double sin_of_rest_f32(double r, uint64_t n) {
    const double z = r * r;
    const double s = r + r * z * POLYNOMIAL(3, z, SIN_F32), c = 1 - z / 2 + z * z * POLYNOMIAL(3, z, COS_F32);
    const uint64_t cosine = 0 - (n & 1), bits = (bits_of_f64(c) & cosine) | (bits_of_f64(s) & ~cosine);
    return f64_of_bits(bits ^ (n & 2) << 62);
}
/* sin(more pi / 2 + x), |x| at most NEAR_TURNS */
INLINE double near_sin_f32(double x, uint64_t more) {
    const double shifted = x * 0.63661977236758134308 + ROUND_F64, n = shifted - ROUND_F64;
    return sin_of_rest_f32((x - n * QUARTER_0) - n * QUARTER_1, bits_of_f64(shifted) + more);
}
/* The same of any x. An x that is not finite gives nan (x - x). */
INLINE double far_sin_f32(double x, uint64_t more) {
    uint64_t n;
    const double turns = quarters_f32(x, &n);
    return sin_of_rest_f32(turns * 1.5707963267948966, n + more) + (x - x);
}
INLINE float sin_near_f32(float x) {
    return with_sign_f32((float)near_sin_f32(x, 0), x == 0 ? x : (float)near_sin_f32(x, 0));
}
INLINE float cos_near_f32(float x) {
    return (float)near_sin_f32(x, 1);
}
INLINE float sin_f32(float x) {
    const float far = (float)far_sin_f32(x, 0);
    return fabsf(x) <= (float)NEAR_TURNS ? sin_near_f32(x) : far;
}
INLINE float cos_f32(float x) {
    const float far = (float)far_sin_f32(x, 1);
    return fabsf(x) <= (float)NEAR_TURNS ? cos_near_f32(x) : far;
}

/* Adds x to *sum, and the rounding error to *lost (Knuth's two-sum). */
INLINE void add_exactly(double *sum, double *lost, double x) {
    const double total = *sum + x, part = total - *sum;
    *lost += (*sum - (total - part)) + (x - part);
    *sum = total;
}
/* x minus the nearest multiple of 4, for x that may be too large for take_whole. */
INLINE double modulo_4(double x) {
    return x - ((x + 4 * ROUND_F64) - 4 * ROUND_F64);
}
/* As quarters_f32, for 53 bits, split in 27 and 26: the result is *turns + *rest. */
INLINE void quarters_f64(double x, uint64_t *n, double *turns, double *rest) {
    const uint64_t biased = bits_of_f64(x) >> 52 & 2047, first = first_digit(biased, 52), fraction = 0 - ((biased - (1023 + 52)) >> 63);
    const double step = 0x1p-24, s0 = power_f64(0 - 24 * first - 24);
    const double high = f64_of_bits(bits_of_f64(x) & 0xfffffffffc000000), low = x - high;
    /* The largest product is a multiple of 4 where x is an integer. */
    const double h0 = f64_of_bits(bits_of_f64(high) & fraction) * s0 * turn_digits[first];
    double h = high * s0 * step, l = low * s0, sum, lost = 0;
    uint64_t count = 0;
    sum = take_whole(modulo_4(h0), &count);
    const double h1 = take_whole(modulo_4(h * turn_digits[first + 1]), &count), l1 = take_whole(modulo_4(l * turn_digits[first]), &count);
    h *= step, l *= step;
    const double h2 = take_whole(h * turn_digits[first + 2], &count), l2 = take_whole(l * turn_digits[first + 1], &count);
    add_exactly(&sum, &lost, h1);
    add_exactly(&sum, &lost, l1);
    add_exactly(&sum, &lost, h2);
    add_exactly(&sum, &lost, l2);
    sum = take_whole(sum, &count);
    h *= step, l *= step;
    add_exactly(&sum, &lost, take_whole(h * turn_digits[first + 3], &count));
    sum = take_whole(sum, &count);
    add_exactly(&sum, &lost, take_whole(l * turn_digits[first + 2], &count));
    sum = take_whole(sum, &count);
    h *= step, l *= step;
    add_exactly(&sum, &lost, h * turn_digits[first + 4]);
    add_exactly(&sum, &lost, l * turn_digits[first + 3]);
    h *= step, l *= step;
    add_exactly(&sum, &lost, h * turn_digits[first + 5]);
    add_exactly(&sum, &lost, l * turn_digits[first + 4]);
    h *= step, l *= step;
    add_exactly(&sum, &lost, h * turn_digits[first + 6]);
    add_exactly(&sum, &lost, l * turn_digits[first + 5]);
    h *= step, l *= step;
    add_exactly(&sum, &lost, h * turn_digits[first + 7]);
    add_exactly(&sum, &lost, l * turn_digits[first + 6]);
    *n = count;
    *turns = sum + lost;
    *rest = (sum - *turns) + lost;
}
/* sin(n pi / 2 + r + tail) */
INLINE double sin_of_rest_f64(double r, double tail, uint64_t n) {
    const double z = r * r, half = z / 2, near = 1 - half;
    const double s = r + (r * z * POLYNOMIAL(5, z, SIN_F64) + tail * near);
    const double c = near + (((1 - near) - half) + (z * z * POLYNOMIAL(5, z, COS_F64) - r * tail));
    const uint64_t cosine = 0 - (n & 1), bits = (bits_of_f64(c) & cosine) | (bits_of_f64(s) & ~cosine);
    return f64_of_bits(bits ^ (n & 2) << 62);
}
/* sin(more pi / 2 + x), |x| at most NEAR_TURNS. Where the first differences cancel they are exact, as n has fewer bits than cancel. */
INLINE double near_sin_f64(double x, uint64_t more) {
    const double shifted = x * 0.63661977236758134308 + ROUND_F64, n = shifted - ROUND_F64;
    double sum = x - n * QUARTER_0, lost = 0;
    add_exactly(&sum, &lost, -n * QUARTER_1);
    add_exactly(&sum, &lost, -n * QUARTER_2);
    const double rest = lost - n * QUARTER_3, r = sum + rest;
    return sin_of_rest_f64(r, (sum - r) + rest, bits_of_f64(shifted) + more);
}
/* The same of any x. */
INLINE double far_sin_f64(double x, uint64_t more) {
    uint64_t n;
    double turns, rest;
    quarters_f64(x, &n, &turns, &rest);
    const double high = f64_of_bits(bits_of_f64(turns) & 0xfffffffff8000000), low = turns - high, r = turns * 1.5707963267948966;
    /* pi / 2: 26 bits, the next 27, the next 53 */
    const double tail = ((high * 1.5707963109016418 - r) + high * 1.5893254712295857e-08 + low * 1.5707963109016418) +
                        low * 1.5893254712295857e-08 + (turns * 6.123233995736766e-17 + rest * 1.5707963267948966);
    return sin_of_rest_f64(r, tail, n + more) + (x - x);
}
INLINE double sin_near_f64(double x) {
    return fabs(x) < 0x1p-27 ? x : near_sin_f64(x, 0); /* x is its sine, a zero of either sign too */
}
INLINE double cos_near_f64(double x) {
    return near_sin_f64(x, 1);
}
INLINE double sin_f64(double x) {
    const double far = far_sin_f64(x, 0);
    return fabs(x) <= NEAR_TURNS ? sin_near_f64(x) : far;
}
INLINE double cos_f64(double x) {
    const double far = far_sin_f64(x, 1);
    return fabs(x) <= NEAR_TURNS ? cos_near_f64(x) : far;
}

/* ---------------------------------------------------------------- the normal distribution */

/* exp(-x^2 / 2), x at least 0 and at most 40 (f32: 15). The rounding error of the square would show in the tail, so a fused multiply-add takes the exact square. */
INLINE float bell_parts_f32(float x, uint32_t *n) {
    const float shifted = fma_f32(x * x, -0.72134752f, ROUND_F32), whole = shifted - ROUND_F32;
    const float rest = fma_f32(whole, -4.2438888e-4f, fma_f32(x, x, whole * 1.38671875f)); /* x^2 + 2 n log(2), as in exp */
    *n = float_bits(shifted);
    return fma_f32(ESTRIN_5(rest, rest * rest, BELL_F32), rest, 1);
}
/* |x| at most NEAR_BELL */
INLINE float bell_near_f32(float x) {
    uint32_t n;
    const float e = bell_parts_f32(x, &n);
    return bits_float(float_bits(e) + (n << 23));
}
INLINE float bell_f32(float x) {
    const int under = x > 14.42f; /* as in exp */
    uint32_t n;
    const float e = bell_parts_f32(keep_f32(!under, x), &n);
    return under ? 0 : e * power_f32(n + 64) * 0x1p-64f;
}
INLINE double bell_f64(double x) {
    const double high = f64_of_bits(bits_of_f64(x) & 0xfffffffff8000000), low = x - high, square = x * x;
    const double rest = ((high * high - square) + 2 * high * low) + low * low;
    const int under = square > 1492;
    uint64_t n;
    const double e = exp_parts_f64(under ? 0 : square / -2, rest / -2, &n) + 1;
    return under ? 0 : e * power_f64(n + 512) * 0x1p-512;
}
/* The normal distribution function at x, from the tail beyond |x|. f32: bell p(|x|) / q(|x|); f64: bell u p(u) with u = k / (k + |x|). */
INLINE float tail_f32(float x, float bell) {
    const float square = x * x;
    return bell * (ESTRIN_4(x, square, TAIL_OVER_F32) / ESTRIN_5(x, square, TAIL_UNDER_F32)); /* the division runs in parallel with bell */
}
INLINE float normal_near_f32(float x) {
    const float a = fabsf(x), tail = tail_f32(a, bell_near_f32(a));
    return x > 0 ? 1 - tail : tail;
}
INLINE float normal_f32(float x) {
    const float a = fabsf(x) > 15 ? 15 : fabsf(x), tail = tail_f32(a, bell_f32(a));
    return x > 0 ? 1 - tail : tail;
}
INLINE double normal_f64(double x) {
    const double a = fabs(x) > 40 ? 40 : fabs(x), u = 4.25 / (4.25 + a), tail = bell_f64(a) * (u * POLYNOMIAL(21, u, TAIL_F64));
    return x > 0 ? 1 - tail : tail;
}
/* x times that; for a positive x, x minus |x| times the tail. |x| at most NEAR_GELU. The rounding error of the square stays: in the tail the error is larger than
 * that of `normal`, and orders of magnitude smaller than what PyTorch's difference from 1 loses there. */
INLINE float gelu_near_f32(float x) {
    const float a = fabsf(x), square = x * x, shifted = fma_f32(square, -0.72134752f, ROUND_F32), whole = shifted - ROUND_F32;
    const float rest = fma_f32(whole, 1.38629436f, square); /* x^2 + 2 n log(2) */
    const float e = fma_f32(ESTRIN_5(rest, rest * rest, BELL_F32), rest, 1);
    const float bell = bits_float(float_bits(e) + (float_bits(shifted) << 23));
    return fma_f32(-(a * bell), ESTRIN_3(a, square, GELU_OVER_F32) / ESTRIN_4(a, square, GELU_UNDER_F32), x > 0 ? x : 0);
}
INLINE float gelu_f32(float x) {
    const int near = fabsf(x) <= NEAR_GELU;
    const float y = gelu_near_f32(keep_f32(near, x)), far = x * normal_f32(x);
    return near ? y : far;
}
INLINE double gelu_f64(double x) {
    return x * normal_f64(x);
}
/* The density of the normal distribution at x. */
INLINE float density_f32(float x) {
    return bell_f32(fabsf(x) > 15 ? 15 : fabsf(x)) * 0.39894228040143267794f;
}
INLINE float density_near_f32(float x) {
    return bell_near_f32(fabsf(x)) * 0.39894228040143267794f;
}
INLINE double density_f64(double x) {
    return bell_f64(fabs(x) > 40 ? 40 : fabs(x)) * 0.39894228040143267794;
}

/* ---------------------------------------------------------------- pow: exp(y log(x)), the logarithm and the product in two numbers */

/* exp(x + c), c small; 0 and infinity beyond f64. */
INLINE double exp_sum_f64(double x, double c) {
    const int under = x<-746, over = x> 710;
    uint64_t n;
    const double e = exp_parts_f64(under | over ? 0 : x, under | over ? 0 : c, &n) + 1;
    const uint64_t half = ((n + 2048) >> 1 & 2047) - 1024, rest = n - half;
    return under ? 0 : over ? INFINITY : e * power_f64(half) * power_f64(rest);
}
/* The product of two numbers: its rounded value, and the rounding error (Dekker 1971). */
INLINE double product_parts(double a, double b, double *rest) {
    const double a_high = f64_of_bits(bits_of_f64(a) & 0xfffffffff8000000), a_low = a - a_high;
    const double b_high = f64_of_bits(bits_of_f64(b) & 0xfffffffff8000000), b_low = b - b_high, product = a * b;
    *rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return product;
}
/* x^y of a positive, finite x. With f = m - 1 and s = f / (2 + f), log(m) is 2 s + s^3 p(s^2). Only the first term needs more digits than f64 has. */
static inline double pow_positive_f64(double x, double y) {
    const int small = x < 2.2250738585072014e-308;
    double power, rest, tail;
    const double f = split_f64(small ? x * 18014398509481984 : x, &power), n = small ? power - 54 : power;
    const double below = 2 + f, lost = f - (below - 2), s = f / below, back = product_parts(s, below, &rest);
    const double s_low = ((f - back) - rest - s * lost) / below, z = s * s, more = s * (z * POLYNOMIAL(6, z, LOG_F64));
    /* n log(2) in two parts, the first exact; larger than 2 s where it is not 0 */
    const double whole = n * 6.93147180369123816490e-01, high = whole + 2 * s, high_lost = (whole - high) + 2 * s;
    const double low = high_lost + (2 * s_low + (more + n * 1.90821492927058770002e-10));
    const double log_high = high + low, log_low = (high - log_high) + low;
    const double to = y > 1e300 ? 1e300 : y < -1e300 ? -1e300 : y, raised = product_parts(log_high, to, &tail);
    const int far = !(fabs(raised) < 1e3); /* the parts of a large product may overflow */
    return exp_sum_f64(raised, far ? 0 : tail + log_low * to);
}
/* In f64, which has digits to spare. Results beyond f32's range overflow or underflow when rounded to f32. */
static inline float pow_positive_f32(float x, float y) {
    double n;
    uint64_t power;
    const double f = split_f64(x, &n), raised = y * log_parts_f64(n, f, 0), to = raised < -200 ? -200 : raised > 200 ? 200 : raised;
    const double e = exp_parts_f64(to, 0, &power) + 1;
    return (float)(e * power_f64(power));
}
/* As IEEE's pow: a negative x has powers with integers; x^0 and 1^y are 1, of a nan too. */
#define POW_OF_ALL(suffix, T, ABSOLUTE, MOST)                                                                                              \
    static inline T pow_##suffix(T x, T y) {                                                                                               \
        const T a = ABSOLUTE(x), whole = floor_##suffix(y);                                                                                \
        const int integer = whole == y, odd = integer & (floor_##suffix(y / 2) * 2 != y), up = y > 0;                                      \
        const T finite = pow_positive_##suffix(a > 0 && a <= MOST ? a : 1, y);                                                             \
        const T size = a > 0 ? (a <= MOST ? finite : up ? (T)INFINITY : 0) : up ? 0 : (T)INFINITY;                                         \
        const T minus_one = a == 1 ? 1 : size; /* 1 for an infinite y too */                                                               \
        const T real = x < 0 && !integer && a <= MOST ? (T)NAN : minus_one;                                                                \
        const T signed_one = odd ? with_sign_##suffix(real, x) : real;                                                                     \
        return (y == 0) | (x == 1) ? 1 : x != x || y != y ? x + y : signed_one;                                                            \
    }
POW_OF_ALL(f32, float, fabsf, 3.40282347e+38f)
POW_OF_ALL(f64, double, fabs, 1.7976931348623157e+308)

/* ---------------------------------------------------------------- near 0: functions with only one way */

#define log_near_f32 log_f32
#define log1p_near_f32 log1p_f32
#define sqrt_near_f32 sqrt_f32
#define pow_near_f32 pow_f32
#define floor_near_f32 floor_f32
#define exp_near_f64 exp_f64
#define log_near_f64 log_f64
#define log1p_near_f64 log1p_f64
#define tanh_near_f64 tanh_f64
#define tanh_near_f32 tanh_f32
#define sqrt_near_f64 sqrt_f64
#define pow_near_f64 pow_f64
#define floor_near_f64 floor_f64
#define normal_near_f64 normal_f64
#define gelu_near_f64 gelu_f64
#define density_near_f64 density_f64
