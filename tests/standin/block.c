/* Kernels on the stand-in: threads, shuffles, barriers, and what is said of those that go wrong. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/standin/kernels.h"

static void *on_device(const void *data, size_t bytes) {
    void *p = NULL;
    cr_assert_eq(cudaMalloc(&p, bytes), cudaSuccess);
    if (data) cr_assert_eq(cudaMemcpy(p, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

static void on_host(void *to, const void *from, size_t bytes) {
    cr_assert_eq(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

Test(block, a_strided_loop_over_float4_reaches_every_element) {
    enum { N = 4000 };
    float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    float *dx = on_device(x, sizeof x), *dy = on_device(NULL, sizeof y);
    launch_scale(dy, dx, 3, N, NULL);
    on_host(y, dy, sizeof y);
    for (int i = 0; i < N; i++)
        cr_assert_eq(y[i], 3 * x[i], "element %d", i);
}

static void check_sums(void) {
    enum { N = 5000, BLOCKS = 3 };
    float x[N], sums[BLOCKS], total = 0;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 7), total += x[i];
    float *dx = on_device(x, sizeof x), *dsums = on_device(NULL, sizeof sums);
    launch_sums(dsums, dx, N, BLOCKS, NULL);
    on_host(sums, dsums, sizeof sums);
    cr_assert_eq(sums[0] + sums[1] + sums[2], total);
}

Test(block, shuffles_and_barriers_sum_a_block) {
    check_sums();
}

Test(block, the_order_of_threads_changes_no_sum) {
    setenv("STANDIN_ORDER", "random:7", 1);
    check_sums();
}

Test(block, a_missing_barrier_shows) {
    enum { N = 64 };
    int in[N], out[N];
    for (int barrier = 1; barrier >= 0; barrier--) {
        for (int i = 0; i < N; i++)
            in[i] = 100 * barrier + i;
        int *din = on_device(in, sizeof in), *dout = on_device(NULL, sizeof out);
        launch_reverse(dout, din, N, barrier, NULL);
        on_host(out, dout, sizeof out);
        int right = 0;
        for (int i = 0; i < N; i++)
            right += out[i] == in[N - 1 - i];
        if (barrier)
            cr_assert_eq(right, N);
        else
            cr_assert_lt(right, N);
    }
}

Test(block, atomics_and_votes_count_threads) {
    unsigned counts[3] = {0};
    unsigned *d = on_device(counts, sizeof counts);
    launch_counts(d, 5, 96, NULL);
    on_host(counts, d, sizeof counts);
    cr_assert_eq(counts[0], 480);
    cr_assert_eq(counts[1], 95 * 5 + 4);
    cr_assert_eq(counts[2], 16);
}

Test(block, a_thread_that_ends_while_others_wait_is_an_error) {
    launch_divergent(64, NULL);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess, "all wait");
    launch_divergent(40, NULL);
    cr_assert_eq(cudaGetLastError(), cudaSuccess, "a launch says nothing of what is to come");
    cr_assert_eq(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    cr_assert_eq(cudaMalloc((void **)&(void *){NULL}, 4), cudaErrorLaunchFailure, "for good");
}

Test(block, a_lane_of_the_mask_that_does_not_come_is_an_error) {
    int *out = on_device(NULL, 32 * sizeof *out);
    launch_absent_lane(out, NULL);
    cr_assert_eq(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
}

Test(block, an_access_at_no_multiple_of_its_size_is_an_error) {
    enum { N = 64 };
    float *x = on_device(NULL, 2 * N * sizeof *x), *y = on_device(NULL, 2 * N * sizeof *y);
    launch_scale(y + 4, x + 8, 2, N, NULL);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    launch_scale(y, x + 2, 2, N, NULL);
    cr_assert_eq(cudaDeviceSynchronize(), cudaErrorMisalignedAddress);
}

Test(block, launches_keep_to_the_limits) {
    cr_assert_eq(launch_nothing(65535, 1024), cudaSuccess);
    cr_assert_eq(launch_nothing(1, 1025), cudaErrorInvalidConfiguration);
    cr_assert_eq(launch_nothing(65536, 1), cudaErrorInvalidConfiguration);
    cr_assert_eq(launch_nothing(0, 1), cudaErrorInvalidConfiguration);
}
