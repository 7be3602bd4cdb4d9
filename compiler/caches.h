/* caches: what a rank's caches hold while a step runs. What was read or written is in the nearest cache into which it fits together with all that has been touched since. */
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
/* Where an instance lies when it is touched (as of KernelCaches); it is touched. Of one that is in no memory: the nearest. */
int caches_touch(Caches *caches, int instance);
/* As if the step had run before. */
void caches_warm(Caches *caches);
