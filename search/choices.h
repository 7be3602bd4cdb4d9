/* choices: what operators may do on a mesh, made once for operators that are alike. Internal to search/. */
#pragma once
#include "search/kernels.h"
#include "search/moves.h"

/* Axes of a mesh, as digits of the rank number. */
enum { MAX_AXES = 16 };
typedef struct Mesh {
    int naxes;
    Digit axis[MAX_AXES];
} Mesh;

/* What an operand is to its operator, when it comes to what a choice costs. */
typedef enum {
    OPERAND_EDGE,  /* another operator's result, or shared: edges count it */
    OPERAND_OWN,   /* a parameter that nobody else uses: it lies as this operator needs it */
    OPERAND_GIVEN, /* a state or input that lies as the user or the dataset says */
    OPERAND_FREE,  /* an input that nobody else uses, a constant: it costs nothing */
} OperandKind;

/* The numbers of layouts (moves.h) under one choice. */
typedef struct Columns {
    int need[MAX_IN];     /* in which an operand is taken */
    int gradient[MAX_IN]; /* in which its gradient is left, partial sums included; -1: it has none */
    int made[MAX_OUT];    /* in which a result is left, partial sums included */
    int home[MAX_OUT];    /* the same without them: what the gradient of a result must be */
} Columns;

/* All that the cost of an operator depends on. Zeroed where it does not apply, so that it is compared as bytes. */
typedef struct ClassKey {
    const Rule *rule;
    const Strategy *fixed; /* NULL: free */
    const Strategy *base;  /* what choices add axes to, behind those of each factor; NULL: nothing */
    const Strategy *near;  /* choices are those that have at most one axis elsewhere than this; NULL: all */
    const Strategy *also;  /* a choice beside those; NULL: none */
    uint64_t kernels;      /* kernels_hash */
    int op;
    int8_t kind[MAX_IN];    /* OperandKind */
    bool trained[MAX_IN];   /* OPERAND_OWN, OPERAND_GIVEN: a parameter */
    bool active[MAX_IN];    /* the operand has a gradient */
    bool by_rows;           /* an embedding whose table is updated by the rows that occur, of several embeddings too */
    int given[MAX_IN];      /* OPERAND_GIVEN: the number of its layout */
    bool reported[MAX_OUT]; /* the result is reported whole */
    bool kept[MAX_OUT];     /* gradients read it */
} ClassKey;

typedef struct NodeClass {
    ClassKey key;
    const Node *node; /* one of them */
    int n;
    const Strategy *strategy;
    const Columns *columns;
    const double *seconds;
    const int64_t *bytes;
} NodeClass;

typedef struct Choices {
    Arena *arena;
    const Graph *graph;
    const Machine *machine;
    Mesh mesh;
    double behind;       /* ModelInput */
    double unseen;       /* how often the kernels of the graph's batches count */
    double bucket_bytes; /* of gradients whose messages go together */
    Moves *moves;
    KernelIndex kernels;
    VEC(NodeClass *) classes;
    Map map;
} Choices;
void choices_init(Choices *choices, const Graph *graph, const Machine *machine, const Mesh *mesh, int64_t batches, double behind,
                  Moves *moves, Arena *arena);
/* The class of a node with this key, of which op and rule are filled in. */
const NodeClass *choices_of(Choices *choices, const Node *node, ClassKey *key);
/* Seconds of a step, and bytes held, for a parameter that lies in `stored` and whose gradients come to lie in `partial`, which is that with partial sums: they are summed,
 * it is updated, in parts where it is large, and gathered again. */
double parameter_seconds(const Choices *choices, int stored, int partial);
int64_t parameter_bytes(const Choices *choices, int stored, int partial);
/* The number of the layout in which the rows of a lookup's gradient update its table, which lies in `stored`. */
int rows_number(const Choices *choices, const Node *lookup, int stored);
