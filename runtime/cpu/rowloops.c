/* rowloops: softmax, its logarithm and their gradients, of one contiguous row or of up to ROW_COLUMNS neighbouring columns. The largest
 * element is taken off first: no exponential overflows, and their sum is at least 1. Sums are double, whatever the type; those of a
 * contiguous row are of LANES parts, whatever vectors there are. Compiled once for each of vector.c's variants. */
#include "runtime/cpu/functions.h"
#include "runtime/cpu/vector.h"

enum { LANES = 16 };

/* sum of `term` over k from 0 to n. */
#define SUM(sum, term)                                                                                                                     \
    {                                                                                                                                      \
        double lane[LANES] = {0};                                                                                                          \
        int64_t first = 0;                                                                                                                 \
        for (; first + LANES <= n; first += LANES) {                                                                                       \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) {                                                                          \
                const int64_t k = first + l;                                                                                               \
                lane[l] += term;                                                                                                           \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (int64_t k = first; k < n; k++)                                                                                                \
            lane[0] += term;                                                                                                               \
        for (int half = LANES / 2; half > 0; half /= 2)                                                                                    \
            for (int l = 0; l < half; l++)                                                                                                 \
                lane[l] += lane[l + half];                                                                                                 \
        sum = lane[0];                                                                                                                     \
    }

#define ROWS(suffix, T)                                                                                                                    \
    /* out: the exponentials of a row less its largest element; their sum. */                                                              \
    static double row_powers_##suffix(const T *x, T *out, int64_t n, T *most_) {                                                           \
        T most[LANES];                                                                                                                     \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            most[l] = x[0];                                                                                                                \
        int64_t i = 0;                                                                                                                     \
        for (; i + LANES <= n; i += LANES) {                                                                                               \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) most[l] = x[i + l] > most[l] ? x[i + l] : most[l];                         \
        }                                                                                                                                  \
        for (; i < n; i++)                                                                                                                 \
            most[0] = x[i] > most[0] ? x[i] : most[0];                                                                                     \
        for (int l = 1; l < LANES; l++)                                                                                                    \
            most[0] = most[l] > most[0] ? most[l] : most[0];                                                                               \
        const T top = *most_ = most[0];                                                                                                    \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] = exp_##suffix(x[k] - top);                                             \
        double sum;                                                                                                                        \
        SUM(sum, out[k])                                                                                                                   \
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
        const T shift = (T)log_f64(row_powers_##suffix(x, out, n, &most));                                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = x[i] - most - shift;                                                  \
    }                                                                                                                                      \
    static void softmax_grad_row_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {          \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        (void)inner, (void)width;                                                                                                          \
        double sum;                                                                                                                        \
        SUM(sum, (double)x[k] * dy[k])                                                                                                     \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = x[i] * (dy[i] - (T)sum);                                              \
    }                                                                                                                                      \
    static void log_softmax_grad_row_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {      \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        (void)inner, (void)width;                                                                                                          \
        double sum;                                                                                                                        \
        SUM(sum, dy[k])                                                                                                                    \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = dy[i] - exp_##suffix(x[i]) * (T)sum;                                  \
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
        T most[ROW_COLUMNS];                                                                                                               \
        double sum[ROW_COLUMNS] = {0};                                                                                                     \
        column_maxima_##suffix(x, n, inner, width, most);                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) {                                                                      \
                T e = exp_##suffix(x[i * inner + c] - most[c]);                                                                            \
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
        T most[ROW_COLUMNS];                                                                                                               \
        double sum[ROW_COLUMNS] = {0};                                                                                                     \
        column_maxima_##suffix(x, n, inner, width, most);                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += exp_##suffix(x[i * inner + c] - most[c]);                    \
        }                                                                                                                                  \
        for (int64_t c = 0; c < width; c++)                                                                                                \
            sum[c] = log_f64(sum[c]);                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] = x[i * inner + c] - most[c] - (T)sum[c];           \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void softmax_grad_columns_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {      \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        double sum[ROW_COLUMNS] = {0};                                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += (double)x[i * inner + c] * dy[i * inner + c];                \
        }                                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] =                                                   \
                x[i * inner + c] * (dy[i * inner + c] - (T)sum[c]);                                                                        \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void log_softmax_grad_columns_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {  \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_;                                                                                                                     \
        double sum[ROW_COLUMNS] = {0};                                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) sum[c] += dy[i * inner + c];                                           \
        }                                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                                  \
            _Pragma("omp simd") for (int64_t c = 0; c < width; c++) out[i * inner + c] =                                                   \
                dy[i * inner + c] - exp_##suffix(x[i * inner + c]) * (T)sum[c];                                                            \
        }                                                                                                                                  \
    }
ROWS(f32, float)
ROWS(f64, double)

#define LOOPS(name)                                                                                                                        \
    {                                                                                                                                      \
        {name##_columns_f32, name##_row_f32}, {                                                                                            \
            name##_columns_f64, name##_row_f64                                                                                             \
        }                                                                                                                                  \
    }

#define NAME(variant) NAME_(variant)
#define NAME_(variant) row_loop_##variant
RowLoop *NAME(VECTOR)(OpCode op, DType dtype, bool contiguous);
RowLoop *NAME(VECTOR)(OpCode op, DType dtype, bool contiguous) {
    static RowLoop *const loops[4][2][2] = {LOOPS(softmax), LOOPS(log_softmax), LOOPS(softmax_grad), LOOPS(log_softmax_grad)};
    const int which = op == OP_softmax ? 0 : op == OP_log_softmax ? 1 : op == OP_softmax_grad ? 2 : 3;
    return dtype_is_float(dtype) ? loops[which][dtype == F64][contiguous] : NULL;
}
