/* chain: a fused step's elementwise operators in blocks whose values stay in the cache. Each member runs by the loop that runs it alone, so
 * the digits are the same. */
#pragma once
#include "runtime/chain.h"
#include "runtime/cpu/elements.h"

enum {
    BLOCK_BYTES = 64 << 10,
    SLOTS_BYTES = 128 << 10,
    BLOCK_LEAST = 1024
}; /* what a block's values should take; room for them; elements */

typedef struct CpuChain {
    Chain chain;
    ElementLoop *loop[CHAIN_STEPS];                     /* NULL: constants, copies, quotients */
    char constant[CHAIN_STEPS][8];                      /* of a constant: its element */
    int load_slot[CHAIN_LOADS], step_slot[CHAIN_STEPS]; /* -1: none */
    int load_at[CHAIN_LOADS];                           /* the step that reads the load first */
    int nslots, slot_bytes;
    int64_t block; /* the most elements of a block */
} CpuChain;

/* Loops and slots for a program. False where there is no loop for one of its operators. kept: a step whose result is read after each block,
 * too; -1: none. */
bool cpu_chain_prepare(CpuChain *cpu, int kept);
/* Elements [first, first + n) of all results, n at most cpu->block. slots: SLOTS_BYTES, aligned to 64. Where the kept step's elements lie;
 * NULL: none is kept. */
const void *cpu_chain_block(const CpuChain *cpu, int64_t first, int64_t n, char *slots, int kept);
/* Where blocks of [first, first + n) best begin and end: how many of its elements the next one takes. */
int64_t cpu_chain_next(const CpuChain *cpu, int64_t first, int64_t n);
