/* rows: softmax, its logarithm and their gradients along an axis that is whole here. The tensor is [outer, n, inner] with n the axis: of the
 * last axis inner is 1 and a row is contiguous; else blocks of neighbouring columns are worked on together. The largest element is taken off
 * first: no exponential overflows, and their sum is at least 1. Sums are double, whatever the type. */
#include "runtime/cut.h"

#include <math.h>

#include "runtime/cpu/cpu.h"

enum { COLUMNS = 64 };

/* `width` rows whose elements are `inner` apart (row: one row, elements side by side). x: of a gradient y; dy: of a gradient, else NULL. */
typedef void RowsFn(const void *x, const void *dy, void *out, int64_t n, int64_t inner, int64_t width);

#define ROWS(suffix, T, EXP)                                                                                                               \
    /* out: the exponentials of a row less its largest element; their sum. */                                                              \
    static double row_powers_##suffix(const T *x, T *out, int64_t n, T *most_) {                                                           \
        T most = x[0];                                                                                                                     \
        double sum = 0;                                                                                                                    \
        for (int64_t i = 1; i < n; i++)                                                                                                    \
            most = x[i] > most ? x[i] : most;                                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = EXP(x[i] - most);                                                     \
        _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += out[i];                                              \
        *most_ = most;                                                                                                                     \
        return sum;                                                                                                                        \
    }                                                                                                                                      \
    static void softmax_row_##suffix(const void *x, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {                \
        T *out = out_, most;                                                                                                               \
        (void)dy_, (void)inner, (void)width;                                                                                               \
        const T scale = (T)(1 / row_powers_##suffix(x, out, n, &most));                                                                    \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] *= scale;                                                               \
    }                                                                                                                                      \
    static void log_softmax_row_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {           \
        const T *x = x_;                                                                                                                   \
        T *out = out_, most;                                                                                                               \
        (void)dy_, (void)inner, (void)width;                                                                                               \
        const T shift = (T)log(row_powers_##suffix(x, out, n, &most));                                                                     \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = x[i] - most - shift;                                                  \
    }                                                                                                                                      \
    static void softmax_grad_row_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {          \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        (void)inner, (void)width;                                                                                                          \
        double sum = 0;                                                                                                                    \
        _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += (double)x[i] * dy[i];                                \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = x[i] * (dy[i] - (T)sum);                                              \
    }                                                                                                                                      \
    static void log_softmax_grad_row_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {      \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        (void)inner, (void)width;                                                                                                          \
        double sum = 0;                                                                                                                    \
        _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += dy[i];                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = dy[i] - EXP(x[i]) * (T)sum;                                           \
    }                                                                                                                                      \
    static void column_maxima_##suffix(const T *x, int64_t n, int64_t inner, int64_t width, T *most) {                                     \
        for (int64_t c = 0; c < width; c++)                                                                                                \
            most[c] = x[c];                                                                                                                \
        for (int64_t i = 1; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) most[c] = x[i * inner + c] > most[c] ? x[i * inner + c] : most[c];     \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void softmax_columns_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {           \
        const T *x = x_;                                                                                                                   \
        T *out = out_;                                                                                                                     \
        (void)dy_;                                                                                                                         \
        T most[COLUMNS];                                                                                                                   \
        double sum[COLUMNS] = {0};                                                                                                         \
        column_maxima_##suffix(x, n, inner, width, most);                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) {                                                                      \
                T e = EXP(x[i * inner + c] - most[c]);                                                                                     \
                out[i * inner + c] = e;                                                                                                    \
                sum[c] += e;                                                                                                               \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (int64_t c = 0; c < width; c++)                                                                                                \
            sum[c] = 1 / sum[c];                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] *= (T)sum[c];                                       \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void log_softmax_columns_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {       \
        const T *x = x_;                                                                                                                   \
        T *out = out_;                                                                                                                     \
        (void)dy_;                                                                                                                         \
        T most[COLUMNS];                                                                                                                   \
        double sum[COLUMNS] = {0};                                                                                                         \
        column_maxima_##suffix(x, n, inner, width, most);                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += EXP(x[i * inner + c] - most[c]);                             \
        }                                                                                                                                  \
        for (int64_t c = 0; c < width; c++)                                                                                                \
            sum[c] = log(sum[c]);                                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] = x[i * inner + c] - most[c] - (T)sum[c];           \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void softmax_grad_columns_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {      \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        double sum[COLUMNS] = {0};                                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += (double)x[i * inner + c] * dy[i * inner + c];                \
        }                                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] = x[i * inner + c] * (dy[i * inner + c] - (T)sum[c]);\
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void log_softmax_grad_columns_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {  \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        double sum[COLUMNS] = {0};                                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += dy[i * inner + c];                                           \
        }                                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] = dy[i * inner + c] - EXP(x[i * inner + c]) * (T)sum[c];\
        }                                                                                                                                  \
    }
ROWS(f32, float, expf)
ROWS(f64, double, exp)

typedef struct RowsRun {
    RowsFn *row, *columns;
    int64_t n, inner, blocks; /* blocks of columns in inner */
    int item_bytes;
    const char *x, *dy;
    char *out;
} RowsRun;

/* Ranges are of blocks of columns. */
static void rows_part(void *context, int64_t begin, int64_t end) {
    const RowsRun *run = context;
    for (int64_t item = begin; item < end; item++) {
        int64_t column = item % run->blocks * COLUMNS, first = item / run->blocks * run->n * run->inner + column;
        int64_t width = run->inner - column < COLUMNS ? run->inner - column : COLUMNS, offset = first * run->item_bytes;
        RowsFn *work = run->inner == 1 ? run->row : run->columns;
        work(run->x + offset, run->dy ? run->dy + offset : NULL, run->out + offset, run->n, run->inner, width);
    }
}

static bool rows(const KernelCall *call, RowsFn *const row[NDTYPES], RowsFn *const columns[NDTYPES], int cost, Error *error) {
    const Operand *x = &call->in[0];
    if (!row[x->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[x->dtype]);
    if (shape_elements(&x->local) == 0) return true;
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    RowsRun run = {.row = row[x->dtype],
                   .columns = columns[x->dtype],
                   .n = lines.length,
                   .inner = lines.inner,
                   .blocks = (lines.inner + COLUMNS - 1) / COLUMNS,
                   .item_bytes = dtype_bytes[x->dtype],
                   .x = x->data,
                   .dy = call->nin > 1 ? call->in[1].data : NULL,
                   .out = call->out[0].data};
    int64_t width = run.inner < COLUMNS ? run.inner : COLUMNS;
    pool_run(call_pool(call), lines.outer * run.blocks, 1 + GRAIN / (cost * run.n * width), rows_part, &run);
    return true;
}

/* cost: time of an element, in those of an addition. */
#define ROWS_KERNEL(name, cost)                                                                                                            \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return rows(call, (RowsFn *const[NDTYPES]){name##_row_f32, name##_row_f64},                                                        \
                    (RowsFn *const[NDTYPES]){name##_columns_f32, name##_columns_f64}, cost, error);                                        \
    }
ROWS_KERNEL(softmax, 10)
ROWS_KERNEL(softmax_grad, 2)
ROWS_KERNEL(log_softmax, 10)
ROWS_KERNEL(log_softmax_grad, 10)
