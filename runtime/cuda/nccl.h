/* nccl: the library, opened when needed, and its communicators: one of all ranks, and one for each kind of groups. All calls are non-blocking;
 * what has not finished by the deadline is aborted. */
#pragma once
#include <nccl.h>

#include "runtime/cuda/comm.h"
#include "runtime/cuda/nccl_groups.h"

enum {
    NCCL_OLDEST = 21400,         /* the first with non-blocking communicators */
    NCCL_SHARES_DEVICES = 23000, /* the first in which ranks may share a device, NCCL_MULTI_RANK_GPU_ENABLE=1 */
    NCCL_BUFFER_BYTES = 2 << 20  /* the library allocates memory in such pieces: smaller tensors share one */
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

/* The communicator of a group; group 0 has all ranks. */
typedef struct NcclGroup {
    GroupKey key;
    ncclComm_t comm;
} NcclGroup;

/* Memory for messages. All requests share it, as they run one after the other on one stream. */
typedef struct NcclStaging {
    struct NcclStaging *next; /* smaller ones, which requests prepared before still use */
    void *data;
    int64_t bytes;
} NcclStaging;

/* Memory registered with the library, for tensors, arenas and messages: the library accesses it in place, without copies through its own buffers. */
typedef struct NcclBuffer {
    struct NcclBuffer *next;
    void *data;
    int64_t bytes, used;
    int live;       /* tensors in it */
    bool own;       /* allocated by the library */
    void **handles; /* by communicator, for the first nhandles; NULL: nothing to deregister */
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

/* The library's version, such as 22809 for 2.28.9; 0: there is none, *why says why not. PRUN_NCCL names the file. */
int nccl_version(Error *why);
bool nccl_library_open(NcclLibrary *library, Error *error);
/* Makes the communicator of all ranks. Collective. */
bool nccl_open(CudaComm *job, Error *error);
/* The number of the communicator along this group, made if there is none yet. Collective over all ranks of the job. -1: *error. */
int nccl_group(CudaComm *job, const GroupKey *key, Error *error);
/* Whether a call has not failed so far; else aborts everything, and *error says which call and what to try. */
bool nccl_ok(CudaComm *job, ncclComm_t comm, ncclResult_t result, const char *what, Error *error);
/* Waits until a communicator has queued all calls. */
bool nccl_settle(CudaComm *job, ncclComm_t comm, const char *what, Error *error);
/* CudaContext.watch: checks for failures of other ranks, and the deadline. */
bool nccl_watch(void *watcher, double waited_s, Error *error);
void *nccl_staging(CudaComm *job, int64_t bytes, Error *error);
/* Rows of the CommTable: memory for tensors, allocated by the library if it can. */
void *nccl_alloc(Comm *comm, int64_t bytes, Error *error);
void nccl_free(Comm *comm, void *data);
/* Registers such memory with all existing communicators. In one call either all ranks' memory must be registered or none (NCCL's rule): if one rank cannot, none does. Collective. */
bool nccl_register(CudaComm *job, Error *error);
void nccl_close(CudaComm *job);
