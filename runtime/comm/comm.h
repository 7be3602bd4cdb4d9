/* comm: how tensors go from one layout into another between ranks. Knows layouts, no graphs and no plans.
 *
 *   piece.c   runs of elements: copies and reductions between boxes, messages included
 *   pull.c    what one rank receives in a request, as a list of pulls; executing them
 *   local.c   all ranks in one process
 *   heap.c    memory shared by the processes of a node
 *   job.c     one rank a process: in place through shared memory within a node, messages between nodes
 *   wire.h    such messages: wire_mpi.c, wire_tcp.c; collect.c: collectives of few bytes over them
 *   request.c prepares its requests; transfer.c uses them
 *   memory.c  room for tensors of one process, in huge pages where it is large
 *   hang.c    which ranks are where, when one has waited too long for others
 *   watch.c   ends a rank whose mpirun has ended; stale.c: shared memory that jobs have left
 *   agree.c   agreement of all processes, same.c that they have the same in common: over any communicator
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
    bool anywhere;    /* its tensors may lie in memory that alloc has not given, or only after the request was prepared */
} Transfer;

typedef struct Comm Comm;
typedef struct CommRequest CommRequest;
typedef enum { COMM_FAILED = -1, COMM_PENDING = 0, COMM_COMPLETE = 1 } CommStatus;

/* Where a rank is, for those that wait for it in vain. Its own rank writes it and others read it, at any time. */
typedef enum { DOING_START, DOING_STEP, DOING_DATA, DOING_EVALUATION, DOING_SAVE, DOING_NEXT } Doing; /* DOING_NEXT: the step is done */
typedef struct CommPlace {
    volatile int64_t step;    /* of training, over all epochs; 0: none yet */
    volatile int32_t doing;   /* Doing */
    volatile int32_t program; /* of the plan */
    volatile int32_t at;      /* step of the rank's role, -1: none */
    volatile int32_t request; /* number of the communication that it has begun last, -1: none */
    volatile int32_t broken;  /* it has waited for a rank in vain: the job cannot go on, nor end in common */
} CommPlace;

typedef struct CommCounters {
    int64_t sent_bytes, received_bytes, messages; /* counted where data is moved */
} CommCounters;

/* A communicator drives one rank of the job (job) or all of them (local). Every collective call is made once for each driven rank. */
typedef struct CommTable {
    const char *name;
    /* Prepares a group of transfers that run together, once, before the first step: groups, peers, staging. Collective over all ranks, in
     * the same order. Owned by the communicator. NULL and *error on failure, which may be this rank's alone: before any of them starts it, all agree. */
    CommRequest *(*prepare)(Comm *comm, const Transfer *transfers, int n, Error *error);
    /* Driven rank `driven` enters: source[i], target[i] are its local buffers of transfer i (from's box, to's box). */
    bool (*start)(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error);
    /* COMM_PENDING only where other driven ranks must start first (local). */
    CommStatus (*wait)(Comm *comm, CommRequest *request, int driven, Error *error);
    bool (*barrier)(Comm *comm, Error *error);
    /* From rank 0 to all processes; sizes agree. */
    bool (*broadcast)(Comm *comm, void *data, int64_t bytes, Error *error);
    /* One 64-bit word and one line of text of every process to rank 0 (or to all for words): checks and reports. words: nprocesses of them. */
    bool (*all_gather_words)(Comm *comm, uint64_t word, uint64_t *words, Error *error);
    /* text of process p arrives in texts[p] on rank 0, each up to width bytes, NUL-terminated; texts may be NULL elsewhere. */
    bool (*gather_text)(Comm *comm, const char *text, int width, char *texts, Error *error);
    /* Of a wait for other processes that only the layer above sees, of a device's: true: it goes on. False where it has lasted PRUN_TIMEOUT, or another process's has: all that
     * wait tell each other where they are, and *error names those that do not. NULL: there are no others. */
    bool (*overdue)(Comm *comm, double waited_s, const char *what, Error *error);
    /* Says message on stderr and ends the whole job, naming this rank, with exit code. Where several ranks do, what one of them says is enough: the others
     * wait for a moment, in which the job usually ends. Does not return. */
    void (*abort)(Comm *comm, int code, const char *message);
    void (*destroy)(Comm *comm);
    /* Memory for tensors that peers may read in place (shared by the processes of a node where there are several), aligned to 64 bytes, not
     * zeroed; at least one byte. Not collective. Where these are not NULL the executor takes the arenas, states and inputs of its driven ranks
     * from here, before it prepares requests; any other memory works as source and target too, of a transfer that says so, at the price of a copy. NULL and *error when there
     * is none left. Freed before the communicator is destroyed. */
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
    int launch_rank; /* LOCAL_RANK: of this process among those that one launch has started here; its local_rank where nobody says */
    int node_first;  /* lowest rank that shares this one's node (PRUN_COMM=nodes:N: as simulated) */
    char node[256];
    double timeout_s;       /* PRUN_TIMEOUT: how long a rank waits for others, 0: for ever; of several processes */
    CommCounters *counters; /* per driven rank; exact after a barrier (peers that read in place count for the rank that they read from) */
    char transport
        [256]; /* how data moves, for -v: "one process", "shared memory", "messages", "shared memory and messages"; of devices also why so */
    CommPlace *place; /* of this process; never NULL */
    /* What a rank does at a step of its role, "matmul of h"; NULL: nobody knows. */
    void (*name_place)(const void *plan, int rank, const CommPlace *place, Text *text);
    const void *plan;    /* its first argument */
    CommPlace own_place; /* where it is in no memory that others see */
    bool device;         /* sources and targets are a device's memory: alloc is its backend's */
    bool captures;       /* start and wait only queue what a captured step may hold */
};
/* This process is about to do something else, of a step of training. */
static inline void comm_doing(Comm *comm, Doing doing, int64_t step) {
    comm->place->at = -1;
    comm->place->doing = doing;
    comm->place->step = step;
}
Comm *comm_local_create(int nranks, Error *error);
/* watch.c: the terminal that the launcher's own file of this number is (2: its errors), where the launcher is above this process, opened; -1: it is none. */
int comm_terminal(int number);
/* Something that all processes must have in common, and what this one has; said NULL: nothing. A list ends where what is NULL. */
typedef struct Common {
    const char *what, *said;
} Common;
struct Meeting; /* wire.h */
/* meeting NULL: MPI_Init_thread. NULL and *error when this process was not started by mpirun and so on, or where the processes differ in what they must have in common
 * (may be NULL); what fails once they know of each other it says itself: *error is reported. prun --ranks N never calls it. */
Comm *comm_job_create(int *argc, char ***argv, const struct Meeting *meeting, const Common *common, Error *error);
void *comm_memory(int64_t bytes, Error *error); /* memory.c: for tensors, free() takes it back; NULL and *error: there is none */
/* Whether all processes of the communicator got here with ok. Collective. When one did not, false everywhere; only the first that
 * failed has an error to print (with its rank before it unless all failed), the others' are reported: one message a mistake. */
bool comm_agree(Comm *comm, bool ok, Error *error);
/* An error that all processes have found alike: the first says it. Returns false. */
bool comm_first_says(const Comm *comm, Error *error);
/* Prints an error at once and marks it as reported; one that is already, it leaves. For where other ranks hear of it next: with the first that ends, the launcher soon ends all. */
void comm_say(Error *error);
/* The same, but all processes have in *error what the first that failed had to say, its rank before it. */
bool comm_agree_all(Comm *comm, bool ok, Error *error);
/* *number becomes the largest of all processes'. Collective. */
bool comm_most(Comm *comm, uint64_t *number, Error *error);
/* *seconds becomes the longest of all processes', 0 where none took any. Collective. */
bool comm_longest(Comm *comm, double *seconds, Error *error);
/* Records that begin with a key: *all becomes those of all processes, each key once, as the first process that has it says; the same list on all, to be freed. bytes of a
 * record, of which the key has the first key_bytes. Collective; meant for little. */
bool comm_union(Comm *comm, const void *mine, int64_t n, int64_t bytes, int64_t key_bytes, void **all, int64_t *nall, Error *error);
/* By how many seconds this process's clock (now_seconds) is ahead of process 0's, half a barrier more or less; processes of a node share one. Collective. */
bool comm_clock(Comm *comm, double *ahead, Error *error);
/* Whether all processes have common[i].said alike; each has the same list of things, or NULL. Collective. Where they have not, process 0 has an error with this code that names
 * the first thing, what is said of it and by which ranks; the others' are reported. */
bool comm_same(Comm *comm, const Common *common, int code, Error *error);
