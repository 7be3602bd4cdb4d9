/* cuda: the CUDA backend, a module that prun loads. Host code is C against the runtime API; only kernels.cu needs nvcc. Private to this folder.
 *
 *   module.c     the one symbol that prun looks for; --devices
 *   context.c    an opened device: memory, streams, copies
 *   graph.c      captured steps, timing marks, ranges for profilers
 *   table.c      which kernel computes which operator; fuse.c: fused steps as launches
 *   matmul.c     products, by cuBLASLt; epilogue.c: fused with what follows; choice.c: choice of its algorithm; pitch.c: rows that it is slow with
 *   cudnn.c      convolutions, by cuDNN where it is installed
 *   elementwise.c, chain.c, update.c, reduce.c, softmax.c, attention.c, rope.c, norm.c, move.c, lookup.c, gather.c, random.c   host code of our own kernels
 *   kernels.cu   their device code, in *.cuh; kernels.h: its functions
 *   comm.c       communicators: how ranks on devices communicate
 *   errors.c     advice in error messages
 */
#pragma once
#include <cuda_runtime_api.h>

#include "ir/workspace.h"
#include "runtime/backend.h"
#include "runtime/comm/comm.h"
#include "runtime/nest.h"

enum {
    MIN_MAJOR = 8, /* compute capability of the oldest device that kernels.cu is built for */
    MAX_MARKS = 1 << 16,
    SMALL_BYTES = 256, /* uploads of at most this many go through page-locked slots, without waiting */
    NSMALL = 1024,     /* such slots */
    SCRATCH_BYTES = WORKSPACE_REDUCTIONS
};

typedef struct CudaMatmul CudaMatmul; /* matmul.c */

/* pitch.c */
typedef struct CudaPitch {
    int64_t from, bytes; /* multiplications of the smallest product that is divided; size of room */
    void *room;          /* on the device; NULL: no product is divided */
} CudaPitch;

typedef struct CudaContext {
    DeviceOptions options;
    int device; /* CUDA's device number */
    char name[256];
    int64_t taken_bytes;          /* allocated so far, by alloc and as workspace: nothing is freed before the end */
    cudaStream_t compute;         /* kernels, uploads, downloads, copies: in order */
    cudaStream_t copies;          /* copies of batches ahead of time: stage */
    cudaStream_t comm;            /* communications, ordered with compute by events */
    cudaEvent_t consumed, copied; /* compute has read the staged data; the staged data has arrived */
    cudaEvent_t joined;           /* in a captured step: one stream follows another */
    cudaEvent_t ended[2];         /* ends of steps that are not waited for, in turn */
    int turn;
    void *scratch; /* SCRATCH_BYTES on the device, for kernels on compute; contents do not last from kernel to kernel, except counters
                      of two-stage reductions in its first bytes, which are 0 between kernels */
    char *small;   /* NSMALL page-locked slots */
    int next_small;
    cudaEvent_t *marks;
    int nmarks, nevents; /* marks in use; events created */
    bool capturing;
    /* Set by the communicator: called repeatedly while the host waits for the device. False: what it waits for will never come. NULL: no
     * other rank is involved. */
    bool (*watch)(void *watcher, double waited_s, Error *error);
    void (*give_up)(void *watcher, const Error *error); /* ends the job */
    void *watcher;
    CudaMatmul *matmul;
    CudaPitch pitch;
    bool lacked;                  /* there was no memory to try an epilogue, so products may have other bits */
    struct AttentionTried *tried; /* attention.c */
    struct CudaConv *conv;        /* cudnn.c */
} CudaContext;

/* Whether status is success; else *error says what failed, CUDA's message and what to try: EXIT_ENVIRONMENT. */
bool cuda_ok(const CudaContext *cuda, cudaError_t status, const char *what, Error *error);
/* Waits until everything queued on a stream is done, and watches the other ranks meanwhile; what: as for cuda_ok. */
bool cuda_wait(CudaContext *cuda, cudaStream_t stream, const char *what, Error *error);
/* Waits likewise until the device is idle (CUDA itself waits when it frees memory, but without watching); ends the job if that cannot happen. Failures have been reported already. */
void cuda_idle(CudaContext *cuda);
/* Checks the status of a launch: whether it was accepted; with options.wait, whether it has completed. */
bool cuda_launched(CudaContext *cuda, cudaError_t status, const char *kernel, Error *error);

/* ---------------------------------------------------------------- context.c, graph.c */

/* Allocates device memory for kernels, kept to the end and counted as taken. */
bool cuda_take_workspace(CudaContext *cuda, void **memory, int64_t bytes, const char *what, Error *error);
/* Allocates optional device memory: 1: *memory; 0: there is none, which is no failure; -1: the device fails, *error. */
int cuda_try_memory(CudaContext *cuda, void **memory, int64_t bytes, const char *what, Error *error);
bool cuda_open(void **context, const DeviceOptions *options, Error *error);
void cuda_close(void *context);
extern const DeviceQueue cuda_queue;
extern const Backend cuda_backend;
bool cuda_capture(void *context, Error *error);
bool cuda_captured(void *context, void **graph, int *nodes, Error *error);
bool cuda_replay(void *context, void *graph, Error *error);
void cuda_discard(void *context, void *graph);
int cuda_mark(void *context, bool comm, Error *error);
bool cuda_between(void *context, int from, int to, double *seconds, Error *error);
void cuda_unmark(void *context);
void cuda_range_begin(void *context, const char *name);
void cuda_range_end(void *context);
bool cuda_list(Text *text, Error *error);
int cuda_count(char *why, size_t n);

/* ---------------------------------------------------------------- table.c */

extern KernelFn *const cuda_kernels[NOPS]; /* NULL: none */
/* Kernels, a function an operator: kernel_add, ... */
#define OP(name, ...) KernelFn kernel_##name;
#include "ir/ops.def"
#undef OP

/* ---------------------------------------------------------------- fuse.c */

/* Backend's fuse. */
void *cuda_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error);
/* DeviceQueue's fuse. */
int cuda_take(void *context, const KernelCall *calls, int n, void **fused, Error *error);
/* Whether one of the calls has an operand at this address. */
bool calls_read(const KernelCall *calls, int n, const void *data);
/* Backend's and DeviceQueue's. */
bool cuda_run_fused(void *context, void *fused, Error *error);
void cuda_unfuse(void *context, void *fused);
/* The head of every fused launch, with which cuda_run_fused calls the function that runs it. */
typedef struct CudaFused {
    bool (*run)(CudaContext *cuda, struct CudaFused *fused, Error *error);
    void (*destroy)(struct CudaFused *fused);
} CudaFused;

/* ---------------------------------------------------------------- matmul.c */

bool matmul_open(CudaContext *cuda, Error *error);
void matmul_close(CudaMatmul *matmul); /* takes NULL */
bool cuda_prepare(const KernelCall *call, Error *error);

/* ---------------------------------------------------------------- pitch.c */

bool pitch_open(CudaContext *cuda, Error *error);
void pitch_close(CudaContext *cuda);

/* ---------------------------------------------------------------- attention.c */

void attention_close(CudaContext *cuda);

/* ---------------------------------------------------------------- choice.c */

/* DeviceQueue's settle. */
bool cuda_settle(void *context, Comm *comm, Error *error);

/* ---------------------------------------------------------------- random.c */

bool cuda_uniform(void *context, const Operand *to, const Numbers *numbers, Error *error); /* DeviceQueue's */

/* ---------------------------------------------------------------- comm.c */

Comm *cuda_comm(void *context, Comm *base, const char *choice, Error *error);
void comm_list(Text *text); /* --devices: NCCL's version, or why there is none */
