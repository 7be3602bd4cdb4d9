/* productloops: products whose factors stay in the caches. A library copies both factors in blocks, and first chooses one of its loops, which takes much of the time of a small
 * product. Here only the columns of b are copied, two vectors of them at a time, and rows of a are read in place. An element of the result is one sum, from the first term to
 * the last: the same bits for any width of vectors, and in any part of a result. Compiled once for each of vector.c's variants; without fused multiply-add there is no loop. */
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/functions.h"

#ifdef __FMA__
#include <immintrin.h>

/* ROWS: of a tile; with two vectors of sums each, they leave registers for the factors. */
#ifdef __AVX512F__
typedef __m512 Vector;
enum { ROWS = 8 };
#define ALL(x) _mm512_set1_ps(x)
#define FUSED(a, b, c) _mm512_fmadd_ps(a, b, c)
#else
typedef __m256 Vector;
enum { ROWS = 6 };
#define ALL(x) _mm256_set1_ps(x)
#define FUSED(a, b, c) _mm256_fmadd_ps(a, b, c)
#endif
enum { WIDTH = sizeof(Vector) / sizeof(float), COLUMNS = 2 * WIDTH, DEPTH = 256 };

/* Rows of a; row: distance between rows, step: between the elements of a row. */
typedef struct Rows {
    const float *at;
    int64_t row, step;
} Rows;

/* Where a product is stored: scale times it, or += that. */
typedef struct Result {
    float *at;
    int64_t leading;
    float scale;
    bool add;
} Result;

INLINE void put(Result out, int r, int v, Vector sum) {
    float *at = out.at + r * out.leading + v * WIDTH;
    Vector old, made = sum * ALL(out.scale);
    memcpy(&old, at, sizeof old);
    if (out.add) made = FUSED(sum, ALL(out.scale), old);
    memcpy(at, &made, sizeof made);
}

/* Multiplies n rows of a by COLUMNS columns. */
INLINE void tile(const int n, Rows a, const Vector *b, int64_t k, Result out) {
    Vector sum[ROWS][2];
    for (int r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = ALL(0);
    for (int64_t p = 0; p < k; p++) {
        const Vector left = b[2 * p], right = b[2 * p + 1];
#pragma GCC unroll 8
        for (int r = 0; r < n; r++) {
            const Vector x = ALL(a.at[r * a.row + p * a.step]);
            sum[r][0] = FUSED(x, left, sum[r][0]);
            sum[r][1] = FUSED(x, right, sum[r][1]);
        }
    }
    for (int r = 0; r < n; r++)
        put(out, r, 0, sum[r][0]), put(out, r, 1, sum[r][1]);
}

/* The number of rows is a constant in each call, so that the sums are kept in registers. */
static void tile_of(int64_t n, Rows a, const Vector *b, int64_t k, Result out) {
    switch (n) {
#define OF(rows)                                                                                                                           \
    case rows:                                                                                                                             \
        tile(rows, a, b, k, out);                                                                                                          \
        break;
        OF(1)
        OF(2)
        OF(3)
        OF(4)
        OF(5)
        OF(6)
#ifdef __AVX512F__
        OF(7)
        OF(8)
#endif
    }
}

/* ---------------------------------------------------------------- columns of b */

typedef float Four __attribute__((vector_size(16)));
INLINE Four four_at(const float *at) {
    Four four;
    memcpy(&four, at, sizeof four);
    return four;
}

/* Transposes four columns, each contiguous in memory. */
static void turn_four(const float *from, int64_t leading, int64_t k, float *to) {
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
        const Four a = four_at(from + p), b = four_at(from + leading + p), c = four_at(from + 2 * leading + p),
                   d = four_at(from + 3 * leading + p);
        const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                   more_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7), more_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        const Four row[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                             __builtin_shufflevector(more_ab, more_cd, 0, 1, 4, 5), __builtin_shufflevector(more_ab, more_cd, 2, 3, 6, 7)};
        for (int r = 0; r < 4; r++)
            memcpy(to + (p + r) * COLUMNS, &row[r], sizeof row[r]);
    }
    for (; p < k; p++)
        for (int c = 0; c < 4; c++)
            to[p * COLUMNS + c] = from[c * leading + p];
}

/* Copies n columns, padded with zeros to COLUMNS. */
static void take_columns(MatrixAt b, int64_t k, int64_t n, float *to) {
    const float *from = b.at;
    const int64_t leading = b.matrix.leading, fours = n / 4 * 4;
    if (n < COLUMNS) memset(to, 0, (size_t)(k * COLUMNS) * sizeof *to);
    for (int64_t p = 0; p < k && !b.matrix.transposed; p++) {
        if (n == COLUMNS) /* a copy of constant size is inlined */
            memcpy(to + p * COLUMNS, from + p * leading, COLUMNS * sizeof *to);
        else
            for (int64_t c = 0; c < n; c++)
                to[p * COLUMNS + c] = from[p * leading + c];
    }
    if (!b.matrix.transposed) return;
    for (int64_t c = 0; c < fours; c += 4)
        turn_four(from + c * leading, leading, k, to + c);
    for (int64_t c = fours; c < n; c++)
        for (int64_t p = 0; p < k; p++)
            to[p * COLUMNS + c] = from[c * leading + p];
}

/* ---------------------------------------------------------------- products */

/* Multiplies m rows of a by the n columns that were copied. */
static void by_columns(Rows a, int64_t m, const Vector *columns, int64_t n, int64_t k, Result out) {
    float beside[ROWS * COLUMNS];
    for (int64_t i = 0, rows; i < m; i += rows) {
        rows = m - i >= 2 * ROWS ? ROWS : m - i > ROWS ? (m - i + 1) / 2 : m - i; /* the last two evenly: few rows leave units idle */
        const Rows some = {a.at + i * a.row, a.row, a.step};
        Result to = out;
        to.at += i * out.leading;
        if (n == COLUMNS) {
            tile_of(rows, some, columns, k, to);
            continue;
        }
        const Result whole = {beside, COLUMNS, out.scale, out.add};
        for (int64_t r = 0; r < rows; r++)
            memcpy(beside + r * COLUMNS, to.at + r * to.leading, (size_t)n * sizeof *beside);
        tile_of(rows, some, columns, k, whole);
        for (int64_t r = 0; r < rows; r++)
            memcpy(to.at + r * to.leading, beside + r * COLUMNS, (size_t)n * sizeof *beside);
    }
}

static void product_f32(MatrixAt a, MatrixAt b, int64_t m, int64_t n, int64_t k, double scale, bool add, float *out, int64_t leading) {
    Vector columns[2 * DEPTH];
    Rows rows = {a.at, a.matrix.transposed ? 1 : a.matrix.leading, a.matrix.transposed ? a.matrix.leading : 1};
    for (int64_t p = 0; p == 0 || p < k; p += DEPTH) { /* k = 0: the sums are 0 */
        const int64_t depth = least(DEPTH, k - p);
        for (int64_t j = 0; j < n; j += COLUMNS) {
            const int64_t some = least(COLUMNS, n - j), at = b.matrix.transposed ? j * b.matrix.leading + p : p * b.matrix.leading + j;
            take_columns((MatrixAt){(const float *)b.at + at, b.matrix}, depth, some, (float *)columns);
            by_columns(rows, m, columns, some, depth, (Result){out + j, leading, (float)scale, add || p > 0});
        }
        rows.at += depth * rows.step;
    }
}
#else
#define product_f32 NULL
#endif

ProductLoop *OF_VARIANT(product_loop)(void) {
    return product_f32;
}
