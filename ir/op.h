/* Operators: attributes, rules, the operator table. */
#pragma once
#include "ir/layout.h"

/* ---------------------------------------------------------------- ops.def, rule.c */

enum { MAX_IN = 8, MAX_OUT = 8, MAX_ATTRS = 6, MAX_FACTORS = 12 };

typedef enum { ATTR_NONE, ATTR_BOOL, ATTR_INT, ATTR_FLOAT, ATTR_INTS, ATTR_TEXT } AttrKind;
typedef struct AttrSpec {
    const char *name;
    AttrKind kind;
    bool required; /* else the value of a left-out one is 0, 0.0, [], "" with given = false */
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
    bool looked_up;    /* an index chooses of its elements: what is computed does not run over it */
    bool expands;      /* no kernel takes a split of it: the operator is then expanded (Op.expand_split) */
    int8_t reductions; /* into ones of which so many reduce over it, a number each for a row of operand 0 */
} Factor;

/* Whether a kernel needs the factor whole: expanded operators are of other rules. */
static inline bool factor_stays_whole(const Factor *factor) {
    return factor->whole || factor->expands;
}

/* What a part of a factor needs of an operand's dimension that windows lie over. */
typedef struct Need {
    int8_t operand, at; /* of dimension ndim - HALO_DIMS + at */
    Halo halo;
} Need;
enum { MAX_NEEDS = (int)MAX_IN > (int)HALO_DIMS ? (int)MAX_IN : (int)HALO_DIMS }; /* concat's operands, the dimensions that a slice cuts */

/* The einsum-like rule of one node: which factor each dimension of each operand and result runs over (-1: none, the dimension is
 * whole). A dimension that windows lie over, or a result's that is the gradient of one, or that is cut, padded or joined, runs over the factor of the windows, and may be of another size. A result is summed over the factors that it lacks (Op.reduction): splitting one makes that result partial, and leaves those that have it. */
typedef struct Rule {
    int nfactors, nout;
    int64_t index_range; /* elements of operands that are indices (Op.types) mean something in [0, index_range); others mean nothing: 0 */
    int64_t
        depth; /* elements, in dimensions that are no factors, that each point of the factors goes through: what multiplies Op.flops; 0: 1 */
    bool halved;   /* half of the points are computed */
    double inside; /* of windows, the share of the points whose taps do not lie in padding; 0: all */
    bool blocked;  /* what they lie over is brought into blocks of channels, and the result back; */
    bool again;    /* weights, which lack factor 0, are read again for each point of it: each image */
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

/* What is known of the signs of a result. */
typedef enum {
    SIGN_UNKNOWN,
    SIGN_POSITIVE /* neither below 0 nor -0 */,
    SIGN_NEGATIVE /* not above 0 */,
    SIGN_KEPT /* operand 0's elements */,
    SIGN_NEGATED /* -operand 0 */,
    SIGN_SUM /* of elements of operand 0, added to +0 */,
    SIGN_JOINED /* a sum of operands 0 and 1 */,
    SIGN_PRODUCT /* or quotient of operands 0 and 1 */
} Sign;

/* Which operands may be partial sums, all results then being ones over the same digits. */
typedef enum {
    LINEAR_NONE,      /* none */
    LINEAR_JOINT,     /* all of them together, over the same digits */
    LINEAR_EACH,      /* exactly one */
    LINEAR_OPERAND_0, /* only operand 0 */
    LINEAR_OPERAND_1, /* only operand 1 */
} Linear;

/* Where an operator and its gradient are defined, or good to compute with. */
typedef enum { DOMAIN_ALL, DOMAIN_POSITIVE } Domain;

typedef enum { OP_CLASS_USER, OP_CLASS_INTERNAL, OP_CLASS_LEAF, OP_CLASS_UPDATE, OP_CLASS_COMM } OpClass;
enum {
    DTYPES_STATE = 1 << F32 | 1 << F64, /* of what is trained, and of the loss */
    DTYPES_FLOAT = DTYPES_STATE | 1 << F16 | 1 << BF16,
    DTYPES_INDEX = 1 << I32 | 1 << I64,
    DTYPES_NUMBER = DTYPES_FLOAT | DTYPES_INDEX,
    DTYPES_ANY = DTYPES_NUMBER | 1 << BOOL
};

typedef struct Graph Graph;
typedef struct Node Node;
/* Adds the nodes that compute the gradient of each operand, given those of the results (-1: nobody uses it; one is there). dx[i] = -1: none. */
typedef void AdjointFn(Graph *graph, int node, const int *dy, int *dx);
/* A template: adds the nodes that an operator stands for, and gives for each result the value that replaces it; the first is the first result of its
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
    int kept;        /* of its results the last so many are for its gradient alone: the language names those before them */
    bool broadcasts; /* "..." in letters lets size 1, or no dimension, stand for any size, as it does in all of the user's operators */
    bool divided;    /* one result or more, up to MAX_OUT: its rule says how many (split) */
    Linear linear;
    Reduction reduction;       /* how a result is partial when a factor that it lacks is split; sum when left out */
    AdjointFn *adjoint;        /* NULL: no gradient */
    int gradient;              /* the OpCode of which adjoint_of_operand and adjoint_of_result make a node */
    ExpandFn *expand;          /* composite: rewritten before autodiff */
    bool as_one;               /* into one operator, of the same operands: it takes a strategy */
    ExpandFn *expand_split;    /* rewritten once strategies are chosen, where its strategy splits a factor that expands */
    ExpandFn *expand_replicas; /* over the rows of all replicas, where the setting batch_norm says so: rewritten by pass rows */
    int flops;                 /* per point of the factors' index space, and of Rule.depth: op_flops */
    bool cancels;     /* its first result has an error of a rounding of 1 however small it is: what is taken from each other is not */
    int vector_flops; /* of a product: those that are none of its sums, per point */
    double
        effort; /* what all that is no sum of products takes on a core, per point, in FLOPs of exp that take as long; 0: as those that it has */
    Sign sign;
    bool in_place; /* result i may overwrite operand i of the same box (elementwise; momentum: w over w, v over v) */
    bool
        by_rows; /* in_place, but not element by element: beside what it overwrites it is given a number a row, or rows that an index names */
    bool product; /* computed by matrix products, as fast as these */
    bool flat;    /* element i of a result as large as its operand needs just element i of that: it may be computed over it */
    bool view;    /* and is that element: the result may lie where the operand lies, without a copy */
    bool
        places; /* each element of a result is one of the operand's, at a distance that a stride a dimension gives: a result may be a view of it */
    bool strided;        /* its kernels read such views by their strides, any other is given copies: pcc plans views for it */
    bool boundary;       /* replicate, replica_sum, expose: sees the hidden dimension */
    Domain domain;       /* of operands that are tried */
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
int op_named(OpCode op, int nout); /* of so many results those that the language names */
char op_type(OpCode op, bool result, int k); /* the letter of Op.types of operand or result k; 't' where the row has none */
unsigned op_dtypes(OpCode op, int operand);  /* the element types that an operand may have, a bit each */
bool op_elementwise(OpCode op); /* element i of each result needs just element i of the operands, and those of size 1, which are repeated */
int op_rows(
    OpCode op); /* the operand whose rows an index puts, or adds, into operand 0, of which nothing else is touched; -1: there is none */
bool op_looks_up(OpCode op);     /* it looks into operand 0 at few places, and reads no more elements of it than it gives */
bool op_updates_rows(OpCode op); /* an update of a table, by rows of a gradient that an index names: row for row, not element by element */
bool op_only_moves(OpCode op);   /* its results have its operands' elements, and no others */
bool op_gives(OpCode op, int nout);                            /* whether the operator may have so many results */
void op_in_name(OpCode op, int operand, char *name, size_t n); /* "a"; of a repeated operand the last name of the row */
int op_in(OpCode op, const char *name);                        /* the operand of this name, or -1: "g" is the gradient of an update */
/* Shape inference and factors of an operator on global operand types, hidden dimension included: it becomes factor 0 of every operand
 * and result. */
bool rule_infer(OpCode op, const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error);
bool rule_out_has(const Rule *rule, int result, int factor);
bool rule_sums(const Rule *rule, int factor);                            /* some result is summed over it */
const Halo *rule_halo(const Rule *rule, int operand, int ndim, int dim); /* ndim: the operand's; NULL: no windows lie over dim */
bool rule_in_has(const Rule *rule, int operand, int ndim, int factor);
/* Whether a gradient node's factor may be split as its origin's: it has as many elements, or more, as what is cut or padded may have; where the origin's is the part of a
 * reshaped dimension in which splits divide, they divide the whole dimension too. */
bool factor_splits(const Factor *factor, int64_t split); /* whether it has so many parts, even ones where it must */
/* Of a part of the operator whose factors have these sizes, one a factor: their product, without those that are looked up, times Op.flops and Rule.depth, and Op.vector_flops. */
double op_flops(OpCode op, const Rule *rule, const double *size);
double op_vector_flops(OpCode op, const Rule *rule, const double *size); /* those that are no sums of products */
double op_effort(OpCode op, const Rule *rule, const double *size);       /* in their place: Op.effort */
double rule_flops(OpCode op, const Rule *rule);                          /* of the whole operator */
