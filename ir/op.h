/* Operators: attributes, rules, the operator table. */
#pragma once
#include "ir/layout.h"

/* ---------------------------------------------------------------- ops.def, rule.c */

enum { MAX_IN = 8, MAX_OUT = 8, MAX_ATTRS = 6, MAX_FACTORS = 12 };

typedef enum { ATTR_NONE, ATTR_BOOL, ATTR_INT, ATTR_FLOAT, ATTR_INTS, ATTR_TEXT } AttrKind;
typedef struct AttrSpec {
    const char *name;
    AttrKind kind;
    bool required; /* else it may be left out: 0, 0.0, [], "" with given = false */
} AttrSpec;
typedef struct Attr {
    bool given; /* written by the user or a pass */
    int64_t i;  /* ATTR_BOOL, ATTR_INT */
    double f;   /* ATTR_FLOAT */
    int n;      /* ATTR_INTS: length */
    int64_t ints[MAX_NDIM];
    const char *text; /* ATTR_TEXT */
} Attr;

/* A letter of an operator's rule. */
typedef struct Factor {
    int64_t size;
    bool whole;        /* must not be split */
    bool divides;      /* a split must divide the size (reshape) */
    bool looked_up;    /* an index selects from its elements: the computation does not run over it */
    bool expands;      /* no kernel takes a split of it: a split expands the operator (Op.expand_split) */
    int8_t reductions; /* the expansion reduces over it so many times, each to one number per row of operand 0 */
} Factor;

/* Whether a kernel needs the factor whole. After an expansion the rules of the new operators hold. */
static inline bool factor_stays_whole(const Factor *factor) {
    return factor->whole || factor->expands;
}

/* The halo that a part of a factor needs in an operand's dimension that windows lie over. */
typedef struct Need {
    int8_t operand, at; /* for dimension ndim - HALO_DIMS + at */
    Halo halo;
} Need;
enum { MAX_NEEDS = (int)MAX_IN > (int)HALO_DIMS ? (int)MAX_IN : (int)HALO_DIMS }; /* concat's operands, the dimensions that a slice cuts */

/* The einsum-like rule of one node: which factor each dimension of each operand and result runs over (-1: none, the dimension is
 * whole). A dimension that windows lie over, the result's dimension in its gradient, and one that is cut, padded or joined run over the factor of the windows, whose size
 * may differ. A result is reduced over the factors that it lacks (Op.reduction): splitting such a factor makes that result partial, but not results that have the factor. */
typedef struct Rule {
    int nfactors, nout;
    int64_t index_range; /* index operands (Op.types) are valid in [0, index_range); indices outside give 0. 0: no operand is an index */
    int64_t depth; /* elements, in dimensions that are no factors, that are processed per point of the factors: multiplies Op.flops; 0: 1 */
    bool halved;   /* only half of the points are computed */
    double inside; /* for windows: the share of points whose taps lie outside the padding; 0: all */
    bool blocked;  /* the windows' operand is converted to blocks of channels, and the result back */
    bool again;    /* the weights, which lack factor 0, are read again for each of its points (images) */
    Factor factor[MAX_FACTORS];
    int8_t in[MAX_IN][MAX_NDIM];
    int8_t out[MAX_OUT][MAX_NDIM];
    int nneeds;
    Need need[MAX_NEEDS];
    TensorType result[MAX_OUT];
} Rule;

typedef struct RuleError {
    int operand;    /* the operand at fault, -1: the node as a whole */
    int attr;       /* the attribute at fault, or -1 */
    char text[512]; /* "contracted sizes differ: %0 has 32, %1 has 31": %0.. stand for operand names */
    char hint[256]; /* or "" */
} RuleError;
/* Operand types (hidden dimension already taken off), attributes -> rule. */
typedef bool RuleFn(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error);

/* What is known about the signs of a result. */
typedef enum {
    SIGN_UNKNOWN,
    SIGN_POSITIVE /* neither below 0 nor -0 */,
    SIGN_NEGATIVE /* not above 0 */,
    SIGN_KEPT /* those of operand 0's elements */,
    SIGN_NEGATED /* -operand 0 */,
    SIGN_SUM /* of elements of operand 0, added to +0 */,
    SIGN_JOINED /* a sum of operands 0 and 1 */,
    SIGN_PRODUCT /* or quotient of operands 0 and 1 */
} Sign;

/* Which operands may be partial sums; then all results are partial over the same digits. */
typedef enum {
    LINEAR_NONE,      /* none */
    LINEAR_JOINT,     /* all of them together, over the same digits */
    LINEAR_EACH,      /* exactly one */
    LINEAR_OPERAND_0, /* only operand 0 */
    LINEAR_OPERAND_1, /* only operand 1 */
} Linear;

/* Where an operator and its gradient are defined, or numerically safe. */
typedef enum { DOMAIN_ALL, DOMAIN_POSITIVE } Domain;

typedef enum { OP_CLASS_USER, OP_CLASS_INTERNAL, OP_CLASS_LEAF, OP_CLASS_UPDATE, OP_CLASS_COMM } OpClass;
enum {
    DTYPES_STATE = 1 << F32 | 1 << F64, /* types of parameters and of the loss */
    DTYPES_FLOAT = DTYPES_STATE | 1 << F16 | 1 << BF16,
    DTYPES_INDEX = 1 << I32 | 1 << I64,
    DTYPES_NUMBER = DTYPES_FLOAT | DTYPES_INDEX,
    DTYPES_ANY = DTYPES_NUMBER | 1 << BOOL
};

typedef struct Graph Graph;
typedef struct Node Node;
/* Adds the nodes that compute the gradient of each operand from those of the results (-1: unused; at least one is given). dx[i] = -1: none. */
typedef void AdjointFn(Graph *graph, int node, const int *dy, int *dx);
/* A template: adds the nodes that replace an operator, and returns the value that replaces each result; the first of these is the first result of its
 * node. Nodes of a gradient have node->origin as their origin. */
typedef void ExpandFn(Graph *graph, const Node *node, int *out);

typedef struct Op {
    const char *name, *title; /* "matmul", "MatMul" as dumps write it */
    OpClass op_class;
    const char *ins, *outs; /* names: "a, b"; outs NULL: one result */
    AttrSpec attrs[MAX_ATTRS];
    unsigned dtypes;     /* accepted element types */
    const char *types;   /* NULL: all operands and results have one element type. Else a letter each, "t, i -> t": t one of dtypes, the same
                                  for all that have it, w f32 where t has 16 bits, else as t, i an index (i32 or i64), b bool, n i32, a what
                                  the attribute "to" names (f32 when left out) */
    const char *letters; /* "...->..."; or: */
    RuleFn *rule;
    bool variadic;   /* the last operand may be repeated, up to MAX_IN operands in all (concat) */
    bool optional;   /* the last operand may be left out */
    int kept;        /* the last so many results are for its gradient only: the language names just those before */
    bool broadcasts; /* "..." in letters lets size 1, or no dimension, stand for any size, as it does in all of the user's operators */
    bool divided;    /* one result or more, up to MAX_OUT: its rule says how many (split) */
    Linear linear;
    Reduction reduction;       /* how a result is partial when a factor that it lacks is split; sum when left out */
    AdjointFn *adjoint;        /* NULL: no gradient */
    int gradient;              /* the OpCode of the node that adjoint_of_operand and adjoint_of_result add */
    ExpandFn *expand;          /* composite: rewritten before autodiff */
    bool as_one;               /* it expands into one operator with the same operands, so it takes a strategy */
    ExpandFn *expand_split;    /* rewritten once strategies are chosen, where its strategy splits a factor that expands */
    ExpandFn *expand_replicas; /* rewritten by pass rows to cover all replicas' rows, where the setting batch_norm says so */
    int flops;                 /* per point of the factors' index space, and of Rule.depth: op_flops */
    bool cancels;              /* its first result may cancel: its error is a rounding of 1, however small it is */
    int vector_flops;          /* of a product: FLOPs per point outside its sums */
    double effort; /* the time on a core, per point, of all but sums of products, in FLOPs of exp that take as long; 0: its own FLOPs */
    Sign sign;
    bool in_place; /* result i may overwrite operand i of the same box (elementwise; momentum: w over w, v over v) */
    bool by_rows;  /* in_place, but not element by element: its other operands hold one number per row, or rows that an index names */
    bool product;  /* computed by matrix products, and as fast */
    bool flat;     /* element i of a result as large as its operand depends on its element i alone: it may overwrite the operand */
    bool view;     /* and equals that element: the result may share the operand's memory, without a copy */
    bool
        places; /* each element of a result is one of the operand's, at an offset given by one stride per dimension: a result may be a view of it */
    bool strided;        /* its kernels read such views by their strides, so pcc plans views for it; other operators get copies */
    bool boundary;       /* replicate, replica_sum, expose: sees the hidden dimension */
    Domain domain;       /* of operands in tests */
    const char *samples; /* operand shapes for tests/ops: "8x6, 6x4; 7x5, 5x3" */
    const char *help;    /* one line for --list-ops */
} Op;

typedef enum OpCode {
#define OP(name, ...) OP_##name,
#include "ops.def"
#undef OP
    NOPS
} OpCode;
extern const Op op_table[NOPS];
int op_find(const char *name);            /* OpCode, or -1 */
int op_attr(OpCode op, const char *name); /* index, or -1 */
int op_nin(OpCode op);             /* operands named in the row; a variadic operator may have more, an optional operand may be missing */
bool op_takes(OpCode op, int nin); /* whether the operator may have so many operands */
int op_nout(OpCode op);            /* results named in the row */
int op_named(OpCode op, int nout); /* how many of so many results the language names */
char op_type(OpCode op, bool result, int k); /* the letter of Op.types of operand or result k; 't' where the row has none */
unsigned op_dtypes(OpCode op, int operand);  /* the element types that an operand may have, a bit each */
bool op_elementwise(OpCode op);              /* element i of each result needs only element i of the operands; sizes of 1 are repeated */
int op_rows(OpCode op);      /* the operand whose rows are put or added into operand 0 at indices, leaving its other rows alone; -1: none */
bool op_looks_up(OpCode op); /* it looks operand 0 up at few places: it reads no more elements of it than it returns */
bool op_updates_rows(OpCode op);    /* it updates only the rows of a table that an index names: row by row, not element by element */
bool op_only_moves(OpCode op);      /* its results consist of its operands' elements, and no others */
bool op_gives(OpCode op, int nout); /* whether the operator may have so many results */
void op_in_name(OpCode op, int operand, char *name, size_t n); /* "a"; for a repeated operand the last name of the row */
int op_in(OpCode op, const char *name);                        /* the operand of this name, or -1: "g" is the gradient of an update */
/* Infers shapes and factors of an operator on global operand types. The hidden dimension, if any, becomes factor 0 of every operand
 * and result. */
bool rule_infer(OpCode op, const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error);
bool rule_out_has(const Rule *rule, int result, int factor);
bool rule_sums(const Rule *rule, int factor);                            /* some result is reduced over it */
const Halo *rule_halo(const Rule *rule, int operand, int ndim, int dim); /* ndim: the operand's; NULL: no windows lie over dim */
bool rule_in_has(const Rule *rule, int operand, int ndim, int factor);
/* Whether a gradient node's factor may be split like its origin's: it has as many elements, or, with cutting or padding, more. Where the origin's factor is the divisible
 * part of a reshaped dimension, a split of it divides the whole dimension too. */
bool factor_splits(const Factor *factor, int64_t split); /* whether it has so many parts, equal ones where `divides` is set */
/* FLOPs of a part of the operator, given the size of each factor: their product, without those looked up, times (Op.flops * Rule.depth + Op.vector_flops). */
double op_flops(OpCode op, const Rule *rule, const double *size);
double op_vector_flops(OpCode op, const Rule *rule, const double *size); /* only those outside sums of products */
double op_effort(OpCode op, const Rule *rule, const double *size);       /* the same, measured by Op.effort */
double rule_flops(OpCode op, const Rule *rule);                          /* of the whole operator */
