/* cuda: the CUDA backend, a module of prun's. Host code in C against the runtime API; kernels.cu alone needs nvcc. Private to this folder.
 *
 *   module.c     the one symbol that prun looks for; --devices
 *   context.c    a device opened: memory, streams, copies
 *   graph.c      captured steps, marks, ranges
 *   table.c      which kernel computes which operator; fuse.c: fused steps as launches
 *   matmul.c     products, by cuBLASLt; epilogue.c: with what follows them; choice.c: by which of its algorithms; pitch.c: with rows that it is slow with
 *   cudnn.c      convolutions, by cuDNN where it is there
 *   elementwise.c, chain.c, update.c, reduce.c, softmax.c, attention.c, rope.c, norm.c, move.c, lookup.c, gather.c, random.c   the host halves of our own kernels
 *   kernels.cu   their device halves, in *.cuh; kernels.h: what it offers
 *   comm.c       communicators: how ranks on devices talk
 *   errors.c     what to try
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
    int64_t from, bytes; /* multiplications of the least product that is divided; of the room */
    void *room;          /* on the device; NULL: no product is divided */
} CudaPitch;

typedef struct CudaContext {
    DeviceOptions options;
    int device; /* CUDA's number of it */
    char name[256];
    int64_t taken_bytes;          /* by alloc and as workspace, ever: nothing is freed before the end */
    cudaStream_t compute;         /* kernels, uploads, downloads, copies: in order */
    cudaStream_t copies;          /* batches ahead of time: stage */
    cudaStream_t comm;            /* communications, ordered with compute by events */
    cudaEvent_t consumed, copied; /* compute has read what was staged; what was staged has arrived */
    cudaEvent_t joined;           /* of a captured step: one stream follows another */
    cudaEvent_t ended[2];         /* of steps that are not waited for, in turn */
    int turn;
    void *scratch; /* SCRATCH_BYTES on the device, for kernels on compute: each leaves nothing in it that another reads. Counters of
                      two-stage reductions in its first bytes are 0 between kernels */
    char *small;   /* NSMALL page-locked slots */
    int next_small;
    cudaEvent_t *marks;
    int nmarks, nevents; /* in use; created */
    bool capturing;
    /* The communicator's: asked again and again while the host waits for the device; false: what it waits for will not come. NULL: nothing
     * can go wrong. */
    bool (*watch)(void *watcher, double waited_s, Error *error);
    void (*give_up)(void *watcher, const Error *error); /* ends the job */
    void *watcher;
    CudaMatmul *matmul;
    CudaPitch pitch;
    bool lacked;                  /* memory that products are computed with other bits without */
    struct AttentionTried *tried; /* attention.c */
    struct CudaConv *conv;        /* cudnn.c */
} CudaContext;

/* Whether status is success; else false, and *error says what failed, CUDA's words for it and what to try: EXIT_ENVIRONMENT. */
bool cuda_ok(const CudaContext *cuda, cudaError_t status, const char *what, Error *error);
/* Waits until everything queued on a stream is done, with an eye on the other ranks; what, as for cuda_ok. */
bool cuda_wait(CudaContext *cuda, cudaStream_t stream, const char *what, Error *error);
/* Waits likewise until the device has nothing to do, as CUDA does where it frees memory, without that eye; ends the job where it will not come to pass. What fails has been said already. */
void cuda_idle(CudaContext *cuda);
/* After a launch, whose status that is: whether it was accepted; with options.wait, whether it was done. */
bool cuda_launched(CudaContext *cuda, cudaError_t status, const char *kernel, Error *error);

/* ---------------------------------------------------------------- context.c, graph.c */

/* Memory of the device that is kept to the end, for kernels: counted as taken. */
bool cuda_take_workspace(CudaContext *cuda, void **memory, int64_t bytes, const char *what, Error *error);
/* Memory of the device that can be done without: 1, *memory; 0: there is none, which is no failure; -1: the device fails, *error. */
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

/* Backend's. */
void *cuda_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error);
/* DeviceQueue's fuse. */
int cuda_take(void *context, const KernelCall *calls, int n, void **fused, Error *error);
/* Whether one of the calls has an operand at this address. */
bool calls_read(const KernelCall *calls, int n, const void *data);
/* Of both. */
bool cuda_run_fused(void *context, void *fused, Error *error);
void cuda_unfuse(void *context, void *fused);
/* What a fused launch begins with, so that cuda_run_fused finds what runs it. */
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
