/* lanes: when each step of the plan ran, for --report: sums over the steps of training that are measured, and some of these whole, of which one is shown. Of a fixed size,
 * whatever the number of steps. */
#pragma once
#include "runtime/executor.h"

typedef struct Lanes Lanes;
struct Action;

/* Of an executor's steps; NULL and *error: out of memory. */
Lanes *lanes_create(const Executor *executor, Error *error);
void lanes_destroy(Lanes *lanes); /* takes NULL */
/* Before the nth step of this run, from 0: whether it is measured. Not the first, which warms up; the next ones; later every 16th, so that all together cost little. */
bool lanes_begin(Lanes *lanes, int64_t nth, int64_t global_step);
/* Whether the first steps are measured, and this is the one behind them. */
bool lanes_pause(const Lanes *lanes, int64_t nth);
void lanes_end(Lanes *lanes); /* nothing is measured any more */
/* profile.c: an action of the step that lanes_begin was called of ran from at[0] to at[1], in seconds since the step's first; comm: on a device its communication, beside it. Then
 * all of it: it began at this point of the process's clock. */
void lanes_action(Lanes *lanes, int driven, int action, bool comm, const double at[2]);
void lanes_done(Lanes *lanes, double begin, double wall);

/* ---------------------------------------------------------------- lanes_gather.c */

/* One step of the plan, or several that ran as one, as a rank ran it. Floats: a part of a step needs no more digits. */
typedef struct LaneItem {
    float nsteps;               /* 0: nothing ran */
    float mean, least, most;    /* seconds, over the measured steps; mean: lanes_mean */
    float begin, end;           /* in the step that is shown, since the rank's first action */
    float comm_begin, comm_end; /* the same of a communication on its own stream; -1: there is none */
} LaneItem;
enum { LANE_FLOATS = sizeof(LaneItem) / sizeof(float), MAX_LANES = 16 };
/* A rank that is shown. */
typedef struct Lane {
    int rank, process, role;
    double offset;  /* seconds: when its step began, on the clock of process 0, from the first of all */
    LaneItem *item; /* per step of the role, of several that ran as one of the first */
    float *late;    /* the same, of waits: seconds that they waited for a rank that had not started yet */
} Lane;
/* Over ranks and steps. */
typedef struct LaneFigure {
    int nsteps;
    double mean, least, most, late; /* least > most: nothing ran */
    int n;                          /* ranks */
} LaneFigure;
typedef struct Gathered {
    int64_t measured, shown; /* steps; the one that is shown, counted over the whole training */
    int nlanes;
    Lane lane[MAX_LANES];
    LaneFigure **figure; /* per role and step of it; of its ranks */
} Gathered;
/* Of n numbers, at least one; of three or more without the largest: a step that something else on the machine has disturbed says nothing about the plan, and of few it makes up most of the mean. */
double lanes_mean(double sum, double most, int64_t n);
/* On process 0 what all have measured; in the arena. Collective. */
bool lanes_gather(Lanes *lanes, Comm *comm, Arena *arena, Gathered *gathered, Error *error);
