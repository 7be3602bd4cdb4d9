/* chain: a chain is cut into runs that follow each other, as operators are into the stages of a pipeline. It knows no operator. */
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

/* The places at which the runs begin, and the end of the last one, of the best cuts: those with which the most that a run holds beyond the limit is least, of these those with which the slowest run
 * takes the least, of these those that the fewest bytes cross, of equal ones some, always the same. Exact but for rounding: what differs by a part in 10^9 is taken to be equal. False: there are none, as
 * there are too few places or too many runs that must not be. place: nruns + 1. Dynamic programming, once for each of the three: a maximum and a sum together have no best beginning. */
bool chain_cut(const Chain *chain, Arena *arena, int *place);
