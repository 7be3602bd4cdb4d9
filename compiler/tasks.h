/* tasks: the forward or the backward pass of one batch of a step in one stage, and the order of all of them. */
#pragma once
#include "compiler/build.h"

/* Per node of spmd the number of the task that it belongs to, in the order in which tasks begin; what belongs to no stage is part of the task that it waits for.
 * NULL: there are no stages. */
int *tasks_order(const Build *b);
