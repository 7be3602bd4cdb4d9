/* normloops: layer_norm, rms_norm and their gradients, of contiguous rows. Sums are double, whatever the type, and in LANES parts, whatever the width of vectors. Compiled
 * once for each of vector.c's variants. */
#include <math.h>

#include "runtime/cpu/lanes.h"
#include "runtime/cpu/vector.h"

/* sum of `term`, of element k, over the row. */
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
        FOLD_LANES(lane[l] += lane[l + half])                                                                                              \
        sum = lane[0];                                                                                                                     \
    }

/* centered: the mean of the row is subtracted; otherwise it is taken as 0. */
#define NORM(suffix, T)                                                                                                                    \
    static inline T row_mean_##suffix(const T *x, int64_t n, bool centered) {                                                              \
        double sum = 0;                                                                                                                    \
        if (centered) SUM(sum, x[k])                                                                                                       \
        return (T)(sum / (double)n);                                                                                                       \
    }                                                                                                                                      \
    /* 1 / sqrt(mean of squares + eps) */                                                                                                  \
    static inline T row_root_##suffix(const T *x, T mean, int64_t n, double eps) {                                                         \
        double sum;                                                                                                                        \
        SUM(sum, (double)(x[k] - mean) * (x[k] - mean))                                                                                    \
        return (T)(1 / sqrt(sum / (double)n + eps));                                                                                       \
    }                                                                                                                                      \
    static inline void norm_rows_##suffix(const NormCall *run, int64_t begin, int64_t end, bool centered) {                                \
        const int64_t n = run->n;                                                                                                          \
        const T *weight = run->weight, *bias = run->bias;                                                                                  \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            const T *x = (const T *)run->x + row * n;                                                                                      \
            T *out = (T *)run->out + row * n;                                                                                              \
            const T mean = row_mean_##suffix(x, n, centered), root = row_root_##suffix(x, mean, n, run->eps);                              \
            if (centered) ((T *)run->mean)[row] = mean;                                                                                    \
            ((T *)run->root)[row] = root;                                                                                                  \
            if (centered) {                                                                                                                \
                _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] = (x[k] - mean) * root * weight[k] + bias[k];                   \
            } else {                                                                                                                       \
                _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] = x[k] * root * weight[k];                                      \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static inline void norm_grad_rows_##suffix(const NormCall *run, int64_t begin, int64_t end, double *sums, bool centered) {             \
        const int64_t n = run->n;                                                                                                          \
        const T *weight = run->weight;                                                                                                     \
        double *dweight = sums, *dbias = sums + n;                                                                                         \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            const T *x = (const T *)run->x + row * n, *dy = (const T *)run->dy + row * n;                                                  \
            T *dx = (T *)run->out + row * n;                                                                                               \
            const T mean = centered ? ((const T *)run->mean)[row] : 0, root = ((const T *)run->root)[row];                                 \
            double all = 0, along;                                                                                                         \
            if (centered) SUM(all, dy[k] * weight[k])                                                                                      \
            SUM(along, (double)(dy[k] * weight[k]) * ((x[k] - mean) * root))                                                               \
            const T share = (T)(along / (double)n), shift = (T)(all / (double)n);                                                          \
            if (centered) {                                                                                                                \
                _Pragma("omp simd") for (int64_t k = 0; k < n; k++) {                                                                      \
                    const T normalised = (x[k] - mean) * root;                                                                             \
                    dx[k] = (dy[k] * weight[k] - normalised * share - shift) * root;                                                       \
                    dweight[k] += dy[k] * normalised;                                                                                      \
                    dbias[k] += dy[k];                                                                                                     \
                }                                                                                                                          \
            } else {                                                                                                                       \
                _Pragma("omp simd") for (int64_t k = 0; k < n; k++) {                                                                      \
                    const T normalised = x[k] * root;                                                                                      \
                    dx[k] = (dy[k] * weight[k] - normalised * share) * root;                                                               \
                    dweight[k] += dy[k] * normalised;                                                                                      \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void layer_norm_##suffix(const NormCall *run, int64_t begin, int64_t end, double *sums) {                                       \
        (void)sums, norm_rows_##suffix(run, begin, end, true);                                                                             \
    }                                                                                                                                      \
    static void rms_norm_##suffix(const NormCall *run, int64_t begin, int64_t end, double *sums) {                                         \
        (void)sums, norm_rows_##suffix(run, begin, end, false);                                                                            \
    }                                                                                                                                      \
    static void layer_norm_grad_##suffix(const NormCall *run, int64_t begin, int64_t end, double *sums) {                                  \
        norm_grad_rows_##suffix(run, begin, end, sums, true);                                                                              \
    }                                                                                                                                      \
    static void rms_norm_grad_##suffix(const NormCall *run, int64_t begin, int64_t end, double *sums) {                                    \
        norm_grad_rows_##suffix(run, begin, end, sums, false);                                                                             \
    }
NORM(f32, float)
NORM(f64, double)

#define LOOPS(name)                                                                                                                        \
    { name##_f32, name##_f64 }
NormLoop *OF_VARIANT(norm_loop)(OpCode op, DType dtype) {
    static NormLoop *const loops[4][2] = {LOOPS(layer_norm), LOOPS(rms_norm), LOOPS(layer_norm_grad), LOOPS(rms_norm_grad)};
    const int which = op == OP_layer_norm ? 0 : op == OP_rms_norm ? 1 : op == OP_layer_norm_grad ? 2 : 3;
    return dtype_is_float(dtype) ? loops[which][dtype == F64] : NULL;
}
