/* Elements looked up by integers. Indices are those of rows that are here, of rows that are elsewhere, and of none. */
#include "tests/runtime/cuda/fixture.h"
#include "tests/ops/check.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Additions are in the order of the indices within what a warp adds up: with few of them, exactly those of a loop in double. */
Test(index, the_gradient_of_a_table_adds_in_the_order_of_indices) {
    enum { N = 300, ROWS = 700 };
    float dy[N], table[ROWS];
    int32_t index[N];
    uint64_t random = 3;
    const Device *device = fixture_device();
    for (int i = 0; i < N; i++) {
        index[i] = (int32_t)(random_next(&random) % 5);
        dy[i] = (float)((double)(int64_t)(random_next(&random) % 2000001) - 1e6) * (i % 3 ? 1 : 1e-6f);
    }
    Rule rule;
    TensorType types[2] = {{F32, false, SHAPE(N, 1)}, {I32, false, SHAPE(N)}};
    Attr attr[MAX_ATTRS] = {INT(ROWS)};
    Error error;
    cr_assert(rule_infer(OP_embedding_grad, types, 2, attr, &rule, NULL));
    KernelCall call = {.op = OP_embedding_grad, .attr = attr, .nin = 2, .nout = 1, .rule = &rule};
    call.in[0] = (Operand){dy, F32, SHAPE(N, 1), SHAPE(N, 1), {.ndim = 2, .end = {N, 1}}};
    call.in[1] = (Operand){index, I32, SHAPE(N), SHAPE(N), {.ndim = 1, .end = {N}}};
    call.out[0] = (Operand){table, F32, SHAPE(ROWS, 1), SHAPE(ROWS, 1), {.ndim = 2, .end = {ROWS, 1}}};
    cr_assert(check_run(device, &call, 0, false, &error), "%s", error.text);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, size = 0;
        for (int i = 0; i < N; i++)
            if (index[i] == r) sum += dy[i], size += dy[i] < 0 ? -(double)dy[i] : dy[i];
        double difference = table[r] - sum;
        cr_assert((difference < 0 ? -difference : difference) <= 6e-8 * (size > 0 ? size : 1e-30), "row %d: %.9g, %.9g", r, table[r], sum);
    }
}
