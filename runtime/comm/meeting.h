/* meeting: how the ranks of a job without MPI find each other. */
#pragma once
#include "runtime/comm/wire.h"

/* Connects this rank with all others: sockets[r] for rank r, -1 for its own. node: the name of this machine. *error (EXIT_ENVIRONMENT) names the ranks that did not come, or why rank 0 cannot be reached. */
bool meeting_hold(const Meeting *meeting, int *sockets, char node[256], Error *error);
