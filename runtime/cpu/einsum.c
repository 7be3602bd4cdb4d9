/* einsum: products of two tensors, contracted. matmul is one of them; so are its gradients.
 *
 * A letter belongs to the rows (a and the result have it), the columns (b and the result), the depth (a and b) or the batch (all three).
 * Letters that are one run in every tensor are merged; then the row, column and depth letter that make the largest matrix product which
 * BLAS can do on these strides are chosen, and the letters left over become loops around it. Where no such three exist, or a letter is in
 * one operand only, the plain loop runs. Threads are ours: BLAS runs on one, each thread multiplies its own rows or columns. */
#include <cblas.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

enum { A, B, OUT };
typedef enum { ROWS, COLUMNS, DEPTH, BATCH, NCLASSES } LetterClass;

typedef struct Letter {
    int64_t size;
    int64_t stride[3]; /* in a, b, the result; 0: the tensor has it not */
} Letter;

typedef struct Letters {
    int n[NCLASSES];
    Letter at[NCLASSES][MAX_FACTORS];
} Letters;

static void add_strides(const Operand *operand, const int8_t *map, int tensor, Letter *letters) {
    int64_t strides[MAX_NDIM];
    strides_of(&operand->local, strides);
    for (int d = 0; d < operand->local.ndim; d++) {
        if (map[d] < 0 || operand->local.dim[d] == 1) continue;
        letters[map[d]].size = operand->local.dim[d];
        letters[map[d]].stride[tensor] += strides[d];
    }
}

/* Two letters that are one run, `outer` around `inner`, in all tensors become one. */
static bool merge_two(Letter *outer, const Letter *inner) {
    for (int t = 0; t < 3; t++)
        if (outer->stride[t] != inner->stride[t] * inner->size) return false;
    outer->size *= inner->size;
    memcpy(outer->stride, inner->stride, sizeof outer->stride);
    return true;
}

static void merge_letters(Letter *letters, int *n) {
    for (int i = 0; i < *n; i++)
        for (int j = 0; j < *n; j++)
            if (i != j && merge_two(&letters[i], &letters[j])) {
                letters[j] = letters[--*n];
                i = -1; /* from the start: the merged one may meet others */
                break;
            }
}

/* False when a letter is in one operand only, or in the result only. */
static bool classify(const Letter *all, int nfactors, Letters *letters) {
    memset(letters->n, 0, sizeof letters->n);
    for (int f = 0; f < nfactors; f++) {
        if (all[f].size == 1) continue;
        bool a = all[f].stride[A], b = all[f].stride[B], out = all[f].stride[OUT];
        if (a + b + out < 2) return false;
        LetterClass c = a && b ? out ? BATCH : DEPTH : a ? ROWS : COLUMNS;
        letters->at[c][letters->n[c]++] = all[f];
    }
    for (int c = 0; c < NCLASSES; c++)
        merge_letters(letters->at[c], &letters->n[c]);
    return true;
}

/* ---------------------------------------------------------------- one matrix product */

/* A matrix as BLAS wants it: rows x columns, row-major with a leading dimension, or the transpose of one. */
typedef struct Matrix {
    bool transposed;
    int64_t leading;
} Matrix;

static bool matrix_of(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride, Matrix *matrix) {
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
        *matrix = (Matrix){false, rows == 1 || row_stride < columns ? columns : row_stride};
    } else if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
        *matrix = (Matrix){true, columns == 1 || column_stride < rows ? rows : column_stride};
    } else
        return false;
    return matrix->leading <= INT32_MAX;
}

typedef struct Gemm {
    int64_t m, n, k;
    Matrix a, b;
    int64_t out_leading;
    bool swapped;                            /* the result is laid out columns first: b^T a^T is computed */
    int64_t row_stride[2], column_stride[2]; /* of operand and result, to begin at a row or a column; after swapping */
} Gemm;

static bool gemm_of(const Letter *m, const Letter *n, const Letter *k, Gemm *gemm) {
    Matrix out;
    if (!matrix_of(m->size, m->stride[OUT], n->size, n->stride[OUT], &out)) return false;
    *gemm = (Gemm){.swapped = out.transposed, .out_leading = out.leading};
    const Letter *rows = out.transposed ? n : m, *columns = out.transposed ? m : n;
    int left = out.transposed ? B : A, right = out.transposed ? A : B;
    gemm->m = rows->size;
    gemm->n = columns->size;
    gemm->k = k->size;
    gemm->row_stride[0] = rows->stride[left];
    gemm->row_stride[1] = rows->stride[OUT];
    gemm->column_stride[0] = columns->stride[right];
    gemm->column_stride[1] = columns->stride[OUT];
    return gemm->m <= INT32_MAX && gemm->n <= INT32_MAX && gemm->k <= INT32_MAX &&
           matrix_of(rows->size, rows->stride[left], k->size, k->stride[left], &gemm->a) &&
           matrix_of(k->size, k->stride[right], columns->size, columns->stride[right], &gemm->b);
}

typedef struct Product {
    DType dtype;
    Gemm gemm;
    Nest batch, depth; /* loops around it; tensors a, b, result: depth adds onto the result */
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
    const Gemm *g = &product->gemm;
    int64_t at[MAX_NEST], in[MAX_NEST], bytes = dtype_bytes[product->dtype];
    int left = g->swapped ? B : A, right = g->swapped ? A : B;
    const char *base[2] = {product->a, product->b};
    nest_offsets(&product->batch, product->batch.ndim, item, at);
    for (int64_t i = 0, count = nest_count(&product->depth, 0, product->depth.ndim); i < count; i++) {
        nest_offsets(&product->depth, product->depth.ndim, i, in);
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
    const Gemm *g = &product->gemm;
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
    Gemm *g = &product->gemm;
    int64_t items = nest_count(&product->batch, 0, product->batch.ndim);
    double work = (double)g->m * (double)g->n * (double)g->k * (double)nest_count(&product->depth, 0, product->depth.ndim);
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

/* ---------------------------------------------------------------- choosing it */

static void push_others(Nest *nest, const Letter *letters, int n, int chosen) {
    for (int i = 0; i < n; i++)
        if (i != chosen) nest_push(nest, letters[i].size, letters[i].stride);
}

/* The largest product that BLAS can do; false when there is none. */
static bool choose(const Letters *letters, Product *product) {
    static const Letter single = {1, {0, 0, 0}};
    int best[3] = {-1, -1, -1};
    double most = 0;
    const int *n = letters->n;
    for (int m = n[ROWS] ? 0 : -1; m < n[ROWS]; m++)
        for (int c = n[COLUMNS] ? 0 : -1; c < n[COLUMNS]; c++)
            for (int k = n[DEPTH] ? 0 : -1; k < n[DEPTH]; k++) {
                const Letter *row = m < 0 ? &single : &letters->at[ROWS][m], *column = c < 0 ? &single : &letters->at[COLUMNS][c];
                const Letter *depth = k < 0 ? &single : &letters->at[DEPTH][k];
                Gemm gemm;
                double size = (double)row->size * (double)column->size * (double)depth->size;
                if (size <= most || !gemm_of(row, column, depth, &gemm)) continue;
                most = size;
                product->gemm = gemm;
                memcpy(best, (int[]){m, c, k}, sizeof best);
            }
    if (most == 0) return false;
    nest_init(&product->batch, 3);
    nest_init(&product->depth, 3);
    push_others(&product->batch, letters->at[BATCH], n[BATCH], -1);
    push_others(&product->batch, letters->at[ROWS], n[ROWS], best[0]);
    push_others(&product->batch, letters->at[COLUMNS], n[COLUMNS], best[1]);
    push_others(&product->depth, letters->at[DEPTH], n[DEPTH], best[2]);
    return true;
}

bool kernel_einsum(const KernelCall *call, Error *error) {
    const Operand *out = &call->out[0];
    Letter all[MAX_FACTORS];
    for (int f = 0; f < MAX_FACTORS; f++)
        all[f] = (Letter){.size = 1};
    add_strides(&call->in[A], call->rule->in[0], A, all);
    add_strides(&call->in[B], call->rule->in[1], B, all);
    add_strides(out, call->rule->out[0], OUT, all);
    int64_t nout = shape_elements(&out->local);
    if (nout == 0) return true;
    for (int f = 0; f < call->rule->nfactors; f++)
        if (all[f].size == 0) { /* nothing to add up */
            memset(out->data, 0, (size_t)(nout * dtype_bytes[out->dtype]));
            return true;
        }
    Letters letters;
    Product product = {.dtype = out->dtype, .a = call->in[0].data, .b = call->in[1].data, .out = out->data};
    if ((out->dtype != F32 && out->dtype != F64) || !classify(all, call->rule->nfactors, &letters) || !choose(&letters, &product))
        return reference_einsum(call, error);
    product_run(&product, call_pool(call));
    return true;
}

bool kernel_matmul(const KernelCall *call, Error *error) {
    return kernel_einsum(call, error);
}
