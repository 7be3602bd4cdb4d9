/* caches: what a rank's caches hold while a step runs. What was read or written is in the nearest cache that holds all that has been touched since. A kernel goes through
 * its operands and results side by side: the distance between two kernels that touch the same is half of what each of them touches, and all that is touched between. */
#pragma once
#include "compiler/facts.h"

/* When each part of memory was last touched, as the bytes touched until then. */
typedef struct Caches {
    const Role *role;
    const Machine *machine;
    const int64_t *bytes;             /* per instance */
    double touched;                   /* bytes, so far */
    double *state, *input, *constant; /* per state, input, node of the graph */
    double *piece;                    /* per piece of the arena, of piece_bytes */
    int64_t piece_bytes;
    bool any; /* the machine has a cache that is faster than its memory */
} Caches;

void caches_init(Caches *caches, const Facts *facts, const Machine *machine, Arena *arena);
enum { CACHES_MOST = MAX_FUSED * (MAX_IN + MAX_OUT) }; /* instances of a kernel */
/* Touches n instances side by side. cache: where each lay before (as of KernelCaches); for one that is in no memory the nearest. */
void caches_touch(Caches *caches, const int *instance, int n, int8_t *cache);
int caches_touch_one(Caches *caches, int instance);
/* Touches all that a step touches, as if one had run before. */
void caches_warm(Caches *caches);
