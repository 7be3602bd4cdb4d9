/* facts: what a program of a plan does, counted once from the steps that run. The summary, --stats, --explain and --diff read them. */
#pragma once
#include "ir/plan.h"
#include "strategies/strategies.h"

/* One conversion step; traffic in bytes: of all ranks, and of the busiest. */
typedef struct Communication {
    CommKind kind;
    int step;     /* of the role: where it starts */
    int value;    /* of the graph */
    int from, to; /* instances */
    int bucket;   /* Step.bucket */
    Traffic sent, received;
    Traffic bound; /* facts_bounds: the least for this step alone */
} Communication;

/* Communications of one kind; bytes of the busiest rank, summed over them. */
typedef struct KindFacts {
    int count;
    int64_t sent, received;
    int64_t bound; /* facts_bounds */
} KindFacts;

typedef struct Facts {
    const Graph *graph;
    const Program *program;
    const Role *role;
    VEC(Communication) communications; /* in the order in which they start; strided_slice, which moves nothing, too */
    KindFacts kind[NCOMMS], all;       /* all.count: without strided_slice */
    Traffic sent, received;            /* of all communications; max: the sum over them of each one's busiest rank */
    int64_t states, inputs, constants; /* bytes on a rank, of the largest boxes; the arena is the role's */
    int64_t inner;        /* bytes on a rank: the room in which a backend without a kernel for a fused step keeps its inner values */
    int64_t workspace;    /* bytes that kernels on the machine's devices need beside them (ir/workspace.h) */
    int64_t rank_bytes;   /* all of these and the arena */
    int64_t states_whole; /* bytes, undivided */
    int64_t parameters;   /* numbers in them */
    int nparameters;
    int fused_steps, fused_kernels; /* steps of several kernels, their members */
    int ninner;                     /* inner values: results of members that have no place in the arena */
    int views;                      /* results that lie where their operand lies */
    int64_t view_bytes;             /* of them on a rank */

    double flops, rank_flops; /* facts_flops: of a step; of the rank with the largest part of every operator */

    /* facts_bounds; NULL and 0 before */
    /* Per value: the fewest bytes that must be received to convert it from the layout in which it is made to those in which it is used. Of several uses only the
     * most expensive one counts, so that it is a lower bound. */
    const Traffic *least;
    Traffic bound;           /* the sum over all values */
    const int *source;       /* per instance the one that it is converted from, -1: none in the role */
    struct Counted *counted; /* conversions counted so far */
} Facts;

/* Counts the facts of a role of a program of this graph; all these must outlive them. machine: its devices need the workspace; NULL: machine_cpu. */
void facts_init(Facts *facts, const Graph *graph, const Program *program, int role, const Machine *machine, Arena *arena);
/* Adds the FLOPs. strategy: per node of the graph, as it runs; NULL: whole. */
void facts_flops(Facts *facts, const Strategy *const *strategy, Arena *arena);
/* Adds the lower bounds. */
void facts_bounds(Facts *facts, Arena *arena);

/* A communication of a program, whichever roles take part. */
typedef struct Move {
    const Facts *facts; /* of the first role that receives */
    Communication made; /* as that role has it, but with what all roles send */
} Move;

/* What all roles of a program do; of one role, what it does. */
typedef struct Totals {
    VEC(Move) moves;               /* role by role, in the order in which they start */
    const Facts *sender;           /* of the role whose busiest rank sends most */
    const Facts *receiver;         /* likewise */
    KindFacts kind[NCOMMS], all;   /* counts are of all roles; sent is the sender's, received and bound are the receiver's */
    Traffic sent, received, bound; /* total: of all ranks; max: of the sender, the receiver */
    const Traffic *least;          /* as Facts.least, also where one role begins a conversion that another ends; max: not of one role */
    double rank_flops;             /* of the busiest rank */
} Totals;

/* Sums the facts of all roles, which have FLOPs; adds their lower bounds. */
void facts_totals(Totals *totals, Facts *roles, int nroles, Arena *arena);
