/* Streams and events on the stand-in: late unless asked, and in no order that was not asked for. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/standin/kernels.h"
#include "tests/standin/standin.h"

enum { N = 64, BYTES = N * sizeof(float) };

typedef struct Fixture {
    cudaStream_t a, b;
    cudaEvent_t event;
    float *x, *y, *z; /* on the device: x is 1 */
    float *pinned;
} Fixture;

static Fixture fixture(void) {
    Fixture f;
    cr_assert_eq(cudaStreamCreateWithFlags(&f.a, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaStreamCreateWithFlags(&f.b, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaEventCreate(&f.event), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&f.x, BYTES), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&f.y, BYTES), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&f.z, BYTES), cudaSuccess);
    cr_assert_eq(cudaMallocHost((void **)&f.pinned, BYTES), cudaSuccess);
    float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    cr_assert_eq(cudaMemcpy(f.x, ones, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
    return f;
}

/* y = 2 x on a, z = 3 y on b; z's first element. */
static float chained(Fixture *f, int with_event) {
    launch_scale(f->y, f->x, 2, N, f->a);
    cr_assert_eq(cudaEventRecord(f->event, f->a), cudaSuccess);
    if (with_event) cr_assert_eq(cudaStreamWaitEvent(f->b, f->event, 0), cudaSuccess);
    launch_scale(f->z, f->y, 3, N, f->b);
    cr_assert_eq(cudaMemcpyAsync(f->pinned, f->z, BYTES, cudaMemcpyDeviceToHost, f->b), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(f->b), cudaSuccess);
    return f->pinned[0];
}

Test(stream, a_wait_for_an_event_orders_two_streams) {
    Fixture f = fixture();
    cr_assert_eq(chained(&f, 1), 6);
}

Test(stream, a_missing_wait_gives_poison) {
    Fixture f = fixture();
    cr_assert(isnan(chained(&f, 0)));
}

Test(stream, eager_order_hides_a_missing_wait) {
    setenv("STANDIN_ORDER", "eager", 1);
    Fixture f = fixture();
    cr_assert_eq(chained(&f, 0), 6);
}

Test(stream, random_order_keeps_what_events_order) {
    setenv("STANDIN_ORDER", "random:3", 1);
    Fixture f = fixture();
    for (int i = 0; i < 20; i++)
        cr_assert_eq(chained(&f, 1), 6);
}

Test(stream, nothing_runs_before_it_is_asked_for) {
    Fixture f = fixture();
    int64_t before = standin_counts().run;
    launch_scale(f.y, f.x, 2, N, f.a);
    launch_scale(f.z, f.x, 2, N, f.b);
    cr_assert_eq(standin_counts().run, before);
    cr_assert_eq(cudaStreamSynchronize(f.b), cudaSuccess);
    cr_assert_eq(standin_counts().run, before + 1, "and then only what was");
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_assert_eq(standin_counts().run, before + 2);
}

Test(stream, page_locked_memory_is_read_late_and_pageable_memory_at_once) {
    Fixture f = fixture();
    float pageable[N], back[N];
    for (int i = 0; i < N; i++)
        pageable[i] = f.pinned[i] = 5;
    cr_assert_eq(cudaMemcpyAsync(f.y, pageable, BYTES, cudaMemcpyHostToDevice, f.a), cudaSuccess);
    cr_assert_eq(cudaMemcpyAsync(f.z, f.pinned, BYTES, cudaMemcpyHostToDevice, f.a), cudaSuccess);
    pageable[0] = f.pinned[0] = 7;
    cr_assert_eq(cudaMemcpyAsync(back, f.y, BYTES, cudaMemcpyDeviceToHost, f.a), cudaSuccess);
    cr_assert_eq(back[0], 5, "and a copy to pageable memory is done when the call is");
    cr_assert_eq(cudaMemcpyAsync(back, f.z, BYTES, cudaMemcpyDeviceToHost, f.a), cudaSuccess);
    cr_assert_eq(back[0], 7);
}

Test(stream, the_null_stream_waits_for_blocking_streams_only) {
    Fixture f = fixture();
    cudaStream_t blocking;
    float back[N];
    cr_assert_eq(cudaStreamCreate(&blocking), cudaSuccess);
    launch_scale(f.y, f.x, 2, N, blocking);
    cr_assert_eq(cudaMemcpy(back, f.y, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert_eq(back[0], 2);
    launch_scale(f.z, f.x, 2, N, f.a);
    cr_assert_eq(cudaMemcpy(back, f.z, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert(isnan(back[0]));
}

Test(stream, a_query_makes_progress_and_says_so_later) {
    Fixture f = fixture();
    launch_scale(f.y, f.x, 2, N, f.a);
    cr_assert_eq(cudaStreamQuery(f.a), cudaErrorNotReady);
    cr_assert_eq(cudaGetLastError(), cudaErrorNotReady, "a query's answer is an error to CUDA");
    cr_assert_eq(cudaStreamQuery(f.a), cudaSuccess);
    cr_assert_eq(cudaEventQuery(f.event), cudaSuccess, "an event never recorded is done");
}

Test(stream, events_measure_time_once_they_are_done) {
    Fixture f = fixture();
    cudaEvent_t end;
    float ms = -1;
    cr_assert_eq(cudaEventCreate(&end), cudaSuccess);
    cr_assert_eq(cudaEventElapsedTime(&ms, f.event, end), cudaErrorInvalidResourceHandle, "never recorded");
    cudaEventRecord(f.event, f.a);
    launch_scale(f.y, f.x, 2, N, f.a);
    cudaEventRecord(end, f.a);
    cr_assert_eq(cudaEventElapsedTime(&ms, f.event, end), cudaErrorNotReady);
    cr_assert_eq(cudaEventSynchronize(end), cudaSuccess);
    cr_assert_eq(cudaEventElapsedTime(&ms, f.event, end), cudaSuccess);
    cr_assert_geq(ms, 0);
}

static void call_cuda(void *error) {
    void *p;
    *(cudaError_t *)error = cudaMalloc(&p, 4);
}

Test(stream, a_host_function_runs_in_order_and_may_not_call) {
    Fixture f = fixture();
    cudaError_t error = cudaSuccess;
    cr_assert_eq(cudaLaunchHostFunc(f.a, call_cuda, &error), cudaSuccess);
    cr_assert_eq(error, cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaSuccess);
    cr_assert_eq(error, cudaErrorNotPermitted);
}

Test(stream, what_a_destroyed_stream_held_still_runs) {
    Fixture f = fixture();
    float back[N];
    launch_scale(f.y, f.x, 2, N, f.a);
    cr_assert_eq(cudaStreamDestroy(f.a), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaErrorInvalidResourceHandle);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_assert_eq(cudaMemcpy(back, f.y, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert_eq(back[0], 2);
}

Test(stream, faults_strike_the_call_or_the_operation_that_is_named) {
    setenv("STANDIN_FAIL", "cudaStreamSynchronize:2:999;run:scale<float, 4>:3:700", 1);
    Fixture f = fixture();
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaErrorUnknown);
    cr_assert_eq(cudaGetLastError(), cudaErrorUnknown);
    cr_assert_eq(cudaGetLastError(), cudaSuccess);
    for (int i = 0; i < 3; i++) {
        launch_scale(f.y, f.x, 2, N, f.a);
        cr_assert_eq(cudaStreamSynchronize(f.a), i < 2 ? cudaSuccess : cudaErrorIllegalAddress);
    }
    cr_assert_eq(cudaStreamSynchronize(f.b), cudaErrorIllegalAddress);
}
