/* backend: memory of the process, and a kernel for each row of the operator table: a row without one does not link. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

static KernelFn *const cpu_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = kernel_##name,
#include "ir/ops.def"
#undef OP
};

KernelFn *const cpu_reference_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = reference_##name,
#include "ir/ops.def"
#undef OP
};

Pool *call_pool(const KernelCall *call) {
    const CpuContext *context = call->context;
    return context ? context->pool : NULL;
}

static bool cpu_open(void **context, const DeviceOptions *options, Error *error) {
    CpuContext *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    if (options->nthreads > 1 && !(cpu->pool = pool_create(options->nthreads, error))) {
        free(cpu);
        return false;
    }
    /* einsum.c divides its products among the pool's threads itself: two sets of threads would fight over the cores. */
    openblas_set_num_threads(1);
    *context = cpu;
    return true;
}

static void cpu_close(void *context) {
    CpuContext *cpu = context;
    if (!cpu) return;
    pool_destroy(cpu->pool);
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
};
