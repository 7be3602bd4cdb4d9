/* batchloops: batch_norm and its gradient, one channel at a time. A channel's planes, [n][s] with all other channels between them, are read once for each sum. Sums are double,
 * whatever the type, and in LANES parts, whatever the width of vectors. Compiled once for each of vector.c's variants. */
#include <math.h>

#include "runtime/cpu/lanes.h"
#include "runtime/cpu/vector.h"

enum { COLUMNS = 256 };

/* How many elements a channel has. */
#define COUNT(run) ((double)((run)->n * (run)->s))

/* lane[..] += term, of element k of a row of run->s. */
#define ADD_ROW(lane, term)                                                                                                                \
    {                                                                                                                                      \
        int64_t first = 0;                                                                                                                 \
        for (; first + LANES <= s; first += LANES) {                                                                                       \
            _Pragma("omp simd") for (int l = 0; l < LANES; l++) {                                                                          \
                const int64_t k = first + l;                                                                                               \
                lane[l] += term;                                                                                                           \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (int64_t k = first; k < s; k++)                                                                                                \
            lane[k - first] += term;                                                                                                       \
    }

#define BATCH(suffix, T)                                                                                                                                         \
    static inline double lanes_##suffix(double *lane) {                                                                                                          \
        FOLD_LANES(lane[l] += lane[l + half])                                                                                                                    \
        return lane[0];                                                                                                                                          \
    }                                                                                                                                                            \
    /* Channels [begin, end), one after the other. */                                                                                                            \
    static void planes_##suffix(const BatchNormCall *run, int64_t begin, int64_t end) {                                                                          \
        const int64_t s = run->s, step = run->c * s;                                                                                                             \
        for (int64_t c = begin; c < end; c++) {                                                                                                                  \
            const T *at = (const T *)run->x + c * s, *x;                                                                                                         \
            double sums[LANES] = {0}, squares[LANES] = {0};                                                                                                      \
            x = at;                                                                                                                                              \
            for (int64_t row = 0; row < run->n; row++, x += step)                                                                                                \
                ADD_ROW(sums, x[k])                                                                                                                              \
            const T mean = (T)(lanes_##suffix(sums) / COUNT(run));                                                                                               \
            x = at;                                                                                                                                              \
            for (int64_t row = 0; row < run->n; row++, x += step)                                                                                                \
                ADD_ROW(squares, (double)(x[k] - mean) * (x[k] - mean))                                                                                          \
            const T variance = (T)(lanes_##suffix(squares) / COUNT(run));                                                                                        \
            const T scale = (T)(1 / sqrt((double)variance + run->eps)) * ((const T *)run->weight)[c], bias = ((const T *)run->bias)[c];                          \
            T *y = (T *)run->out + c * s;                                                                                                                        \
            x = at;                                                                                                                                              \
            for (int64_t row = 0; row < run->n; row++, x += step, y += step) {                                                                                   \
                _Pragma("omp simd") for (int64_t k = 0; k < s; k++) y[k] = (x[k] - mean) * scale + bias;                                                         \
            }                                                                                                                                                    \
            ((T *)run->mean)[c] = mean;                                                                                                                          \
            ((T *)run->variance)[c] = variance;                                                                                                                  \
        }                                                                                                                                                        \
    }                                                                                                                                                            \
    static void planes_grad_##suffix(const BatchNormCall *run, int64_t begin, int64_t end) {                                                                     \
        const int64_t s = run->s, step = run->c * s;                                                                                                             \
        for (int64_t c = begin; c < end; c++) {                                                                                                                  \
            const T *x = (const T *)run->x + c * s, *dy = (const T *)run->dy + c * s;                                                                            \
            const T mean = ((const T *)run->mean)[c], root = (T)(1 / sqrt((double)((const T *)run->variance)[c] + run->eps));                                    \
            double sums[LANES] = {0}, along[LANES] = {0};                                                                                                        \
            for (int64_t row = 0; row < run->n; row++, x += step, dy += step) {                                                                                  \
                ADD_ROW(sums, dy[k])                                                                                                                             \
                ADD_ROW(along, dy[k] * ((x[k] - mean) * root))                                                                                                   \
            }                                                                                                                                                    \
            const double dbias = lanes_##suffix(sums), dweight = lanes_##suffix(along);                                                                          \
            const T shift = (T)(dbias / COUNT(run)), share = (T)(dweight / COUNT(run)) * root, scale = ((const T *)run->weight)[c] * root;                       \
            T *dx = (T *)run->out + c * s;                                                                                                                       \
            x = (const T *)run->x + c * s, dy = (const T *)run->dy + c * s;                                                                                      \
            for (int64_t row = 0; row < run->n; row++, x += step, dy += step, dx += step) {                                                                      \
                _Pragma("omp simd") for (int64_t k = 0; k < s; k++) dx[k] = (dy[k] - shift - (x[k] - mean) * share) * scale;                                     \
            }                                                                                                                                                    \
            ((T *)run->dweight)[c] = (T)dweight;                                                                                                                 \
            ((T *)run->dbias)[c] = (T)dbias;                                                                                                                     \
        }                                                                                                                                                        \
    }                                                                                                                                                            \
    /* The same where planes are smaller than a vector: the columns of several channels side by side, and then those of each. first: of them; width: columns. */ \
    static inline void spread_##suffix(T *column, const T *number, int64_t width, int64_t s) {                                                                   \
        for (int64_t j = 0; j < width; j++)                                                                                                                      \
            column[j] = number[j / s];                                                                                                                           \
    }                                                                                                                                                            \
    static inline double fold_##suffix(const double *column, int64_t channel, int64_t s) {                                                                       \
        double sum = 0;                                                                                                                                          \
        for (int64_t j = channel * s; j < (channel + 1) * s; j++)                                                                                                \
            sum += column[j];                                                                                                                                    \
        return sum;                                                                                                                                              \
    }                                                                                                                                                            \
    static void columns_##suffix(const BatchNormCall *run, int64_t first, int64_t channels) {                                                                    \
        const int64_t s = run->s, step = run->c * s, width = channels * s;                                                                                       \
        const T *at = (const T *)run->x + first * s, *x = at, *weight = (const T *)run->weight + first,                                                          \
                *bias = (const T *)run->bias + first;                                                                                                            \
        T number[COLUMNS], mean[COLUMNS], scale[COLUMNS], shift[COLUMNS];                                                                                        \
        double sums[COLUMNS] = {0}, squares[COLUMNS] = {0};                                                                                                      \
        for (int64_t row = 0; row < run->n; row++, x += step) {                                                                                                  \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) sums[j] += x[j];                                                                             \
        }                                                                                                                                                        \
        for (int64_t c = 0; c < channels; c++)                                                                                                                   \
            ((T *)run->mean)[first + c] = number[c] = (T)(fold_##suffix(sums, c, s) / COUNT(run));                                                               \
        spread_##suffix(mean, number, width, s);                                                                                                                 \
        x = at;                                                                                                                                                  \
        for (int64_t row = 0; row < run->n; row++, x += step) {                                                                                                  \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) squares[j] += (double)(x[j] - mean[j]) * (x[j] - mean[j]);                                   \
        }                                                                                                                                                        \
        for (int64_t c = 0; c < channels; c++) {                                                                                                                 \
            const T variance = ((T *)run->variance)[first + c] = (T)(fold_##suffix(squares, c, s) / COUNT(run));                                                 \
            number[c] = (T)(1 / sqrt((double)variance + run->eps)) * weight[c];                                                                                  \
        }                                                                                                                                                        \
        spread_##suffix(scale, number, width, s);                                                                                                                \
        spread_##suffix(shift, bias, width, s);                                                                                                                  \
        T *y = (T *)run->out + first * s;                                                                                                                        \
        x = at;                                                                                                                                                  \
        for (int64_t row = 0; row < run->n; row++, x += step, y += step) {                                                                                       \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) y[j] = (x[j] - mean[j]) * scale[j] + shift[j];                                               \
        }                                                                                                                                                        \
    }                                                                                                                                                            \
    static void columns_grad_##suffix(const BatchNormCall *run, int64_t first, int64_t channels) {                                                               \
        const int64_t s = run->s, step = run->c * s, width = channels * s;                                                                                       \
        const T *x = (const T *)run->x + first * s, *dy = (const T *)run->dy + first * s;                                                                        \
        const T *weight = (const T *)run->weight + first, *variance = (const T *)run->variance + first;                                                          \
        T number[3][COLUMNS], mean[COLUMNS], root[COLUMNS], scale[COLUMNS], shift[COLUMNS], share[COLUMNS];                                                      \
        double sums[COLUMNS] = {0}, along[COLUMNS] = {0};                                                                                                        \
        for (int64_t c = 0; c < channels; c++)                                                                                                                   \
            number[0][c] = (T)(1 / sqrt((double)variance[c] + run->eps));                                                                                        \
        spread_##suffix(mean, (const T *)run->mean + first, width, s);                                                                                           \
        spread_##suffix(root, number[0], width, s);                                                                                                              \
        for (int64_t row = 0; row < run->n; row++, x += step, dy += step) {                                                                                      \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) {                                                                                            \
                sums[j] += dy[j];                                                                                                                                \
                along[j] += dy[j] * ((x[j] - mean[j]) * root[j]);                                                                                                \
            }                                                                                                                                                    \
        }                                                                                                                                                        \
        for (int64_t c = 0; c < channels; c++) {                                                                                                                 \
            const double dbias = fold_##suffix(sums, c, s), dweight = fold_##suffix(along, c, s);                                                                \
            number[1][c] = (T)(dbias / COUNT(run));                                                                                                              \
            number[2][c] = (T)(dweight / COUNT(run)) * number[0][c];                                                                                             \
            number[0][c] = weight[c] * number[0][c];                                                                                                             \
            ((T *)run->dweight)[first + c] = (T)dweight;                                                                                                         \
            ((T *)run->dbias)[first + c] = (T)dbias;                                                                                                             \
        }                                                                                                                                                        \
        spread_##suffix(scale, number[0], width, s);                                                                                                             \
        spread_##suffix(shift, number[1], width, s);                                                                                                             \
        spread_##suffix(share, number[2], width, s);                                                                                                             \
        T *dx = (T *)run->out + first * s;                                                                                                                       \
        x = (const T *)run->x + first * s, dy = (const T *)run->dy + first * s;                                                                                  \
        for (int64_t row = 0; row < run->n; row++, x += step, dy += step, dx += step) {                                                                          \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) dx[j] = (dy[j] - shift[j] - (x[j] - mean[j]) * share[j]) * scale[j];                         \
        }                                                                                                                                                        \
    }                                                                                                                                                            \
    static void batch_norm_##suffix(const BatchNormCall *run, int64_t begin, int64_t end) {                                                                      \
        if (run->s >= LANES) {                                                                                                                                   \
            (run->dy ? planes_grad_##suffix : planes_##suffix)(run, begin, end);                                                                                 \
            return;                                                                                                                                              \
        }                                                                                                                                                        \
        for (int64_t c = begin, each = COLUMNS / run->s; c < end; c += each)                                                                                     \
            (run->dy ? columns_grad_##suffix : columns_##suffix)(run, c, end - c < each ? end - c : each);                                                       \
    }
BATCH(f32, float)
BATCH(f64, double)

BatchNormLoop *OF_VARIANT(batch_loop)(DType dtype) {
    return dtype == F32 ? batch_norm_f32 : dtype == F64 ? batch_norm_f64 : NULL;
}
