/* verify: --verify, runs a one-rank plan of the same net beside the run and compares them. */
#pragma once
#include "runtime/executor.h"

/* The one-rank plan of the same net, run in lock step with the run that it checks. */
typedef struct Verifier Verifier;
/* Collective over comm; reads the plan file on the process of rank 0 and runs it there. Fails (EXIT_REJECTED) when the nets differ. */
Verifier *verifier_create(const Plan *plan, const char *path, Executor *executor, Comm *comm, int nthreads, Error *error);
void verifier_destroy(Verifier *verifier);
/* Before a step of the executor: its states become the reference's. After it: the reference takes the step too, and the losses and all states
 * are compared. Both collective. after fails with EXIT_MISMATCH naming value, step, index and both numbers. */
bool verifier_before(Verifier *verifier, Error *error);
bool verifier_after(Verifier *verifier, int64_t epoch, int64_t step, Error *error);
/* After an evaluation of the run: the reference evaluates too, over the run's states. Collective; fails as verifier_after does. */
struct EvalResult;
bool verifier_evaluation(Verifier *verifier, const struct EvalResult *mine, int64_t epoch, int64_t step, Error *error);
/* Appends one line: what was compared, and the largest difference as a fraction of its tolerance. */
void verifier_report(const Verifier *verifier, Text *text);
