/* Ranks of one node read each other's device memory in place. A use has three synchronization points, as in comm/job: sources are ready
 * (arrived), sums are computed (reduced), and nobody reads any more (done). Each is an event that its rank records and its peers' streams
 * wait for, and a counter in host memory that says that it was recorded: the host waits for other hosts, never for a device. All of it is
 * on the stream of communications, which waits for compute at the start, and for which compute waits at the end: what is queued on compute
 * in between runs meanwhile. */
#include "runtime/cuda/comm_share.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum { POINT_ARRIVED, POINT_REDUCED, POINT_DONE, NPOINTS } Point;

/* Where a tensor is in its owner's shared memory. */
typedef struct SharedPlace {
    int64_t entry, offset;
} SharedPlace;

/* In the owner's heap. Epochs count the uses of the request, from 1; they wrap. */
typedef struct Control {
    _Alignas(64) _Atomic uint32_t point[NPOINTS];
    cudaIpcEventHandle_t event[NPOINTS];
    SharedPlace at[]; /* [source, target][transfer]; written between one use's end and the next arrival */
} Control;

typedef VEC(int) Ints;

struct CommRequest {
    RequestHead head;
    Pulls pulls;
    CommCounters each;
    Tasks round[2];
    void **memory;  /* [rank's number in `member`][source, target][transfer]; 0 is this rank */
    int *member_of; /* rank -> number, -1: none */
    Ints member;    /* this rank, and those from which it reads */
    Ints provider[2], reader;
    bool *source_read, *target_read;                /* per transfer: whether others read it */
    void **copy;                                    /* [source, target][transfer]: copy of one that peers cannot open; NULL until needed */
    void **target;                                  /* the caller's */
    Control *control, **peer;                       /* own; per rank */
    cudaEvent_t event[NPOINTS], (*theirs)[NPOINTS]; /* own; per rank, opened when first waited for */
    cudaEvent_t ready, moved;                       /* recorded on compute at the start; on the stream of communications at the end */
    uint32_t epoch;
    bool started;
};

static void ints_add(Arena *arena, Ints *ints, int value) {
    for (int i = 0; i < ints->n; i++)
        if (ints->at[i] == value) return;
    vec_push(arena, ints, value);
}

/* ---------------------------------------------------------------- preparation */

typedef struct Sent {
    CommRequest *request;
    int transfer;
} Sent;

static bool sent_add(void *context, const Piece *piece) {
    Sent *sent = context;
    CommRequest *request = sent->request;
    if (piece->count == 0) return true;
    ints_add(&request->head.arena, &request->reader, piece->to);
    (piece->round == 0 ? request->source_read : request->target_read)[sent->transfer] = true;
    return true;
}

/* ok: whether this rank's earlier steps succeeded. */
static bool control_open(CudaComm *job, CommRequest *request, bool ok, Error *error) {
    Share *share = job->share;
    Comm *base = job->base;
    int64_t bytes = (int64_t)sizeof(Control) + 2 * request->head.n * (int64_t)sizeof(SharedPlace), at = 0;
    int64_t *all = arena_alloc(&request->head.arena, sizeof *all * (size_t)base->nprocesses);
    if (ok) request->control = heap_alloc(&share->heap, bytes, error);
    ok = ok && request->control;
    if (ok) {
        memset(request->control, 0, (size_t)bytes);
        at = (char *)request->control - share->heap.base[base->process];
    }
    for (int i = 0; ok && i < NPOINTS; i++)
        ok = cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->event[i], cudaEventDisableTiming | cudaEventInterprocess),
                     "making an event for CUDA IPC", error) &&
             cuda_ok(job->cuda, cudaIpcGetEventHandle(&request->control->event[i], request->event[i]), "sharing an event by CUDA IPC",
                     error);
    if (!comm_agree_all(base, ok, error) || !all_gather_bytes(base, &at, sizeof at, all, error)) return false;
    request->peer = arena_alloc(&request->head.arena, sizeof *request->peer * (size_t)base->nprocesses);
    request->theirs = arena_alloc(&request->head.arena, sizeof *request->theirs * (size_t)base->nprocesses);
    for (int p = 0; p < base->nprocesses; p++)
        request->peer[p] = (Control *)(share->heap.base[p] + all[p]);
    return true;
}

static void pull_add(CommRequest *request, const Pull *pull, int rank) {
    Tasks *tasks = &request->round[pull->round];
    int n = request->head.n, t = pull->transfer;
    TaskSide target = {n + t, 0, &pull->target}, *source = arena_alloc(&request->head.arena, sizeof *source * (size_t)pull->nsources);
    for (int s = 0; s < pull->nsources; s++) {
        int from = pull->source[s].from;
        if (from != rank && request->member_of[from] < 0) {
            request->member_of[from] = request->member.n;
            vec_push(&request->head.arena, &request->member, from);
        }
        source[s] = (TaskSide){request->member_of[from] * 2 * n + (pull->round > 0 ? n : 0) + t, 0, &pull->source_view[s]};
    }
    if (pull->add) tasks_break(tasks); /* to keep the order of terms */
    tasks_add(tasks, &request->head.arena, &pull->walk, request->pulls.transfer[t].dtype, request->pulls.reduction[t], pull->add, target,
              source, pull->nsources);
}

static bool request_open(CudaComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error) {
    Arena *arena = &request->head.arena;
    int nranks = job->comm.nranks, rank = job->comm.process;
    const Transfer *copy = transfers_copy(arena, transfers, n, nranks);
    request->source_read = arena_alloc(arena, sizeof(bool) * ((size_t)n + 1));
    request->target_read = arena_alloc(arena, sizeof(bool) * ((size_t)n + 1));
    request->copy = arena_alloc(arena, sizeof *request->copy * (2 * (size_t)n + 1));
    request->target = arena_alloc(arena, sizeof *request->target * ((size_t)n + 1));
    bool ok = pulls_init(&request->pulls, arena, copy, n, nranks, rank, NULL, NULL, error);
    if (!control_open(job, request, ok, error)) return false;
    Sent sent = {.request = request};
    for (sent.transfer = 0; sent.transfer < n; sent.transfer++) {
        const Transfer *t = &copy[sent.transfer];
        pieces_sent(t->from, t->to, &t->shape, nranks, rank, sent_add, &sent);
    }
    for (int i = 0; i < request->pulls.peers.n; i++)
        ints_add(arena, &request->provider[request->pulls.peers.at[i].round], request->pulls.peers.at[i].rank);
    request->each = transfers_count(copy, n, &request->pulls, nranks, rank);
    request->member_of = arena_alloc(arena, sizeof *request->member_of * (size_t)nranks);
    for (int r = 0; r < nranks; r++)
        request->member_of[r] = -1;
    request->member_of[rank] = 0;
    vec_push(arena, &request->member, rank);
    for (int i = 0; i < request->pulls.pulls.n; i++)
        pull_add(request, &request->pulls.pulls.at[i], rank);
    int nmemories = request->member.n * 2 * n;
    request->memory = arena_alloc(arena, sizeof *request->memory * ((size_t)nmemories + 1));
    ok = tasks_ready(&request->round[0], arena, job->cuda, nmemories, error) &&
         tasks_ready(&request->round[1], arena, job->cuda, nmemories, error) &&
         cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->ready, cudaEventDisableTiming), "making an event", error) &&
         cuda_ok(job->cuda, cudaEventCreateWithFlags(&request->moved, cudaEventDisableTiming), "making an event", error);
    return comm_agree_all(job->base, ok, error);
}

/* Closes peers' events: none may be used once its owner has destroyed it. */
static void request_leave(CudaComm *job, CommRequest *request) {
    for (int r = 0; request->theirs && r < job->comm.nranks; r++)
        for (int i = 0; i < NPOINTS; i++) {
            if (request->theirs[r][i]) cudaEventDestroy(request->theirs[r][i]);
            request->theirs[r][i] = NULL;
        }
}

static void request_close(CudaComm *job, CommRequest *request) {
    request_leave(job, request);
    for (int round = 0; round < 2; round++)
        tasks_finish(&request->round[round]);
    for (int i = 0; i < NPOINTS; i++)
        if (request->event[i]) cudaEventDestroy(request->event[i]);
    if (request->ready) cudaEventDestroy(request->ready);
    if (request->moved) cudaEventDestroy(request->moved);
}

static const RequestKind ipc_requests = {sizeof(CommRequest), request_open, request_close};

/* ---------------------------------------------------------------- a use */

/* Reaches a point: peers' streams can then wait for all communications queued so far. */
static bool point_reach(CudaComm *job, CommRequest *request, Point point, Error *error) {
    if (!cuda_ok(job->cuda, cudaEventRecord(request->event[point], job->cuda->comm), "ordering communications", error)) return false;
    atomic_store(&request->control->point[point], request->epoch);
    return true;
}

/* The host waits until the ranks have recorded the point; then this rank's stream of communications waits for it. */
static bool point_wait(CudaComm *job, CommRequest *request, const Ints *ranks, Point point, Error *error) {
    job->waits = request->head.words;
    double start = 0;
    int64_t turn = 0;
    for (int i = 0; i < ranks->n; i++) {
        int rank = ranks->at[i];
        Control *control = request->peer[rank];
        for (; (int32_t)(atomic_load(&control->point[point]) - request->epoch) < 0; turn++) {
            if (turn % 64 == 0) {
                double now = now_seconds();
                if (start == 0) start = now;
                if (!job->base->table->overdue(job->base, now - start, request->head.words, error)) return false;
            }
            if (turn < 1000)
                sched_yield();
            else
                nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
        cudaEvent_t *event = &request->theirs[rank][point];
        if (!*event) {
            cudaIpcEventHandle_t handle = control->event[point];
            if (!cuda_ok(job->cuda, cudaIpcOpenEventHandle(event, handle), "opening another rank's event by CUDA IPC", error)) return false;
        }
        if (!cuda_ok(job->cuda, cudaStreamWaitEvent(job->cuda->comm, *event, 0), "ordering communications", error)) return false;
    }
    return true;
}

/* Tells peers where to find data, number i of the sources and targets. Returns its address: data itself, or a copy in memory that they can
 * open. NULL: *error. */
static void *publish(CudaComm *job, CommRequest *request, int i, void *data, int64_t bytes, Error *error) {
    SharedPlace *at = &request->control->at[i];
    if (!share_has(job, data)) {
        if (!request->copy[i]) request->copy[i] = share_alloc(&job->comm, bytes, error);
        data = request->copy[i];
    }
    return data && share_publish(job, data, &at->entry, &at->offset, error) ? data : NULL;
}

static bool source_publish(CudaComm *job, CommRequest *request, int i, Error *error) {
    int64_t bytes = request->pulls.source_bytes[i];
    const void *source = request->memory[i];
    void *shared = publish(job, request, i, request->memory[i], bytes, error);
    return shared && (shared == source ||
                      cuda_ok(job->cuda, cudaMemcpyAsync(shared, source, (size_t)bytes, cudaMemcpyDeviceToDevice, job->cuda->comm),
                              "copying what is sent", error));
}

/* Copies results that are not in the caller's targets into them. */
static bool targets_copy(CudaComm *job, const CommRequest *request, Error *error) {
    int n = request->head.n;
    for (int i = 0; i < n; i++)
        if (request->memory[n + i] != request->target[i] &&
            !cuda_ok(job->cuda,
                     cudaMemcpyAsync(request->target[i], request->memory[n + i], (size_t)request->pulls.target_bytes[i],
                                     cudaMemcpyDeviceToDevice, job->cuda->comm),
                     "copying what was received", error))
            return false;
    return true;
}

static bool ipc_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    CudaContext *cuda = job->cuda;
    int n = request->head.n;
    (void)driven;
    if (!request_may_start(request->started, comm->process, error)) return false;
    if (!cuda_ok(cuda, cudaEventRecord(request->ready, cuda->compute), "ordering communications", error) ||
        !cuda_ok(cuda, cudaStreamWaitEvent(cuda->comm, request->ready, 0), "ordering communications", error))
        return false;
    for (int i = 0; i < n; i++) {
        request->memory[i] = (void *)(uintptr_t)source[i];
        request->memory[n + i] = request->target[i] = target[i];
        if (request->source_read[i] && !source_publish(job, request, i, error)) return false;
        if (request->target_read[i] &&
            !(request->memory[n + i] = publish(job, request, n + i, target[i], request->pulls.target_bytes[i], error)))
            return false;
    }
    request->started = true;
    request->epoch++;
    return point_reach(job, request, POINT_ARRIVED, error);
}

/* Finds the peers' memory for this round; all have arrived. */
static bool peers_place(CudaComm *job, CommRequest *request, int round, Error *error) {
    int n = request->head.n;
    for (int i = 0; i < request->pulls.pulls.n; i++) {
        const Pull *pull = &request->pulls.pulls.at[i];
        if (pull->round != round) continue;
        for (int s = 0; s < pull->nsources; s++) {
            int from = pull->source[s].from, slot = (round > 0 ? n : 0) + pull->transfer;
            if (pull->source[s].peer < 0) continue;
            const SharedPlace *at = &request->peer[from]->at[slot];
            void **memory = &request->memory[request->member_of[from] * 2 * n + slot];
            *memory = share_find(job, from, at->entry, at->offset, error);
            if (!*memory) return false;
        }
    }
    return true;
}

static bool ipc_move(CudaComm *job, CommRequest *request, Error *error) {
    CudaContext *cuda = job->cuda;
    for (int round = 0; round < request->pulls.nrounds; round++) {
        if (!point_wait(job, request, &request->provider[round], round ? POINT_REDUCED : POINT_ARRIVED, error) ||
            !peers_place(job, request, round, error) || !tasks_run(&request->round[round], cuda, request->memory, cuda->comm, error))
            return false;
        if (round == 0 && !point_reach(job, request, POINT_REDUCED, error)) return false;
    }
    return targets_copy(job, request, error) && point_reach(job, request, POINT_DONE, error) &&
           point_wait(job, request, &request->reader, POINT_DONE, error) &&
           cuda_ok(cuda, cudaEventRecord(request->moved, cuda->comm), "ordering communications", error) &&
           cuda_ok(cuda, cudaStreamWaitEvent(cuda->compute, request->moved, 0), "ordering communications", error) &&
           (!cuda->options.wait || cuda_wait(cuda, cuda->comm, request->head.words, error));
}

static CommStatus ipc_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    (void)driven;
    if (!request_may_wait(request->started, comm->process, error)) return COMM_FAILED;
    if (!ipc_move(job, request, error)) return COMM_FAILED;
    request->started = false;
    counters_add(comm->counters, &request->each);
    return COMM_COMPLETE;
}

static void ipc_destroy(Comm *comm) {
    if (!comm) return;
    CudaComm *job = (CudaComm *)comm;
    cuda_idle(job->cuda);
    for (CommRequest *request = job->requests; request; request = request->head.next)
        request_leave(job, request);
    share_close(job); /* a barrier: afterwards nobody has this rank's events open */
    common_destroy(comm);
}

static const CommTable ipc_table = {
    .name = "cuda ipc",
    .start = ipc_start,
    .wait = ipc_wait,
    COMM_COMMON,
    .destroy = ipc_destroy,
    .alloc = share_alloc,
    .free = share_free,
};

bool comm_ipc_open(CudaComm *job, Error *error) {
    device_watch(job, device_overdue);
    if (!share_open(job, error)) {
        device_watch(job, NULL);
        return false;
    }
    job->comm.table = &ipc_table;
    job->kind = &ipc_requests;
    snprintf(job->comm.transport, sizeof job->comm.transport, "CUDA IPC");
    return true;
}
