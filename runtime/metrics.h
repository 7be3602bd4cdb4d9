/* metrics: losses and evaluations in a file of --metrics, of one of three forms by its name:
 *   DIRECTORY/   an event file of TensorBoard, a new one a run
 *   NAME.csv     a table with a heading; what a line has no number for is empty
 *   else         a JSON object a line */
#pragma once
#include "runtime/evaluate.h"
#include "runtime/index.h"

typedef struct MetricsFile MetricsFile;

typedef struct Measured {
    const char *name; /* "loss", "lr", "f1" */
    double value;
} Measured;
enum { MAX_MEASURED = 8 + NMETRICS };

/* What is written at once: of a step's loss, or of an evaluation. */
typedef struct Record {
    const Position *at;
    bool eval;
    int64_t rows; /* of an evaluation */
    int n;
    Measured measured[MAX_MEASURED];
} Record;

/* resumed: a file that is there goes on. Of what stands in it, that of steps behind `at` (NULL: nothing) is cut off, in one piece, so that it is whole at any moment; of the step itself the
 * evaluation unless `evaluated`. A last line without an end, which a run that was killed has left, too. graph, evaluation: whose reports and metrics a table has columns for; evaluation may be
 * NULL. */
MetricsFile *metrics_open(const char *path, const Graph *graph, const Evaluation *evaluation, bool resumed, const Position *at,
                          bool evaluated, Error *error);
bool metrics_write(MetricsFile *file, const Record *record, Error *error);
void metrics_close(MetricsFile *file); /* takes NULL */
