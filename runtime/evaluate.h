/* evaluate: runs the program eval of a plan over all rows of its data: each row counts once, on any number of ranks, and rows that only fill up the last
 * batch do not count. */
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

/* When training is interrupted for an evaluation, and after how many steps (EVAL_STEPS). EVAL_NEVER also where the plan has no program eval. */
EvalWhen evaluation_when(const Plan *plan, int64_t *steps);
/* Makes the program eval of the plan. states_of: the executor of another program of the plan, whose states it reads; its arena is used too where it is large
 * enough, as the two never run at once. NULL: it has states of its own, initial ones. options: those of
 * prun, or NULL: --data gives inputs other files; with --predict, where there is no data for an input that predictions do not depend on (labels), only predictions
 * are made, with a note. Collective. NULL and *error on failure. */
Evaluation *evaluation_create(const Plan *plan, const RunOptions *options, Executor *states_of, const Device *device, Comm *comm,
                              const char *plan_directory, int nthreads, Error *error);
void evaluation_destroy(Evaluation *evaluation); /* takes NULL */
Executor *evaluation_executor(Evaluation *evaluation);
/* Runs over all rows; the same result on every process. Collective. prediction: a file for the net's predictions of each row, in the order of the
 * data, as one .npy, written under a temporary name first; NULL: none. *own_failure: this process alone has failed, and the others do not know of it. */
bool evaluation_run(Evaluation *evaluation, const char *prediction, EvalResult *result, bool *own_failure, Error *error);
/* Type of a row's prediction, "f32[16]"; NULL: the net has none. In the arena. */
const char *evaluation_row_type(const Evaluation *evaluation, Arena *arena);
bool evaluation_has(const Evaluation *evaluation, const char *reported); /* whether it reports this metric: "loss", "f1" */
/* Memory that a rank needs in addition to the program train's, or (alone) all of it. */
void evaluation_memory(const Plan *plan, int rank, bool alone, ExecutorMemory *memory);
