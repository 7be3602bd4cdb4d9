/* Graphs: what a net computes, with its strategies, layouts, states, inputs and settings. */
#pragma once
#include "ir/map.h"
#include "ir/op.h"

/* ---------------------------------------------------------------- graph.c */

/* The digits that split each factor of a node, major first: factor f's are digit[start[f]] .. digit[start[f + 1] - 1]. Zeroed: none. No digit twice. */
typedef struct Strategy {
    int nfactors;
    Pin pin; /* of the ranks that run the operator: its tensors are pinned so */
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
    const CellCall *call; /* in which stands what the hint is for; NULL: in the net */
    bool named;
    int nin; /* tuples given; may be wrong: checked in strategies */
    HintTuple in[8];
    int nout; /* 0 or 1: "-> (8, 1)" */
    HintTuple out;
    int at; /* of a state: it lies on this rank alone, counted from 1 (`at(0)`); 0: on all */
} Hint;

/* `stage 2`: which stage of a pipeline runs an operator. */
typedef struct StageHint {
    int stage; /* from 0 */
    Span span;
    const CellCall *call; /* in which it stands; NULL: in the net, or in hints */
} StageHint;

/* `layer.* = regather;`: what is gathered of the parameters and of the results of operators within the path is dropped after the forward pass, and gathered again. */
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
    int8_t origin_factor[MAX_FACTORS]; /* for each own factor that of the origin, or -1: whole */
    const Hint *hint;                  /* or NULL */
    StrategyFrom from;
    const Strategy *strategy; /* NULL until propagate */
    const double *data;       /* op constant: elements in row-major order, or NULL: all equal to attr value */
    int state;                /* op read, write: state id; op input: input id; else -1 */
    int version;              /* op read: 0 before the step's write of that state, 1 after it */
    bool recompute; /* a forward node whose results are not kept: gradients take those of a copy (compiler/recompute.c). Not in texts */
    const RegatherHint *
        regather; /* a forward node: what is gathered of its results is gathered again for gradients; NULL: as the settings say. Not in texts */
    int copy_of; /* computes once more what this node does; 0: none, as node 0 is a leaf */
    int micro;   /* accumulate: a copy of the forward node `origin` for this batch of the step; 0: none. Not in texts */
    int stage; /* the part of the net that it is of, from 1, which says the ranks that run it (stage_pin); 0: all ranks do. Of forward nodes, behind pass stages. Not in texts */
    const StageHint *asked; /* a forward node: the stage that the user, or `hints found`, wants it in; NULL: any. Not in texts */
    int update;             /* part of the update of state `update` - 1, which lies as that does; 0: of none. Not in texts */
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

/* A value that outlives a step: a parameter, a slot of its optimizer, a const that a file holds. */
typedef struct State {
    const char *name; /* "w"; optimizer slots "w.momentum" */
    TensorType type;  /* never hidden */
    Init init;
    bool trainable;   /* a parameter */
    bool written;     /* a state of the net, which the forward pass writes */
    bool cache;       /* of a program that generates: what it keeps of the places so far; no other program has it, and no file */
    int parameter;    /* for a slot: the state id of its parameter; else its own id */
    IndexRange index; /* integers of a const: the valid indices where it is used as an index, as of Input */
    Span span;
    const Hint *hint;     /* user's storage strategy: hint->in[0] */
    const Layout *layout; /* storage layout, NULL until assign */
} State;

/* A const that a file holds: read when training begins, written by nothing, in no checkpoint. */
static inline bool state_is_const(const State *state) {
    return !state->trainable && state->init.kind == INIT_FILE;
}

/* Saved with the parameters: what training found out. Slots are in checkpoints alone. */
static inline bool state_is_own(const State *state) {
    return state->trainable || state->written;
}

/* Files of rows: the first dimension of what they hold counts rows. FILE_NORMAL, FILE_UNIFORM: no file, random numbers for each row of the other inputs' files. */
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
extern const char *const file_element_name[NFILE_ELEMENTS]; /* what a raw file may hold: "u8", .. "bf16" */
static inline bool file_has_pictures(FileFormat format) {
    return format == FILE_CIFAR10 || format == FILE_PICTURES;
}
static inline bool file_is_drawn(FileFormat format) {
    return format == FILE_NORMAL || format == FILE_UNIFORM;
}
/* CSV: a field that is missing is an error; has its whole row left out; is the mean of its column in the rows of training; is a number. */
typedef enum { MISSING_ERROR, MISSING_DROP, MISSING_MEAN, MISSING_FILL, NMISSINGS } Missing;
extern const char *const missing_name[NMISSINGS];
/* CSV: what an input has of a column of texts: the numbers of their tokens; 1 where there is one and 0 behind the last; 0, which tells the first of two texts. */
typedef enum { TOKENS_NONE, TOKENS_IDS, TOKENS_MASK, TOKENS_TYPES, NTOKEN_PARTS } TokenPart;
extern const char *const token_part_name[NTOKEN_PARTS];
/* What makes tokens of a text: BERT's vocabulary; each byte is one; each character, whose number is its place in an alphabet. */
typedef enum { TOKENIZER_WORDPIECE, TOKENIZER_BYTES, TOKENIZER_CHARACTERS, NTOKENIZERS } Tokenizer;
extern const char *const tokenizer_name[NTOKENIZERS];
enum { MAX_CLASS_BYTES = 256 }; /* of a label's name */
/* What is made of the numbers of a row: (number * scale - mean) / deviation. */
enum { MAX_CHANNELS = 16 };
typedef struct RowChange {
    bool one_hot;     /* an integer of the file is as many elements as the input's last dimension has: 1 at its place, else 0 */
    bool standardize; /* mean and deviation are those of the rows of training, of each element of a row */
    double scale;     /* 0: 1 */
    int nmeans;       /* given: none; one for all; or one for each index of the row's first dimension, a channel */
    double mean[MAX_CHANNELS], deviation[MAX_CHANNELS];
} RowChange;
enum { MAX_PICTURE_SIDE = 1 << 14 };
/* How a picture becomes one of the input's size: it is resized, gets a border, a part is cut out, which may be flipped; last it is resized to the input's size. 0: not that. */
typedef struct PictureChange {
    bool label;                 /* the input has the picture's class, not the picture */
    bool flip;                  /* left and right change sides, of every second picture by chance */
    bool random;                /* the part is cut out at a place that chance says, and flip holds; else in the middle */
    int64_t pad;                /* zeros around it */
    int64_t resize[2], crop[2]; /* height and width. resize[1] 0: the shorter side, in proportion */
} PictureChange;
typedef struct DataFile {
    FileFormat format;
    const char *path;    /* the source's directory joined; relative to where prun is started, else beside the plan. NULL: it is drawn */
    int64_t seed;        /* where it is drawn */
    int64_t first, rows; /* those of its rows that are used: from this one on, so many; 0: all behind it */
    int64_t column;      /* CSV: first column, behind that of this name; as many as a row has elements. -1: the last column, and so on */
    const char *heading; /* CSV: the name of a column, in the first line; NULL or "": columns are counted from the first */
    int separator;       /* CSV: the character between columns; 0: the comma, semicolon or tab of which the first line has most */
    Missing missing;
    double fill; /* MISSING_FILL: the number */
    /* CSV, folders of pictures: the names of labels 0, 1, .., one a line; NULL or "": the column holds numbers; the folders' names in their order. */
    const char *classes;
    bool find_classes; /* CSV: these names are those of the column, in order */
    TokenPart tokens;
    const char *vocabulary; /* of texts: the path of the tokens' list, as path; of characters: the alphabet itself */
    Tokenizer tokenizer;
    bool lowercase;   /* of wordpiece: without capitals and accents */
    bool lengths;     /* its texts may be of several lengths: Settings.lengths. Not in texts */
    RowChange change; /* of any format */
    PictureChange picture;
    int64_t offset; /* raw: elements before the first row; then a last row that is not whole is left out. -1: none, rows fill the file */
    const char *stored; /* raw: a file_element_name, little-endian; NULL: as the input's */
} DataFile;
/* Where an input's elements come from: the data source; 1 for rows of the data and 0 for rows that fill up a last batch; of the optimizer, one number
 * each: what the schedule multiplies the learning rate by at this update, and the number of the update, from 1.; uniform in [0, 1), of the whole tensor's index and
 * another at each update and batch of a step: random. Of a program that generates: the tokens that stand at the step's places, and the places, from 0. */
typedef enum { INPUT_DATA, INPUT_ROW_WEIGHT, INPUT_RATE, INPUT_UPDATE, INPUT_RANDOM, INPUT_TOKEN, INPUT_PLACE, NINPUT_KINDS } InputKind;
static inline bool input_is_of_batch(InputKind kind) {
    return kind == INPUT_DATA || kind == INPUT_ROW_WEIGHT;
}
/* Of the places of a text: whole on every rank. */
static inline bool input_is_text(InputKind kind) {
    return kind == INPUT_TOKEN || kind == INPUT_PLACE;
}
/* What the data source fills at every step, box by box. */
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
    IndexRange index; /* integers: the range to draw elements from so that indices made of them are valid; unknown: not used as an index */
    DataFile file;    /* DATA_FILES: where its rows are */
    int micro, of;    /* accumulate: which of the step's batches it holds, 0 the first; of others the input that holds the first */
    /* random: 1 + the dimension in which the rows of the batch are, 0: it has none. The numbers of a row go by its place in the epoch, whichever rank has the row. */
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
/* Whether a net is written for one rank, and its tensors have the hidden dimension. */
static inline bool mode_hides(Mode mode) {
    return mode == MODE_DATA_PARALLEL || mode == MODE_MANUAL;
}
typedef enum { DATASET_AUTO, DATASET_DATA_PARALLEL, DATASET_FULL_BATCH, DATASET_EXPLICIT } Dataset;
typedef enum { DATA_NONE, DATA_NUMPY_RAND, DATA_PER_RANK, DATA_FILES, DATA_NORMAL, DATA_UNIFORM, NDATA_KINDS } DataKind;
/* Whether each step has a batch of its own, which is brought while the step before runs. */
static inline bool data_rows_change(DataKind kind) {
    return kind == DATA_FILES || kind == DATA_NORMAL || kind == DATA_UNIFORM;
}
/* The treatment of the rows of an epoch that fill no whole batch: left out; filled up, the mean still over the batch; filled up, the mean over the rows
 * that are there. Rows that only fill up weigh nothing. */
typedef enum { LAST_DROP, LAST_PAD, LAST_SHORT, NLASTS } Last;
extern const char *const last_name[NLASTS];
/* The rows of an epoch that the processes which share a batch cannot have equally many of, before batches are made of them: each counts once; as many of the first ones come once more, and
 * count, as make the shares equal; they are left out. */
typedef enum { UNEVEN_JOIN, UNEVEN_PAD, UNEVEN_DROP, NUNEVENS } Uneven;
extern const char *const uneven_name[NUNEVENS];
/* The rows of the files shared out among several parts, of which a program has one, in an order that the seed gives. */
enum { MAX_SHARES = 8 };
typedef struct RowSplit {
    int nshares, part;        /* nshares 0: all rows; part from 0 */
    double share[MAX_SHARES]; /* they sum to 1 */
    bool test;                /* of two: the second is rounded up (scikit-learn's train_test_split), else as torch's random_split rounds */
    int64_t seed;             /* of torch.randperm */
} RowSplit;
extern const char *const dataset_name[], *const data_name[], *const optimizer_name[]; /* by Dataset, DataKind, OptimizerKind */
typedef enum { EVAL_NEVER, EVAL_EPOCH, EVAL_STEPS, EVAL_END, NEVALS } EvalWhen;
extern const char *const eval_name[NEVALS];
/* Whether training stops when the loss, or a parameter to be saved, is nan or infinite. */
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
    OPTIMIZER_LAZY_ADAM, /* of tables that are only looked up, by the rows that occur; adam of the others */
    OPTIMIZER_ADAFACTOR,
    NOPTIMIZERS
} OptimizerKind;
/* Parameters whose paths match the pattern have so many times the learning rate, or the weight decay, of the optimizer; of several lines that match the last holds. */
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
/* What ranks that would hold equal copies share among them, each a part: nothing; the optimizer's slots (ZeRO stage 1); gradients too, each batch of a step's (stage 2); the
 * parameters too (stage 3). */
typedef enum { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS, NSHARDS } ShardStates;
extern const char *const shard_states_name[NSHARDS];
/* What is gathered for the forward pass, dropped, and gathered again for the backward pass: nothing, parameters, all values of the forward pass. */
typedef enum { REGATHER_NONE, REGATHER_PARAMETERS, REGATHER_ALL, NREGATHERS } Regather;
extern const char *const regather_name[NREGATHERS];
/* The learning-rate schedule: schedule_rate. */
typedef struct Schedule {
    ScheduleKind kind;
    int64_t warmup; /* updates in which it rises from 0; 0: none */
    double end;     /* linear, cosine, polynomial: what it ends with, as a share of the optimizer's lr */
    double power;   /* polynomial */
    double gamma;   /* step, multistep: what each of their steps multiplies by */
    int64_t every;  /* step: so many units lie between two */
    int nmilestones;
    int64_t milestone[MAX_MILESTONES]; /* multistep: units that are over when it steps, ascending */
    ScheduleUnit unit;                 /* step, multistep */
} Schedule;
extern const char *const mode_name[NMODES];

/* Evaluations are compared by a metric: whose checkpoint stays (`checkpoint .. best f1`), and when training ends early (`early_stop f1 patience 3;`). */
typedef enum { WATCH_BEST, WATCH_STOP, NWATCHES } WatchKind;
typedef struct Watch {
    const char *metric; /* "loss", or as metrics are printed: "f1_macro"; NULL: nothing is watched */
    int64_t patience;   /* evaluations without a better one that end the training; of WATCH_STOP */
    double delta;       /* only what is better by more than this is better; of WATCH_STOP */
    Span span;          /* not in texts */
} Watch;

/* `assert comm < 2 MiB;`: what a plan must keep to. comm: bytes that the busiest rank sends in a step; memory: bytes of a rank; time: predicted seconds of a step. */
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
    const char *path; /* a pattern: what it names, and all within it; NULL: everywhere */
    Span span;
} Forbidden;

/* A line of a `hints found` block (pcc --write-hints): what the operators, states and inputs that the pattern matches have where nothing else is asked of them. Names
 * are those of the net that strategies are chosen for, parts of composite operators too. */
typedef struct FoundHint {
    const char *path;
    const Hint *hint;       /* or NULL */
    const StageHint *stage; /* of an operator; else NULL */
    bool recompute;         /* of an operator: its results are not kept */
    Span span;
} FoundHint;

#define BUCKET_BYTES ((int64_t)25 << 20) /* DDP's default */
#define TOLERANCE_USUAL 0.0225
#define SHARD_BYTES ((int64_t)256 << 10) /* of a state, whatever the number of ranks: below, one copy costs less than two messages */
/* What the train and parallel blocks say, after flags and defaults. */
/* The order of the batches of a step in stages: each backward pass as soon as it can be; all forward passes before the first backward pass; as the first, of stages that have several parts
 * of the net (compiler/tasks.c). */
typedef enum { PIPELINE_1F1B, PIPELINE_GPIPE, PIPELINE_INTERLEAVED, NPIPELINES } Pipeline;
/* Places of texts: the net is compiled for each length, as with a -D of this number of its head (`length = [32, 64, 128]` of a csv). Not in texts. */
enum { MAX_LENGTHS = 6 };
typedef struct TextLengths {
    int n;                   /* 0: of one length */
    int64_t at[MAX_LENGTHS]; /* ascending; the last is what the number is */
    const char *number;
    Span span;
} TextLengths;

typedef struct Settings {
    Mode mode;
    const char *search; /* "auto" */
    Span search_span;   /* where it is said; line 0: nowhere */
    Dataset dataset;
    const Hint *dataset_hint; /* DATASET_EXPLICIT: hint->in[i] for input i */
    Span dataset_span;
    bool gradients_mean;    /* data_parallel: mean (else sum) */
    bool batch_norm_global; /* data_parallel: batch_norm is over all replicas' rows. Not in texts: operators say it */
    int64_t bucket_bytes;   /* gradients reduced in one communication: up to so many, 0: each alone */
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
    /* sgd, momentum, adam: added to the gradient, times the parameter; lamb: to the direction; adamw, lion, adafactor: shrinks the parameter; 0: none */
    double weight_decay;
    bool ema; /* every parameter has an average, which decays by ema_decay a step */
    double ema_decay;
    bool averages;     /* an eval takes these averages in place of the parameters */
    VEC(Scale) scales; /* of lr and weight_decay, by parameter */
    Schedule schedule;
    int64_t accumulate;    /* batches of a step, whose gradients are averaged; 0, 1: one */
    int64_t micro_batches; /* parts in which each of them is taken, which accumulate counts; 0, 1: it is whole. Not in texts */
    Span micro_span;       /* where it is said; line 0: it is not */
    double clip;           /* gradients are scaled down so that their norm, of all together, is at most this; 0: they are not */
    bool grad_norm;        /* a step reports the norm of all gradients, before they are clipped. Not in texts: the report is */
    bool noise_scale;      /* and, of replicas, what their norms say of its noise. Not in texts either */
    int64_t epochs, steps,
        log_every;   /* epochs 0: no training; steps 0: as many as an epoch of the data has; log_every 0: every step, MindSpore's line */
    DType precision; /* of the factors of products: F32, as they are; F16, BF16: pass precision */
    double
        loss_scale; /* precision F16: what the loss is multiplied by for gradients, at first. Not in texts: the state's initial value says it */
    DType compress; /* of gradients on their way between ranks: BF16, or F32, as they are. Not in texts: the operator compress says it */
    OnNan on_nan;
    bool log_from_zero;             /* lines of losses, and log_every, count epochs and steps from 0 */
    const char *log;                /* template of the line of a loss; NULL or "": MindSpore's line */
    int64_t log_rank;               /* whose losses it prints; -1: all ranks' */
    bool has_eval;                  /* there is an eval block */
    bool has_generate;              /* there is a generate block */
    double temperature;             /* generate: what logits are divided by; 0: the most likely token is taken */
    int64_t top_k;                  /* generate: how many of the most likely tokens are drawn from; 0: all */
    int64_t draw_seed;              /* generate: of the tokens that are drawn */
    int64_t end;                    /* generate: the token behind which nothing follows; -1: none */
    const char *alphabet;           /* generate: the characters of token 0, 1, .., UTF-8; "": tokens are bytes; NULL: they are numbers */
    EvalWhen eval;                  /* when a training is interrupted for the program eval */
    int64_t eval_steps;             /* EVAL_STEPS: after so many steps each */
    bool checkpoint_epochs;         /* checkpoint every epoch */
    int64_t checkpoint_steps, keep; /* every so many steps, 0: not; how many checkpoints stay, 0: all */
    bool checkpoint_per_rank;       /* each rank writes its own slices, into a file of its own */
    Watch watch[NWATCHES];
    bool restore_best; /* training ends with the states of the best checkpoint */
    bool strict_divide;
    int64_t memory_bytes;     /* that a rank may need, 0: not said. Not in texts */
    double tolerance;         /* by what part a step may be predicted to take longer than the fastest where it sends less. Not in texts */
    Span memory_span;         /* where it is said */
    ShardStates shard_states; /* with its fields of states from shard_bytes on. Not in texts: layouts say it */
    int64_t shard_bytes;
    bool shard_states_given, regather_given, shard_from_given, bucket_given; /* by the user: they stay */
    Regather regather;                                                       /* not in texts */
    double regather_share;                                                   /* of the parameters, those first in the net; 0: all */
    int64_t cut_bytes; /* of a rank: that the cuts of stages keep to, as far as they count them; 0: the limit */
    int64_t stages;    /* of the ranks, one behind the other; 0, 1: one. Not in texts: roles and layouts say it */
    bool stages_auto;  /* they are to be found. Not in texts */
    int64_t chunks;    /* parts of the net that each stage has; 0, 1: one. Not in texts */
    Pipeline pipeline; /* the order of the batches of a step in the stages */
    Span stages_span, chunks_span, pipeline_span; /* where they are said; line 0: they are not */
    bool recompute_none;                          /* no value is computed again but where the user says so. Not in texts */
    VEC(Assertion) asserts;                       /* not in texts */
    VEC(Forbidden) forbids;
    MeshAxes hint_axes;                  /* of the meshes of hints blocks. Not in texts */
    VEC(const RegatherHint *) regathers; /* all that were read. Not in texts */
    VEC(FoundHint) found;                /* of `hints found` blocks, in their order. Not in texts */
    bool micro_found, chunks_found;      /* micro_batches and chunks are said by a `hints found` block. Not in texts */
} Settings;

/* Batches of a step. */
static inline int64_t settings_batches(const Settings *settings) {
    return settings->accumulate > 1 ? settings->accumulate : 1;
}
/* Parts of the ranks, and of the net; 1 where there is no pipeline. */
static inline int settings_stages(const Settings *settings) {
    return settings->stages > 1 ? (int)settings->stages : 1;
}
/* Parts of the net, each behind the one before it: stage s has parts s, s + p, s + 2 p .. of p stages. */
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
/* The average of a parameter (`ema`): a slot of it, "w.ema". Of a parameter its average, -1: there is none. */
bool state_is_average(const Graph *graph, int state);
int state_average(const Graph *graph, int parameter);
/* The factor of lr, or of weight_decay, of the parameter of this path. */
double settings_scale(const Settings *settings, ScaleKind kind, const char *path);
const Axis *axis_find(const Settings *settings, const char *name); /* NULL: none */

typedef struct Dim {
    const char *name;
    int64_t size;
} Dim;

/* A value that a program gives after a step, beside the loss. */
typedef struct Report {
    const char *name; /* of an eval: "rows", "accuracy", "prediction" */
    int value;
    bool whole;  /* every rank has all of it (of its hidden slices); else it is left as it lies */
    bool writes; /* not a report: the state of the net that takes the value after the step; until autodiff, which writes it */
    int state;
    Span span;
} Report;

/* The layouts of a graph, each once: equal layouts are one pointer. */
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
    /* Tables of what never changes. A graph shares them with those derived from it (graph_derive): they only grow. */
    struct LayoutTable *layouts;      /* graph_layout */
    struct StrategyTable *strategies; /* graph_strategy */
    struct NameIndex *name_index;     /* names of values, so that graph_add can keep them unique */
    struct Signatures *signatures;    /* rules and attributes of nodes that are alike */
    int loss;                         /* value id, -1: none */
    VEC(Report) reports;
    int nforward; /* nodes[0 .. nforward) existed before autodiff; 0 before it has run */
};

void graph_init(Graph *graph, Arena *arena);
/* copy.c: a graph like `from`, without nodes and values, with room for so many. Its states, inputs and reports are its own; it shares the tables of layouts,
 * names and signatures, which only grow. */
void graph_derive(Graph *graph, const Graph *from, int nnodes, int nvalues);
void graph_copy(Graph *graph, const Graph *from); /* copy.c: the same with its nodes and values */
/* copy.c: a copy of `from` in another arena, with tables of its own; what they hold, texts and literals, stays where it is. */
void graph_fork(Graph *graph, const Graph *from, Arena *arena);
void graph_release(const Graph *graph); /* its nodes and values are used no more */
int graph_add_state(Graph *graph, State state);
int graph_add_input(Graph *graph, Input input);
/* Adds a node: infers its rule and result types and makes its result values, named `name` (and name.1; NULL: the operator's name; a name
 * that a value has already gets a number: "h.grad_2"). Returns the node id, or -1 with *error filled when the operator's rule rejects the
 * operands. attr and error may be NULL; texts of attributes must live as long as the graph, the name is copied. Not for leaves. Pointers
 * into graph->nodes and graph->values do not survive it. */
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
/* In modes data_parallel and manual the value for each replica, through a `replicate` node; else the value itself. */
int graph_replicate(Graph *graph, int value, const char *name, Span span);
/* A gradient node of `forward`. Each operand and the result play the part of one of forward's tensors: part < MAX_IN is operand `part`,
 * part >= MAX_IN is result part - MAX_IN, PART_NONE is none of them. origin_factor follows from the parts; further results
 * have the factors of these. Returns the first result's value id. */
enum { PART_OUT = MAX_IN, PART_NONE = -1 };
int graph_emit_gradient(Graph *graph, int forward, OpCode op, const int *in, const int *in_part, int nin, int out_part, const Attr *attr,
                        const char *name);
/* Interns: equal layouts give the same pointer. Made canonical for shape first; exact: as it is, for the plan reader, which has no shape there. */
const Layout *graph_layout(Graph *graph, const Layout *layout, const Shape *shape);
const Layout *graph_layout_exact(Graph *graph, const Layout *layout);
const Strategy *graph_strategy(Graph *graph, const Strategy *strategy); /* interns: nodes alike share theirs */
int graph_layout_number(const Graph *graph, const Layout *layout);      /* its position in graph->layouts */
/* The layout that a strategy needs of operand i, with halos where windows lie over it, or gives to result i (partial sums included). */
void strategy_in_layout(const Node *node, const Strategy *strategy, int operand, int ndim, Layout *layout);
void strategy_out_layout(const Node *node, const Strategy *strategy, int result, int ndim, Layout *layout);
void strategy_from_origin(const Node *node, const Strategy *origin, Strategy *strategy); /* by way of its origin's */
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
/* The value that the conversions before a value start from: itself where it is no conversion's result. */
static inline int graph_converted(const Graph *graph, int value) {
    while (graph_producer(graph, value)->op == OP_convert)
        value = graph_producer(graph, value)->in[0];
    return value;
}
/* What is reported: the loss, if there is one, then the reports. Their number; the k-th one's value; whether it must be whole. */
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
void graph_set_report(Graph *graph, int k, int value);       /* makes value what is reported as the k-th one */
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

/* xxh64 of the net: the lowered graph, states, sources, replicas; not of ranks, strategies, -O. Computed from text by print.c. */
uint64_t graph_hash(const Graph *graph);

/* ---------------------------------------------------------------- verify.c */

/* What must hold between passes: operands before users, types as the rules say, factors mapped to the origin's, layouts valid, conversions
 * only of layouts. stage names the pass in the message. A failure is a bug of pcc (or of a plan): *error says where. */
bool graph_verify(const Graph *graph, const char *stage, Error *error);
