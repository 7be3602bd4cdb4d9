/* sampler: random numbers, and the order of rows that is derived from them. */
#pragma once
#include "ir/graph.h"

/* ---------------------------------------------------------------- random.c */

/* Each tensor has its own sequence, by a counter-based generator: Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011). Elements 2p and
 * 2p + 1 come from one block. */
uint64_t random_key(uint64_t seed, const char *name);                                          /* seed 0 is a seed like any other */
void random_uniform_pair(uint64_t key, uint64_t pair, double low, double high, double out[2]); /* [low, high) */
/* out[i]: number (first + i) % 2 of random_uniform_pair(key, (first + i) / 2, 0, 1), several times as fast. */
void random_uniforms(uint64_t key, uint64_t first, int64_t n, double *out);
/* As random_uniforms, but normally distributed with mean 0 and deviation 1. */
void random_normals(uint64_t key, uint64_t first, int64_t n, double *out);
/* numpy's legacy generator: RandomState(seed).random_sample(). */
typedef struct Mt19937 {
    uint32_t word[624];
    int next;
} Mt19937;
void mt19937_seed(Mt19937 *mt, uint32_t seed);
double mt19937_double(Mt19937 *mt); /* 53 bits, [0, 1) */
uint32_t mt19937_word(Mt19937 *mt);

/* ---------------------------------------------------------------- sampler.c */

/* PyTorch's DistributedSampler (torch/utils/data/distributed.py) and a loader of whole batches over it, index for index. */
typedef struct Sampler {
    int64_t rows; /* of the data set */
    int64_t
        places;    /* of an epoch, before it is cut into batches: the rows; with uneven = pad also those that come twice, with drop fewer */
    int64_t batch; /* rows of a global batch */
    int64_t world; /* distinct shares of a batch; 1 where shares are uneven: the order is then that of one process */
    bool shuffle;
    uint64_t seed;  /* of epoch 0; epoch e has seed + e */
    bool drop;      /* the rows of a last batch that is not full are left out */
    int64_t epoch;  /* the epoch that `order` belongs to; -1: none yet */
    int64_t *order; /* row at each place of the epoch, NULL: rows in file order */
} Sampler;
void sampler_init(Sampler *sampler, int64_t rows, int64_t batch, int64_t world, bool shuffle, uint64_t seed, bool drop);
/* Makes the shares of an epoch equal, by DistributedSampler's padding or its drop_last. */
void sampler_even(Sampler *sampler, Uneven uneven);
void sampler_finish(Sampler *sampler);
int64_t sampler_batches(const Sampler *sampler); /* of an epoch */
/* Makes `order` that of an epoch, counted from 0. False and *error without memory. */
bool sampler_begin(Sampler *sampler, int64_t epoch, Error *error);
/* The offset in the epoch's order, from the batch's first row, of the row at `place` of the batch. Each of `world` processes has a share of `share` rows. */
static inline int64_t sampler_place(int64_t share, int64_t world, int64_t place) {
    return place % share * world + place / share;
}
/* The row at `place` of batch `step` (both from 0) of the epoch that was begun. *filler: it is beyond the last place. After the last row those from the beginning follow, as
 * DistributedSampler pads. */
int64_t sampler_row(const Sampler *sampler, int64_t step, int64_t place, bool *filler);
/* How many of `rows` rows are in a part, and their numbers, in the order of the part. The caller frees the result of split_part, which is NULL without memory. */
int64_t split_rows(const RowSplit *split, int64_t rows, int part);
int64_t *split_part(const RowSplit *split, int64_t rows, int64_t *n);
/* torch.randperm(n) on a CPU with this seed; order has room for n. */
void random_permutation(uint64_t seed, int64_t n, int64_t *order);
