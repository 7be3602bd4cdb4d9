/* product: see product.h. */
#include "runtime/product.h"

#include <string.h>

#include "runtime/views.h"

typedef enum { ROWS, COLUMNS, DEPTH, BATCH, NCLASSES } LetterClass;

typedef struct Letter {
    int64_t size;
    int64_t stride[3]; /* in a, b, the result; 0: the tensor has it not */
} Letter;

typedef struct Letters {
    int n[NCLASSES];
    Letter at[NCLASSES][MAX_FACTORS];
} Letters;

/* strides NULL: row-major. */
static void add_strides(const Operand *operand, const int64_t *strides, const int8_t *map, int tensor, Letter *letters) {
    int64_t linear[MAX_NDIM];
    strides_of(&operand->local, linear);
    if (!strides) strides = linear;
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

static void find_letters(const KernelCall *call, const ProductStrides *strides, Letter *all) {
    for (int f = 0; f < MAX_FACTORS; f++)
        all[f] = (Letter){.size = 1};
    add_strides(&call->in[A], strides ? strides->at[A] : NULL, call->rule->in[0], A, all);
    add_strides(&call->in[B], strides ? strides->at[B] : NULL, call->rule->in[1], B, all);
    add_strides(&call->out[0], strides ? strides->at[OUT] : NULL, call->rule->out[0], OUT, all);
}

ProductKind product_shape(const KernelCall *call, const ProductStrides *strides, ProductShape *shape) {
    Letter all[MAX_FACTORS];
    Letters letters;
    find_letters(call, strides, all);
    if (shape_elements(&call->out[0].local) == 0) return PRODUCT_EMPTY;
    for (int f = 0; f < call->rule->nfactors; f++)
        if (all[f].size == 0) return PRODUCT_ZERO;
    return classify(all, call->rule->nfactors, &letters) && choose(&letters, shape) ? PRODUCT_GEMM : PRODUCT_PLAIN;
}

void product_loops(const KernelCall *call, Nest *kept, Nest *gone) {
    Letter all[MAX_FACTORS];
    find_letters(call, NULL, all);
    nest_init(kept, 3);
    nest_init(gone, 2);
    for (int f = 0; f < call->rule->nfactors; f++)
        if (all[f].stride[OUT] != 0)
            nest_push(kept, all[f].size, all[f].stride);
        else if (all[f].size != 1)
            nest_push(gone, all[f].size, all[f].stride);
    nest_merge(kept);
    nest_merge(gone);
}

/* ---------------------------------------------------------------- through views */

bool product_same_digits(const KernelCall *call, const ProductStrides *strides) {
    ProductShape near, far;
    const ProductKind kind = product_shape(call, NULL, &near);
    if (product_shape(call, strides, &far) != kind || kind == PRODUCT_PLAIN) return false;
    if (kind != PRODUCT_GEMM) return true;
    const Gemm *a = &near.gemm, *b = &far.gemm;
    return a->m == b->m && a->n == b->n && a->k == b->k && a->swapped == b->swapped && a->a.transposed == b->a.transposed &&
           a->b.transposed == b->b.transposed && near.depth.ndim == far.depth.ndim &&
           memcmp(near.depth.size, far.depth.size, (size_t)near.depth.ndim * sizeof *near.depth.size) == 0;
}

/* What is written as *result arrives where the calls from the first on leave it: they are placements of it and of each other, each all that
 * reads the one before. How many of them. */
static int take_placements(const KernelCall *calls, int n, const unsigned *inner, int product, View *result) {
    int end = product + 1;
    while (end < n && (inner[end - 1] & 1) && (calls[end].op == OP_transpose || op_keeps_order(calls[end].op)) &&
           calls[end].in[0].data == calls[end - 1].out[0].data)
        end++;
    for (int c = end; c < n; c++) /* read by something else, too: as it is, then */
        for (int i = 0; i < calls[c].nin; i++)
            for (int k = product; k + 1 < end; k++)
                if (calls[c].in[i].data == calls[k].out[0].data) return 0;
    *result = view_of(&calls[end - 1].out[0]);
    for (int c = end - 1; c > product; c--)
        if (!view_operand(&calls[c], result)) return 0;
    return end - product - 1;
}

static bool find_view(const View *views, const void *const *at, int n, const Operand *operand, View *view) {
    for (int v = n - 1; v >= 0; v--)
        if (at[v] == operand->data) return *view = views[v], shape_equal(&views[v].shape, &operand->local);
    *view = view_of(operand);
    return true;
}

int product_take(const KernelCall *calls, int n, const unsigned *inner, KernelCall *call, ProductStrides *strides) {
    enum { MOST = 8 };
    View views[MOST], view;
    const void *at[MOST]; /* where each would lie */
    int nviews = 0, product = 0;
    for (; product < n && op_places(calls[product].op); product++)
        for (int o = 0; o < calls[product].nout; o++) {
            if (nviews == MOST || !(inner[product] >> o & 1) || !find_view(views, at, nviews, &calls[product].in[0], &views[nviews]) ||
                !view_result(&calls[product], o, &views[nviews]))
                return 0;
            at[nviews++] = calls[product].out[o].data;
        }
    if (product == n || (calls[product].op != OP_matmul && calls[product].op != OP_einsum)) return 0;
    *call = calls[product];
    for (int i = 0; i < 2; i++) {
        if (!find_view(views, at, nviews, &call->in[i], &view)) return 0;
        call->in[i].data = view.data;
        memcpy(strides->at[i == 0 ? A : B], view.stride, sizeof view.stride);
    }
    for (int c = product + 1; c < n; c++) /* the views have no other reader */
        for (int i = 0; i < calls[c].nin; i++)
            for (int v = 0; v < nviews; v++)
                if (calls[c].in[i].data == at[v]) return 0;
    const int placed = take_placements(calls, n, inner, product, &view);
    if (placed == 0) view = view_of(&call->out[0]);
    call->out[0].data = view.data;
    memcpy(strides->at[OUT], view.stride, sizeof view.stride);
    return product + 1 + placed;
}
