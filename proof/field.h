/* The numeric half of the proof: evaluates graphs and plans over the integers modulo p = 2^61 - 1, where sums do not depend on their order and nothing is rounded (docs/proof.md).
 * Shares nothing with the planner; no function here is derived from the table's rules.
 *
 *   field.c      arithmetic; the values that leaves begin with
 *   walk.c       loops over boxes; contraction.c: products over letters
 *   semantics.c  one hand-written function an operator; lookup.c: those that take indices; loss.c: those of cross_entropy, their letters too; norm.c: layer_norm, rms_norm, batchnorm.c: batch_norm, attention.c, likewise; rope.c; updates.c: those of optimizers
 *   tangent.c    one hand-written derivative an operator: the reference of autodiff
 *   graphs.c     whole graphs: evaluation, sameness of two graphs, gradients against tangents
 *   adjoints.c   the gradient of each operator of a graph alone, at small sizes
 *   spread.c     a tensor on all ranks: communications, comparison with the whole
 *   numeric.c    a plan's programs run for all ranks and compared with its graph
 *   pattern.c    the operators and communications of a plan at small sizes that keep their pattern
 */
#pragma once
#include "proof/internal.h"

/* ---------------------------------------------------------------- field.c */

typedef uint64_t Fe; /* 0 .. FIELD_P - 1 */
#define FIELD_P ((UINT64_C(1) << 61) - 1)

/* The most frequent functions are inline: their speed decides what fits a budget. */
static inline Fe fe_reduce(uint64_t a) { /* for any 64 bits, as 2^61 = 1 */
    a = (a & FIELD_P) + (a >> 61);
    return a >= FIELD_P ? a - FIELD_P : a;
}
static inline Fe fe_add(Fe a, Fe b) {
    return a + b >= FIELD_P ? a + b - FIELD_P : a + b;
}
static inline Fe fe_sub(Fe a, Fe b) {
    return a >= b ? a - b : a + FIELD_P - b;
}
static inline Fe fe_mul_portable(Fe a, Fe b) {
    uint64_t a1 = a >> 32, a0 = a & UINT32_MAX, b1 = b >> 32, b0 = b & UINT32_MAX;
    uint64_t high = a1 * b1, middle = a1 * b0 + a0 * b1, low = a0 * b0; /* at 2^64 = 8, at 2^32, at 1 */
    return fe_reduce(8 * high + (middle >> 29) + ((middle & ((UINT64_C(1) << 29) - 1)) << 32) + (low & FIELD_P) + (low >> 61));
}
#ifdef __SIZEOF_INT128__
#define FIELD_WIDE 1
__extension__ typedef unsigned __int128 Wide;
static inline Fe fe_mul(Fe a, Fe b) {
    Wide product = (Wide)a * b;
    return fe_reduce(((uint64_t)product & FIELD_P) + (uint64_t)(product >> 61));
}
#else
#define FIELD_WIDE 0
static inline Fe fe_mul(Fe a, Fe b) {
    return fe_mul_portable(a, b);
}
#endif
/* A keyed random function of a. */
static inline Fe fe_hash(uint64_t key, Fe a) {
    uint64_t z = (a + 0x9e3779b97f4a7c15u) ^ key * 0xd6e8feb86659fd93u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return fe_reduce(z ^ z >> 31);
}
Fe fe_dot(const Fe *a, const Fe *b, int64_t n);          /* sum of a[i] b[i] */
Fe fe_dot_portable(const Fe *a, const Fe *b, int64_t n); /* the same without 128-bit integers */
Fe fe_inverse(Fe a);                                     /* of 0: 0 */
void fe_inverse_all(Fe *at, int64_t n);                  /* each in place, at 4 multiplications an element */
Fe fe_integer(int64_t number);                           /* negative numbers count down from p */
int64_t fe_signed(Fe a);               /* the representative in (-p/2, p/2): orders elements, and is an integer tensor's number */
bool fe_double(double number, Fe *fe); /* exactly m * 2^e; false: infinite or not a number */
uint64_t fe_key(uint64_t seed, const char *name); /* a key for fe_hash */

/* A box of a global tensor. Integer tensors hold fe_integer of their numbers. */
typedef struct FieldTensor {
    DType dtype;
    bool hidden; /* dimension 0 is the hidden one */
    Shape global;
    Box box;
    Fe *at; /* row-major elements of the box; NULL in tangents: all zero */
} FieldTensor;

/* Elements of the tensor's box. */
static inline int64_t field_elements(const FieldTensor *t) {
    int64_t elements = 1;
    for (int d = 0; d < t->box.ndim; d++)
        elements *= t->box.end[d] > t->box.begin[d] ? t->box.end[d] - t->box.begin[d] : 0;
    return elements;
}

/* Fills in a leaf's box. An element's value depends only on (seed, kind, name, its row-major index in the global tensor), so all boxes of a
 * leaf agree. Integers are drawn in [-8, 8); inputs that are indices, in Input.index, which no pass changes. Constants of the graph have
 * their own values. read: version 0 only; what a step writes is no leaf. */
bool field_leaf(const Graph *graph, const Node *node, uint64_t seed, FieldTensor *tensor, char *why, size_t n);

/* ---------------------------------------------------------------- semantics.c, tangent.c */

/* Computes a node's results from its operands, as a kernel does; the boxes of all tensors are set and every `at` has room. Where operands
 * are boxes, the result is the box that they give (contracted letters: this box's share of the sum). Hidden dimensions are computed slice
 * by slice. A node without semantics is an error in this folder: every row of the table has one (tests/proof checks it). Fails too where
 * operands do not hold what the result's box needs. Leaves are computed by field_leaf. */
bool field_kernel(const Graph *graph, const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool field_has_semantics(OpCode op); /* the row has a meaning here, leaves included */
/* The time of field_kernel (for a leaf: field_leaf) as an approximate number of multiplications, for budgets: 0.6 ns each where much is
 * contracted, 1 to 5 elsewhere (a server core of 2020). */
double field_work(const Graph *graph, const Node *node, const FieldTensor *in, const FieldTensor *out);
/* Computes dout, the derivative of the results `out` at the operands `in` in direction din (at NULL: zero); whole tensors only. dout has
 * room; its `at` becomes NULL where the derivative is zero. An operator without a rule (its results do not change smoothly: masks,
 * integers) has derivative zero; every row with an adjoint has a rule. */
bool field_has_tangent(OpCode op);
bool field_tangent(const Graph *graph, const Node *node, const FieldTensor *in, const FieldTensor *din, const FieldTensor *out,
                   FieldTensor *dout, char *why, size_t n);

/* ---------------------------------------------------------------- graphs.c */

/* Evaluates nodes [0, nnodes): the whole tensor of every value, in the arena. */
bool field_graph(const Graph *graph, int nnodes, uint64_t seed, Arena *arena, FieldTensor *values, char *why, size_t n);
double field_graph_work(const Graph *graph); /* multiplications of one evaluation */
/* Whether `before` and `after` compute the same loss and new values of states from the same states and inputs (by name); for a graph with
 * neither, all values that have a name in both. For passes that rewrite a graph or add to it. Where `after` has inputs for more batches of
 * a step (accumulate), its loss must be the mean of the losses of `before` over them. Its work is that of both graphs. */
bool field_same(const Graph *before, const Graph *after, uint64_t seed, char *why, size_t n);
/* Checks sum of <gradient of state i, v_i> = d loss along random tangents v of all trainable states. The gradients are those that the
 * update nodes take; a state without update has gradient zero. In mode data_parallel each hidden slice has its own loss, and the derivative
 * is of their mean or sum, as settings.gradients_mean says. *ngradients: states whose gradient was checked. False with why (naming the
 * state). Its work is about twice field_graph_work. */
bool field_gradients(const Graph *graph, uint64_t seed, int *ngradients, char *why, size_t n);

/* ---------------------------------------------------------------- adjoints.c */

/* Checks each distinct (operator, attributes, operand shapes) of the graph's forward nodes by itself, at small sizes that keep its pattern:
 * <dy, tangent(v)> = sum of <dx_i, v_i>, where dx_i is what ir's adjoint of the operator builds. Takes time linear in the number of
 * distinct patterns; *npatterns: how many were checked. */
bool field_operator_gradients(const Graph *graph, uint64_t seed, int *npatterns, char *why, size_t n);

/* ---------------------------------------------------------------- spread.c: one tensor on all ranks */

#define FE_POISON UINT64_MAX /* not an element of the field: never written, or not received yet */

/* The boxes of a tensor on all ranks, in one allocation. `each`: elements of the largest box. */
typedef struct Spread {
    Fe *at;
    int64_t each, cap;
} Spread;
bool spread_room(Spread *spread, const Layout *layout, const Shape *shape, int nranks); /* all elements poison; false: no memory */
void spread_finish(Spread *spread);
static inline Fe *spread_rank(const Spread *spread, int rank) {
    return spread->at + spread->each * rank;
}
/* Copies a box out of the whole tensor. */
void box_cut(const Shape *shape, const Fe *whole, const Box *box, Fe *part);
/* Carries out a communication as the runtime does: every rank takes the pieces that ir/box.c gives it, terms in their order, in two rounds
 * where sums are completed. False: a target element is not written, a piece lies outside its sender's or receiver's box, or another rank
 * holds a slice. */
bool spread_move(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, const Spread *source, Spread *target,
                 char *why, size_t n);
/* The same, only for what ranks first to last receive. */
bool spread_move_on(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, int first, int last,
                    const Spread *source, Spread *target, char *why, size_t n);
/* Whether every rank's box, with partial sums (maxima, minima) completed, equals that of the whole tensor. False with the first element
 * that differs. */
bool spread_agrees(const Layout *layout, const Shape *shape, int nranks, const Spread *spread, const Fe *whole, char *why, size_t n);
/* The same, only for ranks first to last. */
bool spread_agrees_on(const Layout *layout, const Shape *shape, int first, int last, const Spread *spread, const Fe *whole, char *why,
                      size_t n);
/* Draws random terms for every rank; *whole is the tensor that they make up. Integers are small. Ranks that agree in all of the layout's
 * digits get the same values. */
void spread_draw(const Layout *layout, const Shape *shape, DType dtype, int nranks, uint64_t key, Spread *spread, Fe *whole);

/* ---------------------------------------------------------------- numeric.c, pattern.c */

/* Runs a program for all ranks in lock step and compares with the graph, on every rank: every value when it is computed, the loss and every
 * state at the end. Values lie where the plan puts them: those that share arena memory overwrite each other, results of communications are
 * poison until their wait, and sources must last until then. False with why (step, rank, value, element). */
bool numeric_program(const Plan *plan, const Program *program, uint64_t seed, char *why, size_t n);
double numeric_work(const Plan *plan, const Program *program);  /* in multiplications, for all ranks and the graph */
double numeric_bytes(const Plan *plan, const Program *program); /* memory */

/* What was run at small sizes, and what could neither be shrunk nor run at its own size. */
typedef struct Patterns {
    int operators, communications, left_out;
    char left_why[512]; /* why the first was left out */
} Patterns;
/* Runs every distinct (operator, attributes, layouts) and every distinct communication of the plan, each alone at small sizes that keep its
 * pattern. */
bool pattern_plan(const Plan *plan, uint64_t seed, Pool *pool, Patterns *patterns, char *why, size_t n);
