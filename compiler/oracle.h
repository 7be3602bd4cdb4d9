/* oracle: what a program costs with given strategies, exactly: the remaining passes are run with them, in memory of their own. */
#pragma once
#include "compiler/build.h"

/* Of one step; each figure is that of the rank with the most of it. */
typedef struct BuildCost {
    double step_s;          /* predicted: timeline.h */
    double communication_s; /* the sum over all communications, also those that run behind kernels */
    double exposed_s;       /* the part of it while no kernel runs */
    double kernel_s;
    int64_t sent_bytes, received_bytes; /* the sum over all communications of what their busiest rank sends, receives */
    int64_t arena_bytes;                /* the peak of values */
    int64_t inner_bytes;                /* the room for inner values of fused steps */
    int64_t state_bytes, input_bytes, constant_bytes;
    int64_t workspace_bytes; /* of kernels on GPUs */
    int64_t
        eval_bytes; /* what an eval needs besides, where memory counts: inputs, constants, and what its arena and workspace are larger */
    double flops;   /* of the largest part of every operator */
    int broken;     /* assertions and prohibitions of the parallel block that it breaks */
} BuildCost;
static inline int64_t memory_bytes(const BuildCost *cost) {
    return cost->arena_bytes + cost->inner_bytes + cost->state_bytes + cost->input_bytes + cost->constant_bytes + cost->workspace_bytes +
           cost->eval_bytes;
}

/* Whether `bytes` is within so many times the limit, both without the workspace of kernels, which nothing makes smaller. */
static inline bool memory_within(int64_t bytes, int64_t workspace, double times, int64_t limit) {
    return (double)(bytes - workspace) <= times * (double)(limit - workspace);
}

/* eval.c: bytes that train's eval needs beside a program for train that went through all passes. */
int64_t eval_bytes(const Build *train);
/* Makes b->timeline, once, of a program that has its steps. */
void build_time(Build *b);
/* asserts.c: how many assertions and prohibitions a program with this cost breaks. */
int build_broken(const Build *b, const BuildCost *cost);
/* The cost of a program that went through all passes. */
void build_cost(Build *b, BuildCost *cost);
/* How a program that is tried differs from the build. */
typedef struct Trial {
    const Strategy *const *strategy; /* of node n of front.chosen; NULL, for all or for one: as it is */
    const bool *recompute;           /* whether node n of front.chosen is marked; NULL: as they are */
    bool gathered_once;              /* nothing is gathered again: neither where the settings nor where hints say so */
    const Measures *measures;        /* beside those that it has (budget.h); NULL: none */
} Trial;
/* A program that was tried, as long as it is looked at. */
typedef struct Tried {
    Arena arena;
    Build *build;
    BuildCost cost;
} Tried;
/* Tries a program: `b` has been through pass expand, and stays as it is. NULL with *error: a node may not have its strategy, or a measure
 * changes nothing. */
Tried *build_keep(const Build *b, const Trial *trial, Error *error);
void tried_finish(Tried *tried); /* NULL: nothing is done */
/* What the program costs; false with *error as above. */
bool build_try_with(const Build *b, const Trial *trial, BuildCost *cost, Error *error);
/* The same, for strategies and measures. */
bool build_try(const Build *b, const Strategy *const *strategy, const Measures *measures, BuildCost *cost, Error *error);

#define ABOUT (1 + TOLERANCE_USUAL) /* predictions that differ by a smaller factor are taken to be equal, */
#define ABOUT_THE_SAME 1.001        /* and by this one where one of the plans costs nothing else */
/* Of plans about as fast the one with less is better: a step may take 1 % longer where it sends 6 % fewer bytes. */
double time_and_traffic(const BuildCost *cost);
