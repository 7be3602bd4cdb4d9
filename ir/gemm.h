/* gemm: a contraction of two tensors as matrix products.
 *
 * A letter belongs to the rows (a and the result have it), the columns (b and the result), the depth (a and b) or the batch (all three).
 * Letters that are one run in every tensor are merged; then one row, one column and one depth letter are chosen that make the largest matrix
 * product which BLAS can do on these strides. The letters left over become loops around it. */
#pragma once
#include "ir/loops.h"

enum { A, B, OUT };

/* A matrix as BLAS wants it: rows x columns, row-major with a leading dimension, or the transpose of one. */
typedef struct Matrix {
    bool transposed;
    int64_t leading;
} Matrix;

/* One product, of left (m x k) and right (k x n): row-major results. */
typedef struct Gemm {
    int64_t m, n, k;
    Matrix a, b; /* left and right */
    int64_t out_leading;
    bool swapped;                            /* the result is column-major: b^T a^T is computed, left is b */
    int64_t row_stride[2], column_stride[2]; /* of operand and result, to start at a given row or column; after swapping */
} Gemm;

typedef enum {
    PRODUCT_EMPTY, /* the result has no elements */
    PRODUCT_ZERO,  /* there is nothing to add up */
    PRODUCT_GEMM,
    PRODUCT_PLAIN /* no matrix product fits: the plain loop */
} ProductKind;

/* gemm, and the loops around it over tensors a, b, result. Loops over depth add onto the result. */
typedef struct ProductShape {
    Gemm gemm;
    Nest batch, depth;
} ProductShape;
/* A letter of the rule. */
typedef struct Letter {
    int64_t size;
    int64_t stride[3]; /* in a, b, the result; 0: the tensor lacks it */
} Letter;
/* Of einsum and matmul: tensors a, b, result. */
void gemm_letters(const Rule *rule, const Strided *tensors, Letter *all); /* MAX_FACTORS */
ProductKind gemm_shape(const Rule *rule, const Strided *tensors, ProductShape *shape);
/* Whether the library multiplies the same matrices on these strides as on contiguous boxes: then results are bit-identical, and there are no more products. */
bool gemm_same_digits(const Rule *rule, const Strided *tensors);
