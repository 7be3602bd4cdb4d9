/* backend: memory of the process, and a kernel for each row of the operator table; a missing kernel is a link error. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

#define RUN(prefix, name)                                                                                                                  \
    static bool run_##prefix##_##name(const KernelCall *call, Error *error) {                                                              \
        return call_is_half(call) ? half_run(call, prefix##_##name, error) : prefix##_##name(call, error);                                 \
    }
#define OP(name, ...) RUN(kernel, name) RUN(reference, name)
#include "ir/ops.def"
#undef OP

static KernelFn *const cpu_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = run_kernel_##name,
#include "ir/ops.def"
#undef OP
};

KernelFn *const cpu_reference_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = run_reference_##name,
#include "ir/ops.def"
#undef OP
};

Pool *call_pool(const KernelCall *call) {
    const CpuContext *context = call->context;
    return context ? context->pool : NULL;
}

int call_most_threads(const KernelCall *call) {
    const CpuContext *context = call->context;
    return context && context->most_threads > 1 ? context->most_threads : 1;
}

/* Opens libraries before the first step, because that takes milliseconds and may fail, and only if there are products. */
static bool cpu_prepare(const KernelCall *call, Error *error) {
    if (!op_table[call->op].product) return true;
    const KernelCall wide = half_widened(call);
    if (call->op == OP_matmul || call->op == OP_einsum) return einsum_prepare(&wide, error);
    const bool convolution = call->op == OP_conv2d || call->op == OP_conv2d_grad_x || call->op == OP_conv2d_grad_w;
    return convolution ? convolve_prepare(&wide, error) : attention_prepare(&wide, error);
}

void *call_room(const KernelCall *call, int64_t bytes, Error *error) {
    CpuContext *context = call->context;
    void *room = context ? context->room : NULL;
    if (room && context->room_bytes >= bytes) return room;
    free(room);
    room = NULL;
    if (posix_memalign(&room, 64, bytes > 0 ? (size_t)bytes : 1) != 0) {
        room = NULL;
        error_set(error, EXIT_ENVIRONMENT, "cannot allocate %lld bytes for a kernel of halves", (long long)bytes);
    }
    if (context) context->room = room, context->room_bytes = room ? bytes : 0;
    return room;
}

static bool cpu_open(void **context, const DeviceOptions *options, Error *error) {
    CpuContext *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (options->nthreads > 1 && !(cpu->pool = pool_create(options->nthreads, error))) {
        free(cpu);
        return false;
    }
    cpu->most_threads = options->most_threads > options->nthreads ? options->most_threads : options->nthreads;
    *context = cpu;
    return true;
}

static void cpu_close(void *context) {
    CpuContext *cpu = context;
    if (!cpu) return;
    pool_destroy(cpu->pool);
    onednn_free(cpu->convolutions);
    free(cpu->room);
    free(cpu);
}

enum { ALIGNMENT = 64 }; /* a cache line, and the widest vector */

static void *cpu_alloc(void *context, int64_t bytes, Error *error) {
    (void)context;
    void *data = NULL;
    int failed = posix_memalign(&data, ALIGNMENT, bytes > 0 ? (size_t)bytes : 1);
    if (!failed) return data;
    error_set(error, EXIT_ENVIRONMENT, "cannot allocate %lld bytes: %s", (long long)bytes, strerror(failed));
    return NULL;
}

static void cpu_free(void *context, void *data) {
    (void)context;
    free(data);
}

static bool cpu_copy(void *context, void *to, const void *from, int64_t bytes, Error *error) {
    (void)context, (void)error;
    if (bytes > 0) memmove(to, from, (size_t)bytes);
    return true;
}

static bool cpu_sync(void *context, Error *error) {
    (void)context, (void)error;
    return true;
}

const Backend backend_cpu = {
    .name = "cpu",
    .host = true,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .sync = cpu_sync,
    .kernels = cpu_kernels,
    .prepare = cpu_prepare,
    .fuse = cpu_fuse,
    .run = cpu_run_fused,
    .unfuse = cpu_unfuse,
};
