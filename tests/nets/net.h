/* net: random nets, for tests of pcc and prun and for users who add operators.
 *
 *   make.c  the generator: a seed -> a net; its parts: make.h
 *   hint.c  random strategies for its operators, inputs and parameters
 *   net.c   a net's text, its types after a change
 *   main.c  pcc-fuzz-net, which `pcc fuzz-net` runs
 *
 * A net is a structure and not only text, so that a test can take pieces out of one that fails (tests/run/nets_shrink.c). Everything is drawn from the
 * seed by a generator of our own: a seed means the same net on every machine, as long as the operator table and the generator stay as they are. */
#pragma once
#include "strategies/strategies.h"

typedef enum { FUZZ_INPUT, FUZZ_PARAM, FUZZ_CONST, FUZZ_NUMBER, FUZZ_OP } FuzzKind;

/* A declaration or a statement. A number is written where it is used. */
typedef struct FuzzItem {
    FuzzKind kind;
    OpCode op;           /* FUZZ_OP */
    int nin, in[MAX_IN]; /* values: item * MAX_OUT + result; of earlier items */
    Attr attr[MAX_ATTRS];
    int nout;
    TensorType type[MAX_OUT]; /* of the results; a leaf has one */
    bool infix;               /* written with + - * / */
    const char *init;         /* FUZZ_PARAM, FUZZ_CONST: the initial value as written */
    double number;            /* FUZZ_NUMBER */
    const Hint *hint;         /* or NULL; never at a constant or number. at: a parameter on one rank */
    bool recompute;           /* FUZZ_OP */
    bool regather;            /* FUZZ_OP, FUZZ_PARAM: a hint of its path */
    bool dropped;             /* FUZZ_OP: a share of the result is 0, by random numbers; unless it is hinted */
    int stage;                /* FUZZ_OP: hinted, from 1; 0: none */
} FuzzItem;

enum { FUZZ_MAX_AXES = 4 };
/* A net, what its blocks say, and the options to compile it with. Lives in the arena that made it. */
typedef struct FuzzNet {
    uint64_t seed;
    VEC(FuzzItem) items;
    int loss;   /* value: a scalar */
    int unused; /* the value of a statement that the loss does not depend on, or -1 */
    int kept;   /* a value whose mean a state of the net follows, and the loss with it; -1: none */
    /* train */
    OptimizerKind optimizer;
    bool nesterov;
    double lr, momentum, beta1, beta2, eps, weight_decay; /* those that the optimizer has; weight_decay 0: none */
    Schedule schedule;
    double clip;                        /* 0: none */
    int accumulate;                     /* batches of a step */
    double ema;                         /* decay of averages; 0: none */
    double lr_factor, decay_factor;     /* of `scaled`; 1: none */
    int scaled;                         /* a parameter; -1: none */
    DataKind data;                      /* numpy_rand, normal or uniform */
    int64_t data_seed, rows, init_seed; /* rows 0: as many as the batch; others: numpy_rand */
    int steps;
    /* parallel */
    Mode mode;
    const char *search; /* mode auto; NULL: it is not said, and so auto */
    int naxes;
    Axis axis[FUZZ_MAX_AXES]; /* name and size */
    Dataset dataset;
    const Hint *dataset_hint; /* DATASET_EXPLICIT: a tuple an input */
    bool gradients_mean;
    int64_t bucket; /* bytes; -1: the default */
    ShardStates shard_states;
    bool shard_small;   /* small states too */
    Regather regather;  /* as is said; what it is by default is not */
    int memory_percent; /* a rank may need so much of what it needs without this limit, if that is possible; 0: no limit */
    int stages;         /* of a pipeline; 1: none */
    int chunks;         /* parts that each of them has */
    /* command line */
    int nranks, replicas; /* nranks: of a stage; replicas: mode data_parallel, else 0 */
    int optimize;
    RedistributePolicy redistribution;
    const char *machine; /* --machine, or NULL */
} FuzzNet;

/* Of all stages. */
static inline int fuzz_ranks(const FuzzNet *net) {
    return net->nranks * net->stages;
}
static inline const TensorType *fuzz_type(const FuzzNet *net, int value) {
    return &net->items.at[value / MAX_OUT].type[value % MAX_OUT];
}

/* ---------------------------------------------------------------- make.c */

/* A random net of 2 to 12 ranks that pcc accepts in all but a few cases (a strategy may ask for what its operator cannot have). */
void fuzz_make(FuzzNet *net, Arena *arena, uint64_t seed);

/* splitmix64 (Steele, Lea, Flood 2014); a number below n > 0; whether one of a hundred cases out of `percent` occurs. */
uint64_t fuzz_next(uint64_t *random);
int fuzz_below(uint64_t *random, int n);
bool fuzz_chance(uint64_t *random, int percent);

/* ---------------------------------------------------------------- hint.c */

/* A random legal strategy of an operator with this rule, for the net's ranks and axes; a random way for tensors of these types to lie on the
 * ranks, a tuple each. In the arena. */
const Hint *fuzz_strategy(const FuzzNet *net, const FuzzItem *item, const Rule *rule, Arena *arena, uint64_t *random);
const Hint *fuzz_layouts(const FuzzNet *net, const TensorType *types, int n, Arena *arena, uint64_t *random);

/* ---------------------------------------------------------------- net.c */

/* The source text; its first lines are comments that say how to compile and check it. */
void fuzz_print(Text *text, const FuzzNet *net);
/* "--ranks 6 -O2 --redistribution=bound"; those of the plan for one rank that it must agree with: "--mode stand_alone". */
void fuzz_flags(Text *text, const FuzzNet *net);
void fuzz_reference_flags(Text *text, const FuzzNet *net);
/* Types of all operators' results anew, after a change of leaves, attributes or operands. False: an operator's rule rejects its operands, or the
 * loss is not a scalar. */
bool fuzz_infer(FuzzNet *net);
/* Takes out the items on which neither the loss nor the unused value depends. */
void fuzz_prune(FuzzNet *net, Arena *arena);
