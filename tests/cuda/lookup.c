/* Elements looked up by integers. Indices are those of rows that are here, of rows that are elsewhere, and of none. */
#include "tests/cuda/check.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(index, picks_and_places) {
    const Device *device = fixture_device();
    check_all(device, &(Check){.op = OP_pick, .nin = 2, .in = {SHAPE(8, 6), SHAPE(8)}, .most = 6});
    check_all(device, &(Check){.op = OP_pick, .nin = 2, .in = {SHAPE(5), SCALAR}, .most = 5});
    check_all(device, &(Check){.op = OP_pick, .nin = 2, .in = {SHAPE(40, 50, 9), SHAPE(40, 50)}, .most = 9});
    for (int64_t n = 1; n < 40; n += 7) {
        check_all(device, &(Check){.op = OP_pick_grad, .nin = 2, .in = {SHAPE(8), SHAPE(8)}, .attr = {INT(n)}, .most = n});
        check_all(device, &(Check){.op = OP_pick_grad, .nin = 2, .in = {SHAPE(20, 10), SHAPE(20, 10)}, .attr = {INT(n + 1)}, .most = n + 1});
        for (int to = 0; to < NDTYPES; to++)
            check_all(device, &(Check){.op = OP_one_hot, .nin = 1, .in = {SHAPE(9, 40)}, .attr = {INT(n + n % 2), {.given = true, .text = dtype_name[to]}}, .most = n});
    }
}

Test(index, tables) {
    const Device *device = fixture_device();
    check_all(device, &(Check){.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 6), SHAPE(8)}, .most = 40});
    check_all(device, &(Check){.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 33), SHAPE(70, 30)}, .most = 40});
    check_all(device, &(Check){.op = OP_embedding, .nin = 2, .in = {SHAPE(40, 64), SHAPE(70)}, .most = 40});
    check_all(device, &(Check){.op = OP_embedding, .nin = 2, .in = {SHAPE(4, 3), SCALAR}, .most = 4});
}

/* Few rows looked up by many, by all or by none; many rows; wide rows; more of one row than a block notes at once. */
Test(index, gradients_of_tables) {
    const int64_t cases[][4] = {/* rows, indices, width, indices are below */ {40, 8, 6, 40},   {40, 2100, 33, 40}, {3, 9000, 5, 3},   {1, 5000, 40, 1},
                                {5000, 30, 3, 5000}, {2000, 4100, 9, 2000}, {70, 600, 200, 70}, {9, 100, 1000, 9},  {40, 6000, 7, 1}, {100, 1, 64, 100}, {1, 20000, 3, 1}};
    const Device *device = fixture_device();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int64_t *at = cases[c];
        check_all(device, &(Check){.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(at[1], at[2]), SHAPE(at[1])}, .attr = {INT(at[0])}, .most = at[3], .length = (double)at[1]});
    }
    check_all(device, &(Check){.op = OP_embedding_grad, .nin = 2, .in = {SHAPE(7, 30, 13), SHAPE(7, 30)}, .attr = {INT(40)}, .most = 40, .length = 210});
}

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
