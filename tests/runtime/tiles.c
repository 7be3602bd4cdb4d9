/* Products of f32 in tiles: each variant's loops give the digits of a chain of fmaf, and an element of a product has the same bits whatever part of the result is asked for. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "tests/ops/call.h"
#include "tests/shape.h"

static float *numbers(int64_t n, uint64_t *random) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((double)random_below(random, 2000001) / 1e6 - 1);
    return x;
}

/* ---------------------------------------------------------------- one tile */

/* a: k x m in panels of rows or by strides; b: k x n, turned or not. */
static void check_tile(const TileLoops *loops, int64_t m, int64_t n, int64_t k, bool pack_a, bool turned, bool add, uint64_t *random) {
    const int64_t leading = n + 3, depth = turned ? 1 : n + 1, across = turned ? k + 2 : 1, a_depth = m + 5;
    float *a = numbers(k * a_depth, random), *b = numbers((k + 2) * (n + 2), random), *out = numbers(m * leading, random);
    float *rows = malloc(sizeof *rows * (size_t)(k * loops->rows)), *columns = malloc(sizeof *columns * (size_t)(k * loops->columns));
    float *before = malloc(sizeof *before * (size_t)(m * leading));
    memcpy(before, out, sizeof *before * (size_t)(m * leading));
    loops->pack_rows(k, m, a, a_depth, 1, rows);
    loops->pack_columns(k, n, b, depth, across, columns);
    loops->tile[m - 1](k, pack_a ? rows : a, 1, pack_a ? loops->rows : a_depth, columns, out, leading, (int)n, add);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < leading; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k && j < n; p++)
                sum = fmaf(a[p * a_depth + i], b[p * depth + j * across], sum);
            const float expected = j >= n ? before[i * leading + j] : add ? before[i * leading + j] + sum : sum;
            cr_assert(out[i * leading + j] == expected, "tile of %lld x %lld, %lld steps%s%s: element (%lld, %lld) is %.9g, not %.9g",
                      (long long)m, (long long)n, (long long)k, turned ? ", turned" : "", add ? ", added" : "", (long long)i, (long long)j,
                      (double)out[i * leading + j], (double)expected);
        }
    free(a), free(b), free(out), free(rows), free(columns), free(before);
}

Test(tiles, loops_of_all_variants_are_chains_of_fused_multiply_adds) {
    uint64_t random = 11;
    for (int v = 0; v < vector_variants(); v++) {
        const TileLoops *loops = vector_variant(v)->tile();
        for (int64_t m = 1; loops && m <= loops->rows; m++)
            for (int64_t n = 1; n <= loops->columns; n++)
                for (int how = 0; how < 8; how++)
                    check_tile(loops, m, n, 1 + random_below(&random, 40), how & 1, how & 2, how & 4, &random);
    }
}

/* ---------------------------------------------------------------- whole products */

/* Rows [row, row + m) and columns [column, column + n) of a product of k steps: [m, k] or [k, m], [k, n] or [n, k]. */
typedef struct Part {
    int64_t row, m, column, n;
} Part;

static void cut(const Operand *whole, bool columns, int64_t begin, int64_t size, float *out) {
    const int64_t width = whole->local.dim[1], height = whole->local.dim[0];
    for (int64_t i = 0; i < (columns ? height : size); i++)
        for (int64_t j = 0; j < (columns ? size : width); j++)
            *out++ = ((const float *)whole->data)[(columns ? i : begin + i) * width + (columns ? begin + j : j)];
}

static void multiply(CpuContext *context, const TensorType *types, const Attr *attr, KernelCall *call, Rule *rule, uint64_t *random) {
    *call = (KernelCall){.op = OP_matmul, .attr = attr, .nin = 2, .context = context};
    call_open(call, types, rule, true, random);
}

static void run(const KernelCall *call) {
    Error error;
    memset(call->out[0].data, 0x55, sizeof(float) * (size_t)shape_elements(&call->out[0].local));
    cr_assert(backend_cpu.kernels[OP_matmul](call, &error), "%s", error.text);
}

static void check_values(const KernelCall *call, int64_t m, int64_t n, int64_t k, bool ta, bool tb, uint64_t *random) {
    const float *a = call->in[0].data, *b = call->in[1].data, *out = call->out[0].data;
    for (int sample = 0; sample < 300; sample++) {
        const int64_t i = random_below(random, m), j = random_below(random, n);
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += (double)a[ta ? p * m + i : i * k + p] * (double)b[tb ? j * k + p : p * n + j];
        cr_assert(fabs(sum - (double)out[i * n + j]) <= 1e-7 * (double)k + 1e-6,
                  "%lld x %lld x %lld%s%s: element (%lld, %lld) is %.9g, not %.9g", (long long)m, (long long)n, (long long)k,
                  ta ? ", a turned" : "", tb ? ", b turned" : "", (long long)i, (long long)j, (double)out[i * n + j], sum);
    }
}

static void check_product(Pool *pool, int64_t m, int64_t n, int64_t k, bool ta, bool tb, uint64_t *random) {
    CpuContext context = {.most_threads = 1, .pool = pool};
    const Attr attr[MAX_ATTRS] = {{.given = true, .i = ta}, {.given = true, .i = tb}};
    const TensorType types[2] = {{F32, false, ta ? SHAPE(k, m) : SHAPE(m, k)}, {F32, false, tb ? SHAPE(n, k) : SHAPE(k, n)}};
    const Part part = {m / 3, m - m / 3 - m / 5, n / 4, n - n / 4 - n / 7};
    const TensorType cut_types[2] = {{F32, false, ta ? SHAPE(k, part.m) : SHAPE(part.m, k)},
                                     {F32, false, tb ? SHAPE(part.n, k) : SHAPE(k, part.n)}};
    KernelCall whole, some;
    Rule rule, cut_rule;
    multiply(&context, types, attr, &whole, &rule, random);
    multiply(&context, cut_types, attr, &some, &cut_rule, random);
    for (int i = 0; i < 2; i++)
        for (int64_t e = 0; e < shape_elements(&whole.in[i].local); e++)
            ((float *)whole.in[i].data)[e] = (float)((double)random_below(random, 2000001) / 1e6 - 1);
    cut(&whole.in[0], ta, part.row, part.m, some.in[0].data);
    cut(&whole.in[1], !tb, part.column, part.n, some.in[1].data);
    run(&whole);
    context.pool = NULL;
    run(&some);
    check_values(&whole, m, n, k, ta, tb, random);
    for (int64_t i = 0; tile_loops() && i < part.m; i++)
        cr_assert(memcmp((float *)some.out[0].data + i * part.n, (float *)whole.out[0].data + (part.row + i) * n + part.column,
                         sizeof(float) * (size_t)part.n) == 0,
                  "%lld x %lld x %lld: row %lld has other bits in a part of the result", (long long)m, (long long)n, (long long)k,
                  (long long)(part.row + i));
    call_close(&whole);
    call_close(&some);
    free(context.panels);
}

/* Sizes below, at and above those at which tiles.c cuts. */
Test(tiles, an_element_has_the_same_bits_in_any_part_of_the_result) {
    static const int64_t sizes[] = {1, 5, 6, 17, 32, 95, 96, 100, 200}, wide[] = {1, 16, 40, 64, 65, 200, 1024, 1100},
                         deep[] = {1, 30, 383, 384, 385, 770, 1152, 1200, 2500};
    uint64_t random = 3;
    Error error;
    Pool *pool = pool_create(3, &error);
    for (int trial = 0; trial < 150; trial++) {
        const int64_t m = sizes[random_below(&random, 9)], n = wide[random_below(&random, 8)], k = deep[random_below(&random, 9)];
        check_product(trial & 4 ? pool : NULL, m, n, k, trial & 1, trial & 2, &random);
    }
    pool_destroy(pool);
}
