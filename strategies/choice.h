/* Internal to strategies/: candidates as numbers, and what choosing among them costs. */
#pragma once
#include "strategies/strategies.h"

/* Splits per factor of several strategies, in lexicographic order: row i at at[i * nfactors]. */
typedef struct Splits {
    int n, nfactors;
    int32_t *at;
} Splits;
/* The candidates of an operator with this rule (strategies.h); strict: a split must divide its factor. */
Splits candidate_splits(const Rule *rule, int nranks, bool strict, Arena *arena);
/* The largest split of `factor` alone that its size and nranks allow. */
int32_t split_largest(const Factor *factor, int nranks, bool strict);
/* Per value, the dimension along which the batch lies: 0 for an input, then the dimension with the same letter. BATCH_NONE: the value
 * depends on parameters and constants alone. BATCH_LOST: it depends on an input, but has no batch dimension (a sum over the batch). */
enum { BATCH_NONE = -2, BATCH_LOST = -1 };
int8_t *values_batch(const Graph *graph, Arena *arena);
/* The factor of the node's batch; -1: none that may be split. It is the batch of the first operand that has one; where operands have lost
 * theirs, the factor of dimension 0 of the first of those. */
int batch_factor(const Graph *graph, const Node *node, const int8_t *batch);
/* Splits as "((2, 4), (4, 1))". */
void splits_print(Text *text, const Graph *graph, const Node *node, const int32_t *splits);

/* ---- cost.c: layouts and conversions of one propagation, each counted once */

typedef struct CostMemo CostMemo;
CostMemo *cost_memo_create(Arena *arena, int nranks);
/* Number of a layout of a tensor of this shape, made canonical and without partial digits. */
int cost_layout(CostMemo *memo, const Layout *layout, const Shape *shape);
/* The same with its partial digits, for layouts that are only a source. */
int cost_layout_made(CostMemo *memo, const Layout *layout, const Shape *shape);
int cost_layout_parts(CostMemo *memo, int number); /* the layout without halos, in which the value may be made or stored */
const Layout *cost_layout_at(const CostMemo *memo, int number);
const Shape *cost_shape_at(const CostMemo *memo, int number);
/* The fewest elements that all ranks together receive when a tensor is converted from one layout to another; both numbers are of the same
 * shape. */
int64_t cost_convert(CostMemo *memo, int from, int to);
/* FLOPs of the busiest rank. */
double cost_flops(OpCode op, const Rule *rule, const int32_t *splits);
