/* What the requests of all modes have in common: creation, destruction and counters. */
#include <stdlib.h>

#include "runtime/cuda/comm.h"

/* "all_reduce of w1 and 3 more (communication 7)" */
static const char *request_words(Arena *arena, const Transfer *transfers, int n, int number) {
    if (n == 0) return arena_printf(arena, "an empty communication (communication %d)", number);
    const char *name = transfers[0].name ? transfers[0].name : "?";
    if (n == 1) return arena_printf(arena, "%s of %s (communication %d)", comm_name[transfers[0].kind], name, number);
    return arena_printf(arena, "%s of %s and %d more (communication %d)", comm_name[transfers[0].kind], name, n - 1, number);
}

CommRequest *common_prepare(Comm *comm, const Transfer *transfers, int n, Error *error) {
    CudaComm *job = (CudaComm *)comm;
    CommRequest *request = calloc(1, job->kind->bytes);
    bool ok = request || error_set(error, EXIT_ENVIRONMENT, "no memory for a communication");
    if (!comm_agree_all(job->base, ok, error)) {
        free(request);
        return NULL;
    }
    RequestHead *head = (RequestHead *)request;
    arena_init(&head->arena);
    head->n = n;
    head->words = request_words(&head->arena, transfers, n, job->nrequests++);
    head->next = job->requests;
    job->requests = request;
    return job->kind->open(job, request, transfers, n, error) ? request : NULL;
}

void requests_close(CudaComm *job) {
    while (job->requests) {
        CommRequest *request = job->requests;
        RequestHead *head = (RequestHead *)request;
        job->requests = head->next;
        job->kind->close(job, request);
        arena_finish(&head->arena);
        free(request);
    }
}

/* ---------------------------------------------------------------- what is counted */

typedef struct Sent {
    CommCounters *each;
    bool *seen; /* [round][rank] */
    int nranks;
    int64_t element_bytes;
} Sent;

static bool sent_add(void *context, const Piece *piece) {
    Sent *sent = context;
    bool *seen = &sent->seen[piece->round * sent->nranks + piece->to];
    if (piece->count == 0) return true;
    sent->each->sent_bytes += piece->count * sent->element_bytes;
    sent->each->messages += !*seen;
    *seen = true;
    return true;
}

CommCounters transfers_count(const Transfer *transfers, int n, const Pulls *pulls, int nranks, int rank) {
    CommCounters each = {0};
    Arena arena;
    arena_init(&arena);
    Sent sent = {.each = &each, .seen = arena_alloc(&arena, 2 * (size_t)nranks), .nranks = nranks};
    for (int i = 0; i < n; i++) {
        sent.element_bytes = dtype_bytes[transfers[i].dtype];
        pieces_sent(transfers[i].from, transfers[i].to, &transfers[i].shape, nranks, rank, sent_add, &sent);
    }
    for (int i = 0; i < pulls->pulls.n; i++)
        for (int s = 0; s < pulls->pulls.at[i].nsources; s++)
            if (pulls->pulls.at[i].source[s].peer >= 0)
                each.received_bytes += pulls->pulls.at[i].piece.count * dtype_bytes[transfers[pulls->pulls.at[i].transfer].dtype];
    arena_finish(&arena);
    return each;
}

void counters_add(CommCounters *to, const CommCounters *more) {
    to->sent_bytes += more->sent_bytes;
    to->received_bytes += more->received_bytes;
    to->messages += more->messages;
}
