/* Memory shared by the processes of a node. Each has one heap: a file in memory that all of them map, sparse, of which it hands out blocks
 * to itself; peers read them in place. A peer is sent an address as an offset. */
#pragma once
#include "runtime/comm/comm.h"
#include <semaphore.h>
#include <stdatomic.h>

/* What one process reads from another in place, counted by the reader. */
typedef struct HeapCount {
    int64_t bytes, messages;
} HeapCount;

/* At the beginning of each heap; written by its owner, but for `wake` and `ending`. */
typedef struct HeapHeader {
    uint64_t token;                   /* shows that a mapping is of the file that was meant */
    _Alignas(64) atomic_int sleeping; /* 1 while its owner is about to sleep on wake */
    sem_t wake;
    _Alignas(64) CommPlace place;  /* where it is */
    atomic_int ending;             /* in the heap of the node's first process: one of the node has said why the job ends */
    _Alignas(64) HeapCount read[]; /* per process of the node: what the owner has read from it */
} HeapHeader;

typedef struct HeapBlock {
    int64_t at, bytes;
    bool used;
} HeapBlock;

typedef struct Heap {
    char name[64]; /* of the file, "" once it is unlinked */
    int fd;
    int64_t bytes, committed; /* addresses; memory really taken */
    uint64_t token;
    int nprocesses, self;
    char **base;       /* per process: its heap in this process */
    HeapBlock *blocks; /* by address, without gaps */
    int nblocks, capacity;
} Heap;

/* Bytes of addresses that each of n processes may use, 0 where the system has no shared memory. */
int64_t heap_limit(int nprocesses);
/* Creates the heap of process `self`. name begins with "/". */
bool heap_create(Heap *heap, const char *name, int64_t bytes, int nprocesses, int self, uint64_t token, Error *error);
/* Maps the heap of another process. */
bool heap_attach(Heap *heap, int process, const char *name, int64_t bytes, uint64_t token, Error *error);
/* After all have attached: the file lives as long as it is mapped, and vanishes however the job ends. */
void heap_unlink(Heap *heap);
void heap_destroy(Heap *heap);
/* A block of at least one byte, aligned to 64; NULL and *error when the machine's shared memory is used up. */
void *heap_alloc(Heap *heap, int64_t bytes, Error *error);
void heap_free(Heap *heap, void *data);
static inline bool heap_has(const Heap *heap, const void *data) {
    uintptr_t at = (uintptr_t)data, base = (uintptr_t)heap->base[heap->self];
    return at >= base && at - base < (uintptr_t)heap->bytes;
}
static inline HeapHeader *heap_header(const Heap *heap, int process) {
    return (HeapHeader *)heap->base[process];
}
