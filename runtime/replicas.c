/* replicas: checks that ranks which hold the same part of a state hold the same bits. In a correct run they never differ: sums are added in the same
 * order everywhere (docs/redistribution.md). */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/run.h"

/* A hash of one driven rank's box of a state: of the box alone, or of its elements too. */
static bool word_of(Run *run, int driven, int state, bool elements, uint64_t *word, Error *error) {
    void *context;
    const Backend *backend = executor_backend(state_holder(run), &context);
    const State *of = &run->plan.graph.states.at[state];
    Box box;
    void *local = executor_state(state_holder(run), driven, state, &box), *copy = local;
    int64_t bytes = box_elements(&box) * dtype_bytes[of->type.dtype];
    *word = XXH64(box.begin, (size_t)box.ndim * sizeof *box.begin, 0);
    *word = XXH64(box.end, (size_t)box.ndim * sizeof *box.end, *word) + box.nothing;
    if (!elements || bytes == 0) return true;
    if (!backend->host) {
        copy = malloc((size_t)bytes);
        if (!copy) return error_set(error, EXIT_ENVIRONMENT, "out of memory for a copy of %s", of->name);
        if (!backend->download(context, copy, local, bytes, error)) return free(copy), false;
    }
    *word = XXH64(copy, (size_t)bytes, *word);
    if (copy != local) free(copy);
    return true;
}

static bool gather(Run *run, int state, bool elements, uint64_t *words, Error *error) {
    Comm *comm = run->comm;
    if (comm->nprocesses == 1) {
        for (int r = 0; r < comm->nranks; r++)
            if (!word_of(run, r, state, elements, &words[r], error)) return false;
        return true;
    }
    uint64_t own = 0;
    bool ok = word_of(run, 0, state, elements, &own, error);
    if (!comm_agree(comm, ok, error)) return false;
    return comm->table->all_gather_words(comm, own, words, error) || (run->agreed = false);
}

bool replicas_check(Run *run, const char *when, Error *error) {
    int nranks = run->comm->nranks;
    uint64_t *box = malloc(2 * (size_t)nranks * sizeof *box), *bits = box + nranks;
    bool ok = comm_agree(run->comm, box || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error);
    for (int s = 0; ok && s < run->plan.graph.states.n; s++) {
        const State *state = &run->plan.graph.states.at[s];
        ok = gather(run, s, false, box, error) && gather(run, s, true, bits, error);
        for (int r = 1; ok && r < nranks; r++)
            for (int q = 0; ok && q < r; q++) {
                if (box[q] != box[r]) continue;
                run->replicas_compared++;
                if (bits[q] != bits[r])
                    ok = error_set(error, EXIT_MISMATCH, "%s: ranks %d and %d hold the same part of %s, and other bits", when, q, r,
                                   state->name);
                break; /* rank q was compared with those before it */
            }
    }
    free(box);
    return comm_agree(run->comm, ok, error); /* all learn of it; one prints it */
}
