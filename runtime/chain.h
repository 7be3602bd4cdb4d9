/* chain: the elementwise operators of one fused step as one program, for any backend.
 *
 * A backend processes the program's elements in blocks of any size and order: of each block it may read all loads before it writes any
 * result, or compute member after member. The plan has been proved to allow both. */
#pragma once
#include "runtime/nest.h"

enum { CHAIN_STEPS = 32, CHAIN_LOADS = 32, CHAIN_OPERANDS = 3 };

/* An operand in memory: where element i of the results (in row-major order) lies in it. */
typedef struct ChainLoad {
    const void *data;
    DType dtype;
    int ndim; /* loops over the elements of the results, outermost first; strides in elements of this operand */
    int64_t size[MAX_NDIM], stride[MAX_NDIM];
} ChainLoad;

/* Operand of a step: load `index`, or the result of step `index`. */
typedef struct ChainSource {
    bool is_load;
    int index;
} ChainSource;

typedef struct ChainStep {
    OpCode op;        /* elementwise; OP_write: the operand as it is */
    const Attr *attr; /* the plan's */
    double number;    /* mean_grad: the divisor */
    int nin;
    ChainSource in[CHAIN_OPERANDS];
    DType dtype;  /* of the result */
    void *out;    /* where the result is stored; NULL: it is not */
    int last_use; /* the last step that reads the result; -1: none */
} ChainStep;

typedef struct Chain {
    int64_t n; /* elements of every result */
    int nloads, nsteps;
    int reduced; /* the step whose result the last call reduces; -1: it is no reduction */
    ChainLoad load[CHAIN_LOADS];
    ChainStep step[CHAIN_STEPS];
} Chain;

/* Makes the program of all n calls. Members may be elementwise operators, constants, and operators that only place elements (transpose,
 * reshape, slice, split, sum_grad, convert, ...), which become strides of the operands that are read through them. inner: see Backend.fuse.
 * An operand is the latest earlier result that lies at its address, or memory as it was before the step. The last call may be a reduction
 * (sum, mean, sum_to) of a member's result, which the program leaves to the backend. False where the calls are no such program: other
 * operators, results that nobody stores, or of different sizes, too many members, an operand that needs more than one stride per dimension, or one that is read through a
 * view after a result was stored over it. */
bool chain_build(Chain *chain, const KernelCall *calls, int n, const unsigned *inner);

DType chain_source_dtype(const Chain *chain, ChainSource source);
/* A reduction that a program may end in. */
bool chain_is_reduction(OpCode op);
/* Whether the elements of a load follow each other as those of the results do. */
bool chain_load_is_linear(const ChainLoad *load);
/* Whether a load reads some of these bytes. */
bool chain_load_overlaps(const ChainLoad *load, const void *data, int64_t bytes);
