/* problem: all that a solver of the search gets. It knows no operator and no layout.
 *
 * A variable takes one of its choices. A choice costs seconds and holds bytes while the variable is live; an edge costs seconds by the choices of its two variables. The
 * cost of a solution is the sum over variables and edges; at no time may the live choices hold more bytes than the limit. */
#pragma once
#include "ir/base.h"

/* The cost of an edge: at[i * ncolumns + j] seconds where its first variable takes choice i and its second choice j; INFINITY: not both. Tables with the same contents
 * are one pointer, so that a solver does equal work once. */
typedef struct CostTable {
    int nrows, ncolumns;
    const double *at;
} CostTable;

typedef struct Variable {
    int nchoices;         /* at least 1; a hint leaves 1 */
    const double *cost;   /* per choice: seconds, not negative; INFINITY: not this one. Equal lists may be one pointer */
    const int64_t *bytes; /* per choice: held, not negative; NULL: none */
    int begin, end;       /* live at the times begin .. end - 1 */
} Variable;

typedef struct Edge {
    int from, to; /* variables, not the same */
    const CostTable *table;
} Edge;

/* What solvers find out about tables, kept for other problems that have them. */
typedef struct Known Known;
/* In the arena, as long as the tables of the problems are there. */
Known *known_create(Arena *arena);

typedef struct Problem {
    VEC(Variable) variables;
    VEC(Edge) edges;     /* two variables may have several: their costs add up */
    int64_t limit_bytes; /* 0: none */
    double most;         /* solutions that cost as much are not looked for; 0: all are */
    Known *known;        /* of problems with edges and lists of costs in common; NULL: of this one alone */
} Problem;

typedef struct Solution {
    int *choice; /* per variable */
    bool
        fits; /* finite cost, within the limit; otherwise the choices are the nearest that were found, or, of a problem with `most`, none at all */
    double cost, bound; /* seconds; no solution that fits costs less than the bound. Optimal where they are equal (but for rounding) */
    int64_t peak_bytes; /* of the fullest time */
    int64_t work;       /* entries of tables looked at */
} Solution;

/* Finds the best solution for so much work (0: the default), in the arena. The same for the same problem, whatever the machine's load. */
void problem_solve(const Problem *problem, int64_t work_limit, Arena *arena, Solution *solution);
/* The cost of given choices, and the bytes of the fullest time. */
double problem_cost(const Problem *problem, const int *choice);
int64_t problem_peak(const Problem *problem, const int *choice);
