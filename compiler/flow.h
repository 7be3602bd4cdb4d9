/* flow: what the passes of -O2 between localize and schedule work on: which layout every node leaves its results in, and in which it takes each
 * operand, without the converts between. partial.c and place.c change it where fewer bytes move, collectives.c makes c->spmd from it.
 *
 *   flow.c  the flow of c->spmd; what it costs
 *   tree.c  the cheapest way to make several layouts of one value
 */
#pragma once
#include "compiler/compiler.h"

/* Elements or bytes received, and the number of communications: what is compared when conversions are. */
typedef struct FlowCost {
    int64_t max;   /* of the busiest rank */
    int64_t total; /* over all ranks */
    int count;
} FlowCost;
static inline void cost_add(FlowCost *sum, FlowCost cost) {
    sum->max += cost.max;
    sum->total += cost.total;
    sum->count += cost.count;
}
/* By the busiest rank, then in total, then in communications: negative when a is cheaper. */
int cost_compare(FlowCost a, FlowCost b);
/* Neither the busiest rank nor all together receive more; equal costs are not worse. */
static inline bool cost_not_worse(FlowCost a, FlowCost b) {
    return a.max <= b.max && a.total <= b.total && (a.max < b.max || a.total < b.total || a.count <= b.count);
}
static inline bool cost_better(FlowCost a, FlowCost b) {
    return cost_not_worse(a, b) && cost_compare(a, b) != 0;
}

/* ---------------------------------------------------------------- tree.c */

/* A layout in which a value is wanted, and how it is made. */
typedef struct Target {
    const Layout *layout;
    int64_t elements; /* of the largest box */
    int parent;       /* target from which it is made, -1: the value itself */
    int value;        /* collectives.c: in the new graph, -1 not yet made */
    bool helps;       /* no node wants it: others are made from it */
} Target;
typedef VEC(Target) Targets;

/* Whether a value in layout `from` can be brought into `to`: `to` owes no sums that `from` does not. */
bool convertible(const Layout *from, const Layout *to);
/* Chooses each target's parent, so that all together cost little: largest boxes first, each from the cheapest source so far, then changed as
 * long as that helps; the completed sum is tried as a step in between. Targets may change their order, one may be added. `from` is none of
 * them. Returns what is received, in elements. */
FlowCost tree_plan(Compilation *c, const TensorType *type, const Layout *from, Targets *targets);

/* ---------------------------------------------------------------- flow.c */

typedef struct Use {
    int node, operand;
} Use;

typedef struct Flow {
    Compilation *c;
    Graph *g;                      /* c->spmd as reshard left it; its converts are passed over */
    int (*root)[MAX_IN];           /* per node and operand: the value that its converts begin with */
    const Layout *(*need)[MAX_IN]; /* per node and operand: the layout in which it is taken */
    const Layout **layout;         /* per value that a node which is no convert makes: as it is left */
    int *first_use;                /* per value: use[first_use[v] .. first_use[v + 1]), in program order */
    Use *use;
    int nreports;                  /* what is reported, in graph_report's order */
    int *report;                   /* the value that its converts begin with */
    const Layout **report_need;
    Targets scratch;
} Flow;

/* The flow of c->spmd, made when first asked for. */
Flow *flow_of(Compilation *c);
bool flow_reports(const Flow *flow, int v); /* whether it is reported */
/* What is received on the way from value v to all that take it; bytes. */
FlowCost flow_cost(Flow *flow, int v);
/* The layouts other than its own in which v is taken, each once, in order of first use; *targets is emptied first. */
void flow_targets(const Flow *flow, int v, Targets *targets);
/* place.c: the strategy under which a tensor of the node whose dimensions run over these factors lies as `layout` says, sums aside. False: there
 * is none. */
bool strategy_of(const Node *node, const int8_t *factor, const Layout *layout, Strategy *strategy);
static inline bool is_leaf_node(const Node *node) {
    return op_table[node->op].op_class == OP_CLASS_LEAF;
}
