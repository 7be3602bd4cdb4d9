/* wire: messages between the processes of a job, each of one rank. wire_mpi.c has them from MPI, wire_tcp.c over sockets. */
#pragma once
#include "ir/base.h"

/* A message that is sent, or received, any number of times. Messages of one tag between two ranks arrive in the order in which they were started. */
typedef struct WireMessage WireMessage;

typedef struct Wire Wire;
typedef struct WireTable {
    const char *name;
    /* Of so many bytes at data, to or from a rank; both ends say the same bytes and tag (0 to WIRE_TAGS - 1). NULL and *error on failure. */
    WireMessage *(*prepare)(Wire *wire, bool out, int rank, int tag, void *data, int64_t bytes, Error *error);
    /* data may not change, or is not there yet, until test says 1. */
    bool (*start)(Wire *wire, WireMessage *message, Error *error);
    /* 1: it is done, or was never started; 0: not yet; -1 and *error. Others make progress meanwhile. */
    int (*test)(Wire *wire, WireMessage *message, Error *error);
    void (*release)(Wire *wire, WireMessage *message); /* takes NULL */
    void (*progress)(Wire *wire);                      /* lets messages go on */
    bool (*has_come)(Wire *wire, int tag);             /* whether some rank has sent a message that nobody here receives yet */
    void (*leave)(Wire *wire, int rank);               /* nothing is heard from it any more, nor sent to it */
    void (*abort)(Wire *wire, int code);               /* ends this process and all others, with this exit code: does not return */
    void (*destroy)(Wire *wire);                       /* when all ranks are done; takes NULL */
} WireTable;

struct Wire {
    const WireTable *table;
    int nranks, rank;
    char node[256]; /* of the machine; equal on ranks that may share memory */
    int gone;       /* a rank that has ended, as far as this one has seen; -1: none. MPI ends the others itself */
};

enum { WIRE_TAGS = 32768 };
static inline bool wire_gone(int rank, Error *error) {
    return error_of_rank(error, rank, EXIT_ENVIRONMENT, "rank %d is gone: it has ended, or the connection to it", rank);
}

/* MPI_Init_thread. */
Wire *wire_mpi_open(int *argc, char ***argv, double timeout_s, Error *error);

/* The prun that starts the ranks of a node; process 0: none does. */
typedef struct Launcher {
    char host[64];
    int64_t process, began_ns;
} Launcher;

/* Where the ranks of a job without MPI find each other: rank 0 listens there. */
typedef struct Meeting {
    int rank, nranks;
    char address[256];
    int port;
    int local_rank;     /* among the ranks that one launch has started on this node, -1: nobody says */
    const char *counts; /* the variable that says nranks */
    double timeout_s;   /* until all are there, 0: for ever */
    const int *fewer;   /* of rank 0: with how many ranks the job goes on where not all are there by then, in falling order */
    int nfewer;
    const char *job;   /* what the job is called, "": nothing */
    Launcher launcher; /* which ends ranks that do not end by themselves */
    int per_node;      /* ranks of a node, which have one launcher; 0: without launchers */
    int listening;     /* of rank 0: the socket where the others come, which its launcher has opened; -1: it opens one */
} Meeting;
/* What the environment says: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or Slurm's variables. False: nothing of it is there. *error where it makes no sense. */
bool meeting_find(Meeting *meeting, Error *error);
/* Processes that srun has started together, this one among them, 0: it has not; *alone: in a job of Slurm all the same. */
int meeting_slurm(bool *alone);
Wire *wire_tcp_open(const Meeting *meeting, Error *error);
