/* Through NCCL, on the stream of communications. start makes that stream wait for what compute has queued so far, and queues everything
 * there: packing into messages, one group of NCCL calls a round, and unpacking and adding up; wait makes compute wait for its end. The host
 * only waits until the library has queued its part. So the device itself overlaps communication with computation, and a captured step holds
 * all of it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/nccl.h"

struct CommRequest {
    RequestHead head;
    WirePlan plan;
    int *group;             /* per transfer that is a call: the number of its communicator */
    Tasks pack[2], pull[2]; /* per round */
    void **memory;          /* source, target of each transfer; staging */
    cudaEvent_t ready, done;
    bool started;
};

static const ncclDataType_t nccl_type[NDTYPES] = {[F32] = ncclFloat32, [F64] = ncclFloat64, [I32] = ncclInt32,    [I64] = ncclInt64,
                                                  [BOOL] = ncclUint8,  [F16] = ncclFloat16, [BF16] = ncclBfloat16};

/* Sums of bool are or. */
static ncclRedOp_t nccl_op(DType dtype, Reduction reduction) {
    switch (reduction) {
    case REDUCE_SUM:
        return dtype == BOOL ? ncclMax : ncclSum;
    case REDUCE_MAX:
        return ncclMax;
    case REDUCE_MIN:
        return ncclMin;
    case NREDUCTIONS:
        break;
    }
    return ncclSum;
}

/* ---------------------------------------------------------------- preparation */

static void packs_add(CommRequest *request, const WireMessage *message) {
    int staging = 2 * request->plan.n;
    for (int i = 0; i < message->parts.n && !message->direct; i++) {
        const SentPart *part = &message->parts.at[i];
        TaskSide source = {2 * part->transfer + (message->round > 0), 0, &part->from},
                 target = {staging, message->at + part->message_bytes, &part->packed};
        tasks_add(&request->pack[message->round], &request->head.arena, &part->walk, request->plan.transfer[part->transfer].dtype,
                  REDUCE_SUM, false, target, &source, 1);
    }
}

static void pull_add(CommRequest *request, const Pull *pull, int nranks) {
    const WirePlan *plan = &request->plan;
    Tasks *tasks = &request->pull[pull->round];
    int transfer = plan->number[pull->transfer];
    if (wire_pull_done(plan, pull, nranks)) return;
    TaskSide target = {2 * transfer + 1, 0, &pull->target};
    TaskSide *source = arena_alloc(&request->head.arena, sizeof *source * (size_t)pull->nsources);
    for (int s = 0; s < pull->nsources; s++) {
        source[s] = (TaskSide){2 * transfer + (pull->round > 0), 0, &pull->source_view[s]};
        if (wire_source_staged(plan, pull, &pull->source[s], nranks, &source[s].bytes)) source[s].memory = 2 * plan->n;
    }
    if (pull->add) tasks_break(tasks); /* to keep the order of terms */
    tasks_add(tasks, &request->head.arena, &pull->walk, plan->transfer[transfer].dtype, plan->pulls.reduction[pull->transfer], pull->add,
              target, source, pull->nsources);
}

/* What a rank prepares on its own, before the groups. */
static bool plan_open(CudaComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error) {
    Arena *arena = &request->head.arena;
    WirePlan *plan = &request->plan;
    if (!wire_plan_init(plan, arena, transfers, n, job->comm.nranks, job->comm.process, job->cuda->options.deterministic, error))
        return false;
    request->group = arena_alloc(arena, sizeof *request->group * ((size_t)n + 1));
    request->memory = arena_alloc(arena, sizeof *request->memory * (2 * (size_t)n + 1));
    for (int i = 0; i < plan->out.n; i++)
        packs_add(request, &plan->out.at[i]);
    for (int i = 0; i < plan->pulls.pulls.n; i++)
        pull_add(request, &plan->pulls.pulls.at[i], job->comm.nranks);
    for (int round = 0; round < 2; round++)
        if (!tasks_ready(&request->pack[round], arena, job->cuda, 2 * n + 1, error) ||
            !tasks_ready(&request->pull[round], arena, job->cuda, 2 * n + 1, error))
            return false;
    if (plan->staging_bytes > 0) request->memory[2 * n] = nccl_staging(job, plan->staging_bytes, error);
    return (plan->staging_bytes == 0 || request->memory[2 * n]) &&
           cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->ready, cudaEventDisableTiming), "making an event", error) &&
           cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->done, cudaEventDisableTiming), "making an event", error);
}

static bool request_open(CudaComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error) {
    if (!comm_agree_all(job->base, plan_open(job, request, transfers, n, error), error)) return false;
    for (int i = 0; i < n; i++) {
        const GroupCall *call = &request->plan.call[i];
        if (call->kind == GROUP_NONE) continue;
        request->group[i] = nccl_group(job, &call->group, error);
        if (request->group[i] < 0) return false;
    }
    return nccl_register(job, error);
}

static void request_close(CudaComm *job, CommRequest *request) {
    (void)job;
    for (int round = 0; round < 2; round++) {
        tasks_finish(&request->pack[round]);
        tasks_finish(&request->pull[round]);
    }
    if (request->ready) cudaEventDestroy(request->ready);
    if (request->done) cudaEventDestroy(request->done);
}

static const RequestKind nccl_requests = {sizeof(CommRequest), request_open, request_close};

/* ---------------------------------------------------------------- a use */

static ncclResult_t message_queue(const CudaComm *job, const CommRequest *request, const WireMessage *message, bool out) {
    const NcclLibrary *library = &job->nccl->library;
    ncclComm_t world = job->nccl->groups[0].comm;
    int n = request->plan.n, memory = 2 * n;
    if (message->direct) memory = 2 * message->transfer + (!out || message->round > 0);
    char *data = (char *)request->memory[memory] + message->at;
    if (out) return library->Send(data, (size_t)message->bytes, ncclUint8, message->rank, world, job->cuda->comm);
    return library->Recv(data, (size_t)message->bytes, ncclUint8, message->rank, world, job->cuda->comm);
}

static ncclResult_t call_queue(const CudaComm *job, const CommRequest *request, int i) {
    const NcclLibrary *library = &job->nccl->library;
    const GroupCall *call = &request->plan.call[i];
    const Transfer *t = &request->plan.transfer[i];
    size_t count = (size_t)group_call_count(call, t, job->comm.process);
    const void *from = request->memory[2 * i];
    void *to = request->memory[2 * i + 1];
    ncclComm_t comm = job->nccl->groups[request->group[i]].comm;
    ncclDataType_t type = nccl_type[t->dtype];
    ncclRedOp_t op = nccl_op(t->dtype, call->reduction);
    if (count == 0) return ncclSuccess; /* the same on all ranks of its group */
    switch (call->kind) {
    case GROUP_ALL_REDUCE:
        return library->AllReduce(from, to, count, type, op, comm, job->cuda->comm);
    case GROUP_REDUCE_SCATTER:
        return library->ReduceScatter(from, to, count, type, op, comm, job->cuda->comm);
    case GROUP_ALL_GATHER:
        return library->AllGather(from, to, count, type, comm, job->cuda->comm);
    case GROUP_NONE:
        break;
    }
    return ncclSuccess;
}

/* Queues all of a round's calls as one group. */
static bool round_queue(CudaComm *job, const CommRequest *request, int round, Error *error) {
    const NcclLibrary *library = &job->nccl->library;
    const WirePlan *plan = &request->plan;
    ncclComm_t world = job->nccl->groups[0].comm;
    bool messages = false, calls = false;
    for (int i = 0; i < plan->out.n; i++)
        messages = messages || plan->out.at[i].round == round;
    for (int i = 0; i < plan->in.n; i++)
        messages = messages || plan->in.at[i].round == round;
    for (int i = 0; round == 0 && i < plan->n; i++)
        calls = calls || plan->call[i].kind != GROUP_NONE;
    if (!messages && !calls) return true;
    if (!nccl_ok(job, world, library->GroupStart(), request->head.words, error)) return false;
    ncclResult_t result = ncclSuccess;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < (side ? plan->in.n : plan->out.n) && (result == ncclSuccess || result == ncclInProgress); i++) {
            const WireMessage *message = side ? &plan->in.at[i] : &plan->out.at[i];
            if (message->round == round) result = message_queue(job, request, message, side == 0);
        }
    for (int i = 0; round == 0 && i < plan->n && (result == ncclSuccess || result == ncclInProgress); i++)
        if (plan->call[i].kind != GROUP_NONE) result = call_queue(job, request, i);
    ncclResult_t end = library->GroupEnd();
    if (!nccl_ok(job, world, result, request->head.words, error) || !nccl_ok(job, world, end, request->head.words, error)) return false;
    /* Nothing may be queued after it until all of it is queued. */
    if (messages && !nccl_settle(job, world, request->head.words, error)) return false;
    for (int i = 0; round == 0 && i < plan->n; i++)
        if (plan->call[i].kind != GROUP_NONE && !nccl_settle(job, job->nccl->groups[request->group[i]].comm, request->head.words, error))
            return false;
    return true;
}

static bool nccl_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    CudaContext *cuda = job->cuda;
    (void)driven;
    if (!request_may_start(request->started, comm->process, error)) return false;
    if (job->nccl->aborted) return error_set(error, EXIT_ENVIRONMENT, "NCCL's communicators were aborted before");
    for (int i = 0; i < request->plan.n; i++) {
        request->memory[2 * i] = (void *)(uintptr_t)source[i];
        request->memory[2 * i + 1] = target[i];
    }
    job->nccl->used = true;
    job->waits = request->head.words;
    bool ok = cuda_ok(cuda, cudaEventRecord(request->ready, cuda->compute), "ordering communications", error) &&
              cuda_ok(cuda, cudaStreamWaitEvent(cuda->comm, request->ready, 0), "ordering communications", error);
    for (int round = 0; ok && round < 2; round++)
        ok = tasks_run(&request->pack[round], cuda, request->memory, cuda->comm, error) && round_queue(job, request, round, error) &&
             tasks_run(&request->pull[round], cuda, request->memory, cuda->comm, error);
    ok = ok && cuda_ok(cuda, cudaEventRecord(request->done, cuda->comm), "ordering communications", error);
    if (!ok) return false;
    counters_add(comm->counters, &request->plan.each);
    request->started = true;
    return !cuda->options.wait || cuda->capturing || cuda_wait(cuda, cuda->comm, request->head.words, error);
}

static CommStatus nccl_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    (void)driven;
    if (!request_may_wait(request->started, comm->process, error)) return COMM_FAILED;
    request->started = false;
    return cuda_ok(job->cuda, cudaStreamWaitEvent(job->cuda->compute, request->done, 0), "ordering communications", error) ? COMM_COMPLETE
                                                                                                                           : COMM_FAILED;
}

static void nccl_destroy(Comm *comm) {
    if (!comm) return;
    CudaComm *job = (CudaComm *)comm;
    nccl_close(job);
    common_destroy(comm);
}

static const CommTable nccl_table = {
    .name = "nccl",
    .start = nccl_start,
    .wait = nccl_wait,
    COMM_COMMON,
    .destroy = nccl_destroy,
    .alloc = nccl_alloc,
    .free = nccl_free,
};

bool comm_nccl_open(CudaComm *job, Error *error) {
    job->nccl = calloc(1, sizeof *job->nccl);
    bool ok = job->nccl ? nccl_library_open(&job->nccl->library, error) : error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (!comm_agree_all(job->base, ok, error) || !nccl_open(job, error)) {
        nccl_close(job);
        return false;
    }
    int version = job->nccl->library.version;
    job->comm.table = &nccl_table;
    job->kind = &nccl_requests;
    job->comm.captures = true;
    snprintf(job->comm.transport, sizeof job->comm.transport, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    device_watch(job, nccl_watch);
    return true;
}
