/* budget: a plan within the memory of a rank. Measures save bytes and cost time; those are taken that cost the least until the exact peak fits. */
#pragma once
#include "compiler/oracle.h"

/* A change of a differentiated net before pass expand, one notch. */
typedef struct Measure {
    const char *name; /* as the user would ask for it: "shard_states = parameters" */
    /* Changes the settings of a net for so many ranks. False: they are so already, the user has said otherwise, or there is nothing (more) to change. */
    bool (*apply)(Settings *settings, int nranks);
    void (*less)(Settings *settings,
                 double share); /* after apply: so that only this share of what it can change changes. NULL: it is all or nothing */
    bool faster;                /* it may save time: search = auto tries it without need, */
    bool hides;                 /* where communications run behind kernels */
    bool more;                  /* it needs more memory */
    /* Bytes of a rank that it saves at most in a program that was compiled without; NULL: that is not known. */
    int64_t (*most)(const Graph *graph);
    /* Decides what it will be beside these measures, with which the program was tried, before it is tried itself: *taken. NULL: there is nothing to decide. False: it can do
     * nothing. */
    bool (*choose)(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken);
    void (*set)(Settings *settings, int64_t bytes); /* the value of a setting that was chosen; NULL: it is none */
} Measure;

/* fits.c: what a rank would have less if it shared the states of small parameters too, as far as shard_states may say so. */
int64_t small_states_bytes(const Graph *g);
/* recompute_choice.c: values of the forward pass that are computed again, so that a rank needs no more than limit, as far as that is known before it is tried. */
bool recompute_choose(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken);

#define UNLIMITED (INT64_MAX / 4) /* bytes that no rank has */
/* The bytes that a rank may need: `memory` or --memory, else what the machine has that --machine names; 0: no limit. */
int64_t budget_limit(const Build *b);
/* What a rank needs in every plan on so many ranks, of all stages: all states, in even parts, and on GPUs the workspace of kernels, as far as no way to split a net spares it. */
int64_t least_bytes(const Graph *graph, int nranks, const Machine *machine);
/* Limits that are looked at whatever the user's is, eight of them from each power of two to the next, beside the workspace of kernels: the k-th, 0 at the least, and the first that is no smaller than so many bytes. What searches
 * find within them is the same for all limits, so that what fits into less fits into more. */
int64_t limit_at(int k, int64_t workspace);
int limit_from(int64_t bytes, int64_t workspace);
/* A plan that was compiled with measures, and its cost. */
typedef struct Budgeted {
    Measures measures;
    BuildCost cost;
} Budgeted;
/* A plan on its way into a limit. */
typedef struct Budget Budget;
/* What the net costs with these strategies (as build_try takes them), and, if a step takes less than so many seconds, with measures with which it takes less time. b and strategy must outlive it. NULL with *error: it cannot be
 * compiled. */
Budget *budget_begin(const Build *b, const Strategy *const *strategy, double faster_s, Error *error);
/* The same with measures that are known, of the net with other strategies. */
Budget *budget_again(const Build *b, const Strategy *const *strategy, const Measures *measures, Error *error);
/* Adds measures with which it is within the limit, and then takes less than `most` seconds. Where there are none: those with which it needs the least, or, where it takes as long, some. */
void budget_fit(Budget *budget, double most);
/* No more of its last measure than the limit asks for. */
void budget_trim(Budget *budget);
/* What each of its measures saves and costs, once more: of strategies that another plan's measures are taken with. Those that bring nothing are left out. */
void budget_weigh(Budget *budget);
/* Adds measures with which it takes less time. */
void budget_faster(Budget *budget);
void budget_read(const Budget *budget, Measures *measures, BuildCost *cost);
int budget_compiled(const Budget *budget); /* how many programs, so far */
/* Bytes of a rank that measures of which that is known save at most. */
int64_t budget_most(const Budget *budget);
/* The k-th of them that is another plan; the first is the one that it began with. NULL: there are no more. */
const Budgeted *budget_known(const Budget *budget, int k);
void budget_end(Budget *budget); /* NULL: nothing is done */
/* Applies measures to the net itself. False with *error: one of them changes nothing. */
bool measures_apply(Build *b, const Measures *measures, Error *error);
/* "shard_states = parameters: 25.2 GiB less on a rank, 12.3 ms more a step" of each of those that the net was compiled with, between two texts. */
void measures_print(Text *text, const Build *b, const char *before, const char *behind);
/* What one of them saves and costs: ": 25.2 GiB less on a rank, 12.3 ms more a step". */
void measure_print(Text *text, Arena *arena, int64_t saved_bytes, double seconds);
const char *measure_name(const Taken *taken);
/* Whether all traffic of parameters can run behind kernels in a net with these settings, or with measures: where they are stored in parts, gathers run behind the kernels before their use, and where every rank updates all, there
 * are none. */
bool measures_hide(const Settings *settings, const Measures *measures);
/* Whether one of them has ranks share the updates of small parameters. */
bool measures_share_small(const Measures *measures);
