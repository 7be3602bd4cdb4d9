/* roles: the order of the steps of a program becomes one of each role: the ranks of a stage do what is theirs. */
#pragma once
#include "compiler/build.h"

/* Of the order of all ranks (schedule), b->role. task: per node of spmd (tasks.h); NULL: there are no stages. */
void roles_make(Build *b, const int *task);
/* Runs what is done for each role, with its placement as b->placement. */
bool roles_each(Build *b, bool (*run)(Build *b));
/* Whether the ranks of b->placement hold some of a value of spmd. */
bool role_holds(const Build *b, int value);
