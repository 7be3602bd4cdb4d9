/* Products are what sums in double say, by either library; sizes choose it, and strides change no bit. Without oneDNN the cases that are about it are left out. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "tests/random.h"

static const double much = 1e9, little = 1e6; /* multiplications of a call */

static CpuContext context; /* libraries are opened once */

static Multiplier open_for(const CpuContext *of, DType dtype, ProductSize size, double work) {
    KernelCall call = {.nin = 1, .in = {{.dtype = dtype}}, .context = (void *)of};
    Multiplier by;
    Error error;
    cr_assert(multiplier_open(&call, &size, 1, work, &by, &error), "%s", error.text);
    cr_assert((by.blas != NULL) != (by.onednn != NULL));
    return by;
}

static bool has_onednn(void) {
    if (open_for(&context, F32, (ProductSize){false, true, 128, 128, 64}, much).onednn) return true;
    cr_log_warn("oneDNN is not installed");
    return false;
}

/* A matrix [rows, columns], its transpose in memory; rows of that `leading` apart. Elements between them are no numbers. */
static float *place(const float *matrix, int64_t rows, int64_t columns, bool transposed, int64_t leading) {
    const int64_t lines = transposed ? columns : rows, each = transposed ? rows : columns;
    float *placed = aligned_alloc(64, (size_t)((lines * leading * 4 + 63) / 64 * 64));
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < leading; j++)
            placed[i * leading + j] = j >= each ? NAN : transposed ? matrix[j * columns + i] : matrix[i * columns + j];
    return placed;
}

static float *random_matrix(uint64_t *seed, int64_t rows, int64_t columns) {
    float *matrix = malloc((size_t)(rows * columns * 4));
    for (int64_t i = 0; i < rows * columns; i++)
        matrix[i] = (float)(random_next(seed) % 2000) / 1000 - 1;
    return matrix;
}

/* [m, n], contiguous; `more` elements between rows of each matrix in memory. */
static float *product(const Multiplier *by, ProductSize size, const float *a, const float *b, const float *before, double scale,
                      int64_t more) {
    const int64_t lda = (size.a_transposed ? size.m : size.k) + more, ldb = (size.b_transposed ? size.k : size.n) + more,
                  ldc = size.n + more;
    float *left = place(a, size.m, size.k, size.a_transposed, lda), *right = place(b, size.k, size.n, size.b_transposed, ldb);
    float *out = place(before, size.m, size.n, false, ldc), *result = malloc((size_t)(size.m * size.n * 4));
    Error error;
    multiply(by, (MatrixAt){left, {size.a_transposed, lda}}, (MatrixAt){right, {size.b_transposed, ldb}}, size.m, size.n, size.k, scale,
             !isnan(before[0]), out, ldc);
    cr_assert(multiplier_done(by, &error), "%s", error.text);
    for (int64_t i = 0; i < size.m; i++) {
        memcpy(result + i * size.n, out + i * ldc, (size_t)(size.n * 4));
        for (int64_t j = size.n; j < ldc; j++)
            cr_assert(isnan(out[i * ldc + j]), "it wrote behind row %lld", (long long)i);
    }
    free(left), free(right), free(out);
    return result;
}

static void check_sums(ProductSize size, const float *a, const float *b, const float *before, double scale, const float *result) {
    for (int64_t i = 0; i < size.m; i++)
        for (int64_t j = 0; j < size.n; j++) {
            double sum = isnan(before[0]) ? 0 : before[i * size.n + j];
            for (int64_t k = 0; k < size.k; k++)
                sum += scale * a[i * size.k + k] * b[k * size.n + j];
            /* terms below 1 in f32, of which `k` are added up */
            cr_assert_float_eq(result[i * size.n + j], sum, 1e-7 * (double)(size.k + 8), "%lld x %lld x %lld at %lld, %lld",
                               (long long)size.m, (long long)size.n, (long long)size.k, (long long)i, (long long)j);
        }
}

/* The same on strides too, to the bit. */
static bool check(ProductSize size, uint64_t seed) {
    const Multiplier by = open_for(&context, F32, size, much);
    float *a = random_matrix(&seed, size.m, size.k), *b = random_matrix(&seed, size.k, size.n),
          *before = random_matrix(&seed, size.m, size.n);
    const double scale = seed % 2 ? 0.25 : 1;
    if (seed % 3 == 0) before[0] = NAN; /* nothing is added to */
    float *near = product(&by, size, a, b, before, scale, 0), *far = product(&by, size, a, b, before, scale, 1 + (int64_t)(seed % 40));
    check_sums(size, a, b, before, scale, near);
    cr_assert_eq(memcmp(near, far, (size_t)(size.m * size.n * 4)), 0, "strides change bits of %lld x %lld x %lld", (long long)size.m,
                 (long long)size.n, (long long)size.k);
    free(a), free(b), free(before), free(near), free(far);
    return by.onednn != NULL;
}

Test(multiply, products_are_sums_on_any_strides) {
    static const int64_t sides[] = {1, 2, 7, 16, 33, 64, 100, 128, 200, 256, 300}, depths[] = {1, 5, 24, 64, 100, 192, 256, 257, 400, 700};
    uint64_t seed = 1;
    int by_onednn = 0, runs = 300;
    for (int run = 0; run < runs; run++) {
        const int64_t m = sides[random_next(&seed) % 11], n = sides[random_next(&seed) % 11], k = depths[random_next(&seed) % 10];
        by_onednn += check((ProductSize){random_next(&seed) % 2, random_next(&seed) % 2, m, n, k}, random_next(&seed));
    }
    if (has_onednn()) cr_assert(by_onednn > runs / 4 && by_onednn < runs * 3 / 4, "oneDNN has %d of %d", by_onednn, runs);
}

Test(multiply, sizes_choose_the_library) {
    static const struct {
        ProductSize size;
        bool onednn;
    } cases[] = {
        {{false, false, 1024, 256, 256}, true},  {{false, false, 1024, 256, 257}, false}, {{false, false, 512, 10, 4096}, true},
        {{false, false, 256, 1024, 256}, false}, {{false, false, 256, 1000, 256}, true},  {{false, false, 512, 1024, 256}, true},
        {{false, true, 256, 1024, 256}, true},   {{true, false, 1024, 256, 128}, false},  {{true, false, 128, 64, 128}, true},
        {{true, false, 1024, 1024, 256}, true},  {{false, false, 1, 1024, 256}, false},   {{false, false, 1024, 1, 256}, false},
        {{true, false, 256, 64, 2048}, false},
    };
    if (!has_onednn()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(open_for(&context, F32, cases[i].size, much).onednn != NULL, cases[i].onednn, "case %zu", i);
        cr_expect_null(open_for(&context, F32, cases[i].size, little).onednn, "case %zu is not worth it", i);
        cr_expect_null(open_for(&context, F64, cases[i].size, much).onednn, "case %zu: oneDNN has no f64", i);
    }
}

/* A call that has products for both is one library's. */
Test(multiply, a_call_has_one_library) {
    const ProductSize sizes[] = {{false, true, 128, 128, 64}, {true, false, 1024, 256, 64}};
    KernelCall call = {.nin = 1, .in = {{.dtype = F32}}, .context = &context};
    Multiplier by;
    Error error;
    for (int n = 0; n <= 2; n++) {
        cr_assert(multiplier_open(&call, sizes, n, much, &by, &error), "%s", error.text);
        cr_expect_eq(by.onednn != NULL, n == 1 && has_onednn());
    }
}

Test(multiply, without_onednn_openblas_multiplies) {
    CpuContext without = {.no_onednn = true};
    cr_expect_not_null(open_for(&without, F32, (ProductSize){false, true, 128, 128, 64}, much).blas);
}
