/* launch: the ranks of a node as processes of this prun, without MPI. */
#pragma once
#include "runtime/options.h"

/* Starts --nproc processes; after a failure again as long as --max-restarts allows, from the latest checkpoint where there is one. In each of them it returns -1, with the
 * environment that meeting_find reads and the options of a restart set; in this process, when they have ended, it returns the exit code. */
int launch(RunOptions *options);

/* Exit code of a process of --nproc in place of EXIT_ENVIRONMENT where all ranks know of the failure and have done no step: a restart would end the same. The launcher's own exit
 * code is EXIT_ENVIRONMENT. */
enum { EXIT_FOR_GOOD = 64 + EXIT_ENVIRONMENT };

/* Before waiting for ranks: whether nranks is the number that the plan is for; true where its file cannot be read here. False: *error says both numbers. started: "WORLD_SIZE says". */
bool launch_fits(const RunOptions *options, int nranks, const char *started, Error *error);
