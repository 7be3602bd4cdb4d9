/* wire_mpi: messages over MPI. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/job.h"
#include "ir/limits.h"

static const int64_t PART_BYTES = INT64_C(1) << 30; /* MPI counts are int */

typedef struct MpiWire {
    Wire wire; /* first: what callers see */
    MPI_Comm world;
    Watch *watch;
    int claim; /* stale_claim */
} MpiWire;

struct WireMessage {
    int nparts;
    MPI_Request parts[]; /* persistent */
};

/* Reports a failure in MPI's own words. */
static bool mpi_check(int code, const char *what, Error *error) {
    if (code == MPI_SUCCESS) return true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s", what, text);
}

static void mpi_release(Wire *wire, WireMessage *message) {
    (void)wire;
    for (int i = 0; message && i < message->nparts; i++)
        if (message->parts[i] != MPI_REQUEST_NULL) MPI_Request_free(&message->parts[i]);
    free(message);
}

static WireMessage *mpi_prepare(Wire *wire, bool out, int rank, int tag, void *data, int64_t bytes, Error *error) {
    MpiWire *own = (MpiWire *)wire;
    const int nparts = bytes == 0 ? 1 : (int)((bytes + PART_BYTES - 1) / PART_BYTES);
    WireMessage *message = malloc(sizeof *message + (size_t)nparts * sizeof *message->parts);
    if (!message) {
        error_set(error, EXIT_ENVIRONMENT, "no memory for a message");
        return NULL;
    }
    message->nparts = nparts;
    for (int i = 0; i < nparts; i++)
        message->parts[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < nparts; i++) {
        char *at = (char *)data + i * PART_BYTES;
        const int64_t left = bytes - i * PART_BYTES;
        const int n = (int)(left < PART_BYTES ? left : PART_BYTES);
        const int code = out ? MPI_Send_init(at, n, MPI_BYTE, rank, tag, own->world, &message->parts[i])
                             : MPI_Recv_init(at, n, MPI_BYTE, rank, tag, own->world, &message->parts[i]);
        if (mpi_check(code, "preparing a message", error)) continue;
        mpi_release(wire, message);
        return NULL;
    }
    return message;
}

static bool mpi_start(Wire *wire, WireMessage *message, Error *error) {
    (void)wire;
    return mpi_check(MPI_Startall(message->nparts, message->parts), "starting a message", error);
}

static int mpi_test(Wire *wire, WireMessage *message, Error *error) {
    int done = 0;
    (void)wire;
    return mpi_check(MPI_Testall(message->nparts, message->parts, &done, MPI_STATUSES_IGNORE), "a message", error) ? done != 0 : -1;
}

static void mpi_progress(Wire *wire) {
    int some;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ((MpiWire *)wire)->world, &some, MPI_STATUS_IGNORE);
}

static bool mpi_has_come(Wire *wire, int tag) {
    int some = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, tag, ((MpiWire *)wire)->world, &some, MPI_STATUS_IGNORE);
    return some != 0;
}

/* Nothing to do: MPI_Abort ends it. */
static void mpi_leave(Wire *wire, int rank) {
    (void)wire, (void)rank;
}

static _Noreturn void mpi_abort(Wire *wire, int code) {
    MPI_Abort(((MpiWire *)wire)->world, code);
    _Exit(code); /* MPI_Abort may return when the job is already being ended */
}

static void mpi_close(MpiWire *own, bool begun) {
    if (own->world != MPI_COMM_NULL) MPI_Comm_free(&own->world);
    if (begun) MPI_Finalize();
    watch_end(own->watch);
    if (own->claim >= 0) close(own->claim);
    free(own);
}

static void mpi_destroy(Wire *wire) {
    if (wire) mpi_close((MpiWire *)wire, true);
}

static const WireTable mpi_table = {
    .name = "mpi",
    .prepare = mpi_prepare,
    .start = mpi_start,
    .test = mpi_test,
    .release = mpi_release,
    .progress = mpi_progress,
    .has_come = mpi_has_come,
    .leave = mpi_leave,
    .abort = mpi_abort,
    .destroy = mpi_destroy,
};

/* With too few addresses MPI_Init may wait for ever, or crash. */
static bool check_room(Error *error) {
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int64_t need = ((int64_t)256 << 20) + ((int64_t)8 << 20) * (here ? atoi(here) : 1), left = limits_addresses();
    if (left < 0 || left >= need) return true;
    if (number && strcmp(number, "0") != 0) return error_reported(error, EXIT_ENVIRONMENT); /* the node's first prints it */
    return error_set(
        error, EXIT_ENVIRONMENT,
        "not enough memory for Open MPI: it maps up to %lld MiB of addresses, and this process can have %lld (ulimit -v): raise the limit",
        (long long)(need >> 20), (long long)(left >> 20));
}

/* What is to be done before MPI_Init, while other ranks may already wait in it. */
static void before_init(MpiWire *own, double timeout_s) {
    const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    own->claim = stale_claim();
    if (number && strcmp(number, "0") == 0) stale_remove();
    own->watch = watch_begin(timeout_s);
}

static bool meet(MpiWire *own, Error *error) {
    Wire *wire = &own->wire;
    if (!mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &own->world), "MPI_Comm_dup", error)) return false;
    MPI_Comm_set_errhandler(own->world, MPI_ERRORS_RETURN);
    MPI_Comm_size(own->world, &wire->nranks);
    MPI_Comm_rank(own->world, &wire->rank);
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length = 0;
    MPI_Get_processor_name(name, &length);
    snprintf(wire->node, sizeof wire->node, "%.255s", name);
    return true;
}

Wire *wire_mpi_open(int *argc, char ***argv, double timeout_s, Error *error) {
    int begun = 0, level = 0;
    if (!check_room(error)) return NULL;
    MPI_Initialized(&begun);
    MpiWire *own = begun ? NULL : calloc(1, sizeof *own);
    if (!own) {
        error_set(error, begun ? EXIT_INTERNAL : EXIT_ENVIRONMENT, begun ? "MPI is initialized already" : "no memory for the communicator");
        return NULL;
    }
    own->wire.table = &mpi_table;
    own->wire.gone = -1;
    own->world = MPI_COMM_NULL;
    before_init(own, timeout_s);
    const bool ok = mpi_check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread", error);
    watch_started(own->watch);
    if (ok && meet(own, error)) return &own->wire;
    mpi_close(own, ok);
    return NULL;
}
