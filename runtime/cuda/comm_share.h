/* comm_share: device memory that the ranks of a node share by CUDA IPC; and the host memory through which they exchange handles. */
#pragma once
#include "runtime/comm/heap.h"
#include "runtime/cuda/comm.h"

enum { SHARE_ENTRIES = 4096 };

/* Device memory that peers may open; the entry is in the heap of its owner. */
typedef struct ShareEntry {
    cudaIpcMemHandle_t handle;
} ShareEntry;

/* Memory of this rank's device, from which tensors are cut. */
typedef struct ShareChunk {
    struct ShareChunk *next;
    char *base;
    int64_t bytes, used;
    int live;  /* tensors in it */
    int entry; /* its number among those that peers may open; -1: peers do not know it */
} ShareChunk;

typedef struct Share {
    Heap heap;
    bool heap_open;
    int nentries;
    int64_t *entries_at; /* per process: where its entries begin in its heap */
    ShareEntry *entries; /* own */
    ShareChunk *chunks;
    char ***opened; /* [process][entry]: where this process has mapped it; NULL: not yet */
} Share;

/* Opens it if all ranks are on one node and devices can share memory, which is tried between all of them. Collective; false with the reason on all. */
bool share_open(CudaComm *job, Error *error);
void share_close(CudaComm *job);
void *share_alloc(Comm *comm, int64_t bytes, Error *error);
void share_free(Comm *comm, void *data);
bool share_has(CudaComm *job, const void *data); /* it comes from share_alloc */
/* Lets peers open memory from share_alloc: *entry and *offset tell them where it is. */
bool share_publish(CudaComm *job, const void *data, int64_t *entry, int64_t *offset, Error *error);
/* The address in this process of what a peer has published; NULL and *error. */
char *share_find(CudaComm *job, int process, int64_t entry, int64_t offset, Error *error);
