/* What job.c (the communicator), collect.c, request.c and transfer.c (its requests), watch.c and stale.c (MPI's jobs) share. */
#pragma once
#include "runtime/comm/comm.h"
#include "runtime/comm/heap.h"
#include "runtime/comm/wire.h"

/* Some ranks of the job, and which of them is this one. */
typedef struct Group {
    int n, self;
    int *rank;
} Group;

/* A rank's process, as others on its machine see it. Another process may get its number later: when it began tells them apart. */
typedef struct Process {
    int64_t number;
    uint64_t began; /* 0: unknown */
    bool here;      /* on this machine */
    char node[sizeof((Comm *)0)->node];
} Process;

typedef struct JobComm {
    Comm comm; /* first: what callers see */
    CommCounters counters;
    Wire *wire;
    Group world, node; /* node: the ranks that share memory, this one among them */
    Heap heap;
    bool shares;                          /* the heap is there, and more than one rank is in node */
    bool heap_failed;                     /* an allocation found no room: later requests use messages */
    bool crowded;                         /* more ranks than cores: a wait yields at once, without spinning */
    int *node_of;                         /* world rank -> number in node, -1: elsewhere */
    int64_t *offsets;                     /* per number in node: where a control block of request.c is */
    int64_t message_bytes, message_count; /* sent in messages */
    CommRequest *first, **last;           /* the requests in the order of preparation */
    int nrequests;
    Process *processes; /* of each rank; NULL: not known yet */
    bool called;        /* another rank has waited for PRUN_TIMEOUT, not this one */
    bool *silent;       /* after hang_report: ranks that have not answered; else NULL */
    Text report;        /* likewise: lines that say where each rank is */
    bool kills;         /* no launcher ends a rank that hangs: the others on its machine do */
} JobComm;

/* collect.c: broadcasts or gathers `bytes` bytes of one or of each member of a group. Collective over the group; *error after PRUN_TIMEOUT. */
bool collect_broadcast(JobComm *job, const Group *group, void *data, int64_t bytes, const char *what,
                       Error *error); /* from the first member */
bool collect_gather(JobComm *job, const Group *group, const void *own, int64_t bytes, void *all, const char *what,
                    Error *error); /* to the first member */
bool collect_all_gather(JobComm *job, const Group *group, const void *own, int64_t bytes, void *all, const char *what, Error *error);

/* A wait in progress: spins, then yields, then sleeps; knows when it has lasted too long. */
typedef struct Pause {
    double start_s;
    double looked_s; /* when the clock was last read */
    int64_t turns;
    bool messages;  /* messages may arrive while this rank waits: it sleeps only for moments */
    bool probe;     /* and the caller does not poll for messages: pause_turn must let them progress */
    bool announced; /* the peers know that it sleeps */
} Pause;
/* One turn of a wait: lets others run. False after PRUN_TIMEOUT, or where another rank has waited so long. */
bool pause_turn(JobComm *job, Pause *pause);
void pause_end(JobComm *job, Pause *pause);
/* Wakes those processes of the node with these numbers that sleep. */
void wake(JobComm *job, const int *node_ranks, int n);
/* Notes that this rank has waited in vain for one that is gone, or whose connection is; not all others know. Returns false. */
static inline bool job_broken(JobComm *job) {
    job->comm.place->broken = 1;
    return false;
}
/* hang.c: describes this process to others. */
Process hang_process(const char *node);
/* Whether another rank has waited too long and asks where this one is, or this one has given up. */
bool hang_called(JobComm *job);
/* When this rank, or another one, has waited too long for `what`: all that wait tell each other where they are; one that has not after a moment is silent. *error names the silent
 * ranks, job->report has the rest. Returns false. */
bool hang_report(JobComm *job, const char *what, Error *error);
/* Whether this is the first rank that is not silent. */
bool hang_first(const JobComm *job);
/* Whether all ranks have answered. */
bool hang_whole(const JobComm *job);
/* Kills the silent ranks of this machine where no launcher does. */
void hang_kill(const JobComm *job);

/* watch.c: starts a thread that ends this process when its launcher has ended, or when MPI_Init takes longer than limit_s (0: no limit). NULL: there is no
 * such thread. */
typedef struct Watch Watch;
Watch *watch_begin(double limit_s);
void watch_started(Watch *watch); /* MPI_Init has returned */
void watch_end(Watch *watch);

/* stale.c: the number that Open MPI has given this job, 0: unknown. */
uint64_t stale_job(void);
/* Before MPI_Init: takes a lock that shows, as long as this process lives, that its job does. Returns a file to close at the end, -1: none. */
int stale_claim(void);
/* Removes the shared memory of jobs of this user that are over on this machine. Called by one process of a node. */
void stale_remove(void);

/* request.c and transfer.c: rows of the CommTable. */
CommRequest *request_prepare(Comm *comm, const Transfer *transfers, int n, Error *error);
bool request_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error);
CommStatus request_wait(Comm *comm, CommRequest *request, int driven, Error *error);
void request_destroy(JobComm *job, CommRequest *request);
CommRequest *request_next(CommRequest *request);
void request_describe(const CommRequest *request, Text *text);
