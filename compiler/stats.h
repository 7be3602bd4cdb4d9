/* stats: the communications of a compilation, as --stats and --explain show them. */
#pragma once
#include "compiler/compiler.h"

/* One conversion step that runs; traffic in bytes: of all ranks, and of the busiest. */
typedef struct Move {
    int node;     /* of spmd */
    int value;    /* of the unsharded graph */
    CommKind kind;
    int from, to; /* values of spmd */
    int bucket;   /* Item.bucket */
    Traffic sent, received;
    Traffic bound; /* the least for this step alone */
} Move;
typedef VEC(Move) Moves;
/* In the order in which they start; strided_slice, which moves nothing, too. */
Moves stats_moves(Build *b);
/* Per value of spmd, other than those that converts make: the least, in bytes, that must be received to bring it from the layout in which it
 * is made into each one in which it is used; of several uses the most expensive alone, so no more than the truth. */
Traffic *stats_bounds(Build *b);
/* Floating-point operations of a step: of the whole net, and of the rank with the largest part of every operator. */
void stats_flops(const Build *b, double *total, double *busiest);
/* Bytes on a rank, of the largest boxes. */
typedef struct Memory {
    int64_t parameters; /* numbers in them, not bytes */
    int nparameters;
    int64_t whole, states, inputs, constants; /* whole: the states' bytes, undivided */
} Memory;
Memory stats_memory(const Build *b);
void stats_json(Text *text, Compilation *c); /* one JSON object */
