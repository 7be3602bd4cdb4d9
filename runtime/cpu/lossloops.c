/* lossloops: loops over rows of cross_entropy. Sums are double, in LANES parts, whatever the width of vectors. Compiled once for each of vector.c's variants. */
#include "runtime/cpu/functions.h"
#include "runtime/cpu/lanes.h"
#include "runtime/cpu/vector.h"

#define ROWS(suffix, T)                                                                                                                    \
    static double sums_##suffix(const void *logits, int64_t n, double *most) {                                                             \
        const T *x = logits;                                                                                                               \
        T lane[LANES], top;                                                                                                                \
        double sum[LANES] = {0};                                                                                                           \
        int64_t first;                                                                                                                     \
        TOP_OF_ROW(T, x, n, x[0], top)                                                                                                     \
        for (first = 0; first + LANES <= n; first += LANES) {                                                                              \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) sum[l] += power_of_##suffix(x[first + l] - top);                           \
        }                                                                                                                                  \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            lane[l] = first + l < n ? x[first + l] - top : 0;                                                                              \
        _Pragma("omp simd") for (int l = 0; l < LANES; l++) sum[l] += first + l < n ? (double)power_of_##suffix(lane[l]) : 0;              \
        FOLD_LANES(sum[l] += sum[l + half])                                                                                                \
        *most = (double)top;                                                                                                               \
        return sum[0];                                                                                                                     \
    }                                                                                                                                      \
    static void slopes_##suffix(const void *logits, void *slopes, int64_t n, double most, double factor, double taken) {                   \
        const T *x = logits, top = (T)most, by = (T)factor, less = (T)taken;                                                               \
        T *dx = slopes;                                                                                                                    \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) dx[k] = power_of_##suffix(x[k] - top) * by - less;                             \
    }
ROWS(f32, float)
ROWS(f64, double)

LossLoops OF_VARIANT(loss_loops)(DType dtype) {
    static const LossLoops loops[2] = {{sums_f32, slopes_f32}, {sums_f64, slopes_f64}};
    return loops[dtype == F64];
}
