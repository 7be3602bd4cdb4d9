/* chain: cuts a chain into runs, as operators into the stages of a pipeline. It knows no operator. */
#pragma once
#include "ir/base.h"

typedef struct ChainRun {
    double seconds, bytes; /* bytes: held */
} ChainRun;
typedef struct Chain {
    int nplaces; /* where it may be cut; 0 is its beginning, the last one its end */
    int nruns;
    /* Run k, from 0, between two places, from < to. False: it must not be. */
    bool (*run)(const void *context, int k, int from, int to, ChainRun *run);
    const void *context;
    const double *crossing; /* per place: bytes that cross a cut there */
    double limit_bytes;     /* that a run should hold at most; 0: none */
} Chain;

/* Finds the best cuts: those with the least excess of any run over the limit; of these, those with the fastest slowest run; of these, those
 * that the fewest bytes cross; of equal ones always the same. place, nruns + 1: where the runs begin, and the end of the last one. It is
 * exact but for rounding: what differs by a part in 10^9 is taken to be equal. False: there are no cuts, as there are too few places or too
 * many runs that must not be. Dynamic programming, once for each of the three: a maximum and a sum together have no best beginning. */
bool chain_cut(const Chain *chain, Arena *arena, int *place);
