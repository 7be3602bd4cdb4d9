/* chain: runs a fused step's elementwise operators in blocks whose values stay in the cache. Each operator uses the loop that its unfused
 * kernel uses, so the digits are the same. */
#pragma once
#include "runtime/chain.h"
#include "runtime/cpu/elements.h"

enum {
    BLOCK_BYTES = 16 << 10, /* what a block's values should take */
    BLOCK_LEAST = 1024,     /* fewest elements of a block's size */
    ROW_LEAST = 256,        /* a block should end with an operand's row if the row has at least so many elements */
    PERIOD_MOST = 4096,     /* most elements of a load that is kept for all blocks */
    STEPS_BYTES = 128 << 10,
    SLOTS_BYTES = STEPS_BYTES + (128 << 10) /* room for a block's values, and for such loads */
};

typedef struct CpuChain {
    Chain chain;
    ElementLoop *loop[CHAIN_STEPS];                     /* NULL for constants, copies and quotients */
    char constant[CHAIN_STEPS][8];                      /* the element of a constant */
    int load_slot[CHAIN_LOADS], step_slot[CHAIN_STEPS]; /* -1: none */
    int load_at[CHAIN_LOADS];                           /* the first step that reads the load */
    int64_t period[CHAIN_LOADS];                        /* of a load that is kept for all blocks: elements after which it repeats; else 0 */
    int64_t repeated[CHAIN_LOADS];                      /* the byte at which such a load's slot begins */
    int nslots, slot_bytes;
    int64_t block; /* the most elements of a block */
} CpuChain;

/* Chooses loops and slots for a program. False: one of its operators has no loop. kept: a step whose result is also read after each
 * block; -1: none. */
bool cpu_chain_prepare(CpuChain *cpu, int kept);
/* Copies loads that are kept for all blocks into their slots. slots: SLOTS_BYTES, aligned to 64. */
void cpu_chain_begin(const CpuChain *cpu, char *slots);
/* Computes elements [first, first + n) of all results, n at most cpu->block, with the slots of cpu_chain_begin. Returns
 * the kept step's elements; NULL: none is kept. */
const void *cpu_chain_block(const CpuChain *cpu, int64_t first, int64_t n, char *slots, int kept);
/* How many elements of [first, first + n) the next block should take. */
int64_t cpu_chain_next(const CpuChain *cpu, int64_t first, int64_t n);
