/* The functions that loops are made of, against libm in a wider type: all kinds of numbers, in units of the last place. And every variant
 * of every loop: the same digits, wherever an element stands in its vector. */
#include "runtime/cpu/functions.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/vector.h"
#include "runtime/element.h"
#include "tests/random.h"

static const double ends[] = {0,      1,      -1,     0.5,  -0.5,  1e-3,  -1e-3, 1e-8,   1e-30, 3e-39,  1.4e-45, 1e-310,    5e-324,
                              10,     -10,    20,     -20,  87,    -87.5, 88.7,  89.5,   -103,  -104.5, 700,     709.7,     710.5,
                              -745,   -746,   1e5,    -1e5, 1e9,   -1e9,  1e20,  3.4e38, -3e38, 1e300,  -1e300,  0.7071068, 1.41421,
                              1.4143, 0.3466, 0.3465, 15,   -14.2, -38.4, -40,   1.57,   3.14,  -12.7};
enum { NENDS = sizeof ends / sizeof *ends, DENSE = 400000 };

/* Number i of a sample: the ends of ranges, zeros, infinities, nan; any bits; numbers between -2^k and 2^k with k from -3 to 8. */
static double sample(int i, bool single, uint64_t *random) {
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    if (i < 5) return special[i];
    if (i < 5 + NENDS) return ends[i - 5];
    const uint64_t bits = random_next(random);
    if (i % 4 == 0) return single ? (double)bits_float((uint32_t)bits) : f64_of_bits(bits);
    return ldexp((double)(int64_t)bits, -63 + i % 12 - 3);
}

/* How far a result is from the right one, in units of the last place of a type with so many bits, whose smallest number is 2^least. */
static double distance(double result, long double right, int bits, int least) {
    const double rounded = bits == 24 ? (double)(float)right : (double)right;
    if (isnan(right) || isnan(result)) return isnan(right) && isnan(result) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(result)) return result == rounded ? 0 : INFINITY;
    if (right == 0) return result == 0 ? 0 : INFINITY;
    int exponent;
    frexpl(right, &exponent);
    exponent = exponent - bits < least ? least : exponent - bits;
    return (double)(fabsl((long double)result - right) / ldexpl(1, exponent));
}

static long double normall(long double x) {
    return erfcl(-x * 0.707106781186547524400844362104849039L) / 2;
}
static long double densityl(long double x) {
    return expl(-x * x / 2) * 0.398942280401432677939946059934381868L;
}

typedef struct Function {
    const char *name;
    float (*single)(float x);
    double (*wide)(double x);
    long double (*right)(long double x);
    double most; /* units in the last place */
} Function;

/* libm's of long double are not right far from 0, and those of double are within one unit of f64, and far below f32's. */
static long double sine(long double x) {
    return sin((double)x);
}
static long double cosine(long double x) {
    return cos((double)x);
}

static const Function functions[] = {
    {"exp", exp_f32, exp_f64, expl, 1},
    {"log", log_f32, log_f64, logl, 1},
    {"log1p", log1p_f32, log1p_f64, log1pl, 1},
    {"tanh", tanh_f32, tanh_f64, tanhl, 5},
    {"normal", normal_f32, normal_f64, normall, 8},
    {"density", density_f32, density_f64, densityl, 4},
    {"sin", sin_f32, sin_f64, sine, 1.5},
    {"cos", cos_f32, cos_f64, cosine, 1.5},
};

Test(functions, are_within_their_error) {
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const Function *function = &functions[f];
        uint64_t random = 1;
        for (int i = 0; i < DENSE; i++) {
            const float x = (float)sample(i, true, &random), y = function->single(x);
            const double far = distance(y, function->right(x), 24, -149);
            cr_assert_leq(far, function->most, "f32 %s(%.9g) is %.9g, %g units off", function->name, (double)x, (double)y, far);
        }
        for (int i = 0; i < DENSE; i++) {
            const double x = sample(i, false, &random), y = function->wide(x), far = distance(y, function->right(x), 53, -1074);
            cr_assert_leq(far, function->most, "f64 %s(%.17g) is %.17g, %g units off", function->name, x, y, far);
        }
    }
    uint64_t random = 2;
    for (int i = 0; i < DENSE; i++) {
        const float x = (float)sample(i, true, &random), y = gelu_f32(x);
        const double far = distance(y, (long double)x * normall(x), 24, -149), most = x > -2 ? 8 : 24;
        cr_assert_leq(far, most, "gelu(%.9g) is %.9g, %g units off", (double)x, (double)y, far);
    }
    cr_assert(signbit(tanh_f32(-0.0f)) && signbit(tanh_f64(-0.0)), "the sign of a zero");
}

/* Where an element stands beside far ones and where it does not, it is computed by other loops: to the same digits. */
Test(functions, near_ones_give_the_digits_of_those_of_all_numbers) {
    const struct {
        const char *name;
        float (*near)(float x), (*all)(float x);
        float limit;
    } pairs[] = {
        {"exp", exp_near_f32, exp_f32, NEAR_EXP},
        {"normal", normal_near_f32, normal_f32, NEAR_BELL},
        {"density", density_near_f32, density_f32, NEAR_BELL},
        {"gelu", gelu_near_f32, gelu_f32, NEAR_GELU},
    };
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (uint32_t bits = 0; bits <= float_bits(pairs[p].limit); bits += bits % 4096 ? 4095 : 1)
            for (int sign = 0; sign < 2; sign++) {
                const float x = bits_float(sign ? bits | 0x80000000 : bits);
                cr_assert_eq(float_bits(pairs[p].near(x)), float_bits(pairs[p].all(x)), "%s(%.9g)", pairs[p].name, (double)x);
            }
    cr_assert_eq(float_bits(exp_near_f32(NEAR_EXP)), float_bits(exp_f32(NEAR_EXP)));
    cr_assert_eq(float_bits(exp_near_f32(-NEAR_EXP)), float_bits(exp_f32(-NEAR_EXP)));
    cr_assert_eq(float_bits(normal_near_f32(-NEAR_BELL)), float_bits(normal_f32(-NEAR_BELL)));
}

static void check_fused(float a, float b, float c) {
    const float right = fmaf(a, b, c), got = fused_by_f64(a, b, c);
    cr_assert(isnan(right) ? isnan(got) : float_bits(right) == float_bits(got), "%a * %a + %a is %a, not %a", (double)a, (double)b,
              (double)c, (double)right, (double)got);
}

/* Of any numbers, and of sums that are halfway between two floats but for what f64 loses of them: by their last bits, and where floats are as small as can be. */
Test(functions, fused_operations_are_rounded_once) {
    uint64_t random = 7;
    for (int i = 0; i < DENSE; i++) {
        const uint64_t bits = random_next(&random);
        const float sign = bits & 1 ? 1 : -1;
        check_fused((float)sample(i, true, &random), (float)sample(3 * i, true, &random), (float)sample(7 * i, true, &random));
        check_fused((float)(4097 + 2 * (bits >> 1 & 511)), (float)(4097 + 2 * (bits >> 10 & 511)),
                    ldexpf(sign, (int)(bits >> 24 & 31) - 60));
        check_fused((1 + 0x1p-23f) * 0x1p-75f, (1 - 0x1p-23f) * 0x1p-75f, sign * bits_float(1 << 21 | (uint32_t)(bits >> 40 & 1023)));
    }
}

/* libm's pow of long double has more digits than f64. */
Test(functions, powers_are_within_their_error) {
    uint64_t random = 5;
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e300, -1e300, 5e-324, 1e17};
    enum { NSPECIAL = sizeof special / sizeof *special };
    for (int i = 0; i < DENSE + NSPECIAL * NSPECIAL; i++) {
        const bool ends = i < NSPECIAL * NSPECIAL;
        const double a = ends ? special[i / NSPECIAL] : sample(i, false, &random),
                     b = ends ? special[i % NSPECIAL] : sample(3 * i + 1, false, &random);
        const double y = pow_f64(a, b), far = distance(y, powl(a, b), 53, -1074);
        cr_assert_leq(far, 8, "pow(%.17g, %.17g) is %.17g, %g units off", a, b, y, far);
        const float single = pow_f32((float)a, (float)b);
        const double off = distance(single, powl((float)a, (float)b), 24, -149);
        cr_assert_leq(off, 1, "pow(%.9g, %.9g) is %.9g, %g units off", (double)(float)a, (double)(float)b, (double)single, off);
        cr_assert(isnan(y) || signbit(y) == signbit(pow(a, b)), "the sign of pow(%.17g, %.17g)", a, b);
    }
}

Test(functions, floors_are_exact) {
    uint64_t random = 6;
    for (int i = 0; i < DENSE; i++) {
        const double x = sample(i, false, &random), right = floor(x);
        const float single = (float)x;
        cr_assert(floor_f64(x) == right || isnan(x), "floor(%.17g) is %.17g", x, floor_f64(x));
        cr_assert(floor_f32(single) == floorf(single) || isnan(x), "floor(%.9g) is %.9g", (double)single, (double)floor_f32(single));
    }
    cr_assert(signbit(floor_f32(-0.0f)) && signbit(floor_f64(-0.0)), "the sign of a zero");
}

/* Arguments whose rest is small, on both sides of where the reduction changes. */
Test(functions, sin_and_cos_keep_their_digits_near_multiples_of_a_quarter) {
    for (int64_t n = 1; n < 700000; n += n < 1000 ? 1 : 97) {
        const double around = (double)n * 1.5707963267948966;
        const double xs[] = {around, -around, nextafter(around, 0), nextafter(around, INFINITY), (double)(float)around, around + 0.785};
        for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) {
            const float single = (float)xs[i];
            cr_assert_leq(distance(sin_f64(xs[i]), sine(xs[i]), 53, -1074), 1.5, "sin(%.17g)", xs[i]);
            cr_assert_leq(distance(cos_f64(xs[i]), cosine(xs[i]), 53, -1074), 1.5, "cos(%.17g)", xs[i]);
            cr_assert_leq(distance(sin_f32(single), sine(single), 24, -149), 1, "sin(%.9g)", (double)single);
            cr_assert_leq(distance(cos_f32(single), cosine(single), 24, -149), 1, "cos(%.9g)", (double)single);
        }
    }
    cr_assert(signbit(sin_f32(-0.0f)) && signbit(sin_f64(-0.0)), "the sign of a zero");
}

/* ---------------------------------------------------------------- variants */

enum { N = 211 }; /* elements: whole vectors, and what remains of one */

static bool same(const unsigned char *a, const unsigned char *b, DType dtype) {
    if (dtype_is_float(dtype) && isnan(element_at(a, dtype, 0))) return isnan(element_at(b, dtype, 0));
    return memcmp(a, b, (size_t)dtype_bytes[dtype]) == 0;
}

static double bounded(double x, bool near) {
    return !near || fabs(x) <= NEAR_BELL ? x : 0.75;
}

/* One loop of a variant on n elements from `first` on, against that of the first variant on one element at a time. near: none is so far
 * from 0 that all of its block would be computed otherwise. */
static void check_elements(const VectorLoops *variant, OpCode op, const Attr *attr, DType in, DType out, int first, bool near,
                           uint64_t *random) {
    static _Alignas(64) unsigned char operand[3][N * 8], result[N * 8], alone[8];
    ElementLoop *loop = variant->element(op, attr, in, out), *plain = vector_variant(0)->element(op, attr, in, out);
    const int64_t size[3] = {op == OP_where ? 1 : dtype_bytes[in], dtype_bytes[in], dtype_bytes[in]}, to = dtype_bytes[out];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N; i++) {
            if (size[k] == 1)
                operand[k][i] = random_next(random) & 1;
            else if (in == F32)
                ((float *)(void *)operand[k])[i] = (float)bounded(sample(i * (1 + k), true, random), near);
            else if (in == F64)
                ((double *)(void *)operand[k])[i] = bounded(sample(i * (1 + k), false, random), near);
            else
                memcpy(operand[k] + i * size[k], &(uint64_t){random_next(random)}, (size_t)size[k]);
        }
    for (int shared = 0; shared < 8; shared++) {
        const int64_t stride[3] = {!(shared & 1), !(shared & 2), !(shared & 4)};
        const void *at[3];
        if (op == OP_clip && stride[1]) continue; /* its norm is one number */
        for (int k = 0; k < 3; k++)
            at[k] = operand[k] + (stride[k] ? first : 0) * size[k];
        loop(result + first * to, at, stride, attr, N - first);
        for (int i = first; i < N; i++) {
            const void *one[3];
            for (int k = 0; k < 3; k++)
                one[k] = operand[k] + (stride[k] ? i : 0) * size[k];
            plain(alone, one, (const int64_t[]){1, 1, 1}, attr, 1);
            cr_assert(same(result + i * to, alone, out), "%s of %s: element %d differs, strides %d %d %d", op_table[op].name,
                      dtype_name[in], i, (int)stride[0], (int)stride[1], (int)stride[2]);
        }
    }
}

Test(functions, loops_of_all_variants_give_the_same_digits) {
    int nloops = 0;
    uint64_t random = 2;
    for (int v = 0; v < vector_variants(); v++)
        for (int op = 0; op < NOPS; op++)
            for (int in = 0; in < NDTYPES; in++)
                for (int out = 0; out < NDTYPES; out++)
                    for (int with = 0; with < 4; with++) {
                        Attr attr[MAX_ATTRS] = {{.given = with & 1, .i = with & 1, .f = 0.75}, {.given = with & 1, .f = 3}};
                        const bool fits = op == OP_cast || op_type((OpCode)op, true, 0) == 'b' ? op == OP_cast || out == BOOL
                                                                                               : out == in; /* compress is cast */
                        if (!fits || !vector_variant(v)->element((OpCode)op, attr, (DType)in, (DType)out)) continue;
                        check_elements(vector_variant(v), (OpCode)op, attr, (DType)in, (DType)out, v + with, with > 1, &random);
                        nloops += v == 0;
                    }
    cr_log_info("%d loops of %d variants", nloops, vector_variants());
    cr_assert_gt(nloops, 300);
}

/* One number far from 0 among near ones, and what is no number. */
Test(functions, loops_of_numbers_far_from_0_are_those_of_all_numbers) {
    const Attr attr[MAX_ATTRS] = {{0}};
    for (int v = 0; v < vector_variants(); v++)
        for (int i = 0; i < NENDS + 3; i++) {
            const float x = (float)(i < NENDS ? ends[i] : (const double[]){INFINITY, -INFINITY, NAN}[i - NENDS]);
            float row[N], exps[N], gelus[N];
            for (int j = 0; j < N; j++)
                row[j] = 0.5f;
            row[4 * i] = x;
            vector_variant(v)->element(OP_exp, attr, F32, F32)(exps, (const void *const[]){row}, (const int64_t[]){1}, attr, N);
            vector_variant(v)->element(OP_gelu, attr, F32, F32)(gelus, (const void *const[]){row}, (const int64_t[]){1}, attr, N);
            vector_variant(v)->element(OP_gelu, attr, F32, F32)(row, (const void *const[]){row}, (const int64_t[]){1}, attr, N);
            cr_assert_eq(memcmp(row, gelus, sizeof row), 0, "in place, beside %.9g", (double)x);
            const float right[2] = {exp_f32(x), gelu_f32(x)};
            cr_assert(same((unsigned char *)&exps[4 * i], (const unsigned char *)&right[0], F32), "exp(%.9g)", (double)x);
            cr_assert(same((unsigned char *)&gelus[4 * i], (const unsigned char *)&right[1], F32), "gelu(%.9g)", (double)x);
        }
}

static void check_rows(const VectorLoops *variant, OpCode op, DType dtype, bool contiguous, int64_t n, uint64_t *random) {
    enum { WIDTH = 13 };
    static unsigned char x[N * WIDTH * 8], dy[N * WIDTH * 8], result[2][N * WIDTH * 8];
    const int64_t width = WIDTH;
    for (int64_t i = 0; i < n * width; i++) {
        element_put(x, dtype, i, sample(1000 + 4 * (int)i + 1, true, random));
        element_put(dy, dtype, i, sample(1000 + 4 * (int)i + 1, true, random));
    }
    const int64_t bytes = n * dtype_bytes[dtype], inner = contiguous ? 1 : width;
    variant->row(op, dtype, contiguous)(x, dy, result[0], n, inner, width);
    if (!contiguous) vector_variant(0)->row(op, dtype, false)(x, dy, result[1], n, inner, width);
    for (int64_t row = 0; row < width && contiguous; row++) /* one by one */
        vector_variant(0)->row(op, dtype, true)(x + row * bytes, dy + row * bytes, result[1] + row * bytes, n, 1, 1);
    for (int64_t i = 0; i < n * width; i++)
        cr_assert(same(result[0] + i * dtype_bytes[dtype], result[1] + i * dtype_bytes[dtype], dtype), "%s of %s: element %d of %d differs",
                  op_table[op].name, dtype_name[dtype], (int)i, (int)n);
}

Test(functions, rows_of_all_variants_give_the_same_digits) {
    const OpCode ops[] = {OP_softmax, OP_log_softmax, OP_softmax_grad, OP_log_softmax_grad};
    uint64_t random = 3;
    for (int v = 0; v < vector_variants(); v++)
        for (int o = 0; o < 4; o++)
            for (int64_t n = 1; n < N; n += n < 20 ? 1 : 7)
                for (int kind = 0; kind < 4; kind++)
                    check_rows(vector_variant(v), ops[o], kind & 1 ? F64 : F32, kind & 2, n, &random);
}

Test(functions, sums_of_all_variants_give_the_same_digits) {
    enum { ROWS = 7, COLUMNS = 2500 };
    char *x = malloc(ROWS * COLUMNS * sizeof(double));
    uint64_t random = 4;
    for (int dtype = F32; dtype <= I64; dtype++) {
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            element_put(x, (DType)dtype, i, (double)(int64_t)(random_next(&random) >> 12) / (dtype_is_float((DType)dtype) ? 1e9 : 4e6));
        for (int v = 1; v < vector_variants(); v++)
            for (int64_t n = 1; n <= COLUMNS; n = n * 5 / 4 + 1) {
                double sums[2][COLUMNS] = {0};
                for (int k = 0; k < 2; k++)
                    vector_variant(k ? v : 0)->sum((DType)dtype).rows(sums[k], x, 1, COLUMNS, ROWS, n);
                cr_assert_arr_eq(sums[0], sums[1], sizeof *sums, "columns of %s", dtype_name[dtype]);
                for (int k = 0; k < 2; k++)
                    vector_variant(k ? v : 0)->sum((DType)dtype).run(sums[k], x, 1 + n % 2, n);
                cr_assert_arr_eq(sums[0], sums[1], sizeof *sums, "%lld elements of %s", (long long)n, dtype_name[dtype]);
            }
    }
    free(x);
}
