/* product: what a product is told (cublaslt.cpp) and how it is computed (product.cpp). */
#ifndef STANDIN_PRODUCT_HPP
#define STANDIN_PRODUCT_HPP

#include "cublasLt.h"

namespace standin {

struct Matrix { /* in cublasLtMatrixLayoutOpaque_t */
    int32_t type, order;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch, pad;
    int64_t stride; /* between matrices of the batch, in elements */
};
static_assert(sizeof(Matrix) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout holds a matrix");

struct Product { /* in cublasLtMatmulDescOpaque_t */
    int32_t compute, scale, pointer_mode, trans_a, trans_b, trans_c;
    uint32_t epilogue;
    int32_t sm_count, aux_type, bias_type, algorithm;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride;
};
static_assert(sizeof(Product) <= sizeof(cublasLtMatmulDescOpaque_t), "a descriptor holds a product");

enum { EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_DRELU = 8, EPILOGUE_BGRAD = 16, EPILOGUE_GELU = 32, EPILOGUE_DGELU = 64, EPILOGUE_AUX = 128 };

struct Operands {
    const void *a, *b, *c;
    void *d;
};

/* D = epilogue(alpha op(A) op(B) + beta C) for every matrix of the batch: sums in double, rounded once; tf32 rounds the operands to 10 bits. */
void product_run(const Product &product, const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d, Operands at, double alpha, double beta);
size_t matrix_extent(const Matrix &matrix); /* elements from the first to the last of the batch */
inline size_t type_bytes(int32_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0; }

} // namespace standin

#endif
