/* sides: forward operators that depend on an input and stand side by side, none behind another, as lookups in many tables do. */
#pragma once
#include "ir/graph.h"
#include "ir/map.h"

/* Those of one kind, `depth` steps from the beginning. */
typedef struct Side {
    int depth, count;
    const Node *node; /* one of them */
    double elements;  /* of their operands */
} Side;
typedef struct Sides {
    VEC(Side) at;
    Map map;
    int *of;    /* per node: its side, -1: none */
    int widest; /* the most operators side by side, of whatever kind */
} Sides;
void sides_find(Sides *sides, const Graph *graph, Arena *arena);
/* Of the sides with at least so many operators, the one with the largest operands; -1: there is none. */
int sides_largest(const Sides *sides, int least);
