/* lookup: operators that look elements up by integers. An index that is out of range, or whose element another rank has, reads and writes nothing:
 * whatever numbers the data hold, no memory outside the operands is touched. */
#include "runtime/parts.h"
#include "runtime/element.h"

#include <math.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/vector.h"

/* Rows of `wide`, of which this rank has the elements [begin, begin + length), and in `narrow` one number for each row. */
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

/* ---------------------------------------------------------------- rows of a cross_entropy */

/* Rows of `length` logits: this rank's, from class `begin` on, of `classes`. */
typedef struct LossRun {
    LossLoops loops;
    SumLoops sums;
    const Operand *label;
    const char *x;
    void *dx, *loss, *most, *sum; /* of a gradient loss: dy */
    int64_t begin, length, classes;
    double smoothing;
} LossRun;

static LossRun loss_run(const KernelCall *call, const Operand *label) {
    const Operand *x = &call->in[0];
    const int last = x->local.ndim - 1;
    return (LossRun){.loops = vector_variant(vector_variants() - 1)->loss(x->dtype),
                     .sums = sum_loops(x->dtype),
                     .label = label,
                     .x = x->data,
                     .begin = x->box.begin[last],
                     .length = x->local.dim[last],
                     .classes = x->global.dim[last],
                     .smoothing = call->attr[0].f};
}

#define LOSS(suffix, T)                                                                                                                    \
    static void loss_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const LossRun *run = context;                                                                                                      \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            const T *x = (const T *)run->x + row * run->length;                                                                            \
            const int64_t at = index_within(run->label, row, 0, run->length);                                                              \
            double most, total = 0, sum = run->loops.sums(x, run->length, &most), mean = 0;                                                \
            if (run->smoothing > 0) {                                                                                                      \
                run->sums.run(&total, x, 1, run->length);                                                                                  \
                mean = total / (double)run->length - most;                                                                                 \
            }                                                                                                                              \
            const double own = (at >= 0 ? (double)x[at] : 0) - most;                                                                       \
            ((T *)run->loss)[row] = (T)(log(sum) - (1 - run->smoothing) * own - run->smoothing * mean);                                    \
            ((T *)run->most)[row] = (T)most;                                                                                               \
            ((T *)run->sum)[row] = (T)sum;                                                                                                 \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void loss_slopes_##suffix(void *context, int64_t begin, int64_t end) {                                                          \
        const LossRun *run = context;                                                                                                      \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            const T *x = (const T *)run->x + row * run->length;                                                                            \
            T *dx = (T *)run->dx + row * run->length;                                                                                      \
            const double dy = ((const T *)run->loss)[row], sum = ((const T *)run->sum)[row];                                               \
            const int64_t at = index_within(run->label, row, run->begin, run->length);                                                     \
            run->loops.slopes(x, dx, run->length, ((const T *)run->most)[row], dy / sum, run->smoothing * dy / (double)run->classes);      \
            if (at >= 0) dx[at] = (T)(dx[at] - (1 - run->smoothing) * dy);                                                                 \
        }                                                                                                                                  \
    }
FOR_FLOATS(LOSS)

bool kernel_cross_entropy_rows(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {loss_rows_f32, loss_rows_f64};
    LossRun run = loss_run(call, &call->in[1]);
    run.loss = call->out[0].data, run.most = call->out[1].data, run.sum = call->out[2].data;
    pool_run(call_pool(call), shape_elements(&call->out[0].local), 1 + GRAIN / (10 * run.length + 1), rows[call->in[0].dtype], &run);
    return true;
}

bool kernel_cross_entropy_rows_grad(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {loss_slopes_f32, loss_slopes_f64};
    LossRun run = loss_run(call, &call->in[2]);
    run.loss = call->in[1].data, run.most = call->in[3].data, run.sum = call->in[4].data, run.dx = call->out[0].data;
    pool_run(call_pool(call), shape_elements(&call->in[1].local), 1 + GRAIN / (10 * run.length + 1), rows[call->in[0].dtype], &run);
    return true;
}

/* ---------------------------------------------------------------- tables */

/* Rows of `width` elements: this rank's rows of the table, and one row for each index. */
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

/* Ranges are of the table's rows: each thread reads all indices in order, and adds up those of its rows. */
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

/* An empty box, of a rank that an uneven split left nothing, has no true: it gives the largest number, neutral for the minimum over ranks. */
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
