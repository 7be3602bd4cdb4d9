/* metrics: writes losses and evaluations to the file of --metrics, in one of three formats by its name:
 *   DIRECTORY/   an event file of TensorBoard, a new one for each run
 *   NAME.csv     a table with a heading; a field without a number is empty
 *   else         a JSON object per line */
#pragma once
#include "runtime/evaluate.h"
#include "runtime/index.h"

typedef struct MetricsFile MetricsFile;

typedef struct Measured {
    const char *name; /* "loss", "lr", "f1" */
    double value;
} Measured;
enum { MAX_MEASURED = 8 + NMETRICS };

/* What is written at once: for a step's loss, or for an evaluation. */
typedef struct Record {
    const Position *at;
    bool eval;
    int64_t rows; /* of an evaluation */
    int n;
    Measured measured[MAX_MEASURED];
} Record;

/* resumed: an existing file is continued. Records of steps after `at` (NULL: of none) are cut off atomically, so that the file is complete at any moment, and the evaluation of that step itself
 * unless `evaluated`; so is an unfinished last line, which a killed run has left. graph, evaluation: a table has columns for their reports and metrics; evaluation may be
 * NULL. */
MetricsFile *metrics_open(const char *path, const Graph *graph, const Evaluation *evaluation, bool resumed, const Position *at,
                          bool evaluated, Error *error);
bool metrics_write(MetricsFile *file, const Record *record, Error *error);
void metrics_close(MetricsFile *file); /* takes NULL */
