/* pack: offsets for blocks of memory that are in use at known times. */
#pragma once
#include "ir/base.h"

/* In use from step `begin` to step `end`, both included. */
typedef struct Block {
    int begin, end;
    int64_t bytes;
    int64_t at; /* pack_blocks: the offset; no other block that is in use at the same time overlaps it */
} Block;

/* Places the blocks, which are in the order of their begin. Returns the bytes that they need together. */
int64_t pack_blocks(Block *blocks, int n, Arena *arena);
