/* stop: why a training ends before its last step, and how all processes come to know of it.
 *
 * SIGINT, SIGTERM and SIGUSR2 end it, SIGUSR1 asks for a checkpoint. They reach processes at different moments, perhaps one of them alone; and a loss that is not finite may be
 * one process's. They tell each other in meetings: each gives a word to all, after so many steps that MEETING_S or less pass between two. How many steps, all compute from the same words. */
#pragma once
#include "runtime/comm/comm.h"

#include <signal.h>

enum { NSTOP_SIGNALS = 4 };
typedef struct Stop {
    int signal;           /* that ends the training, as all processes know; 0: none */
    bool checkpoint;      /* one is asked for behind this step, as all processes know */
    int64_t bad_step;     /* global step whose loss is not finite, as all processes know; 0: none */
    int64_t next, stride; /* global step of the next meeting; steps between two */
    int64_t met_step;     /* the last meeting: global step, seconds */
    double met_at;
    bool installed;
    struct sigaction before[NSTOP_SIGNALS];
} Stop;

/* From here on the signals are noted instead of ending the process; one that ends the training ends it at once when it comes again, half a second later or more. Signals that are
 * ignored stay so. begin: the
 * global step that training begins after. */
void stop_open(Stop *stop, int64_t begin);
void stop_close(Stop *stop); /* as before stop_open; also without it */
/* After a step (global_step): fills signal, checkpoint and bad_step. bad_step: what this process knows, 0: nothing; alone: the other processes may know something else. now: they meet
 * even if it is not their time. Collective. */
bool stop_look(Stop *stop, Comm *comm, int64_t global_step, int64_t bad_step, bool alone, bool now, Error *error);
const char *stop_signal_name(int number); /* "SIGINT" */
/* The command that goes on with a training from its newest checkpoint: what prun was started with, words of a shell. */
void stop_command(Text *text, const Comm *comm, int argc, char *const *argv);
