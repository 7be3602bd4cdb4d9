/* prefetch: when gathers of states begin. */
#pragma once
#include "compiler/compiler.h"

/* Per node of spmd, where it is a conversion that gathers a state: the position before which it should start, at most that of its first user; else position. order: the nodes of n
 * positions; position: per node its own, of a conversion that of its first user. Where the machine does nothing beside kernels nothing starts early. */
void prefetch_starts(const Build *b, const int *order, int n, const int *position, int *start);
/* Per position of order[0 .. n), and behind the last: when its kernel begins if nothing is waited for. */
double *kernels_begin(const Build *b, const int *order, int n);
