/* The numeric half of the proof: graphs and plans over the integers modulo p = 2^61 - 1, where sums do not depend on their order and nothing is
 * rounded (PROOF.md 0 and 2). Shares nothing with the planner; no function here is derived from the table's rules.
 *
 *   field.c      arithmetic; the values that leaves begin with
 *   semantics.c  one hand-written function an operator
 *   tangent.c    one hand-written derivative an operator: the reference of autodiff
 *   graphs.c     whole graphs: evaluation, sameness of two graphs, gradients against tangents
 *   numeric.c    a plan's programs run for all ranks and compared with its graph
 *   pattern.c    the operators and communications of a plan at small sizes that keep their pattern
 */
#pragma once
#include "proof/internal.h"

/* ---------------------------------------------------------------- field.c */

typedef uint64_t Fe; /* 0 .. FIELD_P - 1 */
#define FIELD_P ((UINT64_C(1) << 61) - 1)
Fe fe_add(Fe a, Fe b);
Fe fe_sub(Fe a, Fe b);
Fe fe_mul(Fe a, Fe b);
Fe fe_inverse(Fe a);                    /* of 0: 0 */
Fe fe_integer(int64_t number);          /* negative ones from the top */
int64_t fe_signed(Fe a);                /* the representative in (-p/2, p/2): what orders elements, and what an integer tensor holds */
bool fe_double(double number, Fe *fe);  /* exactly m * 2^e; false: infinite or not a number */
Fe fe_hash(uint64_t key, Fe a);         /* a keyed random function of a */

/* A box of a global tensor. Integer tensors hold fe_integer of their numbers. */
typedef struct FieldTensor {
    DType dtype;
    bool hidden;   /* dimension 0 is the hidden one */
    Shape global;
    Box box;
    Fe *at;        /* row-major elements of the box; NULL in tangents: all zero */
} FieldTensor;

/* Element `index` (row-major, of the global tensor) of what a leaf begins with: a function of (seed, kind, name, index) alone, so that every box of it
 * agrees. Integers are drawn in [0, range) (range 0: small ones). Constants of the graph have their own values. */
bool field_leaf(const Graph *graph, const Node *node, uint64_t seed, FieldTensor *tensor, char *why, size_t n);

/* ---------------------------------------------------------------- semantics.c, tangent.c */

/* Results of a node from operands; boxes of all tensors are set and every `at` has room. What a kernel computes: where operands are boxes, the
 * result is the box that they give (contracted letters: this box's share of the sum). Hidden dimensions: slice by slice. A node without
 * semantics is an error of this folder: every row of the table has one (tests/proof walks it). */
bool field_kernel(const Graph *graph, const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
/* Multiplications that field_kernel makes about, for budgets. */
double field_work(const Graph *graph, const Node *node, const FieldTensor *in, const FieldTensor *out);
/* Derivative of the results in direction din (at NULL: zero) at operands in, results out; whole tensors only. Forward operators alone. */
bool field_tangent(const Graph *graph, const Node *node, const FieldTensor *in, const FieldTensor *din, const FieldTensor *out, FieldTensor *dout, char *why, size_t n);

/* ---------------------------------------------------------------- graphs.c */

/* Whole tensors of every value of nodes [0, nnodes), in the arena. */
bool field_graph(const Graph *graph, int nnodes, uint64_t seed, Arena *arena, FieldTensor *values, char *why, size_t n);
double field_graph_work(const Graph *graph); /* multiplications of one evaluation */
/* The loss of both is the same on the same states and inputs (by name): simplify. */
bool field_same(const Graph *before, const Graph *after, uint64_t seed, char *why, size_t n);
/* sum of <gradient of state i, v_i> = d loss along random tangents v; gradients are what the update nodes of each state take. *ngradients: states
 * whose gradient was checked. */
bool field_gradients(const Graph *graph, uint64_t seed, int *ngradients, char *why, size_t n);
/* The same for every distinct (operator, attributes, operand ranks) of the graph alone, at small sizes that keep its pattern: <dy, tangent(v)> = sum of <dx_i, v_i>
 * where dx_i is what ir's adjoint of the operator builds. Linear in the number of distinct patterns. */
bool field_operator_gradients(const Graph *graph, uint64_t seed, int *npatterns, char *why, size_t n);

/* ---------------------------------------------------------------- numeric.c, pattern.c */

/* Runs a program for all ranks, communications through ir/box.c's pieces, and compares the loss and every new state with the graph's on every
 * rank. False with why (program, rank, step, value, element). */
bool numeric_program(const Plan *plan, const Program *program, uint64_t seed, char *why, size_t n);
double numeric_work(const Plan *plan, const Program *program); /* multiplications, all ranks and the graph */
/* Every distinct (operator, attributes, layouts) and every distinct communication of the program, each alone at small sizes. */
bool pattern_program(const Plan *plan, const Program *program, uint64_t seed, int *noperators, int *ncommunications, char *why, size_t n);
