/* drawn: tensors of random numbers. */
#pragma once
#include "ir/graph.h"
#include "ir/pool.h"

/* Numbers of a key, from `first` on: uniform in [0, 1) or normal, times `by`, plus `from`; range: instead, integers of it, each as likely as another. */
typedef struct Drawn {
    uint64_t key, first;
    bool normal;
    double from, by;
    IndexRange range;
    DType dtype;
    void *to;
} Drawn;

/* n elements, where they are many by up to so many threads, which *pool gets at first. The pool is the caller's, who destroys it. */
void drawn_fill(const Drawn *drawn, int64_t n, int threads, Pool **pool);
