/* comm/local: all ranks of a job in one process, in lock step. A rank that starts notes its buffers; when every rank with which it
 * exchanges data, directly or through others, has started too, the next one that waits moves the data of all of them. */
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct LocalRank {
    Pulls pulls;
    const void **source; /* per transfer, of the ranks that have started */
    void **target;
    int group;          /* the lowest rank with which this one is connected */
    bool started, done; /* done: moved, and not yet waited for */
} LocalRank;

struct CommRequest {
    CommRequest *next; /* of the communicator's requests */
    Arena arena;
    LocalRank *rank;
    int ntransfers, nrounds;
};

typedef struct LocalComm {
    Comm comm;
    CommRequest *requests;
} LocalComm;

static int group_find(LocalRank *ranks, int rank) {
    while (ranks[rank].group != rank)
        rank = ranks[rank].group = ranks[ranks[rank].group].group;
    return rank;
}

/* Ranks that exchange data, directly or through others, make one group. */
static void groups_join(CommRequest *request, int nranks) {
    for (int r = 0; r < nranks; r++) {
        const Pulls *pulls = &request->rank[r].pulls;
        for (int i = 0; i < pulls->peers.n; i++) {
            int a = group_find(request->rank, r), b = group_find(request->rank, pulls->peers.at[i].rank);
            request->rank[a < b ? b : a].group = a < b ? a : b;
        }
    }
    for (int r = 0; r < nranks; r++)
        request->rank[r].group = group_find(request->rank, r);
}

static CommRequest *local_prepare(Comm *comm, const Transfer *transfers, int n, Error *error) {
    CommRequest *request = calloc(1, sizeof *request);
    if (!request) {
        error_set(error, EXIT_ENVIRONMENT, "no memory for a communication");
        return NULL;
    }
    arena_init(&request->arena);
    const Transfer *copy = transfers_copy(&request->arena, transfers, n, comm->nranks);
    request->rank = arena_alloc(&request->arena, sizeof *request->rank * (size_t)comm->nranks);
    request->ntransfers = n;
    for (int r = 0; r < comm->nranks; r++) {
        LocalRank *rank = &request->rank[r];
        rank->group = r;
        rank->source = arena_alloc(&request->arena, sizeof *rank->source * (size_t)(n + 1));
        rank->target = arena_alloc(&request->arena, sizeof *rank->target * (size_t)(n + 1));
        if (!pulls_init(&rank->pulls, &request->arena, copy, n, comm->nranks, r, NULL, NULL, error)) {
            arena_finish(&request->arena);
            free(request);
            return NULL;
        }
        if (rank->pulls.nrounds > request->nrounds) request->nrounds = rank->pulls.nrounds;
    }
    groups_join(request, comm->nranks);
    LocalComm *local = (LocalComm *)comm;
    request->next = local->requests;
    local->requests = request;
    return request;
}

static bool local_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    LocalRank *rank = &request->rank[driven];
    if (!request_may_start(rank->started || rank->done, comm->first_driven + driven, error)) return false;
    for (int i = 0; i < request->ntransfers; i++) {
        rank->source[i] = source[i];
        rank->target[i] = target[i];
    }
    rank->started = true;
    return true;
}

static const void *local_base(void *context, int transfer, const PullSource *source, int round) {
    const CommRequest *request = context;
    const LocalRank *from = &request->rank[source->from];
    return round == 0 ? from->source[transfer] : from->target[transfer];
}

static void group_move(LocalComm *local, CommRequest *request, int group) {
    CommCounters *counters = local->comm.counters;
    for (int round = 0; round < request->nrounds; round++)
        for (int r = 0; r < local->comm.nranks; r++) {
            if (request->rank[r].group != group) continue;
            Pulls *pulls = &request->rank[r].pulls;
            pulls_execute(pulls, round, local_base, request, request->rank[r].target);
            for (int i = 0; i < pulls->peers.n; i++) {
                PullPeer *peer = &pulls->peers.at[i];
                if (peer->moved_bytes == 0) continue;
                counters[r].received_bytes += peer->moved_bytes;
                counters[peer->rank].sent_bytes += peer->moved_bytes;
                counters[peer->rank].messages++;
                peer->moved_bytes = 0;
            }
        }
}

static CommStatus local_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    LocalComm *local = (LocalComm *)comm;
    LocalRank *rank = &request->rank[driven];
    if (!request_may_wait(rank->started || rank->done, driven, error)) return COMM_FAILED;
    if (!rank->done) {
        for (int r = 0; r < comm->nranks; r++)
            if (request->rank[r].group == rank->group && !request->rank[r].started) return COMM_PENDING;
        group_move(local, request, rank->group);
        for (int r = 0; r < comm->nranks; r++)
            if (request->rank[r].group == rank->group) {
                request->rank[r].started = false;
                request->rank[r].done = true;
            }
    }
    rank->done = false;
    return COMM_COMPLETE;
}

static bool local_barrier(Comm *comm, Error *error) {
    (void)comm, (void)error;
    return true;
}

static bool local_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    (void)comm, (void)data, (void)bytes, (void)error;
    return true;
}

static bool local_all_gather_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    (void)comm, (void)error;
    words[0] = word;
    return true;
}

static bool local_gather_text(Comm *comm, const char *text, int width, char *texts, Error *error) {
    (void)comm, (void)error;
    if (width > 0) snprintf(texts, (size_t)width, "%s", text);
    return true;
}

static void local_abort(Comm *comm, int code, const char *message) {
    (void)comm;
    fprintf(stderr, "prun: %s\n", message);
    fflush(NULL);
    exit(code);
}

static void *local_alloc(Comm *comm, int64_t bytes, Error *error) {
    (void)comm;
    return comm_memory(bytes, error);
}

static void local_free(Comm *comm, void *data) {
    (void)comm;
    free(data);
}

static void local_destroy(Comm *comm) {
    if (!comm) return;
    LocalComm *local = (LocalComm *)comm;
    while (local->requests) {
        CommRequest *request = local->requests;
        local->requests = request->next;
        arena_finish(&request->arena);
        free(request);
    }
    free(comm->counters);
    free(local);
}

static const CommTable local_table = {
    .name = "local",
    .prepare = local_prepare,
    .start = local_start,
    .wait = local_wait,
    .barrier = local_barrier,
    .broadcast = local_broadcast,
    .all_gather_words = local_all_gather_words,
    .gather_text = local_gather_text,
    .abort = local_abort,
    .destroy = local_destroy,
    .alloc = local_alloc,
    .free = local_free,
};

Comm *comm_local_create(int nranks, Error *error) {
    assert(nranks > 0);
    LocalComm *local = calloc(1, sizeof *local);
    CommCounters *counters = calloc((size_t)nranks, sizeof *counters);
    if (!local || !counters) {
        free(local);
        free(counters);
        error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", nranks);
        return NULL;
    }
    local->comm = (Comm){.table = &local_table,
                         .nranks = nranks,
                         .nprocesses = 1,
                         .ndriven = nranks,
                         .nlocal = nranks,
                         .node = "localhost",
                         .counters = counters,
                         .transport = "one process",
                         .place = &local->comm.own_place};
    return &local->comm;
}
