/* comm/job: one rank per process. Ranks of a node read each other's tensors in place (heap.c); ranks of different nodes exchange messages.
 *
 * PRUN_COMM=shared      shared memory within a node, or an error (default: shared memory where there is some)
 * PRUN_COMM=messages    messages everywhere
 * PRUN_COMM=nodes:N     as if every N consecutive ranks were a node of their own (tests)
 * PRUN_TIMEOUT=SECONDS  a rank that has waited so long for others says for whom, and ends the job (default 600; 0: never) */
#include "runtime/comm/job.h"
#include "runtime/comm/pull.h"
#include "ir/limits.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------- waiting */

enum { SPINS = 2000, YIELDS = 200, CLOCK_EVERY = 16, ENDING_S = 10 };
static const double YIELD_S = 0.002, STOPPED_S = 1;

/* Sleeps until woken, or for a moment: a rank that waits for a message must poll for it. */
static void sleep_turn(JobComm *job, const Pause *pause) {
    struct timespec until;
    if (pause->messages || !job->shares) {
        until = (struct timespec){.tv_nsec = 50000};
        nanosleep(&until, NULL);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    sem_timedwait(&heap_header(&job->heap, job->node.self)->wake, &until);
}

/* How long this rank has waited. If a signal had stopped the process meanwhile, the count begins anew, so that this rank hears of ranks that have waited for it. */
static double waited_s(Pause *pause) {
    const double now = now_seconds();
    if (pause->start_s == 0 || now - pause->looked_s > STOPPED_S) pause->start_s = now;
    pause->looked_s = now;
    return now - pause->start_s;
}

/* Whether another rank has waited too long, and asks where this one is. */
static bool is_called(JobComm *job) {
    const bool called = hang_called(job);
    if (called && !job->silent) job->called = true;
    return called;
}

bool pause_turn(JobComm *job, Pause *pause) {
    int64_t turn = pause->turns++;
    if (pause->probe || pause->announced) job->wire->table->progress(job->wire);
    if (!job->crowded && turn < SPINS) return true;
    if (pause->announced) {
        /* The caller has checked once more since the announcement, so no wake can be missed. */
        sleep_turn(job, pause);
        const double waited = waited_s(pause);
        return !is_called(job) && (job->comm.timeout_s <= 0 || waited < job->comm.timeout_s);
    }
    if (turn % CLOCK_EVERY == 0) {
        const double waited = waited_s(pause);
        if (job->comm.timeout_s > 0 && waited >= job->comm.timeout_s) return false;
        if (turn > YIELDS && waited > YIELD_S) {
            pause->announced = true;
            if (job->shares) atomic_store(&heap_header(&job->heap, job->node.self)->sleeping, 1);
            return true;
        }
    }
    sched_yield();
    return true;
}

void pause_end(JobComm *job, Pause *pause) {
    if (!pause->announced || !job->shares) return;
    HeapHeader *header = heap_header(&job->heap, job->node.self);
    atomic_store(&header->sleeping, 0);
    while (sem_trywait(&header->wake) == 0)
        continue; /* wakes that came too late */
}

void wake(JobComm *job, const int *node_ranks, int n) {
    for (int i = 0; i < n; i++) {
        HeapHeader *header = heap_header(&job->heap, node_ranks[i]);
        if (atomic_load(&header->sleeping)) sem_post(&header->wake);
    }
}

/* ---------------------------------------------------------------- collectives of processes */

static bool job_barrier(Comm *comm, Error *error) {
    JobComm *job = (JobComm *)comm;
    char *here = malloc((size_t)comm->nranks);
    bool ok = here ? collect_all_gather(job, &job->world, "", 1, here, "barrier", error)
                   : error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", comm->nranks);
    free(here);
    if (!ok) return false;
    job->counters.sent_bytes = job->message_bytes;
    job->counters.messages = job->message_count;
    for (int i = 0; job->shares && i < job->node.n; i++) {
        const HeapCount *count = &heap_header(&job->heap, i)->read[job->node.self];
        job->counters.sent_bytes += count->bytes;
        job->counters.messages += count->messages;
    }
    return true;
}

static bool job_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    JobComm *job = (JobComm *)comm;
    return collect_broadcast(job, &job->world, data, bytes, "broadcast", error);
}

static bool job_all_gather_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    JobComm *job = (JobComm *)comm;
    return collect_all_gather(job, &job->world, &word, sizeof word, words, "gathering words", error);
}

static bool job_gather_text(Comm *comm, const char *text, int width, char *texts, Error *error) {
    JobComm *job = (JobComm *)comm;
    if (width <= 0) return true;
    char *padded = calloc((size_t)width, 1);
    if (!padded) return error_set(error, EXIT_ENVIRONMENT, "no memory for %d bytes of text", width);
    snprintf(padded, (size_t)width, "%s", text);
    const bool ok = collect_gather(job, &job->world, padded, width, texts, "gathering text", error);
    free(padded);
    return ok;
}

static bool job_overdue(Comm *comm, double waited_s, const char *what, Error *error) {
    JobComm *job = (JobComm *)comm;
    job->wire->table->progress(job->wire);
    return (!is_called(job) && (comm->timeout_s <= 0 || waited_s < comm->timeout_s)) || hang_report(job, what, error);
}

/* Waits for so long: another rank may end the job meanwhile. */
static void linger(JobComm *job, double seconds) {
    for (const double until = now_seconds() + seconds; now_seconds() < until;) {
        job->wire->table->progress(job->wire);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void job_abort(Comm *comm, int code, const char *message) {
    JobComm *job = (JobComm *)comm;
    /* All ranks may fail alike, as on a damaged file that all read, and mpirun takes seconds to end a job that several ranks abort at once. */
    int turn = comm->process < 9 ? comm->process : 9;
    if (job->silent) turn = hang_first(job) ? 0 : 10; /* all that have answered would print the same */
    /* This rank was stopped by a signal while the others asked: they have named it, and end the job. */
    if (job->silent && job->called && hang_whole(job)) turn = 10 * ENDING_S;
    linger(job, turn * 0.1);
    fflush(stdout);
    /* Ranks that wait for a stopped one give up together: one of the node prints, the others wait for mpirun to end them. */
    if (job->shares && atomic_exchange(&heap_header(&job->heap, 0)->ending, 1) != 0)
        linger(job, ENDING_S);
    else
        fprintf(stderr, "prun: %s\n%sprun: rank %d on %s ends the job with exit code %d\n", message, job->report.at ? job->report.at : "",
                comm->process, comm->node, code);
    fflush(stderr);
    hang_kill(job);
    job->wire->table->abort(job->wire, code);
}

/* ---------------------------------------------------------------- memory */

static void *job_alloc(Comm *comm, int64_t bytes, Error *error) {
    JobComm *job = (JobComm *)comm;
    if (job->shares && !job->heap_failed) {
        void *data = heap_alloc(&job->heap, bytes, error);
        if (data) return data;
        job->heap_failed = true;
    }
    return comm_memory(bytes, error);
}

static void job_free(Comm *comm, void *data) {
    JobComm *job = (JobComm *)comm;
    if (job->shares && data && heap_has(&job->heap, data))
        heap_free(&job->heap, data);
    else
        free(data);
}

/* ---------------------------------------------------------------- beginning and end */

static void job_close(JobComm *job) {
    while (job->first) {
        CommRequest *request = job->first;
        job->first = request_next(request);
        request_destroy(job, request);
    }
    if (job->heap.base) heap_destroy(&job->heap);
    if (job->wire) job->wire->table->destroy(job->wire);
    free(job->node_of);
    free(job->world.rank);
    free(job->node.rank);
    free(job->offsets);
    free(job->processes);
    free(job->silent);
    text_finish(&job->report);
    free(job);
}

static void job_destroy(Comm *comm) {
    if (!comm) return;
    Error error = {0};
    /* Without the barrier memory could be unmapped that a peer still reads, and MPI_Finalize would wait for ever for a rank that does not come. */
    if (!job_barrier(comm, &error)) job_abort(comm, error.code, error.text);
    job_close((JobComm *)comm);
}

static const CommTable job_table = {
    .name = "job",
    .prepare = request_prepare,
    .start = request_start,
    .wait = request_wait,
    .barrier = job_barrier,
    .broadcast = job_broadcast,
    .all_gather_words = job_all_gather_words,
    .gather_text = job_gather_text,
    .overdue = job_overdue,
    .abort = job_abort,
    .destroy = job_destroy,
    .alloc = job_alloc,
    .free = job_free,
};

/* True on all ranks of the node when ok is true on all. */
static bool all_agree(JobComm *job, bool ok) {
    Error ignored;
    int64_t *here = job->offsets, own = ok;
    bool all = collect_all_gather(job, &job->node, &own, sizeof own, here, "shared memory", &ignored);
    for (int i = 0; i < job->node.n && all; i++)
        all = here[i] != 0;
    return all;
}

typedef struct HeapName {
    char text[64];
    uint64_t token;
    int64_t bytes;
} HeapName;

/* Each rank creates its heap and maps the others'; either all ranks of the node succeed, or none has a heap. */
static bool heaps_open(JobComm *job, Error *error) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    HeapName mine = {.bytes = heap_limit(job->node.n)};
    mine.token = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec * 31u + (uint64_t)getpid();
    snprintf(mine.text, sizeof mine.text, "/prun-%ld-%llx-%llx", (long)getpid(), (unsigned long long)stale_job(),
             (unsigned long long)mine.token);
    if (!collect_broadcast(job, &job->node, &mine.bytes, sizeof mine.bytes, "shared memory", error)) return false;
    HeapName *names = calloc((size_t)job->node.n, sizeof *names);
    bool ok = names && heap_create(&job->heap, mine.text, mine.bytes, job->node.n, job->node.self, mine.token, error);
    ok = all_agree(job, ok);
    if (ok) {
        ok = collect_all_gather(job, &job->node, &mine, sizeof mine, names, "shared memory", error);
        for (int i = 0; ok && i < job->node.n; i++)
            if (i != job->node.self) ok = heap_attach(&job->heap, i, names[i].text, names[i].bytes, names[i].token, error);
        ok = all_agree(job, ok);
    }
    heap_unlink(&job->heap);
    free(names);
    if (!ok) heap_destroy(&job->heap);
    return ok;
}

typedef struct Options {
    bool messages, shared;
    int node_ranks; /* 0: the real nodes */
} Options;

static bool options_read(Options *options, double *timeout_s, Error *error) {
    *options = (Options){0};
    const char *how = getenv("PRUN_COMM"), *timeout = getenv("PRUN_TIMEOUT");
    char *end = NULL;
    if (how && strncmp(how, "nodes:", 6) == 0) {
        long n = strtol(how + 6, &end, 10);
        if (n < 1 || n > 1 << 20 || *end)
            return error_set(error, EXIT_USAGE, "PRUN_COMM=%s: after nodes: the number of ranks of a node is expected", how);
        options->node_ranks = (int)n;
    } else if (how && *how) {
        options->messages = strcmp(how, "messages") == 0;
        options->shared = strcmp(how, "shared") == 0;
        if (!options->messages && !options->shared)
            return error_set(error, EXIT_USAGE, "PRUN_COMM=%s: expected shared, messages or nodes:N", how);
    }
    if (timeout && *timeout) {
        double seconds = strtod(timeout, &end);
        if (*end || !(seconds >= 0)) return error_set(error, EXIT_USAGE, "PRUN_TIMEOUT=%s: expected seconds", timeout);
        *timeout_s = seconds;
    }
    return true;
}

/* Fills in node, node_of, processes, and of comm local_rank and nlocal on the real machine, launch_rank where no launcher has said it. */
static bool nodes_find(JobComm *job, const Options *options, Error *error) {
    Comm *comm = &job->comm;
    const size_t n = (size_t)comm->nranks;
    const Process self = hang_process(comm->node);
    job->processes = calloc(n, sizeof *job->processes);
    job->node_of = malloc(sizeof *job->node_of * n);
    job->node.rank = malloc(sizeof *job->node.rank * n);
    job->offsets = malloc(sizeof *job->offsets * n);
    bool ok = (job->processes && job->node_of && job->node.rank && job->offsets) ||
              error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", comm->nranks);
    ok = ok && collect_all_gather(job, &job->world, &self, sizeof self, job->processes, "finding nodes", error);
    const int each = options->node_ranks ? options->node_ranks : comm->nranks;
    for (int i = 0; ok && i < comm->nranks; i++) {
        const bool here = job->processes[i].here = strcmp(job->processes[i].node, comm->node) == 0;
        job->node_of[i] = -1;
        if (here && i < comm->process) comm->local_rank++;
        if (here) comm->nlocal++;
        if (!here || i / each != comm->process / each) continue;
        if (i == comm->process) job->node.self = job->node.n;
        job->node_of[i] = job->node.n;
        job->node.rank[job->node.n++] = i;
    }
    if (ok) comm->node_first = job->node.rank[0];
    if (comm->launch_rank < 0) comm->launch_rank = comm->local_rank;
    return ok;
}

/* Fills in what ranks need of each other to compare their arguments. */
static bool job_meet(JobComm *job, Error *error) {
    Comm *comm = &job->comm;
    comm->nranks = comm->nprocesses = job->world.n = job->wire->nranks;
    comm->process = comm->first_driven = job->world.self = job->wire->rank;
    memcpy(comm->node, job->wire->node, sizeof comm->node);
    job->world.rank = malloc(sizeof *job->world.rank * (size_t)comm->nranks);
    if (!job->world.rank) return error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", comm->nranks);
    for (int i = 0; i < comm->nranks; i++)
        job->world.rank[i] = i;
    return true;
}

static bool job_open(JobComm *job, const Options *options, Error *error) {
    Comm *comm = &job->comm;
    if (!nodes_find(job, options, error)) return false;
    job->crowded = comm->nlocal > limits_cores("");
    if (job->node.n > 1 && !options->messages) {
        Error why = {.reported = true}; /* unless something fails on this rank */
        job->shares = heaps_open(job, &why);
        if (job->shares) comm->place = &heap_header(&job->heap, job->node.self)->place;
        if (!job->shares && options->shared)
            return error_set(error, EXIT_ENVIRONMENT, "PRUN_COMM=shared: %s",
                             why.reported ? "another rank has no shared memory" : why.text);
    }
    bool all = job->shares && job->node.n == comm->nranks;
    snprintf(comm->transport, sizeof comm->transport, "%s",
             all           ? "shared memory"
             : job->shares ? "shared memory and messages"
                           : "messages");
    return true;
}

/* wire NULL: it could not be opened, and *error says why. */
static Comm *job_create(JobComm *job, Wire *wire, const Options *options, const Common *common, bool readable, const Error *mistake,
                        Error *error) {
    job->wire = wire;
    if (wire && job_meet(job, error) && comm_same(&job->comm, common, EXIT_USAGE, error)) {
        *error = *mistake;
        if (comm_agree(&job->comm, readable, error) && job_open(job, options, error)) return &job->comm;
    }
    comm_say(error); /* while the others still wait for this rank: mpirun ends all when the first ends */
    job_close(job);
    return NULL;
}

Comm *comm_job_create(int *argc, char ***argv, const Meeting *meeting, const Common *common, Error *error) {
    Options options;
    Error mistake = {0}; /* in this process's settings: reported when all have been heard */
    JobComm *job = calloc(1, sizeof *job);
    if (!job) {
        error_set(error, EXIT_ENVIRONMENT, "no memory for the communicator");
        return NULL;
    }
    job->comm = (Comm){.table = &job_table,
                       .ndriven = 1,
                       .launch_rank = meeting ? meeting->local_rank : -1,
                       .counters = &job->counters,
                       .timeout_s = 600,
                       .place = &job->comm.own_place,
                       .own_place = {.at = -1, .request = -1}};
    job->kills = meeting && meeting->per_node == 0;
    job->heap.fd = -1;
    job->last = &job->first;
    const bool readable = options_read(&options, &job->comm.timeout_s, &mistake);
    Wire *wire = meeting ? wire_tcp_open(meeting, error) : wire_mpi_open(argc, argv, job->comm.timeout_s, error);
    return job_create(job, wire, &options, common, readable, &mistake, error);
}
