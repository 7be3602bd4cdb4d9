/* Graphs on the stand-in: what a capture takes, what spoils it, and launches. */
#include <criterion/criterion.h>

#include "tests/standin/kernels.h"
#include "tests/standin/standin.h"

enum { N = 64, BYTES = N * sizeof(float) };

typedef struct Fixture {
    cudaStream_t a, b;
    cudaEvent_t fork, join;
    float *x, *y, *z;
} Fixture;

static Fixture fixture(void) {
    Fixture f;
    cudaStreamCreateWithFlags(&f.a, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&f.b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&f.fork, cudaEventDisableTiming), cudaEventCreateWithFlags(&f.join, cudaEventDisableTiming);
    cudaMalloc((void **)&f.x, BYTES), cudaMalloc((void **)&f.y, BYTES);
    cr_assert_eq(cudaMalloc((void **)&f.z, BYTES), cudaSuccess);
    float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    cr_assert_eq(cudaMemcpy(f.x, ones, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
    return f;
}

static float first(const float *p) {
    float back[N];
    cr_assert_eq(cudaMemcpy(back, p, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    return back[0];
}

/* On a: y = 2 x. On b, forked from a: z = 3 y. On a, joined or not: x = z. */
static void body(Fixture *f, int join) {
    launch_scale(f->y, f->x, 2, N, f->a);
    cr_assert_eq(cudaEventRecord(f->fork, f->a), cudaSuccess);
    cr_assert_eq(cudaStreamWaitEvent(f->b, f->fork, 0), cudaSuccess);
    launch_scale(f->z, f->y, 3, N, f->b);
    cr_assert_eq(cudaEventRecord(f->join, f->b), cudaSuccess);
    if (!join) return;
    cr_assert_eq(cudaStreamWaitEvent(f->a, f->join, 0), cudaSuccess);
    cr_assert_eq(cudaMemcpyAsync(f->x, f->z, BYTES, cudaMemcpyDeviceToDevice, f->a), cudaSuccess);
}

Test(capture, a_graph_repeats_what_was_captured_on_both_streams) {
    Fixture f = fixture();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    size_t n = 0;
    int64_t run = standin_counts().run;
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed), cudaSuccess);
    body(&f, 1);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaSuccess);
    cr_assert_eq(cudaGraphGetNodes(graph, NULL, &n), cudaSuccess);
    cr_assert_eq(n, 3, "events are no nodes");
    cr_assert_eq(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cr_assert_eq(cudaGraphDestroy(graph), cudaSuccess);
    cr_assert_eq(standin_counts().run, run, "a capture runs nothing");
    for (int i = 0; i < 2; i++)
        cr_assert_eq(cudaGraphLaunch(executable, f.a), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaSuccess);
    cr_assert_eq(first(f.x), 36);
    cr_assert_eq(standin_counts().launches, 2);
    cr_assert_eq(cudaGraphExecDestroy(executable), cudaSuccess);
}

Test(capture, work_that_the_stream_has_not_waited_for_is_an_error) {
    Fixture f = fixture();
    cudaGraph_t graph;
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed), cudaSuccess);
    body(&f, 0);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureUnjoined);
    cr_assert_null(graph);
    launch_scale(f.y, f.x, 2, N, f.b);
    cr_assert_eq(cudaStreamSynchronize(f.b), cudaSuccess, "both streams are as before");
}

Test(capture, waiting_for_a_capturing_stream_spoils_the_capture) {
    Fixture f = fixture();
    cudaGraph_t graph;
    enum cudaStreamCaptureStatus status;
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaErrorStreamCaptureUnsupported);
    cr_assert_eq(cudaStreamIsCapturing(f.a, &status), cudaSuccess);
    cr_assert_eq(status, cudaStreamCaptureStatusInvalidated);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);
}

Test(capture, allocations_need_relaxed_mode) {
    Fixture f = fixture();
    cudaGraph_t graph;
    void *p;
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed), cudaSuccess);
    cr_assert_eq(cudaMalloc(&p, 16), cudaSuccess);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaSuccess);
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal), cudaSuccess);
    cr_assert_eq(cudaMalloc(&p, 16), cudaErrorStreamCaptureUnsupported);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);
}

Test(capture, events_of_before_do_not_order_what_is_captured) {
    Fixture f = fixture();
    cudaGraph_t graph;
    cudaEventRecord(f.fork, f.b);
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed), cudaSuccess);
    cr_assert_eq(cudaStreamWaitEvent(f.a, f.fork, 0), cudaErrorStreamCaptureIsolation);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);
}

Test(capture, external_events_record_at_each_launch) {
    Fixture f = fixture();
    cudaEvent_t from, to;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    float ms = -1;
    cudaEventCreate(&from), cudaEventCreate(&to);
    cr_assert_eq(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed), cudaSuccess);
    cr_assert_eq(cudaEventRecordWithFlags(from, f.a, cudaEventRecordExternal), cudaSuccess);
    launch_scale(f.y, f.x, 2, N, f.a);
    cr_assert_eq(cudaEventRecordWithFlags(to, f.a, cudaEventRecordExternal), cudaSuccess);
    cr_assert_eq(cudaStreamEndCapture(f.a, &graph), cudaSuccess);
    cr_assert_eq(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cr_assert_eq(cudaGraphLaunch(executable, f.a), cudaSuccess);
    cr_assert_eq(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
    cr_assert_eq(cudaStreamSynchronize(f.a), cudaSuccess);
    cr_assert_eq(cudaEventElapsedTime(&ms, from, to), cudaSuccess);
    cr_assert_geq(ms, 0);
}
