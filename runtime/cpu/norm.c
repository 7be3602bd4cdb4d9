/* norm: layer_norm, rms_norm and their gradients, which read the mean and root of each row that the operator computes. Rows are contiguous: the normalised dimensions
 * are the last ones, and not split. The gradients of weight
 * and bias are sums over this rank's rows: first of blocks of rows, then of the blocks in order, so they do not depend on the number of threads. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/vector.h"

enum { MOST_BLOCKS = 32, LEAST_ROWS = 16 };

typedef struct NormRun {
    NormCall rows;
    NormLoop *loop;
    int64_t block; /* rows of a block */
    int64_t nblocks, nsums;
    double *sums; /* of each block, nsums of them: of weight's elements, then of bias's */
} NormRun;

static bool norm_open(const KernelCall *call, NormRun *run, Error *error) {
    const DType dtype = call->in[0].dtype;
    *run = (NormRun){.rows = norm_call(call), .loop = vector_variant(vector_variants() - 1)->norm(call->op, dtype)};
    if (!run->loop) error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[dtype]);
    return run->loop != NULL;
}

/* ---------------------------------------------------------------- forward */

static void forward_part(void *context, int64_t begin, int64_t end) {
    const NormRun *run = context;
    run->loop(&run->rows, begin, end, NULL);
}

static bool forward(const KernelCall *call, Error *error) {
    NormRun run;
    if (!norm_open(call, &run, error)) return false;
    pool_run(call_pool(call), run.rows.rows, 1 + GRAIN / (3 * run.rows.n), forward_part, &run);
    return true;
}

bool kernel_layer_norm(const KernelCall *call, Error *error) {
    return forward(call, error);
}
bool kernel_rms_norm(const KernelCall *call, Error *error) {
    return forward(call, error);
}

/* ---------------------------------------------------------------- gradients */

/* Ranges are of blocks of rows. */
static void gradient_part(void *context, int64_t begin, int64_t end) {
    const NormRun *run = context;
    for (int64_t b = begin; b < end; b++) {
        const int64_t last = (b + 1) * run->block;
        run->loop(&run->rows, b * run->block, last < run->rows.rows ? last : run->rows.rows, run->sums + b * run->nsums);
    }
}

/* Ranges are of sums. */
#define ADD_BLOCKS(suffix, T)                                                                                                              \
    static void add_blocks_##suffix(void *context, int64_t begin, int64_t end) {                                                           \
        const NormRun *run = context;                                                                                                      \
        for (int64_t k = begin; k < end; k++) {                                                                                            \
            double sum = 0;                                                                                                                \
            for (int64_t b = 0; b < run->nblocks; b++)                                                                                     \
                sum += run->sums[b * run->nsums + k];                                                                                      \
            *(k < run->rows.n ? (T *)run->rows.dweight + k : (T *)run->rows.dbias + (k - run->rows.n)) = (T)sum;                           \
        }                                                                                                                                  \
    }
FOR_FLOATS(ADD_BLOCKS)

static bool gradient(const KernelCall *call, Error *error) {
    NormRun run;
    if (!norm_open(call, &run, error)) return false;
    run.nsums = run.rows.n * (call->nout - 1);
    run.block = (run.rows.rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
    if (run.block < LEAST_ROWS) run.block = LEAST_ROWS;
    run.nblocks = (run.rows.rows + run.block - 1) / run.block;
    run.sums = calloc((size_t)(run.nblocks * run.nsums + 1), sizeof *run.sums);
    if (!run.sums) return error_set(error, EXIT_ENVIRONMENT, "out of memory for the sums of a norm's gradient");
    pool_run(call_pool(call), run.nblocks, 1 + GRAIN / (6 * run.block * run.rows.n), gradient_part, &run);
    pool_run(call_pool(call), run.nsums, 1 + GRAIN / (1 + run.nblocks), call->in[0].dtype == F64 ? add_blocks_f64 : add_blocks_f32, &run);
    free(run.sums);
    return true;
}

bool kernel_layer_norm_grad(const KernelCall *call, Error *error) {
    return gradient(call, error);
}
bool kernel_rms_norm_grad(const KernelCall *call, Error *error) {
    return gradient(call, error);
}
