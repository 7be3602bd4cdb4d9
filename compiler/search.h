/* search: what other files use of pass search. */
#pragma once
#include "compiler/budget.h"

/* What pass search has taken, for another compilation of the same net. */
typedef struct SearchTaken {
    Chosen chosen;
    int nforward, nstates, ninputs; /* of the graph that it is of */
    Measures measures;
    const SearchResult *result; /* NULL: no search was made */
    BuildCost cost;
    int64_t limit;    /* bytes that a rank may need; 0: any */
    bool limit_costs; /* without measures, something that does not fit was faster */
    bool limit_hides; /* something was compiled that does not fit: without a limit the search goes on from it, maybe to what fits */
    int64_t work;     /* nodes compiled to see what plans cost, and the work of solvers in the same unit */
    struct SearchTaken *front; /* other plans compiled, each faster than all that need no more memory; the least memory first */
    int nfront;
} SearchTaken;

/* For a net that has been through propagate: what its plan costs with the strategies that the search axis by axis finds, or, if `several`,
 * the best of several searches; compiled, with the measures that it needs. The graph stays as it is but for its tables. False: nothing was
 * found. */
bool search_quickly(Build *b, bool several, BuildCost *cost);

/* Whether a search other than propagation looks for strategies. */
bool searches(const Build *b);

/* ---- hinted.c */

/* Propagates again, on a copy of a net that has been through propagate and whose hints or settings were then changed. Prints nothing.
 * False: it is rejected. */
bool propagate_again(Graph *copy, Propagation *propagation);
/* Whether a net that has been through propagate has something for warn_hinted to check. */
bool hinted_asks(const Build *b);
/* Warns where the user's strategies and layouts make a step take much longer than none would. before: the net after propagate; with: what
 * its plan costs. */
void warn_hinted(const Build *before, const BuildCost *with);
