/* Internal to the solvers (docs/search.md): a form of the problem that can be reduced, and the parts that problem_solve puts together.
 *
 *   tables.c         tables of costs, one for each contents, so that equal work is done once
 *   core.c           the spots (variables) and choices that are left of a problem
 *   bounds.c         choices with which every solution costs too much
 *   times.c          the times at which the limit could be broken
 *   dominance.c      what can be decided exactly, one spot after another
 *   eliminate.c      a block of spots exactly, while everything else is fixed
 *   dual.c           a lower bound, with prices of memory, and the regret of each choice
 *   branch.c         a search of the whole, of the likely choices, around what does not fit
 *   priced.c         a solution that fits, by prices
 *   neighbourhood.c  a solution made better block by block
 *   solve.c          problem_solve */
#pragma once
#include "ir/map.h"
#include "search/problem.h"

/* ---------------------------------------------------------------- tables.c */

/* Two tables with the same size and contents are one pointer. A vector is a table of one row. */
typedef struct Table Table;
struct Table {
    int nrows, ncolumns;
    const double *at;     /* at[row * ncolumns + column] */
    const Table *turned;  /* rows and columns exchanged; NULL: not asked for yet (table_turned) */
    const double *excess; /* NULL: not asked for yet (table_excess) */
    const double *least;  /* NULL: not asked for yet (table_least) */
    int id;               /* place among the tables */
};

/* What an operation on tables gave. */
typedef struct TableResult {
    int kind, first, second, third; /* the operation; ids of its operands */
    const Table *table;
    const uint16_t *choice; /* of the variable that is minimised, per entry of the table; NULL: there is none */
} TableResult;

typedef struct Tables {
    Arena *arena;
    VEC(Table *) all;
    Map contents; /* hash of size and contents -> id */
    Map results;  /* hash of an operation and its operands -> place in done */
    VEC(const TableResult *) done;
    int64_t *work; /* entries looked at */
} Tables;

struct Known {
    Tables tables;
    Map edges; /* address of a CostTable -> place in interned */
    VEC(const Table *) interned;
    VEC(const CostTable *) address;
};

#define CELLS(table) ((size_t)(table)->nrows * (size_t)(table)->ncolumns)

const Table *table_of(Tables *tables, int nrows, int ncolumns, const double *at); /* copies new contents */
const Table *table_turned(Tables *tables, const Table *table);
const Table *table_sum(Tables *tables, const Table *a, const Table *b);
const Table *table_row(Tables *tables, const Table *table, int row);            /* as a vector */
const Table *table_rows(Tables *tables, const Table *table, const Table *kept); /* those that a vector of numbers names */
/* [a * nrows + b]: by how much row a costs more than row b at most, over all columns; columns that b excludes do not count. */
const double *table_excess(Tables *tables, const Table *table);
const double *table_least(Tables *tables, const Table *table); /* of each row */
/* cost: [n], from: [a, n] -> [a], from_i = min over c of cost_c + from_ic; with to: [b, n] -> [a, b]. The first of equal choices. */
const TableResult *table_leaf(Tables *tables, const Table *cost, const Table *from);
const TableResult *table_series(Tables *tables, const Table *cost, const Table *from, const Table *to);

/* ---------------------------------------------------------------- core.c */

typedef struct Link {
    int to;             /* another variable, to which there is no second link */
    const Table *table; /* at[mine * theirs->n + theirs] */
} Link;

/* A variable of the problem with the choices that are left. */
typedef struct Spot {
    int variable; /* of the problem */
    int n;
    const Table *cost;    /* a vector */
    const int64_t *bytes; /* per choice, above the least of them; NULL: all the same, or live at no time that counts */
    int begin, end;       /* among the times that count */
    const int *origin;    /* the problem's choices */
    VEC(Link) links;
    int age;   /* how many eliminations, one after another, led to its links: equal layers are reduced side by side */
    bool gone; /* decided, or left to a record of how to decide it */
} Spot;

/* How to choose for a spot that is gone, once its neighbours have chosen. */
typedef struct Record {
    int spot, nnear;
    int near[2];
    const int *near_origin[2]; /* their choices at that time */
    int near_n[2];
    const uint16_t *choice; /* the spot's, by those of its neighbours; NULL: 0 */
} Record;

/* A choice that another one of its spot has replaced; both as the problem numbers them. */
typedef struct Replaced {
    int spot, from, to;
} Replaced;

typedef struct Core {
    const struct Core *outer; /* the core that this is a part of; NULL: it is the whole problem */
    Arena *arena;
    Tables *tables;
    int n;
    Spot *spot;
    VEC(Record) records;
    VEC(Replaced) replaced;
    double constant; /* seconds of what is gone */
    int ntimes;      /* at which the choices could hold more than the limit */
    int64_t *room;   /* bytes at each of them, for what choices hold above the least */
    int *time;       /* the problem's times */
    bool impossible; /* nothing that is left fits */
} Core;

void core_init(Core *core, const Problem *problem, Known *known, Arena *arena);
/* Makes the problem of the n spots of a block, while the others keep their choices. keep: which choices of each spot of the core are left
 * (NULL: all). Its tables are its own. */
void core_sub(Core *sub, const Core *core, const int *block, int n, const int *choice, bool *const *keep, Tables *tables, Arena *arena);
void core_connect(Core *core, int from, int to, const Table *table); /* adds to a link that is there */
void core_disconnect(Core *core, int v);                             /* takes the links to v from its neighbours */
void core_keep(Core *core, int v, const int *kept, int n);           /* leaves only these choices of v, ascending */
/* Fills in result, the choice of each variable of the problem, for all spots, also those that are gone. choice: of the spots that are not
 * gone; NULL: result has them. */
void core_expand(const Core *core, const int *choice, int *result);
/* Fills in the choices of the spots for a result; the core must still have its choices, or what replaced them. */
void core_contract(const Core *core, const int *result, int *choice);
/* Seconds of choices of the spots, with the constant. */
double core_cost(const Core *core, const int *choice);

/* ---------------------------------------------------------------- bounds.c */

/* Removes choices with which every solution costs at least so much; the core is impossible where all do. */
void core_drop(Core *core, double most);

/* ---------------------------------------------------------------- times.c */

/* Removes choices that exceed the room, and times at which none can; sets changed[v] of spots to look at again. */
void core_times(Core *core, bool *changed);

/* ---------------------------------------------------------------- dominance.c */

/* Decides what can be decided without a loss: choices that another one replaces, spots with one choice, spots with at most two links that hold no bytes. */
void core_reduce(Core *core);

/* ---------------------------------------------------------------- eliminate.c */

/* Gives the n spots of a block their best choices while all others keep theirs; bytes do not count. Of equal solutions it takes always the
 * same. False, with nothing done, where that looks at more than max_work entries; otherwise they are added to *work. */
bool block_eliminate(const Core *core, const int *block, int n, int64_t max_work, int *choice, int64_t *work);

/* ---------------------------------------------------------------- dual.c */

/* The most bytes over the room at any time. used: filled with the bytes of the spots at each time; it has one place more than times. */
int64_t core_over(const Core *core, const int *choice, int64_t *used);

typedef struct DualSpot DualSpot;
typedef struct Dual {
    const Core *core;
    double bound;       /* of the best pass */
    double *best_price; /* its seconds a byte, per time */
    int *choice;        /* of the last pass, per spot of the core, with their cost and the bytes that they are over the room */
    double cost;
    int64_t over;
    double *price; /* of the next pass */

    Arena *arena;
    int n;
    DualSpot *spot;
    int *place;         /* of a spot among those that are not gone */
    int *number;        /* per spot: a link to it, + 1; 0 outside of dual_warm */
    int ntimes, *time;  /* those of the core when this was made: it may have fewer by now */
    double *price_from; /* per time: sum of the prices before it */
    double first_step;
    double *step; /* per time: of its price */
    int8_t *sign; /* per time: of its last move */
    int64_t *used;
    double *sum, *part;
    int64_t entries; /* of one pass */
} Dual;
Dual *dual_create(const Core *core, Arena *arena);
/* Takes the first messages and prices from a dual of the same variables, where it has them. */
void dual_warm(Dual *dual, const Dual *from);
void dual_pass(Dual *dual);
/* Returns a bound. regret, per spot of the core and choice: any solution with that choice costs at least so much more than the bound. */
double dual_regret(Dual *dual, double *const *regret);

/* ---------------------------------------------------------------- branch.c */

typedef struct Search {
    const Problem *problem;
    int64_t work; /* entries of tables looked at */
    bool any;     /* any solution that fits will do */
    bool found;
    double cost; /* of the best solution that fits */
    int *choice; /* of that solution, per variable of the problem */
    int *base;   /* the same, or the choices of all others while another core is searched */
    uint64_t random;
} Search;
/* Remembers the solution in which the spots of a core have these choices and all others those of base, if better, or (equal) as good. */
bool search_take(Search *s, const Core *core, const int *choice, bool equal);

typedef enum { SEARCH_WHOLE, SEARCH_DIVE, SEARCH_BLOCK } SearchMode; /* everything; one solution that is likely good; a small block */
/* Searches a core, which it reduces. True: none of its solutions is better than the best that is remembered. bound: raised to what holds
 * for all solutions that are better than the best; NULL: not asked for. */
bool search_core(Search *s, Core *core, const Dual *warm, int64_t work_end, SearchMode mode, double *bound);

/* ---------------------------------------------------------------- neighbourhood.c */

/* Improves the best solution in blocks of the core's spots. True: all spots were solved as one block. */
bool neighbourhood_search(Search *s, const Core *core, const Dual *dual, double *const *regret, int64_t work_end);

/* ---------------------------------------------------------------- priced.c */

/* Finds a solution that fits: that of the problem without its limit, with prices that rise until the choices fit, and fall again as far as
 * they do. True: the best so far is this or an earlier one, and cheaper has, per variable of the problem, the choices at the largest prices
 * at which they do not fit. */
bool search_priced(Search *s, const Dual *dual, int64_t work_end, int *cheaper);

/* ---------------------------------------------------------------- solve.c */

/* Searches the whole problem; true: nothing better is left. bound: what every solution costs at the least. */
bool search_problem(Search *s, int64_t work_end, double *bound);
