/* Internal to strategies/: the state of one propagation.
 *
 *   propagate.c  propagation from the hints
 *   given.c      what the user and the dataset fix: hints, layouts of states and inputs
 *   alike.c      the candidates of operators that are alike
 *   decide.c     which candidate an operator takes
 *   volume.c     what a value moves, and a step, with the current strategies
 *   costly.c     warnings: hints that do not fit together, hints that cost much
 */
#pragma once
#include "ir/map.h"
#include "strategies/choice.h"

/* What all ranks receive in some communications, and the number of these. */
typedef struct Moved {
    int64_t bytes; /* of all ranks together */
    int64_t messages;
} Moved;
/* The start of a communication costs as much as this many bytes received by each rank. Machines need more, but with so few, bytes decide
 * except between small tensors. */
enum { MESSAGE_BYTES = 128 };

/* A strategy with its costs and the numbers of its layouts (cost.c). */
typedef struct Candidate {
    const Strategy *strategy; /* in the graph's arena */
    int32_t *split;           /* per factor */
    double flops;             /* of the busiest rank */
    const Moved *halos;       /* per operand: received in halos of what its gradient is computed from */
    Moved parts;              /* the same of operand 0, for the results that it is cut into */
    Moved table;              /* of an embedding whose table is updated by rows: the rows and their indices, sent to the table */
    Moved rows;               /* in the reductions over the rows that it splits (Factor.reductions) */
    const int *need;          /* per operand */
    const int *gradient;      /* per operand: the layout in which the operator leaves its gradient, partial sums included */
    const int *made, *home;   /* per result: its layout as the operator leaves it, partial sums included; without these */
    int number;               /* its index in Alike.all */
    bool offered;             /* operators may choose it; a hint can be a strategy that is not offered */
    bool as_ordered;          /* offered only while p->as_ordered is set */
} Candidate;

/* The layouts that candidates were derived from: column i is operand i; results follow the operands. */
typedef struct Derived {
    int column, number;
} Derived;

/* What was decided for the question that `key` holds, and whether it is better than what the operator had. */
typedef struct Answer {
    const Candidate *best;
    bool improves;
    int nkey;
    const int *key;
} Answer;

/* The candidates of all nodes with the same operator, rule and operand types. */
typedef struct Alike {
    OpCode op;
    const Rule *rule;
    int nin, nout;
    TensorType in[MAX_IN];
    VEC(Candidate *) all, offered;
    Map known; /* all, by their layouts */
    VEC(Derived) derived;
    VEC(Answer) answers;
    Map asked;          /* answers, by their keys */
    double least_flops; /* of those offered */
} Alike;

typedef struct Propagator {
    Graph *graph;
    Propagation *result;
    Diags *diags;
    Arena arena; /* until propagate returns */
    CostMemo *memo;
    int nnodes; /* forward nodes */
    VEC(Alike *) alike;
    Map alike_map;
    const Candidate **chosen; /* per node, NULL: leaves and undecided nodes */
    int *
        fixed_layout; /* per value: number of the layout in which its users find it, whatever its producer: of leaves, and after `->`; -1: none */
    int *hint_of;           /* per node: the hinted node from which it was reached, -1: none */
    bool *apart;            /* per node: a conversion separates it from that hint, so it does not follow from the hint */
    int *first_user, *user; /* users of value v: node user[k] for k in first_user[v] .. first_user[v + 1], operand user_operand[k] */
    int *user_operand;
    int8_t *batch;          /* values_batch */
    bool *active;           /* per value: it has a gradient */
    bool *by_rows;          /* per value: a table that is updated by the rows that occur */
    const Strategy **given; /* per node: the strategy that it has before propagation, NULL: none */
    StrategyFrom *given_from;
    bool *left_out; /* per node: its hint is ignored */
    bool hinted;    /* some strategy is given and not left out */
    /* 0: all given strategies have their digits in the order of their factors. Else all ranks as digits, major first, in the order of the
     * factors of the given strategy that is not so and splits the most. */
    int norder;
    Digit order[MAX_DIGITS];
    bool as_ordered; /* undecided operators split their batch in that order, and strategies in it are offered */
} Propagator;

static inline const TensorType *value_type(const Propagator *p, int value) {
    return &p->graph->values.at[value].type;
}
static inline bool spans_equal(Span a, Span b) {
    return a.file == b.file && a.line == b.line && a.column == b.column;
}
static inline bool node_active(const Propagator *p, const Node *node) {
    bool active = false;
    for (int i = 0; i < node->nin; i++)
        active = active || (p->active[node->in[i]] && op_table[node->op].adjoint);
    return active;
}
static inline void moved_add(Moved *moved, Moved other) {
    moved->bytes += other.bytes;
    moved->messages += other.messages;
}
static inline int64_t moved_cost(const Propagator *p, Moved moved) {
    return moved.bytes + moved.messages * MESSAGE_BYTES * p->graph->nranks;
}
/* What is received within an operator and its gradient: in their reductions, for updates by rows, and in halos. */
static inline Moved own_moved(const Propagator *p, const Node *node, const Candidate *candidate) {
    Moved moved = candidate->rows;
    if (moved.messages > 0 && node_active(p, node)) moved_add(&moved, moved);
    if (node->op == OP_embedding && p->by_rows[node->in[0]]) moved_add(&moved, candidate->table);
    moved_add(&moved, candidate->parts);
    for (int i = 0; i < node->nin && op_table[node->op].adjoint; i++)
        if (p->active[node->in[i]]) moved_add(&moved, candidate->halos[i]);
    return moved;
}

/* ---- alike.c */

Alike *alike_of(Propagator *p, const Node *node);
/* The candidate with this strategy, offered or not. */
Candidate *candidate_of(Propagator *p, const Node *node, const Strategy *strategy);
Candidate *candidate_from_splits(Propagator *p, const Node *node, const int32_t *splits);
/* Offers all strategies with their digits in the order of the factors, and all with their digits in p->order. */
void offer_all(Propagator *p, Alike *alike, const Node *node);
/* Sets p->order where given strategies have their digits in another order than that of their factors: to that of the one that splits the
 * most. */
void order_find(Propagator *p);
/* Where hints have digits in another order than that of the factors, offers the strategies in which an operand, or a result, has this
 * layout; the layout's missing digits go to any factors. */
void offer_from(Propagator *p, Alike *alike, const Node *node, int column, int number);

/* ---- decide.c */

/* What decides between candidates that cost the same: how well they fit the operands, or the users. */
typedef enum { PREFER_OPERANDS, PREFER_USERS } Prefer;
/* Gives a node its best candidate, given its decided neighbours. Returns whether it is better than the one that the node had. */
bool decide_best(Propagator *p, int id, Prefer prefer);
/* Splits one factor into as many parts as possible; factor -1: whole. */
void decide_factor(Propagator *p, int id, int factor, StrategyFrom from);
void decided(Propagator *p, int id, const Candidate *candidate, StrategyFrom from);
/* Records the candidate that a node has, and the best others, beside its neighbours. */
void decision_record(Propagator *p, int id);

/* ---- given.c: false after diagnostics */

bool read_hints(Propagator *p);
bool read_leaves(Propagator *p);
bool read_found(Propagator *p); /* after the users' hints */

/* ---- propagate.c */

/* Decides the strategies of all nodes anew, from the hints that are not left out. Returns what a step moves. */
Moved fill(Propagator *p);

/* ---- volume.c */

/* The layouts in which users of a value need it and leave its gradient, partial sums included; -1: no gradient. */
typedef struct Asked {
    int need, gradient;
} Asked;
enum { MAX_ASKED = 16 }; /* of one value, without those of one operator; any more are not counted */
/* The conversions of a value and its gradient. made: the layout in which its producer leaves it, partial sums included; home: that in which
 * its users find it; both -1: as its first user needs it. */
typedef struct ValueTraffic {
    int value, made, home;
    int n;
    Asked asked[MAX_ASKED + MAX_IN];
} ValueTraffic;
/* The traffic of a value without the node `except` (-1: with all). Returns whether that node is its first user. */
bool value_traffic(const Propagator *p, int value, int except, ValueTraffic *traffic);
void traffic_ask(ValueTraffic *traffic, int need, int gradient);
Moved traffic_moved(const Propagator *p, const ValueTraffic *traffic);
/* The layout in which a node, under a candidate, leaves an operand's gradient; -1: there is none. */
int asked_gradient(const Propagator *p, const Node *node, int operand, const Candidate *candidate);
/* The layout in which the users of a value find it; -1: not decided. */
int value_home(const Propagator *p, int value);

/* What a step moves, forward and backward, and FLOPs of the busiest rank, forward. */
typedef struct Volume {
    Moved moved;
    double flops;
} Volume;
Volume volume_count(const Propagator *p);

/* ---- costly.c */

/* Warns where the consequences of two hints meet and do not fit: once for each pair of hints, however often they meet. */
void warn_conflicts(Propagator *p);
/* Warns when hints make a step move much more than it would without them. with: what it moves with them. Changes the strategies: if true is
 * returned, they must be decided anew. */
bool warn_costly(Propagator *p, Volume with);
