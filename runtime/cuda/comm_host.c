/* Through the host: sources are copied to page-locked memory, moved by the communicator below (peers read them in place if it shares memory
 * between processes), and targets are copied back. Copies to the host are queued when a communication starts, after the kernels that compute
 * the sources and concurrently with later ones; the host waits for them when the communication is waited for. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/comm.h"

enum { PAGE = 4096 };

/* Page-locked memory, taken for a use and returned after it. */
typedef struct HostBlock {
    struct HostBlock *next;
    void *whole; /* as allocated by the communicator below */
    char *data;  /* aligned to a page */
    int64_t bytes;
    bool locked, used;
} HostBlock;

typedef struct HostPool {
    HostBlock *blocks;
    CommRequest *first, **last; /* started but not yet passed to the communicator below, in order */
} HostPool;

struct CommRequest {
    RequestHead head;
    CommRequest *next_started;
    CommRequest *below;
    int64_t *source_bytes, *target_bytes, bytes;
    cudaEvent_t copied, back;
    HostBlock *block; /* of the use under way */
    const void **source;
    void **target, **device_target;
    bool started, passed; /* by the caller; to the communicator below */
};

static HostBlock *block_create(CudaComm *job, int64_t bytes, Error *error) {
    HostBlock *block = calloc(1, sizeof *block);
    if (!block) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    block->bytes = align_bytes(bytes > 0 ? bytes : 1, PAGE);
    block->whole = job->base->table->alloc(job->base, block->bytes + PAGE, error);
    if (!block->whole) {
        free(block);
        return NULL;
    }
    block->data = (char *)block->whole + (PAGE - (uintptr_t)block->whole % PAGE) % PAGE;
    block->locked = cudaHostRegister(block->data, (size_t)block->bytes, cudaHostRegisterDefault) == cudaSuccess;
    if (!block->locked) cudaGetLastError(); /* copies are slower then, but correct */
    block->next = job->host->blocks;
    job->host->blocks = block;
    return block;
}

/* The smallest free block that is large enough, else a new one. */
static HostBlock *block_take(CudaComm *job, int64_t bytes, Error *error) {
    HostBlock *best = NULL;
    for (HostBlock *block = job->host->blocks; block; block = block->next)
        if (!block->used && block->bytes >= bytes && (!best || block->bytes < best->bytes)) best = block;
    if (!best) best = block_create(job, bytes, error);
    if (best) best->used = true;
    return best;
}

static bool request_open(CudaComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error) {
    Arena *arena = &request->head.arena;
    size_t room = (size_t)n + 1;
    request->source_bytes = arena_alloc(arena, room * sizeof *request->source_bytes);
    request->target_bytes = arena_alloc(arena, room * sizeof *request->target_bytes);
    request->source = arena_alloc(arena, room * sizeof *request->source);
    request->target = arena_alloc(arena, room * sizeof *request->target);
    request->device_target = arena_alloc(arena, room * sizeof *request->device_target);
    for (int i = 0; i < n; i++) {
        Box box;
        layout_box(transfers[i].from, &transfers[i].shape, job->comm.first_driven, &box);
        request->source_bytes[i] = box_elements(&box) * dtype_bytes[transfers[i].dtype];
        layout_box(transfers[i].to, &transfers[i].shape, job->comm.first_driven, &box);
        request->target_bytes[i] = box_elements(&box) * dtype_bytes[transfers[i].dtype];
        request->bytes += align_bytes(request->source_bytes[i], 64) + align_bytes(request->target_bytes[i], 64);
    }
    bool ok = cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->copied, cudaEventDisableTiming), "making an event", error) &&
              cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->back, cudaEventDisableTiming), "making an event", error);
    /* Created now, so that most uses find a block. */
    HostBlock *block = ok ? block_take(job, request->bytes, error) : NULL;
    if (block) block->used = false;
    /* prepare is collective: all ranks call it, or none. */
    if (!comm_agree_all(job->base, block != NULL, error)) return false;
    request->below = job->base->table->prepare(job->base, transfers, n, error);
    return request->below != NULL;
}

static void request_close(CudaComm *job, CommRequest *request) {
    (void)job;
    if (request->copied) cudaEventDestroy(request->copied);
    if (request->back) cudaEventDestroy(request->back);
}

static const RequestKind host_requests = {sizeof(CommRequest), request_open, request_close};

static bool host_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    CudaContext *cuda = job->cuda;
    (void)driven;
    if (!request_may_start(request->started, comm->process, error)) return false;
    request->block = block_take(job, request->bytes, error);
    if (!request->block) return false;
    request->started = true;
    request->passed = false;
    char *at = request->block->data;
    bool ok = cuda_ok(cuda, cudaEventRecord(request->copied, cuda->compute), "ordering communications", error) &&
              cuda_ok(cuda, cudaStreamWaitEvent(cuda->comm, request->copied, 0), "ordering communications", error);
    for (int i = 0; i < request->head.n; i++) {
        size_t bytes = (size_t)request->source_bytes[i];
        request->source[i] = at;
        if (ok && bytes > 0)
            ok = cuda_ok(cuda, cudaMemcpyAsync(at, source[i], bytes, cudaMemcpyDeviceToHost, cuda->comm),
                         "copying what is sent to the host", error);
        at += align_bytes(request->source_bytes[i], 64);
        request->target[i] = at;
        request->device_target[i] = target[i];
        at += align_bytes(request->target_bytes[i], 64);
    }
    ok = ok && cuda_ok(cuda, cudaEventRecord(request->copied, cuda->comm), "ordering communications", error);
    request->next_started = NULL;
    *job->host->last = request;
    job->host->last = &request->next_started;
    return ok;
}

/* Passes on all that was started before a rank waits: the others may be waiting for it. */
static bool pass_started(CudaComm *job, Error *error) {
    HostPool *host = job->host;
    while (host->first) {
        CommRequest *request = host->first;
        if (!cuda_ok(job->cuda, cudaEventSynchronize(request->copied), "copying what is sent to the host", error)) return false;
        if (!job->base->table->start(job->base, request->below, 0, request->source, request->target, error)) return false;
        request->passed = true;
        host->first = request->next_started;
    }
    host->last = &host->first;
    return true;
}

static CommStatus host_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    CudaContext *cuda = job->cuda;
    (void)driven;
    if (!request_may_wait(request->started, comm->process, error)) return COMM_FAILED;
    if (!pass_started(job, error)) return COMM_FAILED;
    CommStatus status = job->base->table->wait(job->base, request->below, 0, error);
    if (status != COMM_COMPLETE) return status;
    bool ok = true;
    for (int i = 0; ok && i < request->head.n; i++)
        if (request->target_bytes[i] > 0)
            ok = cuda_ok(cuda,
                         cudaMemcpyAsync(request->device_target[i], request->target[i], (size_t)request->target_bytes[i],
                                         cudaMemcpyHostToDevice, cuda->comm),
                         "copying what was received to the device", error);
    /* On the stream that also copies into the block next time, so the block is free once this is queued. Not the event of the copies to the
     * host: the host waits for that one before the block's next owner lets others write to it. */
    ok = ok && cuda_ok(cuda, cudaEventRecord(request->back, cuda->comm), "ordering communications", error) &&
         cuda_ok(cuda, cudaStreamWaitEvent(cuda->compute, request->back, 0), "ordering communications", error);
    request->block->used = false;
    request->started = false;
    return ok ? COMM_COMPLETE : COMM_FAILED;
}

static void host_destroy(Comm *comm) {
    if (!comm) return;
    CudaComm *job = (CudaComm *)comm;
    cudaStreamSynchronize(job->cuda->comm); /* failures have been reported already */
    while (job->host->blocks) {
        HostBlock *block = job->host->blocks;
        job->host->blocks = block->next;
        if (block->locked) cudaHostUnregister(block->data);
        job->base->table->free(job->base, block->whole);
        free(block);
    }
    free(job->host);
    common_destroy(comm);
}

static const CommTable host_table = {
    .name = "cuda host",
    .start = host_start,
    .wait = host_wait,
    COMM_COMMON,
    .destroy = host_destroy,
    .alloc = device_alloc,
    .free = device_free,
};

bool comm_host_open(CudaComm *job, Error *error) {
    job->host = calloc(1, sizeof *job->host);
    bool ok = job->host || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (!comm_agree_all(job->base, ok, error)) {
        free(job->host);
        job->host = NULL;
        return false;
    }
    job->host->last = &job->host->first;
    job->comm.table = &host_table;
    job->kind = &host_requests;
    job->comm.counters = job->base->counters;
    snprintf(job->comm.transport, sizeof job->comm.transport, "host memory, %.60s", job->base->transport);
    return true;
}
