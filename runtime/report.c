/* report: what prun prints, on rank 0, always whole lines. */
#include "runtime/log.h"
#include "runtime/print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 768 };

void say(Run *run, const Text *text) {
    if (text->n == 0 || (fwrite(text->at, 1, text->n, stdout) == text->n && fflush(stdout) == 0) || run->unheard) return;
    const char *reason = strerror(errno);
    run->unheard = true;
    log_pause(run);
    fprintf(stderr, "prun: cannot write the output: %s: the run goes on without, and saves what it was to save\n", reason);
}

/* -v: one line per rank, in order, printed by rank 0. */
bool report_ranks(Run *run, Error *error) {
    Comm *comm = run->comm;
    char line[LINE_BYTES];
    char *lines = arena_alloc(&run->arena, (size_t)comm->nprocesses * LINE_BYTES);
    char device[320] = "";
    const DeviceQueue *queue = run->device.backend->queue;
    Text libraries = {0};
    if (queue) queue->describe(run->device.context, device, sizeof device);
    if (queue) queue->libraries(run->device.context, &libraries);
    snprintf(line, sizeof line, "node %s, pid %ld, %d thread%s, %s%s%s%s%s", comm->node, (long)getpid(), run->nthreads,
             run->nthreads == 1 ? "" : "s", device, *device ? ", " : "", libraries.n ? libraries.at : "", libraries.n ? ", " : "",
             comm->transport);
    text_finish(&libraries);
    bool one_process = comm->nprocesses == 1;
    if (!one_process) {
        char with_rank[LINE_BYTES];
        snprintf(with_rank, sizeof with_rank, "local rank %d of %d, %.600s", comm->local_rank, comm->nlocal, line);
        if (!comm->table->gather_text(comm, with_rank, LINE_BYTES, lines, error)) return run->agreed = false;
    }
    if (comm->process != 0) return true;
    Text text = {0};
    for (int r = 0; r < comm->nranks; r++)
        if (one_process)
            text_printf(&text, "rank %d: local rank %d of %d, %s\n", r, r, comm->nranks, line);
        else
            text_printf(&text, "rank %d: %s\n", r, lines + (size_t)r * LINE_BYTES);
    text_printf(&text, "certificate: %s\n", run->plan.certificate ? run->plan.certificate : "none: nothing was proved of this plan");
    say(run, &text);
    text_finish(&text);
    return true;
}

/* Median and quartiles of the times of steps, without the first, which warms up. */
void report_time(const Run *run, Text *text) {
    int64_t kept = run->nsteps < MAX_TIMED ? run->nsteps : MAX_TIMED, first = kept > 1 ? 1 : 0, n = kept - first;
    if (n == 0) return;
    double *sorted = run->step_seconds + first;
    qsort(sorted, (size_t)n, sizeof *sorted, compare_seconds);
    text_printf(text, "time per step: %.3f ms (median of %lld", 1e3 * (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, (long long)n);
    if (n > 1) text_printf(text, ", quartiles %.3f and %.3f", sorted[(n - 1) / 4] * 1e3, sorted[n - 1 - (n - 1) / 4] * 1e3);
    text_printf(text, ")\n");
}

/* Bytes that communicators counted, compared with the plan. Collective. */
bool report_bytes(Run *run, Text *text, Error *error) {
    Comm *comm = run->comm;
    if (!comm->table->barrier(comm, error)) return run->agreed = false; /* counters are exact */
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nranks * sizeof *words), most = 0, least = UINT64_MAX;
    if (comm->nprocesses > 1) {
        if (!comm->table->all_gather_words(comm, (uint64_t)executor_sent_bytes(run->executor, 0), words, error)) return run->agreed = false;
    } else {
        for (int r = 0; r < comm->nranks; r++)
            words[r] = (uint64_t)executor_sent_bytes(run->executor, r);
    }
    if (run->nsteps == 0) return true;
    for (int r = 0; r < comm->nranks; r++) {
        if (words[r] > most) most = words[r];
        if (words[r] < least) least = words[r];
    }
    double each = (double)run->nsteps;
    text_printf(text, "sent per rank and step: %.15g bytes", (double)most / each);
    if (least != most) text_printf(text, " by the busiest, %.15g by the idlest", (double)least / each);
    text_printf(text, " (plan: at most %lld)\n", (long long)run->plan.programs.at[0].sent_bytes);
    return true;
}

bool report_read(Run *run, Text *text, Error *error) {
    Comm *comm = run->comm;
    const DataKind kind = run->plan.graph.settings.data;
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nprocesses * sizeof *words), most = 0, least = UINT64_MAX;
    if (kind != DATA_FILES) return true;
    if (!comm->table->all_gather_words(comm, (uint64_t)executor_data_bytes(run->executor), words, error)) return run->agreed = false;
    for (int p = 0; p < comm->nprocesses; p++) {
        if (words[p] > most) most = words[p];
        if (words[p] < least) least = words[p];
    }
    if (comm->nprocesses == 1)
        text_printf(text, "read from files of rows, for all ranks: %llu bytes\n", (unsigned long long)most);
    else
        text_printf(text, "read from files of rows: %llu bytes by the rank that reads most, %llu by the one that reads least\n",
                    (unsigned long long)most, (unsigned long long)least);
    return true;
}

bool report_parameters(Run *run, Text *text, Error *error) {
    for (int i = 0; i < run->options->nprints; i++) {
        bool full;
        int state = find_print(&run->plan.graph, run->options->prints[i], &full);
        const TensorType *type = &run->plan.graph.states.at[state].type;
        double *whole;
        if (!executor_gather_state(state_holder(run), state, &run->arena, &whole, error)) return run->agreed = false;
        text_printf(text, "%s = ", run->plan.graph.states.at[state].name);
        tensor_print(text, &type->shape, type->dtype, whole, full);
        text_append(text, "\n", 1);
    }
    return true;
}
