/* budget: a plan within the memory of a rank. Measures save bytes and cost time; those are taken that cost the least until the exact peak fits. */
#pragma once
#include "compiler/oracle.h"

/* A change of a differentiated net before pass expand, one notch. */
typedef struct Measure {
    const char *name; /* as the user would ask for it: "shard_states = parameters" */
    /* Changes b->front.graph, of which a fork is tried first. False: it is so already, the user has said otherwise, or there is nothing (more) to change. The same graph gives the
     * same result. */
    bool (*apply)(Build *b);
    void (*less)(Build *b,
                 double share); /* after apply: so that only this share of what it can change changes. NULL: it is all or nothing */
    bool faster;                /* it may save time: search = auto tries it without need */
    /* Decides what it will be behind these measures, before it is tried: *taken. NULL: there is nothing to decide. False: it can do nothing. */
    bool (*choose)(const Build *b, const Strategy *const *strategy, const Measures *measures, int64_t limit, Taken *taken);
} Measure;

/* recompute_choice.c: values of the forward pass that are computed again, so that a rank needs no more than limit, as far as that is known before it is tried. */
bool recompute_choose(const Build *b, const Strategy *const *strategy, const Measures *measures, int64_t limit, Taken *taken);

/* The bytes that a rank may need: `memory` or --memory, else what the machine has that --machine names; 0: no limit. */
int64_t budget_limit(const Build *b);
/* What the net costs with these strategies (as build_try takes them), and the measures with which it is within the limit, or, if `faster`, with which it takes less time. Where
 * nothing fits: those with which it needs the least. False: it cannot be compiled. */
bool budget_fit(const Build *b, const Strategy *const *strategy, bool faster, Measures *measures, BuildCost *cost, Error *error);
/* The same plan with no more of its last measure than the limit asks for. */
void budget_trim(const Build *b, const Strategy *const *strategy, Measures *measures, BuildCost *cost);
/* Applies measures to the net itself. False with *error: one of them changes nothing. */
bool measures_apply(Build *b, const Measures *measures, Error *error);
/* "shard_states = parameters: 25.2 GiB less on a rank, 12.3 ms more a step" of each of those that the net was compiled with, between two texts. */
void measures_print(Text *text, const Build *b, const char *before, const char *behind);
/* What one of them saves and costs: ": 25.2 GiB less on a rank, 12.3 ms more a step". */
void measure_print(Text *text, Arena *arena, int64_t saved_bytes, double seconds);
const char *measure_name(int measure);
