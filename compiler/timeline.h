/* timeline: a step of a program on the machine that it is planned for: kernels one after another, communications behind each other on a stream of their own, waits
 * where the plan has them. Of the rank with the largest parts of each role, which all others of it wait for; a communication of several roles begins when all have started it. */
#pragma once
#include "compiler/facts.h"

typedef struct TimelineEvent {
    int step, nsteps;   /* of the role: the first; so many run as one, views and steps that cost nothing among them */
    bool communication; /* on the stream of communications: what of it runs behind kernels; the wait for it, on theirs, has the rest */
    double begin_s, end_s;
    double flops, bytes; /* of a kernel read and written, of a communication what its busiest rank sends or receives */
} TimelineEvent;

typedef struct Timeline {
    double step_s;                    /* of all roles */
    double kernel_s, communication_s; /* of all of them, whatever runs beside them */
    double exposed_s;                 /* of communications, while no kernel runs: what waits take */
    VEC(TimelineEvent) events;        /* as they begin on their streams */
    double *alone_s;                  /* per communication of the facts: what it takes by itself; of a bucket each as if it were alone */
    double *exposed_by;               /* per communication of the facts: its part of exposed_s; a bucket's is its first one's */
} Timeline;

/* Of each role of a program, whose facts are these. strategy: per node of the graph, as it runs. machine NULL: machine_cpu. */
void timeline_make(Timeline *timelines, const Facts *facts, int nroles, const Strategy *const *strategy, const Machine *machine,
                   Arena *arena);
/* The part of a step in which the roles, on average, compute nothing. */
double timelines_idle(const Timeline *timelines, int nroles);
/* Chrome's JSON, as prun --trace writes it of what was measured: a process for each role. */
void timeline_print(Text *text, const Timeline *timelines, const Facts *facts, int nroles);
