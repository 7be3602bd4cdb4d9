/* prefetch: decides when gathers of states begin. */
#pragma once
#include "compiler/compiler.h"

/* Fills in start, per node of spmd: of a conversion that gathers a state, the position before which it should start, at most that of its
 * first user; of others `position`. order: the nodes of the n positions; position: per node its own, of a conversion that of its first
 * user. If the machine does nothing beside kernels, nothing starts early. */
void prefetch_starts(const Build *b, const int *order, int n, const int *position, int *start);
/* Per position of order[0 .. n), and behind the last: the time at which its kernel begins if nothing is waited for. */
double *kernels_begin(const Build *b, const int *order, int n);
