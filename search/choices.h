/* choices: what operators may do on a mesh, made once for operators that are alike. Internal to search/. */
#pragma once
#include "search/moves.h"
#include "search/reads.h"

/* Axes of a mesh, as digits of the rank number. */
enum { MAX_AXES = 16 };
typedef struct Mesh {
    int naxes;
    Digit axis[MAX_AXES];
} Mesh;

/* The numbers of layouts (moves.h) under one choice. */
typedef struct Columns {
    int need[MAX_IN];     /* in which an operand is read */
    int gradient[MAX_IN]; /* in which its gradient is left, partial sums included; -1: it has none */
    int made[MAX_OUT];    /* in which a result is left, partial sums included */
    int home[MAX_OUT];    /* the same without them: the layout that the gradient of a result must have */
} Columns;

/* Equal for operators whose choices are the same and cost the same; compared as bytes. */
typedef struct ClassKey {
    const Strategy *fixed; /* NULL: free */
    const Strategy *base;  /* what choices add axes to, behind those of each factor; NULL: nothing */
    const Strategy *near;  /* only choices that differ from this in at most one axis; NULL: all */
    const Strategy *also;  /* a choice beside those; NULL: none */
    int64_t kind;          /* of Reads.kinds */
} ClassKey;

typedef struct NodeClass {
    ClassKey key;
    const OperatorKind *kind;
    const Node *node;  /* one of them */
    int given[MAX_IN]; /* OPERAND_GIVEN: the number of its layout */
    int n;
    const Strategy *strategy;
    const Columns *columns;
    const double *seconds;
    const int64_t *bytes;
} NodeClass;

typedef struct Choices {
    Arena *arena;
    const Reads *reads;
    const Graph *graph;
    const Machine *machine;
    Mesh mesh;
    double behind;       /* ModelInput */
    double unseen;       /* how many times the kernels count: the graph may have fewer batches than a step */
    double bucket_bytes; /* of gradients whose messages go together */
    Moves *moves;
    KernelIndex kernels;
    VEC(NodeClass *) classes;
    Map map;
} Choices;
void choices_init(Choices *choices, const Reads *reads, const Machine *machine, const Mesh *mesh, int64_t batches, double behind,
                  Moves *moves, Arena *arena);
const NodeClass *choices_of(Choices *choices, const ClassKey *key);
/* The seconds of the cheapest choice of a class. */
double class_least(const NodeClass *class);
/* Removes, from all classes made so far, choices that take longer than the cheapest by more than so many seconds. */
void choices_drop(Choices *choices, double seconds);
/* Seconds of a step, and bytes held, for a parameter with layout `stored` whose gradients have layout `partial`, which is that with partial
 * sums: gradients are summed, and the parameter is updated, in parts where it is large, and gathered again. */
double parameter_seconds(const Choices *choices, int stored, int partial);
int64_t parameter_bytes(const Choices *choices, int stored, int partial);
/* The number of the layout in which the rows of a lookup's gradient update its table, whose layout is `stored`. */
int rows_number(const Choices *choices, const Node *lookup, int stored);
