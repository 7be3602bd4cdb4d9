/* batchnorm: batch_norm and its gradient. Channels are dimension 1 of x. This rank may have only some channels, but all of each. One thread computes a channel, so
 * its sums do not depend on the number of threads. Plain kernels are at the end. */
#include <math.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference.h"
#include "runtime/cpu/vector.h"

enum { LEAST_COLUMNS = 64 };

typedef struct BatchRun {
    BatchNormCall norm;
    BatchNormLoop *loop;
} BatchRun;

static void channels_part(void *context, int64_t begin, int64_t end) {
    const BatchRun *run = context;
    run->loop(&run->norm, begin, end);
}

static bool batch_norm(const KernelCall *call, Error *error) {
    const DType dtype = call->in[0].dtype;
    const BatchRun run = {batch_norm_call(call), vector_variant(vector_variants() - 1)->batch(dtype)};
    if (!run.loop) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[dtype]);
    int64_t least = 1 + GRAIN / (4 * run.norm.n * run.norm.s);
    if (least * run.norm.s < LEAST_COLUMNS) least = LEAST_COLUMNS / run.norm.s; /* columns of neighbouring channels are computed together */
    pool_run(call_pool(call), run.norm.c, least, channels_part, (void *)&run);
    return true;
}

bool kernel_batch_norm(const KernelCall *call, Error *error) {
    return batch_norm(call, error);
}
bool kernel_batch_norm_grad(const KernelCall *call, Error *error) {
    return batch_norm(call, error);
}

/* ---------------------------------------------------------------- plain */

/* Element i of a channel. */
static int64_t place_of(const BatchNormCall *norm, int64_t channel, int64_t i) {
    return (i / norm->s * norm->c + channel) * norm->s + i % norm->s;
}

bool reference_batch_norm(const KernelCall *call, Error *error) {
    const BatchNormCall norm = batch_norm_call(call);
    const double count = (double)(norm.n * norm.s);
    (void)error;
    for (int64_t c = 0; c < norm.c; c++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < norm.n * norm.s; i++)
            mean += element_get(&call->in[0], place_of(&norm, c, i)) / count;
        for (int64_t i = 0; i < norm.n * norm.s; i++)
            variance += pow(element_get(&call->in[0], place_of(&norm, c, i)) - mean, 2) / count;
        for (int64_t i = 0; i < norm.n * norm.s; i++) {
            const double normalised = (element_get(&call->in[0], place_of(&norm, c, i)) - mean) / sqrt(variance + norm.eps);
            element_set(&call->out[0], place_of(&norm, c, i), normalised * element_get(&call->in[1], c) + element_get(&call->in[2], c));
        }
        element_set(&call->out[1], c, mean);
        element_set(&call->out[2], c, variance);
    }
    return true;
}

bool reference_batch_norm_grad(const KernelCall *call, Error *error) {
    const BatchNormCall norm = batch_norm_call(call);
    const double count = (double)(norm.n * norm.s);
    (void)error;
    for (int64_t c = 0; c < norm.c; c++) {
        const double mean = element_get(&call->in[3], c), deviation = sqrt(element_get(&call->in[4], c) + norm.eps);
        double dweight = 0, dbias = 0;
        for (int64_t i = 0; i < norm.n * norm.s; i++) {
            const int64_t at = place_of(&norm, c, i);
            dweight += element_get(&call->in[1], at) * (element_get(&call->in[0], at) - mean) / deviation;
            dbias += element_get(&call->in[1], at);
        }
        for (int64_t i = 0; i < norm.n * norm.s; i++) {
            const int64_t at = place_of(&norm, c, i);
            const double normalised = (element_get(&call->in[0], at) - mean) / deviation;
            const double rest = element_get(&call->in[1], at) - dbias / count - normalised * dweight / count;
            element_set(&call->out[0], at, rest * element_get(&call->in[2], c) / deviation);
        }
        element_set(&call->out[1], c, dweight);
        element_set(&call->out[2], c, dbias);
    }
    return true;
}
