/* The kernels of a backend against the plain ones: every operator that plans hold, every element type of it, whole tensors and boxes of them, results in their operands'
 * place where that is allowed. The backend is the CPU's, with one thread and with three, or that of the module which PRUN_CUDA_MODULE names, with
 * PRUN_TEST_DEVICE=cuda. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/cases.h"
#include "tests/ops/device.h"

/* Composites are gone from plans, inputs and states are where the executor put them. */
static bool is_run(OpCode op) {
    return !op_table[op].expand && op != OP_input && op != OP_read;
}

/* Opened once with each number of threads: a test is a process of its own. */
static const Device *device_of(int nthreads) {
    static Device devices[4];
    Device *device = &devices[nthreads];
    Error error;
    if (!device->backend) cr_assert(test_device_open(device, nthreads, &error), "%s", error.text);
    return device;
}

/* PCC_OPS_EVERY=5: each fifth case of a group, from the first on. */
static void check_threads(void *context, const Check *check) {
    static int ncases;
    const char *every = getenv("PCC_OPS_EVERY");
    const bool cpu = device_of(1)->backend == &backend_cpu;
    if (every && ncases++ % atoi(every) != 0) return;
    (void)context;
    if (cpu && check->fast) return; /* minutes of the plain kernel */
    check_all(device_of(1), check);
    if (cpu) check_all(device_of(3), check);
}

#define GROUP(name)                                                                                                                        \
    Test(kernels, name##_equal_the_plain_ones, .timeout = 600) {                                                                           \
        cases_##name(check_threads, NULL);                                                                                                 \
    }
CASE_GROUPS(GROUP)

/* Random specs: any two operands over up to five letters, every arrangement of them, results over any of the letters. */
Test(kernels, einsum_of_any_letters_equals_the_plain_one, .timeout = 600) {
    uint64_t random = 11;
    int tried = 0;
    for (int trial = 0; trial < 2000; trial++) {
        int64_t size[5];
        char text[2][6] = {"", ""}, result[6] = "", spec[24];
        bool seen[5] = {false};
        Check check = {.op = OP_einsum, .dtype = F64, .nin = 2, .length = 625, .size = 25};
        for (int l = 0; l < 5; l++)
            size[l] = 1 + (int64_t)(random_next(&random) % 5);
        for (int i = 0; i < 2; i++) {
            bool used[5] = {false};
            for (int n = (int)(random_next(&random) % 5); n > 0; n--) {
                int l = (int)(random_next(&random) % 5);
                if (used[l]) continue;
                used[l] = seen[l] = true;
                check.in[i].dim[check.in[i].ndim++] = size[l];
                text[i][strlen(text[i])] = (char)('a' + l);
            }
        }
        for (int n = (int)(random_next(&random) % 5); n > 0; n--) {
            int l = (int)(random_next(&random) % 5);
            if (seen[l] && !strchr(result, 'a' + l)) result[strlen(result)] = (char)('a' + l);
        }
        snprintf(spec, sizeof spec, "%s,%s->%s", text[0], text[1], result);
        check.attr[0] = (Attr){.given = true, .text = spec};
        TensorType types[2] = {{check.dtype, false, check.in[0]}, {check.dtype, false, check.in[1]}};
        Rule rule;
        if (!rule_infer(OP_einsum, types, 2, check.attr, &rule, NULL)) continue;
        tried++;
        check_call(device_of(1), &check, trial % 2 == 0, &random);
    }
    cr_assert_gt(tried, 1000);
}

static void mark(void *context, const Check *check) {
    ((bool *)context)[check->op] = true;
}

Test(kernels, every_operator_has_one_and_a_case) {
    bool seen[NOPS] = {[OP_constant] = true, [OP_convert] = true, [OP_write] = true}; /* which work on no operands, on boxes, on states */
#define MARK(name) cases_##name(mark, seen);
    CASE_GROUPS(MARK)
    for (int op = 0; op < NOPS; op++) {
        cr_assert(device_of(1)->backend->kernels[op], "%s", op_table[op].name);
        cr_assert(seen[op] || !is_run((OpCode)op), "%s", op_table[op].name);
    }
}

/* ---------------------------------------------------------------- random shapes */

static Shape draw_shape(uint64_t *random, int least) {
    const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33};
    Shape shape = {.ndim = least + (int)random_below(random, 5 - least)};
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) {
        int64_t size = sizes[random_below(random, sizeof sizes / sizeof *sizes)];
        shape.dim[d] = n * size <= 6000 ? size : 1;
        n *= shape.dim[d];
    }
    return shape;
}

/* Sizes of 1 and dimensions left out, which are broadcast. */
static Shape random_part(uint64_t *random, Shape shape) {
    Shape part = {.ndim = shape.ndim == 0 ? 0 : (int)random_below(random, shape.ndim + 1)};
    for (int d = 0; d < part.ndim; d++) {
        int64_t size = shape.dim[d + shape.ndim - part.ndim];
        part.dim[d] = random_below(random, 3) ? size : 1;
    }
    return part;
}

static Attr random_axes(uint64_t *random, int ndim) {
    Attr axes = {.given = random_below(random, 4) != 0};
    for (int d = 0; d < ndim && axes.given; d++)
        if (random_below(random, 2)) axes.ints[axes.n++] = random_below(random, 2) ? d : d - ndim;
    if (axes.n == 0) axes.given = false;
    return axes;
}

/* Operands and attributes for an operator of this table, -1: of another kind. */
static bool random_check(Check *check, OpCode op, uint64_t *random) {
    Shape x = draw_shape(random, 1);
    *check = (Check){.op = op, .nin = 1, .in = {x}};
    switch ((int)op) {
    case OP_sum:
    case OP_mean:
    case OP_max:
    case OP_min:
        check->attr[0] = random_axes(random, x.ndim);
        check->attr[1] = (Attr)INT(random_below(random, 2));
        return true;
    case OP_softmax:
    case OP_log_softmax:
    case OP_first:
        check->attr[0] = (Attr)INT(random_below(random, 2 * x.ndim) - x.ndim);
        return true;
    case OP_softmax_grad:
    case OP_log_softmax_grad:
        check->nin = 2;
        check->in[1] = x;
        check->attr[0] = (Attr)INT(random_below(random, 2 * x.ndim) - x.ndim);
        check->length = (double)x.dim[(check->attr[0].i + x.ndim) % x.ndim];
        check->size = 3 * sqrt(check->length); /* as in cases.c */
        return true;
    case OP_transpose:
        check->attr[0] = (Attr){.given = true, .n = x.ndim};
        for (int d = 0; d < x.ndim; d++) {
            int at = (int)random_below(random, d + 1);
            check->attr[0].ints[d] = check->attr[0].ints[at];
            check->attr[0].ints[at] = d;
        }
        return true;
    case OP_slice:
        check->attr[0] = check->attr[1] = (Attr){.given = true, .n = x.ndim};
        for (int d = 0; d < x.ndim; d++) {
            check->attr[0].ints[d] = random_below(random, x.dim[d]);
            check->attr[1].ints[d] = check->attr[0].ints[d] + 1 + random_below(random, x.dim[d] - check->attr[0].ints[d]);
        }
        return true;
    case OP_concat: {
        int axis = (int)random_below(random, x.ndim);
        check->nin = 2 + (int)random_below(random, 7);
        check->attr[0] = (Attr)INT(axis);
        for (int i = 1; i < check->nin; i++) {
            check->in[i] = x;
            check->in[i].dim[axis] = 1 + random_below(random, 9);
        }
        return true;
    }
    case OP_split: {
        int axis = (int)random_below(random, x.ndim), parts = 2 + (int)random_below(random, 7);
        check->in[0].dim[axis] = parts * (1 + random_below(random, 5));
        check->attr[0] = (Attr)INT(parts);
        check->attr[1] = (Attr)INT(axis);
        return true;
    }
    case OP_pick:
        check->nin = 2;
        check->in[1] = x;
        check->in[1].ndim--;
        check->most = x.dim[x.ndim - 1];
        return true;
    case OP_embedding: {
        int64_t rows = 1 + random_below(random, 50), width = 1 + random_below(random, 40);
        check->nin = 2;
        check->in[0] = SHAPE(rows, width);
        check->in[1] = draw_shape(random, 0);
        for (int64_t d = 0, n = 1; d < check->in[1].ndim; n *= check->in[1].dim[d++])
            if (n * check->in[1].dim[d] > 200) check->in[1].dim[d] = 1;
        check->most = rows;
        return true;
    }
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_less:
    case OP_equal:
        check->nin = 2;
        check->in[1] = random_part(random, x);
        if (random_below(random, 2)) check->in[0] = check->in[1], check->in[1] = x;
        return true;
    case OP_where:
        check->nin = 3;
        check->in[0] = random_part(random, x);
        check->in[1] = x;
        check->in[2] = random_part(random, x);
        return true;
    default:
        return false;
    }
}

Test(kernels, random_shapes_equal_the_plain_ones, .timeout = 600) {
    uint64_t random = 11;
    int ran = 0;
    for (int round = 0; round < 25; round++)
        for (int op = 0; op < NOPS; op++) {
            Check check;
            if (!random_check(&check, (OpCode)op, &random)) continue;
            do
                check.dtype = (DType)random_below(&random, NDTYPES);
            while (!(op_table[op].dtypes & 1u << check.dtype));
            check_call(device_of(1), &check, round % 2 == 0, &random);
            ran++;
        }
    cr_assert(ran > 400);
}
