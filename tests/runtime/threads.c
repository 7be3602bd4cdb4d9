/* Kernels of the CPU backend come to the same bits with any number of threads, where the most of any process is agreed: ranks on unequal nodes hold the same replicas. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/element.h"
#include "tests/ops/call.h"
#include "tests/shape.h"

#define INTS(...)                                                                                                                          \
    {                                                                                                                                      \
        .given = true, .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { __VA_ARGS__ }                             \
    }
#define NUMBER(number)                                                                                                                     \
    { .given = true, .f = number }
static const Shape scalar = {0};

typedef struct Trial {
    OpCode op;
    Attr attr[MAX_ATTRS];
    int nin;
    Shape in[MAX_IN];
} Trial;

/* What each operand holds: numbers in (0, 1] with all their digits, so that another order of additions rounds otherwise; integers below 40. */
static void fill(const Operand *operand, uint64_t *random) {
    for (int64_t i = 0, n = shape_elements(&operand->local); i < n; i++)
        element_put(operand->data, operand->dtype, i,
                    dtype_is_float(operand->dtype) ? (double)(random_next(random) % 1000003 + 1) / 1000003
                                                   : (double)(random_next(random) % 40));
}

static void check_dtype(const Trial *trial, DType dtype, int most_threads) {
    enum { NPOOLS = 5 };
    static const int threads[NPOOLS] = {1, 2, 3, 5, 8};
    TensorType types[MAX_IN];
    Rule rule;
    uint64_t random = 5;
    Error error;
    CpuContext context = {.most_threads = most_threads};
    KernelCall call = {.op = trial->op, .attr = trial->attr, .nin = trial->nin, .context = &context};
    for (int i = 0; i < trial->nin; i++)
        types[i] = (TensorType){call_dtype(trial->op, i, dtype), false, trial->in[i]};
    call_open(&call, types, &rule, true, &random);
    for (int i = 0; i < call.nin; i++)
        fill(&call.in[i], &random);
    void *first[MAX_OUT];
    for (int p = 0; p < NPOOLS; p++) {
        if (threads[p] > 1) cr_assert(context.pool = pool_create(threads[p], &error), "%s", error.text);
        for (int o = 0; o < call.nout; o++) {
            size_t bytes = (size_t)(shape_elements(&call.out[o].local) * dtype_bytes[call.out[o].dtype]);
            memset(call.out[o].data, 0x55, bytes);
            if (p == 0) first[o] = malloc(bytes + 1);
        }
        cr_assert(backend_cpu.kernels[call.op](&call, &error), "%s", error.text);
        for (int o = 0; o < call.nout; o++) {
            size_t bytes = (size_t)(shape_elements(&call.out[o].local) * dtype_bytes[call.out[o].dtype]);
            if (p == 0) memcpy(first[o], call.out[o].data, bytes);
            cr_assert(memcmp(first[o], call.out[o].data, bytes) == 0, "%s of %s: other bits with %d threads than with one",
                      op_table[call.op].name, dtype_name[dtype], threads[p]);
        }
        pool_destroy(context.pool);
        context.pool = NULL;
    }
    for (int o = 0; o < call.nout; o++)
        free(first[o]);
    call_close(&call);
}

static void check(const Trial *trial) {
    for (int dtype = 0; dtype < NDTYPES; dtype++)
        for (int most_threads = 1; most_threads <= 8 && op_table[trial->op].dtypes & 1u << dtype; most_threads += 7)
            check_dtype(trial, (DType)dtype, most_threads);
}

Test(threads, products) {
    static const int64_t sizes[][4] = {
        {1, 1000, 70, 60},  {1, 60, 1100, 70}, {1, 40, 48, 20000}, {1, 300, 300, 300}, {1, 7, 2000, 300}, {1, 333, 517, 129},
        {3, 200, 130, 150}, {7, 90, 110, 100}, {40, 60, 50, 70},   {2, 16, 3000, 64},  {1, 1, 5000, 700}, {1, 3000, 1, 900},
    }; /* batch, m, n, k */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int transposed = 0; transposed < 4; transposed++) {
            int64_t b = sizes[s][0], m = sizes[s][1], n = sizes[s][2], k = sizes[s][3];
            bool ta = transposed & 1, tb = transposed & 2;
            check(&(Trial){.op = OP_matmul,
                           .nin = 2,
                           .in = {SHAPE(b, ta ? k : m, ta ? m : k), SHAPE(b, tb ? n : k, tb ? k : n)},
                           .attr = {{.given = true, .i = ta}, {.given = true, .i = tb}}});
        }
    check(&(Trial){
        .op = OP_einsum, .nin = 2, .in = {SHAPE(5, 150, 120), SHAPE(5, 140, 120)}, .attr = {{.given = true, .text = "cad,cbd->ab"}}});
    check(&(Trial){
        .op = OP_einsum, .nin = 2, .in = {SHAPE(5, 150, 120), SHAPE(5, 140, 120)}, .attr = {{.given = true, .text = "cad,cbd->ba"}}});
}

Test(threads, reductions) {
    const OpCode ops[] = {OP_sum, OP_mean, OP_max};
    const Shape x[] = {SHAPE(300001), SHAPE(3, 100003), SHAPE(70001, 5), SHAPE(40, 70, 130)};
    for (size_t op = 0; op < sizeof ops / sizeof *ops; op++)
        for (size_t s = 0; s < sizeof x / sizeof *x; s++)
            for (int axes = 0; axes < 1 << x[s].ndim; axes++) { /* every set of axes; none given: all */
                Trial t = {.op = ops[op], .nin = 1, .in = {x[s]}};
                t.attr[0].given = axes != 0;
                for (int d = 0; d < x[s].ndim; d++)
                    if (axes & 1 << d) t.attr[0].ints[t.attr[0].n++] = d;
                check(&t);
            }
    check(&(Trial){.op = OP_sum_to, .nin = 1, .in = {SHAPE(6000, 101)}, .attr = {INTS(101)}});
    check(&(Trial){.op = OP_sum_squares, .nin = 1, .in = {SHAPE(300, 2001)}});
    for (int axis = 0; axis < 3; axis++) {
        const Shape rows = SHAPE(60, 71, 50);
        check(&(Trial){.op = OP_softmax, .nin = 1, .in = {rows}, .attr = {{.given = true, .i = axis}}});
        check(&(Trial){.op = OP_log_softmax, .nin = 1, .in = {rows}, .attr = {{.given = true, .i = axis}}});
        check(&(Trial){.op = OP_softmax_grad, .nin = 2, .in = {rows, rows}, .attr = {{.given = true, .i = axis}}});
        check(&(Trial){.op = OP_log_softmax_grad, .nin = 2, .in = {rows, rows}, .attr = {{.given = true, .i = axis}}});
    }
    check(&(Trial){.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(7000, 33), SHAPE(7000)}, .attr = {{.given = true, .i = 40}}});
}

Test(threads, elementwise) {
    const OpCode unary[] = {OP_neg, OP_relu, OP_tanh, OP_exp, OP_log, OP_sqrt, OP_sigmoid, OP_square, OP_gelu, OP_silu, OP_rsqrt};
    const OpCode binary[] = {OP_add, OP_sub, OP_mul, OP_div};
    const OpCode gradients[] = {OP_relu_grad,   OP_tanh_grad, OP_sqrt_grad, OP_sigmoid_grad,
                                OP_square_grad, OP_gelu_grad, OP_silu_grad, OP_rsqrt_grad};
    const Shape x = SHAPE(100, 1003);
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        check(&(Trial){.op = unary[i], .nin = 1, .in = {x}});
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
        check(&(Trial){.op = binary[i], .nin = 2, .in = {x, x}});
        check(&(Trial){.op = binary[i], .nin = 2, .in = {x, SHAPE(1003)}});
        check(&(Trial){.op = binary[i], .nin = 2, .in = {SHAPE(100, 1), x}});
    }
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        check(&(Trial){.op = gradients[i], .nin = 2, .in = {x, x}});
}

Test(threads, updates) {
    const Shape w = SHAPE(300, 331);
    check(&(Trial){.op = OP_sgd, .nin = 2, .in = {w, w}, .attr = {NUMBER(0.1), NUMBER(0.25)}});
    check(&(Trial){.op = OP_momentum, .nin = 3, .in = {w, w, w}, .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.25)}});
    check(&(Trial){.op = OP_lion, .nin = 3, .in = {w, w, w}, .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(0.25)}});
    check(&(Trial){
        .op = OP_adam, .nin = 5, .in = {w, w, w, w, scalar}, .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3), NUMBER(0.25)}});
    check(&(Trial){.op = OP_adamw,
                   .nin = 5,
                   .in = {w, w, w, w, scalar},
                   .attr = {NUMBER(0.1), NUMBER(0.9), NUMBER(0.99), NUMBER(1e-3), NUMBER(0.25)}});
    check(&(Trial){.op = OP_clip, .nin = 2, .in = {w, scalar}, .attr = {NUMBER(0.5)}});
}
