/* Random problems for the solvers, and what is best by trying everything. */
#pragma once
#include "search/solve.h"
#include "tests/random.h"

typedef enum { SHAPE_CHAIN, SHAPE_TREE, SHAPE_GRID, SHAPE_HUBS, SHAPE_RANDOM, SHAPE_LAYERS, NSHAPES } ProblemShape;
extern const char *const problem_shape_name[NSHAPES];

typedef struct ProblemKind {
    ProblemShape shape;
    int nvariables, most_choices;
    int infinite_percent, zero_percent; /* of entries */
    int largest;                        /* cost; a small one makes ties */
    int memory; /* 0: no limit; otherwise its percentage between the least and the most that choices could hold; below 0: less than the least */
    bool parallel; /* two edges between some variables */
} ProblemKind;

void problem_random(Problem *problem, Arena *arena, uint64_t *random, const ProblemKind *kind);
ProblemKind problem_kind_random(uint64_t *random); /* small enough to try everything */

/* A random problem as the solvers have it. */
typedef struct RandomCore {
    Arena arena;
    uint64_t random; /* for what a test draws besides */
    int64_t work;
    Problem problem;
    Known known;
    Core core;
} RandomCore;
/* kind NULL: of any kind that is small enough to try everything. What it has is in its arena, which the test finishes. */
void core_random(RandomCore *it, uint64_t seed, const ProblemKind *kind);
void problem_print(FILE *out, const Problem *problem);

typedef struct Best {
    double cost;        /* of the choices within the limit; INFINITY: there are none */
    int64_t least_peak; /* of choices with a finite cost; -1: there are none */
} Best;
Best problem_best(const Problem *problem);
