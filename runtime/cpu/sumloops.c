/* sumloops: the additions of sums. Compiled once for each of vector.c's variants; in all of them the additions are in the order of the
 * source. */
#include "runtime/cpu/vector.h"

enum { LANES = 8 };

#define SUM(suffix, T, Acc)                                                                                                                \
    static void add_rows_##suffix(void *acc_, const void *x_, int64_t stride, int64_t row_stride, int64_t rows, int64_t n) {               \
        Acc *acc = acc_;                                                                                                                   \
        const T *x = x_;                                                                                                                   \
        int64_t row = 0;                                                                                                                   \
        for (; stride == 1 && row + 4 <= rows; row += 4, x += 4 * row_stride) {                                                            \
            const T *b = x + row_stride, *c = x + 2 * row_stride, *d = x + 3 * row_stride;                                                 \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) acc[i] = (((acc[i] + (Acc)x[i]) + (Acc)b[i]) + (Acc)c[i]) + (Acc)d[i];     \
        }                                                                                                                                  \
        for (; row < rows; row++, x += row_stride) {                                                                                       \
            if (stride == 1) {                                                                                                             \
                _Pragma("omp simd") for (int64_t i = 0; i < n; i++) acc[i] += (Acc)x[i];                                                   \
            } else {                                                                                                                       \
                for (int64_t i = 0; i < n; i++)                                                                                            \
                    acc[i] += (Acc)x[i * stride];                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static Acc sum_##suffix(const T *x, int64_t stride, int64_t n) {                                                                       \
        if (n > SUM_RUN) return sum_##suffix(x, stride, n / 2) + sum_##suffix(x + n / 2 * stride, stride, n - n / 2);                      \
        Acc lane[LANES] = {0};                                                                                                             \
        int64_t i = 0;                                                                                                                     \
        if (stride == 1)                                                                                                                   \
            for (; i + LANES <= n; i += LANES)                                                                                             \
                for (int l = 0; l < LANES; l++)                                                                                            \
                    lane[l] += (Acc)x[i + l];                                                                                              \
        for (; i < n; i++)                                                                                                                 \
            lane[0] += (Acc)x[i * stride];                                                                                                 \
        return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));                                  \
    }                                                                                                                                      \
    static void sum_run_##suffix(void *sum, const void *x, int64_t stride, int64_t n) {                                                    \
        *(Acc *)sum = sum_##suffix(x, stride, n);                                                                                          \
    }
SUM(f32, float, double)
SUM(f64, double, double)
SUM(i32, int32_t, uint32_t)
SUM(i64, int64_t, uint64_t)

SumLoops OF_VARIANT(sum_loops)(DType dtype) {
    static const SumLoops loops[NDTYPES] = {
        {add_rows_f32, sum_run_f32}, {add_rows_f64, sum_run_f64}, {add_rows_i32, sum_run_i32}, {add_rows_i64, sum_run_i64}};
    return loops[dtype];
}
