/* log: what is printed as training goes: the line of each loss, a progress line on a terminal, metrics as JSON lines, a file per rank. */
#pragma once
#include <stdio.h>

#include "runtime/evaluate.h"
#include "runtime/run.h"

/* Prepares all of it: opens files, learns every rank's process. Collective. */
bool log_open(Run *run, Error *error);
void log_close(Run *run);
/* Before a step: whether its loss will be used. */
bool log_wants_loss(const Run *run);
/* After a step: prints a line where one is due. Collective where one is. */
bool log_step(Run *run, Error *error);
/* After an evaluation: prints its line, and writes its metrics. Collective. */
bool log_evaluation(Run *run, const EvalResult *result, Error *error);
void log_say(Run *run, Text *text); /* prints what rank 0 has to say between losses; frees it */
/* Removes the progress line, so that something else can be printed. */
void log_pause(Run *run);
/* Values for a template: "{global_step}/{steps} loss:{loss}", "{loss:.4f}", "{{". log_template fills them in, and adds a line feed. */
typedef struct LogFields {
    int64_t epoch, step, global_step, steps, total_steps, rank, local_rank, world_size, pid;
    double loss, mean_loss, lr, next_lr, samples_per_s, grad_norm;
    double left_s; /* until the last step, estimated from the steps so far; negative: not yet known */
} LogFields;
void log_template(Text *text, const char *format, const LogFields *fields);
int terminal_columns(FILE *terminal); /* 80 where it does not say */
