/* ir: what a program is. This header holds what every folder uses: exit codes, memory, text, errors, time, diagnostics. Each header of this list includes
 * the one before it. A file includes the first header of the list that declares all it needs.
 *
 *   base.h    arena.c: memory by phase, growing vectors, text under construction; clock.c: time that passes; diag.c: user mistakes, with source, caret,
 *             note, hint
 *   half.h    the element types of 16 bits
 *   layout.h  type.c: element types, shapes, checked arithmetic; layout.c: how a tensor lies on the ranks, as digits of the rank number;
 *             box.c: index ranges: who holds, who owns, what moves where (closed formulas, no lists of ranks)
 *   op.h      ops.def: the operator table; rule.c, shapes.c: shape inference and factors
 *   graph.h   graph.c: nodes, values, states, inputs, settings, and how a graph is built; verify.c: what must hold of one between passes
 *   plan.h    plan.c: programs, roles, steps; label.c: their names in messages and traces; print.c, scan.c, read.c: the text form, both ways (docs/plan.md); side.c: its long literals
 *
 * Beside them: loops.h: loops over several tensors, and tensors that are strided views of others; gemm.h: contractions as matrix products; workspace.h: memory that kernels on
 * GPUs need beside tensors; file.h: whole files; checks that a command does not overwrite what it reads; pool.h: threads that share a loop; limits.h: what the system grants
 * this process; npy.h: the header of a .npy file; lookup.h: indices; adjoint.c: gradients; expansion.h: expansions of operators along rows that are split. */
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
void *arena_alloc(Arena *arena, size_t bytes);    /* zeroed, aligned for any type */
void arena_release(Arena *arena, const void *at); /* at is not used any more: a large allocation is freed, a small one stays */
char *arena_copy(Arena *arena, const char *text, size_t length); /* a NUL-terminated copy */
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *arena, const char *format, va_list args);

/* A growing array in an arena: VEC(int) v = {0}; vec_push(arena, &v, 7); v.at[0], v.n. */
#define VEC(T)                                                                                                                             \
    struct {                                                                                                                               \
        T *at;                                                                                                                             \
        int n, cap;                                                                                                                        \
    }
#define vec_push(arena, v, ...)                                                                                                            \
    ((v)->n == (v)->cap ? (void)((v)->at = vec_grow((arena), (v)->at, &(v)->cap, (v)->n, sizeof *(v)->at)) : (void)0,                      \
     (v)->at[(v)->n++] = __VA_ARGS__)
void *vec_grow(Arena *arena, const void *at, int *cap, int n, size_t item_bytes);
/* Makes room for `room` items in all. Growing would leave smaller copies behind; unused room costs addresses, not memory. */
#define vec_reserve(arena, v, room)                                                                                                        \
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
/* Replaces control characters by '?', so that text from a file fits a message of one line and cannot steer a terminal. */
void text_printable(char *text);

/* A failure of the environment (file, memory, MPI, ...): what failed and what to try. Functions that can fail this way
 * return bool and fill in an Error. code is an exit code. */
typedef struct Error {
    int code;
    int rank;      /* the rank that failed, which the text names; -1: the text names none */
    bool reported; /* it was printed already, or by another process: print nothing */
    char text[1024];
} Error;
/* These return false. */
bool error_set(Error *error, int code, const char *format, ...) PRINTF_LIKE(3, 4);
bool error_of_rank(Error *error, int rank, int code, const char *format, ...) PRINTF_LIKE(4, 5); /* the text names the rank */
bool error_prefix(Error *error, const char *format, ...) PRINTF_LIKE(2, 3); /* puts words before the text, unless it is reported */
bool error_reported(Error *error, int code);                                /* without a text */

double now_seconds(void);                          /* clock.c: from a monotonic clock, for differences */
int compare_seconds(const void *a, const void *b); /* clock.c: of doubles, for qsort */

/* ---------------------------------------------------------------- diag.c */

/* A place in a source file: 1-based line and column (bytes), length in bytes. line 0: no place. */
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

/* The kinds of warnings, each with the flags -Wno-NAME and, all together, -Werror (docs/explain.md). */
typedef enum { WARN_CONFLICT, WARN_UNEVEN, WARN_NO_GRADIENT, WARN_NO_EFFECT, WARN_REPLICATED, WARN_COSTLY, WARN_MEMORY, NWARNINGS } Warning;
extern const char *const warning_name[NWARNINGS]; /* "conflict", "uneven", "no-gradient", "no-effect", "replicated", "costly", "memory" */

enum { DIAG_MAX_ERRORS = 20 };
/* The diagnostics of a run, in order; a note or hint belongs to the error or warning before it. */
typedef struct Diags {
    Arena *arena;
    VEC(SourceFile) files;
    VEC(Diag) items;
    int nerrors, nwarnings;            /* of each, the first DIAG_MAX_ERRORS are kept, with their notes */
    bool dropped;                      /* the last error or warning was beyond that or silenced: drop its notes and hints too */
    unsigned silenced;                 /* warnings that are not wanted: 1 << Warning */
    bool warnings_are_errors, verbose; /* verbose: also notes on what is usual */
} Diags;
void diags_init(Diags *diags, Arena *arena);
int diags_add_file(Diags *diags, const char *name, const char *text, size_t n); /* returns its Span.file */
/* A diagnostic that repeats one at the same place is neither counted nor kept: a mistake in a loop or a cell is reported once. */
void diag_error(Diags *diags, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
/* Reports "text [-Wuneven]"; nothing where the warning is silenced, the error "text [-Werror=uneven]" where warnings are errors. */
void diag_warning(Diags *diags, Warning warning, Span span, const char *format, ...) PRINTF_LIKE(4, 5);
void diag_note(Diags *diags, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
void diag_hint(Diags *diags, const char *format, ...) PRINTF_LIKE(2, 3);
/* The call of a cell that encloses a place in the source. */
typedef struct CellCall {
    const char *cell, *path; /* "linear", called as "layer.0.fc1" */
    Span span;
    const struct CellCall *outer; /* the call that encloses this one; NULL: the net */
} CellCall;
/* Adds notes with the calls that lead to the last error or warning, the innermost first; NULL: none. */
void diag_calls(Diags *diags, const CellCall *call);
/* Prints all diagnostics, each as file:line:column: error: text, the source line, the span underlined. */
void diags_print(const Diags *diags, FILE *out);
/* The line of the source that span is in, without its end; "" where there is none. */
const char *diags_line(const Diags *diags, Span span, int *length);
/* The code point at the beginning of n bytes of UTF-8 if it changes the direction in which text is shown, so that a reader sees something
 * else than the compiler: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. 0: any other character. */
unsigned direction_control(const char *at, size_t n);
/* The candidate nearest to name by edit distance, or NULL when none is near (distance over a third of the length, or over 2 unless they are paths). */
const char *name_nearest(const char *name, const char *const *candidates, int n);
