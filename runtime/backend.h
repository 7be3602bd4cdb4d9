/* backend: where tensors live and kernels run: the CPU, or the device of a module. abi.h checks what prun and a module share. */
#pragma once
#include "ir/op.h"

/* An operand or result as a kernel sees it: this rank's box of a global tensor, contiguous, row-major. The executor takes hidden dimensions
 * off and calls the kernel once per slice (boundary operators see them). */
typedef struct Operand {
    void *data;
    DType dtype;
    Shape local;  /* sizes of the box */
    Shape global; /* sizes of the whole tensor */
    Box box;      /* where the box lies in it */
} Operand;

/* Which number of the uniform generator each element of an input of random numbers gets, in one batch: number i is number i % 2 of random_uniform_pair(key, i / 2, 0, 1) of
 * runtime/data/sampler.h.
 * i is a function of the batch and the index in the whole tensor. Where the tensor has the batch's rows, they count in the order of the epoch: a row has the same numbers
 * whichever of the processes has it. */
typedef struct Numbers {
    uint64_t key, first; /* first: of the batch */
    int ndim, row_dim;   /* row_dim: the dimension of the rows, -1: none */
    int64_t stride[MAX_NDIM];
    int64_t row_length, replica_rows; /* indices along row_dim per row; rows per replica, 0: there is no hidden dimension, or no rows */
    int64_t share, world;             /* rows of a process in each batch, number of processes: sampler_place */
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
    const Rule *rule; /* letters of operands and results, without the hidden dimension: einsum, sum_to, ... */
    void *context;    /* the backend's, from open; NULL: no threads */
} KernelCall;
typedef bool KernelFn(const KernelCall *call, Error *error);

/* What a backend is opened with. */
typedef struct DeviceOptions {
    int rank, local_rank, nlocal; /* first rank that this process drives; number of this process on its node, and how many are there */
    int nthreads;
    int most_threads; /* the most of any process; less than nthreads counts as nthreads. What several ranks must compute alike is cut for so many */
    bool deterministic; /* the same bits in every run */
    bool tf32;          /* products of f32 may round their factors to 11 bits */
    bool wait;          /* every kernel is waited for, so that a failure names its operator */
    bool odd_rows;      /* there are products that need the room for odd rows (ir/workspace.h) */
    double plan_bytes;  /* what all tensors of this process's ranks need, for messages; 0: unknown */
} DeviceOptions;

struct Comm;
/* Functions of a backend that runs asynchronously: calls are queued, and done in order. alloc to copy and kernels are queued, or wait until
 * what was queued before is done; upload and download have read and written the process's memory when they return; sync waits for everything. */
typedef struct DeviceQueue {
    /* Page-locked memory of the process, and copies out of it while other work runs: stage queues one, staged lets what is queued after it wait for all
     * of them. taken: what has been queued so far reads what was staged, and the next stage waits for that. */
    void *(*alloc_host)(void *context, int64_t bytes, Error *error);
    void (*free_host)(void *context, void *data);
    bool (*stage)(void *context, void *to, const void *from, int64_t bytes, Error *error);
    bool (*staged)(void *context, Error *error);
    bool (*taken)(void *context, Error *error);
    /* Fills this rank's box of a tensor of reals with uniform numbers from 0 to 1, bit for bit those of data_numbers. */
    bool (*uniform)(void *context, const Operand *to, const Numbers *numbers, Error *error);
    /* Called after each step that is queued and not waited for: returns when what was queued before the previous call has been done, and what was staged has
     * been read from the process's memory. So the device never waits for the process, and the process is never more than a step ahead. */
    bool (*pace)(void *context, Error *error);
    /* For consecutive calls that no plan has fused: how many of the first, at least 2, become one launch; 0: none do; -1: *error. */
    int (*fuse)(void *context, const KernelCall *calls, int n, void **fused, Error *error);
    bool (*run)(void *context, void *fused, Error *error);
    void (*unfuse)(void *context, void *fused);
    /* After all calls of a program have been prepared and fused: measures what implementations it can choose from; all processes choose the same. Collective. */
    bool (*settle)(void *context, struct Comm *comm, Error *error);
    /* Captures a step as a graph: between capture and captured what is queued is recorded and not done; replay queues the record. captured gives NULL in
     * *graph and the reason in *error where that cannot be; nothing has been done then either. nodes: how many were recorded. */
    bool (*capture)(void *context, Error *error);
    bool (*captured)(void *context, void **graph, int *nodes, Error *error);
    bool (*replay)(void *context, void *graph, Error *error);
    void (*discard)(void *context, void *graph);
    /* mark records a point in time on the stream of communications or of kernels; returns its number from 0, -1: *error. between: seconds from one to
     * another, after sync. unmark: forgets them. Captured marks are set again by each replay. */
    int (*mark)(void *context, bool comm, Error *error);
    bool (*between)(void *context, int from, int to, double *seconds, Error *error);
    void (*unmark)(void *context);
    /* Names what is queued from begin to end, for profilers. */
    void (*range_begin)(void *context, const char *name);
    void (*range_end)(void *context);
    /* A communicator for tensors of this backend, which uses base for everything else and owns it. choice: "auto", or how ranks must talk. NULL and *error:
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
    bool host;                /* its buffers are ordinary memory of the process, and its functions are synchronous */
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
    KernelFn *prepare; /* before the first step: prepares what a call's kernel needs; its data may be anything; NULL: nothing to do */
    /* Takes the calls of a fused step, in their order; returns what runs them as one. NULL with nothing in *error: there is no kernel for them, and they are run
     * one by one. inner[i], bit o: only later calls of the step read result o of call i, so it need not be stored; its data is room that no other tensor of the
     * step shares. What is stored overlaps an operand only where both have the same elements: docs/plan.md. fuse NULL: none is run as one. */
    void *(*fuse)(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error);
    bool (*run)(void *context, void *fused, Error *error);
    void (*unfuse)(void *context, void *fused);
} Backend;
extern const Backend backend_cpu;
/* Sets the environment variables that backend_cpu's libraries read when they are opened later. To be called before the process has other threads. */
void cpu_set_environment(void);
/* The plain, obviously correct kernels that backend_cpu's fast ones are checked against. */
extern KernelFn *const cpu_reference_kernels[NOPS];

/* ---------------------------------------------------------------- device.c */

/* A backend that has been opened. */
typedef struct Device {
    const Backend *backend;
    void *context;
} Device;
bool device_open(Device *device, const Backend *backend, const DeviceOptions *options, Error *error);
void device_close(Device *device); /* also takes one that could not be opened */

/* A shared object with a backend, prun_cuda.so: one symbol, prun_device_module. */
enum { DEVICE_MODULE = 5 };
typedef struct DeviceModule {
    int format;            /* always the first member: DEVICE_MODULE; where it is another, nothing else is read */
    uint64_t (*abi)(void); /* device_abi (abi.h) of its build */
    const Backend *backend;
    /* How many devices can be used; 0: why not, in why. */
    int (*count)(char *why, size_t n);
    /* What each device is and what it can do, lines of text. */
    bool (*list)(Text *text, Error *error);
} DeviceModule;
/* Opens the module, which lies beside prun, in its library folder, or where PRUN_CUDA_MODULE says. It is never closed. NULL: why not, in *error. */
const DeviceModule *device_module(Error *error);
/* Whether a user may expect the module to be used: PRUN_CUDA_MODULE names it, or there is one, and a driver. */
bool device_is_expected(void);
