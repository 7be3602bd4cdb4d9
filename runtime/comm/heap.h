/* Memory shared by the processes of a node. Each process has one heap, a sparse file in memory that all of them map. It allocates blocks of
 * its own heap; peers read them in place. Addresses are passed to peers as offsets. */
#pragma once
#include "runtime/comm/comm.h"
#include <semaphore.h>
#include <stdatomic.h>

/* What one process reads from another in place, counted by the reader. */
typedef struct HeapCount {
    int64_t bytes, messages;
} HeapCount;

/* At the beginning of each heap; only its owner writes it, except `wake` and `ending`. */
typedef struct HeapHeader {
    uint64_t token;                   /* shows that a mapping is of the file that was meant */
    _Alignas(64) atomic_int sleeping; /* 1 while its owner is about to sleep on wake */
    sem_t wake;
    _Alignas(64) CommPlace place;  /* where its owner is */
    atomic_int ending;             /* in the heap of the node's first process: a process has printed why the job ends */
    _Alignas(64) HeapCount read[]; /* per process of the node: what the owner has read from that one */
} HeapHeader;

typedef struct HeapBlock {
    int64_t at, bytes;
    bool used;
} HeapBlock;

typedef struct Heap {
    char name[64]; /* of the file, "" once it is unlinked */
    int fd;
    int64_t bytes, committed; /* of addresses; of memory that is reserved */
    uint64_t token;
    int nprocesses, self;
    char **base;       /* per process: where its heap is mapped here */
    HeapBlock *blocks; /* by address, without gaps */
    int nblocks, capacity;
} Heap;

/* Bytes of addresses that each of n processes may use, 0 where the system has no shared memory. */
int64_t heap_limit(int nprocesses);
/* Creates the heap of process `self`. name begins with "/". */
bool heap_create(Heap *heap, const char *name, int64_t bytes, int nprocesses, int self, uint64_t token, Error *error);
/* Maps the heap of another process. */
bool heap_attach(Heap *heap, int process, const char *name, int64_t bytes, uint64_t token, Error *error);
/* To be called after all have attached: the file lives as long as it is mapped, so it vanishes however the job ends. */
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
