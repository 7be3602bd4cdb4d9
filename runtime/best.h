/* best: compares evaluations: which is the best so far, and whether there was no better one for too long. */
#pragma once
#include "runtime/evaluate.h"
#include "runtime/index.h"
#include "runtime/run.h"

/* Whether the program eval reports the metrics that are watched; if not, EXIT_REJECTED. */
bool best_check(const Settings *settings, const Evaluation *evaluation, Error *error);
/* Resets those that were watched by another metric than the settings name. */
void best_forget_others(const Settings *settings, Watched watched[NWATCHES]);
/* Before the first step: forgets, with a note, a best checkpoint that is not there: those of the run that this one goes on from may be elsewhere, or gone. Collective. */
bool best_find(Run *run, Error *error);
/* Compares the evaluation after this step with those before it: saves a checkpoint if it is the best, and ends training where there was no better one for too long. Collective. */
bool best_compare(Run *run, const EvalResult *result, Error *error);
/* `restore best;`: after the last step, loads the states of the best. EXIT_MISMATCH: no evaluation has a number. Collective. */
bool best_restore(Run *run, Error *error);
