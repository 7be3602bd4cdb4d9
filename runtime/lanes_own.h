/* lanes_own: what lanes.c records, for lanes_gather.c. */
#pragma once
#include "runtime/exec.h"
#include "runtime/lanes.h"

enum { KEPT_STEPS = 16 };

/* When an action ran in a kept step. */
typedef struct Ran {
    float begin, end, comm_begin, comm_end; /* -1: not yet */
} Ran;

/* Seconds of an action, over the measured steps. */
typedef struct Spent {
    double sum, least, most;
} Spent;

/* What is recorded of a driven rank. */
typedef struct Track {
    int driven;
    double *begun; /* per action: when it was begun in the step under way */
    double *now;   /* per action: seconds from there until its end, -1: not begun */
    Spent *spent;
    Ran *ran; /* KEPT_STEPS times the number of actions */
} Track;

struct Lanes {
    const Executor *executor;
    Arena arena;
    int ntracks; /* of driven ranks at equal distances, at most MAX_LANES */
    Track *tracks;
    int *track_of; /* per driven rank: -1: none */
    bool ended;    /* lanes_end */
    bool on;       /* the step under way is measured */
    int64_t global_step, measured;
    int nkept;
    int64_t stride; /* one of so many measured steps is kept */
    struct {
        int64_t global_step;
        double begin, wall; /* on the process's clock; seconds that it took */
    } kept[KEPT_STEPS];
};
