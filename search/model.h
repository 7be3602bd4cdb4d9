/* model: a net on a mesh as a Problem: what to choose, what it costs in seconds of a step. docs/search.md says what is counted.
 *
 *   choices.h  strategies of operators on a mesh; kernels.h: what kernels cost; moves.h: conversions between layouts in seconds
 *   model.c    variables and edges; what a solution means
 */
#pragma once
#include "search/choices.h"
#include "search/problem.h"

/* A value, state or input that several operators use: the layout in which they have it, and the one in which their gradients are added up. */
typedef struct Hub {
    TensorType type;
    bool active;        /* it has a gradient */
    bool updated;       /* by it: a parameter */
    bool by_rows;       /* a table that is updated by the rows that occur, which its users count */
    int n;              /* choices */
    const int *had;     /* per choice: the number of the layout */
    const int *partial; /* the same, with the digits over which the sum of gradients is partial */
    const double *seconds;
    const int64_t *bytes;
} Hub;

/* What a variable of the problem decides: exactly one of these. */
typedef struct Chooser {
    int node; /* the node whose strategy it decides; -1: none */
    const NodeClass *class;
    const Hub *hub;
    int state, input; /* the one whose layout hub decides; -1: none */
} Chooser;

typedef struct Model {
    Problem problem;
    const Graph *graph;
    const Moves *moves;
    VEC(Chooser) choosers; /* a variable each */
} Model;

typedef struct ModelShared ModelShared;

/* What a problem is made of. */
typedef struct ModelInput {
    /* As pass propagate leaves it: nodes with a strategy of STRATEGY_USER keep that, states and inputs that have a layout keep it. */
    const Graph *graph;
    const Layout *const *out_layout; /* per node: the layout that the user asked of its result, or NULL */
    const Machine *machine;          /* NULL: machine_cpu */
    Mesh mesh;
    const Strategy *const *base;  /* per node: the strategy to which its choices add axes, equal ones one pointer; NULL: for none */
    bool near;                    /* of a node that has a strategy, only choices that differ from it in at most one axis */
    const Strategy *const *fixed; /* per node: the strategy that it has, as if the user had said so; NULL, for all or for one: it is free */
    const Strategy *const *also;  /* per node: a strategy that is a choice beside those of the mesh; NULL, for all or for one: none */
    const Reads *reads;           /* of this graph and out_layout; NULL: found for this model alone */
    Moves *moves;                 /* times of conversions, kept for other models of this machine and number of ranks; NULL: not kept */
    int64_t batches;              /* of a step, where the graph has fewer of them; 0: it has all */
    double behind;       /* the share of the traffic of parameters that has kernels to run behind: machine->overlap of that is hidden */
    ModelShared *shared; /* model_share of an input that differs only in base, near, fixed and also; NULL: nothing is shared */
    double most;         /* seconds: conversions with which a step would take longer need not be timed exactly; 0: all must be */
    double beyond;       /* seconds: solutions that take as long are not looked for; 0: all are */
} ModelInput;
#define BEHIND_HALF 0.5 /* the sums of gradients; the gather of new values has none */
#define BEHIND_ALL 1.0  /* parameters are stored in parts: gathers run behind the kernels before their use */
/* What models that differ only in base, near, fixed and also have in common: who reads what, the choices of operators and the times of
 * conversions between them. It is computed as models need it. */
ModelShared *model_share(const ModelInput *input, Arena *arena);
/* False: every solution takes as long as input->beyond; the model has no problem then. */
bool model_init(Model *model, const ModelInput *input, Arena *arena);

/* What was chosen: strategies of nodes, layouts of states and inputs; NULL: as it was. */
typedef struct Chosen {
    const Strategy **strategy;
    const Layout **state, **input;
} Chosen;
void model_read(const Model *model, const int *choice, Arena *arena, Chosen *chosen);
