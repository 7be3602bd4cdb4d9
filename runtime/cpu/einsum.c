/* einsum: products of two tensors, contracted, through CBLAS. matmul is one of them; so are its gradients. Where product.c finds no matrix product, the plain
 * loop runs. Threads are ours: BLAS runs on one, each thread multiplies its own rows or columns. */
#include <cblas.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/product.h"

typedef struct Product {
    DType dtype;
    ProductShape shape;
    const char *a, *b;
    char *out;
    bool by_columns; /* threads divide the columns, else the rows */
    int64_t item;    /* batch iteration under way, -1: threads divide the batch */
} Product;

/* Below this many multiplications a plain loop is as fast as BLAS; it adds in order and rounds after every operation, so that small examples
 * give the same digits on every processor. */
enum { TINY = 64 };

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

/* Rows [row, row + m) and columns [column, column + n) of one batch item. */
static void multiply(const Product *product, int64_t item, int64_t row, int64_t m, int64_t column, int64_t n) {
    const Gemm *g = &product->shape.gemm;
    int64_t at[MAX_NEST], in[MAX_NEST], bytes = dtype_bytes[product->dtype];
    int left = g->swapped ? B : A, right = g->swapped ? A : B;
    const char *base[2] = {product->a, product->b};
    nest_offsets(&product->shape.batch, product->shape.batch.ndim, item, at);
    for (int64_t i = 0, count = nest_count(&product->shape.depth, 0, product->shape.depth.ndim); i < count; i++) {
        nest_offsets(&product->shape.depth, product->shape.depth.ndim, i, in);
        const void *a = base[left] + (at[left] + in[left] + row * g->row_stride[0]) * bytes;
        const void *b = base[right] + (at[right] + in[right] + column * g->column_stride[0]) * bytes;
        void *out = product->out + (at[OUT] + row * g->row_stride[1] + column * g->column_stride[1]) * bytes;
        CBLAS_TRANSPOSE a_order = g->a.transposed ? CblasTrans : CblasNoTrans, b_order = g->b.transposed ? CblasTrans : CblasNoTrans;
        int lda = (int)g->a.leading, ldb = (int)g->b.leading, ldc = (int)g->out_leading;
        bool tiny = m * n * g->k <= TINY;
        if (tiny && product->dtype == F32)
            tiny_f32(g, m, n, a, b, i > 0, out);
        else if (tiny)
            tiny_f64(g, m, n, a, b, i > 0, out);
        else if (product->dtype == F32)
            cblas_sgemm(CblasRowMajor, a_order, b_order, (int)m, (int)n, (int)g->k, 1, a, lda, b, ldb, i > 0, out, ldc);
        else
            cblas_dgemm(CblasRowMajor, a_order, b_order, (int)m, (int)n, (int)g->k, 1, a, lda, b, ldb, i > 0, out, ldc);
    }
}

static void product_part(void *context, int64_t begin, int64_t end) {
    const Product *product = context;
    const Gemm *g = &product->shape.gemm;
    if (product->item < 0) {
        for (int64_t i = begin; i < end; i++)
            multiply(product, i, 0, g->m, 0, g->n);
    } else if (product->by_columns)
        multiply(product, product->item, 0, g->m, begin, end - begin);
    else
        multiply(product, product->item, begin, end - begin, 0, g->n);
}

/* Multiplications that are worth waking a thread for. */
static const double thread_work = 1 << 19;

static void product_run(Product *product, Pool *pool) {
    Gemm *g = &product->shape.gemm;
    int64_t items = nest_count(&product->shape.batch, 0, product->shape.batch.ndim);
    double work = (double)g->m * (double)g->n * (double)g->k * (double)nest_count(&product->shape.depth, 0, product->shape.depth.ndim);
    if (items >= pool_threads(pool)) {
        product->item = -1;
        pool_run(pool, items, 1 + (int64_t)(thread_work / work), product_part, product);
        return;
    }
    product->by_columns = g->n > g->m;
    int64_t side = product->by_columns ? g->n : g->m;
    int64_t grain = 1 + (int64_t)(thread_work / work * (double)side);
    for (product->item = 0; product->item < items; product->item++)
        pool_run(pool, side, grain < 8 ? 8 : grain, product_part, product);
}

bool kernel_einsum(const KernelCall *call, Error *error) {
    const Operand *out = &call->out[0];
    Product product = {.dtype = out->dtype, .a = call->in[0].data, .b = call->in[1].data, .out = out->data};
    switch (product_shape(call, &product.shape)) {
    case PRODUCT_EMPTY:
        return true;
    case PRODUCT_ZERO:
        memset(out->data, 0, (size_t)(shape_elements(&out->local) * dtype_bytes[out->dtype]));
        return true;
    case PRODUCT_PLAIN:
        return reference_einsum(call, error);
    case PRODUCT_GEMM:
        break;
    }
    if (out->dtype != F32 && out->dtype != F64) return reference_einsum(call, error);
    product_run(&product, call_pool(call));
    return true;
}

bool kernel_matmul(const KernelCall *call, Error *error) {
    return kernel_einsum(call, error);
}
