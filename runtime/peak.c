/* peak: products, a long pass over memory, and small kernels, timed: what a profile's shares are of, and what a machine file says. */
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

static void set_operand(Operand *operand, DType dtype, void *data, int ndim, int64_t side) {
    *operand = (Operand){.data = data, .dtype = dtype};
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

static bool trial_open(Trial *trial, const Device *device, OpCode op, DType dtype, int64_t side, int nthreads, Error *error) {
    const Backend *backend = device->backend;
    bool product = op == OP_matmul;
    int64_t bytes = (product ? side * side : side) * dtype_bytes[dtype];
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
        set_operand(i < call->nin ? &call->in[i] : &call->out[0], dtype, (char *)trial->memory + i * bytes, ndim, side);
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
        bool ok = trial_open(&trial, device, op, F32, *size, nthreads, error) && trial_run(&trial, device, seconds, error);
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

/* ---------------------------------------------------------------- of all ranks at once */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a rank's call while all ranks make such calls: of what they take together in some time, since ranks that share a core take turns; the median of
 * several times. */
static bool trial_share(Trial *trial, const Device *device, Comm *comm, double *seconds, Error *error) {
    enum { WINDOWS = 5, FEW = 64 };
    static const double WINDOW_S = 0.04;
    static const Attr none[MAX_ATTRS];
    uint64_t *picoseconds = calloc((size_t)comm->nprocesses, sizeof *picoseconds);
    double median[WINDOWS];
    bool ok = picoseconds || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    trial->call.attr = none;
    for (int w = -1; ok && w < WINDOWS; w++) { /* the first warms up */
        if (!comm->table->barrier(comm, error)) break;
        double begin = now_seconds(), now = begin;
        int64_t calls = 0;
        for (int64_t batch = 1; ok && now - begin < WINDOW_S;
             now = now_seconds(), batch = now - begin < WINDOW_S / FEW ? 2 * batch : batch) {
            for (int64_t i = 0; ok && i < batch; i++, calls++)
                ok = trial->fn(&trial->call, error);
            ok = ok && device->backend->sync(device->context, error);
        }
        if (!ok || !comm->table->all_gather_words(comm, (uint64_t)((now - begin) / (double)calls * 1e12), picoseconds, error)) break;
        double sum = 0;
        for (int p = 0; p < comm->nprocesses; p++)
            sum += (double)picoseconds[p] * 1e-12;
        if (w >= 0) median[w] = sum / comm->nprocesses * comm->ndriven; /* a process's ranks take turns */
        if (w + 1 < WINDOWS) continue;
        qsort(median, WINDOWS, sizeof *median, compare_doubles);
        *seconds = median[WINDOWS / 2];
        free(picoseconds);
        return true;
    }
    free(picoseconds);
    return false;
}

static bool measure_share(const Device *device, OpCode op, DType dtype, int64_t size, int nthreads, Comm *comm, double *seconds,
                          Error *error) {
    Trial trial;
    bool ok = trial_open(&trial, device, op, dtype, size, nthreads, error) && trial_share(&trial, device, comm, seconds, error);
    if (trial.memory) device->backend->free(device->context, trial.memory);
    return ok;
}

/* Negs of ever more numbers. */
static bool measure_cache(const Device *device, int nthreads, Comm *comm, RankPeaks *peaks, Error *error) {
    enum { SHORTEST = 1 << 12, NLENGTHS = 9 };
    double rate[NLENGTHS];
    for (int i = 0; i < NLENGTHS; i++) {
        const int64_t length = (int64_t)SHORTEST << i;
        double seconds;
        if (!measure_share(device, OP_neg, F32, length, nthreads, comm, &seconds, error)) return false;
        rate[i] = 2.0 * (double)length * dtype_bytes[F32] / seconds;
        if (i == 0 || rate[i] > peaks->cache_bytes_per_s) peaks->cache_bytes_per_s = rate[i];
    }
    peaks->cache_bytes = 2.0 * SHORTEST * dtype_bytes[F32];
    for (int i = 1; i < NLENGTHS; i++)
        if (rate[i] * rate[i] > peaks->cache_bytes_per_s * peaks->bytes_per_s)
            peaks->cache_bytes = 2.0 * (double)((int64_t)SHORTEST << i) * dtype_bytes[F32];
    return true;
}

bool peak_measure_ranks(const Device *device, int nthreads, Comm *comm, RankPeaks *peaks, Error *error) {
    enum { SIDE = 512, LENGTH = 1 << 22, SMALL = 1 << 14, TINY = 16 };
    static const double PRODUCT_FLOPS = 2.0 * SIDE * SIDE * SIDE;
    double f32 = 0, f64 = 0, vector = 0, pass = 0, tiny = 0;
    if (!measure_share(device, OP_matmul, F32, SIDE, nthreads, comm, &f32, error) ||
        !measure_share(device, OP_matmul, F64, SIDE, nthreads, comm, &f64, error) ||
        !measure_share(device, OP_exp, F32, SMALL, nthreads, comm, &vector, error) ||
        !measure_share(device, OP_neg, F32, LENGTH, nthreads, comm, &pass, error) ||
        !measure_share(device, OP_neg, F32, TINY, nthreads, comm, &tiny, error))
        return false;
    *peaks = (RankPeaks){.f32_flops = PRODUCT_FLOPS / f32,
                         .f64_flops = PRODUCT_FLOPS / f64,
                         .vector_flops = (double)op_table[OP_exp].flops * SMALL / vector,
                         .bytes_per_s = 2.0 * LENGTH * dtype_bytes[F32] / pass,
                         .kernel_s = tiny};
    return measure_cache(device, nthreads, comm, peaks, error);
}
