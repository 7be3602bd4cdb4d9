/* Graphs: what a net computes, with its strategies, layouts, states, inputs and settings. */
#pragma once
#include "ir/map.h"
#include "ir/op.h"

/* ---------------------------------------------------------------- graph.c */

/* The digits that split each factor of a node, major first: factor f's are digit[start[f]] .. digit[start[f + 1] - 1]. Zeroed: none. No digit twice. */
typedef struct Strategy {
    int nfactors;
    Pin pin; /* pins the operator's tensors to the ranks that run it */
    uint8_t start[MAX_FACTORS + 1];
    Digit digit[MAX_DIGITS];
} Strategy;
static inline int strategy_count(const Strategy *s, int factor) {
    return s->start[factor + 1] - s->start[factor];
}
static inline const Digit *strategy_digits(const Strategy *s, int factor) {
    return s->digit + s->start[factor];
}
int64_t strategy_split(const Strategy *strategy, int factor);      /* product of the sizes of its digits; NULL: 1 */
bool strategy_append(Strategy *strategy, int factor, Digit digit); /* as the factor's minor digit; false: no room */
void strategy_follow(Strategy *strategy, int factor, const Strategy *other,
                     int other_factor); /* gives the factor the digits of another strategy's */
typedef enum { STRATEGY_NONE, STRATEGY_USER, STRATEGY_PROPAGATED, STRATEGY_BATCH, STRATEGY_ORIGIN, STRATEGY_WHOLE } StrategyFrom;
extern const char *const strategy_from_name[]; /* "none", "user", "propagated", "batch", "origin", "whole" */

/* What a user wrote after `shard`: per operand, per dimension either a count (tuple) or axis names. */
typedef struct HintDim {
    Span span;
    int64_t split; /* tuple form: the number; named form: 0 */
    int naxes;     /* named form: axes, major first; 0 with named: "-" */
    const char *axis[16];
} HintDim;
typedef struct HintTuple {
    Span span;
    int ndim;
    HintDim dim[MAX_NDIM];
} HintTuple;
typedef struct Hint {
    Span span;            /* the whole shard clause */
    const CellCall *call; /* the call that encloses what the hint is for; NULL: the net */
    bool named;
    int nin; /* tuples given; may be wrong: checked in strategies */
    HintTuple in[8];
    int nout; /* 0 or 1: "-> (8, 1)" */
    HintTuple out;
    int at; /* of a state: rank + 1 of the only rank that holds it (`at(0)` is 1); 0: all hold it */
} Hint;

/* `stage 2`: which stage of a pipeline runs an operator. */
typedef struct StageHint {
    int stage; /* from 0 */
    Span span;
    const CellCall *call; /* the call that encloses it; NULL: the net, or hints */
} StageHint;

/* `layer.* = regather;`: gathered copies of the parameters and of operators' results within the path are dropped after the forward pass, and gathered again. */
typedef struct RegatherHint {
    const char *path;
    Span span;
} RegatherHint;

struct Node {
    OpCode op;
    int nin, nout;
    int in[MAX_IN], out[MAX_OUT]; /* value ids */
    const Attr *attr;             /* MAX_ATTRS of them; nodes alike share them and the rule (signature.c) */
    const Rule *rule;
    const char *name; /* unique, readable: the name of its first result, or "matmul_3" */
    Span span;
    int origin;                        /* the forward node whose strategy a gradient node reuses; its own id otherwise */
    int8_t origin_factor[MAX_FACTORS]; /* for each own factor the origin's factor, or -1: whole */
    const Hint *hint;                  /* or NULL */
    StrategyFrom from;
    const Strategy *strategy; /* NULL until propagate */
    const double *data;       /* op constant: elements in row-major order, or NULL: all equal to attr value */
    int state;                /* op read, write: state id; op input: input id; else -1 */
    int version;              /* op read: 0 before the step's write of that state, 1 after it */
    bool recompute; /* a forward node whose results are not kept: gradients use those of a copy (compiler/recompute.c). Not in texts */
    const RegatherHint *regather; /* a forward node: gathers results again for gradients; NULL: as the settings say. Not in texts */
    int copy_of;                  /* the node that this one computes again; 0: none, as node 0 is a leaf */
    int micro;                    /* accumulate: a copy of the forward node `origin` for this batch of the step; 0: none. Not in texts */
    int stage; /* the part of the net that it belongs to, from 1, which gives the ranks that run it (stage_pin); 0: all ranks. Of forward nodes, after pass stages. Not in texts */
    const StageHint *asked; /* a forward node: the stage that the user, or `hints found`, wants it in; NULL: any. Not in texts */
    int update;             /* part of the update of state `update` - 1, whose layout it takes; 0: of none. Not in texts */
    CommKind comm;          /* op convert: which; from and to are the layouts of in[0] and out[0] */
};

typedef struct Value {
    const char *name;
    TensorType type;      /* global */
    int node, index;      /* its producer and which of its results */
    const Layout *layout; /* interned in the graph; NULL until assign */
} Value;

typedef enum { INIT_ZEROS, INIT_ONES, INIT_NORMAL, INIT_UNIFORM, INIT_LITERAL, INIT_FILE } InitKind;
typedef struct Init {
    InitKind kind;
    double a, b;        /* normal: mean 0 -> a = standard deviation; uniform: [a, b) */
    const double *data; /* literal: all elements, row-major */
    const char *file;   /* INIT_FILE: .npy, as written in the source; relative to the plan's directory of compilation */
} Init;

/* Integers from begin up to end, which is excluded; begin == end: nothing is known (lookup.h). */
typedef struct IndexRange {
    int64_t begin, end;
} IndexRange;

/* A value that outlives a step: a parameter, a slot of its optimizer, a const read from a file. */
typedef struct State {
    const char *name; /* "w"; optimizer slots "w.momentum" */
    TensorType type;  /* never hidden */
    Init init;
    bool trainable;   /* a parameter */
    bool written;     /* a state of the net, which the forward pass writes */
    bool cache;       /* of a generate program: what it keeps of the places so far; in no other program, and in no file */
    int parameter;    /* for a slot: the state id of its parameter; else its own id */
    IndexRange index; /* a const of integers that is used as an index: the valid range, as in Input */
    Span span;
    const Hint *hint;     /* user's storage strategy: hint->in[0] */
    const Layout *layout; /* storage layout, NULL until assign */
} State;

/* A const from a file: read when training begins, never written, in no checkpoint. */
static inline bool state_is_const(const State *state) {
    return !state->trainable && state->init.kind == INIT_FILE;
}

/* Whether it is saved with the parameters, as part of the trained net. Slots are saved in checkpoints only. */
static inline bool state_is_own(const State *state) {
    return state->trainable || state->written;
}

/* Files of rows: the first dimension of their contents counts rows. FILE_NORMAL, FILE_UNIFORM: no file, but random numbers for each row of the other inputs' files. */
typedef enum {
    FILE_NONE,
    FILE_NPY,
    FILE_IDX,
    FILE_CSV,
    FILE_RAW,
    FILE_CIFAR10,
    FILE_PICTURES,
    FILE_NORMAL,
    FILE_UNIFORM,
    NFILE_FORMATS
} FileFormat;
extern const char *const file_format_name[NFILE_FORMATS]; /* "npy" */
enum { NFILE_ELEMENTS = 9 };
extern const char *const file_element_name[NFILE_ELEMENTS]; /* element types of raw files: "u8", .. "bf16" */
static inline bool file_has_pictures(FileFormat format) {
    return format == FILE_CIFAR10 || format == FILE_PICTURES;
}
static inline bool file_is_drawn(FileFormat format) {
    return format == FILE_NORMAL || format == FILE_UNIFORM;
}
/* CSV: a missing field is an error; drops its whole row; is replaced by the mean of its column in the training rows; is replaced by a number. */
typedef enum { MISSING_ERROR, MISSING_DROP, MISSING_MEAN, MISSING_FILL, NMISSINGS } Missing;
extern const char *const missing_name[NMISSINGS];
/* CSV: what an input takes from a column of texts: the token numbers; 1 for each token and 0 after the last; 0, which marks the first of two texts. */
typedef enum { TOKENS_NONE, TOKENS_IDS, TOKENS_MASK, TOKENS_TYPES, NTOKEN_PARTS } TokenPart;
extern const char *const token_part_name[NTOKEN_PARTS];
/* How a text becomes tokens: by BERT's vocabulary; each byte is one; each character is one, with its place in an alphabet as its number. */
typedef enum { TOKENIZER_WORDPIECE, TOKENIZER_BYTES, TOKENIZER_CHARACTERS, NTOKENIZERS } Tokenizer;
extern const char *const tokenizer_name[NTOKENIZERS];
enum { MAX_CLASS_BYTES = 256 }; /* of a label's name */
/* How the numbers of a row are changed: (number * scale - mean) / deviation. */
enum { MAX_CHANNELS = 16 };
typedef struct RowChange {
    bool one_hot;     /* an integer of the file becomes as many elements as the input's last dimension has: 1 at its place, else 0 */
    bool standardize; /* mean and deviation are those of the training rows, for each element of a row */
    double scale;     /* 0: 1 */
    int nmeans;       /* given: none; one for all; or one for each index of the row's first dimension, a channel */
    double mean[MAX_CHANNELS], deviation[MAX_CHANNELS];
} RowChange;
enum { MAX_PICTURE_SIDE = 1 << 14 };
/* How a picture becomes one of the input's size: it is resized, padded, cropped, maybe flipped, and last resized to the input's size. 0: that step is left out. */
typedef struct PictureChange {
    bool label;                 /* the input has the picture's class, not the picture */
    bool flip;                  /* each picture is mirrored, left to right, with probability 1/2 */
    bool random;                /* crops at a random place, and flip applies; else in the middle */
    int64_t pad;                /* zeros around it */
    int64_t resize[2], crop[2]; /* height and width. resize[1] 0: the shorter side, in proportion */
} PictureChange;
typedef struct DataFile {
    FileFormat format;
    const char *path;    /* with the source's directory; relative to where prun is started, else beside the plan. NULL: rows are drawn */
    int64_t seed;        /* of rows that are drawn */
    int64_t first, rows; /* the rows that are used: the first, and how many; 0: all from there on */
    int64_t column;      /* CSV: first column, counted from `heading`; as many as a row has elements. -1: the last column, and so on */
    const char *heading; /* CSV: the name of a column, in the first line; NULL or "": columns are counted from the first */
    int separator;       /* CSV: the character between columns; 0: the most frequent of comma, semicolon and tab in the first line */
    Missing missing;
    double fill; /* MISSING_FILL: the number */
    /* CSV, folders of pictures: the names of labels 0, 1, .., one a line. NULL or "": a CSV's column holds numbers; folders are labels in order of their names. */
    const char *classes;
    bool find_classes; /* CSV: the names are the distinct texts of the column, sorted */
    TokenPart tokens;
    const char *vocabulary; /* wordpiece: the path of the list of tokens, joined like path; characters: the alphabet itself */
    Tokenizer tokenizer;
    bool lowercase;   /* wordpiece: removes capitals and accents */
    bool lengths;     /* its texts may have several lengths: Settings.lengths. Not in texts */
    RowChange change; /* of any format */
    PictureChange picture;
    int64_t offset; /* raw: elements before the first row; an incomplete last row is then ignored. -1: not given, rows must fill the file */
    const char *stored; /* raw: a file_element_name, little-endian; NULL: the input's type */
} DataFile;
/* Where an input's elements come from. DATA: the data source. ROW_WEIGHT: 1 for rows of the data, 0 for rows that fill up a last batch. RATE, UPDATE: one number each, for
 * the optimizer: the schedule's factor of the learning rate at this update, and the update's number from 1. RANDOM: uniform in [0, 1), a function of the global index, new
 * for each update and batch of a step. TOKEN, PLACE, in a generate program: the tokens at the step's places, and the places, from 0. */
typedef enum { INPUT_DATA, INPUT_ROW_WEIGHT, INPUT_RATE, INPUT_UPDATE, INPUT_RANDOM, INPUT_TOKEN, INPUT_PLACE, NINPUT_KINDS } InputKind;
static inline bool input_is_of_batch(InputKind kind) {
    return kind == INPUT_DATA || kind == INPUT_ROW_WEIGHT;
}
/* Whether it describes places of a text: such inputs are whole on every rank. */
static inline bool input_is_text(InputKind kind) {
    return kind == INPUT_TOKEN || kind == INPUT_PLACE;
}
/* Whether the data source fills it at every step, box by box. */
static inline bool input_is_taken(InputKind kind) {
    return input_is_of_batch(kind) || kind == INPUT_RANDOM;
}
extern const char *const input_kind_name[NINPUT_KINDS];

typedef struct Input {
    const char *name;
    TensorType type; /* global, hidden in data_parallel */
    Span span;
    const Hint *hint;
    const Layout *layout;   /* as delivered by the data source; NULL until assign */
    const double *per_rank; /* per_rank: replicas x elements of one, in order of the hidden dimension; else NULL */
    InputKind kind;
    IndexRange index; /* integers: the range of elements that give valid indices; unknown: not used as an index */
    DataFile file;    /* DATA_FILES: where its rows are */
    int micro, of;    /* accumulate: the batch of the step that it holds, from 0; for batches after the first, the input of the first */
    /* random: 1 + the dimension of the batch's rows, 0: none. The numbers of a row depend on its place in the epoch, not on the rank that has it. */
    int row_dim;
    int like; /* random: the value whose shape it has, until pass_rows. Not in texts */
} Input;

typedef struct Axis {
    const char *name;
    int32_t size;
    Digit digit;
} Axis;
typedef VEC(Axis) MeshAxes;

typedef enum { MODE_STAND_ALONE, MODE_DATA_PARALLEL, MODE_SEMI_AUTO, MODE_AUTO, MODE_MANUAL, NMODES } Mode;
/* Whether the net describes one rank, and its tensors have the hidden dimension. */
static inline bool mode_hides(Mode mode) {
    return mode == MODE_DATA_PARALLEL || mode == MODE_MANUAL;
}
typedef enum { DATASET_AUTO, DATASET_DATA_PARALLEL, DATASET_FULL_BATCH, DATASET_EXPLICIT } Dataset;
typedef enum { DATA_NONE, DATA_NUMPY_RAND, DATA_PER_RANK, DATA_FILES, DATA_NORMAL, DATA_UNIFORM, NDATA_KINDS } DataKind;
/* Whether each step has a batch of its own, which is loaded while the previous step runs. */
static inline bool data_rows_change(DataKind kind) {
    return kind == DATA_FILES || kind == DATA_NORMAL || kind == DATA_UNIFORM;
}
/* How rows of an epoch that fill no whole batch are treated: dropped; padded, with the mean still over the batch; padded, with the mean over
 * the real rows. Padding rows have the weight 0. */
typedef enum { LAST_DROP, LAST_PAD, LAST_SHORT, NLASTS } Last;
extern const char *const last_name[NLASTS];
/* How rows of an epoch are treated that do not divide evenly among the processes that share a batch: JOIN: each counts once. PAD: the first rows are
 * repeated, and count again, until the shares are equal. DROP: they are left out. */
typedef enum { UNEVEN_JOIN, UNEVEN_PAD, UNEVEN_DROP, NUNEVENS } Uneven;
extern const char *const uneven_name[NUNEVENS];
/* Splits the rows of the files, in an order given by the seed, into several parts, one of which a program has. */
enum { MAX_SHARES = 8 };
typedef struct RowSplit {
    int nshares, part;        /* nshares 0: all rows; part from 0 */
    double share[MAX_SHARES]; /* they sum to 1 */
    bool test;    /* two parts, the second rounded up as by scikit-learn's train_test_split; else rounded as by torch's random_split */
    int64_t seed; /* of torch.randperm */
} RowSplit;
extern const char *const dataset_name[], *const data_name[], *const optimizer_name[]; /* by Dataset, DataKind, OptimizerKind */
typedef enum { EVAL_NEVER, EVAL_EPOCH, EVAL_STEPS, EVAL_END, NEVALS } EvalWhen;
extern const char *const eval_name[NEVALS];
/* Whether training stops where the loss, or a parameter to be saved, is nan or infinite. */
typedef enum { ON_NAN_STOP, ON_NAN_GO, NON_NANS } OnNan;
extern const char *const on_nan_name[NON_NANS];
typedef enum {
    OPTIMIZER_NONE,
    OPTIMIZER_SGD,
    OPTIMIZER_MOMENTUM,
    OPTIMIZER_ADAM,
    OPTIMIZER_ADAMW,
    OPTIMIZER_LION,
    OPTIMIZER_LAMB,
    OPTIMIZER_LAZY_ADAM, /* for tables that are only looked up: updates just the rows that occur; adam for the others */
    OPTIMIZER_ADAFACTOR,
    NOPTIMIZERS
} OptimizerKind;
/* Multiplies the optimizer's learning rate, or weight decay, for parameters whose paths match the pattern; the last line that matches holds. */
typedef enum { SCALE_LR, SCALE_DECAY, NSCALES } ScaleKind;
extern const char *const scale_name[NSCALES]; /* "lr" */
typedef struct Scale {
    ScaleKind kind;
    double factor;
    const char *path;
    Span span; /* not in texts */
} Scale;
typedef enum {
    SCHEDULE_CONSTANT,
    SCHEDULE_LINEAR,
    SCHEDULE_COSINE,
    SCHEDULE_POLYNOMIAL,
    SCHEDULE_INVERSE_SQRT,
    SCHEDULE_STEP,
    SCHEDULE_MULTISTEP,
    NSCHEDULES
} ScheduleKind;
extern const char *const schedule_name[NSCHEDULES];
typedef enum { PER_EPOCH, PER_STEP, NSCHEDULE_UNITS } ScheduleUnit;
extern const char *const schedule_unit_name[NSCHEDULE_UNITS];
enum { MAX_MILESTONES = 32 };
/* What is sharded among ranks that would otherwise hold equal copies: nothing; the optimizer's slots (ZeRO stage 1); also the gradients of each batch of a step (stage 2); also
 * the parameters (stage 3). */
typedef enum { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS, NSHARDS } ShardStates;
extern const char *const shard_states_name[NSHARDS];
/* Which gathered copies are dropped after the forward pass, and gathered again for the backward pass: none, parameters, all values of the forward pass. */
typedef enum { REGATHER_NONE, REGATHER_PARAMETERS, REGATHER_ALL, NREGATHERS } Regather;
extern const char *const regather_name[NREGATHERS];
/* The learning-rate schedule: schedule_rate. */
typedef struct Schedule {
    ScheduleKind kind;
    int64_t warmup; /* updates in which the rate rises from 0; 0: none */
    double end;     /* linear, cosine, polynomial: the final rate, as a share of the optimizer's lr */
    double power;   /* polynomial */
    double gamma;   /* step, multistep: the factor of each step */
    int64_t every;  /* step: units between two steps */
    int nmilestones;
    int64_t milestone[MAX_MILESTONES]; /* multistep: the units after which it steps, ascending */
    ScheduleUnit unit;                 /* step, multistep */
} Schedule;
extern const char *const mode_name[NMODES];

/* What a metric of the evaluations decides: which checkpoint is kept (`checkpoint .. best f1`), and when training ends early (`early_stop f1 patience 3;`). */
typedef enum { WATCH_BEST, WATCH_STOP, NWATCHES } WatchKind;
typedef struct Watch {
    const char *metric; /* "loss", or as metrics are printed: "f1_macro"; NULL: nothing is watched */
    int64_t patience;   /* WATCH_STOP: so many evaluations without improvement end the training */
    double delta;       /* WATCH_STOP: an improvement must be larger than this */
    Span span;          /* not in texts */
} Watch;

/* `assert comm < 2 MiB;`: a limit that the plan must meet. comm: bytes that the busiest rank sends in a step; memory: bytes of a rank; time: predicted seconds of a step. */
typedef enum { ASSERT_COMM, ASSERT_MEMORY, ASSERT_TIME, NASSERTS } Asserted;
extern const char *const asserted_name[NASSERTS]; /* "comm" */
typedef struct Assertion {
    Asserted what;
    bool reached; /* <=: the limit itself is allowed */
    double limit;
    Span span;
} Assertion;
/* `forbid all_gather at layer.*;` */
typedef struct Forbidden {
    CommKind kind;
    const char *path; /* a pattern: applies to what it names and all within; NULL: everywhere */
    Span span;
} Forbidden;

/* A line of a `hints found` block (pcc --write-hints): it applies to operators, states and inputs that match the pattern, where the user asks for nothing else. Names
 * are those of the graph in which strategies are chosen, including the parts of composite operators. */
typedef struct FoundHint {
    const char *path;
    const Hint *hint;       /* or NULL */
    const StageHint *stage; /* of an operator; else NULL */
    bool recompute;         /* of an operator: its results are not kept */
    Span span;
} FoundHint;

#define BUCKET_BYTES ((int64_t)25 << 20) /* DDP's default */
#define TOLERANCE_USUAL 0.0225
#define SHARD_BYTES ((int64_t)256 << 10) /* of a state, for any number of ranks: below, holding a copy costs less than two messages */
/* The order of a step's batches in stages: each backward pass as early as possible; all forward passes before the first backward pass; like the first, with several parts
 * of the net per stage (compiler/tasks.c). */
typedef enum { PIPELINE_1F1B, PIPELINE_GPIPE, PIPELINE_INTERLEAVED, NPIPELINES } Pipeline;
/* Lengths of texts: the net is compiled for each, as with -D for this number of its head (`length = [32, 64, 128]` of a csv). Not in texts. */
enum { MAX_LENGTHS = 6 };
typedef struct TextLengths {
    int n;                   /* 0: only one length */
    int64_t at[MAX_LENGTHS]; /* ascending; the last is the number's own value */
    const char *number;
    Span span;
} TextLengths;

/* What the train and parallel blocks say, after flags and defaults. */
typedef struct Settings {
    Mode mode;
    const char *search; /* "auto" */
    Span search_span;   /* where the source gives it; line 0: nowhere */
    Dataset dataset;
    const Hint *dataset_hint; /* DATASET_EXPLICIT: hint->in[i] for input i */
    Span dataset_span;
    bool gradients_mean;    /* data_parallel: mean (else sum) */
    bool batch_norm_global; /* data_parallel: batch_norm is over all replicas' rows. Not in texts: operators say it */
    int64_t bucket_bytes;   /* gradients reduced in one communication, at most; 0: each alone */
    MeshAxes mesh;          /* the named mesh, if any */
    Span mesh_span;
    DataKind data;
    int64_t data_seed, data_rows; /* numpy_rand, normal, uniform: seed; numpy_rand: rows, 0: as many as the batch */
    bool shuffle;                 /* DATA_FILES: rows in the order of PyTorch's DistributedSampler with shuffle_seed; else as in the file */
    int64_t shuffle_seed;
    Last last;
    Uneven uneven;
    RowSplit split;
    TextLengths lengths;
    uint64_t seed; /* of initial values */
    OptimizerKind optimizer;
    double lr, momentum;
    bool nesterov;               /* momentum: the step looks ahead along the slot */
    double beta1, beta2, eps;    /* adam, adamw, lamb; lion has no eps. adafactor: eps is eps1, 0: of the parameter's type */
    double beta2_decay, eps2, d; /* adafactor */
    /* sgd, momentum, adam: weight_decay * parameter is added to the gradient; lamb: to the direction; adamw, lion, adafactor: decoupled decay; 0: none */
    double weight_decay;
    bool ema; /* keeps an exponential moving average of every parameter, with ema_decay */
    double ema_decay;
    bool averages;     /* an eval uses these averages in place of the parameters */
    VEC(Scale) scales; /* of lr and weight_decay, by parameter */
    Schedule schedule;
    int64_t accumulate;    /* batches per step, whose gradients are averaged; 0, 1: one */
    int64_t micro_batches; /* parts into which each batch is divided, which accumulate counts; 0, 1: it is whole. Not in texts */
    Span micro_span;       /* where it is said; line 0: it is not */
    double clip;           /* gradients are scaled down to a global norm of at most this; 0: they are not */
    bool grad_norm;        /* a step reports the global norm of the gradients before clipping. Not in texts: the report is */
    bool noise_scale;      /* and, with replicas, an estimate of the gradient noise from their norms. Not in texts either */
    int64_t epochs, steps,
        log_every;     /* epochs 0: no training; steps 0: as many as an epoch of the data has; log_every 0: every step, MindSpore's line */
    DType precision;   /* of the operands of products: F32: unchanged; F16, BF16: pass precision */
    double loss_scale; /* precision F16: the initial loss scale. Not in texts: the state's initial value says it */
    DType compress;    /* of gradients when they are communicated: BF16; F32: unchanged. Not in texts: the operator compress says it */
    OnNan on_nan;
    bool log_from_zero;             /* lines of losses, and log_every, count epochs and steps from 0 */
    const char *log;                /* template of the line of a loss; NULL or "": MindSpore's line */
    int64_t log_rank;               /* the rank whose losses are printed; -1: all ranks */
    bool has_eval;                  /* there is an eval block */
    bool has_generate;              /* there is a generate block */
    double temperature;             /* generate: divides the logits; 0: the most likely token is taken */
    int64_t top_k;                  /* generate: how many of the most likely tokens are drawn from; 0: all */
    int64_t draw_seed;              /* generate: the seed for drawing tokens */
    int64_t end;                    /* generate: the token that ends a text; -1: none */
    const char *alphabet;           /* generate: the characters of token 0, 1, .., UTF-8; "": tokens are bytes; NULL: they are numbers */
    EvalWhen eval;                  /* when training is interrupted to run the program eval */
    int64_t eval_steps;             /* EVAL_STEPS: the steps between two evals */
    bool checkpoint_epochs;         /* checkpoint every epoch */
    int64_t checkpoint_steps, keep; /* steps between checkpoints, 0: none; how many are kept, 0: all */
    bool checkpoint_per_rank;       /* each rank writes its own slices, into a file of its own */
    Watch watch[NWATCHES];
    bool restore_best; /* training ends with the states of the best checkpoint */
    bool strict_divide;
    int64_t memory_bytes;     /* limit per rank, 0: none given. Not in texts */
    double tolerance;         /* the relative slowdown against the fastest predicted step that is accepted for sending less. Not in texts */
    Span memory_span;         /* where it is said */
    ShardStates shard_states; /* for states of at least shard_bytes. Not in texts: layouts say it */
    int64_t shard_bytes;
    bool shard_states_given, regather_given, shard_from_given, bucket_given; /* given by the user: they must not change */
    Regather regather;                                                       /* not in texts */
    double regather_share; /* of the parameters, beginning with the first of the net; 0: all */
    int64_t cut_bytes;     /* per rank: the bound that stage cuts must keep, as far as they can count; 0: the memory limit */
    int64_t stages;        /* pipeline stages; 0, 1: one. Not in texts: roles and layouts say it */
    bool stages_auto;      /* the number of stages is searched for. Not in texts */
    int64_t chunks;        /* parts of the net that each stage has; 0, 1: one. Not in texts */
    Pipeline pipeline;     /* the order of the batches of a step in the stages */
    Span stages_span, chunks_span, pipeline_span; /* where they are said; line 0: they are not */
    bool recompute_none;                          /* values are recomputed only where the user says so. Not in texts */
    VEC(Assertion) asserts;                       /* not in texts */
    VEC(Forbidden) forbids;
    MeshAxes hint_axes;                  /* of the meshes of hints blocks. Not in texts */
    VEC(const RegatherHint *) regathers; /* all that were read. Not in texts */
    VEC(FoundHint) found;                /* of `hints found` blocks, in their order. Not in texts */
    bool micro_found, chunks_found;      /* micro_batches, chunks come from a `hints found` block. Not in texts */
} Settings;

/* Batches of a step. */
static inline int64_t settings_batches(const Settings *settings) {
    return settings->accumulate > 1 ? settings->accumulate : 1;
}
/* Pipeline stages; 1 where there is no pipeline. */
static inline int settings_stages(const Settings *settings) {
    return settings->stages > 1 ? (int)settings->stages : 1;
}
/* Consecutive parts of the net: with p stages, stage s has parts s, s + p, s + 2 p .. */
static inline int settings_parts(const Settings *settings) {
    const int stages = settings_stages(settings);
    return stages > 1 && settings->chunks > 1 ? stages * (int)settings->chunks : stages;
}
/* The axes that strategies can name: those of the mesh, then those of hints blocks. */
static inline int settings_naxes(const Settings *settings) {
    return settings->mesh.n + settings->hint_axes.n;
}
static inline const Axis *settings_axis(const Settings *settings, int i) {
    return i < settings->mesh.n ? &settings->mesh.at[i] : &settings->hint_axes.at[i - settings->mesh.n];
}
/* Whether a state is the average of a parameter (`ema`), its slot "w.ema". The other function: a parameter's average, -1: there is none. */
bool state_is_average(const Graph *graph, int state);
int state_average(const Graph *graph, int parameter);
/* The factor of lr, or of weight_decay, for the parameter with this path. */
double settings_scale(const Settings *settings, ScaleKind kind, const char *path);
const Axis *axis_find(const Settings *settings, const char *name); /* NULL: none */

typedef struct Dim {
    const char *name;
    int64_t size;
} Dim;

/* A value that a program reports after a step, beside the loss. */
typedef struct Report {
    const char *name; /* in an eval: "rows", "accuracy", "prediction" */
    int value;
    bool whole;  /* made whole on every rank (for its hidden slices); else it keeps its layout */
    bool writes; /* not a report: names the state that takes the value after the step; replaced by autodiff, which adds the write */
    int state;
    Span span;
} Report;

/* The interned layouts of a graph: equal layouts are one pointer. */
typedef struct LayoutTable {
    const Layout **at;
    int n, cap;
    Map map; /* of at */
} LayoutTable;

struct Graph {
    Arena *arena;
    const char *name;        /* of the net */
    const char *file;        /* source file name as given */
    VEC(const char *) files; /* names of the source files by Span.file; NULL: no file, or the first, which is file */
    int nranks;
    int replicas; /* size of the hidden dimension; 0: no hidden dimension */
    VEC(Dim) dims;
    Settings settings;
    VEC(State) states;
    VEC(Input) inputs;
    VEC(Node) nodes; /* in program order: operands come first */
    VEC(Value) values;
    /* Tables of immutable entries. A graph shares them with graphs derived from it (graph_derive): they only grow. */
    struct LayoutTable *layouts;      /* graph_layout */
    struct StrategyTable *strategies; /* graph_strategy */
    struct NameIndex *name_index;     /* names of values, so that graph_add can keep them unique */
    struct Signatures *signatures;    /* rules and attributes of nodes that are alike */
    int loss;                         /* value id, -1: none */
    VEC(Report) reports;
    int nforward; /* nodes[0 .. nforward) existed before autodiff; 0 before it has run */
};

void graph_init(Graph *graph, Arena *arena);
/* copy.c: a graph like `from`, without nodes and values, with room for so many. It has its own copies of states, inputs and reports, and shares the tables of layouts,
 * names and signatures, which only grow. */
void graph_derive(Graph *graph, const Graph *from, int nnodes, int nvalues);
void graph_copy(Graph *graph, const Graph *from); /* copy.c: the same with its nodes and values */
/* copy.c: a copy of `from` in another arena, with tables of its own; the texts and literals that they point to are not copied. */
void graph_fork(Graph *graph, const Graph *from, Arena *arena);
void graph_release(const Graph *graph); /* its nodes and values are not used any more */
int graph_add_state(Graph *graph, State state);
int graph_add_input(Graph *graph, Input input);
/* Adds a node: infers its rule and result types and makes its result values, named `name` (and name.1; NULL: the operator's name; a name
 * that a value has already gets a number: "h.grad_2"). Returns the node id, or -1 with *error filled when the operator's rule rejects the
 * operands. attr and error may be NULL; texts of attributes must live as long as the graph, the name is copied. Not for leaves.
 * Invalidates pointers into graph->nodes and graph->values. */
int graph_add(Graph *graph, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span, RuleError *error);
/* The same for operands known to fit (passes): asserts; returns the first result's value id. */
int graph_emit(Graph *graph, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span);
/* Gives a node the rule, and its results the types, that follow from its operands' types. Asserts that they fit. Not for leaves. */
void graph_retype(Graph *graph, int node);
const char *graph_file(const Graph *graph, Span span);                                   /* the name of the file that span is in, or NULL */
void graph_rename(Graph *graph, int value, const char *name);                            /* made unique as graph_add does */
int graph_read_state(Graph *graph, int state, int version, const char *name, Span span); /* value id */
int graph_write_state(Graph *graph, int state, int value, Span span);                    /* node id */
int graph_input(Graph *graph, int input);                                                /* value id of a new input node */
int graph_constant(Graph *graph, TensorType type, const double *data, double splat, const char *name, Span span); /* value id */
/* In modes data_parallel and manual: the value for each replica, through a `replicate` node; else the value itself. */
int graph_replicate(Graph *graph, int value, const char *name, Span span);
/* A gradient node of `forward`. Each operand and the result play the part of one of forward's tensors: part < MAX_IN is operand `part`,
 * part >= MAX_IN is result part - MAX_IN, PART_NONE is none of them. origin_factor follows from the parts; the factors of
 * further results are among these. Returns the first result's value id. */
enum { PART_OUT = MAX_IN, PART_NONE = -1 };
int graph_emit_gradient(Graph *graph, int forward, OpCode op, const int *in, const int *in_part, int nin, int out_part, const Attr *attr,
                        const char *name);
/* Interns: equal layouts give the same pointer. The layout is made canonical for shape first; the exact form keeps it, for the plan reader, which has no shape. */
const Layout *graph_layout(Graph *graph, const Layout *layout, const Shape *shape);
const Layout *graph_layout_exact(Graph *graph, const Layout *layout);
const Strategy *graph_strategy(Graph *graph, const Strategy *strategy); /* interns: nodes alike share theirs */
int graph_layout_number(const Graph *graph, const Layout *layout);      /* its position in graph->layouts */
/* The layout that a strategy requires for operand i, with halos where windows lie over it, or gives to result i (partial sums included). */
void strategy_in_layout(const Node *node, const Strategy *strategy, int operand, int ndim, Layout *layout);
void strategy_out_layout(const Node *node, const Strategy *strategy, int result, int ndim, Layout *layout);
void strategy_from_origin(const Node *node, const Strategy *origin, Strategy *strategy); /* derives the node's strategy from its origin's */
int graph_declared(const Graph *graph);             /* how many inputs the net declares: they come first */
int64_t graph_trainable_bytes(const Graph *graph);  /* of all parameters, whole */
int64_t graph_states_bytes(const Graph *graph);     /* of all states, whole */
int64_t graph_batch_rows(const Graph *graph);       /* rows of a batch: dimension 0 of the first input that has data; 0: there is none */
bool value_has_rows(const Graph *graph, int value); /* its first dimension is as long as the batch */
static inline bool node_is_leaf(const Node *node) {
    return op_table[node->op].op_class == OP_CLASS_LEAF;
}
static inline const Node *graph_producer(const Graph *graph, int value) {
    return &graph->nodes.at[graph->values.at[value].node];
}
/* Follows conversions back from a value to the value that they start from: itself where it is not a conversion's result. */
static inline int graph_converted(const Graph *graph, int value) {
    while (graph_producer(graph, value)->op == OP_convert)
        value = graph_producer(graph, value)->in[0];
    return value;
}
/* All reported values: the loss, if there is one, then the reports. Their number; the value of the k-th; whether it must be whole. */
static inline int graph_nreports(const Graph *graph) {
    return (graph->loss >= 0) + graph->reports.n;
}
static inline int graph_report(const Graph *graph, int k) {
    return graph->loss >= 0 && k == 0 ? graph->loss : graph->reports.at[k - (graph->loss >= 0)].value;
}
static inline bool graph_report_whole(const Graph *graph, int k) {
    return (graph->loss >= 0 && k == 0) || graph->reports.at[k - (graph->loss >= 0)].whole;
}
int graph_find_report(const Graph *graph, const char *name); /* its number; -1: there is none */
void graph_set_report(Graph *graph, int k, int value);       /* makes value the k-th reported one */
/* The forward nodes are nodes[0 .. graph_nforward). */
static inline int graph_nforward(const Graph *graph) {
    return graph->nforward > 0 ? graph->nforward : graph->nodes.n;
}
/* Whether a node belongs to the forward pass, of any micro-batch, once autodiff has run. */
static inline bool graph_is_forward(const Graph *graph, int node) {
    return node < graph->nforward || graph->nodes.at[node].micro > 0;
}
bool *graph_active(const Graph *graph, Arena *arena); /* per value of a forward node: it has a gradient; in the arena */
int *graph_uses(const Graph *graph, Arena *arena);    /* number of users of each value (each report counts as one), in the arena */

/* xxh64 of the net: the lowered graph, states, sources, replicas; independent of ranks, strategies, -O. Computed from the text by print.c. */
uint64_t graph_hash(const Graph *graph);

/* ---------------------------------------------------------------- verify.c */

/* Checks what must hold between passes: operands before users, types as the rules say, factors mapped to the origin's, layouts valid,
 * conversions that change only layouts. stage names the pass in the message. A failure is a bug of pcc (or of a plan): *error says where. */
bool graph_verify(const Graph *graph, const char *stage, Error *error);
