/* agree: whether all processes have come to a point with success, over any communicator; and who says what has failed where one has not. */
#include "runtime/comm/comm.h"
#include <stdlib.h>
#include <string.h>

typedef struct Failures {
    int first, n, code; /* the lowest process that failed, -1: none has; how many have; the exit code of the first */
} Failures;

/* Gathers which processes failed. words: room for nprocesses; NULL: out of memory. False and *error: it could not be learnt. */
static bool failures_gather(Comm *comm, bool ok, uint64_t *words, Failures *failures, Error *error) {
    Error failure;
    *failures = (Failures){.first = -1};
    if (!words) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (!comm->table->all_gather_words(comm, ok ? 0 : (uint64_t)error->code, words, &failure)) {
        *error = failure;
        return false;
    }
    for (int p = comm->nprocesses - 1; p >= 0; p--)
        if (words[p] != 0) *failures = (Failures){.first = p, .n = failures->n + 1, .code = (int)words[p]};
    return true;
}

bool comm_agree(Comm *comm, bool ok, Error *error) {
    if (comm->nprocesses == 1) return ok;
    Failures failures;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool known = failures_gather(comm, ok, words, &failures, error);
    free(words);
    if (!known || failures.n == 0) return known;
    if (comm->process != failures.first) return error_reported(error, failures.code);
    if (failures.n == comm->nprocesses) return false;
    error->rank = comm->first_driven;
    return error_prefix(error, "rank %d (%s): ", comm->first_driven, comm->node);
}

void comm_say(Error *error) {
    if (error->reported) return;
    fprintf(stderr, "prun: %s\n", error->text);
    error->reported = true;
}

bool comm_first_says(const Comm *comm, Error *error) {
    error->reported = comm->process != 0;
    return false;
}

bool comm_agree_all(Comm *comm, bool ok, Error *error) {
    if (comm->nprocesses == 1) return ok;
    Failures failures;
    Error failure;
    uint64_t word, *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool known = failures_gather(comm, ok, words, &failures, error);
    if (known && failures.n > 0) {
        char text[512] = "";
        if (comm->process == failures.first)
            snprintf(text, sizeof text, "rank %d (%.100s): %.380s", comm->first_driven, comm->node, error->text);
        for (size_t at = 0; known && at < sizeof text; at += sizeof word) {
            memcpy(&word, text + at, sizeof word);
            known = comm->table->all_gather_words(comm, word, words, &failure);
            if (known) memcpy(text + at, &words[failures.first], sizeof word);
        }
        error_of_rank(error, known ? failures.first : -1, failures.code, "%s", known ? text : failure.text);
    }
    free(words);
    return known && failures.n == 0;
}

static bool broadcast_from(Comm *comm, int process, char *data, int64_t bytes, uint64_t *words, Error *error) {
    if (process == 0) return comm->table->broadcast(comm, data, bytes, error);
    for (int64_t at = 0; at < bytes; at += 8) {
        const size_t length = (size_t)(bytes - at < 8 ? bytes - at : 8);
        uint64_t word = 0;
        memcpy(&word, data + at, length);
        if (!comm->table->all_gather_words(comm, word, words, error)) return false;
        memcpy(data + at, &words[process], length);
    }
    return true;
}

/* Counts the records of mine whose keys are not among the n of `all`, and copies them to `to` unless it is NULL. */
static int64_t records_new(const char *all, int64_t n, const char *mine, int64_t nmine, int64_t bytes, int64_t key_bytes, char *to) {
    int64_t found = 0;
    for (int64_t i = 0; i < nmine; i++) {
        bool known = false;
        for (int64_t k = 0; k < n && !known; k++)
            known = memcmp(all + k * bytes, mine + i * bytes, (size_t)key_bytes) == 0;
        if (known) continue;
        if (to) memcpy(to + found * bytes, mine + i * bytes, (size_t)bytes);
        found++;
    }
    return found;
}

bool comm_union(Comm *comm, const void *mine, int64_t n, int64_t bytes, int64_t key_bytes, void **all, int64_t *nall, Error *error) {
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool ok = comm_agree(comm, words || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    char *known = NULL;
    *nall = 0;
    while (ok) { /* the first process that has more records sends them */
        int first = 0;
        ok = comm->table->all_gather_words(comm, (uint64_t)records_new(known, *nall, mine, n, bytes, key_bytes, NULL), words, error);
        while (ok && first < comm->nprocesses && words[first] == 0)
            first++;
        if (!ok || first == comm->nprocesses) break;
        const int64_t more = (int64_t)words[first];
        char *grown = realloc(known, (size_t)((*nall + more) * bytes));
        if (grown) known = grown;
        ok = comm_agree(comm, grown || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
        if (ok && comm->process == first) records_new(known, *nall, mine, n, bytes, key_bytes, known + *nall * bytes);
        ok = ok && broadcast_from(comm, first, known + *nall * bytes, more * bytes, words, error);
        *nall += more;
    }
    free(words);
    if (!ok) free(known);
    *all = ok ? known : NULL;
    return ok;
}

bool comm_most(Comm *comm, uint64_t *number, Error *error) {
    if (comm->nprocesses == 1) return true;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    bool ok = comm_agree(comm, words || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error) &&
              comm->table->all_gather_words(comm, *number, words, error);
    for (int p = 0; ok && p < comm->nprocesses; p++)
        if (words[p] > *number) *number = words[p];
    free(words);
    return ok;
}

bool comm_longest(Comm *comm, double *seconds, Error *error) {
    uint64_t picoseconds = *seconds > 0 ? (uint64_t)(*seconds * 1e12) : 0;
    if (!comm_most(comm, &picoseconds, error)) return false;
    *seconds = (double)picoseconds * 1e-12;
    return true;
}
