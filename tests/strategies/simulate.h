/* A simulation of conversions cell by cell, that shares nothing with ir/box.c but the list of pieces under test: its own division of
 * indices, its own groups, its own count of what is received and sent. What a rank holds of a cell is a set of the source's terms. */
#pragma once
#include "strategies/strategies.h"

enum { SIMULATE_RANKS = 16, SIMULATE_CELLS = 96 };

typedef struct Ranges {
    int64_t received[SIMULATE_RANKS], sent[SIMULATE_RANKS];
} Ranges;

/* Everybody's terms of every cell: bit i is term i of the source. */
typedef struct World {
    const Shape *shape;
    int nranks, ncells;
    uint32_t terms[SIMULATE_RANKS][SIMULATE_CELLS];
} World;

/* The position of rank in the layout's device order, by searching it. */
int simulate_position(const Layout *layout, int rank);
/* Whether rank holds (needs) the cell under layout; by dividing the index range again and again. */
bool simulate_holds(const Layout *layout, const Shape *shape, int rank, int cell);
/* The state before the conversion: each rank has its own term of the cells of its box. The terms are those of `from`. */
void simulate_begin(World *world, const Layout *from, const Shape *shape, int nranks);
/* The terms that rank must have of its cells under `to`, when the terms are those of `from`. */
uint32_t simulate_wanted(const Layout *from, const Layout *to, int nranks, int rank);
/* Runs one step; false with *why when a rank sends what it does not have, adds a term twice, or ends without what `to` says. origin is the
 * layout that the terms are those of; counts are added to. */
bool simulate_step(World *world, const Layout *origin, const Layout *from, const ConversionStep *step, Ranges *counts, const char **why);
/* The bound of docs/redistribution.md, cell by cell. */
void simulate_bound(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *bound);
/* All layouts of up to 2 dimensions on nranks ranks whose digits are digits of some mesh, partial sums included. Returns their number. */
int simulate_layouts(int nranks, int ndim, bool partial, Layout *layouts, int room);

/* Plans the conversion under every policy and runs each plan: what is said to move is what moved, the result is right on every rank, auto and
 * bound receive what simulate_bound says. Asserts; false: the pair is illegal (the target owes what the source does not), and was refused. */
bool simulate_policies(const Layout *from, const Layout *to, const Shape *shape, int nranks);
