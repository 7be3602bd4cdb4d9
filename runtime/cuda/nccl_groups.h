/* nccl_groups: what one rank asks of NCCL in a use of a request. No CUDA here: which of the library's calls a transfer becomes, along which groups of ranks,
 * and for all others which parts of which tensors go into messages to whom. Tests play it on ordinary memory. */
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

/* The call that brings a transfer about, on every rank; GROUP_NONE: the transfer goes by messages. */
typedef struct GroupCall {
    GroupCallKind kind;
    GroupKey group;
    int nmembers;
    Reduction reduction;
} GroupCall;

/* A call stands for a transfer where boxes are even, and lie one after another in memory in the order of the members; and, of sums of fractions, where the order of
 * terms is left to the library: not with `ordered`, and not where other groups add up the same terms, as replicas are to have the same bits, unless there are two
 * terms; and never between tensors anywhere, which messages are packed from. Maxima of fractions are never: the library's forget a NaN. Averages need no call of their own, plans scale what they add up. The same answer on all
 * ranks. transfer: as a plan has it, before transfers_copy. */
void group_call_find(const Transfer *transfer, int nranks, bool ordered, GroupCall *call);
/* Elements of a call on a rank, as the library counts them: all of an all_reduce, the result of a reduce_scatter, the source of an all_gather. */
int64_t group_call_count(const GroupCall *call, const Transfer *transfer, int rank);
bool group_key_equal(const GroupKey *a, const GroupKey *b);
/* The number of rank in its group, and in *leader the least rank of the group. */
int group_key_number(const GroupKey *key, int rank, int *leader);
int group_key_size(const GroupKey *key);
/* The group is all ranks in their order: no communicator of its own is needed. */
bool group_key_is_world(const GroupKey *key, int nranks);

/* A part of a tensor that goes into a message. */
typedef struct SentPart {
    int transfer;
    PieceRuns walk;
    PieceView from, packed;
    int64_t message_bytes; /* where it begins in the message */
} SentPart;

/* A message to or from a rank. */
typedef struct WireMessage {
    int rank, round;
    int64_t bytes; /* that are sent */
    bool direct;   /* it is a piece of a tensor as it lies there, and needs no staging: never of a transfer between tensors anywhere */
    int transfer;  /* direct: of which; */
    int64_t at;    /* where it begins, in bytes: direct in the tensor, else in the staging memory */
    VEC(SentPart) parts; /* of those sent */
} WireMessage;

/* What one rank does in a use. Tensors of round 1 are targets, on the sender's side too. */
typedef struct WirePlan {
    int rank, n;
    const Transfer *transfer; /* copies, see transfers_copy */
    GroupCall *call;          /* per transfer */
    Pulls pulls;              /* of the transfers that go by messages; pulls.transfer[k] is transfer[number[k]] */
    int *number;
    VEC(WireMessage) out, in;
    int *in_of; /* [round][rank] -> in */
    int64_t staging_bytes;
    CommCounters each; /* of one use, as the plan counts */
} WirePlan;
bool wire_plan_init(WirePlan *plan, Arena *arena, const Transfer *transfers, int n, int nranks, int rank, bool ordered, Error *error);
/* Whether the pull is done by receiving: its message is direct. */
bool wire_pull_done(const WirePlan *plan, const Pull *pull, int nranks);
/* Where a term of a pull lies: direct: in the tensor of transfer number[pull->transfer] (source in round 0, else target) of this rank; else at *bytes of the
 * staging memory. */
bool wire_source_staged(const WirePlan *plan, const Pull *pull, const PullSource *source, int nranks, int64_t *bytes);
