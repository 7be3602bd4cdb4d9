/* best: what evaluations decide: which is the best so far, and whether there was no better one for too long. */
#pragma once
#include "runtime/evaluate.h"
#include "runtime/index.h"
#include "runtime/run.h"

/* Whether the program eval has what is watched: EXIT_REJECTED. */
bool best_check(const Settings *settings, const Evaluation *evaluation, Error *error);
/* What was watched by another metric counts for nothing. */
void best_forget_others(const Settings *settings, Watched watched[NWATCHES]);
/* Before the first step: checkpoints of a run that this one goes on from may be elsewhere, or gone; a best one that is not there counts no more, with a note. Collective. */
bool best_find(Run *run, Error *error);
/* The evaluation behind this step among those before it: one that is the best so far has a checkpoint, and where there was no better one for too long training ends. Collective. */
bool best_compare(Run *run, const EvalResult *result, Error *error);
/* `restore best;`: its states, after the last step. EXIT_MISMATCH: no evaluation has a number. Collective. */
bool best_restore(Run *run, Error *error);
