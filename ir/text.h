/* text: what print.c, read.c, source.c, plan.c share of the plan's text form (docs/plan.md): appending tokens, scanning them, and the sections that
 * a plan and a graph have in common. Nothing here is used outside ir/. */
#pragma once
#include "ir/plan.h"

enum { PLAN_FORMAT = 1, ARENA_ALIGNMENT = 8 };
#define MAX_TENSOR_BYTES ((int64_t)1 << 56) /* of a type or an arena: sums of a few still fit int64_t */

extern const char *const step_name[]; /* by StepKind: "kernel", "local", "start", "wait", "write" */
enum { NSTEPS = STEP_WRITE + 1, NPLACES = PLACE_ELSEWHERE + 1 };

/* ---------------------------------------------------------------- print.c: tokens */

void put(Text *text, const char *word);
void put_int(Text *text, int64_t value);
void put_double(Text *text, double value);     /* the shortest decimal that reads back as value */
void put_quoted(Text *text, const char *word); /* NULL as "" */
void put_word(Text *text, const char *word);   /* bare where it is letters, digits, _ . / -, else quoted */
void put_type(Text *text, const TensorType *type);
void put_ints(Text *text, const int *at, int n); /* "(1, 2)" */

/* ---------------------------------------------------------------- print.c: sections */

/* Numbers of layouts in the text, in order of first use, so that the text does not depend on what passes have interned. */
typedef struct LayoutNumbers {
    VEC(const Layout *) at;
    Map map;
} LayoutNumbers;

/* A text being printed. finish frees its memory, not the text. */
typedef struct Printing {
    Text *text;
    const Graph *graph;
    bool net; /* only what the hash of the net covers */
    Arena arena;
    int *value; /* by value id: its number in the text (order of definition), -1: no node makes it */
    LayoutNumbers layouts;
    int64_t side_at; /* where in the side file the next long literal begins; -1: literals stand in the text */
} Printing;
void printing_init(Printing *printing, Text *text, const Graph *graph);
void printing_turn(Printing *printing, const Graph *graph); /* continues with another graph; keeps the numbers of layouts */
void printing_finish(Printing *printing);
int printing_layout(Printing *printing, const Layout *layout); /* its number, a new one at first use */
void put_value(const Printing *printing, int value);           /* "%12" */
void printing_layouts(Printing *printing); /* numbers the layouts of the sections, in order of use; call before print_sections */
void print_head(Printing *printing);       /* net, file, ranks, replicas */
/* side.c: appends the plan's long literals, each once, to *side and prints the line that names it, if there are
 * any. side or file NULL: inline. */
void side_print(Printing *printing, const Plan *plan, Text *side, const char *file);
bool side_takes(int64_t n);              /* whether a literal of n numbers is a long one */
void print_sections(Printing *printing); /* parallel .. graph */
void print_eval(Printing *printing);     /* eval .. graph */
void print_generate(Printing *printing); /* generate .. graph */
void print_shorter(Printing *printing);  /* shorter .. graph */
void print_prompt(Printing *printing);   /* prompt .. graph */

/* ---------------------------------------------------------------- scan.c */

/* A position in a NUL-terminated text. Every function but those that only look returns false after filling *error with "name:line: ...". */
typedef struct Scan {
    Arena *arena;
    const char *name; /* of the file, for messages */
    const char *at, *end;
    int line; /* of at, 1-based */
    Error *error;
} Scan;
int scan_lines(const Scan *scan); /* an upper bound of the lines left, to reserve room */
bool scan_fail(Scan *scan, const char *format, ...) PRINTF_LIKE(2, 3);
bool scan_unexpected(Scan *scan, const char *expected); /* fails: says what stands here */
bool scan_is_keyword(Scan *scan, const char *keyword);  /* looks, and consumes it if it is there */
bool scan_is_key(Scan *scan, const char *key);          /* "key=" likewise */
bool scan_is_char(Scan *scan, char c);                  /* likewise */
bool scan_is_arrow(Scan *scan);                         /* likewise */
bool scan_is_end(Scan *scan);                           /* of the line; looks only */
bool scan_keyword(Scan *scan, const char *keyword);
bool scan_key(Scan *scan, const char *key);
bool scan_char(Scan *scan, char c);
bool scan_end(Scan *scan); /* of the line; continues with the next */
bool scan_integer(Scan *scan, const char *what, int64_t min, int64_t max, int64_t *value);
bool scan_int(Scan *scan, const char *what, int min, int max, int *value);
bool scan_unsigned(Scan *scan, const char *what, int base, uint64_t *value); /* base 10 or 16 (0-9a-f) */
bool scan_double(Scan *scan, const char *what, double *value);
bool scan_arrow(Scan *scan);                      /* "->" */
bool scan_word(Scan *scan, const char **word);    /* bare or quoted; in the arena */
bool scan_name(Scan *scan, char *name, size_t n); /* [a-z0-9_]+ shorter than n */
bool scan_choice(Scan *scan, const char *what, const char *const *names, int n, int *choice);
bool scan_type(Scan *scan, TensorType *type);
bool scan_digit(Scan *scan, int nranks, Digit *digit); /* s@t, s >= 1, s*t divides nranks (0: not asked) */
bool scan_span(Scan *scan, Span *span);                /* "@9:5", "@1/9:5", or nothing */

/* ---------------------------------------------------------------- source.c */

bool scan_index(Scan *scan, DType dtype, IndexRange *index); /* "index=(0, 10)", or nothing */
bool scan_split(Scan *scan, RowSplit *split);
bool scan_source(Scan *scan, Input *input); /* the kind of an input, and the file that holds its rows */

/* ---------------------------------------------------------------- read.c */

/* The line `side`, and how much of the file its literals have taken. */
typedef struct SideLine {
    const char *file;
    uint64_t bytes, checksum, used;
    const double *data; /* all of it; NULL: no side file */
} SideLine;

/* A plan or graph being read. */
typedef struct Reading {
    Scan scan;
    Graph *graph;
    VEC(const Layout *) layouts; /* by their number in the text */
    SideLine side;
} Reading;
bool read_head(Reading *reading);
/* side.c: the line `side`, if it is there, against the file; "(side 4096" of a literal of n numbers, after its keyword; at the end of the
 * graph: everything in the file was named. */
bool side_read(Reading *reading, const PlanFiles *files, int flags);
bool side_literal(Reading *reading, const char *what, int64_t n, const double **data);
bool side_end(Reading *reading);
bool read_sections(Reading *reading);
bool read_eval(Reading *reading); /* after the keyword, into a graph that has the plan's states */
bool read_generate(Reading *reading);
bool read_over(Reading *reading); /* shorter, prompt: into a graph that has the settings and states of the program before it */
bool read_layout_number(Reading *reading, int ndim, const Layout **layout);
/* "(1, 2)", each 0 .. limit - 1, at most max. what: "instance". */
bool read_ids(Reading *reading, const char *what, const char *prefix, int limit, int max, int *at, int *n);

extern const char *const init_name[];
