/* gemm: see gemm.h. */
#include "ir/gemm.h"

#include <string.h>

typedef enum { ROWS, COLUMNS, DEPTH, BATCH, NCLASSES } LetterClass;

typedef struct Letters {
    int n[NCLASSES];
    Letter at[NCLASSES][MAX_FACTORS];
} Letters;

static void add_strides(const Strided *tensor, const int8_t *map, int number, Letter *letters) {
    for (int d = 0; d < tensor->shape.ndim; d++) {
        if (map[d] < 0 || tensor->shape.dim[d] == 1) continue;
        letters[map[d]].size = tensor->shape.dim[d];
        letters[map[d]].stride[number] += tensor->stride[d];
    }
}

/* Merges two letters into one where they are one run, `outer` around `inner`, in all tensors. */
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
                i = -1; /* restart: the merged letter may merge with others */
                break;
            }
}

/* Sorts the letters by role. False when a letter is in one operand only, or in the result only. */
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

static bool matrix_of(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride, Matrix *matrix) {
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
        *matrix = (Matrix){false, rows == 1 || row_stride < columns ? columns : row_stride};
    } else if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
        *matrix = (Matrix){true, columns == 1 || column_stride < rows ? rows : column_stride};
    } else
        return false;
    return matrix->leading <= INT32_MAX;
}

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

static void push_others(Nest *nest, const Letter *letters, int n, int chosen) {
    for (int i = 0; i < n; i++)
        if (i != chosen) nest_push(nest, letters[i].size, letters[i].stride);
}

/* The largest product that BLAS can do; false when there is none. */
static bool choose(const Letters *letters, ProductShape *product) {
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

void gemm_letters(const Rule *rule, const Strided *tensors, Letter *all) {
    for (int f = 0; f < MAX_FACTORS; f++)
        all[f] = (Letter){.size = 1};
    add_strides(&tensors[A], rule->in[0], A, all);
    add_strides(&tensors[B], rule->in[1], B, all);
    add_strides(&tensors[OUT], rule->out[0], OUT, all);
}

ProductKind gemm_shape(const Rule *rule, const Strided *tensors, ProductShape *shape) {
    Letter all[MAX_FACTORS];
    Letters letters;
    gemm_letters(rule, tensors, all);
    if (shape_elements(&tensors[OUT].shape) == 0) return PRODUCT_EMPTY;
    for (int f = 0; f < rule->nfactors; f++)
        if (all[f].size == 0) return PRODUCT_ZERO;
    return classify(all, rule->nfactors, &letters) && choose(&letters, shape) ? PRODUCT_GEMM : PRODUCT_PLAIN;
}

bool gemm_same_digits(const Rule *rule, const Strided *tensors) {
    ProductShape near, far;
    const Strided linear[3] = {strided_of(&tensors[A].shape), strided_of(&tensors[B].shape), strided_of(&tensors[OUT].shape)};
    const ProductKind kind = gemm_shape(rule, linear, &near);
    if (gemm_shape(rule, tensors, &far) != kind || kind == PRODUCT_PLAIN) return false;
    if (kind != PRODUCT_GEMM) return true;
    const Gemm *a = &near.gemm, *b = &far.gemm;
    return a->m == b->m && a->n == b->n && a->k == b->k && a->swapped == b->swapped && a->a.transposed == b->a.transposed &&
           a->b.transposed == b->b.transposed && near.depth.ndim == far.depth.ndim &&
           memcmp(near.depth.size, far.depth.size, (size_t)near.depth.ndim * sizeof *near.depth.size) == 0;
}
