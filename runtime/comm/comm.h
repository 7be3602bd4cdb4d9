/* comm: how tensors go from one layout into another between ranks. Knows layouts, no graphs and no plans.
 *
 *   piece.c   runs of elements: copies and reductions between boxes, messages included
 *   pull.c    what one rank receives in a request, as a list of pulls; executing them
 *   local.c   all ranks in one process
 *   heap.c    memory shared by the processes of a node
 *   job.c     one rank per process: reads in place through shared memory within a node, messages between nodes
 *   wire.h    such messages: wire_mpi.c, wire_tcp.c; collect.c: collectives of few bytes over them
 *   request.c prepares its requests; transfer.c uses them
 *   memory.c  room for tensors of one process, in huge pages where it is large
 *   hang.c    reports where each rank is when one has waited too long for others
 *   watch.c   ends a rank whose mpirun has ended; stale.c: shared memory that jobs have left
 *   agree.c   agreement of all processes; same.c: whether settings are the same on all: over any communicator
 */
#pragma once
#include "ir/layout.h"

/* One tensor to be brought from one layout into another; kind is the plan's word for the pattern. */
typedef struct Transfer {
    CommKind kind;
    DType dtype;
    Shape shape; /* global */
    const Layout *from, *to;
    const char *name; /* of the value, for messages */
    bool rounds;      /* its sum may be rounded to its type whenever a term is added: gradients that are compressed */
    bool anywhere;    /* its tensors may lie in memory that is not from alloc, or was allocated after the request was prepared */
} Transfer;

typedef struct Comm Comm;
typedef struct CommRequest CommRequest;
typedef enum { COMM_FAILED = -1, COMM_PENDING = 0, COMM_COMPLETE = 1 } CommStatus;

/* Where a rank is, for the report of ranks that wait for it in vain. The rank itself writes it; others may read it at any time. */
typedef enum { DOING_START, DOING_STEP, DOING_DATA, DOING_EVALUATION, DOING_SAVE, DOING_NEXT } Doing; /* DOING_NEXT: the step is done */
typedef struct CommPlace {
    volatile int64_t step;    /* of training, over all epochs; 0: none yet */
    volatile int32_t doing;   /* Doing */
    volatile int32_t program; /* of the plan */
    volatile int32_t at;      /* step of the rank's role, -1: none */
    volatile int32_t request; /* number of the communication that it began last, -1: none */
    volatile int32_t broken;  /* it has waited for a rank in vain: the job can neither go on nor end in order */
} CommPlace;

typedef struct CommCounters {
    int64_t sent_bytes, received_bytes, messages; /* counted where data is moved */
} CommCounters;

/* A communicator drives one rank of the job (job) or all of them (local). Every collective call is made once for each driven rank. */
typedef struct CommTable {
    const char *name;
    /* Prepares a group of transfers that run together, once, before the first step: groups, peers, staging. Collective over all ranks, in
     * the same order. Owned by the communicator. NULL and *error on failure, which may be this rank's alone: all agree on success before any starts it. */
    CommRequest *(*prepare)(Comm *comm, const Transfer *transfers, int n, Error *error);
    /* Driven rank `driven` enters: source[i], target[i] are its local buffers of transfer i (from's box, to's box). */
    bool (*start)(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error);
    /* COMM_PENDING only where other driven ranks must start first (local). */
    CommStatus (*wait)(Comm *comm, CommRequest *request, int driven, Error *error);
    bool (*barrier)(Comm *comm, Error *error);
    /* From rank 0 to all processes; sizes agree. */
    bool (*broadcast)(Comm *comm, void *data, int64_t bytes, Error *error);
    /* Gathers one 64-bit word of every process on all of them, for checks and reports. words: room for nprocesses. */
    bool (*all_gather_words)(Comm *comm, uint64_t word, uint64_t *words, Error *error);
    /* The text of process p arrives at texts + p * width on rank 0, cut to width bytes, NUL-terminated; texts may be NULL elsewhere. */
    bool (*gather_text)(Comm *comm, const char *text, int width, char *texts, Error *error);
    /* For a wait for other processes that only the layer above sees, a device's. True: it may go on. False: it has lasted PRUN_TIMEOUT, or another process's wait has. All that
     * wait have then told each other where they are, and *error names those that did not. NULL: there are no other processes. */
    bool (*overdue)(Comm *comm, double waited_s, const char *what, Error *error);
    /* Prints message and this rank on stderr and ends the whole job with the exit code. When several ranks abort, one message is enough: the others
     * wait for a moment, in which the job usually ends. Does not return. */
    void (*abort)(Comm *comm, int code, const char *message);
    void (*destroy)(Comm *comm);
    /* Memory for tensors that peers may read in place (shared by the processes of a node where there are several), aligned to 64 bytes, not
     * zeroed; at least one byte. Not collective. Where these are not NULL the executor takes the arenas, states and inputs of its driven ranks
     * from here, before it prepares requests; a transfer with `anywhere` takes any other memory as source and target too, at the price of a copy. NULL and *error when there
     * is none left. Must be freed before the communicator is destroyed. */
    void *(*alloc)(Comm *comm, int64_t bytes, Error *error);
    void (*free)(Comm *comm, void *data);
} CommTable;

struct Comm {
    const CommTable *table;
    int nranks;              /* of the job */
    int nprocesses, process; /* processes and this one's number; 1 and 0 for local */
    int ndriven;             /* ranks that this process drives */
    int first_driven;        /* they are first_driven .. first_driven + ndriven - 1 */
    int local_rank, nlocal;  /* on this node */
    int launch_rank; /* LOCAL_RANK: number of this process among those of its launch on this node; local_rank where no launcher says it */
    int node_first;  /* lowest rank that shares this one's node (PRUN_COMM=nodes:N: as simulated) */
    char node[256];
    double timeout_s;       /* PRUN_TIMEOUT: how long a rank waits for others, 0: for ever; used with several processes */
    CommCounters *counters; /* per driven rank; exact after a barrier (peers that read in place count for the rank that they read from) */
    char transport
        [256]; /* how data moves, for -v: "one process", "shared memory", "messages", "shared memory and messages"; of devices also why so */
    CommPlace *place; /* of this process; never NULL */
    /* Appends what a rank does at a step of its role, "matmul of h"; NULL: unknown. */
    void (*name_place)(const void *plan, int rank, const CommPlace *place, Text *text);
    const void *plan;    /* first argument of name_place */
    CommPlace own_place; /* place points here where it is in no memory that others see */
    bool device;         /* sources and targets are a device's memory: alloc is its backend's */
    bool captures;       /* start and wait only queue work that a captured step may contain */
};
/* Notes what this process is about to do, and in which step of training. */
static inline void comm_doing(Comm *comm, Doing doing, int64_t step) {
    comm->place->at = -1;
    comm->place->doing = doing;
    comm->place->step = step;
}
Comm *comm_local_create(int nranks, Error *error);
/* watch.c: opens the launcher's file descriptor of this number (2: its stderr) where that is a terminal and the launcher is an ancestor of this process; else -1. */
int comm_terminal(int number);
/* Something that must be the same on all processes, and this one's value; said NULL: no value. A list ends where what is NULL. */
typedef struct Common {
    const char *what, *said;
} Common;
struct Meeting; /* wire.h */
/* meeting NULL: by MPI_Init_thread. Returns NULL and *error when this process was not started by mpirun and so on, or where the processes differ in `common` (may be NULL).
 * It prints failures itself once the processes know of each other: *error is then reported. prun --ranks N never calls it. */
Comm *comm_job_create(int *argc, char ***argv, const struct Meeting *meeting, const Common *common, Error *error);
void *comm_memory(int64_t bytes, Error *error); /* memory.c: memory for tensors, to be freed by free(); NULL and *error: there is none */
/* Whether all processes of the communicator got here with ok. Collective. When one did not, returns false everywhere; only the first that
 * failed has an error to print (prefixed with its rank unless all failed), the others' are marked reported: one message per mistake. */
bool comm_agree(Comm *comm, bool ok, Error *error);
/* For an error that all processes have found alike: only process 0 is to print it. Returns false. */
bool comm_first_says(const Comm *comm, Error *error);
/* Prints an error at once and marks it as reported, unless it is already. To be called before other ranks hear of it: when the first of them ends, the launcher soon ends all. */
void comm_say(Error *error);
/* As comm_agree, but on all processes *error has the message of the first that failed, prefixed with its rank. */
bool comm_agree_all(Comm *comm, bool ok, Error *error);
/* *number becomes the largest of all processes. Collective. */
bool comm_most(Comm *comm, uint64_t *number, Error *error);
/* *seconds becomes the longest of all processes, 0 where none took any. Collective. */
bool comm_longest(Comm *comm, double *seconds, Error *error);
/* Merges records that begin with a key: *all becomes those of all processes, each key once with the record of the first process that has it; the same list everywhere, to be
 * freed. A record has `bytes` bytes, of which the first key_bytes are its key. Collective; meant for little data. */
bool comm_union(Comm *comm, const void *mine, int64_t n, int64_t bytes, int64_t key_bytes, void **all, int64_t *nall, Error *error);
/* By how many seconds this process's clock (now_seconds) is ahead of process 0's, to within half a barrier; processes of a node share a clock. Collective. */
bool comm_clock(Comm *comm, double *ahead, Error *error);
/* Whether common[i].said is the same on all processes; all have the same list of things, or NULL. Collective. Where it is not, process 0 gets an error with this code that names
 * the first thing that differs, its values and which ranks have them; the others' errors are marked reported. */
bool comm_same(Comm *comm, const Common *common, int code, Error *error);
