/* matmul: what matmul.c (products) and epilogue.c (products with what follows them) share. */
#pragma once
#include <cublasLt.h>

#include "runtime/cuda/cuda.h"
#include "runtime/product.h"

/* All that the choice of an algorithm depends on; compared as bytes: no padding. */
typedef struct MatmulKey {
    int64_t m, n, k, leading[3], batch, stride[3];          /* right, left, result: cuBLASLt's A, B, D */
    int32_t transposed[2], dtype, out_dtype, epilogue, add; /* dtype: of the factors; add: onto what the result holds */
    int32_t aligned[4];                                     /* bytes, of A, B, D and the epilogue's matrix */
} MatmulKey;

/* One call of cuBLASLt's. */
typedef struct Multiply {
    MatmulKey key;
    const void *right, *left;
    void *out;
    const void *bias;   /* the epilogue's vector of n, read or (its gradient) written; NULL: none */
    const void *matrix; /* the epilogue's m x n; NULL: none */
} Multiply;

/* Up to ALIGNED, which every tensor of a plan has. More would be chance, and replicas must not take different algorithms by chance. */

bool matmul_open(CudaContext *cuda, Error *error); /* once; then it does nothing */
/* The call for the first item of a contraction; *loops: the loops around it that are left. batched: cuBLASLt goes through the longest of
 * them itself. */
void matmul_first(const KernelCall *call, const ProductShape *shape, bool batched, Multiply *first, Nest *loops);
/* Notes in the key how the operands are aligned: the last thing before it is asked for. */
void matmul_align(Multiply *multiply);
bool matmul_possible(CudaContext *cuda, const Multiply *multiply); /* whether an algorithm does it, epilogue and all */
/* A product of this shape, whose operands and result may lie by strides; and how many times cuBLASLt is called for it. */
bool matmul_run(CudaContext *cuda, const KernelCall *call, const ProductShape *shape, Error *error);
int64_t matmul_launches(CudaContext *cuda, const KernelCall *call, const ProductShape *shape);
bool matmul_queue(CudaContext *cuda, const Multiply *multiply, Error *error);
/* Whether cuBLASLt's epilogue computes what our kernels do, which is seen once by a small product on the device, to a few roundings, and NaN stays
 * NaN: 1 or 0; -1: the device fails, *error. */
int epilogue_is_sound(CudaContext *cuda, int epilogue, Error *error);
/* A step that begins with a product: how many of its calls, the product among them, cuBLASLt does as one, which is *multiply; 1: the product alone, by its
 * kernel; -1: the device fails, *error. inner: as Backend.fuse has it. */
int epilogue_take(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Multiply *multiply, Error *error);
