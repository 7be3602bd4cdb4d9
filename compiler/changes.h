/* changes: solutions near one that is compiled, for a local search. Some operators that are alike get another strategy, and those around them what is then best in the model. */
#pragma once
#include "compiler/solutions.h"

/* All operators of a group are split alike. */
typedef struct Change {
    int group;
    Split split;
    Mesh mesh;    /* on which the operators around them may be split */
    double worth; /* seconds of the model that may be saved: conversions of the group, and what several ranks compute of it */
    int number;   /* of two with as much worth the first is tried first */
    int beside;   /* how many changes had been taken when it was solved */
    Found found;  /* with it, of the model */
} Change;

typedef struct Changes {
    Search *s;
    int around;          /* operators this far from those that change follow as is best in the model */
    VEC(int *) members;  /* per group: nodes, ascending, -1 behind the last */
    int *first, *beside; /* per node: those that it reads and that read it, beside[first[n]] .. beside[first[n + 1] - 1] */
    Meshes meshes;       /* of two axes */
    VEC(Change) list;
} Changes;

/* All changes of a net, those of operators first that have to do with most of what a solution spends on conversions, and on what several ranks compute. Returns what the solution takes in the model. */
double changes_find(Changes *changes, Search *s, const Found *base, int around);
/* The solution with the two axes of its mesh exchanged. False: it has not two, or there is none. */
bool changes_exchange(const Changes *changes, const Found *base, Found *found);
/* Solves the model around a change, all else being as in a solution. False: it changes nothing, or cannot be. */
bool change_solve(const Changes *changes, Change *change, const Found *base);
