/* product: calls of matmul and einsum as matrix products (ir/gemm.h). Each backend gives them to its own library. */
#pragma once
#include "ir/gemm.h"
#include "runtime/nest.h"

/* Strides of each tensor's dimensions, in elements. */
typedef struct ProductStrides {
    int64_t at[3][MAX_NDIM];
} ProductStrides;
/* The product that an einsum or matmul is. strides NULL: its boxes are contiguous. */
ProductKind product_shape(const KernelCall *call, const ProductStrides *strides, ProductShape *shape);
/* Whether the library multiplies the same matrices with these strides as with contiguous boxes: then the bits of the result are the same, and there are no more products. */
bool product_same_digits(const KernelCall *call, const ProductStrides *strides);
/* For a fused step that begins with a product, perhaps after inner placements (transpose, reshape, slice, ...) of its operands, which it reads by
 * strides: *call is the product with addresses of memory, *strides include placements of its result. Returns how many calls it stands for; 0: it is no such step. */
int product_take(const KernelCall *calls, int n, const unsigned *inner, KernelCall *call, ProductStrides *strides);
/* A product as plain loops: those of the result (tensors a, b, result) and those that are summed (tensors a, b). */
void product_loops(const KernelCall *call, Nest *kept, Nest *gone);
