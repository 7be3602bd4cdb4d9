/* A request of comm/job: what request.c prepares and transfer.c uses. */
#pragma once
#include "runtime/comm/job.h"
#include "runtime/comm/pull.h"

/* In the owner's heap. The flags are epochs, which count the uses of the request from 1; they wrap. */
typedef struct Control {
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic uint32_t reduced, done;
    int64_t at[]; /* [epoch & 1][source, target][transfer]: offsets in the owner's heap */
} Control;

/* Elements that go into a message. */
typedef struct Packing {
    int transfer;
    PieceRuns walk;
    PieceView from, packed;
    int64_t message_bytes;
} Packing;

typedef struct Message {
    int rank, round;
    int64_t bytes;
    char *buffer;
    WireMessage *wire;
    VEC(Packing) packings; /* of a message sent */
} Message;

typedef VEC(int) Ints;

struct CommRequest {
    CommRequest *next;
    Arena arena;
    int number, ntransfers;
    Pulls pulls;
    uint32_t epoch;
    bool started, shared, small;
    Control *control;                /* own */
    Control **peer;                  /* per number in node */
    Ints provider[2];                /* numbers in node of the ranks whose sources, whose sums this one reads */
    Ints reader, related;            /* of those that read from this rank; of all that may wait for it */
    bool *source_read, *target_read; /* per transfer: a rank of the node reads it */
    char *slot[2];                   /* small: per turn, sources and then targets */
    void **staged;                   /* [source, target][transfer]: copies in the heap of tensors that lie elsewhere; NULL until needed */
    void **target, **work;           /* the caller's; where sums are made that others read */
    const void **source;
    VEC(Message) in, out;
    int *in_of; /* [round][rank] -> index in `in` */
};
