/* Products are what sums in double say, by our own loops and by either library; sizes choose among them, and strides change no bit. Without oneDNN, or fused operations, the cases that are
 * about these are left out. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"
#include "tests/random.h"

static const double much = 1e9, little = 1e6; /* multiplications of a call */

static CpuContext context; /* libraries are opened once */

static Multiplier open_for(const CpuContext *of, DType dtype, ProductSize size, double work) {
    KernelCall call = {.nin = 1, .in = {{.dtype = dtype}}, .context = (void *)of};
    Multiplier by;
    Error error;
    cr_assert(multiplier_open(&call, &size, 1, work, &by, &error), "%s", error.text);
    cr_assert_eq((by.own != NULL) + (by.blas != NULL) + (by.onednn != NULL), 1);
    return by;
}

static bool has_onednn(void) {
    if (open_for(&context, F32, (ProductSize){false, true, 1024, 128, 64}, much).onednn) return true;
    cr_log_warn("oneDNN is not installed");
    return false;
}

static bool has_own(void) {
    if (vector_variant(vector_variants() - 1)->product()) return true;
    cr_log_warn("this processor has no fused operations");
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
static void check(ProductSize size, uint64_t seed, int *own, int *onednn) {
    const Multiplier by = open_for(&context, F32, size, much);
    float *a = random_matrix(&seed, size.m, size.k), *b = random_matrix(&seed, size.k, size.n),
          *before = random_matrix(&seed, size.m, size.n);
    const double scale = seed % 2 ? 0.25 : 1;
    if (seed % 3 == 0) before[0] = NAN; /* nothing is added to */
    float *near = product(&by, size, a, b, before, scale, 0),
          *far = product(&by, size, a, b, before, scale, seed % 5 == 0 ? 1024 : 1 + (int64_t)(seed % 40));
    check_sums(size, a, b, before, scale, near);
    cr_assert_eq(memcmp(near, far, (size_t)(size.m * size.n * 4)), 0, "strides change bits of %lld x %lld x %lld", (long long)size.m,
                 (long long)size.n, (long long)size.k);
    free(a), free(b), free(before), free(near), free(far);
    *own += by.own != NULL;
    *onednn += by.onednn != NULL;
}

Test(multiply, products_are_sums_on_any_strides) {
    static const int64_t sides[] = {1, 2, 7, 16, 33, 64, 100, 128, 200, 256, 600},
                         depths[] = {1, 5, 24, 64, 100, 192, 256, 257, 400, 700, 2048};
    uint64_t seed = 1;
    int by_own = 0, by_onednn = 0, runs = 300;
    for (int run = 0; run < runs; run++) {
        const int64_t m = sides[random_next(&seed) % 11], n = sides[random_next(&seed) % 11], k = depths[random_next(&seed) % 11];
        check((ProductSize){random_next(&seed) % 2, random_next(&seed) % 2, m, n, k}, random_next(&seed), &by_own, &by_onednn);
    }
    if (has_own()) cr_assert(by_own > runs / 4 && by_own < runs / 2, "our own loops have %d of %d", by_own, runs);
    if (has_onednn()) cr_assert(by_onednn > runs / 30 && by_onednn < runs * 3 / 4, "oneDNN has %d of %d", by_onednn, runs);
}

/* Our own loops on what others compute too: deep products and those of nothing, single rows and columns. Parts of a result have the bits that they have in the whole, in each variant. */
Test(multiply, parts_of_products_have_the_bits_of_the_whole) {
    enum { M = 61, N = 75, K = 600 };
    static float a[M * K], b[N * K], whole[M * N], part[M * N], before[M * N];
    uint64_t seed = 3;
    if (!has_own()) return;
    float *random = random_matrix(&seed, M + 2 * N, K);
    memcpy(a, random, sizeof a), memcpy(b, random + M * K, sizeof b), memcpy(before, random + (M + N) * K, sizeof before);
    free(random);
    for (int run = 0; run < 60; run++) {
        const int64_t depth = run % 5 == 0 ? K : run % 5 == 1 ? 0 : 1 + random_next(&seed) % 300;
        const ProductSize size = {run & 1, run & 2, M, N, depth};
        const MatrixAt left = {a, {size.a_transposed, size.a_transposed ? M : K}},
                       right = {b, {size.b_transposed, size.b_transposed ? K : N}};
        const int64_t row = random_next(&seed) % M, column = random_next(&seed) % N, m = 1 + random_next(&seed) % (M - row),
                      n = 1 + random_next(&seed) % (N - column);
        const MatrixAt some_rows = {a + row * (size.a_transposed ? 1 : K), left.matrix},
                       some_columns = {b + column * (size.b_transposed ? K : 1), right.matrix};
        memcpy(whole, before, sizeof whole);
        vector_variant(1)->product()(left, right, M, N, size.k, 0.5, run % 3, whole, N);
        double sum = run % 3 ? before[row * N + column] : 0;
        for (int64_t k = 0; k < size.k; k++)
            sum += 0.5 * a[size.a_transposed ? k * M + row : row * K + k] * b[size.b_transposed ? column * K + k : k * N + column];
        cr_assert_float_eq(whole[row * N + column], sum, 1e-7 * (double)(size.k + 8), "%lld terms", (long long)size.k);
        for (int v = 1; v < vector_variants(); v++) {
            memcpy(part, before, sizeof part);
            vector_variant(v)->product()(some_rows, some_columns, m, n, size.k, 0.5, run % 3, part + row * N + column, N);
            for (int64_t i = 0; i < M; i++)
                for (int64_t j = 0; j < N; j++) {
                    const bool in = i >= row && i < row + m && j >= column && j < column + n;
                    cr_assert_eq(part[i * N + j], (in ? whole : before)[i * N + j], "run %d, variant %d at %d, %d", run, v, (int)i, (int)j);
                }
        }
    }
}

/* wide: with AVX-512. */
Test(multiply, sizes_choose_the_library) {
    static const struct {
        ProductSize size;
        bool onednn, wide_onednn;
    } cases[] = {
        {{false, false, 1024, 256, 256}, true, true},   {{false, false, 1024, 256, 257}, false, true},
        {{false, false, 512, 10, 4096}, true, true},    {{false, false, 256, 1024, 256}, false, true},
        {{false, false, 256, 1000, 256}, true, true},   {{false, false, 512, 1024, 256}, true, true},
        {{false, true, 256, 1024, 256}, true, true},    {{true, false, 1024, 256, 128}, false, true},
        {{true, false, 128, 15, 128}, true, false},     {{true, false, 1024, 1024, 256}, true, true},
        {{false, false, 1, 1024, 4096}, false, false},  {{false, false, 4096, 1, 1024}, false, false},
        {{true, false, 256, 64, 2048}, false, false},   {{true, false, 256, 64, 1023}, false, true},
        {{true, true, 1024, 1024, 1024}, false, false},
    };
    static const struct {
        ProductSize size;
        bool own, wide_onednn;
    } ours[] = {
        {{false, false, 512, 256, 256}, true, true}, {{true, true, 1, 16, 1}, true, false},      {{false, true, 513, 64, 64}, false, false},
        {{false, true, 64, 257, 64}, false, false},  {{false, true, 64, 64, 257}, false, false}, {{false, false, 64, 15, 64}, false, false},
        {{true, true, 512, 256, 256}, true, false},  {{true, false, 512, 64, 256}, true, true},  {{true, false, 511, 64, 256}, true, false},
    };
    const bool onednn = has_onednn(), wide = vector_variants() > 2;
    for (size_t i = 0; has_own() && i < sizeof ours / sizeof *ours; i++) {
        const bool own = ours[i].own && !(wide && onednn && ours[i].wide_onednn);
        cr_expect_eq(open_for(&context, F32, ours[i].size, much).own != NULL, own, "case %zu", i);
        cr_expect_eq(open_for(&context, F32, ours[i].size, little).own != NULL, ours[i].own, "case %zu, of little", i);
        cr_expect_null(open_for(&context, F64, ours[i].size, much).own, "case %zu: of f32 alone", i);
    }
    if (!onednn) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool expected = wide ? cases[i].wide_onednn : cases[i].onednn;
        cr_expect_eq(open_for(&context, F32, cases[i].size, much).onednn != NULL, expected, "case %zu", i);
        cr_expect_null(open_for(&context, F32, cases[i].size, little).onednn, "case %zu is not worth it", i);
        cr_expect_null(open_for(&context, F64, cases[i].size, much).onednn, "case %zu: oneDNN has no f64", i);
    }
}

/* A call that has products for both is one library's. */
Test(multiply, a_call_has_one_library) {
    const ProductSize sizes[] = {{false, true, 1024, 128, 64}, {true, true, 1024, 256, 64}},
                      ours[] = {{true, true, 128, 128, 64}, sizes[1]};
    KernelCall call = {.nin = 1, .in = {{.dtype = F32}}, .context = &context};
    Multiplier by;
    Error error;
    for (int n = 0; n <= 2; n++) {
        cr_assert(multiplier_open(&call, sizes, n, much, &by, &error), "%s", error.text);
        cr_expect_eq(by.onednn != NULL, n == 1 && has_onednn());
        cr_assert(multiplier_open(&call, ours, n, much, &by, &error), "%s", error.text);
        cr_expect_eq(by.own != NULL, n == 1 && has_own());
    }
}

Test(multiply, without_onednn_openblas_multiplies) {
    CpuContext without = {.no_onednn = true};
    cr_expect_not_null(open_for(&without, F32, (ProductSize){false, true, 1024, 128, 64}, much).blas);
}

/* OpenBLAS knows processors by their numbers, and gives a newer one its oldest kernels. */
Test(multiply, openblas_has_the_kernels_of_this_processor) {
    static const char *const narrow[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Sandybridge", "Atom", "Barcelona"};
    unsetenv("OPENBLAS_CORETYPE");
    cpu_set_environment();
    const Multiplier by = open_for(&context, F64, (ProductSize){false, false, 64, 64, 64}, much);
    cr_assert_not_null(by.blas);
    void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
    char *(*name)(void) = NULL;
    if (!library) cr_skip_test("OpenBLAS lies elsewhere");
    void *found = dlsym(library, "openblas_get_corename");
    memcpy(&name, &found, sizeof found);
    if (!name || vector_variants() == 1) cr_skip_test("nothing to compare");
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        cr_expect_str_neq(name(), narrow[i], "with vectors of 32 bytes");
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    cpu_set_environment();
    cr_expect_str_eq(getenv("OPENBLAS_CORETYPE"), "Haswell", "what the user says is kept");
}
