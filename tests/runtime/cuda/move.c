/* Elements brought to other places: planes, permutations, copies of boxes, expansions, tensors behind each other. Every byte must be right, so tolerances are 0. */
#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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
            if (random_next(&random) % 3)
                at[0] = (int64_t)(random_next(&random) % (uint64_t)size),
                at[1] = at[0] + 1 + (int64_t)(random_next(&random) % (uint64_t)(size - at[0]));
            at[2] = at[0], at[3] = at[1];
            if (random_next(&random) % 3)
                at[2] += (int64_t)(random_next(&random) % (uint64_t)(at[1] - at[0])),
                    at[3] = at[2] + (int64_t)(random_next(&random) % (uint64_t)(at[1] - at[2] + 1));
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
    Operand in = {x, F32, SHAPE(4), SHAPE(8), {.ndim = 1, .begin = {0}, .end = {4}}},
            out = {y, F32, SHAPE(2), SHAPE(8), {.ndim = 1, .begin = {3}, .end = {5}}};
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
