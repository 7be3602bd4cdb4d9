/* Uses a request of comm/job: start, and wait, which moves the data. Ranks of a node synchronize at three points: before sources are read
 * (arrived), before sums are read (reduced), and before the sources may change again (done). Small sources are copied into one of two slots
 * in turn: their owner waits only for the readers of the use before the last, so a small all_reduce has two such points.
 *
 * MPI's own collectives are not used: their order of terms changes with size and number of ranks, and what they send cannot be
 * counted. */
#include "runtime/comm/request.h"
#include <string.h>

/* ---------------------------------------------------------------- waiting for others */

typedef enum { FLAG_ARRIVED, FLAG_REDUCED, FLAG_DONE } Flag;

static bool flag_reached(const Control *control, Flag flag, uint32_t epoch) {
    const _Atomic uint32_t *at = flag == FLAG_ARRIVED ? &control->arrived : flag == FLAG_REDUCED ? &control->reduced : &control->done;
    return (int32_t)(atomic_load(at) - epoch) >= 0;
}

/* Fails because a rank has not come. */
static bool request_late(JobComm *job, const CommRequest *request, Error *error) {
    Text text = {0};
    request_describe(request, &text);
    hang_report(job, text.at, error);
    text_finish(&text);
    return false;
}

static bool flags_wait(JobComm *job, CommRequest *request, const Ints *peers, Flag flag, uint32_t epoch, Error *error) {
    bool messages = job->node.n < job->comm.nranks;
    Pause pause = {.messages = messages, .probe = messages};
    for (int i = 0; i < peers->n; i++)
        while (!flag_reached(request->peer[peers->at[i]], flag, epoch)) {
            if (job->wire->gone >= 0) return wire_gone(job->wire->gone, error) || job_broken(job);
            if (!pause_turn(job, &pause)) return request_late(job, request, error);
        }
    pause_end(job, &pause);
    return true;
}

static void flag_raise(JobComm *job, CommRequest *request, _Atomic uint32_t *flag) {
    atomic_store(flag, request->epoch);
    wake(job, request->related.at, request->related.n);
}

static bool messages_wait(JobComm *job, CommRequest *request, Message *messages, int n, int round, Error *error) {
    Pause pause = {.messages = true};
    for (int i = 0; i < n; i++) {
        if (messages[i].round != round) continue;
        for (;;) {
            const int done = job->wire->table->test(job->wire, messages[i].wire, error);
            if (done < 0) return job_broken(job);
            if (done) break;
            if (!pause_turn(job, &pause)) return request_late(job, request, error);
        }
    }
    pause_end(job, &pause);
    return true;
}

/* ---------------------------------------------------------------- a use of a request */

static bool messages_receive(JobComm *job, CommRequest *request, Error *error) {
    for (int i = 0; i < request->in.n; i++)
        if (!job->wire->table->start(job->wire, request->in.at[i].wire, error)) return false;
    return true;
}

/* Packs and sends a round's messages. */
static bool messages_send(JobComm *job, CommRequest *request, int round, Error *error) {
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
        if (!job->wire->table->start(job->wire, message->wire, error)) return false;
        job->message_count++;
        job->counters.messages++;
    }
    return true;
}

/* Heap memory that stands in for a tensor outside the heap; which: 0 a source, 1 a target. */
static void *staged(JobComm *job, CommRequest *request, int which, int transfer, Error *error) {
    void **at = &request->staged[which * (request->ntransfers + 1) + transfer];
    if (!*at) *at = heap_alloc(&job->heap, which ? request->pulls.target_bytes[transfer] : request->pulls.source_bytes[transfer], error);
    return *at;
}

/* Chooses where peers read each tensor, copies sources that are not there yet, and writes the offsets into the control block. */
static bool sources_publish(JobComm *job, CommRequest *request, Error *error) {
    int n = request->ntransfers, turn = request->epoch & 1;
    char *slot = request->slot[turn], *base = job->heap.base[job->node.self];
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

bool request_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error) {
    JobComm *job = (JobComm *)comm;
    (void)driven;
    if (!request_may_start(request->started, comm->process, error)) return false;
    for (int i = 0; i < request->ntransfers; i++) {
        request->source[i] = source[i];
        request->target[i] = request->work[i] = target[i];
    }
    request->started = true;
    request->epoch++;
    comm->place->request = request->number;
    for (int round = 0; round < 2; round++) /* the buffers are free when the sends of the last use are over */
        if (!messages_wait(job, request, request->out.at, request->out.n, round, error)) return false;
    if (!messages_receive(job, request, error) || !messages_send(job, request, 0, error)) return false;
    if (!request->shared) return true;
    if (request->small && !flags_wait(job, request, &request->reader, FLAG_DONE, request->epoch - 2, error)) return false;
    if (!sources_publish(job, request, error)) return false;
    flag_raise(job, request, &request->control->arrived);
    return true;
}

typedef struct Base {
    JobComm *job;
    CommRequest *request;
} Base;

static const void *source_base(void *context, int transfer, const PullSource *source, int round) {
    const Base *b = context;
    const CommRequest *request = b->request;
    int from = source->from, node = b->job->node_of[from], n = request->ntransfers;
    if (from == b->job->comm.process) return round == 0 ? request->source[transfer] : request->work[transfer];
    if (request->shared && node >= 0)
        return b->job->heap.base[node] +
               request->peer[node]->at[((request->epoch & 1) * 2 + (unsigned)round) * (unsigned)n + (unsigned)transfer];
    return request->in.at[request->in_of[round * b->job->comm.nranks + from]].buffer + source->message_bytes;
}

/* Executes all that this rank receives in a round; what it reads in place is counted for its owner too, which did nothing to send it. */
static bool round_execute(JobComm *job, CommRequest *request, int round, void *const *target, Error *error) {
    if (!messages_wait(job, request, request->in.at, request->in.n, round, error)) return false;
    Base base = {.job = job, .request = request};
    pulls_execute(&request->pulls, round, source_base, &base, target);
    for (int i = 0; i < request->pulls.peers.n; i++) {
        PullPeer *peer = &request->pulls.peers.at[i];
        if (peer->moved_bytes == 0) continue;
        job->counters.received_bytes += peer->moved_bytes;
        int node = job->node_of[peer->rank];
        if (request->shared && node >= 0) {
            HeapCount *count = &heap_header(&job->heap, job->node.self)->read[node];
            count->bytes += peer->moved_bytes;
            count->messages++;
        }
        peer->moved_bytes = 0;
    }
    return true;
}

/* After round 0: copies sums that were made elsewhere, for others to read, to the caller's target. */
static void sums_copy(CommRequest *request) {
    for (int i = 0; i < request->ntransfers; i++)
        if (request->work[i] != request->target[i]) memcpy(request->target[i], request->work[i], (size_t)request->pulls.target_bytes[i]);
}

static bool request_move(JobComm *job, CommRequest *request, Error *error) {
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
    return request->small || flags_wait(job, request, &request->reader, FLAG_DONE, request->epoch, error);
}

CommStatus request_wait(Comm *comm, CommRequest *request, int driven, Error *error) {
    JobComm *job = (JobComm *)comm;
    (void)driven;
    if (!request_may_wait(request->started, comm->process, error)) return COMM_FAILED;
    if (!request_move(job, request, error)) return COMM_FAILED;
    request->started = false;
    return COMM_COMPLETE;
}
