/* The syntax tree: what the parser builds from the text of one net, before any name or type is resolved.
 *
 * One kind of expression serves all places: sizes, tensors, attributes, literals, settings and strategies. The place of an expression
 * decides what it may be, so that messages about mistakes fit the place. Everything is in the arena. */
#pragma once
#include "ir/base.h"

enum {
    MAX_SOURCE_BYTES = 16 << 20, /* of a source file */
    MAX_BRACKETS = 256,          /* open at one place */
    MAX_EXPR_DEPTH = 1000,       /* levels of an expression, a chain of infix operators included */
    MAX_EXPRS = 4 << 20,         /* of a source file */
    MAX_NAME_BYTES = 120,        /* of a name */
    MAX_PATH_BYTES = 1000,       /* of a path: names joined by '.' */
};

/* A piece of the source: [begin, end) in bytes; 1-based line and column of begin. */
typedef struct Loc {
    int begin, end;
    int line, column;
} Loc;

typedef enum {
    EXPR_INT,     /* integer */
    EXPR_FLOAT,   /* real */
    EXPR_STRING,  /* text */
    EXPR_NAME,    /* text */
    EXPR_LIST,    /* [items] */
    EXPR_TUPLE,   /* (items); a single item without a comma after it is only parenthesized */
    EXPR_CALL,    /* text(items); KEYWORDs among them. method: written item.text(items) */
    EXPR_KEYWORD, /* text = item, in a call */
    EXPR_NEG,     /* - item */
    EXPR_NOT,     /* not item */
    EXPR_BINARY,  /* item op item */
    EXPR_DASH,    /* a lone "-" in a strategy: not split; a bound of a RANGE that is left out */
    EXPR_PATH,    /* item . item ...: axes in a strategy, x.shape; all but the first are NAMEs */
    EXPR_INDEX,   /* item[items]; RANGEs among them, and the NAMEs ... and None */
    EXPR_RANGE,   /* item : item, or item : item : item */
    EXPR_SHARD,   /* item shard ..., in brackets or as item.shard(...) */
} ExprKind;

typedef struct Expr {
    uint8_t kind; /* ExprKind */
    char op;      /* EXPR_BINARY: + - * / % @ < > =, and ^ **, l <=, g >=, ! !=, & and, | or */
    bool comma;   /* EXPR_TUPLE: the last item is followed by a comma */
    bool method;  /* EXPR_CALL */
    uint16_t depth;
    int nitems;
    Loc loc; /* EXPR_CALL and EXPR_KEYWORD begin with their name, but for methods */
    union {
        int64_t integer;
        double real;
        const char *text;
        const struct Shard *shard;
    };
    struct Expr *items, *last; /* first and last child */
    struct Expr *next;         /* the next child of the same parent */
} Expr;

/* `shard in -> out`; `shard` alone, in a cell: the strategy of the cell's call; after a call of a cell: `shard { path = in -> out; ... }`. */
typedef struct Shard {
    Loc loc;                  /* the whole clause */
    Expr *in;                 /* a TUPLE or LIST as written; NULL: the two other forms */
    Expr *out;                /* or NULL */
    bool block;               /* the form with braces */
    bool recompute;           /* of a pattern: the word recompute, instead of a strategy */
    bool regather;            /* of a pattern: likewise */
    Expr *stage;              /* of a pattern: the number in `stage 2`, instead of a strategy; else NULL */
    struct Pattern *patterns; /* in the braces */
} Shard;

/* `layer.*.fc1 = ((dp, -), (-, tp));`, `layer.* = recompute;`, `**.weight = regather;`, `layer.3 = stage 1;` in a hints block, or after the call of a cell. */
typedef struct Pattern {
    const char *path; /* names joined by '.', with wildcards */
    Loc loc;          /* of path */
    Shard *shard;
    Expr *mesh; /* `mesh (a = 2, b = 4);` in a hints block, with shard NULL; else NULL */
    struct Pattern *next;
} Pattern;
typedef struct PatternList {
    Pattern *first, *last;
} PatternList;

typedef struct TypeExpr {
    Loc loc;
    const char *dtype;
    Loc dtype_loc;
    Expr *dims; /* LIST; NULL for a scalar written without brackets */
} TypeExpr;

typedef enum {
    STATEMENT_INPUT,
    STATEMENT_PARAM,
    STATEMENT_CONST,
    STATEMENT_STATE,
    STATEMENT_WRITE, /* name <- value; */
    STATEMENT_ASSIGN,
    STATEMENT_LOSS,
    STATEMENT_LET,     /* let name = value; */
    STATEMENT_FOR,     /* for name in value..limit { body } */
    STATEMENT_IF,      /* if value { body } else { otherwise } */
    STATEMENT_RETURN,  /* return value; value is a LIST */
    STATEMENT_REQUIRE, /* require value "name"; */
} StatementKind;
/* The marks at the end of a statement, after a strategy: `recompute stage 2`. */
typedef struct Marks {
    bool recompute; /* what the statement calls is recomputed for gradients */
    Expr *stage;    /* the pipeline stage that runs what it calls; NULL: not given */
} Marks;
/* A further name on the left of an assignment: `q, k, v = split(...)` has two after the first. */
typedef struct Target {
    const char *name;
    Loc loc;
    struct Target *next;
} Target;
typedef struct TargetList {
    Target *first, *last;
} TargetList;

typedef struct Statement {
    StatementKind kind;
    const char *name;                   /* NULL: loss, if, return; the message of require */
    Loc name_loc;                       /* of the name; of `loss`, `if`, `return` */
    Target *targets;                    /* an assignment's names after the first */
    TypeExpr *type;                     /* declarations; NULL when left out */
    Expr *value;                        /* NULL when left out */
    Shard *shard;                       /* or NULL */
    Marks marks;                        /* an assignment, a return */
    Expr *limit;                        /* for */
    struct Statement *body, *otherwise; /* for, if */
    struct Statement *next;
} Statement;

/* `name = value;` in a block (or in the head of a net, between commas). `mesh (dp = 2);` has the CALL as its value,
 * `checkpoint every 100 steps;` and `every = 100 steps;` the CALL every(100, steps),
 * `log "text" on rank 0;` the CALL on("text", rank, 0), `assert comm < 2 MiB;` the CALL <(comm, 2097152), `forbid all_gather at a.*;` the CALL
 * at(all_gather, "a.*"). */
typedef struct Entry {
    const char *name;
    Loc name_loc;
    Expr *value;
    struct Entry *next;
} Entry;

/* Kinds before NBLOCKS may occur once. */
typedef enum {
    BLOCK_NET,
    BLOCK_TRAIN,
    BLOCK_PARALLEL,
    BLOCK_EVAL,
    BLOCK_GENERATE,
    NBLOCKS,
    BLOCK_CELL = NBLOCKS,
    BLOCK_LET,
    BLOCK_HINTS,
    BLOCK_IMPORT
} BlockKind;
typedef struct Block {
    BlockKind kind;
    Loc loc;          /* the keyword */
    const char *name; /* of a net, a cell, a number; the imported file; "found" for such hints */
    Loc name_loc;
    Entry *entries; /* of train and parallel; the numbers in the head of a net; a cell's parameters; let: the one */
    Statement *statements;
    Pattern *patterns;
    int file;              /* Span.file of its source */
    const char *directory; /* of its source, with its '/', or "" (imports.c) */
    struct Block *next;
} Block;

/* Lists under construction keep their last member, so that appending is constant time. */
typedef struct StatementList {
    Statement *first, *last;
} StatementList;
typedef struct EntryList {
    Entry *first, *last;
} EntryList;

/* The kind of a text: a file, one value (a flag such as --mode), one hint (--shard). */
typedef enum { PARSE_FILE, PARSE_VALUE, PARSE_HINT } ParseKind;

/* The pieces of a text in their order: tokens and comments, without white space. */
typedef VEC(Loc) Lexemes;

/* One run of lexer and parser over one text. */
typedef struct Parse {
    Arena *arena;
    Diags *diags;
    int file; /* Span.file */
    const char *text;
    size_t n;
    ParseKind kind;

    Block *blocks, *last_block; /* results: PARSE_FILE */
    Expr *value;                /* PARSE_VALUE */
    Pattern *hint;              /* PARSE_HINT */
    Lexemes *lexemes;           /* or NULL */

    bool stopped;                  /* no sensible error can follow: the lexer says end of file, the parser nothing */
    bool begun;                    /* the lexer has returned the token that selects the grammar */
    int offset, line, line_begin;  /* the lexer's place */
    bool paths;                    /* in a list of paths: one follows each comma */
    Loc current, previous, before; /* the last token returned, the one before it, and the one before that */
    int bad_end;                   /* end of the last bytes that formed no token */
    int nexprs;
    int nopen; /* brackets open now, outermost first */
    struct OpenBracket {
        Loc loc;
        char kind;
    } open[MAX_BRACKETS];
    bool unclosed; /* the current token ends a statement inside this bracket */
    Loc unclosed_loc;
    char unclosed_kind;
    int hints_open; /* nopen inside the braces around hints; 0: outside */
} Parse;

/* Reports the invisible characters in a file that mislead readers (characters.c); false where there are any. */
bool characters_check(Diags *diags, int file);
/* Parses a whole file into parse->blocks, or, value_only, one value into parse->value. False after diagnostics. */
bool parse_run(Parse *parse, Arena *arena, Diags *diags, int file, bool value_only);
/* The same for each kind of text; lexemes: filled, or NULL. */
bool parse_text(Parse *parse, Arena *arena, Diags *diags, int file, ParseKind kind, Lexemes *lexemes);
Span span_of(int file, Loc loc);

/* What the actions of the grammar call. */
Loc loc_join(Loc first, Loc last);
Expr *expr_new(Parse *parse, ExprKind kind, Loc loc);
Expr *expr_text(Parse *parse, ExprKind kind, Loc loc, const char *text);
Expr *expr_add(Parse *parse, Expr *parent, Expr *item); /* returns parent */
Expr *expr_binary(Parse *parse, char op, Expr *left, Expr *right);
Expr *expr_unary(Parse *parse, ExprKind kind, Loc loc, Expr *operand);
Expr *expr_member(Parse *parse, Loc loc, Expr *base, Expr *name);
Expr *expr_method(Parse *parse, Loc loc, Expr *base, const char *name, Expr *call);
Expr *expr_index(Parse *parse, Loc loc, Expr *base, Expr *subscripts);
Expr *expr_sharded(Parse *parse, Loc loc, Expr *operand, const Shard *shard);
Shard *shard_new(Parse *parse, Loc loc, Expr *in, Expr *out);
/* The right side of a pattern: a strategy, or the word regather. */
Shard *shard_of_pattern(Parse *parse, Loc loc, Expr *value);
/* Whether it is a mark and no strategy: recompute, regather, stage 2. */
bool shard_is_mark(const Shard *shard);
Shard *shard_method(Parse *parse, Loc loc,
                    Expr *call); /* from the arguments of .shard(...): one tuple per operand, or (in_strategy, out_strategy) */
Shard *shard_block(Parse *parse, Loc loc, PatternList patterns);
PatternList pattern_append(Parse *parse, PatternList list, const char *path, Loc loc, Shard *shard);
PatternList pattern_mesh(Parse *parse, PatternList list, const char *word, Loc loc, Expr *arguments);
TypeExpr *type_new(Parse *parse, Loc loc, const char *dtype, Loc dtype_loc, Expr *dims);
TargetList target_append(Parse *parse, TargetList list, const char *name, Loc loc);
Statement *statement_new(Parse *parse, StatementKind kind, const char *name, Loc name_loc);
StatementList statement_append(StatementList list, Statement *statement);
Entry *entry_new(Parse *parse, const char *name, Loc name_loc, Expr *value);
EntryList entry_append(EntryList list, Entry *entry);
Block *block_add(Parse *parse, BlockKind kind, Loc loc, const char *name, Loc name_loc, EntryList entries, StatementList statements);

/* What the lexer calls (syntax.c). */
void lex_advance(Parse *parse, Loc *loc, const char *text, int n);
int lex_token(Parse *parse, const Loc *loc, int kind);  /* notes the token; returns kind */
int lex_open(Parse *parse, const Loc *loc, char kind);  /* ( [ { */
int lex_close(Parse *parse, const Loc *loc, char kind); /* ) ] }: the closer that was meant; 0: none, reported */
int lex_end_statement(Parse *parse, const Loc *loc);    /* ; */
int lex_end_file(Parse *parse, Loc *loc);
int64_t lex_integer(Parse *parse, const Loc *loc, const char *text);
int64_t lex_size(Parse *parse, const Loc *loc, const char *text); /* "25 MiB", "1.5 GiB", "100 B" in bytes, the nearest whole number */
double lex_real(Parse *parse, const Loc *loc, const char *text);
void lex_bad_number(Parse *parse, const Loc *loc, const char *text);
void lex_bad_name(Parse *parse, const Loc *loc, int n);
void lex_bad_path(Parse *parse, const Loc *loc, int n);
bool lex_begins_hints(Parse *parse);      /* whether the current brace opens hints; notes it */
bool lex_begins_path(const Parse *parse); /* whether a path follows the current word: `forbid all_gather at ..` */
bool lex_in_hints(const Parse *parse);    /* whether a hint may begin here */
/* Whether the current word, `stage`, is not a name but begins `stage 2`, after an expression or a hint's '='. */
bool lex_begins_stage(const Parse *parse, const Loc *loc);
/* Whether paths follow the current `for` or `except`, in a setting with a value for some parameters only. */
bool lex_begins_paths(const Parse *parse);
bool lex_begins_write(const Parse *parse); /* whether the current '<', before a '-', follows the first name of a statement */
char *lex_string(Parse *parse, const Loc *loc, const char *text, int n); /* the text that a string literal stands for */
void lex_bad_string(Parse *parse, const Loc *loc);
void lex_bad_quotes(Parse *parse, const Loc *loc);
void lex_bad_comment(Parse *parse, const Loc *loc);
void lex_bad_include(Parse *parse, const Loc *loc); /* reports a comment that was meant as an import */
void lex_bad_operator(Parse *parse, const Loc *loc, const char *text);
int lex_other(Parse *parse, const Loc *loc, const char *text,
              int n); /* bytes that start no token: returns the token that was meant, 0: white space, -1: none */

/* What to write here for another language's name, for a hint; NULL: not known. what: "operator", "setting", "statement", .. (foreign.c) */
const char *foreign_hint(Arena *arena, const char *what, const char *name);

/* What the parser calls (syntax.c): token names as the grammar declares them. */
void syntax_error(Parse *parse, Loc loc, const char *unexpected, const char *const *expected, int nexpected);
void syntax_too_deep(Parse *parse, Loc loc);
void syntax_block_inside(Parse *parse, Loc loc); /* reports hints in braces inside brackets */
/* The CALL that stands for `name = number unit;`. Only the setting `every` takes a unit: elsewhere it is a syntax error. */
Expr *expr_counted(Parse *parse, const char *name, Expr *number, Expr *unit);
/* The CALL that stands for `lr 0.1 for encoder.**;` or, without a number, `decay except **.bias;`. The word is a syntax error for other names. */
Expr *expr_sentence(Parse *parse, const char *word, Loc loc, Expr *first, Expr *words); /* word(first, words..) */
Expr *expr_paths(Parse *parse, const char *name, const char *word, Loc loc, Expr *number, Expr *paths);
const char *hints_word(Parse *parse, const char *word, Loc loc); /* the word of `hints found {`: any other is an error */
/* The value of `forbid exchange;`; a syntax error for other names. end: the ';'. */
Expr *expr_forbidden(Parse *parse, const char *name, Expr *value, Loc end);
/* The CALL `op`(left, right, unit) that stands for `name left op right unit;`, unit NULL: none. Only `assert` compares: elsewhere it is a syntax error. */
Expr *expr_compared(Parse *parse, const char *name, Expr *left, const char *op, Expr *right, Expr *unit);
