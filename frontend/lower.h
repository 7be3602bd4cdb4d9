/* Lowering: the syntax tree -> Graph. What the files of it share; frontend.h is what the rest of the compiler sees.
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
 *   cells.c     calls of cells: their bodies written out under a path
 *   loops.c     for, if, let: bodies written out
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
    int power; /* of the rows of a batch, as a factor of it: batch * 12 has 1, 1.0 / batch has -1. An eval tells by it what belongs to a batch, not to a row */
} Number;

typedef enum {
    SYMBOL_AHEAD,  /* some statement below defines it */
    SYMBOL_PASSED, /* a branch that was not taken defines it */
    SYMBOL_GONE,   /* a loop that has ended defined it */
    SYMBOL_OPEN,   /* its definition is being read: a use in it is a mistake */
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
    int block;     /* in how many blocks (for, if) its definition stands */
    Span span;     /* of the name in its definition; SYMBOL_AHEAD: of the first one */
} Symbol;

/* Pointers to symbols last until the next insertion. */
typedef struct Names {
    VEC(Symbol) symbols;
    Map map;
} Names;

/* The value of an expression: a tensor, or a number, which becomes a tensor where it stands beside one. */
typedef struct Operand {
    const Expr *expr;
    int value; /* value id; -1: a number */
    Number number;
} Operand;

/* A strategy as written, and its place, in whose scope its numbers and axes are looked up. */
typedef struct Given {
    const Shard *shard;
    int file;
    Names names;
    bool flag; /* of the command line: overrides what files say */
} Given;

/* A hint by path: of a hints block, of --shard, or behind the call of a cell. */
typedef struct PathHint {
    const char *pattern; /* whole: behind a call, the call's path stands before what was written */
    Span span;           /* of the pattern */
    Given given;
    const StageHint *stage; /* `stage 2`; else NULL */
    const RegatherHint *regather;
    bool matched;
} PathHint;

/* Something that a hint can name. */
typedef struct Hintable {
    const char *const *name; /* its path; an operator of several results has that of each */
    int nnames;
    PathKind kind;
    const char *what;             /* the operator, the cell */
    int id;                       /* value, state, input; of a call its first result, -1: a number, or not known yet */
    bool recompute;               /* an operator, a call: what it computes is computed again for gradients */
    const StageHint *stage;       /* likewise: which stage runs it; NULL: not said */
    const RegatherHint *regather; /* an operator, a parameter: what is gathered of it is gathered again; NULL: not said */
    bool stage_flag;              /* by the command line */
    Span span;
} Hintable;

/* Where an expression's value goes: the name of its outermost result (NULL: it is an operand), and the strategy written at that operator (or NULL). Hints
 * for a result with a name are looked up by its statement. */
typedef struct Outcome {
    const char *name;
    const Given *own;
} Outcome;

/* The call of a cell that is being lowered. */
typedef struct Frame {
    const Block *cell;
    Span span;            /* of the call */
    const char *path;     /* of the call */
    const CellCall *call; /* the same, for diagnostics that come after the frame has gone */
    const Given *given;   /* its strategy, NULL: none */
    bool given_used;
    bool returned;
    int nresults;
    Operand results[MAX_OUT];
    struct Frame *outer; /* NULL: the net calls */
    Names names;         /* where the call stands, as are the following */
    const char *prefix, *suffix, *caller;
    int block, loops, nlocals, wanted;
} Frame;

typedef VEC(const char *) Strings;

/* A number of the net's head that is another one in the eval. */
typedef struct EvalNumber {
    const char *name;
    Number number;
    Span span;
    bool used;
} EvalNumber;

/* Mode manual: some of the ranks. */
typedef struct RankGroup {
    const char *name;
    const Expr *list; /* of its ranks, in the text of file */
    int file;
    Span span;
    int *place; /* of each rank, -1: it is not in it */
    int size;
} RankGroup;

/* Mode manual: what a send has sent. */
typedef struct Sent {
    int value;
    const int *to; /* of each rank, -1: it sends nothing */
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
    int noted;           /* so many diagnostics have their chain of calls */
    Names paths;         /* of numbered calls, of parameters */
    VEC(Hintable) known; /* what hints can name */
    VEC(PathHint) hints;
    int64_t compared;    /* patterns with paths */
    const Expr *dataset; /* explicit dataset strategy, read after the inputs are known; NULL: none */
    int dataset_file;
    bool hidden; /* modes data_parallel and manual: tensors have the hidden dimension */
    bool manual; /* mode manual: parameters and states have it too */
    int rank;    /* in mode manual: the value that is each rank's number */
    VEC(RankGroup) groups;
    VEC(Sent) sent;
    int nresults;      /* that the outermost operator of the statement must have */
    bool full;         /* the net has as many nodes as it may have */
    bool warned_shard; /* that strategies have no effect in this mode */
    bool warned_stage; /* that stages have none */
    int64_t nstages;   /* as said, on one rank too; 0: not, or they are to be found */
    const Block *blocks;
    Span loss_span; /* line 0: no loss yet */
    BlockKind of;   /* the net is lowered for this block of it: train, eval or generate */
    bool eval;      /* not for train */
    VEC(EvalNumber) eval_numbers;
    const Block *net;   /* whose numbers these may be */
    const Block *train; /* whose rows an eval may have the rest of; NULL: there is none */
    int64_t micro;      /* parts in which a batch is taken */
    const char *batch;  /* the number of the net's head that is the rows of a batch: what the first input has first; NULL: none */
    LossRows rows;
    const Expr *predict;                 /* what the eval block calls the prediction, or NULL */
    const Expr *text_name, *logits_name; /* of the generate block, or NULL */
    Generation generation;
} Lower;

/* Continues in another file: file, text, directory. lower_leave takes what it returns, and goes back. */
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
/* The same for an assignment: in a block (for, if) it may give a name from outside another value; then the symbol is as it was. */
bool names_assign(Lower *lower, const char *name, Loc loc, Symbol **symbol);
/* The definition that a name stands for, or NULL; of this net or cell, else of the file. */
const Symbol *names_look(const Lower *lower, const char *name);
/* The definition that a name in an expression stands for, or NULL after a diagnostic (none for SYMBOL_FAILED). */
const Symbol *names_use(Lower *lower, const char *name, Loc loc);
void note_defined(Lower *lower, const Symbol *symbol); /* "w is declared f32[31, 16] here" */
/* The value of an enumeration as the user wrote it, or -1 after a diagnostic with the nearest and all that there are.
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
/* Of bytes, that a real of a whole number says too: 4.0e8. */
bool bytes_eval(Lower *lower, const Expr *expr, const char *what, int64_t least, int64_t *value);
bool number_fits(Lower *lower, const Expr *expr, Number number, DType dtype); /* an element of a tensor of dtype */
const char *number_text(Arena *arena, Number number);
/* A condition: a number that is not 0. */
bool condition_eval(Lower *lower, const Expr *expr, bool *holds);
/* sqrt, min, max, ceil_div, size, ndim: functions of numbers. is_function: the name is one, and the call is not one of an operator with that name. */
enum { NFUNCTIONS = 6 };
extern const char *const function_name[NFUNCTIONS];
bool is_function_name(const char *name);
bool is_function(const Lower *lower, const Expr *call);
bool function_eval(Lower *lower, const Expr *call, Number *number);
const Expr *unbracket(const Expr *expr);              /* without brackets that only group */
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

/* A strategy clause to a hint. tensors: the number of tuples that it must have, 0: any (an operator's); what: "operator", "param w",
 * "input x": for messages. NULL after a diagnostic. */
const Hint *hint_eval(Lower *lower, const Shard *shard, int tensors, const char *what);
bool shard_is_at(const Shard *shard); /* at(3): a state on one rank */
/* The same of a strategy that stands elsewhere. */
const Hint *hint_given(Lower *lower, const Given *given, int tensors, const char *what);
const Hint *hint_of_dataset(Lower *lower, const Expr *value); /* one tuple an input */
bool mesh_eval(Lower *lower, const Expr *value);
bool hint_mesh_eval(Lower *lower, const Expr *value); /* of a hints block */
/* Whether strategies count in this mode; warns once when not. */
bool shard_counts(Lower *lower, Span span);
/* The number behind `stage` to a hint. False after a diagnostic; *hint NULL: it has no effect, on one rank, or where there are no stages. */
bool stage_eval(Lower *lower, const Expr *number, const StageHint **hint);

/* ---------------------------------------------------------------- express.c */

/* true or false, for messages by name. */
bool attr_bool(Lower *lower, const Expr *value, const char *name, int64_t *out);
/* Lowers the expression of a statement. name: of its outermost result; shard: of its outermost operator, or NULL. Fills in symbol's kind
 * and value (or number). */
bool expr_lower(Lower *lower, const Expr *expr, const char *name, const Shard *shard, Symbol *symbol);
/* The same for an operator of several results, names[0 .. n) theirs: fills in n symbols. marks: of it, or of what is called; NULL: none. */
bool results_lower(Lower *lower, const Expr *expr, const char *const *names, int n, const Shard *shard, const Marks *marks,
                   Symbol *symbols);
/* A number, or a value, of any expression in an operand's place. */
bool operand_lower(Lower *lower, const Expr *expr, Operand *out);
/* The same; of a value that gets a name. */
bool value_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out);
/* A node. Operands that are numbers become constants; attr_expr[i]: where attribute i was written, or NULL. */
bool operator_lower(Lower *lower, OpCode op, const Expr *expr, Operand *operands, int n, const Attr *attr, const Expr *const *attr_expr,
                    const Outcome *outcome, Operand *out);
/* Counts a step; false, after one diagnostic, when loops and cells make too many. */
bool lower_work(Lower *lower, Loc loc);
/* Of `item shard ...` the item and its strategy. False after a diagnostic: *shard is one already. */
bool strategy_unwrap(Lower *lower, const Expr **expr, const Shard **shard);
/* The strategy of the operator that made value. False after a diagnostic. */
bool attach_hint(Lower *lower, const Expr *expr, int value, const Given *given);
/* Each node costs about two kilobytes: a text of 16 MiB must not make millions of them. */
enum { MAX_NODES = 100000 };
bool room_for_node(Lower *lower, Loc loc);

/* ---------------------------------------------------------------- subscript.c */

/* x[0], x[:, 1:3], x[..., None]: a slice, a reshape, or both. */
bool index_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out);
/* x.T, x.shape[0]: what stands behind a '.'. */
bool member_lower(Lower *lower, const Expr *expr, const Outcome *outcome, Operand *out);
const Expr *member_base(Lower *lower, const Expr *path); /* what stands before the last '.' */
/* x ** 2, for a number that is known. */
bool power_lower(Lower *lower, const Expr *expr, Operand *operands, const Outcome *outcome, Operand *out);

/* ---------------------------------------------------------------- einsum.c */

/* einsum("bthd,bshd->bhts", q, k): the operators that it stands for, of which the last has the outcome. */
bool einsum_lower(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out);

/* A line of a `hints found` block that holds a setting: `shard_states = parameters;`. */
bool found_is_setting(const Pattern *line);
/* Whether a line that is none says a strategy, a layout, a stage, or recompute, and nothing that the user alone says; diagnosed. */
bool found_is_strategy(Lower *lower, const Block *block, const Pattern *line);
/* Reads the setting of the last such line of this name, in its own file. *found: there is one. False after a diagnostic. */
bool found_setting(Lower *lower, const char *name, bool (*eval)(Lower *lower, const Expr *value), bool *found);

/* ---------------------------------------------------------------- manual.c: mode manual; in the other modes these do nothing */

bool is_manual_call(const Lower *lower, const Expr *call); /* all_reduce(x, sum) */
bool manual_lower(Lower *lower, const Expr *call, const Outcome *outcome, Operand *out);
/* Whether a value is what a send gives, which recv alone takes: then it says so. */
bool message_misused(Lower *lower, const Expr *expr, int value);
bool sends_received(Lower *lower); /* after the net */

/* ---------------------------------------------------------------- ranks.c: likewise */

bool group_eval(Lower *lower, const Expr *value); /* a setting of the parallel block: group (evens = [0, 2]); */
bool groups_check(Lower *lower);                  /* after the block */
void ranks_define(Lower *lower);                  /* the names rank and nranks, before the net; in all modes batch_norm_replicas */
/* Whether numbers of an expression are each rank's own. rank_set: `rank` is that number from here on; -1: the tensor again. */
bool mentions_rank(const Lower *lower, const Expr *expr);
int rank_set(Lower *lower, int rank);
/* Of a plain value with the ranks as dimension 0 each rank its row; and the type of such a value of all ranks. */
int rank_own(Lower *lower, int value, const char *name, Span span);
TensorType rank_type(const Lower *lower, TensorType type);

/* ---------------------------------------------------------------- foreign.c */

/* The word that a value is: of a name, a text or the last of a path, in small letters (AUTO, "auto", ParallelMode.AUTO); NULL: none. */
const char *word_of(Lower *lower, const Expr *value);
/* This language's name of an attribute, an argument, a setting or a word that other frameworks name otherwise; else the name itself. */
const char *foreign_attr(OpCode op, const char *name);
const char *foreign_word(const char *what, const char *name);
const char *foreign_called(Lower *lower, const char *name,
                           const Expr *call); /* the call with this name and without its module, for a hint */
/* torch.matmul(x, w): a call in a module of another language. */
bool is_of_module(const Lower *lower, const Expr *call);
bool no_modules(Lower *lower, const Expr *call); /* reports that, with what to write instead; false */
/* The hint for a call of an unknown operator; false: nothing is known of the name. */
bool hint_operator(Lower *lower, const Expr *call);
void hint_lists(Lower *lower); /* where all operators and cells are listed */

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
/* The cell that a call is of, or NULL. Where a cell has the name of an operator the call is the operator's if it fits that, by its arguments, and not the cell. */
const Block *cell_called(const Lower *lower, const Expr *call);
/* The path of a call or an operator, `name`, that stands in an expression: y.linear, the next one y.linear_2. NULL after a diagnostic. */
const char *inner_path(Lower *lower, const char *name, Loc loc);
/* Lowers a call of a cell. path: what its result is called. given: its strategy, or NULL. */
bool cell_call(Lower *lower, const Block *cell, const Expr *call, const char *path, const Given *given, Operand *results, int *nresults);
bool return_lower(Lower *lower, const Statement *statement);
/* The stage of all that a call or a statement has computed, nodes from `first` on, but of what is said of a call or an operator within it; NULL: nothing. */
void stage_nodes(Lower *lower, int first, const StageHint *stage);

/* ---------------------------------------------------------------- loops.c */

/* The statements of a body, one after the other. */
bool statements_lower(Lower *lower, const Statement *first);
bool for_lower(Lower *lower, const Statement *statement);
bool if_lower(Lower *lower, const Statement *statement);
bool require_lower(Lower *lower, const Statement *statement); /* false too where what it requires does not hold */
bool let_lower(Lower *lower, const char *name, Loc loc, const Expr *value);
/* Notes the names that statements define, so that a use above a definition is no unknown name. */
void name_ahead(Lower *lower, const char *name, Loc loc);
void names_ahead(Lower *lower, const Statement *first);

/* ---------------------------------------------------------------- lower.c */

bool statement_lower(Lower *lower, const Statement *statement);

/* ---------------------------------------------------------------- imports.c */

/* The blocks of a file and of all that it imports, each file once: those of an import before what follows it. */
/* The blocks of nn.dsl, for hints, though nothing imports it; NULL: it is not found. */
const Block *library_blocks(Lower *lower);

/* ---------------------------------------------------------------- patterns.c */

enum { MAX_HINTS = 1000, MAX_COMPARED = 10000000 };
/* Hints of the blocks and of --shard. */
bool hints_read(Lower *lower, const Block *blocks);
/* Adds those behind a call. hints_pop removes them, down to n; with check it reports those that matched nothing. */
bool hints_push(Lower *lower, const char *path, const Shard *shard);
bool hints_pop(Lower *lower, int n, bool check);
/* The strategy of a thing: of a hint, else own (the one written at it, or NULL). The thing is the last of lower->known then, and says whether a hint wants it to be
 * computed again. False after a diagnostic: two strategies that differ. */
bool hint_choose(Lower *lower, Hintable thing, const Given *own, const Given **given);
Hintable value_hintable(const Lower *lower, int value);                                      /* the operator that made it */
Hintable call_hintable(Lower *lower, const Block *cell, const Expr *call, const char *path); /* of which path is the name */
static inline Hintable *known_last(Lower *lower) {                                           /* what hint_choose was asked about last */
    return &lower->known.at[lower->known.n - 1];
}
/* Adds what is said at the end of a statement to what hints say of the thing that was known last; NULL: nothing. False after a diagnostic: two stages. */
bool marks_note(Lower *lower, const Marks *marks);
/* The operator that hint_choose was asked about last: whether it is computed again, or what is gathered of it gathered again, and its stage. */
void mark_operator(Lower *lower, int value);
/* Whether something is said of what is no operator; true after a diagnostic. */
bool marks_nothing(Lower *lower, const Expr *expr, const Marks *marks);
void paths_list(Lower *lower, Paths *paths);
/* Whether the paths of `forbid` name something. */
bool forbids_matched(Lower *lower);
/* Whether all of the hints matched something. */
bool hints_matched(Lower *lower);

/* ---------------------------------------------------------------- parallel.c, train.c */

bool parallel_lower(Lower *lower, const Block *block); /* NULL: there is none. Before the net */
bool batches_check(Lower *lower); /* behind all that says how many batches a step has: whether stages can take them in their order */
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
/* Evaluates the one that value names; what: "optimizer"; hint: one that works. */
bool call_builtin(Lower *lower, const Expr *value, const char *what, const Builtin *builtins, int n, const char *hint);

/* What stands behind `every` where it counts steps, the items of every(100, steps): *given false after no diagnostic where it says something else. */
bool steps_eval(Lower *lower, const Expr *what, bool *given, int64_t *steps);

/* ---------------------------------------------------------------- eval.c */

bool eval_note(Lower *lower, const Block *block);                 /* the block's `every`; NULL: there is no block */
bool eval_numbers(Lower *lower, const Block *block);              /* before the head */
bool eval_number(Lower *lower, const char *name, Number *number); /* whether the head's number has another value in the eval */
bool eval_lower(Lower *lower, const Block *block);                /* after the net, in place of train_lower */
bool numbers_used(Lower *lower);                                  /* whether the net has the numbers that the block gives other values */
Block settings_of(Lower *lower, const Block *block);              /* the settings of the block alone, without these numbers */

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
/* Settings that only make sense together; before them the block's are evaluated. steps_given: the block says how many. */
bool data_complete(Lower *lower, const Block *block, bool steps_given);

/* ---------------------------------------------------------------- files.c */

/* npy(x = ..), csv(..), files(..) and so on, as value->text says. */
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
/* What is done to gradients can be done with this optimizer and precision; after all settings. scaled: train says loss_scale. */
bool gradients_complete(Lower *lower, const Block *train, bool scaled);
/* Where a block says a setting; the block where it does not. */
Span setting_span(Lower *lower, const Block *block, const char *name);
bool eval_ema(Lower *lower, const Expr *value);
bool eval_accumulate(Lower *lower, const Expr *value);

/* ---------------------------------------------------------------- micro.c */

/* Before the net: in how many parts train says that its batches are taken. */
bool micro_find(Lower *lower, const Block *train);
bool eval_micro_batches(Lower *lower, const Expr *value);
/* The rows of a batch become those of a part. */
bool micro_divide(Lower *lower, const Entry *entry, Number *number);
/* Behind the train block: its data and its number of batches. */
bool micro_complete(Lower *lower);

/* ---------------------------------------------------------------- log.c */

bool eval_log(Lower *lower, const Expr *value);

/* ---------------------------------------------------------------- best.c */

bool checkpoint_clauses(Lower *lower, const Expr *words); /* behind `checkpoint every epoch`: keep 3 best f1; NULL: nothing */
bool eval_early_stop(Lower *lower, const Expr *value);
bool eval_restore(Lower *lower, const Expr *value);
/* Whether the net is evaluated while it is trained, by what is watched. eval: the block, NULL: there is none. */
bool watches_complete(Lower *lower, const Block *eval);

/* ---------------------------------------------------------------- indices.c */

/* Constants that operators take as indices are in range; false after diagnostics. */
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
