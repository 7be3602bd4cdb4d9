/* comm: what the communicators over device memory share. Private to comm*.c and nccl*.c.
 *
 *   comm.c         chooses the communicator, the same on all ranks; functions that all delegate to the communicator below
 *   comm_request.c what the requests of all have in common
 *   comm_tasks.c   pulls as tables on the device, run by one launch
 *   comm_local.c   all ranks of this process on one device
 *   comm_host.c    through page-locked memory of the host
 *   comm_ipc.c     in the memory of peers on the same node; comm_share.c: how they open it
 *   comm_nccl.c    through NCCL; nccl.c: the library and its communicators, nccl_groups.c: which of its calls are used
 */
#pragma once
#include <cuda_runtime_api.h>

#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/pull.h"

typedef struct CudaComm CudaComm;

/* The head of each mode's CommRequest. */
typedef struct RequestHead {
    CommRequest *next; /* in the communicator's list */
    Arena arena;
    const char *words; /* "all_reduce of w1 and 3 more (communication 7)" */
    int n;             /* transfers */
} RequestHead;

/* What a mode does with the rest of its CommRequest. */
typedef struct RequestKind {
    size_t bytes; /* of its CommRequest, which is zeroed except for the head */
    bool (*open)(CudaComm *job, CommRequest *request, const Transfer *transfers, int n, Error *error); /* collective */
    void (*close)(CudaComm *job, CommRequest *request); /* also of one that could not be opened */
} RequestKind;

struct CudaComm {
    Comm comm; /* first: what callers see */
    Comm *base;
    CudaContext *cuda;
    const RequestKind *kind;
    CommRequest *requests; /* all that were prepared, the last first */
    int nrequests;
    const char *waits; /* the last communication, for the message of a rank that waits too long; or NULL */
    struct HostPool *host;
    struct Share *share;
    struct Nccl *nccl;
};

/* ---------------------------------------------------------------- comm.c */

/* Rows of the CommTables that call the communicator below. */
bool below_barrier(Comm *comm, Error *error);
bool below_broadcast(Comm *comm, void *data, int64_t bytes, Error *error);
bool below_all_gather_words(Comm *comm, uint64_t word, uint64_t *words, Error *error);
bool below_gather_text(Comm *comm, const char *text, int width, char *texts, Error *error);
void below_abort(Comm *comm, int code, const char *message);
/* CudaContext.watch: checks the other ranks, as what is queued on a device that waits for theirs completes only if they go on. */
bool device_overdue(void *watcher, double waited_s, Error *error);
/* Sets how the host checks the other ranks while it waits for the device; NULL: not at all. */
void device_watch(CudaComm *job, bool (*watch)(void *watcher, double waited_s, Error *error));
/* Rows of the CommTables: memory of the device. */
void *device_alloc(Comm *comm, int64_t bytes, Error *error);
void device_free(Comm *comm, void *data);
/* Frees the requests, the communicator below, and this one: the last thing that each mode's destroy does. Takes NULL. */
void common_destroy(Comm *comm);
/* The rows that are the same in each mode's table. */
#define COMM_COMMON                                                                                                                        \
    .prepare = common_prepare, .barrier = below_barrier, .broadcast = below_broadcast, .all_gather_words = below_all_gather_words,         \
    .gather_text = below_gather_text, .abort = below_abort

/* Gathers `bytes` bytes from every process: all[process * bytes]. Collective; meant for small data. */
bool all_gather_bytes(Comm *base, const void *mine, int64_t bytes, void *all, Error *error);

/* The modes: each sets its table, transport and kind of requests, or says why it cannot be used. The rest of job->comm is filled in already. Collective. */
bool comm_local_open(CudaComm *job, Error *error);
bool comm_host_open(CudaComm *job, Error *error);
bool comm_ipc_open(CudaComm *job, Error *error);
bool comm_nccl_open(CudaComm *job, Error *error);

/* ---------------------------------------------------------------- comm_request.c */

/* Row of the CommTables. */
CommRequest *common_prepare(Comm *comm, const Transfer *transfers, int n, Error *error);
void requests_close(CudaComm *job);
/* What a rank sends and receives in one use of a request, as the plan counts it. */
CommCounters transfers_count(const Transfer *transfers, int n, const Pulls *pulls, int nranks, int rank);
void counters_add(CommCounters *to, const CommCounters *more);

/* ---------------------------------------------------------------- comm_tasks.c */

/* A part of a walk: at most PULL_TERMS of its sources. Addresses are offsets until the memories are known. */
typedef struct Task {
    KernelPull pull;
    int target, source[PULL_TERMS]; /* memories, by numbers that the owner of the list assigns */
    int level;                      /* tasks of one level are one launch, after those of lower levels */
} Task;

typedef struct TaskLaunch {
    int first, n;
    int64_t nblocks;
} TaskLaunch;

/* Tasks that are prepared once and run with the addresses of each use. */
typedef struct Tasks {
    VEC(Task) tasks;
    int base, nlevels;    /* the level of the next task; levels so far */
    TaskLaunch *launches; /* per level */
    int nused;
    int *used;                        /* memories that any task uses */
    void **memory;                    /* their addresses in the last use */
    KernelPull *table, *device_table; /* sorted by level: in the process, and on the device */
} Tasks;

/* One side of a task: a view of a walk, at an offset of `bytes` in a memory. */
typedef struct TaskSide {
    int memory;
    int64_t bytes;
    const PieceView *view;
} TaskSide;
/* Adds a walk: target = sources from left to right. */
void tasks_add(Tasks *tasks, Arena *arena, const PieceRuns *walk, DType dtype, Reduction reduction, bool add, TaskSide target,
               const TaskSide *source, int nsources);
/* Later tasks read, or add to, the results of earlier ones: they get higher levels. */
void tasks_break(Tasks *tasks);
/* After the last task: allocates memory on the device. nmemories: one more than the largest number of a memory. */
bool tasks_ready(Tasks *tasks, Arena *arena, CudaContext *cuda, int nmemories, Error *error);
/* Queues all tasks on a stream. */
bool tasks_run(Tasks *tasks, CudaContext *cuda, void *const *memory, cudaStream_t stream, Error *error);
void tasks_finish(Tasks *tasks);
