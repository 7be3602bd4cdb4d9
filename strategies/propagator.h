/* Internal to strategies/: the state of one propagation.
 *
 *   propagate.c  propagation from the hints
 *   given.c      what the user and the dataset fix: hints, layouts of states and inputs
 *   alike.c      the candidates of operators that are alike
 *   decide.c     which candidate an operator takes
 *   volume.c     what a value moves, and a step, with the strategies as they are
 *   costly.c     warnings: hints that do not fit together, hints that cost much
 */
#pragma once
#include "ir/map.h"
#include "strategies/choice.h"

/* What ranks receive in some communications. */
typedef struct Moved {
    int64_t bytes; /* by all ranks */
    int64_t messages;
} Moved;
/* A communication costs its start too: as much as so many bytes that each rank receives. Machines need more; so few let bytes decide but among small tensors. */
enum { MESSAGE_BYTES = 128 };

/* A strategy, with what it costs, and the numbers of its layouts (cost.c). */
typedef struct Candidate {
    const Strategy *strategy; /* in the graph's arena */
    int32_t *split;           /* per factor */
    double flops;             /* of the busiest rank */
    const Moved *halos;       /* per operand: of what its gradient is computed from */
    Moved parts;              /* of operand 0, for the results that it is cut into */
    Moved table;              /* of an embedding whose table is updated by rows: these and their indices, brought to the table */
    Moved rows;               /* in the reductions over the rows that it splits (Factor.reductions) */
    const int *need;          /* per operand */
    const int *gradient;      /* per operand: in which the operator leaves its gradient, partial sums included */
    const int *made, *home;   /* per result: as the operator leaves it, partial sums included; complete */
    int number;               /* of those of the alike */
    bool offered;             /* hints may be strategies that no operator chooses */
    bool as_ordered;          /* it is offered where p->as_ordered says so, and not else */
} Candidate;

/* Where candidates were derived from: column i is operand i, then results. */
typedef struct Derived {
    int column, number;
} Derived;

/* What was decided, and whether that is better than what the operator had; where all was equal that `key` says. */
typedef struct Answer {
    const Candidate *best;
    bool improves;
    int nkey;
    const int *key;
} Answer;

/* All nodes with one operator, rule and operand types: their candidates. */
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
    const Candidate **chosen; /* per node, NULL: leaves and what is not decided */
    int *
        fixed_layout; /* per value: number of the layout in which its users find it, whatever makes it: of leaves, and behind `->`; -1: none */
    int *hint_of;     /* per node: the hinted node from which it was reached, -1: none */
    bool *apart;      /* per node: it fits nothing between itself and that hint, and so does not follow from it */
    int *first_user, *user; /* users of value v: node user[k] for k in first_user[v] .. first_user[v + 1], operand user_operand[k] */
    int *user_operand;
    int8_t *batch;          /* values_batch */
    bool *active;           /* per value: it has a gradient */
    bool *by_rows;          /* per value: a table that is updated by the rows that occur */
    const Strategy **given; /* per node: the strategy that it has before propagation, NULL: none */
    StrategyFrom *given_from;
    bool *left_out; /* per node: its hint does not count */
    bool hinted;    /* a strategy is given, and not left out */
    /* Those that are given have their digits in the order of the factors: 0. Else all ranks as digits, major first, in the order in which the largest one that has another order has them: that of
     * its factors. */
    int norder;
    Digit order[MAX_DIGITS];
    bool as_ordered; /* open operators split their batch in that order, and strategies in it are offered */
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
/* In the reductions within an operator, and those of its gradient; in the halos that it cuts out, and those of gradients. */
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
/* The candidate that this strategy is, offered or not. */
Candidate *candidate_of(Propagator *p, const Node *node, const Strategy *strategy);
Candidate *candidate_from_splits(Propagator *p, const Node *node, const int32_t *splits);
/* Offers all strategies with their digits in the order of the factors, and all in p->order. */
void offer_all(Propagator *p, Alike *alike, const Node *node);
/* Where a strategy that is given has its digits in another order than that of its factors, p->order is that of the one that splits the most. */
void order_find(Propagator *p);
/* Offers, where hints have digits in another order than that of the factors, those in which an operand, or result, lies in this layout: other digits go to any factors. */
void offer_from(Propagator *p, Alike *alike, const Node *node, int column, int number);

/* ---- decide.c */

/* What decides where candidates cost the same. PREFER_OPERANDS, PREFER_USERS: it fits the operands, or the users. */
typedef enum { PREFER_OPERANDS, PREFER_USERS } Prefer;
/* Gives a node its best candidate beside the neighbours that are decided. Returns whether that is better than the one that it had. */
bool decide_best(Propagator *p, int id, Prefer prefer);
/* Splits one factor as far as it goes; factor -1: whole. */
void decide_factor(Propagator *p, int id, int factor, StrategyFrom from);
void decided(Propagator *p, int id, const Candidate *candidate, StrategyFrom from);
/* Records the candidate that a node has, and the best others, beside its neighbours. */
void decision_record(Propagator *p, int id);

/* ---- given.c: false after diagnostics */

bool read_hints(Propagator *p);
bool read_leaves(Propagator *p);
bool read_found(Propagator *p); /* after what users ask for */

/* ---- propagate.c */

/* Decides the strategies of all nodes anew, from the hints that are not left out. Returns what a step moves. */
Moved fill(Propagator *p);

/* ---- volume.c */

/* A layout that users of a value need, and in which they leave its gradient, partial sums included; -1: there is none. */
typedef struct Asked {
    int need, gradient;
} Asked;
enum { MAX_ASKED = 16 }; /* of one value, by others than one operator: the rest, if any, is not counted */
/* The conversions of a value and its gradient. made: as its producer leaves it, partial sums included; home: in which its users find it; both -1: as the first of
 * them needs it. */
typedef struct ValueTraffic {
    int value, made, home;
    int n;
    Asked asked[MAX_ASKED + MAX_IN];
} ValueTraffic;
/* As it is without the node `except` (-1: with all). Returns whether that node is the first that asks for it. */
bool value_traffic(const Propagator *p, int value, int except, ValueTraffic *traffic);
void traffic_ask(ValueTraffic *traffic, int need, int gradient);
Moved traffic_moved(const Propagator *p, const ValueTraffic *traffic);
/* In which a node leaves the gradient of an operand under a candidate, -1: it has none. */
int asked_gradient(const Propagator *p, const Node *node, int operand, const Candidate *candidate);
/* In which the users of a value find it; -1: not decided. */
int value_home(const Propagator *p, int value);

/* What a step moves, forward and backward, and FLOPs of the busiest rank, forward. */
typedef struct Volume {
    Moved moved;
    double flops;
} Volume;
Volume volume_count(const Propagator *p);

/* ---- costly.c */

/* Warns where consequences of two hints meet and do not fit: once for each two hints, however often a pattern makes them meet. */
void warn_conflicts(Propagator *p);
/* Warns when the hints make a step move much more than it would without. with: what it moves as it is. Strategies are decided anew. */
bool warn_costly(Propagator *p, Volume with);
