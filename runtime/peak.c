/* peak: a large product and a long pass over memory, timed: what a profile's shares are of. */
#include "runtime/profile.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3 };

/* A product of two square matrices, or -x of a vector: a call of the backend's own kernel. */
typedef struct Trial {
    KernelCall call;
    Rule rule;
    KernelFn *fn;
    void *memory;
} Trial;

static void set_operand(Operand *operand, void *data, int ndim, int64_t side) {
    *operand = (Operand){.data = data, .dtype = F32};
    operand->local.ndim = operand->box.ndim = ndim;
    for (int d = 0; d < ndim; d++)
        operand->local.dim[d] = operand->box.end[d] = side;
    operand->global = operand->local;
}

static void set_letters(int8_t *letters, int first, int second) {
    for (int d = 0; d < MAX_NDIM; d++)
        letters[d] = -1;
    letters[0] = (int8_t)first;
    if (second >= 0) letters[1] = (int8_t)second;
}

static bool trial_open(Trial *trial, const Device *device, OpCode op, int64_t side, int nthreads, Error *error) {
    const Backend *backend = device->backend;
    bool product = op == OP_matmul;
    int64_t bytes = (product ? side * side : side) * dtype_bytes[F32];
    int ndim = product ? 2 : 1, noperands = product ? 3 : 2;
    memset(trial, 0, sizeof *trial);
    trial->memory = backend->alloc(device->context, noperands * bytes, error);
    if (!trial->memory) return false;
    void *zeros = calloc(1, (size_t)bytes);
    bool ok = zeros || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    for (int i = 0; ok && i < noperands; i++)
        ok = backend->upload(device->context, (char *)trial->memory + i * bytes, zeros, bytes, error);
    free(zeros);
    KernelCall *call = &trial->call;
    *call = (KernelCall){.op = op, .nin = noperands - 1, .nout = 1, .nthreads = nthreads, .rule = &trial->rule, .context = device->context};
    for (int i = 0; i < noperands; i++)
        set_operand(i < call->nin ? &call->in[i] : &call->out[0], (char *)trial->memory + i * bytes, ndim, side);
    trial->rule.nfactors = noperands;
    trial->rule.nout = 1;
    set_letters(trial->rule.in[0], 0, product ? 1 : -1);
    set_letters(trial->rule.in[1], 1, 2);
    set_letters(trial->rule.out[0], 0, product ? 2 : -1);
    trial->fn = backend->kernels[op];
    return ok;
}

/* Seconds of a call, the best of some; on a device several are queued at once, so that the time of asking does not count. */
static bool trial_run(Trial *trial, const Device *device, double *seconds, Error *error) {
    static const Attr none[MAX_ATTRS];
    const Backend *backend = device->backend;
    int calls = backend->queue ? 10 : 1;
    trial->call.attr = none;
    *seconds = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_seconds();
        for (int i = 0; i < calls; i++)
            if (!trial->fn(&trial->call, error)) return false;
        if (!backend->sync(device->context, error)) return false;
        double each = (now_seconds() - begin) / calls;
        if (round > 0 && each < *seconds) *seconds = each; /* the first warms up */
    }
    return true;
}

/* An operator on ever larger operands, until a call takes so long that what surrounds it no longer counts, or they are as large as they may
 * be. */
static bool trial_grow(const Device *device, OpCode op, int64_t *size, int64_t most, int64_t factor, double enough_s, int nthreads,
                       double *seconds, Error *error) {
    for (;; *size *= factor) {
        Trial trial;
        bool ok = trial_open(&trial, device, op, *size, nthreads, error) && trial_run(&trial, device, seconds, error);
        device->backend->free(device->context, trial.memory);
        if (!ok || *seconds >= enough_s || *size * factor > most) return ok;
    }
}

bool peak_measure(const Device *device, int nthreads, double *flops, double *bytes, Error *error) {
    bool host = device->backend->host;
    int64_t side = host ? 1024 : 256, length = host ? 1 << 23 : 1 << 16;
    double seconds = 0;
    if (!trial_grow(device, OP_matmul, &side, host ? 1024 : 8192, 2, 8e-3, nthreads, &seconds, error)) return false;
    *flops = 2.0 * (double)side * (double)side * (double)side / seconds;
    if (!trial_grow(device, OP_neg, &length, host ? 1 << 23 : 1 << 28, 4, 2e-3, nthreads, &seconds, error)) return false;
    *bytes = 2.0 * (double)length * (double)dtype_bytes[F32] / seconds;
    return true;
}
