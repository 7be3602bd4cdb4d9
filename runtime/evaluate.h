/* evaluate: the program eval of a plan, run over all rows of its data: each row counts once, on any number of ranks, and rows that only fill up the last
 * batch count nowhere. */
#pragma once
#include "ir/metric.h"
#include "runtime/executor.h"
#include "runtime/options.h"

typedef struct Evaluation Evaluation;

typedef struct EvalResult {
    int64_t rows;
    double loss; /* the mean over the rows */
    double metric[NMETRICS];
    bool has_loss, has[NMETRICS]; /* no loss: predictions alone */
    double seconds;               /* that it took */
} EvalResult;

/* When training is interrupted for it, and after how many steps (EVAL_STEPS). EVAL_NEVER too where the plan has no program eval. */
EvalWhen evaluation_when(const Plan *plan, int64_t *steps);
/* The program eval of the plan. states_of: the executor of another program of the plan, whose states it reads; its arena serves too where it is large
 * enough, for the two never run at once. NULL: it has states of its own, initial ones. options: those of
 * prun, or NULL: --data gives inputs other files; with --predict predictions are made alone, with a note, where there is no data for an input that they do not depend
 * on (labels). Collective. NULL and *error on failure. */
Evaluation *evaluation_create(const Plan *plan, const RunOptions *options, Executor *states_of, const Device *device, Comm *comm,
                              const char *plan_directory, int nthreads, Error *error);
void evaluation_destroy(Evaluation *evaluation); /* takes NULL */
Executor *evaluation_executor(Evaluation *evaluation);
/* Runs over all rows; the same result on every process. Collective. prediction: a file that gets what the net answers to each row, in the order of the
 * data, as one .npy, written under a temporary name first; NULL: none. *own_failure: on a failure of this process alone, which the others do not know of. */
bool evaluation_run(Evaluation *evaluation, const char *prediction, EvalResult *result, bool *own_failure, Error *error);
/* "f32[16]", of one row; NULL: the net has none. In the arena. */
const char *evaluation_row_type(const Evaluation *evaluation, Arena *arena);
bool evaluation_has(const Evaluation *evaluation, const char *reported); /* whether it says this of the rows: "loss", "f1" */
/* Memory of a rank beside the program train's, or (alone) all of it. */
void evaluation_memory(const Plan *plan, int rank, bool alone, ExecutorMemory *memory);
