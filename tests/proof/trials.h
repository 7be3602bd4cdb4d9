/* One call of every operator, at small sizes: what tests of the field's semantics walk. */
#pragma once
#include "proof/field.h"
#include "tests/ops/parts.h"

typedef struct Trial {
    OpCode op;
    int nin;
    Shape in[MAX_IN];
    Attr attr[MAX_ATTRS];
    bool hidden;   /* of all operands: dimension 0 is the hidden one */
    bool inverted; /* divides by operand 1 (sqrt_grad: 0): the numbers there are powers of two */
    bool hashed;   /* its results are hashes: no kernel computes them */
} Trial;

extern const Trial trials[];
extern const int ntrials;

/* The operator on inputs of a graph of its own. */
typedef struct TrialGraph {
    Arena arena;
    Graph graph;
    const Node *node;
} TrialGraph;
/* The element type of an operand where those that may be of any are dtype. */
DType trial_type(const Trial *trial, int operand, DType dtype);
void trial_open(TrialGraph *t, const Trial *trial, DType dtype);
void trial_close(TrialGraph *t);
/* The boxes of all tensors when each factor f of the node runs over [begin[f], end[f]) only, without elements. */
void trial_boxes(const TrialGraph *t, const int64_t *begin, const int64_t *end, FieldTensor *in, FieldTensor *out);
/* A random part of every factor that may be split. contracted: of those that a result lacks, too. */
void trial_parts(const TrialGraph *t, bool contracted, uint64_t *random, int64_t *begin, int64_t *end);
