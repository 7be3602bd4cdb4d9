/* drawn: tensors of random numbers. */
#pragma once
#include "ir/graph.h"
#include "ir/pool.h"

/* Numbers of a key's sequence, from `first` on: uniform in [0, 1) or normal, times `by`, plus `from`. range, if known: uniform integers of it instead. */
typedef struct Drawn {
    uint64_t key, first;
    bool normal;
    double from, by;
    IndexRange range;
    DType dtype;
    void *to;
} Drawn;

/* Fills n elements; where they are many, on up to `threads` threads of *pool, which is created if NULL. The caller destroys the pool. */
void drawn_fill(const Drawn *drawn, int64_t n, int threads, Pool **pool);
