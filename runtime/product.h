/* product: calls of matmul and einsum as matrix products (ir/gemm.h). Each backend gives them to its own library. */
#pragma once
#include "ir/gemm.h"
#include "runtime/nest.h"

/* Of each tensor's dimensions, in elements. */
typedef struct ProductStrides {
    int64_t at[3][MAX_NDIM];
} ProductStrides;
/* Of einsum and matmul. strides NULL: of contiguous boxes. */
ProductKind product_shape(const KernelCall *call, const ProductStrides *strides, ProductShape *shape);
/* Whether the library multiplies the same matrices on these strides as on contiguous boxes: the digits are the same, and there are no more products. */
bool product_same_digits(const KernelCall *call, const ProductStrides *strides);
/* A fused step that begins with a product, perhaps behind inner placements (transpose, reshape, slice, ...) of its operands, which it reads by
 * strides: the product with the addresses of memory, and what placements of its result do to its strides. How many calls it stands for; 0: it is no such step. */
int product_take(const KernelCall *calls, int n, const unsigned *inner, KernelCall *call, ProductStrides *strides);
/* The same as plain loops: those of the result (tensors a, b, result) and those that are summed (tensors a, b). */
void product_loops(const KernelCall *call, Nest *kept, Nest *gone);
