/* matmul: what matmul.c (products), choice.c (their algorithms) and epilogue.c (products fused with what follows) share. */
#pragma once
#include <cublasLt.h>

#include "runtime/cuda/cuda.h"
#include "runtime/product.h"

/* All that the choice of an algorithm depends on; compared as bytes, so without padding. */
typedef struct MatmulKey {
    int64_t m, n, k, leading[3], batch, stride[3];          /* right, left, result: cuBLASLt's A, B, D */
    int32_t transposed[2], dtype, out_dtype, epilogue, add; /* dtype: of the factors; add: to the result, or to `onto` */
    int32_t aligned[4];                                     /* bytes, of A, B, D and the epilogue's matrix */
} MatmulKey;

/* One call of cuBLASLt. */
typedef struct Multiply {
    MatmulKey key;
    const void *right, *left;
    void *out;
    const void *onto;   /* what the product is added to, with the result's layout; NULL: the result itself, if key.add */
    const void *bias;   /* the epilogue's vector of n, read or (sums of an operand) written; of m if the left one is summed; NULL: none */
    const void *matrix; /* the epilogue's m x n; NULL: none */
} Multiply;

/* Alignment is recorded up to MATMUL_ALIGNED, which every tensor of a plan has. More is accidental, and replicas must not take different algorithms by accident. */
enum { MATMUL_ALIGNED = 64, MATMUL_ALGORITHMS = 8 };

/* How products of a shape are computed. */
typedef struct MatmulPlan {
    MatmulKey key;
    cublasStatus_t status; /* CUBLAS_STATUS_SUCCESS, or why there is no algorithm */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[3];
    cublasLtMatmulAlgo_t algorithm[MATMUL_ALGORITHMS]; /* the heuristics' first; for an epilogue, once tried, only exact ones */
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

/* The call for the first item of a contraction; *loops: the remaining loops around it. batched: cuBLASLt runs the longest loop itself, as a
 * batch. */
void matmul_first(const KernelCall *call, const ProductShape *shape, bool batched, Multiply *first, Nest *loops);
/* Records the operands' alignment in the key; done last, just before the key is used. */
void matmul_align(Multiply *multiply);
/* The plan for a shape, made on first use. NULL: *status says why; the library is not asked again. */
MatmulPlan *matmul_plan(CudaContext *cuda, const Multiply *multiply, cublasStatus_t *status);
int matmul_nplans(const CudaContext *cuda);
MatmulPlan *matmul_plan_at(const CudaContext *cuda, int i); /* plan i, also of shapes without an algorithm */
/* Computes a product of this shape, whose operands and result may be strided; and the number of cuBLASLt calls for it. */
bool matmul_run(CudaContext *cuda, const KernelCall *call, const ProductShape *shape, Error *error);
int64_t matmul_launches(CudaContext *cuda, const KernelCall *call, const ProductShape *shape);
bool matmul_queue(CudaContext *cuda, const Multiply *multiply, Error *error);
bool matmul_call(CudaContext *cuda, MatmulPlan *plan, int algorithm, const Multiply *multiply, Error *error);
/* pitch.c. Whether a product is to be computed in parts, and the library can compute these (their plans are then made). And the product. */
bool pitch_possible(CudaContext *cuda, const Multiply *multiply);
bool pitch_run(CudaContext *cuda, const Multiply *multiply, Error *error);
/* Whether some algorithm for this product with its epilogue computes what our kernels do, up to a few roundings, and keeps NaN. Each is tried once, in this shape: 1
 * or 0 (also if there is no memory to try it in); -1: the device fails, *error. */
int choice_is_sound(CudaContext *cuda, const Multiply *multiply, Error *error);
/* For a step that begins with a product: how many of its calls, including the product, cuBLASLt can do as one call, *multiply; 1: only the product, by its
 * kernel; -1: the device fails, *error. inner: as for Backend.fuse. */
int epilogue_take(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Multiply *multiply, Error *error);
