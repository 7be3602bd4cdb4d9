/* lookup: operators that look elements up by integers. An index that means nothing, or whose element another rank has, reads and writes nothing:
 * whatever numbers the data hold, no memory outside the operands is touched. */
#include "runtime/parts.h"
#include "runtime/element.h"

#include <string.h>

#include "runtime/cpu/cpu.h"

/* Rows of `length` elements of `wide`, of which this rank has those at [begin, begin + length), and a number for each. */
typedef struct PickRun {
    const Operand *index;
    void *wide, *narrow;
    int64_t begin, length;
} PickRun;

static PickRun pick_run(const Operand *wide, const Operand *index, const Operand *narrow) {
    int last = wide->local.ndim - 1;
    return (PickRun){index, wide->data, narrow->data, wide->box.begin[last], wide->local.dim[last]};
}

#define PICK(suffix, T)                                                                                                                    \
    static void pick_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const PickRun *run = context;                                                                                                      \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            int64_t at = index_within(run->index, row, run->begin, run->length);                                                           \
            ((T *)run->narrow)[row] = at >= 0 ? ((const T *)run->wide)[row * run->length + at] : 0;                                        \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void pick_grad_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                       \
        const PickRun *run = context;                                                                                                      \
        memset((T *)run->wide + begin * run->length, 0, (size_t)((end - begin) * run->length) * sizeof(T));                                \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            int64_t at = index_within(run->index, row, run->begin, run->length);                                                           \
            if (at >= 0) ((T *)run->wide)[row * run->length + at] = ((const T *)run->narrow)[row];                                         \
        }                                                                                                                                  \
    }
FOR_FLOATS(PICK)

bool kernel_pick(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {pick_rows_f32, pick_rows_f64};
    const Operand *out = &call->out[0];
    PickRun run = pick_run(&call->in[0], &call->in[1], out);
    pool_run(call_pool(call), shape_elements(&out->local), GRAIN, rows[out->dtype], &run);
    return true;
}

bool kernel_pick_grad(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {pick_grad_rows_f32, pick_grad_rows_f64};
    const Operand *out = &call->out[0];
    PickRun run = pick_run(out, &call->in[1], &call->in[0]);
    pool_run(call_pool(call), shape_elements(&call->in[0].local), 1 + GRAIN / (run.length + 1), rows[out->dtype], &run);
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool kernel_cross_entropy(const KernelCall *call, Error *error) {
    return reference_cross_entropy(call, error);
}

/* ---------------------------------------------------------------- tables */

/* Rows of `width` elements: those of the table that are here, and one for each index. */
typedef struct TableRun {
    const Operand *index;
    char *table, *rows;
    int64_t begin, count, width, each_bytes;
} TableRun;

static TableRun table_run(const Operand *table, const Operand *index, const Operand *rows) {
    return (TableRun){index,
                      table->data,
                      rows->data,
                      table->box.begin[0],
                      table->local.dim[0],
                      table->local.dim[1],
                      table->local.dim[1] * dtype_bytes[table->dtype]};
}

static void embedding_rows(void *context, int64_t begin, int64_t end) {
    const TableRun *run = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = index_within(run->index, i, run->begin, run->count);
        if (row >= 0)
            memcpy(run->rows + i * run->each_bytes, run->table + row * run->each_bytes, (size_t)run->each_bytes);
        else
            memset(run->rows + i * run->each_bytes, 0, (size_t)run->each_bytes);
    }
}

bool kernel_embedding(const KernelCall *call, Error *error) {
    (void)error;
    TableRun run = table_run(&call->in[0], &call->in[1], &call->out[0]);
    pool_run(call_pool(call), run.width > 0 ? shape_elements(&call->in[1].local) : 0, 1 + GRAIN / (run.width + 1), embedding_rows, &run);
    return true;
}

/* Ranges are of the table's rows: each thread goes through all indices, in their order, and adds up those of its rows. */
#define EMBEDDING_GRAD(suffix, T)                                                                                                          \
    static void embedding_grad_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                  \
        const TableRun *run = context;                                                                                                     \
        memset(run->table + begin * run->each_bytes, 0, (size_t)((end - begin) * run->each_bytes));                                        \
        for (int64_t i = 0, n = shape_elements(&run->index->local); i < n; i++) {                                                          \
            int64_t row = index_within(run->index, i, run->begin + begin, end - begin);                                                    \
            if (row < 0) continue;                                                                                                         \
            T *to = (T *)run->table + (begin + row) * run->width;                                                                          \
            const T *from = (const T *)run->rows + i * run->width;                                                                         \
            _Pragma("omp simd") for (int64_t k = 0; k < run->width; k++) to[k] += from[k];                                                 \
        }                                                                                                                                  \
    }
FOR_FLOATS(EMBEDDING_GRAD)

bool kernel_embedding_grad(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {embedding_grad_rows_f32, embedding_grad_rows_f64};
    const Operand *out = &call->out[0];
    TableRun run = table_run(out, &call->in[1], &call->in[0]);
    pool_run(call_pool(call), run.width > 0 ? run.count : 0, 1 + GRAIN / (run.width + 1), rows[out->dtype], &run);
    return true;
}

bool kernel_one_hot(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *index = &call->in[0], *out = &call->out[0];
    int last = out->local.ndim - 1;
    int64_t length = out->local.dim[last];
    memset(out->data, 0, (size_t)(shape_elements(&out->local) * dtype_bytes[out->dtype])); /* 0 of every type */
    for (int64_t i = 0, n = shape_elements(&index->local); i < n; i++) {
        int64_t at = index_within(index, i, out->box.begin[last], length);
        if (at >= 0) element_put(out->data, out->dtype, i * length + at, 1);
    }
    return true;
}

/* ---------------------------------------------------------------- places */

/* A box without elements, of a rank that an uneven split left none, has no true: the largest number, as the minimum over ranks wants it. */
bool kernel_first(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *out = &call->out[0];
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    for (int64_t o = 0; o < lines.outer; o++)
        for (int64_t k = 0; k < lines.inner; k++) {
            const uint8_t *line = (const uint8_t *)x->data + o * lines.length * lines.inner + k;
            int64_t at = 0;
            while (at < lines.length && !line[at * lines.inner])
                at++;
            ((int32_t *)out->data)[o * lines.inner + k] = at < lines.length ? (int32_t)(x->box.begin[lines.axis] + at) : INT32_MAX;
        }
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool kernel_argmax(const KernelCall *call, Error *error) {
    return reference_argmax(call, error);
}
