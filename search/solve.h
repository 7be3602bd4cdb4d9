/* Internal to the solvers (docs/search.md): the problem in the form in which it shrinks, and the parts that problem_solve puts together.
 *
 *   tables.c         tables of costs, one for each contents, so that equal work is done once
 *   core.c           the variables and choices that are left of a problem
 *   eliminate.c      blocks of variables, exactly, while everything else is fixed
 *   solve.c          problem_solve */
#pragma once
#include "ir/map.h"
#include "search/problem.h"

/* ---------------------------------------------------------------- tables.c */

/* Two tables with the same size and contents are one pointer. A vector is a table of one row. */
typedef struct Table Table;
struct Table {
    int nrows, ncolumns;
    const double *at;    /* at[row * ncolumns + column] */
    const Table *turned; /* rows and columns exchanged; NULL: not asked for yet (table_turned) */
    int id;              /* place among the tables */
};

typedef struct TableResult {
    int kind, first, second, third; /* operation; ids of its operands */
    const Table *result;
} TableResult;

typedef struct Tables {
    Arena *arena;
    VEC(Table *) all;
    Map contents; /* hash of size and contents -> id */
    Map results;  /* hash of an operation and its operands -> place in done */
    VEC(TableResult) done;
    int64_t work; /* entries looked at */
} Tables;

#define CELLS(table) ((size_t)(table)->nrows * (size_t)(table)->ncolumns)

const Table *table_of(Tables *tables, int nrows, int ncolumns, const double *at); /* copies new contents */
const Table *table_turned(Tables *tables, const Table *table);
const Table *table_sum(Tables *tables, const Table *a, const Table *b);
const Table *table_row(Tables *tables, const Table *table, int row); /* as a vector */

/* ---------------------------------------------------------------- core.c */

typedef struct Link {
    int to;             /* another variable, to which there is no second link */
    const Table *table; /* at[mine * theirs->n + theirs] */
} Link;

/* A variable of the problem with the choices that are left. */
typedef struct Spot {
    int n;
    const Table *cost;    /* a vector */
    const int64_t *bytes; /* per choice, above the least of them; NULL: all the same, or live at no time that counts */
    int begin, end;       /* among the times that count */
    const int *origin;    /* the problem's choices */
    VEC(Link) links;
    bool gone; /* decided, or left to a record of how to decide it */
} Spot;

typedef struct Core {
    const Problem *problem;
    Arena *arena;
    Tables tables;
    int n; /* of the problem's variables */
    Spot *spot;
    int ntimes;    /* times at which the most that the choices could hold is over the limit */
    int64_t *room; /* bytes at each of them for what is above the least */
} Core;

void core_init(Core *core, const Problem *problem, Arena *arena);
void core_connect(Core *core, int from, int to, const Table *table); /* adds to a link that is there */
/* The cost of choices of what is not gone. */
double core_cost(const Core *core, const int *choice);

/* ---------------------------------------------------------------- eliminate.c */

/* Gives n spots of a block their best choices while all others keep theirs, at the sum of costs and links (of bytes times price, where price is not NULL: seconds a
 * byte for each spot). Of equal solutions always the same. False, with nothing done, where that looks at more than max_work entries; otherwise they are added to *work. */
bool block_eliminate(const Core *core, const int *block, int n, const double *price, int64_t max_work, int *choice, int64_t *work);
