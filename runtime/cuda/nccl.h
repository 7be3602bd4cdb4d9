/* nccl: the library, opened when it is needed, and its communicators: one of all ranks, and one for each kind of groups. Every call is one that does not block;
 * what has not come to an end by the deadline is aborted. */
#pragma once
#include <nccl.h>

#include "runtime/cuda/comm.h"
#include "runtime/cuda/nccl_groups.h"

enum {
    NCCL_OLDEST = 21400,         /* the first with communicators that do not block */
    NCCL_SHARES_DEVICES = 23000, /* the first in which ranks may share a device, NCCL_MULTI_RANK_GPU_ENABLE=1 */
    NCCL_BUFFER_BYTES = 2 << 20  /* the library gives memory out in such pieces: what is smaller shares one */
};

/* The library's functions, as nccl.h declares them. */
typedef struct NcclLibrary {
    int version;
    ncclResult_t (*GetVersion)(int *version);
    ncclResult_t (*GetUniqueId)(ncclUniqueId *id);
    ncclResult_t (*CommInitRankConfig)(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config);
    ncclResult_t (*CommSplit)(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config); /* NULL before 2.18 */
    ncclResult_t (*CommFinalize)(ncclComm_t comm);
    ncclResult_t (*CommDestroy)(ncclComm_t comm);
    ncclResult_t (*CommAbort)(ncclComm_t comm);
    const char *(*GetErrorString)(ncclResult_t result);
    const char *(*GetLastError)(ncclComm_t comm);
    ncclResult_t (*CommGetAsyncError)(ncclComm_t comm, ncclResult_t *state);
    ncclResult_t (*GroupStart)(void);
    ncclResult_t (*GroupEnd)(void);
    ncclResult_t (*Send)(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*Recv)(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*AllReduce)(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                              cudaStream_t stream);
    ncclResult_t (*ReduceScatter)(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream);
    ncclResult_t (*AllGather)(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
    /* NULL before 2.19. */
    ncclResult_t (*MemAlloc)(void **data, size_t bytes);
    ncclResult_t (*MemFree)(void *data);
    ncclResult_t (*CommRegister)(ncclComm_t comm, void *data, size_t bytes, void **handle);
    ncclResult_t (*CommDeregister)(ncclComm_t comm, void *handle);
} NcclLibrary;

/* A communicator along a group; group 0 is of all ranks. */
typedef struct NcclGroup {
    GroupKey key;
    ncclComm_t comm;
} NcclGroup;

/* Memory for messages, shared by all requests: they follow each other on one stream. */
typedef struct NcclStaging {
    struct NcclStaging *next; /* smaller ones, which requests prepared before still use */
    void *data;
    int64_t bytes;
} NcclStaging;

/* Memory that the library knows, of tensors, arenas and messages: it is read and written in place, and not copied through buffers of the library's. */
typedef struct NcclBuffer {
    struct NcclBuffer *next;
    void *data;
    int64_t bytes, used;
    int live;       /* tensors in it */
    bool own;       /* the library's memory */
    void **handles; /* by communicator, of the first nhandles; NULL: nothing to be given back */
    int nhandles;
} NcclBuffer;

typedef struct Nccl {
    NcclLibrary library;
    NcclBuffer *buffers;
    bool plain; /* nothing is registered, on any rank */
    bool used;  /* communications have been queued */
    NcclGroup *groups;
    int ngroups;
    bool aborted;
    NcclStaging *staging;
} Nccl;

/* Its version, as in 22809 of 2.28.9; 0: there is none, why not in *why. PRUN_NCCL names the file. */
int nccl_version(Error *why);
bool nccl_library_open(NcclLibrary *library, Error *error);
/* Makes the communicator of all ranks. Collective. */
bool nccl_open(CudaComm *job, Error *error);
/* The number of the communicator along this group, made if there is none yet. Collective over all ranks of the job. -1: *error. */
int nccl_group(CudaComm *job, const GroupKey *key, Error *error);
/* Whether a call went well so far; else aborts everything, and *error says which call and what to try. */
bool nccl_ok(CudaComm *job, ncclComm_t comm, ncclResult_t result, const char *what, Error *error);
/* Waits until what was asked of a communicator is queued. */
bool nccl_settle(CudaComm *job, ncclComm_t comm, const char *what, Error *error);
/* CudaContext.watch: looks for failures of other ranks, and at the clock. */
bool nccl_watch(void *watcher, double waited_s, Error *error);
void *nccl_staging(CudaComm *job, int64_t bytes, Error *error);
/* Rows of the CommTable: memory of tensors, the library's own where it has any. */
void *nccl_alloc(Comm *comm, int64_t bytes, Error *error);
void nccl_free(Comm *comm, void *data);
/* Registers such memory with all communicators that there are. Of what meets in a call all must be registered, or nothing (NCCL's rule): where one rank cannot, none does. Collective. */
bool nccl_register(CudaComm *job, Error *error);
void nccl_close(CudaComm *job);
