/* graph: a step captured once and replayed, timing marks, and named ranges for profilers. */
#include "runtime/cuda/cuda.h"

#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- captured steps */

/* Relaxed: allocations and the like by libraries are not part of the step, and may happen while it is captured. */
bool cuda_capture(void *context, Error *error) {
    CudaContext *cuda = context;
    if (!cuda_ok(cuda, cudaStreamBeginCapture(cuda->compute, cudaStreamCaptureModeRelaxed), "beginning to capture a step", error))
        return false;
    cuda->capturing = true;
    return true;
}

/* Makes one stream wait for all that another has queued; in a captured step, it is captured too from then on. */
static bool follow(CudaContext *cuda, cudaStream_t stream, cudaStream_t other, Error *error) {
    return cuda_ok(cuda, cudaEventRecord(cuda->joined, other), "ordering streams", error) &&
           cuda_ok(cuda, cudaStreamWaitEvent(stream, cuda->joined, 0), "ordering streams", error);
}

/* Whether communications are being captured: their stream has waited for compute. */
static bool comm_takes_part(const CudaContext *cuda) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(cuda->comm, &status) == cudaSuccess && status == cudaStreamCaptureStatusActive;
}

bool cuda_captured(void *context, void **result, int *nodes, Error *error) {
    CudaContext *cuda = context;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    size_t n = 0;
    *result = NULL;
    *nodes = 0;
    cuda->capturing = false;
    error_set(error, EXIT_DONE, "%s", "");
    /* What was captured after a communication's last event (a timing mark) must come before the end too. */
    if (comm_takes_part(cuda) && !follow(cuda, cuda->compute, cuda->comm, error)) cudaGetLastError(); /* the next call says why */
    cudaError_t status = cudaStreamEndCapture(cuda->compute, &graph);
    if (status == cudaSuccess) status = cudaGraphGetNodes(graph, NULL, &n);
    if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (status == cudaSuccess) {
        *result = executable;
        *nodes = (int)n;
        return true;
    }
    cudaGetLastError(); /* a step that cannot be captured can still be run */
    cuda_ok(cuda, status, "capturing a step", error);
    return true;
}

bool cuda_replay(void *context, void *graph, Error *error) {
    CudaContext *cuda = context;
    return cuda_ok(cuda, cudaGraphLaunch((cudaGraphExec_t)graph, cuda->compute), "launching a captured step", error);
}

void cuda_discard(void *context, void *graph) {
    (void)context;
    if (graph) cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

/* ---------------------------------------------------------------- points in time */

static bool more_marks(CudaContext *cuda, Error *error) {
    int n = cuda->nevents ? 2 * cuda->nevents : 256;
    cudaEvent_t *marks = realloc(cuda->marks, (size_t)n * sizeof *marks);
    if (marks) cuda->marks = marks;
    if (!marks || n > MAX_MARKS) return error_set(error, EXIT_ENVIRONMENT, "too many points in time in a step (%d)", n);
    for (; cuda->nevents < n; cuda->nevents++)
        if (!cuda_ok(cuda, cudaEventCreate(&cuda->marks[cuda->nevents]), "making an event", error)) return false;
    return true;
}

int cuda_mark(void *context, bool comm, Error *error) {
    CudaContext *cuda = context;
    if (cuda->nmarks == cuda->nevents && !more_marks(cuda, error)) return -1;
    /* In a captured step, an event that is read outside it must be a node of its own. */
    unsigned flags = cuda->capturing ? cudaEventRecordExternal : cudaEventRecordDefault;
    cudaStream_t stream = comm ? cuda->comm : cuda->compute;
    if (comm && cuda->capturing && !comm_takes_part(cuda) && !follow(cuda, cuda->comm, cuda->compute, error)) return -1;
    if (!cuda_ok(cuda, cudaEventRecordWithFlags(cuda->marks[cuda->nmarks], stream, flags), "recording an event", error)) return -1;
    return cuda->nmarks++;
}

bool cuda_between(void *context, int from, int to, double *seconds, Error *error) {
    CudaContext *cuda = context;
    float ms = 0;
    if (!cuda_ok(cuda, cudaEventElapsedTime(&ms, cuda->marks[from], cuda->marks[to]), "reading a time", error)) return false;
    *seconds = ms * 1e-3;
    return true;
}

void cuda_unmark(void *context) {
    CudaContext *cuda = context;
    cuda->nmarks = 0;
}

/* ---------------------------------------------------------------- ranges */

void cuda_range_begin(void *context, const char *name) {
    (void)context;
    nvtxRangePushA(name);
}

void cuda_range_end(void *context) {
    (void)context;
    nvtxRangePop();
}
