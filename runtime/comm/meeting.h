/* meeting: how the ranks of a job without MPI find each other. */
#pragma once
#include "runtime/comm/wire.h"

/* A socket that listens at this port of every address of this machine for nranks to come; port 0: any, which *port tells. -1 and *error on failure. */
int meeting_listen(int *port, int nranks, Error *error);

/* Connects this rank with all others: sockets[r] for rank r, -1 for its own. node: the name of this machine. *error (EXIT_ENVIRONMENT) names the ranks that did not come, or why rank 0 cannot be reached.
 * Where the job goes on with fewer ranks (Meeting.fewer) rank and nranks become the new ones; a rank that is not needed gets an *error that is reported, EXIT_DONE. */
bool meeting_hold(Meeting *meeting, int *sockets, char node[256], Error *error);
