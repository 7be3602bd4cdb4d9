/* Internal to strategies/: the state of one propagation.
 *
 *   propagate.c  propagation from the hints
 *   given.c      what the user and the dataset fix: hints, layouts of states and inputs
 *   alike.c      the candidates of operators that are alike
 *   decide.c     which candidate an operator takes
 *   volume.c     what a step moves with the strategies as they are
 *   costly.c     warnings: hints that do not fit together, hints that cost much
 */
#pragma once
#include "strategies/choice.h"

enum { ALIKE_SLOTS = 512 };

/* All nodes with one operator, rule and operand types: their candidates. */
typedef struct Alike {
    OpCode op;
    const Rule *rule;
    int nin, nout;
    TensorType in[MAX_IN];
    Splits splits;
    int *layout; /* row i: numbers of the layouts of operands, then results, under candidate i */
    double *flops;
    int64_t *completion; /* bytes to complete the results; -1: not asked for yet */
    const Strategy **strategy;
    struct Alike *next; /* in the same slot */
} Alike;

typedef struct Propagator {
    Graph *graph;
    Propagation *result;
    Diags *diags;
    Arena arena; /* until propagate returns */
    CostMemo *memo;
    int nnodes;                /* forward nodes */
    Alike *alike[ALIKE_SLOTS]; /* by hash */
    struct Alone *alone;       /* strategies that split one factor */
    int *value_layout;         /* per value: number of the layout in which its users find it, -1: free or not decided */
    int (*need)[MAX_IN];       /* per decided node and operand: number of the layout that it needs */
    int *hint_of;              /* per node: the hinted node from which it was reached, -1: none */
    int *first_user, *user;    /* users of value v: node user[k] for k in first_user[v] .. first_user[v + 1], operand user_operand[k] */
    int *user_operand;
    int8_t *batch;          /* values_batch */
    const Strategy **given; /* per node: the strategy that it has before propagation, NULL: none */
    StrategyFrom *given_from;
    int *leaf_layout; /* per value: value_layout before propagation */
    bool *left_out;   /* per node: its hint does not count */
    bool batch_first; /* candidates that tie: the one that splits the batch, or the first in order */
} Propagator;

static inline const TensorType *value_type(const Propagator *p, int value) {
    return &p->graph->values.at[value].type;
}
static inline bool spans_equal(Span a, Span b) {
    return a.file == b.file && a.line == b.line && a.column == b.column;
}

/* ---- alike.c */

Alike *alike_of(Propagator *p, const Node *node);
const int32_t *splits_of(const Alike *alike, int candidate);
/* Bytes received to complete the results of a candidate, and the reductions that it is made of. */
int64_t alike_completion(Propagator *p, Alike *alike, const Node *node, int candidate);
/* Lexicographic order of the tuples of two candidates. */
int tuple_compare(const Alike *alike, int a, int b);
/* Bytes received in the reductions over the rows that a strategy splits (Factor.reductions): each has a number a row. */
int64_t row_bytes(const Propagator *p, const Node *node, const Strategy *strategy);

/* ---- decide.c */

/* The best candidate by the keys of DecidedBy, for a node that has no strategy. */
void decide_best(Propagator *p, int id);
/* Splits one factor as far as it goes; factor -1: whole. */
void decide_factor(Propagator *p, int id, int factor, StrategyFrom from);
/* Notes the layouts of a decided node's operands and results. */
void decided(Propagator *p, int id);

/* ---- given.c: false after diagnostics */

bool read_hints(Propagator *p);
bool read_leaves(Propagator *p);

/* ---- propagate.c */

/* Decides the strategies of all nodes anew: from the hints that are not left out; the rest split their batch. */
void fill(Propagator *p, bool batch_first);

/* ---- volume.c */

/* Bytes that all ranks receive in a step, forward and backward, and FLOPs of the busiest rank, forward. */
typedef struct Volume {
    int64_t bytes;
    double flops;
} Volume;
Volume volume_count(Propagator *p);

/* ---- costly.c */

/* Warns where consequences of two hints meet and do not fit: once for each two hints, however often a pattern makes them meet. */
void warn_conflicts(Propagator *p);
/* Warns when the hints make a step move much more than it would without. with: what it moves as it is. Strategies are decided anew. */
bool warn_costly(Propagator *p, Volume with);
