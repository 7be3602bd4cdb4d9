/* Prepares the requests of comm/job. Within a node a rank reads what it needs where its peers have it; a control block per rank and request
 * says how far its owner is. Between nodes, it gets one packed message per peer and round. Either way the pulls and their order are the
 * same, so the bits are too. */
#include "runtime/comm/request.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 64 << 10, TAGS = 16000 };
static_assert(2 * TAGS < WIRE_TAGS, "one is left for collect.c");

CommRequest *request_next(CommRequest *request) {
    return request->next;
}

void request_describe(const CommRequest *request, Text *text) {
    const Pulls *pulls = &request->pulls;
    if (pulls->ntransfers == 0) {
        text_printf(text, "an empty communication");
        return;
    }
    const Transfer *t = &pulls->transfer[0];
    text_printf(text, "%s of %s", comm_name[t->kind], t->name);
    if (pulls->ntransfers > 1) text_printf(text, " and %d more", pulls->ntransfers - 1);
    text_printf(text, " (communication %d)", request->number);
}

/* ---------------------------------------------------------------- preparation */

typedef struct Sent {
    JobComm *job;
    CommRequest *request;
    int transfer;
    Box source_box, target_box;
} Sent;

static void ints_add(Arena *arena, Ints *ints, int value) {
    for (int i = 0; i < ints->n; i++)
        if (ints->at[i] == value) return;
    vec_push(arena, ints, value);
}

static bool is_remote(void *context, int rank) {
    (void)rank, (void)context;
    const Sent *sent = context;
    return !sent->request->shared || sent->job->node_of[rank] < 0;
}

static Message *out_find(CommRequest *request, int rank, int round) {
    for (int i = request->out.n - 1; i >= 0; i--)
        if (request->out.at[i].rank == rank && request->out.at[i].round == round) return &request->out.at[i];
    vec_push(&request->arena, &request->out, (Message){.rank = rank, .round = round});
    return &request->out.at[request->out.n - 1];
}

static bool sent_add(void *context, const Piece *piece) {
    Sent *sent = context;
    CommRequest *request = sent->request;
    Arena *arena = &request->arena;
    if (piece->count == 0) return true;
    if (!is_remote(sent, piece->to)) {
        ints_add(arena, &request->reader, sent->job->node_of[piece->to]);
        (piece->round == 0 ? request->source_read : request->target_read)[sent->transfer] = true;
        return true;
    }
    Message *message = out_find(request, piece->to, piece->round);
    Packing packing = {.transfer = sent->transfer, .message_bytes = message->bytes};
    PieceView views[2];
    walk_init(&packing.walk, piece, (const Box *[]){piece->round == 0 ? &sent->source_box : &sent->target_box, NULL}, 2, views);
    packing.from = views[0];
    packing.packed = views[1];
    vec_push(arena, &message->packings, packing);
    message->bytes += piece->count * dtype_bytes[request->pulls.transfer[sent->transfer].dtype];
    return true;
}

static bool message_open(JobComm *job, CommRequest *request, Message *message, bool out, Error *error) {
    message->buffer = malloc((size_t)message->bytes);
    if (!message->buffer) return error_set(error, EXIT_ENVIRONMENT, "no memory for a message of %lld bytes", (long long)message->bytes);
    const int tag = request->number % TAGS * 2 + message->round;
    message->wire = job->wire->table->prepare(job->wire, out, message->rank, tag, message->buffer, message->bytes, error);
    return message->wire != NULL;
}

static bool messages_open(JobComm *job, CommRequest *request, Error *error) {
    int nranks = job->comm.nranks;
    Sent sent = {.job = job, .request = request};
    request->in_of = arena_alloc(&request->arena, 2 * (size_t)nranks * sizeof *request->in_of);
    for (int i = 0; i < request->pulls.peers.n; i++) {
        const PullPeer *peer = &request->pulls.peers.at[i];
        if (!is_remote(&sent, peer->rank)) continue;
        request->in_of[peer->round * nranks + peer->rank] = request->in.n;
        vec_push(&request->arena, &request->in, (Message){.rank = peer->rank, .round = peer->round, .bytes = peer->bytes});
    }
    for (int i = 0; i < request->in.n; i++)
        if (!message_open(job, request, &request->in.at[i], false, error)) return false;
    for (int i = 0; i < request->out.n; i++)
        if (!message_open(job, request, &request->out.at[i], true, error)) return false;
    return true;
}

/* Allocates a control block and tells the node where it is; the request uses shared memory only if every rank of the node has one. A rank without a request (NULL) has
 * none, but takes part. */
static bool control_open(JobComm *job, CommRequest *request, int ntransfers, Error *error) {
    if (!job->shares) return true;
    int64_t bytes = (int64_t)sizeof(Control) + 4 * ntransfers * (int64_t)sizeof(int64_t), at = -1, *all = job->offsets;
    Error full;
    if (request && !job->heap_failed) request->control = heap_alloc(&job->heap, bytes, &full);
    if (request && request->control) {
        memset(request->control, 0, (size_t)bytes);
        at = (char *)request->control - job->heap.base[job->node.self];
    }
    if (!collect_all_gather(job, &job->node, &at, sizeof at, all, "preparing a communication", error)) return false;
    if (!request) return true;
    request->peer = arena_alloc(&request->arena, sizeof *request->peer * (size_t)job->node.n);
    request->shared = true;
    for (int i = 0; i < job->node.n; i++) {
        if (all[i] < 0)
            request->shared = false;
        else
            request->peer[i] = (Control *)(job->heap.base[i] + all[i]);
    }
    return true;
}

/* Allocates two slots for all that peers read from this rank, if that is little. */
static void slots_open(JobComm *job, CommRequest *request) {
    int64_t bytes = 0;
    bool any = false;
    for (int i = 0; i < request->ntransfers; i++) {
        if (request->source_read[i]) bytes += align_bytes(request->pulls.source_bytes[i], 64);
        if (request->target_read[i]) bytes += align_bytes(request->pulls.target_bytes[i], 64);
        any = any || request->source_read[i] || request->target_read[i];
    }
    if (!request->shared || !any || bytes > SMALL_BYTES) return;
    Error full;
    char *slots = heap_alloc(&job->heap, 2 * bytes, &full);
    if (!slots) return;
    request->small = true;
    request->slot[0] = slots;
    request->slot[1] = slots + bytes;
}

static bool request_open(JobComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error) {
    Arena *arena = &request->arena;
    size_t room = (size_t)n + 1;
    request->ntransfers = n;
    request->source_read = arena_alloc(arena, room * sizeof(bool));
    request->target_read = arena_alloc(arena, room * sizeof(bool));
    request->staged = arena_alloc(arena, 2 * room * sizeof(void *));
    request->target = arena_alloc(arena, room * sizeof(void *));
    request->work = arena_alloc(arena, room * sizeof(void *));
    request->source = arena_alloc(arena, room * sizeof(void *));
    if (!control_open(job, request, n, error)) return false;
    Sent sent = {.job = job, .request = request};
    int nranks = job->comm.nranks, self = job->comm.process;
    const Transfer *copy = transfers_copy(arena, transfers, n, nranks);
    if (!pulls_init(&request->pulls, arena, copy, n, nranks, self, is_remote, &sent, error)) return false;
    for (int i = 0; i < n; i++) {
        const Transfer *t = &request->pulls.transfer[i];
        sent.transfer = i;
        layout_box(t->from, &t->shape, self, &sent.source_box);
        layout_box(t->to, &t->shape, self, &sent.target_box);
        pieces_sent(t->from, t->to, &t->shape, nranks, self, sent_add, &sent);
        for (int m = 0; m < request->out.n; m++)
            request->out.at[m].bytes = align_bytes(request->out.at[m].bytes, 8);
    }
    for (int i = 0; i < request->pulls.peers.n; i++) {
        const PullPeer *peer = &request->pulls.peers.at[i];
        if (is_remote(&sent, peer->rank)) continue;
        ints_add(arena, &request->provider[peer->round], job->node_of[peer->rank]);
        ints_add(arena, &request->related, job->node_of[peer->rank]);
    }
    for (int i = 0; i < request->reader.n; i++)
        ints_add(arena, &request->related, request->reader.at[i]);
    slots_open(job, request);
    return messages_open(job, request, error);
}

CommRequest *request_prepare(Comm *comm, const Transfer *transfers, int n, Error *error) {
    JobComm *job = (JobComm *)comm;
    CommRequest *request = calloc(1, sizeof *request);
    int number = job->nrequests++;
    if (!request) {
        if (control_open(job, NULL, n, error)) error_set(error, EXIT_ENVIRONMENT, "no memory for a communication");
        return NULL;
    }
    arena_init(&request->arena);
    request->number = number;
    if (!request_open(job, request, transfers, n, error)) {
        request_destroy(job, request);
        return NULL;
    }
    *job->last = request;
    job->last = &request->next;
    return request;
}

static void message_close(JobComm *job, Message *message) {
    job->wire->table->release(job->wire, message->wire);
    free(message->buffer);
}

void request_destroy(JobComm *job, CommRequest *request) {
    for (int i = 0; i < request->in.n; i++)
        message_close(job, &request->in.at[i]);
    for (int i = 0; i < request->out.n; i++)
        message_close(job, &request->out.at[i]);
    for (int i = 0; request->staged && i < 2 * (request->ntransfers + 1); i++)
        if (request->staged[i]) heap_free(&job->heap, request->staged[i]);
    if (request->slot[0]) heap_free(&job->heap, request->slot[0]);
    if (request->control) heap_free(&job->heap, request->control);
    arena_finish(&request->arena);
    free(request);
}
