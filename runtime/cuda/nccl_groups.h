/* nccl_groups: what one rank asks of NCCL in a use of a request: which of the library's calls a transfer becomes, along which groups of ranks, and for all
 * other transfers which parts of which tensors go into messages to whom. Does not use CUDA: tests run it on ordinary memory. */
#pragma once
#include "runtime/comm/comm.h"
#include "runtime/comm/pull.h"

/* Ranks that differ only in these digits of their positions in a device order; the first digit is the major one of a member's number. */
typedef struct GroupKey {
    const Order *order; /* NULL: the natural one */
    int n;
    Digit digit[MAX_DIGITS];
} GroupKey;

typedef enum { GROUP_NONE, GROUP_ALL_REDUCE, GROUP_REDUCE_SCATTER, GROUP_ALL_GATHER } GroupCallKind;

/* The call that performs a transfer, on every rank; GROUP_NONE: the transfer goes by messages. */
typedef struct GroupCall {
    GroupCallKind kind;
    GroupKey group;
    int nmembers;
    Reduction reduction;
} GroupCall;

/* Finds the call for a transfer, the same on all ranks. Boxes must be even, and lie in memory one after another in the order of the members. Sums of floats also need
 * that the library may choose the order of terms: not with `ordered`, nor where other groups add up the same terms, as replicas must have the same bits, unless there
 * are two terms. There is no call for transfers with `anywhere`, which messages are packed from, nor for maxima of floats: the library's drop a NaN. Averages need none,
 * as plans scale sums. transfer: as the plan has it, before transfers_copy. */
void group_call_find(const Transfer *transfer, int nranks, bool ordered, GroupCall *call);
/* The count that a rank passes to the library: the whole of an all_reduce, the result of a reduce_scatter, the source of an all_gather. */
int64_t group_call_count(const GroupCall *call, const Transfer *transfer, int rank);
bool group_key_equal(const GroupKey *a, const GroupKey *b);
/* The number of rank in its group; *leader: the lowest rank of the group. */
int group_key_number(const GroupKey *key, int rank, int *leader);
int group_key_size(const GroupKey *key);
/* Whether the group is all ranks in order, and so needs no communicator of its own. */
bool group_key_is_world(const GroupKey *key, int nranks);

/* A part of a tensor that goes into a message. */
typedef struct SentPart {
    int transfer;
    PieceRuns walk;
    PieceView from, packed;
    int64_t message_bytes; /* its offset in the message */
} SentPart;

/* A message to or from a rank. */
typedef struct WireMessage {
    int rank, round;
    int64_t bytes;       /* of the message */
    bool direct;         /* it is a contiguous piece of a tensor and needs no staging; never of a transfer with `anywhere` */
    int transfer;        /* direct: whose tensor it is */
    int64_t at;          /* its offset in bytes: if direct in the tensor, else in the staging memory */
    VEC(SentPart) parts; /* of messages to send */
} WireMessage;

/* What one rank does in a use. In round 1 the tensors are targets, on the sender's side too. */
typedef struct WirePlan {
    int rank, n;
    const Transfer *transfer; /* copies, see transfers_copy */
    GroupCall *call;          /* per transfer */
    Pulls pulls;              /* of the transfers that go by messages; pulls.transfer[k] is transfer[number[k]] */
    int *number;
    VEC(WireMessage) out, in;
    int *in_of; /* [round][rank] -> in */
    int64_t staging_bytes;
    CommCounters each; /* of one use, as the plan counts it */
} WirePlan;
bool wire_plan_init(WirePlan *plan, Arena *arena, const Transfer *transfers, int n, int nranks, int rank, bool ordered, Error *error);
/* Whether receiving already completes the pull: its message is direct. */
bool wire_pull_done(const WirePlan *plan, const Pull *pull, int nranks);
/* Where a term of a pull is. True: at *bytes of the staging memory. False: in this rank's tensor of transfer number[pull->transfer] (the source in round 0, else the
 * target). */
bool wire_source_staged(const WirePlan *plan, const Pull *pull, const PullSource *source, int nranks, int64_t *bytes);
