/* Elements brought to other places: planes, permutations, copies of boxes, expansions, tensors behind each other. Every byte must be right, so tolerances are 0. */
#include "tests/cuda/check.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(move, transposes_of_two_dimensions) {
    const Shape x[] = {SHAPE(8, 6), SHAPE(301, 203), SHAPE(64, 64), SHAPE(128, 96), SHAPE(1, 7), SHAPE(7, 1), SHAPE(4, 1000), SHAPE(66, 68)};
    const Device *device = fixture_device();
    for (size_t s = 0; s < sizeof x / sizeof *x; s++)
        check_all(device, &(Check){.op = OP_transpose, .nin = 1, .in = {x[s]}});
}

Test(move, transposes_by_every_permutation) {
    const Shape x[] = {SHAPE(2, 3, 4, 5), SHAPE(16, 2, 12, 8), SHAPE(9, 17, 2, 1)};
    const Device *device = fixture_device();
    for (size_t s = 0; s < sizeof x / sizeof *x; s++)
        for (int code = 0; code < 256; code++) {
            int64_t p[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
            int seen = 0;
            for (int d = 0; d < 4; d++)
                seen |= 1 << p[d];
            if (seen == 15) check_all(device, &(Check){.op = OP_transpose, .nin = 1, .in = {x[s]}, .attr = {INTS(p[0], p[1], p[2], p[3])}});
        }
}

Test(move, expansions) {
    const OpCode ops[] = {OP_sum_grad, OP_mean_grad};
    const Device *device = fixture_device();
    for (int op = 0; op < 2; op++) {
        check_all(device, &(Check){.op = ops[op], .nin = 1, .in = {SCALAR}, .attr = {{0}, INTS(8, 6)}});
        check_all(device, &(Check){.op = ops[op], .nin = 1, .in = {SHAPE(6)}, .attr = {INTS(0), INTS(8, 6)}});
        check_all(device, &(Check){.op = ops[op], .nin = 1, .in = {SHAPE(16)}, .attr = {INTS(0), INTS(9, 16)}});
        check_all(device, &(Check){.op = ops[op], .nin = 1, .in = {SHAPE(8, 1)}, .attr = {INTS(1), INTS(8, 6)}});
        check_all(device, &(Check){.op = ops[op], .nin = 1, .in = {SHAPE(30)}, .attr = {INTS(1), INTS(30, 200)}});
        check_all(device, &(Check){.op = ops[op], .nin = 1, .in = {SHAPE(4, 5)}, .attr = {INTS(1), INTS(4, 7, 5)}});
    }
    check_all(device, &(Check){.op = OP_reshape, .nin = 1, .in = {SHAPE(4, 6, 3)}, .attr = {INTS(8, 9)}});
    check_all(device, &(Check){.op = OP_reshape, .nin = 1, .in = {SHAPE(400, 31)}, .attr = {INTS(-1)}});
    check_all(device, &(Check){.op = OP_stop_gradient, .nin = 1, .in = {SHAPE(20, 11)}});
    check_all(device, &(Check){.op = OP_replicate, .nin = 1, .in = {SHAPE(4, 6)}, .attr = {INT(5)}});
    check_all(device, &(Check){.op = OP_replicate, .nin = 1, .in = {SCALAR}, .attr = {INT(64)}});
}

Test(move, cuts_and_joints) {
    const Device *device = fixture_device();
    check_all(device, &(Check){.op = OP_slice, .nin = 1, .in = {SHAPE(8, 6)}, .attr = {INTS(0, 2), INTS(8, 5)}});
    check_all(device, &(Check){.op = OP_slice, .nin = 1, .in = {SHAPE(8, 6, 5)}, .attr = {INTS(-3, 0, 1), INTS(-1, 6, 2)}});
    check_all(device, &(Check){.op = OP_slice, .nin = 1, .in = {SHAPE(40, 32)}, .attr = {INTS(0, 16), INTS(40, 32)}});
    check_all(device, &(Check){.op = OP_slice_grad, .nin = 1, .in = {SHAPE(8, 3)}, .attr = {INTS(0, 2), INTS(8, 5), INTS(8, 6)}});
    check_all(device, &(Check){.op = OP_slice_grad, .nin = 1, .in = {SHAPE(2, 6, 1)}, .attr = {INTS(-3, 0, 1), INTS(-1, 6, 2), INTS(8, 6, 5)}});
    for (int axis = -3; axis < 3; axis++) {
        Check concat = {.op = OP_concat, .nin = 4, .attr = {INT(axis)}}, even = {.op = OP_concat, .nin = 8, .attr = {INT(axis)}};
        for (int i = 0; i < 8; i++) {
            concat.in[i] = SHAPE(4, 10, 25);
            concat.in[i].dim[(axis + 3) % 3] = 1 + 7 * i;
            even.in[i] = SHAPE(4, 8, 16);
        }
        check_all(device, &concat);
        check_all(device, &even);
        check_all(device, &(Check){.op = OP_split, .nin = 1, .in = {SHAPE(16, 24, 40)}, .attr = {INT(8), INT(axis)}});
        check_all(device, &(Check){.op = OP_split, .nin = 1, .in = {SHAPE(3, 9, 21)}, .attr = {INT(3), INT(axis)}});
    }
}

/* The local step of a redistribution: a random box of a random box. */
Test(move, converts_boxes_of_boxes) {
    uint64_t random = 5;
    const Device *device = fixture_device();
    for (int trial = 0; trial < 150; trial++) {
        Operand in = {.dtype = (DType)(trial % NDTYPES)}, out;
        int ndim = (int)(random_next(&random) % 5);
        in.global.ndim = in.local.ndim = in.box.ndim = ndim;
        out = in;
        for (int d = 0; d < ndim; d++) {
            int64_t size = 1 + (int64_t)(random_next(&random) % 24);
            int64_t at[4] = {0, size, 0, size}; /* the operand's box, the result's within it; each whole in a third of the trials */
            if (random_next(&random) % 3) at[0] = (int64_t)(random_next(&random) % (uint64_t)size), at[1] = at[0] + 1 + (int64_t)(random_next(&random) % (uint64_t)(size - at[0]));
            at[2] = at[0], at[3] = at[1];
            if (random_next(&random) % 3) at[2] += (int64_t)(random_next(&random) % (uint64_t)(at[1] - at[0])), at[3] = at[2] + (int64_t)(random_next(&random) % (uint64_t)(at[1] - at[2] + 1));
            in.global.dim[d] = out.global.dim[d] = size;
            in.box.begin[d] = at[0], in.box.end[d] = at[1], in.local.dim[d] = at[1] - at[0];
            out.box.begin[d] = at[2], out.box.end[d] = at[3], out.local.dim[d] = at[3] - at[2];
        }
        in.data = malloc((size_t)shape_elements(&in.local) * 8 + 8);
        out.data = malloc((size_t)shape_elements(&out.local) * 8 + 8);
        check_fill(&in, &(Check){.op = OP_convert}, false, &random);
        KernelCall call = {.op = OP_convert, .nin = 1, .nout = 1, .in = {in}, .out = {out}};
        Error error;
        cr_assert(check_run(device, &call, (int)(random_next(&random) % 4), false, &error), "%s", error.text);
        check_results(cpu_reference_kernels, &call, 1, 1, "");
        free(in.data);
        free(out.data);
    }
}

Test(move, a_slice_outside_its_operand_is_refused) {
    float x[4] = {0}, y[2];
    const Device *device = fixture_device();
    Operand in = {x, F32, SHAPE(4), SHAPE(8), {.ndim = 1, .begin = {0}, .end = {4}}}, out = {y, F32, SHAPE(2), SHAPE(8), {.ndim = 1, .begin = {3}, .end = {5}}};
    KernelCall call = {.op = OP_convert, .nin = 1, .nout = 1, .in = {in}, .out = {out}};
    Error error;
    cr_assert_not(check_run(device, &call, 0, false, &error));
    cr_assert(strstr(error.text, "[3, 5) of dimension 0 is not within [0, 4)"), "%s", error.text);
}

Test(move, constants_of_every_type) {
    const Device *device = fixture_device();
    for (int dtype = 0; dtype < NDTYPES; dtype++)
        for (int64_t n = 0; n < 2000; n = n * 3 + 1) {
            double memory[2000];
            Attr attr[MAX_ATTRS] = {{.given = true, .f = 1}};
            KernelCall call = {.op = OP_constant, .attr = attr, .nout = 1, .out = {{memory, (DType)dtype, SHAPE(n), SHAPE(n), {0}}}};
            Error error;
            cr_assert(check_run(device, &call, (int)(n % 4), false, &error), "%s", error.text);
            check_results(cpu_reference_kernels, &call, 1, 1, "");
        }
}
