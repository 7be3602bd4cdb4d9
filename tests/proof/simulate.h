/* simulate: runs a plan for all ranks on exact integers and compares it with its graph. It is what judges the proof, and so shares no code with proof/,
 * with ir/box.c or with the kernels: boxes come from the definition of a layout, step by step; a communication goes cell by cell over all ranks; each
 * operator is a function of its own here. What it is told is the plan; what it answers is whether every rank's loss and every new state is right.
 *
 * Numbers are integers modulo 2^31 - 1, so that sums do not depend on their order and nothing is rounded. Memory is bytes at the plan's offsets: values
 * that overlap damage each other. A byte that nobody has written makes what is read from it poison, and so does a communication's target until its wait;
 * its source must hold at the wait what it held at the start. Ranks run each for themselves and wait for each other: a deadlock is seen.
 */
#pragma once
#include "ir/plan.h"

enum { SIM_RANKS = 64 };
#define SIM_PRIME UINT32_C(2147483647)
#define SIM_POISON UINT32_MAX

/* A box of a global tensor: begin[d] .. begin[d] + local.dim[d] of each dimension, row-major elements. */
typedef struct SimTensor {
    DType dtype;
    bool hidden; /* dimension 0 is the hidden one */
    Shape global, local;
    int64_t begin[MAX_NDIM];
    uint32_t *at; /* 0 .. SIM_PRIME - 1, or SIM_POISON */
} SimTensor;

/* What the graph says: the whole tensor of every value, computed on one rank. In arena. Values of states and inputs depend on seed, their name and the
 * index of the element. */
typedef struct SimReference {
    const Graph *graph;
    uint64_t seed;
    SimTensor *values;    /* per value of the graph */
    uint32_t **new_state; /* per state: its elements after the step */
} SimReference;
bool simulate_reference(SimReference *reference, const Graph *graph, uint64_t seed, Arena *arena, char *why, size_t n);

/* Runs the first program of a plan with this graph (its storage layouts may be others). True: every rank has the loss and the states of the reference.
 * False with why: a difference, a race, a deadlock, or a step that cannot be run. At most SIM_RANKS ranks. */
bool simulate_plan(const Plan *plan, const SimReference *reference, char *why, size_t n);

/* The box of a rank, by the definition: each dimension is divided by its digits one after the other, the first parts one longer. */
void simulate_box(const Layout *layout, const Shape *shape, int rank, int64_t *begin, Shape *local);

/* ---------------------------------------------------------------- simulate_kernels.c */

/* Computes a node's results from operands; at of the results has room. False with why: the boxes do not fit together, so that no kernel could run. */
bool simulate_kernel(const Graph *graph, const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);
bool simulate_rope(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);      /* simulate_attention.c: one slice */
bool simulate_attention(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n); /* simulate_attention.c: one slice */
bool simulate_along(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);     /* simulate_along.c: one slice */
bool simulate_norm(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);      /* simulate_norms.c: one slice */
/* simulate_tables.c: one slice */
bool simulate_lookup(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);
bool simulate_table_rows(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);
bool simulate_table_update(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);
bool simulate_loss(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n); /* cross_entropy_rows */
bool simulate_loss_grad(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n);
bool simulate_one_hot(const SimTensor *in, SimTensor *out, char *why, size_t n);
bool simulate_windows(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n); /* simulate_windows.c: one slice */
bool simulate_knows(OpCode op);
/* A kernel of this operator reads, for each element that it writes, only the same element of operands of the same box. */
bool simulate_elementwise(OpCode op);
uint32_t simulate_number(double number); /* m * 2^e, exactly */
uint64_t simulate_mix(uint64_t number);  /* SplitMix64 */
