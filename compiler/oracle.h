/* oracle: what a program costs, exactly, with given strategies. The rest of the pipeline is run on them, in memory of its own. */
#pragma once
#include "compiler/build.h"

/* Of one step, on the rank that has most of each. */
typedef struct BuildCost {
    double step_s;          /* predicted: timeline.h */
    double communication_s; /* all communications one after the other; those that run behind kernels count too */
    double exposed_s;       /* of them, while no kernel runs */
    double kernel_s;
    int64_t sent_bytes, received_bytes; /* the sum over all communications of what their busiest rank sends, receives */
    int64_t arena_bytes;                /* the peak of values */
    int64_t inner_bytes;                /* the room for inner values of fused steps */
    int64_t state_bytes, input_bytes, constant_bytes;
    int64_t workspace_bytes; /* of kernels on GPUs */
    int64_t
        eval_bytes; /* what an eval needs beside it, where memory counts: inputs, constants, and what its arena and workspace are larger */
    double flops;   /* of the largest part of every operator */
    int broken;     /* assertions and prohibitions of the parallel block that it does not keep to */
} BuildCost;
static inline int64_t memory_bytes(const BuildCost *cost) {
    return cost->arena_bytes + cost->inner_bytes + cost->state_bytes + cost->input_bytes + cost->constant_bytes + cost->workspace_bytes +
           cost->eval_bytes;
}

/* Whether what needs so many bytes, of them the workspace of kernels, which nothing makes smaller, is within so many times a limit. */
static inline bool memory_within(int64_t bytes, int64_t workspace, double times, int64_t limit) {
    return (double)(bytes - workspace) <= times * (double)(limit - workspace);
}

/* eval.c: bytes that train's eval needs beside a program for train that went through all passes. */
int64_t eval_bytes(const Build *train);
/* Of a program whose steps are there: b->timeline, once. */
void build_time(Build *b);
/* asserts.c: how many assertions and prohibitions a program does not keep to that costs this. */
int build_broken(const Build *b, const BuildCost *cost);
/* Of a program that went through all passes. */
void build_cost(Build *b, BuildCost *cost);
/* What is different in a program that is tried. */
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
/* Tries a program: `b` has been through pass expand, and stays as it is. NULL with *error where a strategy is none that the node may have, or a measure changes nothing. */
Tried *build_keep(const Build *b, const Trial *trial, Error *error);
void tried_finish(Tried *tried); /* NULL: nothing is done */
/* What the program costs; false with *error as above. */
bool build_try_with(const Build *b, const Trial *trial, BuildCost *cost, Error *error);
/* The same, of strategies and measures. */
bool build_try(const Build *b, const Strategy *const *strategy, const Measures *measures, BuildCost *cost, Error *error);

#define ABOUT (1 + TOLERANCE_USUAL) /* predictions that differ by less are taken to be equal, */
#define ABOUT_THE_SAME 1.001        /* and so they are where one of them costs nothing else */
/* Of plans about as fast the less is better: a step that takes a hundredth longer is worth it where it sends six hundredths fewer bytes. */
double time_and_traffic(const BuildCost *cost);
