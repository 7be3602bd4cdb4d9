/* softmax: softmax, its logarithm and their gradients along an axis that is not split. The tensor is [outer, n, inner] with n the axis. For
 * the last axis inner is 1 and a row is contiguous; else blocks of neighbouring columns are computed together. */
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/vector.h"
#include "runtime/parts.h"

typedef struct RowsRun {
    RowLoop *loop;
    int64_t n, inner, blocks; /* blocks of columns in inner */
    int item_bytes;
    const char *x, *dy;
    char *out;
} RowsRun;

/* Ranges are of rows. */
static void rows_part(void *context, int64_t begin, int64_t end) {
    const RowsRun *run = context;
    const int64_t offset = begin * run->n * run->item_bytes;
    run->loop(run->x + offset, run->dy ? run->dy + offset : NULL, run->out + offset, run->n, 1, end - begin);
}

/* Ranges are of blocks of columns. */
static void columns_part(void *context, int64_t begin, int64_t end) {
    const RowsRun *run = context;
    for (int64_t item = begin; item < end; item++) {
        int64_t column = item % run->blocks * ROW_COLUMNS, first = item / run->blocks * run->n * run->inner + column;
        int64_t width = run->inner - column < ROW_COLUMNS ? run->inner - column : ROW_COLUMNS, offset = first * run->item_bytes;
        run->loop(run->x + offset, run->dy ? run->dy + offset : NULL, run->out + offset, run->n, run->inner, width);
    }
}

static bool rows(const KernelCall *call, OpCode op, int cost, Error *error) {
    const Operand *x = &call->in[0];
    if (shape_elements(&x->local) == 0) return true;
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    RowLoop *loop = vector_variant(vector_variants() - 1)->row(op, x->dtype, lines.inner == 1);
    if (!loop) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[op].name, dtype_name[x->dtype]);
    RowsRun run = {.loop = loop,
                   .n = lines.length,
                   .inner = lines.inner,
                   .blocks = (lines.inner + ROW_COLUMNS - 1) / ROW_COLUMNS,
                   .item_bytes = dtype_bytes[x->dtype],
                   .x = x->data,
                   .dy = call->nin > 1 ? call->in[1].data : NULL,
                   .out = call->out[0].data};
    int64_t width = run.inner < ROW_COLUMNS ? run.inner : ROW_COLUMNS;
    pool_run(call_pool(call), lines.outer * run.blocks, 1 + GRAIN / (cost * run.n * width), run.inner == 1 ? rows_part : columns_part,
             &run);
    return true;
}

/* cost: the time of an element, in additions. */
#define ROWS_KERNEL(name, cost)                                                                                                            \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return rows(call, OP_##name, cost, error);                                                                                         \
    }
ROWS_KERNEL(softmax, 10)
ROWS_KERNEL(softmax_grad, 2)
ROWS_KERNEL(log_softmax, 10)
ROWS_KERNEL(log_softmax_grad, 10)
