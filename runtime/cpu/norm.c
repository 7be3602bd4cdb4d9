/* norm: layer_norm, rms_norm and their gradients, which take mean and root of each row as the operator gives them. Rows are contiguous: the dimensions that are normalised
 * are the last ones, and whole here. The gradients of weight
 * and bias are sums over this rank's rows: of blocks of rows, and then of those in their order, so that they do not depend on the number of threads. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/vector.h"

enum { MOST_BLOCKS = 32, LEAST_ROWS = 16 };

typedef struct NormRun {
    NormRows rows;
    NormLoop *loop;
    int64_t nrows, block; /* rows of a block */
    int64_t nblocks, nsums;
    double *sums; /* of each block, nsums of them: of weight's elements, then of bias's */
    void *dweight, *dbias;
} NormRun;

static bool norm_open(const KernelCall *call, int weight, NormRun *run, Error *error) {
    const Operand *x = &call->in[0];
    *run = (NormRun){.rows = {.n = shape_elements(&call->in[weight].local),
                              .eps = call->attr[0].f,
                              .x = x->data,
                              .weight = call->in[weight].data,
                              .out = call->out[0].data},
                     .loop = vector_variant(vector_variants() - 1)->norm(call->op, x->dtype)};
    run->nrows = shape_elements(&x->local) / run->rows.n;
    if (!run->loop) error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[x->dtype]);
    return run->loop != NULL;
}

/* ---------------------------------------------------------------- forward */

static void forward_part(void *context, int64_t begin, int64_t end) {
    const NormRun *run = context;
    run->loop(&run->rows, begin, end, NULL);
}

static bool forward(const KernelCall *call, Error *error) {
    NormRun run;
    if (!norm_open(call, 1, &run, error)) return false;
    const bool centered = call->op == OP_layer_norm;
    run.rows.bias = centered ? call->in[2].data : NULL;
    run.rows.mean = centered ? call->out[1].data : NULL;
    run.rows.root = call->out[1 + centered].data;
    pool_run(call_pool(call), run.nrows, 1 + GRAIN / (3 * run.rows.n), forward_part, &run);
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
        run->loop(&run->rows, b * run->block, last < run->nrows ? last : run->nrows, run->sums + b * run->nsums);
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
            *(k < run->rows.n ? (T *)run->dweight + k : (T *)run->dbias + (k - run->rows.n)) = (T)sum;                                     \
        }                                                                                                                                  \
    }
FOR_FLOATS(ADD_BLOCKS)

static bool gradient(const KernelCall *call, Error *error) {
    NormRun run;
    if (!norm_open(call, 2, &run, error)) return false;
    const bool centered = call->op == OP_layer_norm_grad;
    run.rows.dy = call->in[1].data;
    run.rows.mean = centered ? call->in[3].data : NULL;
    run.rows.root = call->in[3 + centered].data;
    run.dweight = call->out[1].data;
    run.dbias = centered ? call->out[2].data : NULL;
    run.nsums = run.rows.n * (call->nout - 1);
    run.block = (run.nrows + MOST_BLOCKS - 1) / MOST_BLOCKS;
    if (run.block < LEAST_ROWS) run.block = LEAST_ROWS;
    run.nblocks = (run.nrows + run.block - 1) / run.block;
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
