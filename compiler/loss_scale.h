/* loss_scale: what `precision = f16` adds to a step: the scale of the loss. */
#pragma once
#include "ir/graph.h"

/* States of one f32 number each, and their values before the step; all in the graph that is differentiated. */
typedef struct LossScale {
    bool on;                        /* else every function returns what it is given */
    int scale, good, updates;       /* states: the scale; updates since it changed last; all updates, -1: nothing counts them */
    int old_scale, old_good, count; /* values: of these states, and the number of this update, from 1; -1: nothing counts them */
    int inverse;                    /* value: 1 / scale */
    int finite;                     /* value, a bool: no gradient is nan or infinite */
} LossScale;

/* Adds the states where the settings ask for a scale. counts: the optimizer takes the number of the update. */
void loss_scale_begin(Graph *graph, LossScale *scale, bool counts);
/* The gradient of the loss with respect to itself, `share` times the scale: a value. */
int loss_scale_seed(Graph *graph, const LossScale *scale, double share);
/* The gradient of the state that `read` reads, without the scale: a value. */
int loss_scale_remove(Graph *graph, const LossScale *scale, int read, int gradient);
/* Sets scale->finite. squares: a value of one real number, the sum of the squares of all gradients. */
void loss_scale_check(Graph *graph, LossScale *scale, int squares);
/* What a state holds after the step: `new` where gradients are finite, else `old`. Values. */
int loss_scale_keep(Graph *graph, const LossScale *scale, int new, int old, Span span);
/* Writes the states. */
void loss_scale_end(Graph *graph, const LossScale *scale);
