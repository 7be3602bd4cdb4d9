/* tasks: a task is the forward or the backward pass of one batch of a step in one part of the net; this is the order of all of them. */
#pragma once
#include "compiler/build.h"

/* What a stage does in its turn. */
typedef struct Turn {
    int part, batch; /* from 0 */
    bool backward;
} Turn;

/* p stages of which each has v parts of the net, and m batches a step. */
typedef struct Turns {
    Pipeline order;
    int nstages, nchunks, nbatches;
    bool backward; /* there are backward passes */
} Turns;

/* The part of a step in which stages compute nothing, if they take equally long and messages take no time. */
static inline double pipe_bubble(int stages, int chunks, int batches) {
    return (stages - 1) / ((double)chunks * batches + stages - 1);
}

/* The k-th task of a stage. False: it has no more. */
bool turn_of(const Turns *turns, int stage, int k, Turn *turn);
/* The number of batches whose activations a part holds when its stage holds the most. */
int turns_held(const Turns *turns, int part);

/* Per node of spmd: the number of the task that it belongs to, in the order in which tasks begin; a node of no stage belongs to the task
 * that it waits for. NULL: there are no stages. */
int *tasks_order(const Build *b);
