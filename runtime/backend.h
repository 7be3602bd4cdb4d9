/* backend: where tensors live and kernels run: the CPU, or the device of a module. What crosses to a module is checked by abi.h. */
#pragma once
#include "ir/op.h"

/* An operand or result as a kernel sees it: this rank's box of a global tensor, contiguous, row-major. Hidden dimensions are taken off by the
 * executor, which calls the kernel once per slice (boundary operators see them). */
typedef struct Operand {
    void *data;
    DType dtype;
    Shape local;  /* sizes of the box */
    Shape global; /* sizes of the whole tensor */
    Box box;      /* where the box lies in it */
} Operand;

/* Which number of the uniform generator each element is of an input of random numbers, in one batch: number i is number i % 2 of random_uniform_pair(key, i / 2, 0, 1) of
 * runtime/data/sampler.h.
 * i is a function of the batch and the index in the whole tensor, counted in the order of the epoch where the tensor has the batch's rows: a row has the same numbers
 * whichever of the processes has it. */
typedef struct Numbers {
    uint64_t key, first; /* first: of the batch */
    int ndim, row_dim;   /* row_dim: the dimension of the rows, -1: none */
    int64_t stride[MAX_NDIM];
    int64_t row_length, replica_rows; /* indices of row_dim a row; rows of each of the hidden dimension, 0: it is none, or has no rows */
    int64_t share, world;             /* in each batch, of how many processes: sampler_place */
} Numbers;

static inline int64_t operand_bytes(const Operand *operand) {
    return shape_elements(&operand->local) * dtype_bytes[operand->dtype];
}
/* Whether two ranges of memory have a byte in common. */
static inline bool bytes_overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + (uintptr_t)b_bytes && (uintptr_t)b < (uintptr_t)a + (uintptr_t)a_bytes;
}
static inline bool operands_overlap(const Operand *a, const Operand *b) {
    return bytes_overlap(a->data, operand_bytes(a), b->data, operand_bytes(b));
}

typedef struct KernelCall {
    OpCode op;
    const Attr *attr;
    int nin, nout;
    Operand in[MAX_IN], out[MAX_OUT];
    int nthreads;
    const Rule *rule; /* letters of operands and results, hidden dimension taken off: einsum, sum_to, ... */
    void *context;    /* the backend's, from open; NULL: no threads */
} KernelCall;
typedef bool KernelFn(const KernelCall *call, Error *error);

/* What a backend is opened with. */
typedef struct DeviceOptions {
    int rank, local_rank, nlocal; /* first rank that this process drives; number of this process on its node, and how many there are */
    int nthreads;
    int most_threads; /* of any process of the job; below nthreads: nthreads. What is computed alike on several ranks is cut for so many */
    bool deterministic; /* the same bits in every run */
    bool tf32;          /* products of f32 may round their factors to 11 bits */
    bool wait;          /* every kernel is waited for, so that a failure names its operator */
    bool odd_rows;      /* there are products that need the room for odd rows (ir/workspace.h) */
    double plan_bytes;  /* what tensors of this process's ranks need in all, for messages; 0: unknown */
} DeviceOptions;

struct Comm;
/* What a backend has that runs behind the process: what is asked of it is queued, and done in order. alloc to copy and kernels are queued, or wait until
 * what was queued before is done; upload and download have read and written the process's memory when they return; sync waits for everything. */
typedef struct DeviceQueue {
    /* Page-locked memory of the process, and copies out of it beside what runs: stage queues one, staged lets what is queued after it wait for all of
     * them. taken: what was staged is read by what has been queued so far, and the next stage waits for that. */
    void *(*alloc_host)(void *context, int64_t bytes, Error *error);
    void (*free_host)(void *context, void *data);
    bool (*stage)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*staged)(void *context, Error *error);
    bool (*taken)(void *context, Error *error);
    /* Fills this rank's box of a tensor of reals with uniform numbers from 0 to 1, those of data_numbers, to the bit. */
    bool (*uniform)(void *context, const Operand *to, const Numbers *numbers, Error *error);
    /* Called after each step that is queued and not waited for: returns when what was queued before the call before has been done, and what was staged has
     * been read from the process's memory. The device is so never idle for want of the process, which is never more than a step ahead. */
    bool (*pace)(void *context, Error *error);
    /* Calls that follow each other, and that no plan has fused: how many of the first, at least 2, become one launch; 0: none do; -1: *error. */
    int (*fuse)(void *context, const KernelCall *calls, int n, void **fused, Error *error);
    bool (*run)(void *context, void *fused, Error *error);
    void (*unfuse)(void *context, void *fused);
    /* After all calls of a program have been prepared and fused: measures what it has a choice of, and lets all processes choose the same. Collective. */
    bool (*settle)(void *context, struct Comm *comm, Error *error);
    /* A step as one thing: between capture and captured what is queued is recorded and not done; replay queues the record. captured gives NULL in *graph and
     * the reason in *error where that cannot be; nothing has been done then either. nodes: what was recorded. */
    bool (*capture)(void *context, Error *error);
    bool (*captured)(void *context, void **graph, int *nodes, Error *error);
    bool (*replay)(void *context, void *graph, Error *error);
    void (*discard)(void *context, void *graph);
    /* Points in time of what is queued, on the stream of communications or of kernels; their number from 0, -1: *error. between: seconds from one to another,
     * after sync. unmark: forgets them. Captured marks are set again by each replay. */
    int (*mark)(void *context, bool comm, Error *error);
    bool (*between)(void *context, int from, int to, double *seconds, Error *error);
    void (*unmark)(void *context);
    /* Names what is queued until the end for tools that look on. */
    void (*range_begin)(void *context, const char *name);
    void (*range_end)(void *context);
    /* Communicator over tensors of this backend, which uses base for everything else and owns it. choice: "auto", or how ranks must talk. NULL and *error:
     * base is as it was. */
    struct Comm *(*comm)(void *context, struct Comm *base, const char *choice, Error *error);
    /* Bytes of the device's memory: taken by alloc now, free, all. */
    bool (*memory)(void *context, int64_t *taken_bytes, int64_t *free_bytes, int64_t *total_bytes, Error *error);
    void (*describe)(void *context, char *text, size_t n); /* "device 0, NVIDIA H200" */
    /* After settle: "38 of 40 convolutions by cuDNN 9.13.0"; nothing where no operator has such a choice. */
    void (*libraries)(void *context, Text *text);
} DeviceQueue;

/* Where tensors live and kernels run. Buffers are bytes. Kernels take all element types of the operator table. */
typedef struct Backend {
    const char *name;
    bool host;                /* its buffers are ordinary memory of the process, and what is asked is done on return */
    const DeviceQueue *queue; /* NULL for host */
    bool (*open)(void **context, const DeviceOptions *options, Error *error);
    void (*close)(void *context);
    void *(*alloc)(void *context, int64_t bytes, Error *error);
    void (*free)(void *context, void *data);
    bool (*upload)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*download)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*copy)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*sync)(void *context, Error *error);
    KernelFn *const *kernels; /* by OpCode; NULL where there is none */
    KernelFn
        *prepare; /* before the first step: makes ready what the kernel of a call needs, whose data may be anything; NULL: nothing does */
    /* The calls of a fused step, in their order: what runs them as one. NULL with nothing in *error where there is no kernel for them: they are then run one by
     * one. inner[i], bit o: result o of call i is read by later calls of the step alone, and need not be stored; its data is room that no other tensor of the
     * step shares. What is stored lies over an operand only where both have the same elements: docs/plan.md. fuse NULL: none is run as one. */
    void *(*fuse)(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error);
    bool (*run)(void *context, void *fused, Error *error);
    void (*unfuse)(void *context, void *fused);
} Backend;
extern const Backend backend_cpu;
/* Sets in the environment what backend_cpu's libraries read there when they are opened, which is later. Before the process has other threads. */
void cpu_set_environment(void);
/* The plain kernels, obviously right, that backend_cpu's fast ones are checked against. */
extern KernelFn *const cpu_reference_kernels[NOPS];

/* ---------------------------------------------------------------- device.c */

/* A backend that has been opened. */
typedef struct Device {
    const Backend *backend;
    void *context;
} Device;
bool device_open(Device *device, const Backend *backend, const DeviceOptions *options, Error *error);
void device_close(Device *device); /* also of one that could not be opened */

/* A shared object with a backend, prun_cuda.so: one symbol, prun_device_module. */
enum { DEVICE_MODULE = 5 };
typedef struct DeviceModule {
    int format;            /* first, always: DEVICE_MODULE; of another, nothing else is read */
    uint64_t (*abi)(void); /* abi.h: of its build */
    const Backend *backend;
    /* Devices that can be used; 0: why not, in *why. */
    int (*count)(char *why, size_t n);
    /* What each device is and what it can do, lines of text. */
    bool (*list)(Text *text, Error *error);
} DeviceModule;
/* The module, opened once and never closed: beside prun, in its library folder, or where PRUN_CUDA_MODULE says. NULL: why not, in *error. */
const DeviceModule *device_module(Error *error);
/* Whether a user may expect it to be used: it is named by PRUN_CUDA_MODULE, or there is one, and a driver. */
bool device_is_expected(void);
