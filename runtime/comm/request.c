/* The requests of comm/mpi. Within a node a rank reads what it needs where its peers have it; a control block per rank and request says how far
 * its owner is (arrived: its source may be read; reduced: its sums may be; done: it has read all that it reads). Between nodes, one
 * packed message per peer and round. Either way the same pulls, in the same order, so the same bits.
 *
 * Small sources are copied into one of two slots by turns: their owner need not wait for its readers, only for those of the turn before
 * the last. So a small all_reduce has two points where ranks meet, not three. */
#include "runtime/comm/job.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 64 << 10, MESSAGE_CHUNK = 1 << 30, TAGS = 16000 };

/* In the owner's heap. Epochs count the uses of the request, from 1; they wrap. */
typedef struct Control {
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic uint32_t reduced, done;
    int64_t at[];             /* [epoch & 1][source, target][transfer]: offsets in the owner's heap */
} Control;

/* Elements that go into a message. */
typedef struct Packing {
    int transfer;
    Walk walk;
    View from, packed;
    int64_t message_bytes;
} Packing;

typedef struct Message {
    int rank, round;
    int64_t bytes;
    char *buffer;
    MPI_Request *parts;       /* persistent; of at most MESSAGE_CHUNK bytes each */
    int nparts;
    VEC(Packing) packings;    /* of a message sent */
} Message;

typedef VEC(int) Ints;

struct CommRequest {
    CommRequest *next;
    Arena arena;
    int number, ntransfers;
    Pulls pulls;
    uint32_t epoch;
    bool started, shared, small;
    Control *control;         /* own */
    Control **peer;           /* per number in node */
    Ints provider[2];         /* numbers in node of those whose sources, whose sums this rank reads */
    Ints reader, related;     /* of those that read from this rank; of all that may wait for it */
    bool *source_read, *target_read; /* per transfer: by somebody in the node */
    char *slot[2];            /* small: per turn, sources and then targets */
    void **staged;            /* [source, target][transfer]: copies in the heap of tensors that lie elsewhere; NULL until needed */
    void **target, **work;    /* the caller's; where sums are made that others read */
    const void **source;
    VEC(Message) in, out;
    int *in_of;               /* [round][rank] -> index in `in` */
};

CommRequest *request_next(CommRequest *request) { return request->next; }

void request_describe(const CommRequest *request, Text *text)
{
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
    MpiComm *job;
    CommRequest *request;
    int transfer;
    Box source_box, target_box;
} Sent;

static void ints_add(Arena *arena, Ints *ints, int value)
{
    for (int i = 0; i < ints->n; i++)
        if (ints->at[i] == value) return;
    vec_push(arena, ints, value);
}

static bool is_remote(void *context, int rank)
{
    (void)rank, (void)context;
    const Sent *sent = context;
    return !sent->request->shared || sent->job->node_of[rank] < 0;
}

static Message *out_find(CommRequest *request, int rank, int round)
{
    for (int i = request->out.n - 1; i >= 0; i--)
        if (request->out.at[i].rank == rank && request->out.at[i].round == round) return &request->out.at[i];
    vec_push(&request->arena, &request->out, (Message){.rank = rank, .round = round});
    return &request->out.at[request->out.n - 1];
}

static bool sent_add(void *context, const Piece *piece)
{
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
    View views[2];
    walk_init(&packing.walk, piece, (const Box *[]){piece->round == 0 ? &sent->source_box : &sent->target_box, NULL}, 2, views);
    packing.from = views[0];
    packing.packed = views[1];
    vec_push(arena, &message->packings, packing);
    message->bytes += piece->count * dtype_bytes[request->pulls.transfer[sent->transfer].dtype];
    return true;
}

static bool message_open(MpiComm *job, CommRequest *request, Message *message, bool out, Error *error)
{
    message->nparts = (int)((message->bytes + MESSAGE_CHUNK - 1) / MESSAGE_CHUNK);
    message->parts = arena_alloc(&request->arena, sizeof *message->parts * (size_t)message->nparts);
    message->buffer = malloc((size_t)message->bytes);
    if (!message->buffer) return error_set(error, EXIT_ENVIRONMENT, "no memory for a message of %lld bytes", (long long)message->bytes);
    int tag = request->number % TAGS * 2 + message->round;
    for (int i = 0; i < message->nparts; i++) message->parts[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < message->nparts; i++) {
        int64_t at = (int64_t)i * MESSAGE_CHUNK, left = message->bytes - at;
        int n = (int)(left < MESSAGE_CHUNK ? left : MESSAGE_CHUNK);
        int code = out ? MPI_Send_init(message->buffer + at, n, MPI_BYTE, message->rank, tag, job->world, &message->parts[i])
                       : MPI_Recv_init(message->buffer + at, n, MPI_BYTE, message->rank, tag, job->world, &message->parts[i]);
        if (!mpi_check(code, "preparing a message", error)) return false;
    }
    return true;
}

static bool messages_open(MpiComm *job, CommRequest *request, Error *error)
{
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

/* Takes a control block, tells the node where it is; no shared memory for this request unless every rank of the node has one. */
static bool control_open(MpiComm *job, CommRequest *request, Error *error)
{
    if (!job->shares) return true;
    int64_t bytes = (int64_t)sizeof(Control) + 4 * request->ntransfers * (int64_t)sizeof(int64_t), at = -1;
    Error full;
    if (!job->heap_failed) request->control = heap_alloc(&job->heap, bytes, &full);
    if (request->control) {
        memset(request->control, 0, (size_t)bytes);
        at = (char *)request->control - job->heap.base[job->node_self];
    }
    int64_t *all = arena_alloc(&request->arena, sizeof *all * (size_t)job->nnode);
    MPI_Request gather;
    if (!mpi_check(MPI_Iallgather(&at, 1, MPI_INT64_T, all, 1, MPI_INT64_T, job->node, &gather), "preparing a communication", error)) return false;
    if (!mpi_wait(job, &gather, "preparing a communication", error)) return false;
    request->peer = arena_alloc(&request->arena, sizeof *request->peer * (size_t)job->nnode);
    request->shared = true;
    for (int i = 0; i < job->nnode; i++) {
        if (all[i] < 0)
            request->shared = false;
        else
            request->peer[i] = (Control *)(job->heap.base[i] + all[i]);
    }
    return true;
}

/* Two slots for all that peers read here, if that is little. */
static void slots_open(MpiComm *job, CommRequest *request)
{
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

static bool request_open(MpiComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error)
{
    Arena *arena = &request->arena;
    size_t room = (size_t)n + 1;
    request->ntransfers = n;
    request->source_read = arena_alloc(arena, room * sizeof(bool));
    request->target_read = arena_alloc(arena, room * sizeof(bool));
    request->staged = arena_alloc(arena, 2 * room * sizeof(void *));
    request->target = arena_alloc(arena, room * sizeof(void *));
    request->work = arena_alloc(arena, room * sizeof(void *));
    request->source = arena_alloc(arena, room * sizeof(void *));
    if (!control_open(job, request, error)) return false;
    Sent sent = {.job = job, .request = request};
    int nranks = job->comm.nranks, self = job->comm.process;
    if (!pulls_init(&request->pulls, arena, transfers_copy(arena, transfers, n), n, nranks, self, is_remote, &sent, error)) return false;
    for (int i = 0; i < n; i++) {
        const Transfer *t = &request->pulls.transfer[i];
        sent.transfer = i;
        layout_box(t->from, &t->shape, self, &sent.source_box);
        layout_box(t->to, &t->shape, self, &sent.target_box);
        pieces_sent(t->from, t->to, &t->shape, nranks, self, sent_add, &sent);
        for (int m = 0; m < request->out.n; m++) request->out.at[m].bytes = align_bytes(request->out.at[m].bytes, 8);
    }
    for (int i = 0; i < request->pulls.peers.n; i++) {
        const PullPeer *peer = &request->pulls.peers.at[i];
        if (is_remote(&sent, peer->rank)) continue;
        ints_add(arena, &request->provider[peer->round], job->node_of[peer->rank]);
        ints_add(arena, &request->related, job->node_of[peer->rank]);
    }
    for (int i = 0; i < request->reader.n; i++) ints_add(arena, &request->related, request->reader.at[i]);
    slots_open(job, request);
    return messages_open(job, request, error);
}

CommRequest *request_prepare(Comm *comm, const Transfer *transfers, int n, Error *error)
{
    MpiComm *job = (MpiComm *)comm;
    CommRequest *request = calloc(1, sizeof *request);
    if (!request) {
        error_set(error, EXIT_ENVIRONMENT, "no memory for a communication");
        return NULL;
    }
    arena_init(&request->arena);
    request->number = job->nrequests++;
    if (!request_open(job, request, transfers, n, error)) {
        request_destroy(job, request);
        return NULL;
    }
    *job->last = request;
    job->last = &request->next;
    return request;
}

static void message_close(Message *message)
{
    for (int i = 0; message->parts && i < message->nparts; i++)
        if (message->parts[i] != MPI_REQUEST_NULL) MPI_Request_free(&message->parts[i]);
    free(message->buffer);
}

void request_destroy(MpiComm *job, CommRequest *request)
{
    for (int i = 0; i < request->in.n; i++) message_close(&request->in.at[i]);
    for (int i = 0; i < request->out.n; i++) message_close(&request->out.at[i]);
    for (int i = 0; request->staged && i < 2 * (request->ntransfers + 1); i++)
        if (request->staged[i]) heap_free(&job->heap, request->staged[i]);
    if (request->slot[0]) heap_free(&job->heap, request->slot[0]);
    if (request->control) heap_free(&job->heap, request->control);
    arena_finish(&request->arena);
    free(request);
}

/* ---------------------------------------------------------------- waiting for others */

typedef enum { FLAG_ARRIVED, FLAG_REDUCED, FLAG_DONE } Flag;

static bool flag_reached(const Control *control, Flag flag, uint32_t epoch)
{
    const _Atomic uint32_t *at = flag == FLAG_ARRIVED ? &control->arrived : flag == FLAG_REDUCED ? &control->reduced : &control->done;
    return (int32_t)(atomic_load(at) - epoch) >= 0;
}

/* Who is missing, and what each of them did last. */
static bool flags_late(MpiComm *job, CommRequest *request, const Ints *peers, Flag flag, uint32_t epoch, Error *error)
{
    static const char *const missing[] = {"reached it", "added up their part", "read what it has for them"};
    Text text = {0};
    text_printf(&text, "rank %d waits in ", job->comm.process);
    request_describe(request, &text);
    text_printf(&text, " since %g s (PRUN_TIMEOUT) for ranks that have not %s:", job->timeout_s, missing[flag]);
    for (int i = 0; i < peers->n; i++)
        if (!flag_reached(request->peer[peers->at[i]], flag, epoch)) {
            text_printf(&text, " ");
            rank_describe(job, peers->at[i], &text);
            text_printf(&text, ";");
        }
    error_set(error, EXIT_ENVIRONMENT, "%.*s", (int)(text.n - 1), text.at);
    text_finish(&text);
    return false;
}

static bool flags_wait(MpiComm *job, CommRequest *request, const Ints *peers, Flag flag, uint32_t epoch, Error *error)
{
    bool messages = job->nnode < job->comm.nranks;
    Pause pause = {.messages = messages, .probe = messages};
    for (int i = 0; i < peers->n; i++)
        while (!flag_reached(request->peer[peers->at[i]], flag, epoch))
            if (!pause_turn(job, &pause)) return flags_late(job, request, peers, flag, epoch, error);
    pause_end(job, &pause);
    return true;
}

static void flag_raise(MpiComm *job, CommRequest *request, _Atomic uint32_t *flag)
{
    atomic_store(flag, request->epoch);
    wake(job, request->related.at, request->related.n);
}

static bool message_late(MpiComm *job, CommRequest *request, const Message *messages, int n, int round, bool out, Error *error)
{
    Text text = {0};
    text_printf(&text, "rank %d waits in ", job->comm.process);
    request_describe(request, &text);
    text_printf(&text, " since %g s (PRUN_TIMEOUT) for ranks that have not %s:", job->timeout_s, out ? "taken its message" : "sent theirs");
    const char *comma = " ";
    for (int i = 0; i < n; i++)
        for (int k = 0; k < messages[i].nparts && messages[i].round == round; k++) {
            int done = 0;
            MPI_Request_get_status(messages[i].parts[k], &done, MPI_STATUS_IGNORE);
            if (done) continue;
            text_printf(&text, "%s%d", comma, messages[i].rank);
            comma = ", ";
            break;
        }
    error_set(error, EXIT_ENVIRONMENT, "%s", text.at);
    text_finish(&text);
    return false;
}

static bool messages_wait(MpiComm *job, CommRequest *request, Message *messages, int n, int round, bool out, Error *error)
{
    Pause pause = {.messages = true};
    for (int i = 0; i < n; i++) {
        if (messages[i].round != round) continue;
        for (;;) {
            int done = 0;
            if (!mpi_check(MPI_Testall(messages[i].nparts, messages[i].parts, &done, MPI_STATUSES_IGNORE), "a message", error)) return false;
            if (done) break;
            if (!pause_turn(job, &pause)) return message_late(job, request, messages, n, round, out, error);
        }
    }
    pause_end(job, &pause);
    return true;
}

/* ---------------------------------------------------------------- a use of a request */

static bool messages_receive(CommRequest *request, Error *error)
{
    for (int i = 0; i < request->in.n; i++)
        if (!mpi_check(MPI_Startall(request->in.at[i].nparts, request->in.at[i].parts), "receiving", error)) return false;
    return true;
}

/* Packs and sends a round's messages. */
static bool messages_send(MpiComm *job, CommRequest *request, int round, Error *error)
{
    for (int i = 0; i < request->out.n; i++) {
        Message *message = &request->out.at[i];
        if (message->round != round) continue;
        for (int k = 0; k < message->packings.n; k++) {
            const Packing *p = &message->packings.at[k];
            const void *from = round == 0 ? request->source[p->transfer] : request->work[p->transfer];
            int bytes = dtype_bytes[request->pulls.transfer[p->transfer].dtype];
            walk_copy(&p->walk, &p->packed, message->buffer + p->message_bytes, &p->from, from, bytes);
            job->message_bytes += p->walk.count * bytes;
            job->counters.sent_bytes += p->walk.count * bytes;
        }
        if (!mpi_check(MPI_Startall(message->nparts, message->parts), "sending", error)) return false;
        job->message_count++;
        job->counters.messages++;
    }
    return true;
}

/* Memory in the heap that stands for a tensor that lies elsewhere: which 0 a source, 1 a target. */
static void *staged(MpiComm *job, CommRequest *request, int which, int transfer, Error *error)
{
    void **at = &request->staged[which * (request->ntransfers + 1) + transfer];
    if (!*at) *at = heap_alloc(&job->heap, which ? request->pulls.target_bytes[transfer] : request->pulls.source_bytes[transfer], error);
    return *at;
}

/* Chooses where peers read each tensor, copies sources there that are not there yet, and writes down the offsets. */
static bool sources_publish(MpiComm *job, CommRequest *request, Error *error)
{
    int n = request->ntransfers, turn = request->epoch & 1;
    char *slot = request->slot[turn], *base = job->heap.base[job->node_self];
    int64_t *at = request->control->at + (ptrdiff_t)turn * 2 * n;
    for (int i = 0; i < n; i++) {
        if (!request->source_read[i]) continue;
        const void *source = request->source[i];
        int64_t bytes = request->pulls.source_bytes[i];
        if (request->small || !heap_has(&job->heap, source)) {
            void *copy = request->small ? slot : staged(job, request, 0, i, error);
            if (!copy) return false;
            memcpy(copy, source, (size_t)bytes);
            source = copy;
            if (request->small) slot += align_bytes(bytes, 64);
        }
        at[i] = (const char *)source - base;
    }
    for (int i = 0; i < n; i++) {
        if (!request->target_read[i]) continue;
        if (request->small) {
            request->work[i] = slot;
            slot += align_bytes(request->pulls.target_bytes[i], 64);
        } else if (!heap_has(&job->heap, request->work[i])) {
            request->work[i] = staged(job, request, 1, i, error);
            if (!request->work[i]) return false;
        }
        at[n + i] = (char *)request->work[i] - base;
    }
    return true;
}

static void place_set(MpiComm *job, const CommRequest *request, RequestPlace place)
{
    if (!job->shares) return;
    HeapHeader *header = heap_header(&job->heap, job->node_self);
    atomic_store_explicit(&header->request, request->number, memory_order_relaxed);
    atomic_store_explicit(&header->place, place, memory_order_relaxed);
}

bool request_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error)
{
    MpiComm *job = (MpiComm *)comm;
    (void)driven;
    if (request->started) return error_set(error, EXIT_INTERNAL, "rank %d starts a communication a second time before it has waited for it", comm->process);
    for (int i = 0; i < request->ntransfers; i++) {
        request->source[i] = source[i];
        request->target[i] = request->work[i] = target[i];
    }
    request->started = true;
    request->epoch++;
    place_set(job, request, PLACE_STARTED);
    for (int round = 0; round < 2; round++) /* the buffers are free when the sends of the use before are over */
        if (!messages_wait(job, request, request->out.at, request->out.n, round, true, error)) return false;
    if (!messages_receive(request, error) || !messages_send(job, request, 0, error)) return false;
    if (!request->shared) return true;
    if (request->small && !flags_wait(job, request, &request->reader, FLAG_DONE, request->epoch - 2, error)) return false;
    if (!sources_publish(job, request, error)) return false;
    flag_raise(job, request, &request->control->arrived);
    return true;
}

typedef struct Base {
    MpiComm *job;
    CommRequest *request;
} Base;

static const void *source_base(void *context, int transfer, const PullSource *source, int round)
{
    const Base *b = context;
    const CommRequest *request = b->request;
    int from = source->from, node = b->job->node_of[from], n = request->ntransfers;
    if (from == b->job->comm.process) return round == 0 ? request->source[transfer] : request->work[transfer];
    if (request->shared && node >= 0)
        return b->job->heap.base[node] + request->peer[node]->at[((request->epoch & 1) * 2 + (unsigned)round) * (unsigned)n + (unsigned)transfer];
    return request->in.at[request->in_of[round * b->job->comm.nranks + from]].buffer + source->message_bytes;
}

/* Everything that this rank receives in a round; counted for the rank that had it, too, where that rank did nothing to send it. */
static bool round_execute(MpiComm *job, CommRequest *request, int round, void *const *target, Error *error)
{
    if (!messages_wait(job, request, request->in.at, request->in.n, round, false, error)) return false;
    Base base = {.job = job, .request = request};
    pulls_execute(&request->pulls, round, source_base, &base, target);
    for (int i = 0; i < request->pulls.peers.n; i++) {
        PullPeer *peer = &request->pulls.peers.at[i];
        if (peer->moved_bytes == 0) continue;
        job->counters.received_bytes += peer->moved_bytes;
        int node = job->node_of[peer->rank];
        if (request->shared && node >= 0) {
            HeapCount *count = &heap_header(&job->heap, job->node_self)->read[node];
            count->bytes += peer->moved_bytes;
            count->messages++;
        }
        peer->moved_bytes = 0;
    }
    return true;
}

/* After round 0 the caller's target gets the sums that were made elsewhere for others to read. */
static void sums_copy(CommRequest *request)
{
    for (int i = 0; i < request->ntransfers; i++)
        if (request->work[i] != request->target[i]) memcpy(request->target[i], request->work[i], (size_t)request->pulls.target_bytes[i]);
}

static bool request_move(MpiComm *job, CommRequest *request, Error *error)
{
    place_set(job, request, PLACE_MOVING);
    if (request->shared && !flags_wait(job, request, &request->provider[0], FLAG_ARRIVED, request->epoch, error)) return false;
    if (!round_execute(job, request, 0, request->work, error)) return false;
    if (request->shared) flag_raise(job, request, &request->control->reduced);
    if (!messages_send(job, request, 1, error)) return false;
    sums_copy(request);
    if (request->pulls.nrounds > 1) {
        if (request->shared && !flags_wait(job, request, &request->provider[1], FLAG_REDUCED, request->epoch, error)) return false;
        if (!round_execute(job, request, 1, request->target, error)) return false;
    }
    if (!request->shared) return true;
    flag_raise(job, request, &request->control->done);
    place_set(job, request, PLACE_READERS);
    return request->small || flags_wait(job, request, &request->reader, FLAG_DONE, request->epoch, error);
}

CommStatus request_wait(Comm *comm, CommRequest *request, int driven, Error *error)
{
    MpiComm *job = (MpiComm *)comm;
    (void)driven;
    if (!request->started) {
        error_set(error, EXIT_INTERNAL, "rank %d waits for a communication that it has not started", comm->process);
        return COMM_FAILED;
    }
    if (!request_move(job, request, error)) return COMM_FAILED;
    request->started = false;
    place_set(job, request, PLACE_DONE);
    return COMM_COMPLETE;
}
