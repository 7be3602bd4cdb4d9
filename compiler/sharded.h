/* sharded: the graph that the passes between assign and the SPMD graph work on (Sharded, build.h), and what it costs.
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

/* Finds the strategy with which a tensor of the node, whose dimensions have these factors of its rule, has this layout, sums aside. False:
 * there is none. */
bool strategy_of(const Node *node, const int8_t *factor, const Layout *layout, Strategy *strategy);
/* The same where there must be one, interned, for result 0 or operand 0. */
const Strategy *strategy_of_result(Graph *g, const Node *node, const Layout *layout);
const Strategy *strategy_of_operand(Graph *g, const Node *node, const Layout *layout);
const Layout *whole_layout(Graph *g, const Shape *shape);
/* Fills needs, results and reports from the graph's strategies: of nodes whose strategy was changed since the last time, or all. */
void sharded_fill(Build *b);
/* stages.c: the pin to the ranks of Node.stage; for stage 0, that is none, or without stages: all ranks. */
Pin stage_pin(const Graph *g, int stage);
/* The stage, from 0, that has the ranks of a pin, be it all of its ranks or one; -1: no pin. */
int pin_stage(const Graph *g, const Pin *pin);
/* Whether a pin is to one rank of several of a stage. */
bool pin_is_rank(const Graph *g, const Pin *pin);
/* Checks what must hold: strategies are legal, operands and results have the layouts that follow from them, but for sums that linear
 * operators pass on, and values can be converted into what is needed. False with *error: a bug. */
bool sharded_verify(Sharded *sharded, const char *stage, Error *error);

/* ---------------------------------------------------------------- who takes what */

/* A layout in which a value is needed, and how it is made. */
typedef struct Wanted {
    const Layout *layout;
    int64_t elements; /* of the largest box */
    int parent;       /* the layout from which it is made, -1: the value itself */
    int value;        /* materialize.c: in the new graph; -1: not yet made */
    bool helps;       /* no node needs it: others are made from it */
    int phase;        /* of its readers, where the value is regathered, else 0: what is wanted in another phase is made anew */
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
/* The sharded graph of a build, for a pass that asks which node reads what and what that costs. */
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

/* Elements or bytes received, and the number of communications: by these, conversions are compared. */
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
/* Compares the busiest rank, then the total, then the communications; negative: a is cheaper. */
int cost_compare(ConversionCost a, ConversionCost b);
/* Whether with a neither the busiest rank nor all together receive more than with b; equal costs are not worse. */
static inline bool cost_not_worse(ConversionCost a, ConversionCost b) {
    return a.max <= b.max && a.total <= b.total && (a.max < b.max || a.total < b.total || a.count <= b.count);
}
static inline bool cost_better(ConversionCost a, ConversionCost b) {
    return cost_not_worse(a, b) && cost_compare(a, b) != 0;
}

/* The phase in which a node reads v in layout `need`, if what is gathered of v is dropped after each phase; else 0. */
int taken_in(const Sharded *sharded, int v, int node, const Layout *need);
/* Fills *wanted with the layouts other than its own in which v is read in a phase, each once, in order of first use. ANY_PHASE: in all
 * phases. */
enum { ANY_PHASE = -1 };
void wanted_layouts(const Edit *edit, int v, int phase, WantedLayouts *wanted);
/* Whether a node casts a parameter that was read to 16 bits, as pass precision does. */
bool casts_parameter(const Graph *g, int node);
/* Whether it is gathered in two phases of the step. */
bool gathered_again(const Edit *edit, int v);
/* The bytes that are received on the way from value v to all that read it. */
ConversionCost value_cost(Edit *edit, int v);

/* ---------------------------------------------------------------- tree.c */

/* Whether a value in layout `from` can be converted into `to`: `to` is partial over no digit over which `from` is complete. */
bool convertible(const Layout *from, const Layout *to);
/* Chooses each layout's parent so that all together cost little: largest boxes first, each from the cheapest source so far, then changed as
 * long as that helps; the completed sum is tried as a step in between. The order of the list may change, and one layout may be added.
 * `from` is not in it. Returns what is received, in elements. */
ConversionCost tree_plan(Build *b, const TensorType *type, const Layout *from, WantedLayouts *wanted);
