/* wire: messages between the processes of a job, one rank each: over MPI in wire_mpi.c, over sockets in wire_tcp.c. */
#pragma once
#include "ir/base.h"

/* A message that is sent, or received, any number of times. Messages of one tag between two ranks arrive in the order in which they were started. */
typedef struct WireMessage WireMessage;

typedef struct Wire Wire;
typedef struct WireTable {
    const char *name;
    /* A message of `bytes` bytes at data, to (out) or from a rank; both ends give the same bytes and tag (0 to WIRE_TAGS - 1). NULL and *error on failure. */
    WireMessage *(*prepare)(Wire *wire, bool out, int rank, int tag, void *data, int64_t bytes, Error *error);
    /* Until test returns 1, data that is sent may not change, and data that is received is not there yet. */
    bool (*start)(Wire *wire, WireMessage *message, Error *error);
    /* 1: it is done, or was never started; 0: not yet; -1 and *error. Others make progress meanwhile. */
    int (*test)(Wire *wire, WireMessage *message, Error *error);
    void (*release)(Wire *wire, WireMessage *message); /* takes NULL */
    void (*progress)(Wire *wire);                      /* lets messages make progress */
    bool (*has_come)(Wire *wire, int tag);             /* whether some rank has sent a message that nobody here receives yet */
    void (*leave)(Wire *wire, int rank);               /* nothing is received from it any more, nor sent to it */
    void (*abort)(Wire *wire, int code);               /* ends this process and all others, with this exit code: does not return */
    void (*destroy)(Wire *wire);                       /* when all ranks are done; takes NULL */
} WireTable;

struct Wire {
    const WireTable *table;
    int nranks, rank;
    char node[256]; /* of the machine; equal on ranks that may share memory */
    int gone;       /* a rank that this one has seen end; -1: none, and always with MPI, which ends the others itself */
};

enum { WIRE_TAGS = 32768 };
static inline bool wire_gone(int rank, Error *error) {
    return error_of_rank(error, rank, EXIT_ENVIRONMENT, "rank %d is gone: it has ended, or the connection to it", rank);
}

/* MPI_Init_thread. */
Wire *wire_mpi_open(int *argc, char ***argv, double timeout_s, Error *error);

/* The prun process that starts the ranks of a node; process 0: there is none. */
typedef struct Launcher {
    char host[64];
    int64_t process, began_ns;
} Launcher;

/* Where the ranks of a job without MPI find each other: rank 0 listens there. */
typedef struct Meeting {
    int rank, nranks;
    char address[256];
    int port;
    int local_rank;     /* among the ranks that one launch has started on this node, -1: unknown */
    const char *counts; /* the variable that says nranks */
    double timeout_s;   /* until all are there, 0: for ever */
    const int *fewer;   /* of rank 0: with how many ranks the job may go on if not all are there by then, in falling order */
    int nfewer;
    const char *job;   /* what the job is called, "": nothing */
    Launcher launcher; /* which ends ranks that do not end by themselves */
    int per_node;      /* ranks of a node, which have one launcher; 0: without launchers */
    int listening;     /* of rank 0: the listening socket that its launcher has opened; -1: it opens one */
} Meeting;
/* Reads the environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or Slurm's variables. False: they are not there, or of one rank; with *error: they make no sense. */
bool meeting_find(Meeting *meeting, Error *error);
/* How many processes srun has started together, this one among them; 0: it has not started it. *alone: it has not, but this is a job of Slurm. */
int meeting_slurm(bool *alone);
Wire *wire_tcp_open(const Meeting *meeting, Error *error);
