/* figures: means and deviations of the rows of training, in a file's metadata: "pcc.mean.x" and "pcc.deviation.x" of input x, numbers with blanks between. */
#pragma once
#include "runtime/executor.h"
#include "runtime/tensors.h"

void figures_describe(TensorFile *file, Arena *arena, const Executor *executor);
void figures_keep(TensorFile *to, Arena *arena, const TensorFile *from); /* copies those of another file */
/* Takes those of a file in place of what the executor has; for an input that the file has none for, those stay. EXIT_ENVIRONMENT: they are damaged, or of other rows. */
bool figures_load(const TensorFile *file, Executor *executor, Error *error);
/* Whether all figures that are needed are known; from: the file that was loaded, or NULL. */
bool figures_known(const Executor *executor, const char *from, Error *error);
