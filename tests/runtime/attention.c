/* attention beside PyTorch's scaled_dot_product_attention (attention_table.h), its gradient too; what masks leave nothing to see; memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/backend.h"
#include "tests/ops/call.h"

typedef struct TorchAttention {
    Shape q, k;
    int64_t e;
    Shape mask; /* of no dimension: none */
    bool causal;
    double scale; /* 0: left out */
    double result[4][128];
} TorchAttention;

#include "tests/runtime/attention_table.h"

static void fill(double *at, const Shape *shape, int seed) {
    for (int64_t i = 0; i < shape_elements(shape); i++)
        at[i] = (double)((i * 37 + seed * 11) % 41 - 20) / 16;
}

static void expect_near(const double *got, const double *want, const Shape *shape, int which, const char *what) {
    for (int64_t i = 0; i < shape_elements(shape); i++)
        cr_expect_float_eq(got[i], want[i], 1e-14 * (1 + fabs(want[i])), "case %d, %s[%d] is %.17g, not %.17g", which, what, (int)i, got[i],
                           want[i]);
}

static void compare(const TorchAttention *c, int which, const Device *device, KernelFn *const *kernels) {
    Shape v = c->k, y = c->q, row = c->q;
    v.dim[v.ndim - 1] = y.dim[y.ndim - 1] = c->e;
    row.dim[row.ndim - 1] = 1;
    double q_at[128], k_at[128], v_at[128], dy_at[128], out[3][128], grad[3][128];
    uint8_t mask_at[64];
    const int masked = c->mask.ndim > 0;
    const Attr attr[MAX_ATTRS] = {{.given = c->causal, .i = c->causal}, {.given = c->scale != 0, .f = c->scale}};
    Error error;
    fill(q_at, &c->q, 1), fill(k_at, &c->k, 2), fill(v_at, &v, 3), fill(dy_at, &y, 4);
    for (int64_t i = 0; i < shape_elements(&c->mask); i++)
        mask_at[i] = i * 5 % 7 < 4;
    const Operand q = operand_at(q_at, F64, &c->q), k = operand_at(k_at, F64, &c->k), values = operand_at(v_at, F64, &v),
                  mask = operand_at(mask_at, BOOL, &c->mask), dy = operand_at(dy_at, F64, &y), result = operand_at(out[0], F64, &y),
                  most = operand_at(out[1], F64, &row), sum = operand_at(out[2], F64, &row);
    const KernelCall forward = {.op = OP_dot_product_attention,
                                .attr = attr,
                                .nin = 3 + masked,
                                .nout = 3,
                                .in = {q, k, values, mask},
                                .out = {result, most, sum},
                                .context = device->context};
    cr_assert(kernels[OP_dot_product_attention](&forward, &error), "%s", error.text);
    expect_near(out[0], c->result[0], &y, which, "y");
    const KernelCall backward = {.op = OP_attention_grad,
                                 .attr = attr,
                                 .nin = 7 + masked,
                                 .nout = 3,
                                 .in = {q, dy, k, values, result, most, sum, mask},
                                 .out = {operand_at(grad[0], F64, &c->q), operand_at(grad[1], F64, &c->k), operand_at(grad[2], F64, &v)},
                                 .context = device->context};
    cr_assert(kernels[OP_attention_grad](&backward, &error), "%s", error.text);
    expect_near(grad[0], c->result[1], &c->q, which, "dq");
    expect_near(grad[1], c->result[2], &c->k, which, "dk");
    expect_near(grad[2], c->result[3], &v, which, "dv");
}

static Device open_device(int nthreads) {
    Device device;
    Error error;
    cr_assert(device_open(&device, &backend_cpu, &(DeviceOptions){.nlocal = 1, .nthreads = nthreads}, &error), "%s", error.text);
    return device;
}

Test(attention, equals_pytorchs) {
    Device device = open_device(2);
    for (int i = 0; i < (int)(sizeof torch_attention / sizeof *torch_attention); i++) {
        compare(&torch_attention[i], i, &device, backend_cpu.kernels);
        compare(&torch_attention[i], i, &device, cpu_reference_kernels);
    }
    device_close(&device);
}

/* More keys than a block of the fast kernel has, where larger scores come in later blocks, and where they come in the first. */
Test(attention, of_many_keys_is_the_plain_one) {
    Device device = open_device(2);
    for (int turned = 0; turned < 2; turned++) {
        enum { M = 5, N = 1000, D = 2 };
        double q_at[M * D], k_at[N * D], v_at[N * D], y_at[2][M * D], most_at[2][M], sum_at[2][M];
        const Shape m = {2, {M, D}}, n = {2, {N, D}}, row = {2, {M, 1}};
        fill(q_at, &m, 1), fill(k_at, &n, 2), fill(v_at, &n, 3);
        for (int i = 0; i < M; i++)
            q_at[i * D] = 1;
        for (int i = 0; i < N; i++)
            k_at[i * D] = (turned ? N - i : i) / 128.0;
        const Attr attr[MAX_ATTRS] = {{0}};
        for (int plain = 0; plain < 2; plain++) {
            Error error;
            const KernelCall call = {
                .op = OP_dot_product_attention,
                .attr = attr,
                .nin = 3,
                .nout = 3,
                .in = {operand_at(q_at, F64, &m), operand_at(k_at, F64, &n), operand_at(v_at, F64, &n)},
                .out = {operand_at(y_at[plain], F64, &m), operand_at(most_at[plain], F64, &row), operand_at(sum_at[plain], F64, &row)},
                .context = device.context};
            cr_assert((plain ? cpu_reference_kernels : backend_cpu.kernels)[call.op](&call, &error), "%s", error.text);
        }
        expect_near(y_at[0], y_at[1], &m, turned, "y");
        for (int i = 0; i < M; i++) {
            cr_expect_float_eq(most_at[0][i], most_at[1][i], 1e-14);
            cr_expect_float_eq(sum_at[0][i], sum_at[1][i], 1e-12 * sum_at[1][i], "query %d: %.17g, plainly %.17g", i, sum_at[0][i],
                               sum_at[1][i]);
        }
    }
    device_close(&device);
}

/* A query that sees no key gets 0, and its gradients are 0: PyTorch's, too. */
Test(attention, of_a_query_that_sees_nothing_is_zero) {
    Device device = open_device(1);
    float q_at[2] = {1, 2}, k_at[3] = {1, 2, 3}, v_at[3] = {4, 5, 6}, dy_at[2] = {1, 1}, y_at[2], most_at[2], sum_at[2], dq[2], dk[3],
          dv[3];
    uint8_t mask_at[6] = {0, 0, 0, 1, 0, 0};
    const Shape two = {2, {2, 1}}, three = {2, {3, 1}}, scores = {2, {2, 3}};
    const Operand q = operand_at(q_at, F32, &two), k = operand_at(k_at, F32, &three), v = operand_at(v_at, F32, &three),
                  mask = operand_at(mask_at, BOOL, &scores), dy = operand_at(dy_at, F32, &two), y = operand_at(y_at, F32, &two),
                  most = operand_at(most_at, F32, &two), sum = operand_at(sum_at, F32, &two);
    const Attr attr[MAX_ATTRS] = {{0}};
    Error error;
    const KernelCall forward = {.op = OP_dot_product_attention,
                                .attr = attr,
                                .nin = 4,
                                .nout = 3,
                                .in = {q, k, v, mask},
                                .out = {y, most, sum},
                                .context = device.context};
    const KernelCall backward = {.op = OP_attention_grad,
                                 .attr = attr,
                                 .nin = 8,
                                 .nout = 3,
                                 .in = {q, dy, k, v, y, most, sum, mask},
                                 .out = {operand_at(dq, F32, &two), operand_at(dk, F32, &three), operand_at(dv, F32, &three)},
                                 .context = device.context};
    for (int plain = 0; plain < 2; plain++) {
        KernelFn *const *kernels = plain ? cpu_reference_kernels : backend_cpu.kernels;
        cr_assert(kernels[OP_dot_product_attention](&forward, &error), "%s", error.text);
        cr_assert(kernels[OP_attention_grad](&backward, &error), "%s", error.text);
        cr_expect_eq(y_at[0], 0);
        cr_expect_eq(sum_at[0], 0);
        cr_expect_eq(dq[0], 0);
        cr_expect_eq(y_at[1], 4);
        cr_expect_eq(sum_at[1], 1);
        cr_expect_eq(dq[1], 0);
        cr_expect_eq(dv[0], 1);
        cr_expect_eq(dv[1], 0);
        cr_expect_eq(dk[2], 0);
    }
    device_close(&device);
}
