/* The whole operator table on the device against the CPU's plain kernels: every operator that plans hold, every element type of it, whole tensors and boxes of them,
 * and random shapes. What one kernel's ways of going about it are is tested beside this file. */
#include "tests/cuda/check.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/proof/trials.h"

/* Composites are gone from plans, inputs and states are where the executor put them. */
static bool is_run(OpCode op) {
    return !op_table[op].expand && op != OP_input && op != OP_read;
}

Test(kernels, every_operator_has_one) {
    Error error;
    const DeviceModule *module = device_module(&error);
    cr_assert(module, "%s", error.text);
    for (int op = 0; op < NOPS; op++)
        cr_assert(module->backend->kernels[op], "%s", op_table[op].name);
}

Test(kernels, what_plans_do_not_hold_is_refused) {
    const Device *device = fixture_device();
    for (int op = 0; op < NOPS; op++) {
        KernelCall call = {.op = (OpCode)op, .attr = (Attr[MAX_ATTRS]){{0}}, .context = device->context};
        Error error = {0};
        if (!is_run((OpCode)op)) cr_assert(!device->backend->kernels[op](&call, &error) && strstr(error.text, op_table[op].name), "%s", op_table[op].name);
    }
}

/* A trial as kernels see it: without its hidden dimension but at the boundary. Indices are of up to 7 rows. */
static Check check_of(const Trial *trial) {
    Check check = {.op = trial->op, .nin = trial->nin, .hidden = trial->hidden && op_table[trial->op].boundary, .most = 7};
    const OpCode positive[] = {OP_log, OP_sqrt, OP_rsqrt, OP_div, OP_sqrt_grad, OP_adam, OP_adamw, OP_clip};
    memcpy(check.in, trial->in, sizeof check.in);
    memcpy(check.attr, trial->attr, sizeof check.attr);
    for (int i = 0; i < check.nin && trial->hidden && !check.hidden; i++)
        memmove(check.in[i].dim, check.in[i].dim + 1, (size_t)--check.in[i].ndim * sizeof check.in[i].dim[0]);
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        check.positive = check.positive || positive[i] == trial->op;
    return check;
}

Test(kernels, every_operator_equals_the_plain_one, .timeout = 300) {
    bool seen[NOPS] = {false};
    const Device *device = fixture_device();
    for (int t = 0; t < ntrials; t++) {
        Check check = check_of(&trials[t]);
        if (!is_run(trials[t].op)) continue;
        seen[trials[t].op] = true;
        for (int repeat = 0; repeat < 3; repeat++)
            check_all(device, &check);
    }
    /* These have no trial: their tests are in move.c. */
    seen[OP_constant] = seen[OP_convert] = seen[OP_write] = true;
    for (int op = 0; op < NOPS; op++)
        cr_assert(seen[op] || !is_run((OpCode)op), "%s", op_table[op].name);
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
    case OP_sum: case OP_mean: case OP_max: case OP_min:
        check->attr[0] = random_axes(random, x.ndim);
        check->attr[1] = (Attr)INT(random_below(random, 2));
        return true;
    case OP_softmax: case OP_log_softmax: case OP_first:
        check->attr[0] = (Attr)INT(random_below(random, 2 * x.ndim) - x.ndim);
        return true;
    case OP_softmax_grad: case OP_log_softmax_grad:
        check->nin = 2;
        check->in[1] = x;
        check->attr[0] = (Attr)INT(random_below(random, 2 * x.ndim) - x.ndim);
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
    case OP_add: case OP_sub: case OP_mul: case OP_less: case OP_equal:
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
    const Device *device = fixture_device();
    for (int round = 0; round < 25; round++)
        for (int op = 0; op < NOPS; op++) {
            Check check;
            if (!random_check(&check, (OpCode)op, &random)) continue;
            do
                check.dtype = (DType)random_below(&random, NDTYPES);
            while (!(op_table[op].dtypes & 1u << check.dtype));
            check_call(device, &check, round % 2 == 0, &random);
            ran++;
        }
    cr_assert(ran > 400);
}
