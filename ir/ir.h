/* ir: what a program is. The table of contents of this folder, and of the words that all others use.
 *
 *   arena.c   memory by phase; growing vectors; text under construction
 *   clock.c   time that passes
 *   file.h    whole files; what a command writes kept apart from what it reads; npy.h: the header of a .npy file
 *   diag.c    user mistakes: diagnostics with source, caret, note, hint
 *   type.c    element types, shapes, checked arithmetic
 *   layout.c  how a tensor lies on the ranks: digits of the rank number
 *   box.c     index ranges; who holds, who owns, what moves where (closed formulas, no lists of ranks)
 *   ops.def   the operator table; rule.c, shapes.c: shape inference and factors; index.h: indices; adjoint.c: gradients; graph.c: building
 *   verify.c  what must hold of a graph between passes
 *   plan.c    programs, roles, steps; print.c, scan.c, read.c: the text form, both ways (docs/plan.md); side.c: its long literals
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#else
#define PRINTF_LIKE(f, a)
#endif

/* Exit codes of pcc and prun. */
enum { EXIT_DONE = 0, EXIT_REJECTED = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3, EXIT_MISMATCH = 4, EXIT_INTERNAL = 70 };

/* ---------------------------------------------------------------- arena.c */

/* Memory of one phase: freed all at once. Allocation never fails for its caller: when the system has no memory left,
 * the program ends with one message and EXIT_ENVIRONMENT (the one exception to "functions do not exit"). */
typedef struct Arena {
    struct ArenaBlock *block; /* newest block first */
    size_t used_bytes;        /* handed out since arena_init */
} Arena;
void arena_init(Arena *arena);
void arena_finish(Arena *arena);
void *arena_alloc(Arena *arena, size_t bytes); /* zeroed, aligned for any type */
void arena_release(Arena *arena, const void *at); /* nothing uses it any more: a large one is freed, of others the bytes stay taken */
char *arena_copy(Arena *arena, const char *text, size_t length); /* a NUL-terminated copy */
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *arena, const char *format, va_list args);

/* A growing array in an arena: VEC(int) v = {0}; vec_push(arena, &v, 7); v.at[0], v.n. */
#define VEC(T) \
    struct { \
        T *at; \
        int n, cap; \
    }
#define vec_push(arena, v, ...) \
    ((v)->n == (v)->cap ? (void)((v)->at = vec_grow((arena), (v)->at, &(v)->cap, (v)->n, sizeof *(v)->at)) : (void)0, \
     (v)->at[(v)->n++] = __VA_ARGS__)
void *vec_grow(Arena *arena, const void *at, int *cap, int n, size_t item_bytes);
/* Room for `room` items in all: growing would leave the smaller copies behind, and room that is not used costs addresses, not memory. */
#define vec_reserve(arena, v, room) \
    ((v)->cap < (room) ? (void)((v)->at = vec_room((arena), (v)->at, &(v)->cap, (v)->n, (room), sizeof *(v)->at)) : (void)0)
void *vec_room(Arena *arena, const void *at, int *cap, int n, int room, size_t item_bytes);

/* Text under construction, on the heap; NUL-terminated after every call. text_finish frees it. */
typedef struct Text {
    char *at;
    size_t n, cap;
} Text;
void text_printf(Text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_append(Text *text, const char *bytes, size_t n);
void text_finish(Text *text);
/* Puts '?' for control characters: what a file says goes into a message of one line, and nothing of it is obeyed by a terminal. */
void text_printable(char *text);

/* A failure of the environment (file, memory, MPI, ...): what failed and what to try. Functions that can fail so return
 * bool and fill one. code is an exit code. */
typedef struct Error {
    int code;
    char text[1024];
} Error;
bool error_set(Error *error, int code, const char *format, ...) PRINTF_LIKE(3, 4); /* returns false */

double now_seconds(void); /* clock.c: of a clock that only goes forward, for differences */

/* ---------------------------------------------------------------- diag.c */

/* A place in a source file: 1-based line and column (bytes), length in bytes of the text meant. line 0: no place. */
typedef struct Span {
    int file; /* index into Diags.files */
    int line, column, length;
} Span;

typedef struct SourceFile {
    const char *name, *text;
    size_t n;
} SourceFile;

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE, DIAG_HINT } DiagKind;
typedef struct Diag {
    DiagKind kind;
    Span span;
    const char *text;
} Diag;

/* What is warned of, each with the flags -Wno-NAME and, all together, -Werror (docs/explain.md). */
typedef enum { WARN_CONFLICT, WARN_UNEVEN, WARN_NO_GRADIENT, WARN_NO_EFFECT, WARN_REPLICATED, WARN_COSTLY, NWARNINGS } Warning;
extern const char *const warning_name[NWARNINGS]; /* "conflict", "uneven", "no-gradient", "no-effect", "replicated", "costly" */

enum { DIAG_MAX_ERRORS = 20 };
/* The diagnostics of a run, in order; a note or hint belongs to the error or warning before it. */
typedef struct Diags {
    Arena *arena;
    VEC(SourceFile) files;
    VEC(Diag) items;
    int nerrors, nwarnings; /* of either the first DIAG_MAX_ERRORS are kept, with their notes */
    bool dropped;           /* the last error or warning was beyond that, or silenced: so are its notes and hints */
    unsigned silenced;      /* warnings that are not wanted: 1 << Warning */
    bool warnings_are_errors, verbose; /* verbose: notes on what is usual are wanted too */
} Diags;
void diags_init(Diags *diags, Arena *arena);
int diags_add_file(Diags *diags, const char *name, const char *text, size_t n); /* the Span.file of it */
/* What has been said of a place before is neither counted nor kept again: a mistake in a loop or a cell is one. */
void diag_error(Diags *diags, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
/* "text [-Wuneven]"; nothing when it is silenced, an error "text [-Werror=uneven]" where warnings are errors. */
void diag_warning(Diags *diags, Warning warning, Span span, const char *format, ...) PRINTF_LIKE(4, 5);
void diag_note(Diags *diags, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
void diag_hint(Diags *diags, const char *format, ...) PRINTF_LIKE(2, 3);
/* The call of a cell in which something stands. */
typedef struct CellCall {
    const char *cell, *path; /* "linear", called as "layer.0.fc1" */
    Span span;
    const struct CellCall *outer; /* the call in which it stands; NULL: the net */
} CellCall;
/* Notes with the calls that lead to the place of the last error or warning, the innermost first; NULL: none. */
void diag_calls(Diags *diags, const CellCall *call);
/* All of them, each as file:line:column: error: text, the source line, the span underlined. */
void diags_print(const Diags *diags, FILE *out);
/* The line of the source that span is in, without its end; "" where there is none. */
const char *diags_line(const Diags *diags, Span span, int *length);
/* The code of the character at the beginning of n bytes of UTF-8 where it changes the direction in which text is shown, so that a reader sees
 * something else than a compiler does: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. 0: another one. */
unsigned direction_control(const char *at, size_t n);
/* The candidate nearest to name by edit distance, or NULL when none is near (distance over a third of the length, or, but for paths, over 2). */
const char *name_nearest(const char *name, const char *const *candidates, int n);

/* ---------------------------------------------------------------- type.c */

typedef enum { F32, F64, I32, I64, BOOL, NDTYPES } DType; /* BOOL: a byte, 0 or 1 */
enum { MAX_NDIM = 9 }; /* 8 of the user's, and the hidden leading one */
extern const char *const dtype_name[NDTYPES];   /* "f32" */
extern const char *const dtype_title[NDTYPES];  /* "Float32" */
extern const int dtype_bytes[NDTYPES];
bool dtype_parse(const char *name, DType *dtype);

typedef struct Shape {
    int ndim;
    int64_t dim[MAX_NDIM];
} Shape;

/* A tensor's global type. hidden: dimension 0 is the hidden one of mode data_parallel (docs/architecture.md), which operators act
 * along slice by slice; shape.ndim counts it. */
typedef struct TensorType {
    DType dtype;
    bool hidden;
    Shape shape;
} TensorType;

bool mul_checked(int64_t a, int64_t b, int64_t *product);   /* false on overflow */
bool shape_count(const Shape *shape, int64_t *elements);    /* false on overflow */
int64_t shape_elements(const Shape *shape);                 /* of a shape known to fit */
bool shape_equal(const Shape *a, const Shape *b);
bool type_equal(const TensorType *a, const TensorType *b);
void shape_print(Text *text, const Shape *shape);           /* "[16, 32]" */
void type_print(Text *text, const TensorType *type);        /* "f32[16, 32]", hidden: "f32[8 | 16, 32]" */
int64_t gcd64(int64_t a, int64_t b);
static inline bool dtype_is_float(DType dtype) { return dtype == F32 || dtype == F64; } /* numbers that have gradients */

/* ---------------------------------------------------------------- layout.c  (docs/architecture.md) */

/* s@t: of rank r, (r / t) mod s. */
typedef struct Digit { int32_t size, stride; } Digit;

typedef enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, NREDUCTIONS } Reduction;
extern const char *const reduction_name[NREDUCTIONS];

/* A device order: the ranks by position. In a layout that has one, digits are those of a rank's position, not of its number. */
typedef struct Order {
    const char *name;     /* "order1", as layout_print shows it */
    int nranks;
    const int *rank;      /* rank[position] */
    const int *position;  /* position[rank], the inverse */
} Order;
/* The order in which position i is rank[i] (every rank once), in the arena. NULL for the natural order, which layouts have by default. */
const Order *order_make(Arena *arena, const char *name, const int *rank, int nranks);
bool order_equal(const Order *a, const Order *b); /* the same order, whatever its name */
static inline int order_position(const Order *order, int rank) { return order ? order->position[rank] : rank; }
static inline int order_rank(const Order *order, int position) { return order ? order->rank[position] : position; }

enum { MAX_DIGITS = 40 };
/* How one tensor lies on the ranks. List i of digits, major first: i < ndim divides dimension i; i = ndim + reduction
 * are the digits over which the value is partial (descending strides). Digits in no list: whole. No digit twice. */
typedef struct Layout {
    int ndim;
    const Order *order; /* NULL: natural. Graphs and plans hold natural ones only; `pcc redistribute` plans with others */
    uint8_t start[MAX_NDIM + NREDUCTIONS + 1]; /* list i is digit[start[i]] .. digit[start[i + 1] - 1] */
    Digit digit[MAX_DIGITS];
} Layout;

void layout_init(Layout *layout, int ndim);                       /* whole everywhere */
bool layout_append(Layout *layout, int list, Digit digit);        /* as the minor digit of the list; false: no room. Size 1 is dropped */
static inline int layout_count(const Layout *l, int list) { return l->start[list + 1] - l->start[list]; }
static inline const Digit *layout_list(const Layout *l, int list) { return l->digit + l->start[list]; }
int64_t layout_split(const Layout *layout, int list);             /* product of the sizes in a list */
bool layout_is_partial(const Layout *layout);
bool layout_is_whole(const Layout *layout);
/* Whether both mean digits of the same positions, in *order (a layout without digits agrees with any). */
bool layout_orders_agree(const Layout *a, const Layout *b, const Order **order);
void layout_complete(const Layout *from, Layout *to);             /* from without its partial digits (to may be from) */
/* Digits are >= 2, s*t divides nranks, no two overlap, products fit. False with the reason. */
bool layout_valid(const Layout *layout, int nranks, const char **why);
bool digits_compatible(Digit a, Digit b);                         /* can stand in one layout */
/* Neighbours merged where no box changes, partial digits sorted: equal layouts compare equal with layout_equal. */
void layout_canonical(Layout *layout, const Shape *shape);
bool layout_equal(const Layout *a, const Layout *b);              /* digit by digit */
bool layout_same(const Layout *a, const Layout *b, const Shape *shape, int nranks); /* equal, or the same boxes and terms on every rank */
uint64_t layout_hash(const Layout *layout);
static inline int digit_of(Digit d, int rank) { return (rank / d.stride) % d.size; }
/* "[2@4.2@1 -] +sum(2@8)"; hidden: "[8@1 | - -]"; with a device order "[2@4 -] %order1". */
void layout_print(Text *text, const Layout *layout, bool hidden);
/* Reads what layout_print writes of layouts in the natural order from *at, advances it. A device order is not read: '%' is left at *at, an
 * error to every caller that wants a separator or the end there. */
bool layout_read(const char **at, Layout *layout, bool *hidden);
/* The digits of a mesh with these sizes, last axis fastest, over product(sizes) * inner ranks. */
void mesh_digits(const int32_t *sizes, int naxes, int32_t inner, Digit *digits);
/* Splits all digits of both layouts at each other's boundaries, so that any two digits are equal or disjoint. False when they
 * belong to meshes that cannot be refined together (2x3 against 3x2). For the arithmetic of ranks: where a split is uneven, the boxes
 * of a refined layout are others (6 by 4@1: 2 2 1 1; by 2@2.2@1: 2 1 2 1). */
bool layout_refine(Layout *a, Layout *b);
bool digit_within(Digit part, Digit whole); /* part is what a split of whole at some boundaries contains */
/* Completes the digits a and b (b may be NULL) to one mixed radix of nranks, major first: every given digit is a run of neighbours in
 * chain. nranks 0: only up to the highest digit. Returns the number of digits, -1 when they do not fit together. chain: MAX_DIGITS. */
int digits_chain(const Digit *a, int na, const Digit *b, int nb, int nranks, Digit *chain);
/* The digits whose terms are added up when a value goes from `from` to `to`: from's partial digits less to's, descending. Returns
 * their number, and in *kind how they are joined; -1 when a partial digit of `to` is none of `from`, or two kinds would have to be
 * joined at once. digits: MAX_DIGITS. */
int layout_summed(const Layout *from, const Layout *to, Digit *digits, Reduction *kind);

/* ---------------------------------------------------------------- box.c  (docs/redistribution.md) */

/* Half-open index ranges of a global tensor; empty where any begin == end. */
typedef struct Box {
    int ndim;
    int64_t begin[MAX_NDIM], end[MAX_NDIM];
} Box;
int64_t box_elements(const Box *box);
bool box_intersect(const Box *a, const Box *b, Box *result); /* false: empty */
/* A box as runs of neighbouring elements of the whole tensor, in row-major order: `count` of them, each of `length`. */
typedef struct BoxRuns {
    const Shape *shape;
    const Box *box;
    int inner; /* dimensions from this one on make up a run */
    int64_t length, count, next;
} BoxRuns;
BoxRuns box_runs(const Shape *shape, const Box *box);
bool box_next_run(BoxRuns *runs, int64_t *first); /* *first: the run's first element in the whole tensor; false: there is no further one */
/* The box of rank under layout: each dimension divided by its digits one after the other into balanced parts, first ones one larger. */
void layout_box(const Layout *layout, const Shape *shape, int rank, Box *box);
void layout_local_shape(const Layout *layout, const Shape *shape, int rank, Shape *local);
int64_t layout_max_elements(const Layout *layout, const Shape *shape); /* of the largest box of any rank: rank 0's */
/* Of the ranks that hold the same box, this one is the first: the digits that the layout does not divide by are all 0. */
bool layout_holds_first(const Layout *layout, int nranks, int rank);
/* Members of the group of rank along the given digits: ranks that differ from it only there; in the order of the digits' mixed radix
 * (major first). In a device order rank and members are positions. members has room for the product of the sizes. Returns their number;
 * *position is rank's own. */
int group_members(const Digit *digits, int n, int rank, int *members, int *position);
int group_leader(const Digit *digits, int n, int rank); /* the member with all digits 0 */

typedef enum { COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL, COMM_EXCHANGE, COMM_STRIDED_SLICE, NCOMMS } CommKind;
extern const char *const comm_name[NCOMMS];   /* "all_reduce" */
extern const char *const comm_title[NCOMMS];  /* "AllReduce", as MindSpore's dumps write it */

/* One thing that rank `to` receives: the elements [first, first + count) in row-major order of box, from rank `from`'s source buffer
 * (round 0) or from what `from` has added up (round 1). term: which of the partial terms, 0 when not partial. from == to: a local copy,
 * moves nothing. */
typedef struct Piece {
    int from, to, round, term;
    Box box;
    int64_t first, count;
} Piece;
typedef bool PieceFn(void *context, const Piece *piece); /* false stops the enumeration */

/* Everything that `rank` receives (and copies locally) when a tensor of this shape goes from layout `from` to `to`, in a fixed order:
 * round 0 before round 1, per element terms ascending. Not partial: one round; the holder of a piece has the source digits of that piece
 * and agrees with rank in every other digit. Partial: owners divide each piece, add its terms, the other needers gather (round 1).
 * Layouts may have device orders, also different ones: then "agrees with rank" is about positions in from's order, and a value that stays
 * partial keeps the numbers of its terms (the rank at position 3 of to's order owes the term that position 3 of from's order had).
 * The partial digits of `to` must be among those of `from`. Returns false when fn stopped it. */
bool pieces_received(const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank, PieceFn *fn, void *context);
/* Everything that `rank` sends (from == rank, to != rank), by enumerating the receivers. */
bool pieces_sent(const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank, PieceFn *fn, void *context);
/* Makes *from and *to, of a communication of this kind, those between which its pieces are the pieces of pieces_received and pieces_sent. In
 * an all_reduce or reduce_scatter every group of ranks along the digits summed works for itself, as in libraries: digits that neither layout has
 * become partial in both, which keeps the groups apart. Other kinds stay as they are. Boxes do not change. */
void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to);

/* ---------------------------------------------------------------- ops.def, rule.c */

enum { MAX_IN = 8, MAX_OUT = 8, MAX_ATTRS = 5, MAX_FACTORS = 12 };

typedef enum { ATTR_NONE, ATTR_BOOL, ATTR_INT, ATTR_FLOAT, ATTR_INTS, ATTR_TEXT } AttrKind;
typedef struct AttrSpec {
    const char *name;
    AttrKind kind;
    bool required;       /* else the value of a left-out one is 0, 0.0, [], "" with given = false */
} AttrSpec;
typedef struct Attr {
    bool given;          /* written by the user or a pass */
    int64_t i;           /* ATTR_BOOL, ATTR_INT */
    double f;            /* ATTR_FLOAT */
    int n;               /* ATTR_INTS: length */
    int64_t ints[MAX_NDIM];
    const char *text;    /* ATTR_TEXT */
} Attr;

/* A letter of an operator's rule. */
typedef struct Factor {
    int64_t size;
    bool whole;          /* must not be split */
    bool divides;        /* a split must divide the size (reshape) */
    int8_t reductions;   /* not 0: no kernel takes a split of it. The operator is then expanded (Op.expand_split) into ones of which so many reduce over it */
} Factor;

/* Whether a kernel needs the factor whole: expanded operators are of other rules. */
static inline bool factor_stays_whole(const Factor *factor) { return factor->whole || factor->reductions > 0; }

/* The einsum-like rule of one node: which factor each dimension of each operand and result runs over (-1: none, the dimension is
 * whole). A factor that no result has is contracted: splitting it makes the results partial (Op.reduction). */
typedef struct Rule {
    int nfactors, nout;
    int64_t index_range; /* elements of operands that are indices (Op.types) mean something in [0, index_range); others mean nothing: 0 */
    Factor factor[MAX_FACTORS];
    int8_t in[MAX_IN][MAX_NDIM];
    int8_t out[MAX_OUT][MAX_NDIM];
    TensorType result[MAX_OUT];
} Rule;

typedef struct RuleError {
    int operand;         /* the operand at fault, -1: the node as a whole */
    int attr;            /* the attribute at fault, or -1 */
    char text[512];      /* "contracted sizes differ: %0 has 32, %1 has 31": %0.. stand for operand names */
    char hint[256];      /* or "" */
} RuleError;
/* Operand types (hidden dimension already taken off), attributes -> rule. */
typedef bool RuleFn(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error);

/* What is known of the signs of a result. */
typedef enum {
    SIGN_UNKNOWN, SIGN_POSITIVE /* neither below 0 nor -0 */, SIGN_NEGATIVE /* not above 0 */, SIGN_KEPT /* operand 0's elements */, SIGN_TURNED /* -operand 0 */,
    SIGN_SUM /* of elements of operand 0, added to +0 */, SIGN_JOINED /* a sum of operands 0 and 1 */, SIGN_PRODUCT /* or quotient of operands 0 and 1 */
} Sign;

/* Which operands may be partial sums, the result then being one over the same digits. */
typedef enum {
    LINEAR_NONE,         /* none */
    LINEAR_JOINT,        /* all of them together, over the same digits */
    LINEAR_EACH,         /* exactly one */
    LINEAR_OPERAND_0,    /* only operand 0 */
    LINEAR_OPERAND_1,    /* only operand 1 */
} Linear;

typedef enum { OP_CLASS_USER, OP_CLASS_INTERNAL, OP_CLASS_LEAF, OP_CLASS_UPDATE, OP_CLASS_COMM } OpClass;
enum {
    DTYPES_FLOAT = 1 << F32 | 1 << F64,
    DTYPES_INDEX = 1 << I32 | 1 << I64,
    DTYPES_NUMBER = DTYPES_FLOAT | DTYPES_INDEX,
    DTYPES_ANY = DTYPES_NUMBER | 1 << BOOL
};

typedef struct Graph Graph;
typedef struct Node Node;
/* Adds the nodes that compute the gradient of each operand, given those of the results (-1: nobody uses it; one is there). dx[i] = -1: none. */
typedef void AdjointFn(Graph *graph, int node, const int *dy, int *dx);
/* Adds the nodes that a composite stands for; returns the value that replaces its result. Those of a gradient have node->origin as theirs. */
typedef int ExpandFn(Graph *graph, const Node *node);

typedef struct Op {
    const char *name, *title;  /* "matmul", "MatMul" as dumps write it */
    OpClass op_class;
    const char *ins, *outs;    /* names: "a, b"; outs NULL: one result */
    AttrSpec attrs[MAX_ATTRS];
    unsigned dtypes;           /* accepted element types */
    const char *types;         /* NULL: all operands and results have one element type. Else a letter each, "t, i -> t": t one of dtypes, the same
                                  for all that have it, i an index (i32 or i64), b bool, n i32, a what
                                  the attribute "to" names (f32 when left out) */
    const char *letters;       /* "...->..."; or: */
    RuleFn *rule;
    bool variadic;             /* the last operand may be repeated, up to MAX_IN operands in all (concat) */
    bool optional;             /* the last operand may be left out */
    bool broadcasts;           /* "..." in letters lets size 1, or no dimension, stand for any size, as it does in all of the user's operators */
    bool divided;              /* one result or more, up to MAX_OUT: its rule says how many (split) */
    Linear linear;
    Reduction reduction;       /* what the partial results owe when a contracted factor is split; sum when not said */
    AdjointFn *adjoint;        /* NULL: no gradient */
    ExpandFn *expand;          /* composite: rewritten before autodiff */
    ExpandFn *expand_split;    /* rewritten once strategies are chosen, where its strategy splits a factor that has reductions */
    int flops;                 /* per point of the factors' index space */
    Sign sign;
    bool in_place;             /* result i may overwrite operand i of the same box (elementwise; momentum: w over w, v over v) */
    bool flat;                 /* element i of a result as large as its operand needs just element i of that: it may be computed over it */
    bool view;                 /* and is that element: the result may lie where the operand lies, without a copy */
    bool boundary;             /* replicate, replica_sum: sees the hidden dimension */
    const char *samples;       /* operand shapes for tests/ops: "8x6, 6x4; 7x5, 5x3" */
    const char *help;          /* one line for --list-ops */
} Op;

typedef enum OpCode {
#define OP(name, ...) OP_##name,
#include "ops.def"
#undef OP
    NOPS
} OpCode;
extern const Op op_table[NOPS];
int op_find(const char *name);               /* OpCode, or -1 */
int op_attr(OpCode op, const char *name);    /* index, or -1 */
int op_nin(OpCode op);                       /* operands named in the row; a variadic operator may have more, an optional operand may be missing */
bool op_takes(OpCode op, int nin);           /* whether the operator may have so many operands */
int op_nout(OpCode op);                      /* results named in the row */
char op_type(OpCode op, bool result, int k); /* the letter of Op.types of operand or result k; 't' where the row has none */
unsigned op_dtypes(OpCode op, int operand);  /* the element types that an operand may have, a bit each */
bool op_gives(OpCode op, int nout);          /* whether the operator may have so many results */
void op_in_name(OpCode op, int operand, char *name, size_t n); /* "a"; of a repeated operand the last name of the row */
int op_in(OpCode op, const char *name);      /* the operand of this name, or -1: "g" is the gradient of an update */
/* Shape inference and factors of an operator on global operand types, hidden dimension included: it becomes factor 0 of every operand
 * and result. */
bool rule_infer(OpCode op, const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error);
bool rule_contracted(const Rule *rule, int nout, int factor); /* no result has it */
bool rule_in_has(const Rule *rule, int operand, int ndim, int factor);
/* Whether a gradient node's factor may be split as its origin's: both have one size, or the origin's is the part of a reshaped dimension in
 * which splits divide, and so of the whole dimension too. */
bool factor_maps(const Factor *own, const Factor *origin);
double rule_flops(OpCode op, const Rule *rule); /* product of all factor sizes times the row's flops */

/* ---------------------------------------------------------------- graph.c */

/* The digits that split each factor of a node, major first: factor f's are digit[start[f]] .. digit[start[f + 1] - 1]. Zeroed: none. No digit twice. */
typedef struct Strategy {
    int nfactors;
    uint8_t start[MAX_FACTORS + 1];
    Digit digit[MAX_DIGITS];
} Strategy;
static inline int strategy_count(const Strategy *s, int factor) { return s->start[factor + 1] - s->start[factor]; }
static inline const Digit *strategy_digits(const Strategy *s, int factor) { return s->digit + s->start[factor]; }
int64_t strategy_split(const Strategy *strategy, int factor);  /* product of the sizes of its digits; NULL: 1 */
bool strategy_append(Strategy *strategy, int factor, Digit digit); /* as the factor's minor digit; false: no room */
void strategy_follow(Strategy *strategy, int factor, const Strategy *other, int other_factor); /* gives the factor the digits of another strategy's */
typedef enum { STRATEGY_NONE, STRATEGY_USER, STRATEGY_PROPAGATED, STRATEGY_BATCH, STRATEGY_ORIGIN, STRATEGY_WHOLE } StrategyFrom;
extern const char *const strategy_from_name[]; /* "none", "user", "propagated", "batch", "origin", "whole" */

/* What a user wrote after `shard`: per operand, per dimension either a count (tuple) or axis names. */
typedef struct HintDim {
    Span span;
    int64_t split;               /* tuple form: the number; named form: 0 */
    int naxes;                   /* named form: axes, major first; 0 with named: "-" */
    const char *axis[16];
} HintDim;
typedef struct HintTuple {
    Span span;
    int ndim;
    HintDim dim[MAX_NDIM];
} HintTuple;
typedef struct Hint {
    Span span;                   /* the whole shard clause */
    const CellCall *call;        /* in which stands what the hint is for; NULL: in the net */
    bool named;
    int nin;                     /* tuples given; may be wrong: checked in strategies */
    HintTuple in[8];
    int nout;                    /* 0 or 1: "-> (8, 1)" */
    HintTuple out;
} Hint;

struct Node {
    OpCode op;
    int nin, nout;
    int in[MAX_IN], out[MAX_OUT];  /* value ids */
    const Attr *attr;              /* MAX_ATTRS of them; nodes alike share them and the rule (signature.c) */
    const Rule *rule;
    const char *name;              /* unique, readable: the name of its first result, or "matmul_3" */
    Span span;
    int origin;                    /* the forward node whose strategy a gradient node reuses; its own id otherwise */
    int8_t origin_factor[MAX_FACTORS]; /* for each own factor that of the origin, or -1: whole */
    const Hint *hint;              /* or NULL */
    StrategyFrom from;
    const Strategy *strategy;      /* NULL until propagate */
    const double *data;            /* op constant: elements in row-major order, or NULL: all equal to attr value */
    int state;                     /* op read, write: state id; op input: input id; else -1 */
    int version;                   /* op read: 0 before the step's write of that state, 1 after it */
    int micro;                     /* accumulate: a copy of the forward node `origin` for this batch of the step; 0: none. Not in texts */
    CommKind comm;                 /* op convert: which; from and to are the layouts of in[0] and out[0] */
};

typedef struct Value {
    const char *name;
    TensorType type;               /* global */
    int node, index;               /* its producer and which of its results */
    const Layout *layout;          /* interned in the graph; NULL until assign */
} Value;

typedef enum { INIT_ZEROS, INIT_ONES, INIT_NORMAL, INIT_UNIFORM, INIT_LITERAL, INIT_FILE } InitKind;
typedef struct Init {
    InitKind kind;
    double a, b;                   /* normal: mean 0 -> a = standard deviation; uniform: [a, b) */
    const double *data;            /* literal: all elements, row-major */
    const char *file;              /* INIT_FILE: .npy, as written in the source; relative to the plan's directory of compilation */
} Init;

/* Integers from begin up to end, which is excluded; begin == end: nothing is known (index.h). */
typedef struct IndexRange { int64_t begin, end; } IndexRange;

/* A value that outlives a step: a parameter, a slot of its optimizer, a const that a file holds. */
typedef struct State {
    const char *name;              /* "w"; optimizer slots "w.momentum" */
    TensorType type;               /* never hidden */
    Init init;
    bool trainable;                /* a parameter */
    int parameter;                 /* for a slot: the state id of its parameter; else its own id */
    IndexRange index;              /* integers of a const: those that mean something where they are used as an index, as of Input */
    Span span;
    const Hint *hint;              /* user's storage strategy: hint->in[0] */
    const Layout *layout;          /* storage layout, NULL until assign */
} State;

/* A const that a file holds: read when training begins, written by nothing, in no checkpoint. */
static inline bool state_is_const(const State *state) { return !state->trainable && state->init.kind == INIT_FILE; }

/* Files of rows: the first dimension of what they hold counts rows. */
typedef enum { FILE_NONE, FILE_NPY, FILE_IDX, FILE_CSV, FILE_RAW, NFILE_FORMATS } FileFormat;
extern const char *const file_format_name[NFILE_FORMATS]; /* "npy" */
enum { NFILE_ELEMENTS = 7 };
extern const char *const file_element_name[NFILE_ELEMENTS]; /* what a raw file may hold: "u8", .. "f64" */
typedef struct DataFile {
    FileFormat format;
    const char *path;              /* the source's directory joined; relative to where prun is started, else beside the plan */
    int64_t first, rows;           /* those of its rows that are used: from this one on, so many; 0: all behind it */
    int64_t column;                /* CSV: first column, behind that of this name; as many as a row has elements. -1: the last column, and so on */
    const char *heading;           /* CSV: the name of a column, in the first line; NULL or "": columns are counted from the first */
    int separator;                 /* CSV: the character between columns; 0: the comma, semicolon or tab of which the first line has most */
    int64_t offset;                /* raw: elements before the first row; then a last row that is not whole is left out. -1: none, rows fill the file */
    const char *stored;            /* raw: a file_element_name, little-endian; NULL: as the input's */
} DataFile;
/* Where an input's elements come from: the data source; 1 for rows of the data and 0 for rows that fill up a last batch; of the optimizer, one number
 * each: what the schedule multiplies the learning rate by at this update, and the number of the update, from 1. */
typedef enum { INPUT_DATA, INPUT_ROW_WEIGHT, INPUT_RATE, INPUT_UPDATE, NINPUT_KINDS } InputKind;
static inline bool input_is_of_batch(InputKind kind) { return kind == INPUT_DATA || kind == INPUT_ROW_WEIGHT; }
extern const char *const input_kind_name[NINPUT_KINDS];

typedef struct Input {
    const char *name;
    TensorType type;               /* global, hidden in data_parallel */
    Span span;
    const Hint *hint;
    const Layout *layout;          /* as delivered by the data source; NULL until assign */
    const double *per_rank;        /* per_rank: replicas x elements of one, in order of the hidden dimension; else NULL */
    InputKind kind;
    IndexRange index;              /* integers: what its elements are drawn from so that indices made of them mean something; not known: of no index */
    DataFile file;                 /* DATA_FILES: where its rows are */
    int micro, of;                 /* accumulate: which of the step's batches it holds, 0 the first; of others the input that holds the first */
} Input;

typedef struct Axis { const char *name; int32_t size; Digit digit; } Axis;

typedef enum { MODE_STAND_ALONE, MODE_DATA_PARALLEL, MODE_SEMI_AUTO, MODE_AUTO, NMODES } Mode;
typedef enum { DATASET_AUTO, DATASET_DATA_PARALLEL, DATASET_FULL_BATCH, DATASET_EXPLICIT } Dataset;
typedef enum { DATA_NONE, DATA_NUMPY_RAND, DATA_PER_RANK, DATA_FILES, DATA_NORMAL, DATA_UNIFORM, NDATA_KINDS } DataKind;
/* What becomes of the rows of an epoch that fill no whole batch: left out; filled up, the mean still over the batch; filled up, the mean over the rows
 * that are there. Rows that only fill up weigh nothing. */
typedef enum { LAST_DROP, LAST_PAD, LAST_SHORT, NLASTS } Last;
extern const char *const last_name[NLASTS];
typedef enum { EVAL_NEVER, EVAL_EPOCH, EVAL_STEPS, EVAL_END, NEVALS } EvalWhen;
extern const char *const eval_name[NEVALS];
/* What becomes of a training whose loss, or a parameter to be saved, is nan or infinite. */
typedef enum { ON_NAN_STOP, ON_NAN_GO, NON_NANS } OnNan;
extern const char *const on_nan_name[NON_NANS];
typedef enum { OPTIMIZER_NONE, OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM, OPTIMIZER_ADAMW, NOPTIMIZERS } OptimizerKind;
typedef enum { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, NSCHEDULES } ScheduleKind;
extern const char *const schedule_name[NSCHEDULES];
/* How the learning rate goes: schedule_rate. */
typedef struct Schedule {
    ScheduleKind kind;
    int64_t warmup; /* updates in which it rises from 0; 0: none */
    double end;     /* linear, cosine: what it ends with, as a share of the optimizer's lr */
} Schedule;
extern const char *const mode_name[NMODES];

#define BUCKET_BYTES ((int64_t)25 << 20) /* DDP's default */
/* What the train and parallel blocks say, after flags and defaults. */
typedef struct Settings {
    Mode mode;
    const char *search;            /* "sharding_propagation" */
    Dataset dataset;
    const Hint *dataset_hint;      /* DATASET_EXPLICIT: hint->in[i] for input i */
    Span dataset_span;
    bool gradients_mean;           /* data_parallel: mean (else sum) */
    int64_t bucket_bytes;          /* gradients reduced in one communication: up to so many, 0: each alone */
    VEC(Axis) mesh;                /* the named mesh, if any */
    Span mesh_span;
    DataKind data;
    int64_t data_seed, data_rows;  /* numpy_rand, normal, uniform: seed; numpy_rand: rows, 0: as many as the batch */
    bool shuffle;                  /* DATA_FILES: rows in the order of PyTorch's DistributedSampler with shuffle_seed; else as in the file */
    int64_t shuffle_seed;
    Last last;
    uint64_t seed;                 /* of initial values */
    OptimizerKind optimizer;
    double lr, momentum;
    double beta1, beta2, eps;      /* adam, adamw */
    double weight_decay;           /* sgd, momentum, adam: added to the gradient, times the parameter; adamw: shrinks the parameter; 0: none */
    Schedule schedule;
    int64_t accumulate;            /* batches of a step, whose gradients are averaged; 0, 1: one */
    double clip;                   /* gradients are scaled down so that their norm, of all together, is at most this; 0: they are not */
    int64_t epochs, steps, log_every; /* epochs 0: no training; steps 0: as many as an epoch of the data has; log_every 0: every step, MindSpore's line */
    OnNan on_nan;
    const char *log;               /* template of the line of a loss; NULL or "": MindSpore's line */
    int64_t log_rank;              /* whose losses it prints; -1: all ranks' */
    bool has_eval;                 /* there is an eval block */
    EvalWhen eval;                 /* when a training is interrupted for the program eval */
    int64_t eval_steps;            /* EVAL_STEPS: after so many steps each */
    bool checkpoint_epochs;        /* checkpoint every epoch */
    int64_t checkpoint_steps, keep; /* every so many steps, 0: not; how many checkpoints stay, 0: all */
    bool strict_divide;
} Settings;

typedef struct Dim { const char *name; int64_t size; } Dim;

/* A value that a program gives after a step, beside the loss. */
typedef struct Report {
    const char *name;              /* of an eval: "rows", "accuracy", "prediction" */
    int value;
    bool whole;                    /* every rank has all of it (of its hidden slices); else it is left as it lies */
} Report;

struct Graph {
    Arena *arena;
    const char *name;              /* of the net */
    const char *file;              /* source file name as given */
    VEC(const char *) files;       /* names of the source files by Span.file; NULL: no file, or the first, which is file */
    int nranks;
    int replicas;                  /* size of the hidden dimension; 0: no hidden dimension */
    VEC(Dim) dims;
    Settings settings;
    VEC(State) states;
    VEC(Input) inputs;
    VEC(Node) nodes;               /* in program order: operands come first */
    VEC(Value) values;
    VEC(const Layout *) layouts;   /* interned; see graph_layout */
    struct LayoutIndex *layout_index;
    struct NameIndex *name_index;  /* names of values, so that graph_add can keep them unique */
    struct Signatures *signatures;
    int loss;                      /* value id, -1: none */
    VEC(Report) reports;
    int nforward;                  /* nodes[0 .. nforward) existed before autodiff; 0 before it has run */
};

void graph_init(Graph *graph, Arena *arena);
int graph_add_state(Graph *graph, State state);
int graph_add_input(Graph *graph, Input input);
/* Adds a node: infers its rule and result types and makes its result values, named `name` (and name.1; NULL: the operator's name; a name
 * that a value has already gets a number: "h.grad_2"). Returns the node id, or -1 with *error filled when the operator's rule rejects the
 * operands. attr and error may be NULL; texts of attributes must live as long as the graph, the name is copied. Not for leaves. Pointers
 * into graph->nodes and graph->values do not survive it. */
int graph_add(Graph *graph, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span, RuleError *error);
/* The same for operands known to fit (passes): asserts; returns the first result's value id. */
int graph_emit(Graph *graph, OpCode op, const int *in, int nin, const Attr *attr, const char *name, Span span);
const char *graph_file(const Graph *graph, Span span);                     /* the name of the file that span is in, or NULL */
void graph_rename(Graph *graph, int value, const char *name);              /* made unique as graph_add does */
int graph_read_state(Graph *graph, int state, int version, const char *name, Span span); /* value id */
int graph_write_state(Graph *graph, int state, int value, Span span);     /* node id */
int graph_input(Graph *graph, int input);                                 /* value id of a new input node */
int graph_constant(Graph *graph, TensorType type, const double *data, double splat, const char *name, Span span); /* value id */
/* A gradient node of `forward`. Each operand and the result play the part of one of forward's tensors: part < MAX_IN is operand `part`,
 * part >= MAX_IN is result part - MAX_IN, PART_NONE is none of them. origin_factor follows from the parts. Returns the value id. */
enum { PART_OUT = MAX_IN, PART_NONE = -1 };
int graph_emit_gradient(Graph *graph, int forward, OpCode op, const int *in, const int *in_part, int nin, int out_part, const Attr *attr, const char *name);
/* Interns: equal layouts give the same pointer. Made canonical for shape first; exact: as it is, for the plan reader, which has no shape at hand. */
const Layout *graph_layout(Graph *graph, const Layout *layout, const Shape *shape);
const Layout *graph_layout_exact(Graph *graph, const Layout *layout);
int graph_layout_number(const Graph *graph, const Layout *layout);        /* its position in graph->layouts */
/* The layouts that a strategy asks of operand i, or gives result i (partial sums included). */
void strategy_in_layout(const Node *node, const Strategy *strategy, int operand, int ndim, Layout *layout);
void strategy_out_layout(const Node *node, const Strategy *strategy, int result, int ndim, Layout *layout);
void strategy_from_origin(const Node *node, const Strategy *origin, Strategy *strategy); /* by way of its origin's */
static inline bool node_is_leaf(const Node *node) { return op_table[node->op].op_class == OP_CLASS_LEAF; }
static inline const Node *graph_producer(const Graph *graph, int value) { return &graph->nodes.at[graph->values.at[value].node]; }
/* The value that the conversions before a value start from: itself where it is no conversion's result. */
static inline int graph_converted(const Graph *graph, int value) {
    while (graph_producer(graph, value)->op == OP_convert)
        value = graph_producer(graph, value)->in[0];
    return value;
}
/* What is reported: the loss, if there is one, then the reports. Their number; the k-th one's value; whether it must be whole. */
static inline int graph_nreports(const Graph *graph) { return (graph->loss >= 0) + graph->reports.n; }
static inline int graph_report(const Graph *graph, int k) {
    return graph->loss >= 0 && k == 0 ? graph->loss : graph->reports.at[k - (graph->loss >= 0)].value;
}
static inline bool graph_report_whole(const Graph *graph, int k) {
    return (graph->loss >= 0 && k == 0) || graph->reports.at[k - (graph->loss >= 0)].whole;
}
void graph_set_report(Graph *graph, int k, int value); /* makes value what is reported as the k-th one */
void graph_own_reports(Graph *graph); /* gives it a list of reports of its own, after the struct was copied */
int *graph_uses(const Graph *graph, Arena *arena); /* number of users of each value (each report counts as one), in the arena */

/* xxh64 of the net: the lowered graph, states, sources, replicas; not of ranks, strategies, -O. Computed from text by print.c. */
uint64_t graph_hash(const Graph *graph);

/* ---------------------------------------------------------------- verify.c */

/* What must hold between passes: operands before users, types as the rules say, factors mapped to the origin's, layouts valid, conversions
 * only of layouts. stage names the pass in the message. A failure is a bug of pcc (or of a plan): *error says where. */
bool graph_verify(const Graph *graph, const char *stage, Error *error);

/* ---------------------------------------------------------------- plan.c  (docs/plan.md) */

typedef enum { PLACE_ARENA, PLACE_STATE, PLACE_INPUT, PLACE_CONSTANT } Place;
extern const char *const place_name[];
/* A named value of the graph in a stated layout, and where it lies. */
typedef struct Instance {
    int value;                     /* graph value id */
    const Layout *layout;
    Place place;
    int64_t at;                    /* arena: offset in bytes; state, input: id; constant: graph node id */
    int version;                   /* PLACE_STATE: which version of the state, 0 or 1 */
} Instance;
/* Whether it lies in an input or in a state's old version and is the result of an operator that has views: it lies where its operand lies. */
bool instance_is_view(const Graph *graph, const Instance *instance);

typedef enum { STEP_KERNEL, STEP_LOCAL, STEP_START, STEP_WAIT, STEP_WRITE } StepKind;
enum { MAX_STEP_NODES = 4 };
typedef struct Step {
    StepKind kind;
    OpCode op;                     /* kernel: the operator */
    int nnodes, node[MAX_STEP_NODES]; /* the graph nodes that it computes; none for a communication */
    CommKind comm;                 /* local, start, wait */
    int request;                   /* start, wait: number that pairs them */
    int nin, nout;
    int in[MAX_IN], out[MAX_OUT];  /* instances; start: source and target; wait: the same; write: in[0] */
    int state;                     /* write: state id */
    int stream;                    /* 0 compute, 1 communication */
    int bucket;                    /* start, wait: starts that follow each other with one number run as one communication, and so do their waits; from 1, 0: alone */
} Step;

typedef struct Role {
    int first_rank, last_rank;
    int64_t arena_bytes;
    VEC(Instance) instances;
    VEC(Step) steps;
} Role;

typedef struct Program {
    const char *name;              /* "train", "eval" */
    Graph *graph;                  /* what it computes: over the plan's states (the same list), with inputs of its own. NULL: the plan's graph */
    int loss;                      /* instance id in every role, or -1 */
    VEC(int) reports;              /* likewise, of the graph's reports in their order */
    int64_t sent_bytes;            /* per step by a rank: the sum over all communications of what its busiest rank sends (traffic_step) */
    VEC(Role) roles;
} Program;

/* The thing between pcc and prun. graph is the unsharded graph after simplification, forward and backward, its states and inputs with
 * their storage layouts; its settings say epochs, steps, data. */
typedef struct Plan {
    int format;                    /* 1 */
    const char *options;           /* one line, for people: mode, search, -O, ... */
    uint64_t net_hash;
    Graph graph;
    VEC(Program) programs;
    const char *certificate;       /* one line, NULL: none */
    bool certificate_bound;        /* as read: it says of which text it is, and that is this one */
    const char *side_file;         /* as read: name of the file beside it that holds its long literals, NULL: none */
} Plan;

void plan_init(Plan *plan, Arena *arena);
/* The plan as one of its programs sees it: with that program alone, and as its graph the one that the program computes. Shares everything; lasts as long
 * as the plan. */
Plan plan_part(const Plan *plan, int program);
int plan_find(const Plan *plan, const char *program); /* -1: there is none */
/* The whole text with certificate and checksum. The same bytes for the same plan. */
void plan_print(Text *text, const Plan *plan);
/* Reads and checks what can be checked without a proof: version, checksum, grammar, ids in range, types by the rules, layouts valid,
 * sizes sane. name is for messages: "net.plan:12: unknown key 'foo'". flags: PLAN_IGNORE_CHECKSUM. */
enum { PLAN_IGNORE_CHECKSUM = 1 };
bool plan_read(Plan *plan, Arena *arena, const char *name, const char *text, size_t n, int flags, Error *error);
/* ---- side.c: literals of more than 4 KiB lie in a file beside the plan, which the text names with size and checksum */

/* The bytes of a plan's two files. side NULL: there is no second one. */
typedef struct PlanFiles {
    const char *text, *side;
    size_t n, nside;
} PlanFiles;
/* As plan_print, with the long literals appended to *side (nothing when there are none); side_file: its name in the text, without folder. */
void plan_print_files(Text *text, Text *side, const char *side_file, const Plan *plan);
void plan_certify(Text *text, const char *certificate); /* gives a text that was printed alone, without one, a certificate */
/* As plan_read, of both files; plan_read refuses a plan that names a side file. */
bool plan_read_files(Plan *plan, Arena *arena, const char *name, const PlanFiles *files, int flags, Error *error);
/* Both files of the plan at path, each of at most max_bytes. Fails (EXIT_ENVIRONMENT) when one cannot be read; whether they fit together
 * plan_read_files sees. */
bool plan_files_read(PlanFiles *files, Arena *arena, const char *path, size_t max_bytes, Error *error);
/* The text of a plan after an edit by hand: without its certificate, with a new checksum. Checks only that it is a plan of this format. */
bool plan_renew(Text *renewed, const char *name, const char *text, size_t n, Error *error);
/* The SPMD form of a stage: header, states, inputs, layouts and the graph with its layouts and strategies, in the plan's grammar. */
void graph_print(Text *text, const Graph *graph);
bool graph_read(Graph *graph, Arena *arena, const char *name, const char *text, size_t n, Error *error);
void attr_print(Text *text, OpCode op, const Node *node);      /* "{transpose_b: 1}" or "" */
