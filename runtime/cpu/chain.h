/* chain: a fused step's elementwise operators in blocks whose values stay in the cache. Each member runs by the loop that runs it alone, so
 * the digits are the same. */
#pragma once
#include "runtime/chain.h"
#include "runtime/cpu/elements.h"

enum {
    BLOCK_BYTES = 16 << 10, /* what a block's values should take */
    BLOCK_LEAST = 1024,     /* its elements */
    ROW_LEAST = 256,        /* elements of a row of an operand, where a block is to end with the row */
    PERIOD_MOST = 4096,     /* elements of a load that is kept for all blocks */
    STEPS_BYTES = 128 << 10,
    SLOTS_BYTES = STEPS_BYTES + (128 << 10) /* room for a block's values, and for such loads */
};

typedef struct CpuChain {
    Chain chain;
    ElementLoop *loop[CHAIN_STEPS];                     /* NULL: constants, copies, quotients */
    char constant[CHAIN_STEPS][8];                      /* of a constant: its element */
    int load_slot[CHAIN_LOADS], step_slot[CHAIN_STEPS]; /* -1: none */
    int load_at[CHAIN_LOADS];                           /* the step that reads the load first */
    int64_t period[CHAIN_LOADS];   /* of a load that is kept for all blocks: elements after which it begins anew; else 0 */
    int64_t repeated[CHAIN_LOADS]; /* the byte at which its slot begins */
    int nslots, slot_bytes;
    int64_t block; /* the most elements of a block */
} CpuChain;

/* Loops and slots for a program. False where there is no loop for one of its operators. kept: a step whose result is read after each block,
 * too; -1: none. */
bool cpu_chain_prepare(CpuChain *cpu, int kept);
/* Brings what is kept for all blocks into its slots. slots: SLOTS_BYTES, aligned to 64. */
void cpu_chain_begin(const CpuChain *cpu, char *slots);
/* Elements [first, first + n) of all results, n at most cpu->block. slots: as begun. Where the kept step's elements lie;
 * NULL: none is kept. */
const void *cpu_chain_block(const CpuChain *cpu, int64_t first, int64_t n, char *slots, int kept);
/* Where blocks of [first, first + n) best begin and end: how many of its elements the next one takes. */
int64_t cpu_chain_next(const CpuChain *cpu, int64_t first, int64_t n);
