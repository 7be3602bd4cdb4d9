/* What the files of proof/ share. Nothing here is used outside the folder. */
#pragma once
#include "proof/proof.h"

/* ---------------------------------------------------------------- steps.c: the compositional proof */

/* Proves the steps of a plan and counts what it shows in *proof; false with *error. */
bool compositional_check(const Plan *plan, Pool *pool, Proof *proof, Error *error);

/* ---------------------------------------------------------------- roles.c: the roles of a program together */

/* Checks that all ranks that take part in a communication start the same one, and that none waits for ever. */
bool roles_check(const Plan *plan, const Program *program, Error *error);

/* ---------------------------------------------------------------- copies.c: nodes that recompute other nodes' results */

/* Checks that each gives the values of its original; counts them. */
bool copies_check(const Graph *graph, Proof *proof, Error *error);

/* ---------------------------------------------------------------- settings.c: what a plan says twice */

/* Checks that the header agrees with the graph and the steps about the optimizer, its numbers, clipping, accumulation, gradients, buckets,
 * data, mesh and evaluation. */
bool settings_check(const Plan *plan, Error *error);

/* ---------------------------------------------------------------- layout.c: boxes, sets of digits, conversions: implemented anew for this folder */

/* A set of digits as disjoint intervals of strides: [low, high) stands for the digit (high / low)@low. Ascending. */
typedef struct DigitSet {
    int n;
    int32_t low[MAX_DIGITS];
    int64_t high[MAX_DIGITS];
} DigitSet;
bool set_add(DigitSet *set, Digit digit); /* false: it overlaps a digit of the set, or their strides do not divide */
bool set_add_list(DigitSet *set, const Layout *layout, int list);
bool set_add_set(DigitSet *set, const DigitSet *other);
bool set_equal(const DigitSet *a, const DigitSet *b);
bool set_subtract(const DigitSet *a, const DigitSet *b, DigitSet *rest); /* false: b is not within a */
void set_print(Text *text, const DigitSet *set);

/* Whether the layout's digits are valid on nranks ranks: each >= 2 and within nranks, none used twice. */
bool own_layout_valid(const Layout *layout, int ndim, int nranks, const char **why);
bool own_has_rank(const Layout *layout, int rank); /* the layout is not pinned to other ranks */
void own_box(const Layout *layout, const Shape *shape, int rank, Box *box);
/* own_dim: a rank's range of dimension d, which has this size. own_rank_of: the rank with the digits of a part of that dimension, all
 * others 0. */
void own_dim(const Layout *layout, int d, int64_t size, int rank, int64_t *begin, int64_t *end);
int own_rank_of(const Layout *layout, int d, int64_t part);
bool own_halos(const Layout *layout); /* whether any dimension has one */
int64_t own_max_elements(const Layout *layout, const Shape *shape);
/* Whether two lists of digits divide a dimension of this size into the same parts on the same ranks. */
bool own_list_same(const Layout *a, int list_a, const Layout *b, int list_b, int64_t size);

/* The ranks on which per-rank formulas are compared: all if there are at most 64, else 64 seeded ones and those with extreme digits. */
typedef struct Sample {
    int n;
    int rank[160];
} Sample;
void sample_ranks(int nranks, Sample *sample);

/* The smallest shape that a conversion treats alike. The boundaries of both layouts cut a dimension that both divide evenly into pieces of
 * one length; three elements a piece (or two, where the length is even) stand for more. Other dimensions keep their size: each distinct
 * uneven size is a case of its own. The boxes themselves are compared at the tensor's own size (box_check). Where sums are completed,
 * owners share the elements of a box. A smaller shape is then alike only where all shares are even, whatever the number of owners; its
 * shares are even too. */
void conversion_shape(const Layout *from, const Layout *to, const Shape *shape, int nranks, Shape *alike);
/* Checks that a communication of this kind converts a tensor from `from` to `to`: the layouts fit the kind, the digits summed are from's
 * partial digits without to's, and the pieces that ir/box.c gives each rank to receive and send are complete, disjoint, held by the sender,
 * each term once and in order. */
bool conversion_check(CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks, const Sample *sample, char *why,
                      size_t n);
/* Checks that ir/box.c's box of every sampled rank equals this folder's. */
bool box_check(const Layout *layout, const Shape *shape, const Sample *sample, char *why, size_t n);

/* ---------------------------------------------------------------- operators.c: what each operator means for layouts */

typedef enum {
    LINEAR_IN_NONE,
    LINEAR_IN_ALL,
    LINEAR_IN_ONE,
    LINEAR_IN_FIRST,
    LINEAR_IN_SECOND
} LinearIn; /* the operands in which an operator is linear; these may be partial */

/* The index structure of one node: which letter each dimension runs over, -1 where it is a size 1 that is repeated. */
typedef struct Letters {
    int n;
    int64_t size[32];
    int8_t in[MAX_IN][MAX_NDIM], out[MAX_OUT][MAX_NDIM];
    uint8_t windows
        [MAX_IN]; /* window_bit: this operand is read through windows along the dimension; its letter is that of a result, or of another operand */
    LinearIn linear;
    Reduction reduction; /* how a result is partial over the digits of a letter that it lacks */
    int8_t grouped;      /* the letter whose dimensions may be multiples of its size, which splits must divide; -1: none */
    bool reshape;        /* dimensions correspond by row-major position, not by letters */
    bool flat;           /* where a result is as large as its operand, its element i needs only element i of that */
    bool view;           /* and equals that element */
    bool by_rows;        /* rows are put or added where an index says: elementwise in operand 0 and an update's slots, not in the rest */
    bool places;         /* a result's elements are some of the operand's, each at most once: it may be a view of the operand */
    bool elementwise;    /* each result element needs only the operand elements at the same index */
} Letters;

/* The bit of dimension d of ndim dimensions; 0: it cannot have windows. */
static inline uint8_t window_bit(int ndim, int d) {
    return (uint8_t)(d < ndim - HALO_DIMS ? 0 : 1u << (d - (ndim - HALO_DIMS)));
}
static inline bool letters_see(const Letters *letters, int operand, int ndim, int d) {
    return (letters->windows[operand] & window_bit(ndim, d)) != 0;
}

/* Operand and result types without the hidden dimension. */
typedef struct Plain {
    int hidden; /* 1 where dimension 0 is the hidden one */
    int ndim;
    const int64_t *dim;
} Plain;

static inline Plain plain_of(const Graph *graph, int value) {
    const TensorType *type = &graph->values.at[value].type;
    Plain p = {.hidden = type->hidden, .ndim = type->shape.ndim - type->hidden, .dim = type->shape.dim + type->hidden};
    return p;
}

static inline int letter_new(Letters *letters, int64_t size) {
    if (letters->n == 32) return -1;
    letters->size[letters->n] = size;
    return letters->n++;
}

bool put_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n); /* of put, likewise */
bool along_letters(const Graph *graph, const Node *node, Letters *letters, char *why,
                   size_t n); /* gather.c: gather, gather_grad, cumsum, topk */
bool norm_letters(const Graph *graph, const Node *node, int weight, Letters *letters, char *why, size_t n);     /* norm.c */
bool batch_norm_letters(const Graph *graph, const Node *node, int wide, Letters *letters, char *why, size_t n); /* batchnorm.c */
/* attention.c: attention and the operators that it is expanded into. */
bool attention_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n);
bool attention_is_masked(const Node *node); /* whether the last operand is a mask */
bool class_loss_letters(const Graph *graph, const Node *node, Letters *letters, char *why,
                        size_t n); /* loss.c: cross_entropy_rows, its gradient */
bool hidden_letters(const Graph *graph, const Node *node, Letters *letters, char *why,
                    size_t n); /* hidden.c: replicate, replica_sum, expose */
bool node_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n);
/* Checks, by the node's letters, that operands in layouts `in` give results in layouts `out`. */
bool kernel_check(const Graph *graph, const Node *node, const Letters *letters, const Layout *const *in, const Layout *const *out,
                  char *why, size_t n);

/* ---------------------------------------------------------------- memory.c */

/* Checks that no two instances alive at once overlap, that they lie within the arena, and that states are overwritten only when their old
 * version is dead. Instance i is alive from step defined[i] to last[i] (-1: before the first). */
bool memory_check(const Plan *plan, const Role *role, const int *defined, const int *last, const bool *in_place, char *why, size_t n);
