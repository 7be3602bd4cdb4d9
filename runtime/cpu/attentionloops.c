/* attentionloops: loops over rows of scores for attention.c. Sums are in LANES parts, whatever the width of vectors. Compiled once for each of vector.c's variants. */
#include "runtime/cpu/functions.h"
#include "runtime/cpu/lanes.h"
#include "runtime/cpu/vector.h"

#define ROWS(suffix, T)                                                                                                                    \
    static void hide_##suffix(void *scores, const uint8_t *mask, int64_t stride, int64_t n) {                                              \
        T *s = scores;                                                                                                                     \
        _Pragma("omp simd") for (int64_t j = 0; j < n; j++) s[j] = mask[j * stride] ? s[j] : (T)-INFINITY;                                 \
    }                                                                                                                                      \
    static double most_##suffix(const void *scores, int64_t n, double least) {                                                             \
        const T *s = scores;                                                                                                               \
        T most;                                                                                                                            \
        TOP_OF_ROW(T, s, n, least, most)                                                                                                   \
        return (double)most;                                                                                                               \
    }                                                                                                                                      \
    static double powers_##suffix(void *scores, int64_t n, double most, double factor) {                                                   \
        T *s = scores, lane[LANES] = {0};                                                                                                  \
        const T from = (T)most, by = (T)factor;                                                                                            \
        int64_t first = 0;                                                                                                                 \
        double sum = 0;                                                                                                                    \
        for (; first + LANES <= n; first += LANES) {                                                                                       \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) {                                                                          \
                const T p = power_of_##suffix(s[first + l] - from) * by;                                                                   \
                s[first + l] = p;                                                                                                          \
                lane[l] += p;                                                                                                              \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (int64_t j = first; j < n; j++) {                                                                                              \
            s[j] = power_of_##suffix(s[j] - from) * by;                                                                                    \
            lane[j - first] += s[j];                                                                                                       \
        }                                                                                                                                  \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            sum += (double)lane[l];                                                                                                        \
        return sum;                                                                                                                        \
    }                                                                                                                                      \
    static void slopes_##suffix(const void *powers, void *slopes, int64_t n, double along, double scale) {                                 \
        const T *p = powers;                                                                                                               \
        T *g = slopes;                                                                                                                     \
        const T from = (T)along, by = (T)scale;                                                                                            \
        _Pragma("omp simd") for (int64_t j = 0; j < n; j++) g[j] = p[j] * (g[j] - from) * by;                                              \
    }                                                                                                                                      \
    static void scale_##suffix(void *row, int64_t n, double factor) {                                                                      \
        T *x = row;                                                                                                                        \
        const T by = (T)factor;                                                                                                            \
        _Pragma("omp simd") for (int64_t j = 0; j < n; j++) x[j] *= by;                                                                    \
    }                                                                                                                                      \
    static void add_##suffix(void *to, const void *row, int64_t n) {                                                                       \
        T *x = to;                                                                                                                         \
        const T *y = row;                                                                                                                  \
        _Pragma("omp simd") for (int64_t j = 0; j < n; j++) x[j] += y[j];                                                                  \
    }                                                                                                                                      \
    static double along_##suffix(const void *a, const void *b, int64_t n) {                                                                \
        const T *x = a, *y = b;                                                                                                            \
        double lane[LANES] = {0}, sum = 0;                                                                                                 \
        int64_t first = 0;                                                                                                                 \
        for (; first + LANES <= n; first += LANES) {                                                                                       \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) lane[l] += (double)x[first + l] * (double)y[first + l];                    \
        }                                                                                                                                  \
        for (; first < n; first++)                                                                                                         \
            sum += (double)x[first] * (double)y[first];                                                                                    \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            sum += lane[l];                                                                                                                \
        return sum;                                                                                                                        \
    }
ROWS(f32, float)
ROWS(f64, double)

#define LOOPS(suffix)                                                                                                                      \
    { hide_##suffix, most_##suffix, powers_##suffix, slopes_##suffix, scale_##suffix, add_##suffix, along_##suffix }
AttentionLoops OF_VARIANT(attention_loops)(DType dtype) {
    static const AttentionLoops loops[2] = {LOOPS(f32), LOOPS(f64)};
    return loops[dtype == F64];
}
