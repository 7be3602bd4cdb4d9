/* pack: finds offsets for buffers that are in use at known times. */
#pragma once
#include "ir/base.h"

/* In use from step `begin` to step `end`, both included. */
typedef struct Buffer {
    int begin, end;
    int64_t bytes;
    int64_t at; /* pack_buffers: the offset; no other buffer that is in use at the same time overlaps it */
} Buffer;

/* Places the buffers, which are sorted by their begin. Returns the bytes that they need together. */
int64_t pack_buffers(Buffer *buffers, int n, Arena *arena);
