/* caches: what a rank's caches hold while a step runs. What was read or written is in the nearest cache that holds all that has been touched since. A kernel goes through
 * its operands and results side by side: between two kernels that touch the same lie half of what each of them touches, and all that is touched between them. */
#pragma once
#include "compiler/facts.h"

/* When a part of memory was last touched: by then so many bytes had been. */
typedef struct Caches {
    const Role *role;
    const Machine *machine;
    const int64_t *bytes;             /* per instance */
    double touched;                   /* bytes, so far */
    double *state, *input, *constant; /* per state, input, node of the graph */
    double *piece;                    /* of the arena, whose pieces are as long */
    int64_t piece_bytes;
    bool any; /* the machine has a cache that is faster than its memory */
} Caches;

void caches_init(Caches *caches, const Facts *facts, const Machine *machine, Arena *arena);
enum { CACHES_MOST = MAX_FUSED * (MAX_IN + MAX_OUT) }; /* instances of a kernel */
/* Where n instances lie (as of KernelCaches) when they are touched side by side; they are touched. Of one that is in no memory: the nearest. */
void caches_touch(Caches *caches, const int *instance, int n, int8_t *cache);
int caches_touch_one(Caches *caches, int instance);
/* As if the step had run before. */
void caches_warm(Caches *caches);
