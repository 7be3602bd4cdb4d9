/* timeline: simulates a step of a program on the machine that it is planned for: kernels one after another, communications one after another on a stream of their own, waits
 * where the plan has them. Of each role it takes the rank with the largest parts, for which the others wait. A communication of several roles begins when all have started it. */
#pragma once
#include "compiler/facts.h"

typedef struct TimelineEvent {
    int step, nsteps;   /* of the role: the first; how many run as one, with views and steps that cost nothing among them */
    bool communication; /* on the stream of communications: the part that runs behind kernels; the wait, on their stream, has the rest */
    double begin_s, end_s;
    double flops, bytes; /* bytes: of a kernel, read and written; of a communication, what its busiest rank sends or receives */
} TimelineEvent;

typedef struct Timeline {
    double step_s;                    /* of all roles */
    double kernel_s, communication_s; /* sums over all kernels, all communications, whatever runs beside them */
    double exposed_s;                 /* of communications, while no kernel runs: what waits take */
    VEC(TimelineEvent) events;        /* in the order in which they begin on their streams */
    double *alone_s;                  /* per communication of the facts: its time by itself, also where it is in a bucket */
    double *exposed_by;               /* per communication of the facts: its part of exposed_s; the first of a bucket has that of all */
} Timeline;

/* Makes a timeline of each role of a program. facts: one per role; strategy: per node of the graph, as it runs; machine NULL: machine_cpu */
void timeline_make(Timeline *timelines, const Facts *facts, int nroles, const Strategy *const *strategy, const Machine *machine,
                   Arena *arena);
/* The part of a step in which the roles, on average, compute nothing. */
double timelines_idle(const Timeline *timelines, int nroles);
/* Prints Chrome's JSON, as prun --trace does for what it measured: a process for each role. */
void timeline_print(Text *text, const Timeline *timelines, const Facts *facts, int nroles);
