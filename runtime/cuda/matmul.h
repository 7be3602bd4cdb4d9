/* matmul: what matmul.c (products), choice.c (their algorithms) and epilogue.c (products with what follows them) share. */
#pragma once
#include <cublasLt.h>

#include "runtime/cuda/cuda.h"
#include "runtime/product.h"

/* All that the choice of an algorithm depends on; compared as bytes: no padding. */
typedef struct MatmulKey {
    int64_t m, n, k, leading[3], batch, stride[3];          /* right, left, result: cuBLASLt's A, B, D */
    int32_t transposed[2], dtype, out_dtype, epilogue, add; /* dtype: of the factors; add: onto what the result, or `onto`, holds */
    int32_t aligned[4];                                     /* bytes, of A, B, D and the epilogue's matrix */
} MatmulKey;

/* One call of cuBLASLt's. */
typedef struct Multiply {
    MatmulKey key;
    const void *right, *left;
    void *out;
    const void *onto; /* what it is added to, as the result lies; NULL: what the result holds, where anything */
    const void *bias; /* the epilogue's vector of n, read or (sums of an operand) written, of m where the left one is summed; NULL: none */
    const void *matrix; /* the epilogue's m x n; NULL: none */
} Multiply;

/* Alignment is noted up to MATMUL_ALIGNED, which every tensor of a plan has. More would be chance, and replicas must not take different algorithms by chance. */
enum { MATMUL_ALIGNED = 64, MATMUL_ALGORITHMS = 8 };

/* How products of a shape are computed. */
typedef struct MatmulPlan {
    MatmulKey key;
    cublasStatus_t status; /* CUBLAS_STATUS_SUCCESS, or why there is no algorithm */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[3];
    cublasLtMatmulAlgo_t algorithm[MATMUL_ALGORITHMS]; /* the heuristics' first; of an epilogue, once tried, those that are exact */
    int nalgorithms, chosen;
    bool tried, settled;
} MatmulPlan;

static inline bool matmul_has_bias(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
/* The sums over k of the right operand's columns, or of the left one's rows, are written beside the product. */
static inline bool matmul_has_sums(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
static inline bool matmul_has_matrix(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
}

/* The call for the first item of a contraction; *loops: the loops around it that are left. batched: cuBLASLt goes through the longest of
 * them itself. */
void matmul_first(const KernelCall *call, const ProductShape *shape, bool batched, Multiply *first, Nest *loops);
/* Notes in the key how the operands are aligned: the last thing before it is asked for. */
void matmul_align(Multiply *multiply);
/* The plan for a shape, made when it is first asked for. NULL: *status says why; the library is not asked again. */
MatmulPlan *matmul_plan(CudaContext *cuda, const Multiply *multiply, cublasStatus_t *status);
int matmul_nplans(const CudaContext *cuda);
MatmulPlan *matmul_plan_at(const CudaContext *cuda, int i); /* of these, also of shapes without an algorithm */
/* A product of this shape, whose operands and result may lie by strides; and how many times cuBLASLt is called for it. */
bool matmul_run(CudaContext *cuda, const KernelCall *call, const ProductShape *shape, Error *error);
int64_t matmul_launches(CudaContext *cuda, const KernelCall *call, const ProductShape *shape);
bool matmul_queue(CudaContext *cuda, const Multiply *multiply, Error *error);
bool matmul_call(CudaContext *cuda, MatmulPlan *plan, int algorithm, const Multiply *multiply, Error *error);
/* pitch.c. Whether a product is one that is computed in parts, and the library does the parts: it has the plans for them then. And the product. */
bool pitch_possible(CudaContext *cuda, const Multiply *multiply);
bool pitch_run(CudaContext *cuda, const Multiply *multiply, Error *error);
/* Whether some algorithm for this product with its epilogue computes what our kernels do, to a few roundings, and NaN stays NaN: each is tried once, in this shape: 1
 * or 0, also where there is no memory to try it in; -1: the device fails, *error. */
int choice_is_sound(CudaContext *cuda, const Multiply *multiply, Error *error);
/* A step that begins with a product: how many of its calls, the product among them, cuBLASLt does as one, which is *multiply; 1: the product alone, by its
 * kernel; -1: the device fails, *error. inner: as Backend.fuse has it. */
int epilogue_take(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Multiply *multiply, Error *error);
