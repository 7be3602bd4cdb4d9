/* clock: the clocks of processes on different nodes compared. */
#include <math.h>

#include "runtime/comm/comm.h"

enum { ROUNDS = 24 };

/* Nobody leaves a barrier before all have entered it: if this process leaves at o and process 0 entered at i, this clock is at most o - i ahead. Likewise from below. */
bool comm_clock(Comm *comm, double *ahead, Error *error) {
    double came[ROUNDS], left[ROUNDS], first[2 * ROUNDS], least = -INFINITY, most = INFINITY;
    *ahead = 0;
    if (comm->nlocal == comm->nprocesses) return true; /* one node: one clock */
    for (int k = 0; k < ROUNDS; k++) {
        came[k] = now_seconds();
        if (!comm->table->barrier(comm, error)) return false;
        left[k] = now_seconds();
        first[k] = came[k];
        first[ROUNDS + k] = left[k];
    }
    if (!comm->table->broadcast(comm, first, sizeof first, error)) return false;
    for (int k = 0; k < ROUNDS; k++) {
        least = fmax(least, came[k] - first[ROUNDS + k]);
        most = fmin(most, left[k] - first[k]);
    }
    if (comm->node_first > 0) *ahead = (least + most) / 2;
    return true;
}
