/* The CPU backend's kernels against the plain ones: the same calls, every element type, with and without threads, results in their
 * operands' storage where that is allowed, boxes that are parts of tensors. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/element.h"
#include "tests/ops/call.h"

static double get(const Operand *o, int64_t i) {
    return element_at(o->data, o->dtype, i);
}

static void put(const Operand *o, int64_t i, double value) {
    element_put(o->data, o->dtype, i, value);
}

static void put_integer(const Operand *o, int64_t i, int64_t value) {
    if (o->dtype == I32) ((int32_t *)o->data)[i] = (int32_t)(uint32_t)(uint64_t)value;
    if (o->dtype == I64) ((int64_t *)o->data)[i] = value;
    if (o->dtype == BOOL) ((uint8_t *)o->data)[i] = value & 1;
}

/* One operator on operands of these shapes. whole: the boxes are the tensors; else each factor's box is a part of it. */
typedef struct Trial {
    OpCode op;
    DType dtype;
    Attr attr[MAX_ATTRS];
    int nin;
    Shape in[MAX_IN];
    bool hidden; /* of operand 0, for replica_sum */
    bool positive;
    bool ends; /* integers are at the ends of their range, and of all sizes between */
} Trial;

/* One of the numbers where overflow begins, or any. */
static int64_t draw_end(DType dtype, uint64_t *random) {
    const int64_t least = dtype == I32 ? INT32_MIN : INT64_MIN, most = dtype == I32 ? INT32_MAX : INT64_MAX;
    const int64_t ends[] = {least, least + 1, -1, 0, 1, most - 1, most, least / 2, most / 2 + 1, most / 3};
    uint64_t which = random_next(random) % 16;
    return which < sizeof ends / sizeof *ends ? ends[which] : (int64_t)(random_next(random) >> random_next(random) % 64);
}

/* Elements of the operands that make one of a result: those of the factors that some result lacks, or that a row is reduced over. */
static int64_t reduction_length(const KernelCall *call) {
    int64_t length = 1;
    if (op_table[call->op].expand) return shape_elements(&call->in[0].global); /* a composite, whose rule has no factors */
    for (int f = 0; f < call->rule->nfactors; f++)
        if (rule_sums(call->rule, f) || call->rule->factor[f].reductions > 0) length *= call->rule->factor[f].size;
    return length;
}

/* How far a kernel may be from the plain one, which computes in f64 and rounds once. Operands are at most 2: a few roundings of the element type for what is computed of an
 * element, and one of a partial sum, as large as the root of the number of its terms, for each term: `length` in all. Integers are exact. */
static double tolerance(DType dtype, int64_t length, double value) {
    enum { A_FEW = 8 };
    if (!dtype_is_float(dtype)) return 0;
    return (A_FEW + (double)length) * (dtype == F32 ? FLT_EPSILON : DBL_EPSILON) / 2 * (1 + fabs(value));
}

static void check_trial(const Trial *t, bool whole, Pool *pool, uint64_t *random) {
    TensorType types[MAX_IN];
    Rule rule;
    CpuContext context = {.pool = pool};
    KernelCall fast = {.op = t->op, .attr = t->attr, .nin = t->nin, .nthreads = 1, .context = &context};
    for (int i = 0; i < t->nin; i++)
        types[i] = (TensorType){call_dtype(t->op, i, t->dtype), t->hidden && i == 0, t->in[i]};
    call_open(&fast, types, &rule, whole, random);
    for (int i = 0; i < t->nin; i++)
        for (int64_t k = 0, n = shape_elements(&fast.in[i].local); k < n; k++) {
            if (t->ends && !dtype_is_float(fast.in[i].dtype)) {
                put_integer(&fast.in[i], k, draw_end(fast.in[i].dtype, random));
                continue;
            }
            double value = (double)(int64_t)(random_next(random) % 2000) / 1000 - (t->positive ? -0.01 : 1);
            bool integer = !dtype_is_float(fast.in[i].dtype), coarse = t->op == OP_equal || t->op == OP_not_equal || t->op == OP_less_equal || t->op == OP_first;
            put(&fast.in[i], k, coarse ? floor(value * 1.5) : integer ? floor(value * 50) : value);
        }
    KernelCall plain = fast;
    for (int o = 0; o < plain.nout; o++)
        plain.out[o].data = malloc((size_t)(shape_elements(&plain.out[o].local) * dtype_bytes[plain.out[o].dtype]) + 1);
    Error error = {0};
    cr_assert(cpu_reference_kernels[t->op](&plain, &error), "%s: %s", op_table[t->op].name, error.text);
    cr_assert(backend_cpu.kernels[t->op](&fast, &error), "%s: %s", op_table[t->op].name, error.text);
    const int64_t length = reduction_length(&fast);
    for (int pass = 0; pass < 2; pass++) {
        for (int o = 0; o < fast.nout; o++)
            for (int64_t k = 0, n = shape_elements(&fast.out[o].local); k < n; k++) {
                double a = get(&fast.out[o], k), b = get(&plain.out[o], k);
                const int bytes = dtype_bytes[fast.out[o].dtype];
                const bool same = memcmp((const char *)fast.out[o].data + k * bytes, (const char *)plain.out[o].data + k * bytes, (size_t)bytes) == 0;
                const DType computed = dtype_is_float(fast.out[o].dtype) ? t->dtype : fast.out[o].dtype; /* a cast's result is no more exact than its operand */
                cr_assert(same || (dtype_is_float(computed) && (a == b || fabs(a - b) <= tolerance(computed, length, b) || (isnan(a) && isnan(b)))),
                          "%s %s result %d element %lld%s: %.17g, plainly %.17g",
                          op_table[t->op].name, dtype_name[t->dtype], o, (long long)k, pass ? " in place" : "", a, b);
            }
        /* Once more with the results in the operands' storage. */
        bool flat = op_table[t->op].flat && shape_elements(&fast.in[0].local) == shape_elements(&fast.out[0].local);
        bool same = flat || (op_table[t->op].in_place && shape_equal(&fast.in[0].local, &fast.out[0].local));
        if (pass == 1 || !same) break;
        for (int o = 0; o < fast.nout; o++) {
            free(fast.out[o].data);
            fast.out[o].data = fast.in[o].data;
        }
        cr_assert(backend_cpu.kernels[t->op](&fast, &error), "%s", error.text);
    }
    for (int o = 0; o < fast.nout; o++) {
        free(plain.out[o].data);
        if (fast.out[o].data == fast.in[o].data) fast.out[o].data = NULL;
    }
    call_close(&fast);
}

static void check(const Trial *trial) {
    Error error;
    uint64_t random = 7;
    Pool *pools[2] = {NULL, pool_create(3, &error)};
    for (int dtype = 0; dtype < NDTYPES; dtype++) {
        if (!(op_table[trial->op].dtypes & 1u << dtype)) continue;
        for (int p = 0; p < 2; p++)
            for (int repeat = 0; repeat < 4; repeat++) {
                Trial t = *trial;
                t.dtype = (DType)dtype;
                check_trial(&t, repeat == 0, pools[p], &random);
                t.ends = !dtype_is_float(t.dtype);
                if (t.ends) check_trial(&t, repeat == 0, pools[p], &random);
            }
    }
    pool_destroy(pools[1]);
}

#define SHAPE(...) ((Shape){.ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dim = {__VA_ARGS__}})
static const Shape scalar = {0};
#define INTS(...)                                                                                                                          \
    {                                                                                                                                      \
        .given = true, .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { __VA_ARGS__ }                             \
    }

Test(kernels, unary_equal_the_plain_ones) {
    const OpCode ops[] = {
#define UNARY_OP(name, ...) OP_##name,
#define UNARY_OP_X(name, ...) OP_##name,
#define UNARY_OP_Y(name, ...) OP_##name,
#include "ir/elementwise.def"
        OP_gelu};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        bool positive = op_table[ops[i]].domain == DOMAIN_POSITIVE;
        check(&(Trial){.op = ops[i], .nin = 1, .in = {SHAPE(7, 5)}, .positive = positive});
        check(&(Trial){.op = ops[i], .nin = 1, .in = {SHAPE(301, 211)}, .positive = positive});
        check(&(Trial){.op = ops[i], .nin = 1, .in = {scalar}, .positive = positive});
    }
}

Test(kernels, gelu_by_tanh_equals_the_plain_one) {
    const Attr tanh = {.given = true, .i = 1};
    check(&(Trial){.op = OP_gelu, .nin = 1, .in = {SHAPE(301, 21)}, .attr = {tanh}});
    check(&(Trial){.op = OP_gelu_grad, .nin = 2, .in = {SHAPE(301, 21), SHAPE(301, 21)}, .attr = {tanh}});
}

Test(kernels, clamp_equals_the_plain_one) {
    const Attr bounds[][2] = {{{.given = true, .f = -0.25}, {.given = true, .f = 0.5}}, {{.given = true, .f = 0.1}, {0}}, {{0}, {.given = true, .f = -0.1}}};
    const Attr whole[2] = {{.given = true, .f = -3}, {.given = true, .f = 20}};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        check(&(Trial){.op = OP_clamp_grad, .nin = 2, .in = {SHAPE(301, 21), SHAPE(301, 21)}, .attr = {bounds[b][0], bounds[b][1]}});
    check(&(Trial){.op = OP_clamp, .nin = 1, .in = {SHAPE(301, 211)}, .attr = {whole[0], whole[1]}});
    check(&(Trial){.op = OP_clamp, .nin = 1, .in = {scalar}, .attr = {whole[0]}});
}

/* PyTorch 2's values of softplus and of bce_with_logits, in f64; f32 is near them. */
Test(kernels, softplus_is_exact_at_both_ends) {
    const double x[] = {-1000, -40, -20, -1, 0, 1, 20, 40, 1000};
    const double expected[] = {0, 4.248354255291589e-18, 2.061153620314381e-09, 0.31326168751822286, 0.6931471805599453, 1.3132616875182228, 20.000000002061153, 40, 1000};
    for (int i = 0; i < 9; i++) {
        double y;
        float x32 = (float)x[i], y32;
        Error error;
        KernelCall call = {.op = OP_softplus, .nin = 1, .nout = 1, .in = {{(void *)&x[i], F64, scalar, scalar, {0}}}, .out = {{&y, F64, scalar, scalar, {0}}}};
        cr_assert(backend_cpu.kernels[OP_softplus](&call, &error));
        cr_assert_float_eq(y, expected[i], 1e-15 * expected[i], "softplus(%g) is %.17g", x[i], y);
        cr_assert(cpu_reference_kernels[OP_softplus](&call, &error));
        cr_assert_float_eq(y, expected[i], 1e-14 * expected[i], "plain softplus(%g) is %.17g", x[i], y);
        call.in[0] = (Operand){&x32, F32, scalar, scalar, {0}}, call.out[0] = (Operand){&y32, F32, scalar, scalar, {0}};
        cr_assert(backend_cpu.kernels[OP_softplus](&call, &error));
        cr_assert_float_eq(y32, expected[i], 3e-7 * expected[i] + 1e-40, "f32 softplus(%g) is %.9g", x[i], (double)y32);
    }
}

/* Integers wrap; a nan stays in all of them, and takes part in the gradient as in PyTorch. */
Test(kernels, magnitudes_bounds_and_larger_ones_at_the_ends) {
    int32_t x[4] = {INT32_MIN, -7, 7, INT32_MAX}, y[4];
    const int32_t magnitude[] = {INT32_MIN, 7, 7, INT32_MAX}, clamped[] = {-5, -5, 7, INT32_MAX};
    Attr bounds[MAX_ATTRS] = {{.given = true, .f = -5}, {.given = true, .f = 1e30}};
    Error error;
    KernelCall call = {.op = OP_abs, .nin = 1, .nout = 1, .attr = bounds, .in = {{x, I32, SHAPE(4), SHAPE(4), {0}}}, .out = {{y, I32, SHAPE(4), SHAPE(4), {0}}}};
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

Test(kernels, binary_broadcast_as_the_plain_ones) {
    const OpCode ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_maximum, OP_minimum, OP_max_share};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const Shape pairs[][2] = {{SHAPE(8, 6), SHAPE(8, 6)},    {SHAPE(8, 6), SHAPE(6)},      {SHAPE(6), SHAPE(8, 6)},
                                  {SHAPE(8, 6), SHAPE(8, 1)},    {SHAPE(8, 1), SHAPE(1, 6)},   {SHAPE(4, 1, 3), SHAPE(5, 1)},
                                  {scalar, SHAPE(3, 2)},         {SHAPE(3, 2), scalar},        {scalar, scalar},
                                  {SHAPE(300, 200), SHAPE(200)}, {SHAPE(70000), SHAPE(70000)}, {SHAPE(200, 300), SHAPE(200, 1)}};
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
            check(&(Trial){.op = ops[i], .nin = 2, .in = {pairs[p][0], pairs[p][1]}, .positive = ops[i] == OP_div});
    }
}

Test(kernels, gradients_of_unary_equal_the_plain_ones) {
    const OpCode ops[] = {
#define UNARY_OP_X(name, ...) OP_##name##_grad,
#define UNARY_OP_Y(name, ...) OP_##name##_grad,
#include "ir/elementwise.def"
        OP_gelu_grad, OP_max_mask, OP_max_share};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        check(&(Trial){.op = ops[i], .nin = 2, .in = {SHAPE(7, 5), SHAPE(7, 5)}, .positive = ops[i] == OP_sqrt_grad});
        check(&(Trial){.op = ops[i], .nin = 2, .in = {SHAPE(60000), SHAPE(60000)}, .positive = ops[i] == OP_sqrt_grad});
    }
}

Test(kernels, reductions_equal_the_plain_ones) {
    const OpCode ops[] = {OP_sum, OP_mean, OP_max, OP_min};
    const Shape x[] = {SHAPE(8, 6), SHAPE(4, 6, 3), SHAPE(300, 200), SHAPE(2, 3, 4, 5)};
    for (size_t op = 0; op < sizeof ops / sizeof *ops; op++)
        for (size_t s = 0; s < sizeof x / sizeof *x; s++)
            for (int axes = 0; axes < 1 << x[s].ndim; axes++) /* every set of axes; none given: all */
                for (int keep = 0; keep < 2; keep++) {
                    Trial t = {.op = ops[op], .nin = 1, .in = {x[s]}, .attr = {[1] = {.given = keep, .i = keep}}};
                    t.attr[0].given = axes != 0;
                    for (int d = 0; d < x[s].ndim; d++)
                        if (axes & 1 << d) t.attr[0].ints[t.attr[0].n++] = d;
                    check(&t);
                }
}

Test(kernels, expansions_equal_the_plain_ones) {
    const OpCode ops[] = {OP_sum_grad, OP_mean_grad};
    for (int op = 0; op < 2; op++) {
        check(&(Trial){.op = ops[op], .nin = 1, .in = {scalar}, .attr = {{0}, INTS(8, 6)}});
        check(&(Trial){.op = ops[op], .nin = 1, .in = {SHAPE(6)}, .attr = {INTS(0), INTS(8, 6)}});
        check(&(Trial){.op = ops[op], .nin = 1, .in = {SHAPE(8, 1)}, .attr = {INTS(1), INTS(8, 6)}});
        check(&(Trial){.op = ops[op], .nin = 1, .in = {SHAPE(300)}, .attr = {INTS(1), INTS(300, 200)}});
    }
    check(&(Trial){.op = OP_sum_to, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(6)}});
    check(&(Trial){.op = OP_sum_to, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(8, 1)}});
    check(&(Trial){.op = OP_sum_to, .nin = 1, .in = {SHAPE(5, 8, 6)}, .attr = {INTS(1, 6)}});
    check(&(Trial){.op = OP_sum_to, .nin = 1, .in = {SHAPE(600, 100)}, .attr = {INTS(100)}});
}

Test(kernels, movements_equal_the_plain_ones) {
    check(&(Trial){.op = OP_transpose, .nin = 1, .in = {SHAPE(8, 6)}});
    check(&(Trial){.op = OP_transpose, .nin = 1, .in = {SHAPE(301, 203)}});
    const int64_t perms[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int p = 0; p < 6; p++) {
        check(&(Trial){.op = OP_transpose, .nin = 1, .in = {SHAPE(4, 6, 3)}, .attr = {INTS(perms[p][0], perms[p][1], perms[p][2])}});
        check(&(Trial){.op = OP_transpose, .nin = 1, .in = {SHAPE(40, 50, 33)}, .attr = {INTS(perms[p][0], perms[p][1], perms[p][2])}});
    }
    check(&(Trial){.op = OP_reshape, .nin = 1, .in = {SHAPE(4, 6, 3)}, .attr = {INTS(8, 9)}});
    check(&(Trial){.op = OP_reshape, .nin = 1, .in = {SHAPE(400, 300)}, .attr = {INTS(-1)}});
    for (int replicas = 1; replicas <= 5; replicas += 4)
        check(&(Trial){.op = OP_replicate, .nin = 1, .in = {SHAPE(4, 6)}, .attr = {{.given = true, .i = replicas}}});
    for (int mean = 0; mean < 2; mean++) {
        check(&(Trial){.op = OP_replica_sum, .nin = 1, .in = {SHAPE(5, 4, 6)}, .hidden = true, .attr = {{.given = mean, .i = mean}}});
        check(&(Trial){.op = OP_replica_sum, .nin = 1, .in = {SHAPE(1, 40, 60)}, .hidden = true, .attr = {{.given = mean, .i = mean}}});
    }
}

Test(kernels, products_equal_the_plain_ones) {
    const Shape pairs[][2] = {
        {SHAPE(8, 6), SHAPE(6, 4)},          {SHAPE(2, 8, 6), SHAPE(6, 4)},      {SHAPE(2, 8, 6), SHAPE(2, 6, 4)},
        {SHAPE(7, 5), SHAPE(5, 3)},          {SHAPE(1, 6), SHAPE(6, 4)},         {SHAPE(8, 6), SHAPE(6, 1)},
        {SHAPE(3, 1, 4, 6), SHAPE(2, 6, 5)}, {SHAPE(200, 100), SHAPE(100, 150)}, {SHAPE(16, 30, 40), SHAPE(16, 40, 50)},
        {SHAPE(1, 1), SHAPE(1, 1)}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (int ta = 0; ta < 2; ta++)
            for (int tb = 0; tb < 2; tb++) {
                Trial t = {
                    .op = OP_matmul, .nin = 2, .in = {pairs[p][0], pairs[p][1]}, .attr = {{.given = ta, .i = ta}, {.given = tb, .i = tb}}};
                for (int i = 0; i < 2; i++) { /* the same product of transposed operands */
                    Shape *s = &t.in[i];
                    int64_t last = s->dim[s->ndim - 1];
                    if (!(i == 0 ? ta : tb)) continue;
                    s->dim[s->ndim - 1] = s->dim[s->ndim - 2];
                    s->dim[s->ndim - 2] = last;
                }
                check(&t);
            }
}

Test(kernels, cuts_and_joints_equal_the_plain_ones) {
    check(&(Trial){.op = OP_slice, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(0, 2), INTS(8, 5)}});
    check(&(Trial){.op = OP_slice, .nin = 1, .in = {SHAPE(8, 6, 5)}, .attr = {INTS(-3, 0, 1), INTS(-1, 6, 2)}});
    check(&(Trial){.op = OP_slice, .nin = 1, .in = {SHAPE(400, 300)}, .attr = {INTS(0, 100), INTS(400, 299)}});
    check(&(Trial){.op = OP_slice_grad, .nin = 1, .in = {SHAPE(8, 3)}, .attr = {INTS(0, 2), INTS(8, 5), INTS(8, 6)}});
    check(&(Trial){.op = OP_slice_grad, .nin = 1, .in = {SHAPE(2, 6, 1)}, .attr = {INTS(-3, 0, 1), INTS(-1, 6, 2), INTS(8, 6, 5)}});
    check(&(Trial){.op = OP_slice_grad, .nin = 1, .in = {SHAPE(400, 199)}, .attr = {INTS(0, 100), INTS(400, 299), INTS(400, 300)}});
    for (int axis = -3; axis < 3; axis++) {
        Trial t = {.op = OP_concat, .nin = 4, .attr = {{.given = true, .i = axis}}};
        for (int i = 0; i < t.nin; i++) {
            t.in[i] = SHAPE(4, 30, 50);
            t.in[i].dim[(axis + 3) % 3] = 1 + 7 * i;
        }
        check(&t);
        Trial s = {.op = OP_split, .nin = 1, .in = {SHAPE(16, 24, 40)}, .attr = {{.given = true, .i = 8}, {.given = true, .i = axis}}};
        check(&s);
    }
}

Test(kernels, rows_equal_the_plain_ones) {
    const Shape x[] = {SHAPE(8, 6), SHAPE(5, 70, 3), SHAPE(3, 4, 70), SHAPE(9), SHAPE(150, 40), SHAPE(2, 1, 5)};
    for (size_t s = 0; s < sizeof x / sizeof *x; s++)
        for (int axis = -1; axis < x[s].ndim; axis++) {
            check(&(Trial){.op = OP_softmax, .nin = 1, .in = {x[s]}, .attr = {{.given = axis >= 0, .i = axis}}});
            check(&(Trial){.op = OP_softmax_grad, .nin = 2, .in = {x[s], x[s]}, .attr = {{.given = axis >= 0, .i = axis}}});
            check(&(Trial){.op = OP_log_softmax, .nin = 1, .in = {x[s]}, .attr = {{.given = axis >= 0, .i = axis}}});
            check(&(Trial){.op = OP_log_softmax_grad, .nin = 2, .in = {x[s], x[s]}, .attr = {{.given = axis >= 0, .i = axis}}});
        }
}

Test(kernels, lookups_equal_the_plain_ones) {
    check(&(Trial){.op = OP_pick, .nin = 2, .in = {SHAPE(8, 6), SHAPE(8)}});
    check(&(Trial){.op = OP_pick, .nin = 2, .in = {SHAPE(5), scalar}});
    check(&(Trial){.op = OP_pick, .nin = 2, .in = {SHAPE(200, 100, 9), SHAPE(200, 100)}});
    check(&(Trial){.op = OP_pick_grad, .nin = 2, .in = {SHAPE(8), SHAPE(8)}, .attr = {{.given = true, .i = 6}}});
    check(&(Trial){.op = OP_pick_grad, .nin = 2, .in = {SHAPE(200, 100), SHAPE(200, 100)}, .attr = {{.given = true, .i = 9}}});
    check(&(Trial){.op = OP_stop_gradient, .nin = 1, .in = {SHAPE(200, 100)}});
    check(&(Trial){.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 6), SHAPE(8)}});
    check(&(Trial){.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 33), SHAPE(70, 30)}});
    check(&(Trial){.op = OP_embedding, .nin = 2, .in = {SHAPE(4, 3), scalar}});
    check(&(Trial){.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(8, 6), SHAPE(8)}, .attr = {{.given = true, .i = 40}}});
    check(&(Trial){.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(70, 30, 33), SHAPE(70, 30)}, .attr = {{.given = true, .i = 40}}});
    check(&(Trial){.op = OP_first, .nin = 1, .in = {SHAPE(9, 40, 7)}, .attr = {{.given = true, .i = 1}}});
    check(&(Trial){.op = OP_first, .nin = 1, .in = {SHAPE(9, 40)}});
    check(&(Trial){.op = OP_argmax, .nin = 1, .in = {SHAPE(9, 40)}});
    for (int to = 0; to < NDTYPES; to++)
        check(&(Trial){.op = OP_one_hot, .nin = 1, .in = {SHAPE(9, 40)}, .attr = {{.given = true, .i = 30}, {.given = true, .text = dtype_name[to]}}});
}

Test(kernels, selections_equal_the_plain_ones) {
    const OpCode ops[] = {OP_less, OP_less_equal, OP_greater, OP_greater_equal, OP_equal, OP_not_equal};
    const Shape x[][2] = {{SHAPE(8, 6), SHAPE(8, 6)}, {SHAPE(8, 6), SHAPE(6)}, {SHAPE(8, 1), SHAPE(1, 6)}, {scalar, scalar}, {SHAPE(300, 200), SHAPE(300, 200)}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (size_t s = 0; s < sizeof x / sizeof *x; s++)
            check(&(Trial){.op = ops[i], .nin = 2, .in = {x[s][0], x[s][1]}});
    check(&(Trial){.op = OP_where, .nin = 3, .in = {SHAPE(8, 6), SHAPE(8, 6), SHAPE(8, 6)}});
    check(&(Trial){.op = OP_where, .nin = 3, .in = {SHAPE(8, 1), SHAPE(6), scalar}});
    check(&(Trial){.op = OP_where, .nin = 3, .in = {SHAPE(200), SHAPE(300, 200), SHAPE(300, 1)}});
    for (int to = 0; to < NDTYPES; to++)
        check(&(Trial){.op = OP_cast, .nin = 1, .in = {SHAPE(301, 70)}, .attr = {{.given = true, .text = dtype_name[to]}}});
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

/* Loops around a product of BLAS: letters left over in the depth, the batch, the rows and the columns. */
Test(kernels, einsum_with_loops_around_a_product_equals_the_plain_one) {
    /* The last two: none for BLAS. */
    const char *const specs[] = {"cad,cbd->ab", "cad,cbd->ba", "cad,cdb->ab", "ecad,ecbd->eab", "acd,bdc->ab", "aecd,bdc->eab"};
    const int64_t size[] = {9, 7, 6, 5, 3}; /* of a to e */
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        Trial t = {.op = OP_einsum, .nin = 2, .attr = {{.given = true, .text = specs[s]}}};
        int operand = 0;
        for (const char *at = specs[s]; *at != '-'; at++)
            if (*at == ',')
                operand++;
            else
                t.in[operand].dim[t.in[operand].ndim++] = size[*at - 'a'];
        check(&t);
    }
}

/* Random specs: any two operands over up to five letters, every arrangement of them, results over any of the letters. */
Test(kernels, einsum_of_any_letters_equals_the_plain_one) {
    uint64_t random = 11;
    int tried = 0;
    for (int trial = 0; trial < 2000; trial++) {
        int64_t size[5];
        char text[2][6] = {"", ""}, result[6] = "", spec[24];
        bool seen[5] = {false};
        Trial t = {.op = OP_einsum, .dtype = F64, .nin = 2};
        for (int l = 0; l < 5; l++)
            size[l] = 1 + (int64_t)(random_next(&random) % 5);
        for (int i = 0; i < 2; i++) {
            bool used[5] = {false};
            for (int n = (int)(random_next(&random) % 5); n > 0; n--) {
                int l = (int)(random_next(&random) % 5);
                if (used[l]) continue;
                used[l] = seen[l] = true;
                t.in[i].dim[t.in[i].ndim++] = size[l];
                text[i][strlen(text[i])] = (char)('a' + l);
            }
        }
        for (int n = (int)(random_next(&random) % 5); n > 0; n--) {
            int l = (int)(random_next(&random) % 5);
            if (seen[l] && !strchr(result, 'a' + l)) result[strlen(result)] = (char)('a' + l);
        }
        snprintf(spec, sizeof spec, "%s,%s->%s", text[0], text[1], result);
        t.attr[0] = (Attr){.given = true, .text = spec};
        TensorType types[2] = {{t.dtype, false, t.in[0]}, {t.dtype, false, t.in[1]}};
        Rule rule;
        if (!rule_infer(OP_einsum, types, 2, t.attr, &rule, NULL)) continue;
        tried++;
        check_trial(&t, trial % 2 == 0, NULL, &random);
    }
    cr_assert_gt(tried, 1000);
}

#define NUMBER(number) {.given = true, .f = number}

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
    check(&(Trial){.op = OP_sgd, .nin = 2, .in = {SHAPE(300, 200), SHAPE(300, 200)}, .attr = {{.given = true, .f = 0.1}}});
    check(&(Trial){.op = OP_momentum,
                   .nin = 3,
                   .in = {SHAPE(300, 200), SHAPE(300, 200), SHAPE(300, 200)},
                   .attr = {{.given = true, .f = 0.1}, {.given = true, .f = 0.9}}});
    check(&(Trial){.op = OP_sgd, .nin = 3, .in = {SHAPE(300, 200), SHAPE(300, 200), {0}}, .attr = {{.given = true, .f = 0.1}, {.given = true, .f = 0.25}}});
    check(&(Trial){.op = OP_momentum,
                   .nin = 4,
                   .in = {SHAPE(300, 200), SHAPE(300, 200), SHAPE(300, 200), {0}},
                   .attr = {{.given = true, .f = 0.1}, {.given = true, .f = 0.9}, {.given = true, .f = 0.25}}});
    for (int nin = 5; nin <= 6; nin++)
        for (int decoupled = 0; decoupled < 2; decoupled++)
            check(&(Trial){.op = decoupled ? OP_adamw : OP_adam,
                           .nin = nin,
                           .in = {SHAPE(300, 200), SHAPE(300, 200), SHAPE(300, 200), SHAPE(300, 200), {0}, {0}},
                           .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3), NUMBER(0.25)},
                           .positive = true});
    check(&(Trial){.op = OP_sum_squares, .nin = 1, .in = {SHAPE(300, 200)}});
    check(&(Trial){.op = OP_clip, .nin = 2, .in = {SHAPE(300, 200), {0}}, .attr = {NUMBER(0.5)}, .positive = true});
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
        KernelCall call = {.op = decoupled ? OP_adamw : OP_adam, .attr = attr, .nin = 5, .nout = 3, .in = {tensor, tensor, tensor, tensor, one}, .out = {tensor, tensor, tensor}};
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
        cr_assert_eq(result, expected, "%s%s %s(%lld, %lld) is %lld, not %lld", k ? "plainly " : "", dtype_name[dtype], op_table[op].name, (long long)a, (long long)b,
                     (long long)result, (long long)expected);
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
    KernelCall call = {.op = OP_sum, .nin = 1, .nout = 1, .rule = &rule, .in = {{x, I32, SHAPE(8), type.shape, {0}}}, .out = {{&sum, I32, scalar, scalar, {0}}}};
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
