/* changes: solutions near one that is compiled, for a local search. A group of like operators gets another strategy, and those around it what is then best in the model. */
#pragma once
#include "compiler/solutions.h"

/* Splits all operators of a group alike. */
typedef struct Change {
    int group;
    Split split;
    Mesh mesh;    /* on which the operators around them may be split */
    double worth; /* seconds of the model that may be saved: the group's conversions, and what several ranks compute alike */
    int number;   /* of two with equal worth the lower one is tried first */
    int beside;   /* how many changes had been taken when it was solved */
    Found found;  /* the model's solution with it */
} Change;

typedef struct Changes {
    Search *s;
    int around;          /* operators within this distance of the changed ones get what is best in the model */
    VEC(int *) members;  /* per group: nodes, ascending, -1 behind the last */
    int *first, *beside; /* per node its neighbours, read by it or reading it: beside[first[n]] .. beside[first[n + 1] - 1] */
    Meshes meshes;       /* of two axes */
    VEC(Change) list;
} Changes;

/* Finds all changes of a net, first those of operators on which a solution spends most in conversions and in what several ranks compute alike. Returns the solution's seconds in the model. */
double changes_find(Changes *changes, Search *s, const Found *base, int around);
/* The solution with the two axes of its mesh exchanged. False: the mesh has not two, or there is no such solution. */
bool changes_exchange(const Changes *changes, const Found *base, Found *found);
/* Solves the model around a change; all else stays as in `base`. False: it changes nothing, or is not possible. */
bool change_solve(const Changes *changes, Change *change, const Found *base);
