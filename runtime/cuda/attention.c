/* attention: attention, the operators it is decomposed into, and its gradient: launches of attention.cuh.
 *
 * Tensor cores are used where they compute what the plain kernels do. Each type and pair of widths is tried on the device before its first use, forward and back, on few queries
 * and keys, but more than a tile has. If a result is off by more than allowed, a note says so once, and f32 arithmetic is used instead. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/pull.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/element.h"

/* Whether tensor cores are right for this type and these widths. */
typedef struct AttentionTried {
    struct AttentionTried *next;
    int dtype;
    int64_t d, e;
    bool right;
} AttentionTried;

void attention_close(CudaContext *cuda) {
    while (cuda->tried) {
        AttentionTried *tried = cuda->tried;
        cuda->tried = tried->next;
        free(tried);
    }
}

/* ---------------------------------------------------------------- trying it */

/* What is tried: queries of two heads that share their keys, the last 20 of which the first query does not see. Results are those of the plain kernels, and those of tensor cores. */
enum { GROUP = 2, QUERIES = 70, KEYS = 90, SEEN = 20, SIXTEENTHS = 16 };
enum { Q, K, V, DY, NGIVEN, Y = NGIVEN, DQ, DK, DV, MOST, SUM, NTENSORS };

typedef struct AttentionTrial {
    char *memory;
    int dtype;
    int64_t elements[NTENSORS];
    int64_t begin[2][NTENSORS]; /* bytes; of results one of either */
} AttentionTrial;

/* Largest scores and sums are f32 in all trials. */
static int dtype_of(const AttentionTrial *trial, int tensor) {
    return tensor >= MOST ? KERNEL_F32 : trial->dtype;
}

static int64_t bytes_of(const AttentionTrial *trial, int tensor) {
    return trial->elements[tensor] * dtype_bytes[dtype_of(trial, tensor)];
}

static bool trial_open(CudaContext *cuda, AttentionTrial *trial, int dtype, int64_t d, int64_t e, Error *error) {
    const int64_t queries = GROUP * QUERIES;
    void *memory = NULL;
    int64_t bytes = 0;
    *trial = (AttentionTrial){.dtype = dtype,
                              .elements = {[Q] = queries * d,
                                           [K] = KEYS * d,
                                           [V] = KEYS * e,
                                           [DY] = queries * e,
                                           [Y] = queries * e,
                                           [DQ] = queries * d,
                                           [DK] = KEYS * d,
                                           [DV] = KEYS * e,
                                           [MOST] = queries,
                                           [SUM] = queries}};
    for (int way = 0; way < 2; way++)
        for (int t = 0; t < NTENSORS; t++) {
            trial->begin[way][t] = t < NGIVEN && way > 0 ? trial->begin[0][t] : bytes;
            if (t >= NGIVEN || way == 0) bytes += align_bytes(bytes_of(trial, t), 256);
        }
    if (!cuda_ok(cuda, cudaMalloc(&memory, (size_t)bytes), "taking memory to try attention", error)) return false;
    trial->memory = memory;
    for (int t = 0; t < NGIVEN; t++)
        if (!cuda_launched(
                cuda,
                kernels_trial(trial->memory + trial->begin[0][t], trial->elements[t], dtype, (uint32_t)t, 1, SIXTEENTHS, cuda->compute),
                "trial", error))
            return false;
    return true;
}

/* Runs forward, and then back from the plain kernels' results. */
static bool trial_run(CudaContext *cuda, const AttentionTrial *trial, int64_t d, int64_t e, AttentionWay way, Error *error) {
    const bool tensors = way == ATTENTION_TENSORS;
    void *at[NTENSORS];
    for (int t = 0; t < NTENSORS; t++)
        at[t] = trial->memory + trial->begin[tensors][t];
    AttentionCall call = {.q = at[Q],
                          .k = at[K],
                          .v = at[V],
                          .y = at[Y],
                          .most = at[MOST],
                          .sum = at[SUM],
                          .dq = at[DQ],
                          .dk = at[DK],
                          .dv = at[DV],
                          .heads = 1,
                          .queries = GROUP * QUERIES,
                          .keys = KEYS,
                          .group = GROUP,
                          .m = QUERIES,
                          .n = KEYS,
                          .d = d,
                          .e = e,
                          .before = SEEN,
                          .scale = 1 / sqrt((double)d),
                          .causal = true,
                          .dtype = trial->dtype};
    if (!cuda_launched(cuda, kernels_attention(&call, way, cuda->scratch, SCRATCH_BYTES, cuda->compute), "attention", error)) return false;
    call.dy = at[DY];
    call.y = trial->memory + trial->begin[0][Y];
    call.most = trial->memory + trial->begin[0][MOST];
    call.sum = trial->memory + trial->begin[0][SUM];
    return cuda_launched(cuda, kernels_attention(&call, way, cuda->scratch, SCRATCH_BYTES, cuda->compute), "attention_grad", error);
}

/* f32: tf32 keeps 11 bits of each factor, and gradients are differences of these. 16-bit types: factors are exact and sums are f32, so results may be rounded to a neighbour. */
static bool is_near(const char *found, const char *expected, int dtype, int64_t n) {
    const double unit = dtype == KERNEL_F32 ? ldexp(1, -7) : ldexp(1, dtype == KERNEL_F16 ? -10 : -7);
    double mean = 0;
    for (int64_t i = 0; i < n; i++)
        mean += fabs(element_at(expected, (DType)dtype, i)) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double x = element_at(found, (DType)dtype, i), y = element_at(expected, (DType)dtype, i);
        if (!(fabs(x - y) <= unit * (fabs(y) + mean))) return false;
    }
    return true;
}

static bool trial_compare(CudaContext *cuda, const AttentionTrial *trial, bool *right, Error *error) {
    *right = true;
    for (int t = NGIVEN; *right && t < NTENSORS; t++) {
        const size_t bytes = (size_t)bytes_of(trial, t);
        char *results = malloc(2 * bytes);
        bool ok = results || error_set(error, EXIT_ENVIRONMENT, "out of memory");
        for (int way = 0; ok && way < 2; way++)
            ok = cuda_backend.download(cuda, results + (size_t)way * bytes, trial->memory + trial->begin[way][t], (int64_t)bytes, error);
        *right = ok && is_near(results + bytes, results, dtype_of(trial, t), trial->elements[t]);
        free(results);
        if (!ok) return false;
    }
    return true;
}

/* NULL: *error. */
static const AttentionTried *try_tensors(CudaContext *cuda, int dtype, int64_t d, int64_t e, Error *error) {
    AttentionTrial trial = {0};
    AttentionTried *tried = malloc(sizeof *tried);
    if (!tried) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    *tried = (AttentionTried){.next = cuda->tried, .dtype = dtype, .d = d, .e = e};
    const bool ok = trial_open(cuda, &trial, dtype, d, e, error) && trial_run(cuda, &trial, d, e, ATTENTION_PLAIN, error) &&
                    trial_run(cuda, &trial, d, e, ATTENTION_TENSORS, error) && trial_compare(cuda, &trial, &tried->right, error);
    if (trial.memory) cudaFree(trial.memory);
    if (!ok) {
        free(tried);
        return NULL;
    }
    if (!tried->right)
        fprintf(
            stderr,
            "prun: note: device %d: attention of %s, %lld and %lld wide, by tensor cores is not what it should be: computed without them; please report it\n",
            cuda->device, dtype == KERNEL_F32 ? "tf32" : dtype_name[dtype], (long long)d, (long long)e);
    return cuda->tried = tried;
}

/* How a call is computed. */
static bool attention_way(CudaContext *cuda, const AttentionCall *a, AttentionWay *way, Error *error) {
    const bool tiles = a->dtype != KERNEL_F64 && a->d <= ATTENTION_WIDTH && a->e <= ATTENTION_WIDTH;
    *way = tiles ? ATTENTION_TILES : ATTENTION_PLAIN;
    if (!tiles || (a->dtype == KERNEL_F32 && !cuda->options.tf32)) return true;
    const AttentionTried *tried = cuda->tried;
    while (tried && (tried->dtype != a->dtype || tried->d != a->d || tried->e != a->e))
        tried = tried->next;
    if (!tried && cuda->capturing) return true; /* it cannot be tried while capturing, when nothing is executed */
    if (!tried && !(tried = try_tensors(cuda, a->dtype, a->d, a->e, error))) return false;
    if (tried->right) *way = ATTENTION_TENSORS;
    return true;
}

/* ---------------------------------------------------------------- operators */

static bool attend(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const AttentionCall a = attention_call(call);
    AttentionWay way;
    if (a.dy == NULL && a.queries == 0) return true;
    return attention_way(cuda, &a, &way, error) &&
           cuda_launched(cuda, kernels_attention(&a, way, cuda->scratch, SCRATCH_BYTES, cuda->compute), op_table[call->op].name, error);
}

bool kernel_dot_product_attention(const KernelCall *call, Error *error) {
    return attend(call, error);
}
bool kernel_attention_most(const KernelCall *call, Error *error) {
    return attend(call, error);
}
bool kernel_attention_sums(const KernelCall *call, Error *error) {
    return attend(call, error);
}
bool kernel_attention_grad(const KernelCall *call, Error *error) {
    return attend(call, error);
}
