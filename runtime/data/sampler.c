/* sampler: the order of rows. DistributedSampler deals out the rows of an epoch in turn: process w of W has those at places w, w + W, w + 2W, ...; its
 * loader takes them b at a time. So batch s of all processes together is the rows at places [sB, sB + B) of the epoch, whatever W is. W decides
 * only which process has which row of a batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"
#include "runtime/data/sampler.h"

void random_permutation(uint64_t seed, int64_t n, int64_t *order) {
    Mt19937 mt;
    mt19937_seed(&mt, (uint32_t)seed);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t other = i + (int64_t)(mt19937_word(&mt) % (uint64_t)(n - i)), row = order[i];
        order[i] = order[other];
        order[other] = row;
    }
}

void sampler_init(Sampler *sampler, int64_t rows, int64_t batch, int64_t world, bool shuffle, uint64_t seed, bool drop) {
    *sampler = (Sampler){.rows = rows,
                         .places = rows,
                         .batch = batch,
                         .world = batch % world == 0 ? world : 1,
                         .shuffle = shuffle,
                         .seed = seed,
                         .drop = drop,
                         .epoch = -1};
}

void sampler_even(Sampler *sampler, Uneven uneven) {
    const int64_t odd = sampler->rows % sampler->world;
    if (uneven == UNEVEN_PAD && odd > 0) sampler->places = sampler->rows + sampler->world - odd;
    if (uneven == UNEVEN_DROP) sampler->places = sampler->rows - odd;
}

void sampler_finish(Sampler *sampler) {
    free(sampler->order);
    sampler->order = NULL;
}

int64_t sampler_batches(const Sampler *sampler) {
    return sampler->places / sampler->batch + (!sampler->drop && sampler->places % sampler->batch != 0);
}

bool sampler_begin(Sampler *sampler, int64_t epoch, Error *error) {
    if (sampler->epoch == epoch) return true;
    if (sampler->shuffle) {
        if (!sampler->order) sampler->order = malloc((size_t)sampler->rows * sizeof *sampler->order);
        if (!sampler->order)
            return error_set(error, EXIT_ENVIRONMENT, "out of memory for the order of %lld rows", (long long)sampler->rows);
        random_permutation(sampler->seed + (uint64_t)epoch, sampler->rows, sampler->order);
    }
    sampler->epoch = epoch;
    return true;
}

int64_t sampler_row(const Sampler *sampler, int64_t step, int64_t place, bool *filler) {
    int64_t at = step * sampler->batch + sampler_place(sampler->batch / sampler->world, sampler->world, place);
    *filler = at >= sampler->places;
    at %= sampler->rows;
    return sampler->order ? sampler->order[at] : at;
}

int64_t split_rows(const RowSplit *split, int64_t rows, int part) {
    if (split->test) {
        const int64_t test = (int64_t)ceil((double)rows * split->share[1]);
        return part == 1 ? test : rows - test;
    }
    /* As torch.utils.data.random_split: sizes are rounded down, and the rows left over go one each to the parts from the first on. */
    int64_t left = rows;
    for (int i = 0; i < split->nshares; i++)
        left -= (int64_t)floor((double)rows * split->share[i]);
    return (int64_t)floor((double)rows * split->share[part]) + left / split->nshares + (part < left % split->nshares);
}

int64_t *split_part(const RowSplit *split, int64_t rows, int64_t *n) {
    int64_t *order = malloc((size_t)rows * sizeof *order + 1), before = 0;
    for (int part = 0; part < split->part; part++)
        before += split_rows(split, rows, part);
    *n = split_rows(split, rows, split->part);
    if (!order) return NULL;
    random_permutation((uint64_t)split->seed, rows, order);
    memmove(order, order + before, (size_t)*n * sizeof *order);
    return order;
}
