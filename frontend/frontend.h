/* frontend: text -> Graph.
 *
 *   lex.l, parse.y  the language's tokens and grammar (flex, bison)
 *   ast.h, ast.c    what the parser builds
 *   lower.c ...     names, types, hints checked; AST -> Graph
 */
#pragma once
#include "ir/metric.h"
#include "ir/graph.h"

/* The things that a hint can name by path, in the order of the text. */
typedef enum { PATH_OPERATOR, PATH_CALL, PATH_PARAM, PATH_INPUT, NPATHS } PathKind;
extern const char *const path_kind_name[NPATHS]; /* "operator", "call", "param", "input" */
typedef struct NamedPath {
    const char *path;
    PathKind kind;
    const char *what;  /* the operator, the cell; "" */
    const char *type;  /* f32[16, 32]; "": a call that gives a number */
    const char *value; /* the value's name in the graph; a cell's result has the name of the call */
    Span span;
} NamedPath;
typedef VEC(NamedPath) Paths;

/* A constant of the graph that has the number of rows in a batch as a factor, to this power: batch * 12 has power 1, 1.0 / batch has -1. */
typedef struct BatchNumber {
    int value, power;
} BatchNumber;
/* How the rows of a batch count in the loss, where the last batch may be filled up. The graph has the loss as written: the compiler's pass `rows`
 * applies this. */
typedef enum {
    LOSS_AS_WRITTEN, /* every row counts */
    LOSS_WEIGHED,    /* training: settings.last fills up the last batch */
    LOSS_REPORTED,   /* an eval: each row once, and what it answers */
} LossUse;
typedef struct LossRows {
    LossUse use;
    Span span; /* the block that says so */
    VEC(BatchNumber) numbers;
    int prediction;        /* LOSS_REPORTED: the value reported as the prediction; -1: the first operand of the loss */
    Span metric[NMETRICS]; /* where each is requested; line 0: it is not. Training has METRIC_PENALTY only */
    Span data;             /* LOSS_REPORTED: where the data is named */
    const char *data_name; /* "npy" */
} LossRows;

/* -D name=value and the flags that override the blocks. NULL or -1: not given. */
typedef struct Overrides {
    int ndefines;
    const char *const *define_name;
    const int64_t *define_value;
    const double *define_real; /* NULL, or per definition: its value if it is a real; NaN: define_value holds */
    int nranks;
    int replicas;      /* 0: not given */
    int micro_batches; /* replaces train's; 0: not given */
    const char *mode, *search, *dataset, *gradients, *batch_norm, *memory, *shard_states, *regather, *stages,
        *chunks;     /* as written; checked here */
    int auto_stages; /* the stages of `stages = auto`, or of a net that gives none; 0: not found yet */
    int auto_chunks; /* the chunks that were found with them; 0: as the net says */
    bool strict_divide;
    int nfolders; /* folders searched for imports that are not beside the file: -I, the installed library */
    const char *const *folder;
    int nshards; /* --shard: hints by path */
    const char *const *shard;
    const char *what_if; /* --what-if: one more; NULL: none */
    int nhint_files;     /* --hints: files that are read as if the net imported them */
    const char *const *hint_file;
    const char *length_number; /* the number of the head that has another value, for shorter texts; NULL: none */
    int64_t length;
    Paths *paths;   /* filled once the net has been read; NULL: not needed */
    LossRows *rows; /* the same, for pass `rows`; its list is in the arena */
} Overrides;

/* A net as read, with the files that it imports and those of --hints. */
typedef struct Source {
    const char *name, *text;
    const struct Block *blocks; /* ast.h */
    int file;                   /* of the net itself: its Span.file */
    VEC(const char *) files;    /* Graph.files */
} Source;
/* Reads the text, once for all programs that are made of it. False after diagnostics. */
bool frontend_read(Source *source, const char *name, const char *text, size_t n, const Overrides *overrides, Arena *arena, Diags *diags);
/* Builds the net's forward graph (inputs, states, constants, operators, loss; in mode data_parallel with the hidden dimension and
 * replicate nodes), its states with initial values, its data source and settings. Composite operators are still one node. The loss value
 * is graph->loss, as written: overrides->rows says how the compiler changes it. False after diagnostics; never crashes; uses memory
 * within a small multiple of the text and of the expansion of loops and cells, which is limited (MAX_NODES, MAX_WORK). */
bool frontend_train(const Source *source, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags);
/* Builds the net for its eval block (where graph->settings.has_eval of the net): with that block's batch and data, forward only. The states are the
 * net's, in their order. */
bool frontend_eval(const Source *source, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags);
/* What the generate block says about the net: the input that is text, and the value with a number for each possible next token. */
typedef struct Generation {
    int text, logits; /* input, value of the graph */
    int64_t chunk;    /* places of a prompt that are read at once */
    Span span, logits_span;
} Generation;
/* Builds the net for that block (where graph->settings.has_generate of the net), forward only: for one row, with all places of the text at once. */
bool frontend_generate(const Source *source, const Overrides *overrides, Generation *generation, Graph *graph, Arena *arena, Diags *diags);
/* frontend_read and frontend_train. */
bool frontend_compile(const char *name, const char *text, size_t n, const Overrides *overrides, Graph *graph, Arena *arena, Diags *diags);

/* Appends the text in its standard form to *out: the same tokens and comments in the same order, with other white space. False after diagnostics,
 * where the text has syntax errors. */
bool frontend_format(const char *name, const char *text, size_t n, Text *out, Arena *arena, Diags *diags);
