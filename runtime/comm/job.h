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

/* A rank's process, as others on its machine see it: its number may be another's by then, when it has begun tells. */
typedef struct Process {
    int64_t number;
    uint64_t began; /* 0: nobody knows */
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
    bool heap_failed;                     /* an allocation found no room: later requests are messages */
    bool crowded;                         /* more ranks than cores: waiting begins with giving way */
    int *node_of;                         /* world rank -> number in node, -1: elsewhere */
    int64_t *offsets;                     /* per number in node: where a control block of request.c is */
    int64_t message_bytes, message_count; /* sent in messages */
    CommRequest *first, **last;           /* the requests in the order of preparation */
    int nrequests;
    Process *processes; /* of each rank; NULL: not known yet */
    bool called;        /* another rank has waited for PRUN_TIMEOUT, not this one */
    bool *silent;       /* after hang_report: ranks that have not answered; else NULL */
    Text report;        /* likewise: which ranks are where, lines of their own */
    bool kills;         /* no launcher ends a rank that hangs: the others on its machine do */
} JobComm;

/* collect.c: what (of each rank `bytes`) one member of a group says, or all say. Collective over the group; *error after PRUN_TIMEOUT. */
bool collect_broadcast(JobComm *job, const Group *group, void *data, int64_t bytes, const char *what,
                       Error *error); /* from the first member */
bool collect_gather(JobComm *job, const Group *group, const void *own, int64_t bytes, void *all, const char *what,
                    Error *error); /* to it */
bool collect_all_gather(JobComm *job, const Group *group, const void *own, int64_t bytes, void *all, const char *what, Error *error);

/* A wait in progress: spins, then gives way, then sleeps; knows when it has lasted too long. */
typedef struct Pause {
    double start_s;
    double looked_s; /* when the clock was last read */
    int64_t turns;
    bool messages;  /* messages may arrive while this rank waits: it sleeps only for moments */
    bool probe;     /* and the caller itself does not look after messages, which must be given time */
    bool announced; /* the peers know that it sleeps */
} Pause;
/* Lets others run. False after PRUN_TIMEOUT, or where another rank has waited so long. */
bool pause_turn(JobComm *job, Pause *pause);
void pause_end(JobComm *job, Pause *pause);
/* Wakes the processes of the node with these numbers that sleep. */
void wake(JobComm *job, const int *node_ranks, int n);
/* This rank has waited in vain for one that has ended, or the connection to it: the others do not all know. False. */
static inline bool job_broken(JobComm *job) {
    job->comm.place->broken = 1;
    return false;
}
/* hang.c: this process, for others. */
Process hang_process(const char *node);
/* Another rank has waited too long, and asks where this one is. */
bool hang_called(JobComm *job);
/* This rank has waited too long for `what`, or another one has: all that wait tell each other where they are; who has not after a moment is silent. *error names the silent, job->report
 * has the rest. False. */
bool hang_report(JobComm *job, const char *what, Error *error);
/* Whether this is the first rank that is not silent. */
bool hang_first(const JobComm *job);
/* Whether all ranks have answered. */
bool hang_whole(const JobComm *job);
/* Ends the silent ranks of this machine where nobody else does. */
void hang_kill(const JobComm *job);

/* watch.c: from watch_begin on a thread ends this process when its launcher has ended, and when MPI_Init lasts longer than limit_s (0: for ever). NULL: there is no
 * such thread. */
typedef struct Watch Watch;
Watch *watch_begin(double limit_s);
void watch_started(Watch *watch); /* MPI_Init has returned */
void watch_end(Watch *watch);

/* stale.c: the number that Open MPI has given this job, 0: unknown. */
uint64_t stale_job(void);
/* Before MPI_Init: shows as long as this process lives that its job does. A file to close at the end, -1: there is none. */
int stale_claim(void);
/* Removes the shared memory of jobs of this user that are over on this machine. One process of a node. */
void stale_remove(void);

/* request.c and transfer.c: rows of the CommTable. */
CommRequest *request_prepare(Comm *comm, const Transfer *transfers, int n, Error *error);
bool request_start(Comm *comm, CommRequest *request, int driven, const void *const *source, void *const *target, Error *error);
CommStatus request_wait(Comm *comm, CommRequest *request, int driven, Error *error);
void request_destroy(JobComm *job, CommRequest *request);
CommRequest *request_next(CommRequest *request);
void request_describe(const CommRequest *request, Text *text);
