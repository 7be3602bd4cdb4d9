/* row_updates: updates the rows of a table that an index names. The indices are sorted by row, so that one thread reads and writes each row once, with the sum of its
 * gradients in the order of the indices; no other row is touched. Indices that are out of range, or whose row another rank has, are ignored. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

/* The indices that name rows of this rank, sorted by row: those of the k-th row that occurs are at[first[k]] to at[first[k + 1] - 1], ascending. */
typedef struct Named {
    int64_t n, nrows;
    int64_t *row, *at, *first;
    void *room;
} Named;

enum { DIGIT_BITS = 11 };

/* One pass of a stable radix sort, by the bits of the rows from `shift` on. */
static void sort_pass(const int64_t *row, const int64_t *at, int64_t *to_row, int64_t *to_at, int64_t n, int shift) {
    int64_t count[(1 << DIGIT_BITS) + 1] = {0};
    const int64_t mask = (1 << DIGIT_BITS) - 1;
    for (int64_t i = 0; i < n; i++)
        count[(row[i] >> shift & mask) + 1]++;
    for (int64_t digit = 0; digit < mask; digit++)
        count[digit + 1] += count[digit];
    for (int64_t i = 0; i < n; i++) {
        const int64_t to = count[row[i] >> shift & mask]++;
        to_row[to] = row[i];
        to_at[to] = at[i];
    }
}

static bool named_find(Named *named, const Operand *index, int64_t begin, int64_t rows) {
    const int64_t most = shape_elements(&index->local);
    int64_t *room = malloc(sizeof *room * (size_t)(5 * most + 1));
    *named = (Named){.row = room, .at = room + most, .first = room + 4 * most, .room = room};
    if (!room) return false;
    int64_t *spare_row = room + 2 * most, *spare_at = room + 3 * most;
    for (int64_t i = 0; i < most; i++) {
        const int64_t row = index_within(index, i, begin, rows);
        if (row < 0) continue;
        named->row[named->n] = row;
        named->at[named->n++] = i;
    }
    for (int shift = 0; (rows - 1) >> shift > 0; shift += DIGIT_BITS) {
        sort_pass(named->row, named->at, spare_row, spare_at, named->n, shift);
        int64_t *row = named->row, *at = named->at;
        named->row = spare_row, named->at = spare_at;
        spare_row = row, spare_at = at;
    }
    for (int64_t i = 0; i < named->n; i++)
        if (i == 0 || named->row[i] != named->row[i - 1]) named->first[named->nrows++] = i;
    named->first[named->nrows] = named->n;
    return true;
}

typedef struct RowsRun {
    Named named;
    int64_t width;
    const void *g;
    void *w, *m, *v;
    double lr, beta1, beta2, eps, correction; /* correction: lazy_adam multiplies lr by it */
} RowsRun;

enum { COLUMNS = 256 };

/* sum: the gradients of the k-th row that occurs, for the columns from `begin` on; returns how many columns, and in *to their first element. */
#define ROW_SUM(suffix, T)                                                                                                                 \
    static int64_t row_sum_##suffix(const RowsRun *run, int64_t k, int64_t begin, T sum[COLUMNS], int64_t *to) {                           \
        const int64_t n = run->width - begin < COLUMNS ? run->width - begin : COLUMNS, first = run->named.first[k];                        \
        memset(sum, 0, (size_t)n * sizeof *sum);                                                                                           \
        for (int64_t i = first; i < run->named.first[k + 1]; i++) {                                                                        \
            const T *g = (const T *)run->g + run->named.at[i] * run->width + begin;                                                        \
            _Pragma("omp simd") for (int64_t c = 0; c < n; c++) sum[c] += g[c];                                                            \
        }                                                                                                                                  \
        *to = run->named.row[first] * run->width + begin;                                                                                  \
        return n;                                                                                                                          \
    }
FOR_FLOATS(ROW_SUM)

/* Ranges are of rows that occur. w' = w - lr g */
#define SGD_ROWS(suffix, T)                                                                                                                \
    static void sgd_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                             \
        const RowsRun *run = context;                                                                                                      \
        const T lr = (T)run->lr;                                                                                                           \
        T g[COLUMNS];                                                                                                                      \
        for (int64_t k = begin; k < end; k++)                                                                                              \
            for (int64_t column = 0, to; column < run->width; column += COLUMNS) {                                                         \
                const int64_t n = row_sum_##suffix(run, k, column, g, &to);                                                                \
                T *w = (T *)run->w + to;                                                                                                   \
                _Pragma("omp simd") for (int64_t c = 0; c < n; c++) w[c] -= lr * g[c];                                                     \
            }                                                                                                                              \
    }
FOR_FLOATS(SGD_ROWS)

/* m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g^2; w' = w - lr m' / (sqrt(v') + eps) */
#define LAZY_ADAM(suffix, T)                                                                                                               \
    static void lazy_adam_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                       \
        const RowsRun *run = context;                                                                                                      \
        const T lr = (T)run->lr, eps = (T)run->eps, beta1 = (T)run->beta1, rest1 = (T)(1 - run->beta1);                                    \
        const T beta2 = (T)run->beta2, rest2 = (T)(1 - run->beta2);                                                                        \
        T g[COLUMNS];                                                                                                                      \
        for (int64_t k = begin; k < end; k++)                                                                                              \
            for (int64_t column = 0, to; column < run->width; column += COLUMNS) {                                                         \
                const int64_t n = row_sum_##suffix(run, k, column, g, &to);                                                                \
                T *w = (T *)run->w + to, *m = (T *)run->m + to, *v = (T *)run->v + to;                                                     \
                _Pragma("omp simd") for (int64_t c = 0; c < n; c++) {                                                                      \
                    m[c] = beta1 * m[c] + rest1 * g[c];                                                                                    \
                    v[c] = beta2 * v[c] + rest2 * g[c] * g[c];                                                                             \
                    w[c] -= lr * m[c] / ((T)sqrt(v[c]) + eps);                                                                             \
                }                                                                                                                          \
            }                                                                                                                              \
    }
FOR_FLOATS(LAZY_ADAM)

static double number(const KernelCall *call, const char *name, double otherwise) {
    const int at = op_in(call->op, name);
    return at < call->nin ? operand_number(&call->in[at]) : otherwise;
}

/* Updates the table and its slots, which are the first operands and the results, by g and the index, the operands after them. */
static bool rows_update(const KernelCall *call, RowsRun *run, PoolFn *const loops[NDTYPES], Error *error) {
    const Operand *w = &call->in[0], *g = &call->in[call->nout], *index = &call->in[call->nout + 1];
    if (!loops[w->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[w->dtype]);
    for (int k = 0; k < call->nout; k++)
        if (call->out[k].data != call->in[k].data)
            memcpy(call->out[k].data, call->in[k].data, (size_t)(shape_elements(&w->local) * dtype_bytes[w->dtype]));
    if (shape_elements(&w->local) == 0) return true;
    if (!named_find(&run->named, index, w->box.begin[0], w->local.dim[0]))
        return error_set(error, EXIT_ENVIRONMENT, "out of memory for the rows that %s updates", op_table[call->op].name);
    run->width = w->local.dim[1];
    run->g = g->data;
    run->w = call->out[0].data;
    run->lr = call->attr[op_attr(call->op, "lr")].f * number(call, "rate", 1) * run->correction;
    pool_run(call_pool(call), run->named.nrows, 1 + GRAIN / (run->width + 1), loops[w->dtype], run);
    free(run->named.room);
    return true;
}

bool kernel_embedding_sgd(const KernelCall *call, Error *error) {
    RowsRun run = {.correction = 1};
    return rows_update(call, &run, (PoolFn *const[NDTYPES]){[F32] = sgd_rows_f32, [F64] = sgd_rows_f64}, error);
}

/* As PyTorch's SparseAdam: eps is added to the uncorrected root, and the corrections multiply the rate. */
bool kernel_lazy_adam(const KernelCall *call, Error *error) {
    const double count = number(call, "update", 1);
    RowsRun run = {.m = call->out[1].data,
                   .v = call->out[2].data,
                   .beta1 = call->attr[op_attr(OP_lazy_adam, "beta1")].f,
                   .beta2 = call->attr[op_attr(OP_lazy_adam, "beta2")].f,
                   .eps = call->attr[op_attr(OP_lazy_adam, "eps")].f};
    run.correction = sqrt(1 - pow(run.beta2, count)) / (1 - pow(run.beta1, count));
    return rows_update(call, &run, (PoolFn *const[NDTYPES]){[F32] = lazy_adam_rows_f32, [F64] = lazy_adam_rows_f64}, error);
}
