/* sharded: what the passes between assign and the SPMD graph work on (Sharded, build.h), and what it costs.
 *
 *   assign.c     makes it; updates.c divides the updates of large states; partial.c and place.c change it where fewer bytes move
 *   sharded.c    from strategies to layouts; what conversions cost; what must hold after each pass
 *   tree.c       the cheapest way to make several layouts of one value
 *   materialize.c  the SPMD graph of it */
#pragma once
#include "compiler/compiler.h"

static inline const TensorType *type_of(const Graph *g, int value) {
    return &g->values.at[value].type;
}

/* ---------------------------------------------------------------- from strategies to layouts */

/* The strategy under which a tensor of the node whose dimensions run over these factors (of its rule) lies as `layout` says, sums aside. False: there is none. */
bool strategy_of(const Node *node, const int8_t *factor, const Layout *layout, Strategy *strategy);
/* The same where there must be one, interned: by result 0, by operand 0. */
const Strategy *strategy_of_result(Graph *g, const Node *node, const Layout *layout);
const Strategy *strategy_of_operand(Graph *g, const Node *node, const Layout *layout);
const Layout *whole_layout(Graph *g, const Shape *shape);
/* Fills needs, results and reports from the graph's strategies: of nodes whose strategy was changed since the last time, or all. */
void sharded_fill(Build *b);
/* stages.c: the ranks of Node.stage; of none, 0, or where there are no stages: all ranks. */
Pin stage_pin(const Graph *g, int stage);
/* The stage, from 0, that has the ranks of a pin: all of its ranks, or one of them; -1: it is none. */
int pin_stage(const Graph *g, const Pin *pin);
/* Whether a pin is to one rank of several of a stage. */
bool pin_is_rank(const Graph *g, const Pin *pin);
/* What must hold of it: legal strategies, operands and results that lie as these say, but for sums that linear operators pass on, and needs that the values can be
 * converted into. False with *error: a bug. */
bool sharded_verify(Sharded *sharded, const char *stage, Error *error);

/* ---------------------------------------------------------------- who takes what */

/* A layout in which a value is needed, and how it is made. */
typedef struct Wanted {
    const Layout *layout;
    int64_t elements; /* of the largest box */
    int parent;       /* the one from which it is made, -1: the value itself */
    int value;        /* materialize.c: in the new graph, -1 not yet made */
    bool helps;       /* no node needs it: others are made from it */
    int phase;        /* of those that take it, where v is regathered, or 0: what is wanted in another phase is made anew */
} Wanted;
typedef VEC(Wanted) WantedLayouts;

typedef struct Use {
    int node, operand;
} Use;
/* Per value: use[first[v] .. first[v + 1]), in program order. */
typedef struct Uses {
    int *first;
    Use *use;
} Uses;
/* The sharded graph of a build under a pass that reads who takes what and what that costs. */
typedef struct Edit {
    Build *b;
    Sharded *s;
    Graph *g; /* s->graph */
    Uses uses;
    WantedLayouts scratch;
} Edit;
Edit edit_begin(Build *b);
bool sharded_reports(const Sharded *sharded, int v); /* whether it is reported */

/* ---------------------------------------------------------------- costs */

/* Elements or bytes received, and the number of communications: what is compared when conversions are. */
typedef struct ConversionCost {
    int64_t max;   /* of the busiest rank */
    int64_t total; /* over all ranks */
    int count;
} ConversionCost;
static inline void cost_add(ConversionCost *sum, ConversionCost cost) {
    sum->max += cost.max;
    sum->total += cost.total;
    sum->count += cost.count;
}
/* By the busiest rank, then in total, then in communications: negative when a is cheaper. */
int cost_compare(ConversionCost a, ConversionCost b);
/* Neither the busiest rank nor all together receive more; equal costs are not worse. */
static inline bool cost_not_worse(ConversionCost a, ConversionCost b) {
    return a.max <= b.max && a.total <= b.total && (a.max < b.max || a.total < b.total || a.count <= b.count);
}
static inline bool cost_better(ConversionCost a, ConversionCost b) {
    return cost_not_worse(a, b) && cost_compare(a, b) != 0;
}

/* The phase in which a node takes v in layout `need`, if what is gathered of v is dropped after each; else 0. */
int taken_in(const Sharded *sharded, int v, int node, const Layout *need);
/* The layouts other than its own in which v is taken in a phase, each once, in order of first use; *wanted is emptied first. ANY_PHASE: in all of them. */
enum { ANY_PHASE = -1 };
void wanted_layouts(const Edit *edit, int v, int phase, WantedLayouts *wanted);
/* What is received on the way from value v to all that take it; bytes. */
/* Whether a node casts what is read of a parameter to 16 bits, as pass precision has it. */
bool casts_parameter(const Graph *g, int node);
/* Whether it is gathered in two phases of the step. */
bool gathered_again(const Edit *edit, int v);
ConversionCost value_cost(Edit *edit, int v);

/* ---------------------------------------------------------------- tree.c */

/* Whether a value in layout `from` can be converted into `to`: `to` is partial over no digit over which `from` is complete. */
bool convertible(const Layout *from, const Layout *to);
/* Chooses each layout's parent, so that all together cost little: largest boxes first, each from the cheapest source so far, then changed as
 * long as that helps; the completed sum is tried as a step in between. The list may change its order, one may be added. `from` is none of
 * them. Returns what is received, in elements. */
ConversionCost tree_plan(Build *b, const TensorType *type, const Layout *from, WantedLayouts *wanted);
