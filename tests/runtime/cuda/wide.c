/* Programs of chains by hand: what a divisor finds and what a division of 64 bits finds is the same element. Chains of 2^31 elements, which
 * need the latter, are tested where there is a device that has room for them (elementwise.c). */
#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "runtime/cuda/kernels.h"

enum { ROWS = 7, MIDDLE = 6, INNER = 8, N = ROWS * MIDDLE * INNER };

/* The operand's dimensions the other way round: element (i, j, k) of the result is (k, j, i) of it; or the innermost as it is, in rows of
 * which each is read twice. */
static ChainLaunch program_of(const float *x, float *y, bool rows, bool wide) {
    ChainLaunch program = {.n = N, .dtype = KERNEL_F32, .nloads = 1, .nsteps = 1, .nstores = 1, .wide = wide};
    program.load[0] =
        (LaunchLoad){.data = x, .mode = rows ? CHAIN_ROWS : CHAIN_ANY, .dtype = KERNEL_F32, .ndim = 3, .size = {ROWS, MIDDLE, INNER}};
    const int64_t turned[3] = {1, ROWS, (int64_t)ROWS * MIDDLE}, repeated[3] = {INNER, 0, 1};
    memcpy(program.load[0].stride, rows ? repeated : turned, sizeof turned);
    for (int d = 0; d < 3; d++)
        program.load[0].divisor[d] = kernel_divisor(program.load[0].size[d]);
    program.step[0] = (LaunchStep){.op = ELEMENT_neg, .in = {0, CHAIN_RESULT, CHAIN_RESULT}, .slot = CHAIN_RESULT, .nstores = 1};
    program.store[0] = (LaunchStore){.data = y, .dtype = KERNEL_F32, .packed = 1};
    return program;
}

Test(wide, positions_are_found_by_divisors_and_by_divisions) {
    float host[N], seen[N], *x, *y;
    cr_assert_eq(cudaMalloc((void **)&x, sizeof host), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&y, sizeof host), cudaSuccess);
    for (int i = 0; i < N; i++)
        host[i] = (float)(i + 1);
    cr_assert_eq(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
    for (int variant = 0; variant < 4; variant++) {
        ChainLaunch program = program_of(x, y, variant & 1, variant & 2);
        cr_assert_eq(cudaMemset(y, 0, sizeof host), cudaSuccess);
        cr_assert_eq(kernels_chain(&program, NULL), cudaSuccess);
        cr_assert_eq(cudaMemcpy(seen, y, sizeof seen, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < MIDDLE; j++)
                for (int k = 0; k < INNER; k++) {
                    int from = variant & 1 ? i * INNER + k : (k * MIDDLE + j) * ROWS + i;
                    cr_assert_eq(seen[(i * MIDDLE + j) * INNER + k], -host[from], "variant %d, (%d, %d, %d)", variant, i, j, k);
                }
    }
    cudaFree(x);
    cudaFree(y);
}
