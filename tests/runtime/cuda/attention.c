/* Attention by tensor cores: in tf32, whose results are near those of f32 and not the same, and where tensor cores give something else than plain kernels. What cases.c has for
 * the operators goes through them in 16 bits. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"
#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

enum { NCASES = 2 };

/* Queries [heads, m, d] and keys [heads, n, d], as wide as values. */
static Check check_of(int number, OpCode op, DType dtype) {
    static const int64_t sizes[NCASES][4] = {{2, 70, 40, 20}, {1, 34, 50, 100}};
    const int64_t *size = sizes[number];
    const Shape q = SHAPE(size[0], size[1], size[3]), k = SHAPE(size[0], size[2], size[3]), s = SHAPE(size[0], size[1], 1);
    if (op == OP_dot_product_attention) return (Check){.op = op, .dtype = dtype, .nin = 3, .in = {q, k, k}, .attr = {INT(number % 2)}};
    return (Check){
        .op = op, .dtype = dtype, .nin = 7, .in = {q, q, k, k, q, s, s}, .attr = {INT(number % 2), NUMBER(0.01)}, .positive = true};
}

/* How far an element may be from the plain kernel's, of the largest there. */
static double unit_of(DType dtype, bool tf32) {
    return dtype == F16 ? ldexp(1, -9) : dtype == BF16 ? ldexp(1, -6) : ldexp(1, tf32 ? -8 : -17);
}

static void compare(const KernelCall *call, double unit, const char *how) {
    KernelCall plain = *call;
    Error error = {0};
    for (int o = 0; o < call->nout; o++)
        plain.out[o].data = malloc((size_t)operand_bytes(&call->out[o]));
    cr_assert(cpu_reference_kernels[call->op](&plain, &error), "%s", error.text);
    for (int o = 0; o < call->nout; o++) {
        const DType dtype = call->out[o].dtype;
        const int64_t n = shape_elements(&call->out[o].local);
        double most = 0;
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, fabs(element_at(plain.out[o].data, dtype, i)));
        for (int64_t i = 0; i < n; i++) {
            const double found = element_at(call->out[o].data, dtype, i), right = element_at(plain.out[o].data, dtype, i);
            cr_assert(fabs(found - right) <= unit * most, "%s %s, result %d, element %lld of %lld: %.9g, plainly %.9g",
                      op_table[call->op].name, how, o, (long long)i, (long long)n, found, right);
        }
        free(plain.out[o].data);
    }
}

/* The results of a case, one after another, on a device of its own. */
static char *results_of(int number, OpCode op, DType dtype, bool tf32, int64_t *bytes) {
    const Check check = check_of(number, op, dtype);
    uint64_t random = 5 + (uint64_t)number;
    Device device;
    KernelCall call;
    Rule rule;
    Error error = {0};
    const DeviceModule *module = device_module(&error);
    cr_assert(module, "%s", error.text);
    cr_assert(device_open(&device, module->backend, &(DeviceOptions){.nlocal = 1, .nthreads = 1, .tf32 = tf32}, &error), "%s", error.text);
    check_open(&call, &check, &rule, true, &random);
    cr_assert(check_run(&device, &call, 0, false, &error), "%s", error.text);
    compare(&call, unit_of(dtype, tf32), tf32 ? "tf32" : dtype_name[dtype]);
    char *all = NULL;
    *bytes = 0;
    for (int o = 0; o < call.nout; o++) {
        const int64_t own = operand_bytes(&call.out[o]);
        all = realloc(all, (size_t)(*bytes + own));
        memcpy(all + *bytes, call.out[o].data, (size_t)own);
        *bytes += own;
    }
    call_close(&call);
    device_close(&device);
    return all;
}

/* Whether tf32 gives other bits than f32. */
static bool tf32_differs(int number, OpCode op) {
    int64_t n, m;
    char *in_f32 = results_of(number, op, F32, false, &n), *in_tf32 = results_of(number, op, F32, true, &m);
    cr_assert_eq(n, m);
    const bool differs = memcmp(in_f32, in_tf32, (size_t)n) != 0;
    free(in_f32);
    free(in_tf32);
    return differs;
}

Test(attention, with_tf32_it_is_computed_by_tensor_cores) {
    for (int c = 0; c < NCASES; c++) {
        cr_assert(tf32_differs(c, OP_dot_product_attention), "case %d", c);
        cr_assert(tf32_differs(c, OP_attention_grad), "case %d", c);
    }
}

Test(attention, tensor_cores_that_give_something_else_are_left_alone) {
    setenv("STANDIN_MMA", "swapped", 1);
    const char *name = getenv("PRUN_CUDA_MODULE");
    if (!name || !strstr(name, "standin")) return; /* where they are what they are */
    for (int c = 0; c < NCASES; c++) {
        int64_t bytes;
        cr_assert_not(tf32_differs(c, OP_dot_product_attention), "case %d", c);
        cr_assert_not(tf32_differs(c, OP_attention_grad), "case %d", c);
        free(results_of(c, OP_dot_product_attention, F16, false, &bytes));
        free(results_of(c, OP_dot_product_attention, BF16, false, &bytes));
    }
}
