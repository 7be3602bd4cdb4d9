/* launch: the ranks of a node as processes of this prun, without MPI. */
#pragma once
#include "runtime/options.h"

/* Starts --nproc processes, again after a failure as long as --max-restarts allows, from the latest checkpoint where there is one. In each of them it returns -1, with the
 * environment that meeting_find reads and what options say of restarts; in this process, when they have ended, the exit code. */
int launch(RunOptions *options);

/* What a process of --nproc ends with in place of EXIT_ENVIRONMENT where all ranks know of the failure and have done no step: the next start would end the same. The launcher's own exit
 * code is EXIT_ENVIRONMENT. */
enum { EXIT_FOR_GOOD = 64 + EXIT_ENVIRONMENT };

/* Before ranks are waited for: whether as many are started as the plan is for, where its file can be read here. False: *error says both numbers. started: "WORLD_SIZE says". */
bool launch_fits(const RunOptions *options, int nranks, const char *started, Error *error);
