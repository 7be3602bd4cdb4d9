/* elementwise: operators whose result has one element for each of its operands', broadcast. Results may lie in operand 0's storage: the
 * loops carry nothing from one element to the next, which `omp simd` tells the compiler. */
#include <math.h>

#include "runtime/cpu/cpu.h"

/* Integers wrap, as docs/language.md says: computed without sign, where C defines it. */
#define I32_OF(operation, x, y) (int32_t)((uint32_t)(x)operation(uint32_t)(y))
#define I64_OF(operation, x, y) (int64_t)((uint64_t)(x)operation(uint64_t)(y))

/* ---------------------------------------------------------------- one operand */

typedef void UnaryLoop(void *out, const void *x, int64_t n);

#define UNARY(name, suffix, T, expression)                                                                                                 \
    static void name##_##suffix(void *out_, const void *x_, int64_t n) {                                                                   \
        T *out = out_;                                                                                                                     \
        const T *in = x_;                                                                                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                                              \
            T x = in[i];                                                                                                                   \
            out[i] = expression;                                                                                                           \
        }                                                                                                                                  \
    }

UNARY(neg, f32, float, -x)
UNARY(neg, f64, double, -x)
UNARY(neg, i32, int32_t, I32_OF(-, 0, x))
UNARY(neg, i64, int64_t, I64_OF(-, 0, x))
UNARY(relu, f32, float, x < 0 ? 0 : x) /* keeps nan */
UNARY(relu, f64, double, x < 0 ? 0 : x)
UNARY(tanh, f32, float, tanhf(x))
UNARY(tanh, f64, double, tanh(x))
UNARY(exp, f32, float, expf(x))
UNARY(exp, f64, double, exp(x))
UNARY(log, f32, float, logf(x))
UNARY(log, f64, double, log(x))
UNARY(sqrt, f32, float, sqrtf(x))
UNARY(sqrt, f64, double, sqrt(x))
UNARY(sigmoid, f32, float, 1 / (1 + expf(-x))) /* exp may overflow: the result is 0 then, as it should */
UNARY(sigmoid, f64, double, 1 / (1 + exp(-x)))
UNARY(silu, f32, float, x / (1 + expf(-x)))
UNARY(silu, f64, double, x / (1 + exp(-x)))
UNARY(rsqrt, f32, float, 1 / sqrtf(x))
UNARY(rsqrt, f64, double, 1 / sqrt(x))
/* The share of the normal distribution below x is erfc(-x / sqrt(2)) / 2, which keeps its digits where it is small. */
#define HALF_SQRT 0.70710678118654752440  /* sqrt(1 / 2) */
#define DENSITY 0.39894228040143267794    /* 1 / sqrt(2 pi) */
#define GELU_SCALE 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_CUBE 0.044715
UNARY(gelu, f32, float, x / 2 * erfcf(-x * (float)HALF_SQRT))
UNARY(gelu, f64, double, x / 2 * erfc(-x * HALF_SQRT))
UNARY(gelu_tanh, f32, float, x / 2 * (1 + tanhf((float)GELU_SCALE * (x + (float)GELU_CUBE * x * x * x))))
UNARY(gelu_tanh, f64, double, x / 2 * (1 + tanh(GELU_SCALE * (x + GELU_CUBE * x * x * x))))
UNARY(abs, f32, float, fabsf(x))
UNARY(abs, f64, double, fabs(x))
UNARY(abs, i32, int32_t, x < 0 ? (int32_t)(0 - (uint32_t)x) : x)
UNARY(abs, i64, int64_t, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
UNARY(sin, f32, float, sinf(x))
UNARY(sin, f64, double, sin(x))
UNARY(cos, f32, float, cosf(x))
UNARY(cos, f64, double, cos(x))
UNARY(softplus, f32, float, (x > 0 ? x : 0) + log1pf(expf(-fabsf(x))))
UNARY(softplus, f64, double, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))
UNARY(square, f32, float, x *x)
UNARY(square, f64, double, x *x)
UNARY(square, i32, int32_t, I32_OF(*, x, x))
UNARY(square, i64, int64_t, I64_OF(*, x, x))

typedef struct UnaryRun {
    UnaryLoop *loop;
    char *out;
    const char *x;
    int item_bytes;
} UnaryRun;

static void unary_part(void *context, int64_t begin, int64_t end) {
    const UnaryRun *run = context;
    run->loop(run->out + begin * run->item_bytes, run->x + begin * run->item_bytes, end - begin);
}

static bool unary(const KernelCall *call, UnaryLoop *const loops[NDTYPES], int cost, Error *error) {
    const Operand *out = &call->out[0];
    if (!loops[out->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[out->dtype]);
    UnaryRun run = {loops[out->dtype], out->data, call->in[0].data, dtype_bytes[out->dtype]};
    pool_run(call_pool(call), shape_elements(&out->local), GRAIN / cost, unary_part, &run);
    return true;
}

/* cost: time of an element, in those of an addition. */
#define UNARY_KERNEL(name, i32_loop, i64_loop, cost)                                                                                        \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return unary(call, (UnaryLoop *const[NDTYPES]){name##_f32, name##_f64, i32_loop, i64_loop}, cost, error);                                    \
    }
UNARY_KERNEL(neg, neg_i32, neg_i64, 1)
UNARY_KERNEL(relu, NULL, NULL, 1)
UNARY_KERNEL(tanh, NULL, NULL, 16)
UNARY_KERNEL(exp, NULL, NULL, 8)
UNARY_KERNEL(log, NULL, NULL, 8)
UNARY_KERNEL(sqrt, NULL, NULL, 2)
UNARY_KERNEL(sigmoid, NULL, NULL, 10)
UNARY_KERNEL(square, square_i32, square_i64, 1)
UNARY_KERNEL(silu, NULL, NULL, 10)
UNARY_KERNEL(rsqrt, NULL, NULL, 3)
UNARY_KERNEL(abs, abs_i32, abs_i64, 1)
UNARY_KERNEL(sin, NULL, NULL, 10)
UNARY_KERNEL(cos, NULL, NULL, 10)
UNARY_KERNEL(softplus, NULL, NULL, 20)

bool kernel_gelu(const KernelCall *call, Error *error) {
    static UnaryLoop *const loops[2][NDTYPES] = {{gelu_f32, gelu_f64, NULL}, {gelu_tanh_f32, gelu_tanh_f64, NULL}};
    return unary(call, loops[call->attr[0].i != 0], 16, error);
}

/* ---------------------------------------------------------------- two operands */

/* n elements; strides of a and b are 0 or 1 in almost all cases, which have loops of their own. */
typedef void BinaryLoop(void *out, int64_t out_stride, const void *a, int64_t a_stride, const void *b, int64_t b_stride, int64_t n);

#define BINARY(name, suffix, T, expression)                                                                                                \
    static void name##_##suffix(void *out_, int64_t out_stride, const void *a_, int64_t a_stride, const void *b_, int64_t b_stride,        \
                                int64_t n) {                                                                                               \
        T *out = out_;                                                                                                                     \
        const T *a = a_, *b = b_;                                                                                                          \
        if (out_stride == 1 && a_stride == 1 && b_stride == 1) {                                                                           \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                                          \
                T x = a[i], y = b[i];                                                                                                      \
                out[i] = expression;                                                                                                       \
            }                                                                                                                              \
        } else if (out_stride == 1 && a_stride == 1 && b_stride == 0) {                                                                    \
            const T y = *b;                                                                                                                \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                                          \
                T x = a[i];                                                                                                                \
                out[i] = expression;                                                                                                       \
            }                                                                                                                              \
        } else if (out_stride == 1 && a_stride == 0 && b_stride == 1) {                                                                    \
            const T x = *a;                                                                                                                \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                                          \
                T y = b[i];                                                                                                                \
                out[i] = expression;                                                                                                       \
            }                                                                                                                              \
        } else {                                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                                              \
                T x = a[i * a_stride], y = b[i * b_stride];                                                                                \
                out[i * out_stride] = expression;                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

BINARY(add, f32, float, x + y)
BINARY(add, f64, double, x + y)
BINARY(add, i32, int32_t, I32_OF(+, x, y))
BINARY(add, i64, int64_t, I64_OF(+, x, y))
BINARY(sub, f32, float, x - y)
BINARY(sub, f64, double, x - y)
BINARY(sub, i32, int32_t, I32_OF(-, x, y))
BINARY(sub, i64, int64_t, I64_OF(-, x, y))
BINARY(mul, f32, float, x *y)
BINARY(mul, f64, double, x *y)
BINARY(mul, i32, int32_t, I32_OF(*, x, y))
BINARY(mul, i64, int64_t, I64_OF(*, x, y))
BINARY(div, f32, float, x / y)
BINARY(div, f64, double, x / y)
/* x is the forward result, y its gradient. */
BINARY(relu_grad, f32, float, x > 0 ? y : 0)
BINARY(relu_grad, f64, double, x > 0 ? y : 0)
BINARY(tanh_grad, f32, float, y *(1 - x * x))
BINARY(tanh_grad, f64, double, y *(1 - x * x))
BINARY(sqrt_grad, f32, float, y / (2 * x))
BINARY(sqrt_grad, f64, double, y / (2 * x))
BINARY(sigmoid_grad, f32, float, y *x *(1 - x))
BINARY(sigmoid_grad, f64, double, y *x *(1 - x))
BINARY(rsqrt_grad, f32, float, -y / 2 * x * x * x)
BINARY(rsqrt_grad, f64, double, -y / 2 * x * x * x)
/* x is the forward operand. */
static inline float silu_slope_f32(float x) {
    float s = 1 / (1 + expf(-x));
    return s * (1 + x * (1 - s));
}
static inline double silu_slope_f64(double x) {
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}
static inline float gelu_slope_f32(float x) {
    return erfcf(-x * (float)HALF_SQRT) / 2 + x * (float)DENSITY * expf(-x * x / 2);
}
static inline double gelu_slope_f64(double x) {
    return erfc(-x * HALF_SQRT) / 2 + x * DENSITY * exp(-x * x / 2);
}
static inline float gelu_tanh_slope_f32(float x) {
    float t = tanhf((float)GELU_SCALE * (x + (float)GELU_CUBE * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * (float)GELU_SCALE * (1 + 3 * (float)GELU_CUBE * x * x);
}
static inline double gelu_tanh_slope_f64(double x) {
    double t = tanh(GELU_SCALE * (x + GELU_CUBE * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
}
BINARY(silu_grad, f32, float, y *silu_slope_f32(x))
BINARY(silu_grad, f64, double, y *silu_slope_f64(x))
BINARY(gelu_grad, f32, float, y *gelu_slope_f32(x))
BINARY(gelu_grad, f64, double, y *gelu_slope_f64(x))
BINARY(gelu_tanh_grad, f32, float, y *gelu_tanh_slope_f32(x))
BINARY(gelu_tanh_grad, f64, double, y *gelu_tanh_slope_f64(x))
BINARY(square_grad, f32, float, 2 * x * y)
BINARY(square_grad, f64, double, 2 * x * y)
BINARY(abs_grad, f32, float, x > 0 ? y : x < 0 ? -y : 0)
BINARY(abs_grad, f64, double, x > 0 ? y : x < 0 ? -y : 0)
/* A nan stays. */
#define LARGER (x > y) | (x != x) ? x : y
#define SMALLER (x < y) | (x != x) ? x : y
BINARY(maximum, f32, float, LARGER)
BINARY(maximum, f64, double, LARGER)
BINARY(maximum, i32, int32_t, LARGER)
BINARY(maximum, i64, int64_t, LARGER)
BINARY(minimum, f32, float, SMALLER)
BINARY(minimum, f64, double, SMALLER)
BINARY(minimum, i32, int32_t, SMALLER)
BINARY(minimum, i64, int64_t, SMALLER)
/* What the larger one takes of the gradient; a nan takes it, as in PyTorch. */
BINARY(max_share, f32, float, x == y ? 0.5f : x < y ? 0 : 1)
BINARY(max_share, f64, double, x == y ? 0.5 : x < y ? 0 : 1)
/* y is the maximum. */
BINARY(max_mask, f32, float, (float)(x == y))
BINARY(max_mask, f64, double, (double)(x == y))

typedef struct BinaryRun {
    const Nest *nest;
    BinaryLoop *loop;
    char *tensor[3]; /* result, a, b */
    int item_bytes;
} BinaryRun;

/* Ranges are of iterations of the outer loops; with one loop only, of its items. */
static void binary_part(void *context, int64_t begin, int64_t end) {
    const BinaryRun *run = context;
    const Nest *nest = run->nest;
    int last = nest->ndim - 1;
    const int64_t stride[3] = {nest->stride[0][last], nest->stride[1][last], nest->stride[2][last]};
    int64_t n = last == 0 ? end - begin : nest->size[last];
    int64_t first = last == 0 ? 0 : begin, count = last == 0 ? 1 : end - begin;
    for (int64_t i = first; i < first + count; i++) {
        int64_t offset[MAX_NEST];
        nest_offsets(nest, last, i, offset);
        char *at[3];
        for (int t = 0; t < 3; t++) {
            if (last == 0) offset[t] += begin * stride[t];
            at[t] = run->tensor[t] + offset[t] * run->item_bytes;
        }
        run->loop(at[0], stride[0], at[1], stride[1], at[2], stride[2], n);
    }
}

static bool binary(const KernelCall *call, BinaryLoop *const loops[NDTYPES], Error *error) {
    const Operand *out = &call->out[0];
    if (!loops[out->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[out->dtype]);
    if (shape_elements(&out->local) == 0) return true;
    Nest nest;
    nest_broadcast(&nest, call);
    BinaryRun run = {&nest, loops[out->dtype], {out->data, call->in[0].data, call->in[1].data}, dtype_bytes[out->dtype]};
    int last = nest.ndim - 1;
    if (last == 0)
        pool_run(call_pool(call), nest.size[0], GRAIN, binary_part, &run);
    else
        pool_run(call_pool(call), nest_count(&nest, 0, last), 1 + GRAIN / nest.size[last], binary_part, &run);
    return true;
}

#define BINARY_KERNEL(name, i32_loop, i64_loop)                                                                                             \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return binary(call, (BinaryLoop *const[NDTYPES]){name##_f32, name##_f64, i32_loop, i64_loop}, error);                                        \
    }
BINARY_KERNEL(add, add_i32, add_i64)
BINARY_KERNEL(sub, sub_i32, sub_i64)
BINARY_KERNEL(mul, mul_i32, mul_i64)
BINARY_KERNEL(div, NULL, NULL)
BINARY_KERNEL(relu_grad, NULL, NULL)
BINARY_KERNEL(tanh_grad, NULL, NULL)
BINARY_KERNEL(sqrt_grad, NULL, NULL)
BINARY_KERNEL(sigmoid_grad, NULL, NULL)
BINARY_KERNEL(square_grad, NULL, NULL)
BINARY_KERNEL(max_mask, NULL, NULL)
BINARY_KERNEL(max_share, NULL, NULL)
BINARY_KERNEL(maximum, maximum_i32, maximum_i64)
BINARY_KERNEL(minimum, minimum_i32, minimum_i64)
BINARY_KERNEL(abs_grad, NULL, NULL)
BINARY_KERNEL(rsqrt_grad, NULL, NULL)
BINARY_KERNEL(silu_grad, NULL, NULL)

bool kernel_gelu_grad(const KernelCall *call, Error *error) {
    static BinaryLoop *const loops[2][NDTYPES] = {{gelu_grad_f32, gelu_grad_f64, NULL}, {gelu_tanh_grad_f32, gelu_tanh_grad_f64, NULL}};
    return binary(call, loops[call->attr[0].i != 0], error);
}
