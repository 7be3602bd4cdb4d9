/* rows: softmax and its gradient along an axis that is whole here. The tensor is [outer, n, inner] with n the axis: of the last axis inner is
 * 1 and a row is contiguous; else blocks of neighbouring columns are worked on together. */
#include <math.h>

#include "runtime/cpu/cpu.h"

enum { COLUMNS = 64 };

typedef struct RowsRun {
    int64_t n, inner, blocks; /* blocks of columns in inner */
    const void *y, *dy;       /* softmax: y is x */
    void *out;
} RowsRun;

/* The largest element is taken off first: no exponential overflows, and the sum is at least 1. Sums are double, whatever the type. */
#define ROWS(suffix, T, EXP)                                                                                                               \
    static void softmax_row_##suffix(const T *x, T *out, int64_t n) {                                                                      \
        T most = x[0];                                                                                                                     \
        double sum = 0;                                                                                                                    \
        for (int64_t i = 1; i < n; i++)                                                                                                    \
            most = x[i] > most ? x[i] : most;                                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = EXP(x[i] - most);                                                     \
        _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += out[i];                                              \
        const T scale = (T)(1 / sum);                                                                                                      \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] *= scale;                                                               \
    }                                                                                                                                      \
    static void softmax_columns_##suffix(const T *x, T *out, int64_t n, int64_t inner, int64_t width) {                                    \
        T most[COLUMNS];                                                                                                                   \
        double sum[COLUMNS] = {0};                                                                                                         \
        for (int64_t c = 0; c < width; c++)                                                                                                \
            most[c] = x[c];                                                                                                                \
        for (int64_t i = 1; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) most[c] = x[i * inner + c] > most[c] ? x[i * inner + c] : most[c];     \
        }                                                                                                                                  \
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
    /* dx = y (dy - sum of y dy) */                                                                                                        \
    static void gradient_row_##suffix(const T *y, const T *dy, T *dx, int64_t n) {                                                         \
        double sum = 0;                                                                                                                    \
        _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += (double)y[i] * dy[i];                                \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - (T)sum);                                               \
    }                                                                                                                                      \
    static void gradient_columns_##suffix(const T *y, const T *dy, T *dx, int64_t n, int64_t inner, int64_t width) {                       \
        double sum[COLUMNS] = {0};                                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += (double)y[i * inner + c] * dy[i * inner + c];                \
        }                                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) dx[i * inner + c] =                                                    \
                y[i * inner + c] * (dy[i * inner + c] - (T)sum[c]);                                                                        \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* Ranges are of blocks of columns. */                                                                                                 \
    static void rows_part_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const RowsRun *run = context;                                                                                                      \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            int64_t column = item % run->blocks * COLUMNS, first = item / run->blocks * run->n * run->inner + column;                      \
            int64_t width = run->inner - column < COLUMNS ? run->inner - column : COLUMNS;                                                 \
            const T *y = (const T *)run->y + first, *dy = run->dy ? (const T *)run->dy + first : NULL;                                     \
            T *out = (T *)run->out + first;                                                                                                \
            if (dy && run->inner == 1)                                                                                                     \
                gradient_row_##suffix(y, dy, out, run->n);                                                                                 \
            else if (dy)                                                                                                                   \
                gradient_columns_##suffix(y, dy, out, run->n, run->inner, width);                                                          \
            else if (run->inner == 1)                                                                                                      \
                softmax_row_##suffix(y, out, run->n);                                                                                      \
            else                                                                                                                           \
                softmax_columns_##suffix(y, out, run->n, run->inner, width);                                                               \
        }                                                                                                                                  \
    }
ROWS(f32, float, expf)
ROWS(f64, double, exp)

static bool rows(const KernelCall *call, int cost, Error *error) {
    static PoolFn *const parts[NDTYPES] = {rows_part_f32, rows_part_f64, NULL};
    const Operand *x = &call->in[0];
    if (!parts[x->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[x->dtype]);
    int64_t elements = shape_elements(&x->local);
    if (elements == 0) return true;
    int ndim = x->local.ndim, axis = (int)(!call->attr[0].given ? ndim - 1 : call->attr[0].i < 0 ? call->attr[0].i + ndim : call->attr[0].i);
    RowsRun run = {.n = x->local.dim[axis], .inner = 1, .y = x->data, .dy = call->nin > 1 ? call->in[1].data : NULL, .out = call->out[0].data};
    for (int d = axis + 1; d < ndim; d++)
        run.inner *= x->local.dim[d];
    run.blocks = (run.inner + COLUMNS - 1) / COLUMNS;
    int64_t width = run.inner < COLUMNS ? run.inner : COLUMNS;
    pool_run(call_pool(call), elements / (run.n * run.inner) * run.blocks, 1 + GRAIN / (cost * run.n * width), parts[x->dtype], &run);
    return true;
}

bool kernel_softmax(const KernelCall *call, Error *error) {
    return rows(call, 10, error);
}

bool kernel_softmax_grad(const KernelCall *call, Error *error) {
    return rows(call, 2, error);
}
