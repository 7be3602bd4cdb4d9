/* budget: fits a plan into the memory of a rank. Measures save bytes and cost time; the cheapest are taken until the exact peak fits. */
#pragma once
#include "compiler/oracle.h"

/* One step of change to a differentiated net, before pass expand. */
typedef struct Measure {
    const char *name; /* as the user would ask for it: "shard_states = parameters" */
    /* Changes the settings of a net on nranks ranks. False: they are so already, the user has set them otherwise, or there is nothing (more) to change. */
    bool (*apply)(Settings *settings, int nranks);
    void (*less)(Settings *settings,
                 double share); /* after apply: limits it to this share of what it can change. NULL: it is all or nothing */
    bool faster;                /* it may save time: search = auto tries it even without need, */
    bool hides;                 /* but only where communications overlap with kernels */
    bool more;                  /* it needs more memory */
    /* The most bytes that it can save on a rank, for a program compiled without it; NULL: that is not known. */
    int64_t (*most)(const Graph *graph);
    /* Before it is tried: chooses its value or its marks, into *taken, for a program that was tried `with` these measures. NULL: it has nothing to choose. False: it can do
     * nothing. */
    bool (*choose)(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken);
    void (*set)(Settings *settings, int64_t bytes); /* sets the chosen value; NULL: what it chooses is no setting */
} Measure;

/* fits.c: bytes that a rank would save if ranks shared the states of small parameters too, as far as shard_states permits. */
int64_t small_states_bytes(const Graph *g);
/* recompute_choice.c: chooses values of the forward pass to recompute so that a rank needs no more than limit, as far as that is known before it is tried. */
bool recompute_choose(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken);

#define UNLIMITED (INT64_MAX / 4) /* more bytes than any rank has */
/* The bytes that a rank may need: aim_bytes, else `memory` or --memory, else what the machine of --machine has; 0: no limit. */
int64_t budget_limit(const Build *b);
/* The bytes that every plan on nranks ranks (of all stages) needs on a rank: all states in even parts, and on GPUs the workspace of kernels that no way to split a net avoids. */
int64_t least_bytes(const Graph *graph, int nranks, const Machine *machine);
/* Fixed limits, the same whatever the user's limit is: eight from each power of two to the next, plus the workspace of kernels. limit_at: the k-th (k below 0: the one at 0); limit_from: which one is the first that is at least so many
 * bytes. Searches within them find the same for every limit of the user's, so that what fits into less memory also fits into more. */
int64_t limit_at(int k, int64_t workspace);
int limit_from(int64_t bytes, int64_t workspace);
/* A plan that was compiled with measures, and its cost. */
typedef struct Budgeted {
    Measures measures;
    BuildCost cost;
} Budgeted;
/* A plan that is brought within a limit. */
typedef struct Budget Budget;
/* Compiles the net with these strategies (as build_try takes them) and, if a step takes less than faster_s seconds, adds measures that make it faster; also those that keep more demands. b and strategy must outlive it.
 * NULL with *error: it cannot be compiled. */
Budget *budget_begin(const Build *b, const Strategy *const *strategy, double faster_s, Error *error);
/* The same with given measures, which were taken with other strategies. */
Budget *budget_again(const Build *b, const Strategy *const *strategy, const Measures *measures, Error *error);
/* Adds measures that bring it within the limit, with a step of less than `most` seconds. Where none do: those with which it needs the least memory, or, once a step takes that long, some. */
void budget_fit(Budget *budget, double most);
/* Reduces its last measure to the share that the limit asks for. */
void budget_trim(Budget *budget);
/* Finds anew what each of its measures saves and costs, where another plan's measures were taken over. Drops those that bring nothing. */
void budget_weigh(Budget *budget);
/* Adds measures that make a step faster. */
void budget_faster(Budget *budget);
void budget_read(const Budget *budget, Measures *measures, BuildCost *cost);
int budget_compiled(const Budget *budget); /* how many programs it has compiled so far */
/* The most bytes that measures can save on a rank, of those for which that is known. */
int64_t budget_most(const Budget *budget);
/* The k-th distinct plan that it compiled; the first is the one that it began with. NULL: there are no more. */
const Budgeted *budget_known(const Budget *budget, int k);
void budget_end(Budget *budget); /* NULL: nothing is done */
/* Applies measures to the net itself. False with *error: one of them changes nothing. */
bool measures_apply(Build *b, const Measures *measures, Error *error);
/* Of each measure that the net was compiled with: "shard_states = parameters: 25.2 GiB less on a rank, 12.3 ms more a step", between two texts. */
void measures_print(Text *text, const Build *b, const char *before, const char *behind);
/* What a measure saves and costs: ": 25.2 GiB less on a rank, 12.3 ms more a step". */
void measure_print(Text *text, Arena *arena, int64_t saved_bytes, double seconds);
const char *measure_name(const Taken *taken);
/* Whether all traffic of parameters can overlap with kernels, with these settings or measures: where parameters are stored in parts, gathers overlap with the kernels before their use, and where every rank updates all, there
 * are no gathers. */
bool measures_hide(const Settings *settings, const Measures *measures);
/* Whether one of these measures has ranks share the updates of small parameters. */
bool measures_share_small(const Measures *measures);
