/* Lowering: the syntax tree -> Graph. Shared by the files below; frontend.h is what the rest of the compiler sees.
 *
 *   names.c     names of numbers and tensors
 *   number.c    numbers: sizes, attributes, settings
 *   types.c     types, literals, initial values
 *   shard.c     strategies as written -> Hint; the mesh
 *   express.c   tensor expressions -> nodes
 *   subscript.c x[0], x.T, x ** 2
 *   einsum.c    einsum("ij,jk->ik", a, b): the operators that it stands for
 *   manual.c    all_reduce(x, sum): the communications of mode manual; ranks.c: each rank's numbers, groups
 *   foreign.c   names from other frameworks
 *   cells.c     calls of cells: their bodies expanded under a path
 *   loops.c     for, if, let: bodies expanded
 *   imports.c   files that a file imports; one list of blocks
 *   patterns.c  hints by path
 *   parallel.c  the parallel block, and the flags that override it
 *   eval.c      the eval block; generate.c: the generate block
 *   train.c     the train block; data.c: where inputs come from; optimizer.c: how parameters change
 *   lower.c     the net; frontend_compile
 *
 * A function that returns bool returns false after a diagnostic. */
#pragma once
#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "ir/map.h"

typedef struct Number {
    bool real;
    int64_t i; /* not real */
    double f;  /* the value, in either case */
    int power; /* the power of the batch's rows in it: batch * 12 has 1, 1.0 / batch has -1. Tells an eval what belongs to a batch, not to a row */
} Number;

typedef enum {
    SYMBOL_AHEAD,  /* some statement below defines it */
    SYMBOL_PASSED, /* a branch that was not taken defines it */
    SYMBOL_GONE,   /* a loop that has ended defined it */
    SYMBOL_OPEN,   /* its definition is being read: a use there is a mistake */
    SYMBOL_FAILED, /* its definition was an error, which has been reported */
    SYMBOL_NUMBER,
    SYMBOL_INPUT,
    SYMBOL_PARAM,
    SYMBOL_CONST,
    SYMBOL_STATE,
    SYMBOL_VALUE,
} SymbolKind;

typedef struct Symbol {
    const char *name;
    SymbolKind kind;
    Number number; /* SYMBOL_NUMBER */
    int value;     /* tensors: value id, as operators see it (hidden in data_parallel) */
    int block;     /* nesting depth of its definition in blocks (for, if) */
    Span span;     /* of the name in its definition; SYMBOL_AHEAD: of the first one */
} Symbol;

/* Pointers to symbols last until the next insertion. */
typedef struct Names {
    VEC(Symbol) symbols;
    Map map;
} Names;

/* The value of an expression: a tensor, or a number, which becomes a tensor beside one. */
typedef struct Operand {
    const Expr *expr;
    int value; /* value id; -1: a number */
    Number number;
} Operand;

/* A strategy as written, and the scope in which its numbers and axes are looked up. */
typedef struct Given {
    const Shard *shard;
    int file;
    Names names;
    bool flag; /* from the command line: overrides what files say */
} Given;

/* A hint by path: from a hints block, --shard, or after the call of a cell. */
typedef struct PathHint {
    const char *pattern; /* complete: after a call, the call's path precedes what was written */
    Span span;           /* of the pattern */
    Given given;
    const StageHint *stage; /* `stage 2`; else NULL */
    const RegatherHint *regather;
    bool matched;
} PathHint;

/* Something that a hint can name. */
typedef struct Hintable {
    const char *const *name; /* its path; an operator with several results has one for each */
    int nnames;
    PathKind kind;
    const char *what;             /* the operator, the cell */
    int id;                       /* value, state, input; for a call its first result, -1: a number, or not known yet */
    bool recompute;               /* an operator, a call: its results are recomputed for gradients */
    const StageHint *stage;       /* likewise: the stage that runs it; NULL: not given */
    const RegatherHint *regather; /* an operator, a parameter: its gathered copies are gathered again; NULL: not given */
    bool stage_flag;              /* the stage is from the command line */
    Span span;
} Hintable;

/* What becomes of an expression's value: the name of its outermost result (NULL: it is an operand), and the strategy written at that operator (or NULL).
 * The statement looks up the hints for a result with a name. */
typedef struct Outcome {
    const char *name;
    const Given *own;
} Outcome;

/* The call of a cell that is being lowered. */
typedef struct Frame {
    const Block *cell;
    Span span;            /* of the call */
    const char *path;     /* of the call */
    const CellCall *call; /* the same, for diagnostics after the frame has ended */
    const Given *given;   /* its strategy, NULL: none */
    bool given_used;
    bool returned;
    int nresults;
    Operand results[MAX_OUT];
    struct Frame *outer; /* NULL: the net calls */
    Names names;         /* the caller's, as are the following */
    const char *prefix, *suffix, *caller;
    int block, loops, nlocals, wanted;
} Frame;

typedef VEC(const char *) Strings;

/* A number of the net's head that has another value in the eval. */
typedef struct EvalNumber {
    const char *name;
    Number number;
    Span span;
    bool used;
} EvalNumber;

/* Mode manual: a named group of ranks. */
typedef struct RankGroup {
    const char *name;
    const Expr *list; /* of its ranks, in the text of file */
    int file;
    Span span;
    int *place; /* of each rank in the group, -1: it is not in it */
    int size;
} RankGroup;

/* Mode manual: a send, to be matched with a recv. */
typedef struct Sent {
    int value;
    const int *to; /* per rank its receiver, -1: it sends nothing */
    Span span;
    bool received;
} Sent;

typedef struct Lower {
    Graph *graph;
    Arena *arena;
    Diags *diags;
    const Overrides *overrides;
    int file;              /* that is being lowered: the source, or the text of a flag */
    const char *text;      /* of the source */
    const char *directory; /* of the source, with its '/', or "" */
    Names names;           /* of the net, or of the cell that is being lowered */
    Names globals;         /* numbers of files: let at their top */
    Names cells;           /* Symbol.value: index into cell */
    VEC(const Block *) cell;
    VEC(Names) spare;    /* tables of cells that have returned, empty */
    Strings locals;      /* names defined in the blocks (for, if) that are open, in order */
    const char *prefix;  /* path of the cell that is being lowered, with its '.', or "" */
    const char *suffix;  /* indices of the loops around, ".0.3", or "" */
    const char *path;    /* of the statement that is being lowered: calls inside its expression stand below it */
    Frame *frame;        /* NULL: in the net itself */
    int block, loops;    /* blocks and loops around, in the net or the cell */
    int depth;           /* of calls, blocks and expressions together */
    int64_t work;        /* expressions and statements lowered in loops and cells */
    int noted;           /* number of diagnostics that have their chain of calls */
    Names paths;         /* of numbered calls, of parameters */
    VEC(Hintable) known; /* what hints can name */
    VEC(PathHint) hints;
    int64_t compared;    /* patterns with paths */
    const Expr *dataset; /* explicit dataset strategy, read after the inputs are known; NULL: none */
    int dataset_file;
    bool hidden; /* modes data_parallel and manual: tensors have the hidden dimension */
    bool manual; /* mode manual: parameters and states have it too */
    int rank;    /* mode manual: the value that holds each rank's number */
    VEC(RankGroup) groups;
    VEC(Sent) sent;
    int nresults;      /* results that the outermost operator of the statement must have */
    bool full;         /* the net has as many nodes as it may have */
    bool warned_shard; /* warned that strategies have no effect in this mode */
    bool warned_stage; /* warned that stages have no effect */
    int64_t nstages;   /* as given, also on one rank; 0: not given, or searched for */
    const Block *blocks;
    Span loss_span; /* line 0: no loss yet */
    BlockKind of;   /* the block that the net is lowered for: train, eval or generate */
    bool eval;      /* not for train */
    VEC(EvalNumber) eval_numbers;
    const Block *net;   /* whose numbers these may be */
    const Block *train; /* the block whose remaining rows an eval may use; NULL: there is none */
    int64_t micro;      /* parts into which a batch is divided */
    const char *batch;  /* the number of the net's head that is the batch's rows: the first input's first size; NULL: none */
    LossRows rows;
    const Expr *predict;                 /* what the eval block calls the prediction, or NULL */
    const Expr *text_name, *logits_name; /* of the generate block, or NULL */
    Generation generation;
} Lower;

/* Switches to another file: file, text, directory. lower_leave takes what it returns, and switches back. */
typedef struct SourcePlace {
    int file;
    const char *text, *directory;
} SourcePlace;
SourcePlace lower_enter(Lower *lower, int file, const char *directory);
void lower_leave(Lower *lower, SourcePlace place);

static inline Span lower_span(const Lower *lower, Loc loc) {
    return span_of(lower->file, loc);
}

/* ---------------------------------------------------------------- names.c */

Symbol *names_find(const Names *names, const char *name);           /* or NULL */
Symbol *names_insert(Names *names, Arena *arena, const char *name); /* a name that is not there; SYMBOL_AHEAD */
/* Defines name; false when it has a definition already. The symbol is SYMBOL_OPEN until the caller says what it is, or
 * that its definition failed. */
bool names_define(Lower *lower, const char *name, Loc loc, Symbol **symbol);
/* The same for an assignment: in a block (for, if) it may give a name from outside a new value; then the symbol is still the old one. */
bool names_assign(Lower *lower, const char *name, Loc loc, Symbol **symbol);
/* The definition that a name stands for, or NULL; of this net or cell, else of the file. */
const Symbol *names_look(const Lower *lower, const char *name);
/* The definition that a name in an expression stands for, or NULL after a diagnostic (none for SYMBOL_FAILED). */
const Symbol *names_use(Lower *lower, const char *name, Loc loc);
void note_defined(Lower *lower, const Symbol *symbol); /* "w is declared f32[31, 16] here" */
/* The value of an enumeration that the user wrote, or -1 after a diagnostic with the nearest and with all names.
 * what: "mode". value: a NAME. */
int choice(Lower *lower, const char *what, const Expr *value, const char *const *names, int n);

/* ---------------------------------------------------------------- number.c */

/* An expression of numbers and names of numbers. Integers stay integers; their division must be exact. */
bool number_eval(Lower *lower, const Expr *expr, Number *number);
bool number_combine(Lower *lower, const Expr *expr, Number left, Number right, Number *number); /* EXPR_BINARY */
bool number_negate(Lower *lower, const Expr *expr, Number *number);
/* The same within limits; what: "steps", for messages. */
bool integer_eval(Lower *lower, const Expr *expr, const char *what, int64_t least, int64_t most, int64_t *value);
bool real_eval(Lower *lower, const Expr *expr, const char *what, double least, double most, double *value);
/* A number of bytes, which may be a real with a whole value: 4.0e8. */
bool bytes_eval(Lower *lower, const Expr *expr, const char *what, int64_t least, int64_t *value);
bool number_fits(Lower *lower, const Expr *expr, Number number, DType dtype); /* an element of a tensor of dtype */
const char *number_text(Arena *arena, Number number);
/* A condition: a number that is not 0. */
bool condition_eval(Lower *lower, const Expr *expr, bool *holds);
/* sqrt, min, max, ceil_div, size, ndim: functions of numbers. is_function: the name is one, and the call does not mean the operator of that name. */
enum { NFUNCTIONS = 6 };
extern const char *const function_name[NFUNCTIONS];
bool is_function_name(const char *name);
bool is_function(const Lower *lower, const Expr *call);
bool function_eval(Lower *lower, const Expr *call, Number *number);
const Expr *unbracket(const Expr *expr);              /* without parentheses that only group */
bool is_truth(const Expr *expr);                      /* true, false */
bool is_number(const Lower *lower, const Expr *expr); /* a literal, a number's name, or made of such; no diagnostic */

/* ---------------------------------------------------------------- types.c */

bool type_eval(Lower *lower, const TypeExpr *expr, const char *what, TensorType *type);
/* The elements of a nested list, row-major, into data (room for the shape's elements). */
bool literal_eval(Lower *lower, const Expr *expr, const TensorType *type, double *data);
bool is_init_name(const char *name); /* normal, zeros, ... */
bool init_eval(Lower *lower, const Expr *expr, const TensorType *type, Init *init);
bool is_file_call(const Expr *expr); /* file(".."); NULL is none */
/* The element type and shape of the .npy file at path, which is read for it now. expr: the file(..), for diagnostics. */
bool file_type(Lower *lower, const Expr *expr, const char *what, const char *path, TensorType *type);
/* A constant's elements: *data, or *splat where data is NULL. */
bool constant_eval(Lower *lower, const Expr *expr, const TensorType *type, const double **data, double *splat);
const char *type_text(Lower *lower, const TensorType *type); /* without the hidden dimension */

/* ---------------------------------------------------------------- shard.c */

/* Turns a strategy clause into a hint. tensors: the number of tuples that it must have, 0: any (an operator's); what: "operator",
 * "param w", "input x": for messages. NULL after a diagnostic. */
const Hint *hint_eval(Lower *lower, const Shard *shard, int tensors, const char *what);
bool shard_is_at(const Shard *shard); /* at(3): a state on one rank */
/* The same for a strategy with its own scope. */
const Hint *hint_given(Lower *lower, const Given *given, int tensors, const char *what);
const Hint *hint_of_dataset(Lower *lower, const Expr *value); /* one tuple per input */
bool mesh_eval(Lower *lower, const Expr *value);
bool hint_mesh_eval(Lower *lower, const Expr *value); /* of a hints block */
/* Whether strategies have an effect in this mode; warns once when not. */
bool shard_counts(Lower *lower, Span span);
/* Turns the number after `stage` into a hint. False after a diagnostic; *hint NULL: it has no effect, on one rank or without stages. */
bool stage_eval(Lower *lower, const Expr *number, const StageHint **hint);

/* ---------------------------------------------------------------- express.c */

/* true or false, for messages by name. */
bool attr_bool(Lower *lower, const Expr *value, const char *name, int64_t *out);
/* Lowers the expression of a statement. name: of its outermost result; shard: of its outermost operator, or NULL. Fills in symbol's kind
 * and value (or number). */
bool expr_lower(Lower *lower, const Expr *expr, const char *name, const Shard *shard, Symbol *symbol);
/* The same for an operator with several results, named names[0 .. n): fills in n symbols. marks: of the operator or the call; NULL: none. */
bool results_lower(Lower *lower, const Expr *expr, const char *const *names, int n, const Shard *shard, const Marks *marks,
                   Symbol *symbols);
/* Lowers any expression in an operand's place to a number or a value. */
bool operand_lower(Lower *lower, const Expr *expr, Operand *out);
/* The same for a value that gets a name. */
bool value_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out);
/* Adds a node. Operands that are numbers become constants; attr_expr[i]: where attribute i was written, or NULL. */
bool operator_lower(Lower *lower, OpCode op, const Expr *expr, Operand *operands, int n, const Attr *attr, const Expr *const *attr_expr,
                    const Outcome *outcome, Operand *out);
/* Counts one unit of work; false, after one diagnostic, when loops and cells make too much. */
bool lower_work(Lower *lower, Loc loc);
/* Splits `item shard ...` into the item and its strategy. False after a diagnostic: *shard was already set. */
bool strategy_unwrap(Lower *lower, const Expr **expr, const Shard **shard);
/* Gives the operator that made value a strategy. False after a diagnostic. */
bool attach_hint(Lower *lower, const Expr *expr, int value, const Given *given);
/* Each node costs about two kilobytes: a text of 16 MiB must not make millions of them. */
enum { MAX_NODES = 100000 };
bool room_for_node(Lower *lower, Loc loc);

/* ---------------------------------------------------------------- subscript.c */

/* x[0], x[:, 1:3], x[..., None]: a slice, a reshape, or both. */
bool index_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out);
/* x.T, x.shape[0]: the name after a '.'. */
bool member_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out);
const Expr *member_base(Lower *lower, const Expr *path); /* the part before the last '.' */
/* x ** 2, for a known exponent. */
bool power_lower(Lower *lower, const Expr *expr, Operand *operands, const Outcome *outcome, Operand *out);

/* ---------------------------------------------------------------- einsum.c */

/* einsum("bthd,bshd->bhts", q, k): adds its operators; the last one has the outcome. */
bool einsum_lower(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out);

/* A line of a `hints found` block that holds a setting: `shard_states = parameters;`. */
bool found_is_setting(const Pattern *line);
/* Whether any other line gives a strategy, a layout, a stage, or recompute, and nothing that only a user may give; diagnosed. */
bool found_is_strategy(Lower *lower, const Block *block, const Pattern *line);
/* Evaluates the last setting line with this name, in its own file. *found: there is one. False after a diagnostic. */
bool found_setting(Lower *lower, const char *name, bool (*eval)(Lower *lower, const Expr *value), bool *found);

/* ---------------------------------------------------------------- manual.c: mode manual; in the other modes these do nothing */

bool is_manual_call(const Lower *lower, const Expr *call); /* all_reduce(x, sum) */
bool manual_lower(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out);
/* Whether a value is the result of a send, which only recv may take; reports it. */
bool message_misused(Lower *lower, const Expr *expr, int value);
bool sends_received(Lower *lower); /* after the net */

/* ---------------------------------------------------------------- ranks.c: likewise */

bool group_eval(Lower *lower, const Expr *value); /* a setting of the parallel block: group (evens = [0, 2]); */
bool groups_check(Lower *lower);                  /* after the block */
void ranks_define(Lower *lower);                  /* the names rank and nranks, before the net; in all modes batch_norm_replicas */
/* Whether an expression depends on the rank. rank_set: `rank` is that number from here on; -1: the tensor again. */
bool mentions_rank(const Lower *lower, const Expr *expr);
int rank_set(Lower *lower, int rank);
/* Gives each rank its row of a plain value with the ranks as dimension 0; the other function: the type of such a value. */
int rank_own(Lower *lower, int value, const char *name, Span span);
TensorType rank_type(const Lower *lower, TensorType type);

/* ---------------------------------------------------------------- foreign.c */

/* The word of a name, a text or the end of a path, in lower case (AUTO, "auto", ParallelMode.AUTO); NULL: none. */
const char *word_of(Lower *lower, const Expr *value);
/* This language's name for an attribute, an argument, a setting or a word with another name in other frameworks; else the name itself. */
const char *foreign_attr(OpCode op, const char *name);
const char *foreign_word(const char *what, const char *name);
const char *foreign_called(Lower *lower, const char *name,
                           const Expr *call); /* the call with this name and without its module, for a hint */
/* Whether it is a call in a module of another framework: torch.matmul(x, w). */
bool is_of_module(const Lower *lower, const Expr *call);
bool no_modules(Lower *lower, const Expr *call); /* reports such a call, with what to write instead; false */
/* Adds a hint for a call of an unknown operator; false: nothing is known about the name. */
bool hint_operator(Lower *lower, const Expr *call);
void hint_lists(Lower *lower); /* hints at the lists of all operators and cells */

/* ---------------------------------------------------------------- cells.c */

enum {
    MAX_PARAMETERS = 32, /* of a cell */
    MAX_DEPTH = 1200,    /* levels of calls, blocks and expressions */
    MAX_WORK = 2000000,  /* expressions and statements lowered in loops and cells */
    MAX_ITERATIONS = 100000,
};
/* The path of a name defined here: encoder.layer.3.query. NULL after a diagnostic. */
const char *path_of(Lower *lower, const char *name, Loc loc);
/* Enters one more level of nesting; false after a diagnostic. The caller leaves it with depth--. */
bool lower_deeper(Lower *lower, Loc loc);
bool cells_define(Lower *lower, const Block *blocks);
const Block *cell_find(const Lower *lower, const char *name); /* or NULL */
/* The cell that a call means, or NULL. Where a cell has the name of an operator, the call means the operator if its arguments fit that and not the cell. */
const Block *cell_called(const Lower *lower, const Expr *call);
/* The path of a call or an operator, `name`, inside an expression: y.linear, the next one y.linear_2. NULL after a diagnostic. */
const char *inner_path(Lower *lower, const char *name, Loc loc);
/* Lowers a call of a cell. path: the name of its result. given: its strategy, or NULL. */
bool cell_call(Lower *lower, const Block *cell, const Expr *call, const char *path, const Given *given, Operand *results, int *nresults);
bool return_lower(Lower *lower, const Statement *statement);
/* Sets the stage of the nodes of a call or a statement, those from `first` on, unless one within has its own; NULL: nothing. */
void stage_nodes(Lower *lower, int first, const StageHint *stage);

/* ---------------------------------------------------------------- loops.c */

/* The statements of a body, one after the other. */
bool statements_lower(Lower *lower, const Statement *first);
bool for_lower(Lower *lower, const Statement *statement);
bool if_lower(Lower *lower, const Statement *statement);
bool require_lower(Lower *lower, const Statement *statement); /* also false where the requirement does not hold */
bool let_lower(Lower *lower, const char *name, Loc loc, const Expr *value);
/* Notes a name that statements define, so that a use above the definition is not reported as unknown. */
void name_ahead(Lower *lower, const char *name, Loc loc);
void names_ahead(Lower *lower, const Statement *first);

/* ---------------------------------------------------------------- lower.c */

bool statement_lower(Lower *lower, const Statement *statement);

/* ---------------------------------------------------------------- imports.c */

/* The blocks of nn.dsl, for hints, even if nothing imports it; NULL: it is not found. */
const Block *library_blocks(Lower *lower);

/* ---------------------------------------------------------------- patterns.c */

enum { MAX_HINTS = 1000, MAX_COMPARED = 10000000 };
/* Hints of the blocks and of --shard. */
bool hints_read(Lower *lower, const Block *blocks);
/* Adds the hints after a call. hints_pop removes them, down to n; with check it reports those that matched nothing. */
bool hints_push(Lower *lower, const char *path, const Shard *shard);
bool hints_pop(Lower *lower, int n, bool check);
/* Finds the strategy of a thing: that of a hint, else own (the one written at it, or NULL). The thing becomes the last of lower->known, which notes whether a hint wants
 * it recomputed. False after a diagnostic: two strategies that differ. */
bool hint_choose(Lower *lower, Hintable thing, const Given *own, const Given **given);
Hintable value_hintable(const Lower *lower, int value);                                      /* the operator that made it */
Hintable call_hintable(Lower *lower, const Block *cell, const Expr *call, const char *path); /* path is its name */
static inline Hintable *known_last(Lower *lower) {                                           /* the last argument of hint_choose */
    return &lower->known.at[lower->known.n - 1];
}
/* Adds the marks at the end of a statement to the hints for the last thing of lower->known; NULL: nothing. False after a diagnostic: two stages. */
bool marks_note(Lower *lower, const Marks *marks);
/* Marks the operator that hint_choose was last asked about: recompute, regather, and its stage. */
void mark_operator(Lower *lower, int value);
/* Whether there are marks on something that is no operator; true after a diagnostic. */
bool marks_nothing(Lower *lower, const Expr *expr, const Marks *marks);
void paths_list(Lower *lower, Paths *paths);
/* Whether the paths of `forbid` name something. */
bool forbids_matched(Lower *lower);
/* Whether all of the hints matched something. */
bool hints_matched(Lower *lower);

/* ---------------------------------------------------------------- parallel.c, train.c */

bool parallel_lower(Lower *lower, const Block *block); /* NULL: there is none. Call it before the net */
bool batches_check(Lower *lower); /* once the batches of a step are known: whether stages can process them in their order */
bool dataset_lower(Lower *lower); /* after the net */
bool train_lower(Lower *lower, const Block *block); /* after the net */

/* ---------------------------------------------------------------- asserts.c: settings of the parallel block */

bool eval_assert(Lower *lower, const Expr *value);
bool eval_forbid(Lower *lower, const Expr *value);

/* A call that a setting may be: numpy_rand(...), sgd(...). */
typedef bool CallFn(Lower *lower, const Expr *value);
typedef struct Builtin {
    const char *name;
    CallFn *eval; /* NULL: known, not built yet */
} Builtin;
/* Evaluates the built-in that value names; what: "optimizer"; hint: an example. */
bool call_builtin(Lower *lower, const Expr *value, const char *what, const Builtin *builtins, int n, const char *hint);

/* Reads a count of steps after `every`, the items of every(100, steps). *given: it is one; where it is not, there is no diagnostic. */
bool steps_eval(Lower *lower, const Expr *what, bool *given, int64_t *steps);

/* ---------------------------------------------------------------- eval.c */

bool eval_note(Lower *lower, const Block *block);                 /* the block's `every`; NULL: there is no block */
bool eval_numbers(Lower *lower, const Block *block);              /* before the head */
bool eval_number(Lower *lower, const char *name, Number *number); /* whether a number of the head has another value in the eval */
bool eval_lower(Lower *lower, const Block *block);                /* after the net, in place of train_lower */
bool numbers_used(Lower *lower);                                  /* whether the net has all numbers that the block changes */
Block settings_of(Lower *lower, const Block *block);              /* only the settings of the block, without these numbers */

/* ---------------------------------------------------------------- generate.c */

bool generate_lower(Lower *lower, const Block *block); /* likewise */

/* ---------------------------------------------------------------- data.c */

bool eval_data(Lower *lower, const Expr *value);
bool eval_order(Lower *lower, const Expr *value);
bool eval_last(Lower *lower, const Expr *value);
bool eval_uneven(Lower *lower, const Expr *value);
bool eval_split(Lower *lower, const Expr *value);                             /* rows = split(..) */
Input *input_find(Graph *graph, const char *name);                            /* of those that the net declares; NULL: there is none */
bool input_can_be_drawn(Lower *lower, const Expr *value, const Input *input); /* real, bool, or an index: else false and a diagnostic */
bool unknown_input(Lower *lower, const Expr *item);                           /* false after a diagnostic: x = .. names no input */
/* Checks settings that depend on each other, after all of the block are evaluated. steps_given: the block gives steps. */
bool data_complete(Lower *lower, const Block *block, bool steps_given);

/* ---------------------------------------------------------------- files.c */

/* Evaluates npy(x = ..), csv(..), files(..) and so on, by value->text. */
bool eval_files(Lower *lower, const Expr *value);

/* ---------------------------------------------------------------- schedule.c */

bool eval_schedule(Lower *lower, const Expr *value);

/* ---------------------------------------------------------------- optimizer.c */

bool eval_optimizer(Lower *lower, const Expr *value);
bool eval_clip(Lower *lower, const Expr *value);
bool eval_lr(Lower *lower, const Expr *value);
bool eval_decay(Lower *lower, const Expr *value);
/* Whether every pattern of lr and decay matches a parameter; after the net. */
bool scales_matched(Lower *lower);
/* Checks that the treatment of gradients fits the optimizer and precision; after all settings. scaled: train gives loss_scale. */
bool gradients_complete(Lower *lower, const Block *train, bool scaled);
/* The place of a setting in a block; the block where it is not given. */
Span setting_span(Lower *lower, const Block *block, const char *name);
bool eval_ema(Lower *lower, const Expr *value);
bool eval_accumulate(Lower *lower, const Expr *value);

/* ---------------------------------------------------------------- micro.c */

/* Before the net: finds into how many parts train divides its batches. */
bool micro_find(Lower *lower, const Block *train);
bool eval_micro_batches(Lower *lower, const Expr *value);
/* Divides the number of rows in a batch by the number of parts. */
bool micro_divide(Lower *lower, const Entry *entry, Number *number);
/* After the train block: checks its data and number of batches. */
bool micro_complete(Lower *lower);

/* ---------------------------------------------------------------- log.c */

bool eval_log(Lower *lower, const Expr *value);

/* ---------------------------------------------------------------- best.c */

bool checkpoint_clauses(Lower *lower, const Expr *words); /* after `checkpoint every epoch`: keep 3 best f1; NULL: nothing */
bool eval_early_stop(Lower *lower, const Expr *value);
bool eval_restore(Lower *lower, const Expr *value);
/* Checks that training evaluates the metrics that are watched. eval: the block, NULL: there is none. */
bool watches_complete(Lower *lower, const Block *eval);

/* ---------------------------------------------------------------- indices.c */

/* Checks that constants used as indices are in range; false after diagnostics. */
bool indices_check(Lower *lower);

/* One setting of a block. */
typedef struct Setting {
    const char *name;
    bool (*eval)(Lower *lower, const Expr *value); /* NULL: known, not built yet */
    bool many;                                     /* may be repeated: each is evaluated */
} Setting;
/* Finds each entry among the settings and evaluates it; unknown, doubled and misplaced ones are errors. elsewhere: the settings of the
 * other block. given[i]: set for a setting that is there. */
bool settings_lower(Lower *lower, const Block *block, const char *what, const Setting *settings, int n, const Setting *elsewhere,
                    int nelsewhere, const char *other, bool *given);
extern const Setting parallel_settings[], train_settings[], eval_settings[], generate_settings[];
extern const int nparallel_settings, ntrain_settings, neval_settings, ngenerate_settings;

/* Arguments of a call of a built-in with fixed parameters: normal(0.01), numpy_rand(seed = 1). arguments[i]: of parameter i, or NULL. */
bool call_arguments(Lower *lower, const Expr *call, const char *const *parameters, int n, int nrequired, const Expr **arguments);
