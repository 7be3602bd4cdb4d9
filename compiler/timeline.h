/* timeline: a step of a program on the machine that it is planned for: kernels one after another, communications behind each other on a stream of their own, waits
 * where the plan has them. Of the rank with the largest parts, which all others wait for. */
#pragma once
#include "compiler/facts.h"

typedef struct TimelineEvent {
    int step, nsteps;   /* of the role: the first; so many run as one, views and steps that cost nothing among them */
    bool communication; /* on the stream of communications: what of it runs behind kernels; the wait for it, on theirs, has the rest */
    double begin_s, end_s;
    double flops, bytes; /* of a kernel read and written, of a communication what its busiest rank sends or receives */
} TimelineEvent;

typedef struct Timeline {
    double step_s;
    double kernel_s, communication_s; /* of all of them, whatever runs beside them */
    double exposed_s;                 /* of communications, while no kernel runs: what waits take */
    VEC(TimelineEvent) events;        /* as they begin on their streams */
    double *alone_s;                  /* per communication of the facts: what it takes by itself; of a bucket each as if it were alone */
    double *exposed_by;               /* per communication of the facts: its part of exposed_s; a bucket's is its first one's */
} Timeline;

/* strategy: per node of the graph, as it runs. machine NULL: machine_cpu. */
void timeline_make(Timeline *timeline, const Facts *facts, const Strategy *const *strategy, const Machine *machine, Arena *arena);
/* Chrome's JSON, as prun --trace writes it of what was measured. */
void timeline_print(Text *text, const Timeline *timeline, const Facts *facts);
