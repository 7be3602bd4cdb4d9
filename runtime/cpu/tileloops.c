/* tileloops: tiles of matrix products of f32 in registers, and the order that they are read in. Compiled once for each of vector.c's variants; those without fused
 * multiply-add have none. Every element of a result is a chain of fused multiply-adds in the order of the depth, so that the digits do not depend on the variant, nor on
 * where in a tile the element lies. */
#include "runtime/cpu/vector.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
const TileLoops *JOIN(tile_loops_, VECTOR)(void);

#ifndef __FMA__

const TileLoops *JOIN(tile_loops_, VECTOR)(void) {
    return NULL;
}

#else

#include <immintrin.h>
#include <string.h>

#ifdef __AVX512F__
typedef __m512 Vector;
#define V(name) _mm512_##name##_ps
#define SPREAD(at) _mm512_set1_ps(*(at))
enum { LANES = 16, ROWS = 12, COLUMNS = 2 * LANES };
#else
typedef __m256 Vector;
#define V(name) _mm256_##name##_ps
#define SPREAD(at) _mm256_broadcast_ss(at)
enum { LANES = 8, ROWS = 6, COLUMNS = 2 * LANES };
#endif

/* Each row has its two vectors in variables of their own: compilers keep arrays of them in memory. */
#define ROWS_1(X) X(0)
#define ROWS_2(X) ROWS_1(X) X(1)
#define ROWS_3(X) ROWS_2(X) X(2)
#define ROWS_4(X) ROWS_3(X) X(3)
#define ROWS_5(X) ROWS_4(X) X(4)
#define ROWS_6(X) ROWS_5(X) X(5)
#define ROWS_7(X) ROWS_6(X) X(6)
#define ROWS_8(X) ROWS_7(X) X(7)
#define ROWS_9(X) ROWS_8(X) X(8)
#define ROWS_10(X) ROWS_9(X) X(9)
#define ROWS_11(X) ROWS_10(X) X(10)
#define ROWS_12(X) ROWS_11(X) X(11)

/* The result's rows are fetched while the product is summed up. */
#define ZERO(i)                                                                                                                            \
    Vector left##i = V(setzero)(), right##i = V(setzero)();                                                                                \
    _mm_prefetch((const char *)(out + i * leading), _MM_HINT_T0);                                                                          \
    _mm_prefetch((const char *)(out + i * leading + columns - 1), _MM_HINT_T0);
#define MULTIPLY(i)                                                                                                                        \
    {                                                                                                                                      \
        const Vector x = SPREAD(a + i * a_row);                                                                                            \
        left##i = V(fmadd)(x, left, left##i);                                                                                              \
        right##i = V(fmadd)(x, right, right##i);                                                                                           \
    }
#define ADD(i)                                                                                                                             \
    left##i = V(add)(V(loadu)(out + i * leading), left##i);                                                                                \
    right##i = V(add)(V(loadu)(out + i * leading + LANES), right##i);
#define STORE(i)                                                                                                                           \
    V(storeu)(out + i * leading, left##i);                                                                                                 \
    V(storeu)(out + i * leading + LANES, right##i);
#define SET_ASIDE(i)                                                                                                                       \
    V(storeu)(aside[i], left##i);                                                                                                          \
    V(storeu)(aside[i] + LANES, right##i);

static void store_columns(int rows, float aside[][COLUMNS], float *out, int64_t leading, int columns, bool add) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            out[i * leading + j] = add ? out[i * leading + j] + aside[i][j] : aside[i][j];
}

#define TILE(rows)                                                                                                                         \
    static void tile_##rows(int64_t k, const float *a, int64_t a_row, int64_t a_depth, const float *b, float *out, int64_t leading,        \
                            int columns, bool add) {                                                                                       \
        ROWS_##rows(ZERO) for (int64_t p = 0; p < k; p++, a += a_depth, b += COLUMNS) {                                                    \
            const Vector left = V(loadu)(b), right = V(loadu)(b + LANES);                                                                  \
            ROWS_##rows(MULTIPLY)                                                                                                          \
        }                                                                                                                                  \
        if (columns < COLUMNS) {                                                                                                           \
            float aside[rows][COLUMNS];                                                                                                    \
            ROWS_##rows(SET_ASIDE) store_columns(rows, aside, out, leading, columns, add);                                                 \
            return;                                                                                                                        \
        }                                                                                                                                  \
        if (add) {                                                                                                                         \
            ROWS_##rows(ADD)                                                                                                               \
        }                                                                                                                                  \
        ROWS_##rows(STORE)                                                                                                                 \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#ifdef __AVX512F__
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
#endif

/* 8 runs of 8 elements, `across` apart, become columns of rows `step` apart. */
static void turn_8(const float *x, int64_t across, float *out, int64_t step) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(x + i * across);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0x44);
            a[i + 2 * j + 1] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + i * step, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * step, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* Whole panels whose elements lie side by side: a few panels at a time, as what is read then is in longer runs. */
static inline int64_t pack_side_by_side(const int width, int64_t k, int64_t n, const float *x, int64_t depth, float *out) {
    enum { AT_ONCE = 16 };
    const int64_t panels = n / width;
    for (int64_t first = 0; first < panels; first += AT_ONCE) {
        const int64_t last = panels - first < AT_ONCE ? panels : first + AT_ONCE;
        for (int64_t p = 0; p < k; p++)
            for (int64_t panel = first; panel < last; panel++)
                memcpy(out + (panel * k + p) * width, x + p * depth + panel * width, sizeof *x * (size_t)width);
    }
    return panels;
}

/* Whole panels of columns that lie in the order of the depth. */
static int64_t pack_turned(int64_t k, int64_t n, const float *x, int64_t across, float *out) {
    const int64_t panels = n / COLUMNS;
    for (int64_t panel = 0; panel < panels; panel++, x += COLUMNS * across, out += k * COLUMNS) {
        int64_t p = 0;
        for (; p + 8 <= k; p += 8)
            for (int i = 0; i < COLUMNS; i += 8)
                turn_8(x + p + i * across, across, out + p * COLUMNS + i, COLUMNS);
        for (; p < k; p++)
            for (int i = 0; i < COLUMNS; i++)
                out[p * COLUMNS + i] = x[p + i * across];
    }
    return panels;
}

/* The panels from `first` on, element by element; zeros fill the last one. */
static void pack_rest(int width, int64_t first, int64_t k, int64_t n, const float *x, int64_t depth, int64_t across, float *out) {
    for (int64_t j = first * width; j < n; j += width)
        for (int64_t p = 0; p < k; p++)
            for (int64_t i = 0; i < width; i++)
                out[j * k + p * width + i] = j + i < n ? x[p * depth + (j + i) * across] : 0;
}

static void pack_rows(int64_t k, int64_t n, const float *x, int64_t depth, int64_t across, float *out) {
    pack_rest(ROWS, across == 1 ? pack_side_by_side(ROWS, k, n, x, depth, out) : 0, k, n, x, depth, across, out);
}

static void pack_columns(int64_t k, int64_t n, const float *x, int64_t depth, int64_t across, float *out) {
    int64_t packed = 0;
    if (across == 1)
        packed = pack_side_by_side(COLUMNS, k, n, x, depth, out);
    else if (depth == 1)
        packed = pack_turned(k, n, x, across, out);
    pack_rest(COLUMNS, packed, k, n, x, depth, across, out);
}

static void fetch(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16)
        _mm_prefetch((const char *)(x + i), _MM_HINT_T1);
}

const TileLoops *JOIN(tile_loops_, VECTOR)(void) {
    static const TileLoops loops = {.rows = ROWS,
                                    .columns = COLUMNS,
                                    .tile =
                                        {
                                            tile_1,
                                            tile_2,
                                            tile_3,
                                            tile_4,
                                            tile_5,
                                            tile_6,
#ifdef __AVX512F__
                                            tile_7,
                                            tile_8,
                                            tile_9,
                                            tile_10,
                                            tile_11,
                                            tile_12,
#endif
                                        },
                                    .pack_rows = pack_rows,
                                    .pack_columns = pack_columns,
                                    .fetch = fetch};
    return &loops;
}
#endif
