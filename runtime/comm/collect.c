/* collect: collectives of few bytes over messages, for what processes agree on. All ranks call them in the same order, so one tag is enough for all. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/job.h"

enum { COLLECT_TAG = WIRE_TAGS - 1 };

/* Waits for a message and yields meanwhile. Fails after PRUN_TIMEOUT. */
static bool wait_for(JobComm *job, WireMessage *message, const char *what, Error *error) {
    Pause pause = {.messages = true};
    for (;;) {
        const int done = job->wire->table->test(job->wire, message, error);
        if (done < 0) return job_broken(job);
        if (done) break;
        if (!pause_turn(job, &pause)) return hang_report(job, what, error);
    }
    pause_end(job, &pause);
    return true;
}

/* Starts a message that is prepared for this use alone: collectives are rare. */
static WireMessage *begin(JobComm *job, bool out, int rank, void *data, int64_t bytes, Error *error) {
    const WireTable *table = job->wire->table;
    WireMessage *message = table->prepare(job->wire, out, rank, COLLECT_TAG, data, bytes, error);
    if (message && table->start(job->wire, message, error)) return message;
    table->release(job->wire, message);
    return NULL;
}

static bool finish(JobComm *job, WireMessage *message, const char *what, Error *error) {
    const bool ok = message && wait_for(job, message, what, error);
    job->wire->table->release(job->wire, message);
    return ok;
}

bool collect_broadcast(JobComm *job, const Group *group, void *data, int64_t bytes, const char *what, Error *error) {
    int have = 1; /* members that have it: each round doubles them */
    for (; have <= group->self; have *= 2)
        continue;
    bool ok = true;
    if (group->self > 0) ok = finish(job, begin(job, false, group->rank[group->self - have / 2], data, bytes, error), what, error);
    for (; ok && group->self + have < group->n; have *= 2)
        ok = finish(job, begin(job, true, group->rank[group->self + have], data, bytes, error), what, error);
    return ok;
}

bool collect_gather(JobComm *job, const Group *group, const void *own, int64_t bytes, void *all, const char *what, Error *error) {
    if (group->self > 0) return finish(job, begin(job, true, group->rank[0], (void *)(uintptr_t)own, bytes, error), what, error);
    WireMessage **messages = calloc((size_t)group->n, sizeof *messages);
    bool ok = messages || error_set(error, EXIT_ENVIRONMENT, "no memory for %d messages", group->n);
    if (ok) memcpy(all, own, (size_t)bytes);
    for (int i = 1; ok && i < group->n; i++)
        ok = (messages[i] = begin(job, false, group->rank[i], (char *)all + i * bytes, bytes, error)) != NULL;
    for (int i = 1; messages && i < group->n; i++)
        if (ok)
            ok = finish(job, messages[i], what, error);
        else
            job->wire->table->release(job->wire, messages[i]);
    free(messages);
    return ok;
}

bool collect_all_gather(JobComm *job, const Group *group, const void *own, int64_t bytes, void *all, const char *what, Error *error) {
    return collect_gather(job, group, own, bytes, all, what, error) && collect_broadcast(job, group, all, group->n * bytes, what, error);
}
