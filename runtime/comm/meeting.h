/* meeting: how the ranks of a job without MPI find each other. */
#pragma once
#include "runtime/comm/wire.h"

/* A socket at this port of every address of this machine, for so many to come; port 0: any, which *port tells. -1 and *error. */
int meeting_listen(int *port, int nranks, Error *error);

/* Connects this rank with all others: sockets[r] for rank r, -1 for its own. node: the name of this machine. *error (EXIT_ENVIRONMENT) names the ranks that did not come, or why rank 0 cannot be reached.
 * Where the job goes on with fewer (Meeting.fewer) rank and nranks are those that it has then; a rank that it does not need gets an *error that is reported, EXIT_DONE. */
bool meeting_hold(Meeting *meeting, int *sockets, char node[256], Error *error);
