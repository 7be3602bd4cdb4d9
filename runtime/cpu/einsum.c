/* einsum: contractions of two tensors as matrix products. matmul is one of them; so are its gradients. Where product.c finds no matrix product, the plain
 * loop runs. Libraries run on one thread; we divide the result into tiles, which our threads compute. The tiles depend only on shapes and on the most threads
 * of any process: libraries sum in different orders at different places of a tile, and ranks with different numbers of threads must get the same bits. */
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/product.h"

typedef struct Product {
    DType dtype;
    ProductShape shape;
    const char *a, *b;
    char *out;
    Multiplier by;         /* not open if all tiles are tiny */
    int64_t rows, columns; /* of a tile; those at the ends may have fewer */
    ProductPartFn *after;  /* NULL: none */
    void *context;         /* after's */
} Product;

/* Up to this many multiplications a plain loop is as fast as a library. It adds in order and rounds after every operation, so small examples
 * give the same digits on every processor. */
enum { TINY = 64, TILE_STEP = 16 };

#define TINY_PRODUCT(NAME, T)                                                                                                              \
    static void NAME(const Gemm *g, int64_t m, int64_t n, const T *a, const T *b, bool add, T *out) {                                      \
        int64_t a_row = g->a.transposed ? 1 : g->a.leading, a_depth = g->a.transposed ? g->a.leading : 1;                                  \
        int64_t b_depth = g->b.transposed ? 1 : g->b.leading, b_column = g->b.transposed ? g->b.leading : 1;                               \
        for (int64_t i = 0; i < m; i++)                                                                                                    \
            for (int64_t j = 0; j < n; j++) {                                                                                              \
                T sum = add ? out[i * g->out_leading + j] : 0;                                                                             \
                for (int64_t k = 0; k < g->k; k++)                                                                                         \
                    sum += a[i * a_row + k * a_depth] * b[k * b_depth + j * b_column];                                                     \
                out[i * g->out_leading + j] = sum;                                                                                         \
            }                                                                                                                              \
    }
TINY_PRODUCT(tiny_f32, float)
TINY_PRODUCT(tiny_f64, double)

static int64_t count_of(const Nest *nest) {
    return nest_count(nest, 0, nest->ndim);
}

/* Rows [row, row + m) and columns [column, column + n) of one batch item. */
static void multiply_tile(const Product *product, int64_t item, int64_t row, int64_t m, int64_t column, int64_t n) {
    const Gemm *g = &product->shape.gemm;
    int64_t at[MAX_NEST], in[MAX_NEST], bytes = dtype_bytes[product->dtype];
    int left = g->swapped ? B : A, right = g->swapped ? A : B;
    const char *base[2] = {product->a, product->b};
    nest_offsets(&product->shape.batch, product->shape.batch.ndim, item, at);
    for (int64_t i = 0, count = count_of(&product->shape.depth); i < count; i++) {
        nest_offsets(&product->shape.depth, product->shape.depth.ndim, i, in);
        const void *a = base[left] + (at[left] + in[left] + row * g->row_stride[0]) * bytes;
        const void *b = base[right] + (at[right] + in[right] + column * g->column_stride[0]) * bytes;
        void *out = product->out + (at[OUT] + row * g->row_stride[1] + column * g->column_stride[1]) * bytes;
        bool tiny = m * n * g->k <= TINY;
        if (tiny && product->dtype == F32)
            tiny_f32(g, m, n, a, b, i > 0, out);
        else if (tiny)
            tiny_f64(g, m, n, a, b, i > 0, out);
        else
            multiply(&product->by, (MatrixAt){a, g->a}, (MatrixAt){b, g->b}, m, n, g->k, 1, i > 0, out, g->out_leading);
    }
}

/* Items are tiles of the batch's products, in row-major order. */
static void product_part(void *context, int64_t begin, int64_t end) {
    const Product *product = context;
    const Gemm *g = &product->shape.gemm;
    int64_t across = parts_of(g->n, product->columns), tiles = parts_of(g->m, product->rows) * across;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % tiles / across * product->rows, column = i % tiles % across * product->columns;
        int64_t m = g->m - row < product->rows ? g->m - row : product->rows,
                n = g->n - column < product->columns ? g->n - column : product->columns;
        int64_t at[MAX_NEST];
        multiply_tile(product, i / tiles, row, m, column, n);
        if (!product->after) continue;
        nest_offsets(&product->shape.batch, product->shape.batch.ndim, i / tiles, at);
        product->after(product->context, at[OUT] + row * g->row_stride[1] + column * g->column_stride[1], m, n, g->out_leading);
    }
}

/* The number of multiplications for m rows and n columns of one batch item. */
static double work_of(const Product *product, int64_t m, int64_t n) {
    return (double)m * (double)n * (double)product->shape.gemm.k * (double)count_of(&product->shape.depth);
}

/* If the batch has not one product for each of nthreads threads, divides the result's longer side so that each has a tile. nthreads is not this process's number: a
 * process with fewer threads computes several of the same tiles. */
static void choose_tile(Product *product, int nthreads) {
    const Gemm *g = &product->shape.gemm;
    const int64_t items = count_of(&product->shape.batch), longer = g->n > g->m ? g->n : g->m;
    const double work = work_of(product, g->m, g->n);
    int64_t parts = parts_of(nthreads, items);
    if (work / THREAD_WORK < (double)parts) parts = (int64_t)(work / THREAD_WORK);
    product->rows = g->m;
    product->columns = g->n;
    if (parts < 2) return;
    const int64_t side = parts_of(parts_of(longer, parts), TILE_STEP) * TILE_STEP;
    *(g->n > g->m ? &product->columns : &product->rows) = side < longer ? side : longer;
}

static bool is_tiny(const Product *product) {
    return product->rows * product->columns * product->shape.gemm.k <= TINY;
}

static void product_run(Product *product, Pool *pool) {
    const Gemm *g = &product->shape.gemm;
    const int64_t items = count_of(&product->shape.batch) * parts_of(g->m, product->rows) * parts_of(g->n, product->columns);
    pool_run(pool, items, 1 + (int64_t)(THREAD_WORK / work_of(product, product->rows, product->columns)), product_part, product);
}

static bool open_library(const KernelCall *call, Product *product, Error *error) {
    const Gemm *g = &product->shape.gemm;
    const ProductSize size = {g->a.transposed, g->b.transposed, product->rows, product->columns, g->k};
    const double work = work_of(product, g->m, g->n) * (double)count_of(&product->shape.batch);
    return is_tiny(product) || multiplier_open(call, &size, 1, work, &product->by, error);
}

bool einsum_prepare(const KernelCall *call, Error *error) {
    Product product;
    if (!dtype_is_float(call->out[0].dtype) || product_shape(call, NULL, &product.shape) != PRODUCT_GEMM) return true;
    choose_tile(&product, call_most_threads(call));
    return open_library(call, &product, error);
}

/* Computes the result where there is no matrix product. */
static bool run_whole(const KernelCall *call, ProductKind kind, ProductPartFn *after, void *context, Error *error) {
    const Operand *out = &call->out[0];
    const int64_t n = shape_elements(&out->local);
    if (kind == PRODUCT_EMPTY) return true;
    if (kind == PRODUCT_ZERO)
        memset(out->data, 0, (size_t)(n * dtype_bytes[out->dtype]));
    else if (!reference_einsum(call, error))
        return false;
    if (after) after(context, 0, 1, n, n);
    return true;
}

bool einsum_with(const KernelCall *call, const ProductStrides *strides, ProductPartFn *after, void *context, Error *error) {
    const Operand *out = &call->out[0];
    Product product = {
        .dtype = out->dtype, .a = call->in[0].data, .b = call->in[1].data, .out = out->data, .after = after, .context = context};
    const ProductKind kind = product_shape(call, strides, &product.shape);
    if (kind != PRODUCT_GEMM || !dtype_is_float(out->dtype)) return run_whole(call, kind, after, context, error);
    choose_tile(&product, call_most_threads(call));
    if (!open_library(call, &product, error)) return false;
    product_run(&product, call_pool(call));
    return is_tiny(&product) || multiplier_done(&product.by, error);
}

bool kernel_einsum(const KernelCall *call, Error *error) {
    return einsum_with(call, NULL, NULL, NULL, error);
}

bool kernel_matmul(const KernelCall *call, Error *error) {
    return kernel_einsum(call, error);
}
