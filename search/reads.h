/* reads: what the forward operators of a graph read, who else reads it, and which of them are alike. Made once for all models of a graph. Internal to search/. */
#pragma once
#include "search/kernels.h"

/* One operand of an operator. */
typedef struct Reader {
    int node, operand;
} Reader;

/* What operators read: the result of another, a state, an input. */
typedef struct Read {
    TensorType type;
    int producer, result;       /* -1: a leaf */
    int state, input;           /* -1: none */
    bool active, free;          /* free: a constant */
    const Layout *given;        /* as the user or the dataset says; NULL: free */
    int first_reader, nreaders; /* in readers */
} Read;

/* What an operand is to its operator, when it comes to what a choice costs. */
typedef enum {
    OPERAND_EDGE,  /* another operator's result, or shared: edges count it */
    OPERAND_OWN,   /* a parameter that nobody else uses: it lies as this operator needs it */
    OPERAND_GIVEN, /* a state or input that lies as the user or the dataset says */
    OPERAND_FREE,  /* an input that nobody else uses, a constant: it costs nothing */
} OperandKind;

/* All that the cost of an operator depends on, besides strategies. Zero where it does not apply, so that it can be compared as bytes. */
typedef struct OperatorKind {
    const Rule *rule;
    uint64_t kernels;            /* kernels_hash */
    const Layout *given[MAX_IN]; /* OPERAND_GIVEN: its layout */
    int op;
    int8_t kind[MAX_IN];    /* OperandKind */
    bool trained[MAX_IN];   /* OPERAND_OWN, OPERAND_GIVEN: a parameter */
    bool active[MAX_IN];    /* the operand has a gradient */
    bool by_rows;           /* an embedding whose table is updated by the rows that occur, of several embeddings too */
    bool reported[MAX_OUT]; /* the result is reported whole */
    bool kept[MAX_OUT];     /* gradients read it */
} OperatorKind;

typedef struct Reads {
    const Graph *graph;
    int nnodes;
    KernelIndex kernels; /* of no machine */
    int *read_of;        /* per value */
    VEC(Read) all;
    VEC(Reader) readers;
    bool *active;  /* per value: it has a gradient */
    bool *by_rows; /* per state: a table that is updated by the rows that occur */
    bool *varies;  /* per value: it depends on an input or a state */
    bool *kept;    /* per value: gradients read it, or a view of it */
    int *kind_of;  /* per node: its place in kinds; -1: a leaf */
    VEC(const OperatorKind *) kinds;
    VEC(const Node *) first; /* per kind: one of them */
} Reads;
/* out_layout: per node the layout that the user asked of its result, or NULL. */
const Reads *reads_find(const Graph *graph, const Layout *const *out_layout, Arena *arena);
