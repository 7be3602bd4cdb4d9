/* All ranks of the job are in this process, on its device. When a rank waits, and all ranks that exchange data with it have started, it
 * queues what all of them receive: a launch for each round, after the kernels that compute the sources. Nothing goes through the host. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/comm.h"

typedef struct LocalRank {
    CommCounters each;  /* of one use */
    int group;          /* the lowest rank with which this one is connected */
    bool started, done; /* done: the data is moved, but not yet waited for */
} LocalRank;

struct CommRequest {
    RequestHead head;
    LocalRank *rank;
    Tasks *group;  /* by the lowest rank of a group */
    void **memory; /* [rank][transfer][source, target] */
};

static int group_find(LocalRank *ranks, int rank) {
    while (ranks[rank].group != rank)
        rank = ranks[rank].group = ranks[ranks[rank].group].group;
    return rank;
}

static void groups_join(LocalRank *ranks, int rank, const Pulls *pulls) {
    for (int i = 0; i < pulls->peers.n; i++) {
        int a = group_find(ranks, rank), b = group_find(ranks, pulls->peers.at[i].rank);
        ranks[b < a ? a : b].group = b < a ? b : a;
    }
}

/* Adds the pulls of one rank in a round: those that begin a target (add false) or those that continue it. */
static bool pulls_add(CommRequest *request, const Pulls *pulls, int round, bool add) {
    Tasks *tasks = &request->group[request->rank[pulls->rank].group];
    bool any = false;
    for (int i = 0; i < pulls->pulls.n; i++) {
        const Pull *pull = &pulls->pulls.at[i];
        if (pull->round != round || pull->add != add) continue;
        int n = request->head.n, t = pull->transfer;
        TaskSide target = {(pulls->rank * n + t) * 2 + 1, 0, &pull->target};
        TaskSide *source = arena_alloc(&request->head.arena, sizeof *source * (size_t)pull->nsources);
        for (int s = 0; s < pull->nsources; s++)
            source[s] = (TaskSide){(pull->source[s].from * n + t) * 2 + (round > 0), 0, &pull->source_view[s]};
        if (add) tasks_break(tasks); /* to keep the order of terms */
        tasks_add(tasks, &request->head.arena, &pull->walk, pulls->transfer[t].dtype, pulls->reduction[t], add, target, source,
                  pull->nsources);
        any = true;
    }
    return any;
}

static bool request_open(CudaComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error) {
    int nranks = job->comm.nranks, nrounds = 0;
    Arena *arena = &request->head.arena;
    const Transfer *copy = transfers_copy(arena, transfers, n, nranks);
    Pulls *pulls = arena_alloc(arena, sizeof *pulls * (size_t)nranks);
    request->rank = arena_alloc(arena, sizeof *request->rank * (size_t)nranks);
    request->group = arena_alloc(arena, sizeof *request->group * (size_t)nranks);
    request->memory = arena_alloc(arena, sizeof *request->memory * (size_t)(2 * n * nranks + 1));
    for (int r = 0; r < nranks; r++)
        request->rank[r].group = r;
    for (int r = 0; r < nranks; r++) {
        if (!pulls_init(&pulls[r], arena, copy, n, nranks, r, NULL, NULL, error)) return false;
        groups_join(request->rank, r, &pulls[r]);
        request->rank[r].each = transfers_count(copy, n, &pulls[r], nranks, r);
        if (pulls[r].nrounds > nrounds) nrounds = pulls[r].nrounds;
    }
    for (int r = 0; r < nranks; r++)
        request->rank[r].group = group_find(request->rank, r);
    for (int round = 0; round < nrounds; round++)
        for (int add = 0; add < 2; add++) {
            for (int r = 0; r < nranks; r++)
                tasks_break(&request->group[r]);
            for (int r = 0; r < nranks; r++)
                pulls_add(request, &pulls[r], round, add != 0);
        }
    for (int r = 0; r < nranks; r++)
        if (!tasks_ready(&request->group[r], arena, job->cuda, 2 * n * nranks, error)) return false;
    return true;
}

static void request_close(CudaComm *job, CommRequest *request) {
    for (int r = 0; request->group && r < job->comm.nranks; r++)
        tasks_finish(&request->group[r]);
}

static const RequestKind local_requests = {sizeof(CommRequest), request_open, request_close};

static bool local_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    LocalRank *rank = &request->rank[driven];
    (void)comm;
    if (!request_may_start(rank->started || rank->done, driven, error)) return false;
    void **memory = request->memory + (ptrdiff_t)2 * driven * request->head.n;
    for (int i = 0; i < request->head.n; i++) {
        memory[2 * i] = (void *)(uintptr_t)source[i];
        memory[2 * i + 1] = target[i];
    }
    rank->started = true;
    return true;
}

static CommStatus local_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    LocalRank *rank = &request->rank[driven];
    if (!request_may_wait(rank->started || rank->done, driven, error)) return COMM_FAILED;
    if (!rank->done) {
        for (int r = 0; r < comm->nranks; r++)
            if (request->rank[r].group == rank->group && !request->rank[r].started) return COMM_PENDING;
        if (!tasks_run(&request->group[rank->group], job->cuda, request->memory, job->cuda->compute, error) ||
            !cuda_launched(job->cuda, cudaSuccess, "of a communication", error))
            return COMM_FAILED;
        for (int r = 0; r < comm->nranks; r++)
            if (request->rank[r].group == rank->group) {
                request->rank[r].started = false;
                request->rank[r].done = true;
                counters_add(&comm->counters[r], &request->rank[r].each);
            }
    }
    rank->done = false;
    return COMM_COMPLETE;
}

static const CommTable local_table = {
    .name = "cuda local",
    .start = local_start,
    .wait = local_wait,
    COMM_COMMON,
    .destroy = common_destroy,
    .alloc = device_alloc,
    .free = device_free,
};

bool comm_local_open(CudaComm *job, Error *error) {
    (void)error;
    job->comm.table = &local_table;
    job->kind = &local_requests;
    job->comm.captures = true;
    snprintf(job->comm.transport, sizeof job->comm.transport, "%s", job->comm.nranks > 1 ? "one process, on its device" : "one rank");
    return true;
}
