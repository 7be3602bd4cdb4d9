/* rowloops: softmax, its logarithm and their gradients, of contiguous rows or of up to ROW_COLUMNS neighbouring columns. The largest
 * element is subtracted first, so no exponential overflows, and their sum is at least 1. Sums are double, whatever the type; those of a
 * contiguous row are in LANES parts, whatever the width of vectors. Shorter rows are summed in order, as columns are, and are transposed to columns, so that a
 * vector holds many of them. Compiled once for each of vector.c's variants. */
#include "runtime/cpu/functions.h"
#include "runtime/cpu/lanes.h"
#include "runtime/cpu/vector.h"

/* An operator is written once, in the macros below; their variants ROW_ and COLUMNS_ are for one contiguous row (c is 0) and for `width` columns. `at`
 * is an element's position, c its column, and what all elements of a row share is an array over c.
 *
 *   EACH(statement)        for each element
 *   SHARED(statement)      once for each row
 *   TOP(most)              the largest element
 *   SUM(sum, term)         the sum of a term of each element
 *   POWERS(sum, value)     stores the value of each element in out, and sums them */

#define ROW_VALUES 1
#define ROW_EACH(...)                                                                                                                      \
    _Pragma("omp simd") for (int64_t at = 0; at < n; at++) {                                                                               \
        enum { c = 0 };                                                                                                                    \
        __VA_ARGS__;                                                                                                                       \
    }
#define ROW_SHARED(...)                                                                                                                    \
    {                                                                                                                                      \
        enum { c = 0 };                                                                                                                    \
        __VA_ARGS__;                                                                                                                       \
    }
#define ROW_TOP(T, most) TOP_OF_ROW(T, x, n, x[0], most[0])
#define ROW_SUM(sum, term)                                                                                                                 \
    {                                                                                                                                      \
        enum { c = 0 };                                                                                                                    \
        double lane[LANES] = {0};                                                                                                          \
        int64_t first = 0;                                                                                                                 \
        for (; first + LANES <= n; first += LANES) {                                                                                       \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) {                                                                          \
                const int64_t at = first + l;                                                                                              \
                lane[l] += term;                                                                                                           \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (int64_t at = first; at < n; at++)                                                                                             \
            lane[0] += term;                                                                                                               \
        FOLD_LANES(lane[l] += lane[l + half])                                                                                              \
        sum[0] = lane[0];                                                                                                                  \
    }
#define ROW_POWERS(sum, value)                                                                                                             \
    ROW_EACH(out[at] = value)                                                                                                              \
    ROW_SUM(sum, out[at])

#define COLUMNS_VALUES ROW_COLUMNS
#define COLUMNS_EACH(...)                                                                                                                  \
    for (int64_t k = 0; k < n; k++) {                                                                                                      \
        _Pragma("omp simd") for (int64_t c = 0; c < width; c++) {                                                                          \
            const int64_t at = k * inner + c;                                                                                              \
            __VA_ARGS__;                                                                                                                   \
        }                                                                                                                                  \
    }
#define COLUMNS_SHARED(...)                                                                                                                \
    _Pragma("omp simd") for (int64_t c = 0; c < width; c++) {                                                                              \
        __VA_ARGS__;                                                                                                                       \
    }
#define COLUMNS_TOP(T, most)                                                                                                               \
    COLUMNS_SHARED(most[c] = x[c])                                                                                                         \
    COLUMNS_EACH(most[c] = x[at] > most[c] ? x[at] : most[c])
#define COLUMNS_SUM(sum, term)                                                                                                             \
    COLUMNS_SHARED(sum[c] = 0)                                                                                                             \
    COLUMNS_EACH(sum[c] += term)
#define COLUMNS_POWERS(sum, value)                                                                                                         \
    COLUMNS_SHARED(sum[c] = 0)                                                                                                             \
    COLUMNS_EACH(out[at] = value; sum[c] += out[at])

#define BEGIN(name, FORM, suffix, T)                                                                                                       \
    static void name##_##FORM##_##suffix(const T *x, const T *dy, T *out, int64_t n, int64_t inner, int64_t width) {                       \
        double sum[FORM##_VALUES];                                                                                                         \
        (void)x, (void)dy, (void)inner, (void)width;
#define OPERATORS(FORM, suffix, T)                                                                                                         \
    BEGIN(softmax, FORM, suffix, T)                                                                                                        \
    T most[FORM##_VALUES];                                                                                                                 \
    FORM##_TOP(T, most) FORM##_POWERS(sum, power_of_##suffix(x[at] - most[c])) FORM##_SHARED(most[c] = (T)(1 / sum[c]))                    \
        FORM##_EACH(out[at] *= most[c])                                                                                                    \
    }                                                                                                                                      \
    BEGIN(log_softmax, FORM, suffix, T)                                                                                                    \
    T most[FORM##_VALUES], shift[FORM##_VALUES];                                                                                           \
    FORM##_TOP(T, most) FORM##_SUM(sum, power_of_##suffix(x[at] - most[c])) FORM##_SHARED(shift[c] = (T)log_f64(sum[c]))                   \
        FORM##_EACH(out[at] = x[at] - most[c] - shift[c])                                                                                  \
    }                                                                                                                                      \
    BEGIN(softmax_grad, FORM, suffix, T)                                                                                                   \
    FORM##_SUM(sum, (double)x[at] * dy[at]) FORM##_EACH(out[at] = x[at] * (dy[at] - (T)sum[c]))                                            \
    }                                                                                                                                      \
    BEGIN(log_softmax_grad, FORM, suffix, T)                                                                                               \
    FORM##_SUM(sum, dy[at]) FORM##_EACH(out[at] = dy[at] - exp_##suffix(x[at]) * (T)sum[c])                                                \
    }

/* The loops of an operator: over columns, and over contiguous rows. */
#define LOOPS(name, suffix, T)                                                                                                             \
    static void name##_across_##suffix(const void *x, const void *dy, void *out, int64_t n, int64_t inner, int64_t width) {                \
        name##_COLUMNS_##suffix(x, dy, out, n, inner, width);                                                                              \
    }                                                                                                                                      \
    static void name##_along_##suffix(const void *x_, const void *dy_, void *out_, int64_t n, int64_t inner, int64_t width) {              \
        const T *x = x_, *dy = dy_;                                                                                                        \
        T *out = out_, turned[3][LANES * ROW_COLUMNS];                                                                                     \
        for (int64_t row = 0; row < width && n >= LANES; row++)                                                                            \
            name##_ROW_##suffix(x + row * n, dy ? dy + row * n : NULL, out + row * n, n, inner, 1);                                        \
        for (int64_t row = 0; row < width && n < LANES; row += ROW_COLUMNS) {                                                              \
            const int64_t rows = width - row < ROW_COLUMNS ? width - row : ROW_COLUMNS;                                                    \
            turn_##suffix(x + row * n, turned[0], rows, n);                                                                                \
            if (dy) turn_##suffix(dy + row * n, turned[1], rows, n);                                                                       \
            name##_COLUMNS_##suffix(turned[0], turned[1], turned[2], n, rows, rows);                                                       \
            turn_##suffix(turned[2], out + row * n, n, rows);                                                                              \
        }                                                                                                                                  \
    }

#define ALL(suffix, T)                                                                                                                     \
    /* x: [rows, columns] -> out: [columns, rows] */                                                                                       \
    static void turn_##suffix(const T *x, T *out, int64_t rows, int64_t columns) {                                                         \
        for (int64_t i = 0; i < rows; i++)                                                                                                 \
            for (int64_t j = 0; j < columns; j++)                                                                                          \
                out[j * rows + i] = x[i * columns + j];                                                                                    \
    }                                                                                                                                      \
    OPERATORS(ROW, suffix, T)                                                                                                              \
    OPERATORS(COLUMNS, suffix, T)                                                                                                          \
    LOOPS(softmax, suffix, T)                                                                                                              \
    LOOPS(log_softmax, suffix, T)                                                                                                          \
    LOOPS(softmax_grad, suffix, T)                                                                                                         \
    LOOPS(log_softmax_grad, suffix, T)
ALL(f32, float)
ALL(f64, double)

#define ENTRY(name)                                                                                                                        \
    {                                                                                                                                      \
        {name##_across_f32, name##_along_f32}, {                                                                                           \
            name##_across_f64, name##_along_f64                                                                                            \
        }                                                                                                                                  \
    }

RowLoop *OF_VARIANT(row_loop)(OpCode op, DType dtype, bool contiguous) {
    static RowLoop *const loops[4][2][2] = {ENTRY(softmax), ENTRY(log_softmax), ENTRY(softmax_grad), ENTRY(log_softmax_grad)};
    const int which = op == OP_softmax ? 0 : op == OP_log_softmax ? 1 : op == OP_softmax_grad ? 2 : 3;
    return dtype_is_float(dtype) ? loops[which][dtype == F64][contiguous] : NULL;
}
