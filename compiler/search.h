/* search: what others ask of pass search. */
#pragma once
#include "compiler/budget.h"

/* What pass search has taken, for another compilation of the same net. */
typedef struct SearchTaken {
    Chosen chosen;
    int nforward, nstates, ninputs; /* of the graph that it is of */
    Measures measures;
    const SearchResult *result; /* NULL: it did not look */
    BuildCost cost;
    int64_t limit;    /* bytes of a rank, to keep within; 0: none */
    bool limit_costs; /* something that does not fit, but for measures, was faster */
    bool limit_hides; /* something was compiled that does not fit: without a limit the search goes on from it, maybe to what does */
    int64_t work;     /* nodes compiled to see what plans cost, and what solving takes in the same unit */
    struct SearchTaken *front; /* what else was compiled, each faster than all that needs no more memory; the least memory first */
    int nfront;
} SearchTaken;

/* What a step costs with the strategies that one search finds, axis by axis, or the best of several, for a net that has been through propagate: compiled, with measures that it needs. The graph
 * stays as it is but for its tables. False: nothing was found. */
bool search_quickly(Build *b, bool several, BuildCost *cost);

/* Whether a search other than propagation looks for strategies. */
bool searches(const Build *b);

/* ---- hinted.c */

/* Propagation once more, on a copy of a net that has been through it and then changed in its hints or settings. Says nothing. False: it is rejected. */
bool propagate_again(Graph *copy, Propagation *propagation);
/* Whether warn_hinted has something to ask of a net that has been through propagate. */
bool hinted_asks(const Build *b);
/* Warns where the user's strategies and layouts make a step take much longer than none. before: the net behind propagate; with: what its plan costs. */
void warn_hinted(const Build *before, const BuildCost *with);
