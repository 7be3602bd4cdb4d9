/* launch: the ranks of a node as processes of this prun, without MPI. */
#pragma once
#include "runtime/options.h"

/* Starts --nproc processes, again after a failure as long as --max-restarts allows, from the latest checkpoint where there is one. In each of them it returns -1, with the
 * environment that meeting_find reads and what options say of restarts; in this process, when they have ended, the exit code. */
int launch(RunOptions *options);

/* Before ranks are waited for: whether as many are started as the plan is for, where its file can be read here. False: *error says both numbers. started: "WORLD_SIZE says". */
bool launch_fits(const RunOptions *options, int nranks, const char *started, Error *error);
