/* roles: makes of the order of a program's steps one for each role, with the steps that concern the ranks of its stage. */
#pragma once
#include "compiler/build.h"

/* Makes b->role from the order of all ranks (schedule). task: per node of spmd (tasks.h); NULL: there are no stages. */
void roles_make(Build *b, const int *task);
/* Runs a function for each role, with its placement as b->placement. */
bool roles_each(Build *b, bool (*run)(Build *b));
/* Whether the ranks of b->placement hold some of a value of spmd. */
bool role_holds(const Build *b, int value);
