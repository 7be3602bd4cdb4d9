/* lanes: records when each step of the plan ran, for --report: sums over the measured steps of training, and some of these in full, of which one is shown. Its size does not
 * depend on the number of steps. */
#pragma once
#include "runtime/executor.h"

typedef struct Lanes Lanes;
struct Action;

/* Records an executor's steps; NULL and *error: out of memory. */
Lanes *lanes_create(const Executor *executor, Error *error);
void lanes_destroy(Lanes *lanes); /* takes NULL */
/* Before the nth step of this run, from 0: whether it is measured: not the first, which warms up; the next 16; later every 16th, so that measuring costs little. */
bool lanes_begin(Lanes *lanes, int64_t nth, int64_t global_step);
/* Whether this is the step right after the first steps that are measured. */
bool lanes_pause(const Lanes *lanes, int64_t nth);
void lanes_end(Lanes *lanes); /* nothing is measured any more */
/* profile.c: an action of the step that lanes_begin was called for ran from at[0] to at[1], in seconds since the step began; comm: its communication, beside it on a device. Then
 * the whole step is done: it began at this point of the process's clock. */
void lanes_action(Lanes *lanes, int driven, int action, bool comm, const double at[2]);
void lanes_done(Lanes *lanes, double begin, double wall);

/* ---------------------------------------------------------------- lanes_gather.c */

/* One step of the plan, or several that ran as one, as a rank ran it. In floats: a part of a step needs no more digits. */
typedef struct LaneItem {
    float nsteps;               /* 0: nothing ran */
    float mean, least, most;    /* seconds, over the measured steps; mean: lanes_mean */
    float begin, end;           /* in the step that is shown, from the rank's first action */
    float comm_begin, comm_end; /* likewise for a communication on its own stream; -1: there is none */
} LaneItem;
enum { LANE_FLOATS = sizeof(LaneItem) / sizeof(float), MAX_LANES = 16 };
/* A rank that is shown. */
typedef struct Lane {
    int rank, process, role;
    double offset;  /* seconds from the first rank's begin of the step to this one's, on the clock of process 0 */
    LaneItem *item; /* per step of the role; several that ran as one: at the first */
    float *late;    /* likewise, for waits: seconds that they waited for a rank that had not started yet */
} Lane;
/* Over ranks and steps. */
typedef struct LaneFigure {
    int nsteps;
    double mean, least, most, late; /* least > most: nothing ran */
    int n;                          /* ranks */
} LaneFigure;
typedef struct Gathered {
    int64_t measured, shown; /* number of measured steps; the step that is shown, counted over the whole training */
    int nlanes;
    Lane lane[MAX_LANES];
    LaneFigure **figure; /* per role and step of it; over its ranks */
} Gathered;
/* The mean of n numbers, at least one; of three or more without the largest: a step that something else on the machine has disturbed says nothing about the plan, and among few it dominates the mean. */
double lanes_mean(double sum, double most, int64_t n);
/* Gathers on process 0 what all have measured; in the arena. Collective. */
bool lanes_gather(Lanes *lanes, Comm *comm, Arena *arena, Gathered *gathered, Error *error);
