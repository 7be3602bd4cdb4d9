/* stop: why training ends before its last step, and how all processes come to know of it.
 *
 * SIGINT, SIGTERM and SIGUSR2 end it, SIGUSR1 asks for a checkpoint. They reach processes at different moments, perhaps only one of them; and a loss that is not finite may be seen by
 * one process only. Processes tell each other in meetings, where each sends a word to all. MEETING_S or less should pass between two; all compute the number of steps from the same words. */
#pragma once
#include "runtime/comm/comm.h"

#include <signal.h>

enum { NSTOP_SIGNALS = 4 };
typedef struct Stop {
    int signal;           /* that ends the training, known to all processes; 0: none */
    bool checkpoint;      /* one is asked for after this step, known to all processes */
    int64_t bad_step;     /* global step whose loss is not finite, known to all processes; 0: none */
    int64_t next, stride; /* global step of the next meeting; steps between two */
    int64_t met_step;     /* the last meeting: global step, time in seconds */
    double met_at;
    bool installed;
    struct sigaction before[NSTOP_SIGNALS];
} Stop;

/* From here on the signals are noted instead of ending the process; one that ends the training ends the process when it comes again, half a second later or more. Signals that are
 * ignored stay so. begin: the
 * global step that training begins after. */
void stop_open(Stop *stop, int64_t begin);
void stop_close(Stop *stop); /* restores the handlers; also without stop_open */
/* After a step (global_step): fills in signal, checkpoint and bad_step. bad_step: what this process knows, 0: nothing; alone: the other processes may know something else. now: processes
 * meet even if it is not time yet. Collective. */
bool stop_look(Stop *stop, Comm *comm, int64_t global_step, int64_t bad_step, bool alone, bool now, Error *error);
const char *stop_signal_name(int number); /* "SIGINT" */
/* Appends the shell command that continues a training from its newest checkpoint: what prun was started with, with --resume latest. */
void stop_command(Text *text, const Comm *comm, int argc, char *const *argv);
