/* comm/mpi: one rank a process. Ranks of a node read each other's tensors in place (heap.c); ranks of different nodes exchange messages.
 *
 * PRUN_COMM=shared      shared memory within a node, or an error (default: shared memory where there is some)
 * PRUN_COMM=messages    messages everywhere
 * PRUN_COMM=nodes:N     as if every N consecutive ranks were a node of their own (tests)
 * PRUN_TIMEOUT=SECONDS  a rank that has waited so long for others says for whom, and ends the job (default 600; 0: never) */
#include "runtime/comm/job.h"
#include "runtime/comm/pull.h"
#include "runtime/limits.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t CHUNK_BYTES = INT64_C(1) << 30; /* MPI counts are int */

bool mpi_check(int code, const char *what, Error *error) {
    if (code == MPI_SUCCESS) return true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s", what, text);
}

/* ---------------------------------------------------------------- waiting */

enum { SPINS = 2000, YIELDS = 200, CLOCK_EVERY = 16, ENDING_S = 10 };
static const double YIELD_S = 0.002;

/* Until woken, or for a while: whoever waits for a message must look after it. */
static void sleep_turn(MpiComm *job, const Pause *pause) {
    struct timespec until;
    if (pause->messages || !job->shares) {
        until = (struct timespec){.tv_nsec = 50000};
        nanosleep(&until, NULL);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    sem_timedwait(&heap_header(&job->heap, job->node_self)->wake, &until);
}

bool pause_turn(MpiComm *job, Pause *pause) {
    int64_t turn = pause->turns++;
    if (pause->probe) {
        int some;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job->world, &some, MPI_STATUS_IGNORE);
    }
    if (!job->crowded && turn < SPINS) return true;
    if (pause->announced) {
        /* The caller has looked once more since the announcement, so nobody's wake can be missed. */
        sleep_turn(job, pause);
        return job->comm.timeout_s <= 0 || now_seconds() - pause->start_s < job->comm.timeout_s;
    }
    if (turn % CLOCK_EVERY == 0) {
        double now = now_seconds();
        if (pause->start_s == 0) pause->start_s = now;
        if (job->comm.timeout_s > 0 && now - pause->start_s >= job->comm.timeout_s) return false;
        if (turn > YIELDS && now - pause->start_s > YIELD_S) {
            pause->announced = true;
            if (job->shares) atomic_store(&heap_header(&job->heap, job->node_self)->sleeping, 1);
            return true;
        }
    }
    sched_yield();
    return true;
}

void pause_end(MpiComm *job, Pause *pause) {
    if (!pause->announced || !job->shares) return;
    HeapHeader *header = heap_header(&job->heap, job->node_self);
    atomic_store(&header->sleeping, 0);
    while (sem_trywait(&header->wake) == 0)
        continue; /* wakes that came too late */
}

void wake(MpiComm *job, const int *node_ranks, int n) {
    for (int i = 0; i < n; i++) {
        HeapHeader *header = heap_header(&job->heap, node_ranks[i]);
        if (atomic_load(&header->sleeping)) sem_post(&header->wake);
    }
}

void rank_describe(MpiComm *job, int node_rank, Text *text) {
    HeapHeader *header = heap_header(&job->heap, node_rank);
    int number = atomic_load(&header->request);
    CommRequest *request = job->first;
    for (int i = 0; i < number && request; i++)
        request = request_next(request);
    text_printf(text, "rank %d ", job->rank_of[node_rank]);
    if (number < 0 || !request) {
        text_printf(text, "has not begun any communication");
        return;
    }
    static const char *const place[] = {"has started ", "is moving data of ", "waits for the readers of its part of ", "last finished "};
    text_printf(text, "%s", place[atomic_load(&header->place)]);
    request_describe(request, text);
}

/* ---------------------------------------------------------------- collectives of processes */

bool mpi_wait(MpiComm *job, MPI_Request *request, const char *what, Error *error) {
    Pause pause = {.messages = true};
    for (;;) {
        int done = 0;
        if (!mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), what, error)) return false;
        if (done) break;
        if (!pause_turn(job, &pause))
            return error_set(error, EXIT_ENVIRONMENT, "%s: not all ranks came within %g s (PRUN_TIMEOUT)", what, job->comm.timeout_s);
    }
    pause_end(job, &pause);
    return true;
}

static bool job_barrier(Comm *comm, Error *error) {
    MpiComm *job = (MpiComm *)comm;
    MPI_Request request;
    if (!mpi_check(MPI_Ibarrier(job->world, &request), "barrier", error) || !mpi_wait(job, &request, "barrier", error)) return false;
    job->counters.sent_bytes = job->message_bytes;
    job->counters.messages = job->message_count;
    for (int i = 0; job->shares && i < job->nnode; i++) {
        const HeapCount *count = &heap_header(&job->heap, i)->read[job->node_self];
        job->counters.sent_bytes += count->bytes;
        job->counters.messages += count->messages;
    }
    return true;
}

static bool job_broadcast(Comm *comm, void *data, int64_t bytes, Error *error) {
    MpiComm *job = (MpiComm *)comm;
    for (int64_t at = 0; at < bytes; at += CHUNK_BYTES) {
        int n = (int)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES);
        MPI_Request request;
        if (!mpi_check(MPI_Ibcast((char *)data + at, n, MPI_BYTE, 0, job->world, &request), "broadcast", error)) return false;
        if (!mpi_wait(job, &request, "broadcast", error)) return false;
    }
    return true;
}

static bool job_all_gather_words(Comm *comm, uint64_t word, uint64_t *words, Error *error) {
    MpiComm *job = (MpiComm *)comm;
    MPI_Request request;
    if (!mpi_check(MPI_Iallgather(&word, 1, MPI_UINT64_T, words, 1, MPI_UINT64_T, job->world, &request), "gathering words", error))
        return false;
    return mpi_wait(job, &request, "gathering words", error);
}

static bool job_gather_text(Comm *comm, const char *text, int width, char *texts, Error *error) {
    MpiComm *job = (MpiComm *)comm;
    if (width <= 0) return true;
    char *padded = calloc((size_t)width, 1);
    if (!padded) return error_set(error, EXIT_ENVIRONMENT, "no memory for %d bytes of text", width);
    snprintf(padded, (size_t)width, "%s", text);
    MPI_Request request;
    bool ok = mpi_check(MPI_Igather(padded, width, MPI_CHAR, texts, width, MPI_CHAR, 0, job->world, &request), "gathering text", error) &&
              mpi_wait(job, &request, "gathering text", error);
    free(padded);
    return ok;
}

static void job_abort(Comm *comm, int code, const char *message) {
    MpiComm *job = (MpiComm *)comm;
    /* A file that all ranks read is damaged for them all. And mpirun takes seconds to end a job that several ranks abort in the same moment. */
    int turn = comm->process < 9 ? comm->process : 9;
    nanosleep(&(struct timespec){.tv_nsec = turn * 100000000L}, NULL);
    fflush(stdout);
    /* Ranks that wait for one that has stopped give up together, and end when mpirun has heard the first of them. */
    if (job->shares && atomic_exchange(&heap_header(&job->heap, 0)->ending, 1) != 0)
        sleep(ENDING_S);
    else
        fprintf(stderr, "prun: %s\nprun: rank %d on %s ends the job with exit code %d\n", message, comm->process, comm->node, code);
    fflush(stderr);
    MPI_Abort(job->world, code);
    _Exit(code); /* MPI_Abort may return when the job is already being ended */
}

/* ---------------------------------------------------------------- memory */

static void *job_alloc(Comm *comm, int64_t bytes, Error *error) {
    MpiComm *job = (MpiComm *)comm;
    if (job->shares && !job->heap_failed) {
        void *data = heap_alloc(&job->heap, bytes, error);
        if (data) return data;
        job->heap_failed = true;
    }
    void *data = bytes < 0 ? NULL : aligned_alloc(64, (size_t)align_bytes(bytes > 0 ? bytes : 1, 64));
    if (!data) error_set(error, EXIT_ENVIRONMENT, "no memory for %lld bytes of tensors", (long long)bytes);
    return data;
}

static void job_free(Comm *comm, void *data) {
    MpiComm *job = (MpiComm *)comm;
    if (job->shares && data && heap_has(&job->heap, data))
        heap_free(&job->heap, data);
    else
        free(data);
}

/* ---------------------------------------------------------------- beginning and end */

static void job_close(MpiComm *job, bool begun) {
    while (job->first) {
        CommRequest *request = job->first;
        job->first = request_next(request);
        request_destroy(job, request);
    }
    if (job->heap.base) heap_destroy(&job->heap);
    if (job->node != MPI_COMM_NULL) MPI_Comm_free(&job->node);
    if (job->world != MPI_COMM_NULL) MPI_Comm_free(&job->world);
    if (begun) MPI_Finalize();
    watch_end(job->watch);
    if (job->claim >= 0) close(job->claim);
    free(job->node_of);
    free(job->rank_of);
    free(job->offsets);
    free(job);
}

static void job_destroy(Comm *comm) {
    if (!comm) return;
    Error ignored;
    job_barrier(comm, &ignored); /* nobody unmaps what a peer still reads */
    job_close((MpiComm *)comm, true);
}

static const CommTable mpi_table = {
    .name = "mpi",
    .prepare = request_prepare,
    .start = request_start,
    .wait = request_wait,
    .barrier = job_barrier,
    .broadcast = job_broadcast,
    .all_gather_words = job_all_gather_words,
    .gather_text = job_gather_text,
    .abort = job_abort,
    .destroy = job_destroy,
    .alloc = job_alloc,
    .free = job_free,
};

/* True on all ranks of node when ok is on all. */
static bool all_agree(MpiComm *job, bool ok) {
    int mine = ok, all = 0;
    return MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, job->node) == MPI_SUCCESS && all;
}

typedef struct HeapName {
    char text[64];
    uint64_t token;
    int64_t bytes;
} HeapName;

/* Each rank creates its heap and maps the others'; either all ranks of the node succeed, or none has a heap. */
static bool heaps_open(MpiComm *job, Error *error) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    HeapName mine = {.bytes = heap_limit(job->nnode)};
    mine.token = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec * 31u + (uint64_t)getpid();
    snprintf(mine.text, sizeof mine.text, "/prun-%ld-%llx-%llx", (long)getpid(), (unsigned long long)stale_job(),
             (unsigned long long)mine.token);
    if (!mpi_check(MPI_Bcast(&mine.bytes, 1, MPI_INT64_T, 0, job->node), "shared memory", error)) return false;
    HeapName *names = calloc((size_t)job->nnode, sizeof *names);
    bool ok = names && heap_create(&job->heap, mine.text, mine.bytes, job->nnode, job->node_self, mine.token, error);
    ok = all_agree(job, ok);
    if (ok) {
        ok = mpi_check(MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, names, (int)sizeof mine, MPI_BYTE, job->node), "shared memory",
                       error);
        for (int i = 0; ok && i < job->nnode; i++)
            if (i != job->node_self) ok = heap_attach(&job->heap, i, names[i].text, names[i].bytes, names[i].token, error);
        ok = all_agree(job, ok);
    }
    heap_unlink(&job->heap);
    free(names);
    if (!ok) heap_destroy(&job->heap);
    return ok;
}

typedef struct Options {
    bool messages, shared;
    int node_ranks; /* 0: as the machine is */
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

/* Fills node, its numbers, and local_rank, nlocal of the machine as it is. */
static bool nodes_find(MpiComm *job, const Options *options, Error *error) {
    Comm *comm = &job->comm;
    MPI_Comm machine;
    if (!mpi_check(MPI_Comm_split_type(job->world, MPI_COMM_TYPE_SHARED, comm->process, MPI_INFO_NULL, &machine), "finding nodes", error))
        return false;
    MPI_Comm_rank(machine, &comm->local_rank);
    MPI_Comm_size(machine, &comm->nlocal);
    int part = options->node_ranks ? comm->process / options->node_ranks : 0;
    bool ok = mpi_check(MPI_Comm_split(machine, part, comm->process, &job->node), "finding nodes", error);
    MPI_Comm_free(&machine);
    if (!ok) return false;
    MPI_Comm_set_errhandler(job->node, MPI_ERRORS_RETURN);
    MPI_Comm_rank(job->node, &job->node_self);
    MPI_Comm_size(job->node, &job->nnode);
    job->node_of = malloc(sizeof *job->node_of * (size_t)comm->nranks);
    job->rank_of = malloc(sizeof *job->rank_of * (size_t)job->nnode);
    job->offsets = malloc(sizeof *job->offsets * (size_t)job->nnode);
    if (!job->node_of || !job->rank_of || !job->offsets) return error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", comm->nranks);
    if (!mpi_check(MPI_Allgather(&comm->process, 1, MPI_INT, job->rank_of, 1, MPI_INT, job->node), "finding nodes", error)) return false;
    comm->node_first = job->rank_of[0];
    for (int i = 0; i < comm->nranks; i++)
        job->node_of[i] = -1;
    for (int i = 0; i < job->nnode; i++)
        job->node_of[job->rank_of[i]] = i;
    return true;
}

/* All ranks, as far as they need each other to compare what they were told. */
static bool job_meet(MpiComm *job, Error *error) {
    Comm *comm = &job->comm;
    if (!mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &job->world), "MPI_Comm_dup", error)) return false;
    MPI_Comm_set_errhandler(job->world, MPI_ERRORS_RETURN);
    MPI_Comm_size(job->world, &comm->nranks);
    MPI_Comm_rank(job->world, &comm->process);
    comm->nprocesses = comm->nranks;
    comm->first_driven = comm->process;
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length = 0;
    MPI_Get_processor_name(name, &length);
    snprintf(comm->node, sizeof comm->node, "%.255s", name);
    return true;
}

static bool job_open(MpiComm *job, const Options *options, Error *error) {
    Comm *comm = &job->comm;
    if (!nodes_find(job, options, error)) return false;
    job->crowded = comm->nlocal > limits_cores("");
    if (job->nnode > 1 && !options->messages) {
        Error why = {.reported = true}; /* as long as nothing fails here */
        job->shares = heaps_open(job, &why);
        if (!job->shares && options->shared)
            return error_set(error, EXIT_ENVIRONMENT, "PRUN_COMM=shared: %s",
                             why.reported ? "another rank has no shared memory" : why.text);
    }
    bool all = job->shares && job->nnode == comm->nranks;
    snprintf(comm->transport, sizeof comm->transport, "%s",
             all           ? "shared memory"
             : job->shares ? "shared memory and messages"
                           : "messages");
    return true;
}

/* Where addresses are short, MPI_Init may wait for ever, or crash. */
static bool check_room(Error *error) {
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int64_t need = ((int64_t)256 << 20) + ((int64_t)8 << 20) * (here ? atoi(here) : 1), left = limits_addresses();
    if (left < 0 || left >= need) return true;
    if (number && strcmp(number, "0") != 0) return error_reported(error, EXIT_ENVIRONMENT); /* by the node's first */
    return error_set(
        error, EXIT_ENVIRONMENT,
        "not enough memory for Open MPI: it maps up to %lld MiB of addresses, and this process can have %lld (ulimit -v): raise the limit",
        (long long)(need >> 20), (long long)(left >> 20));
}

/* What is to be done before MPI_Init, while other ranks may already wait in it. */
static void job_begin(MpiComm *job) {
    const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    job->claim = stale_claim();
    if (number && strcmp(number, "0") == 0) stale_remove();
    job->watch = watch_begin(job->comm.timeout_s);
}

/* While the others still wait for this rank: mpirun ends all with the first that ends, and what is said later may never be heard. */
static void say_here(Error *error) {
    if (error->reported) return;
    fprintf(stderr, "prun: %s\n", error->text);
    error->reported = true;
}

Comm *comm_mpi_create(int *argc, char ***argv, const Common *common, Error *error) {
    int begun = 0, level = 0;
    Options options;
    Error mistake = {0}; /* in what this process was told: is said when all have been heard */
    if (!check_room(error)) return NULL;
    MPI_Initialized(&begun);
    MpiComm *job = begun ? NULL : calloc(1, sizeof *job);
    if (!job) {
        error_set(error, begun ? EXIT_INTERNAL : EXIT_ENVIRONMENT, begun ? "MPI is initialized already" : "no memory for the communicator");
        return NULL;
    }
    job->comm = (Comm){.table = &mpi_table, .ndriven = 1, .counters = &job->counters, .timeout_s = 600};
    job->world = job->node = MPI_COMM_NULL;
    job->heap.fd = -1;
    job->last = &job->first;
    bool readable = options_read(&options, &job->comm.timeout_s, &mistake);
    job_begin(job);
    bool ok = mpi_check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread", error);
    watch_started(job->watch);
    if (ok && job_meet(job, error) && comm_same(&job->comm, common, EXIT_USAGE, error)) {
        *error = mistake;
        if (comm_agree(&job->comm, readable, error) && job_open(job, &options, error)) return &job->comm;
    }
    say_here(error);
    job_close(job, ok);
    return NULL;
}
