/* matmul: products of two tensors by cuBLASLt.
 *
 * cuBLASLt's matrices are column-major. It sees a row-major m x n result with rows of `leading` elements as an n x m matrix; so it computes
 * right^T left^T, and its "A" is our right operand. The answer of its heuristics is kept for each shape, even if there is no algorithm. */
#include "runtime/cuda/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "ir/map.h"
#include "runtime/cuda/cudnn.h"

struct CudaMatmul {
    cublasLtHandle_t handle;
    void *workspace;
    Arena arena; /* of what follows */
    VEC(MatmulPlan *) plans;
    Map map;
};

static const char *lt_advice(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED) return "; is the device's memory used up?";
    if (status == CUBLAS_STATUS_ARCH_MISMATCH) return "; the device is too old for it: run with --device cpu";
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return "; run with --device cpu, and please report it";
    return "; is the driver as new as CUDA (prun --devices)? compute-sanitizer tells whether a kernel before it went wrong";
}

static bool lt_ok(const CudaContext *cuda, cublasStatus_t status, const char *what, Error *error) {
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    return error_set(error, EXIT_ENVIRONMENT, "device %d: %s: cuBLASLt says %s%s", cuda->device, what, cublasLtGetStatusString(status),
                     lt_advice(status));
}

bool matmul_open(CudaContext *cuda, Error *error) {
    cuda->matmul = calloc(1, sizeof *cuda->matmul);
    if (!cuda->matmul) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    arena_init(&cuda->matmul->arena);
    return lt_ok(cuda, cublasLtCreate(&cuda->matmul->handle), "making a handle", error) &&
           cuda_take_workspace(cuda, &cuda->matmul->workspace, WORKSPACE_PRODUCTS, "taking memory for products", error);
}

static void plan_destroy(MatmulPlan *plan) {
    for (int i = 0; i < 3; i++)
        if (plan->layout[i]) cublasLtMatrixLayoutDestroy(plan->layout[i]);
    if (plan->desc) cublasLtMatmulDescDestroy(plan->desc);
    free(plan);
}

void matmul_close(CudaMatmul *matmul) {
    if (!matmul) return;
    for (int i = 0; i < matmul->plans.n; i++)
        plan_destroy(matmul->plans.at[i]);
    arena_finish(&matmul->arena);
    if (matmul->workspace) cudaFree(matmul->workspace);
    if (matmul->handle) cublasLtDestroy(matmul->handle);
    free(matmul);
}

/* ---------------------------------------------------------------- choosing an algorithm */

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *layout, cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading,
                                  const MatmulKey *key, int64_t stride) {
    cublasStatus_t status = cublasLtMatrixLayoutCreate(layout, type, (uint64_t)rows, (uint64_t)columns, leading);
    int32_t batch = (int32_t)key->batch;
    if (status != CUBLAS_STATUS_SUCCESS || batch == 1) return status;
    status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
}

static cublasStatus_t make_desc(const CudaContext *cuda, MatmulPlan *plan) {
    const MatmulKey *key = &plan->key;
    bool is_double = key->dtype == F64;
    cublasComputeType_t compute = is_double                                 ? CUBLAS_COMPUTE_64F
                                  : key->dtype == F32 && cuda->options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                            : CUBLAS_COMPUTE_32F;
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan->desc, compute, is_double ? CUDA_R_64F : CUDA_R_32F);
    cublasOperation_t operation[2] = {key->transposed[0] ? CUBLAS_OP_T : CUBLAS_OP_N, key->transposed[1] ? CUBLAS_OP_T : CUBLAS_OP_N};
    cublasLtEpilogue_t epilogue = (cublasLtEpilogue_t)key->epilogue;
    int64_t leading = key->n;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &operation[0], sizeof operation[0]);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &operation[1], sizeof operation[1]);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (status == CUBLAS_STATUS_SUCCESS && matmul_has_matrix(key->epilogue))
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &leading, sizeof leading);
    return status;
}

/* Algorithms that sum parts in place are excluded: their sums depend on which part is done first, and two runs must give the same bits. Parts of a 16-bit result are summed
 * as f32, not in its type. */
static cublasStatus_t make_preference(const MatmulKey *key, cublasLtMatmulPreference_t *preference) {
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    size_t workspace = WORKSPACE_PRODUCTS;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (!dtype_is_half((DType)key->out_dtype)) schemes |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(*preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(*preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < 3; i++) {
        uint32_t bytes = (uint32_t)key->aligned[i];
        status = cublasLtMatmulPreferenceSetAttribute(*preference, aligned[i], &bytes, sizeof bytes);
    }
    uint32_t bytes = (uint32_t)key->aligned[2];
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(*preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &bytes, sizeof bytes);
    return status;
}

static cudaDataType_t type_of(int32_t dtype) {
    return dtype == F64 ? CUDA_R_64F : dtype == F16 ? CUDA_R_16F : dtype == BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* CUBLAS_STATUS_NOT_SUPPORTED: no algorithm can do it. bias, matrix: what the epilogue reads or writes; the heuristics may examine their addresses. */
static cublasStatus_t plan_fill(const CudaContext *cuda, MatmulPlan *plan, const void *bias, const void *matrix) {
    const MatmulKey *key = &plan->key;
    const cudaDataType_t type = type_of(key->dtype);
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[MATMUL_ALGORITHMS];
    int nfound = 0;
    cublasStatus_t status = make_desc(cuda, plan);
    if (status == CUBLAS_STATUS_SUCCESS && bias)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (status == CUBLAS_STATUS_SUCCESS && matrix)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &matrix, sizeof matrix);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->layout[0], type, key->transposed[0] ? key->k : key->n, key->transposed[0] ? key->n : key->k,
                             key->leading[0], key, key->stride[0]);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->layout[1], type, key->transposed[1] ? key->m : key->k, key->transposed[1] ? key->k : key->m,
                             key->leading[1], key, key->stride[1]);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->layout[2], type_of(key->out_dtype), key->n, key->m, key->leading[2], key, key->stride[2]);
    if (status == CUBLAS_STATUS_SUCCESS) status = make_preference(key, &preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(cuda->matmul->handle, plan->desc, plan->layout[0], plan->layout[1], plan->layout[2],
                                                plan->layout[2], preference, MATMUL_ALGORITHMS, found, &nfound);
    if (preference) cublasLtMatmulPreferenceDestroy(preference);
    for (int a = 0; status == CUBLAS_STATUS_SUCCESS && a < nfound; a++)
        if (found[a].state == CUBLAS_STATUS_SUCCESS) plan->algorithm[plan->nalgorithms++] = found[a].algo;
    return status == CUBLAS_STATUS_SUCCESS && plan->nalgorithms == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

MatmulPlan *matmul_plan(CudaContext *cuda, const Multiply *multiply, cublasStatus_t *status) {
    CudaMatmul *matmul = cuda->matmul;
    const MatmulKey *key = &multiply->key;
    const uint64_t hash = hash_bytes(key, sizeof *key);
    map_each(&matmul->map, hash, i) {
        MatmulPlan *known = matmul->plans.at[i];
        if (memcmp(&known->key, key, sizeof *key) != 0) continue;
        *status = known->status;
        return known->status == CUBLAS_STATUS_SUCCESS ? known : NULL;
    }
    MatmulPlan *plan = calloc(1, sizeof *plan);
    *status = CUBLAS_STATUS_ALLOC_FAILED;
    if (!plan) return NULL;
    memcpy(&plan->key, key, sizeof *key);
    *status = plan->status = plan_fill(cuda, plan, multiply->bias, multiply->matrix);
    if (*status != CUBLAS_STATUS_SUCCESS && *status != CUBLAS_STATUS_NOT_SUPPORTED && *status != CUBLAS_STATUS_INVALID_VALUE) {
        plan_destroy(plan); /* a failure of the device, not due to the shape */
        return NULL;
    }
    vec_push(&matmul->arena, &matmul->plans, plan);
    map_add(&matmul->arena, &matmul->map, hash, matmul->plans.n - 1);
    return *status == CUBLAS_STATUS_SUCCESS ? plan : NULL;
}

int matmul_nplans(const CudaContext *cuda) {
    return cuda->matmul->plans.n;
}

MatmulPlan *matmul_plan_at(const CudaContext *cuda, int i) {
    return cuda->matmul->plans.at[i];
}

/* ---------------------------------------------------------------- one product */

static int32_t alignment_of(const void *data) {
    uintptr_t at = (uintptr_t)data;
    int32_t bytes = MATMUL_ALIGNED;
    while (bytes > 1 && at % (uintptr_t)bytes)
        bytes /= 2;
    return bytes;
}

void matmul_align(Multiply *multiply) {
    MatmulKey *key = &multiply->key;
    key->aligned[0] = alignment_of(multiply->right);
    key->aligned[1] = alignment_of(multiply->left);
    key->aligned[2] = alignment_of(multiply->out);
    if (multiply->bias && alignment_of(multiply->bias) < key->aligned[2])
        key->aligned[2] = alignment_of(multiply->bias); /* it has no preference of its own */
    if (multiply->onto && alignment_of(multiply->onto) < key->aligned[2]) key->aligned[2] = alignment_of(multiply->onto);
    key->aligned[3] = multiply->matrix ? alignment_of(multiply->matrix) : 0;
}

bool matmul_call(CudaContext *cuda, MatmulPlan *plan, int algorithm, const Multiply *multiply, Error *error) {
    static const float one = 1, zero = 0;
    static const double one_double = 1, zero_double = 0;
    const bool is_double = plan->key.dtype == F64, add = plan->key.add != 0;
    const void *alpha = is_double ? (const void *)&one_double : &one;
    const void *beta = is_double ? add ? (const void *)&one_double : &zero_double : add ? (const void *)&one : &zero;
    const void *onto = multiply->onto ? multiply->onto : multiply->out;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (multiply->bias)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &multiply->bias, sizeof multiply->bias);
    if (multiply->matrix && status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &multiply->matrix,
                                                sizeof multiply->matrix);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmul(cuda->matmul->handle, plan->desc, alpha, multiply->right, plan->layout[0], multiply->left, plan->layout[1],
                                beta, onto, plan->layout[2], multiply->out, plan->layout[2], &plan->algorithm[algorithm],
                                cuda->matmul->workspace, WORKSPACE_PRODUCTS, cuda->compute);
    return lt_ok(cuda, status, "a product", error) && cuda_launched(cuda, cudaGetLastError(), "cublasLtMatmul", error);
}

bool matmul_queue(CudaContext *cuda, const Multiply *multiply, Error *error) {
    const MatmulKey *key = &multiply->key;
    cublasStatus_t status;
    MatmulPlan *plan = matmul_plan(cuda, multiply, &status);
    if (plan) return matmul_call(cuda, plan, plan->chosen, multiply, error);
    char what[128];
    snprintf(what, sizeof what, "a product of %lld x %lld and %lld x %lld", (long long)key->m, (long long)key->k, (long long)key->k,
             (long long)key->n);
    return lt_ok(cuda, status, what, error);
}

/* ---------------------------------------------------------------- a contraction */

/* The longest loop around a product, which cuBLASLt can run itself as a batch; -1: none. */
static int widest(const Nest *batch) {
    int best = -1;
    for (int d = 0; d < batch->ndim; d++)
        if (batch->size[d] > 1 && batch->stride[OUT][d] != 0 && batch->size[d] <= INT32_MAX &&
            (best < 0 || batch->size[d] > batch->size[best]))
            best = d;
    return best;
}

/* The call for the first item; *loops: the remaining loops around it. batched: cuBLASLt runs one loop itself. */
void matmul_first(const KernelCall *call, const ProductShape *shape, bool batched, Multiply *first, Nest *loops) {
    const Gemm *g = &shape->gemm;
    int left = g->swapped ? B : A, right = g->swapped ? A : B, wide = batched ? widest(&shape->batch) : -1;
    memset(first, 0, sizeof *first);
    first->key = (MatmulKey){.m = g->m,
                             .n = g->n,
                             .k = g->k,
                             .leading = {g->b.leading, g->a.leading, g->out_leading},
                             .batch = 1,
                             .transposed = {g->b.transposed, g->a.transposed},
                             .dtype = (int32_t)call->in[right].dtype,
                             .out_dtype = (int32_t)call->out[0].dtype,
                             .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (wide >= 0) {
        first->key.batch = shape->batch.size[wide];
        const int tensor[3] = {right, left, OUT};
        for (int i = 0; i < 3; i++)
            first->key.stride[i] = shape->batch.stride[tensor[i]][wide];
    }
    first->right = call->in[right].data;
    first->left = call->in[left].data;
    first->out = call->out[0].data;
    nest_init(loops, 3);
    for (int d = 0; d < shape->batch.ndim; d++)
        if (d != wide)
            nest_push(loops, shape->batch.size[d],
                      (const int64_t[]){shape->batch.stride[A][d], shape->batch.stride[B][d], shape->batch.stride[OUT][d]});
}

/* Whether cuBLASLt can do the first item with its batch in one call: it may refuse matrices that lie within each other's rows. */
static bool is_possible(CudaContext *cuda, const Multiply *first) {
    Multiply one = *first;
    cublasStatus_t status;
    matmul_align(&one);
    return pitch_possible(cuda, &one) || matmul_plan(cuda, &one, &status) != NULL;
}

/* The call for the first item, with its batch if cuBLASLt can do that in one call. */
static void find_loops(CudaContext *cuda, const KernelCall *call, const ProductShape *shape, Multiply *first, Nest *loops) {
    matmul_first(call, shape, true, first, loops);
    if (!is_possible(cuda, first) && first->key.batch > 1) matmul_first(call, shape, false, first, loops);
}

int64_t matmul_launches(CudaContext *cuda, const KernelCall *call, const ProductShape *shape) {
    Multiply first;
    Nest loops;
    if (dtype_is_half(call->out[0].dtype) && nest_count(&shape->depth, 0, shape->depth.ndim) > 1) return INT64_MAX;
    find_loops(cuda, call, shape, &first, &loops);
    return nest_count(&loops, 0, loops.ndim) * nest_count(&shape->depth, 0, shape->depth.ndim);
}

bool matmul_run(CudaContext *cuda, const KernelCall *call, const ProductShape *shape, Error *error) {
    Multiply first, one;
    Nest loops;
    int64_t at[MAX_NEST], in[MAX_NEST];
    const int64_t bytes = dtype_bytes[call->in[0].dtype], out_bytes = dtype_bytes[call->out[0].dtype];
    int left = shape->gemm.swapped ? B : A, right = shape->gemm.swapped ? A : B;
    find_loops(cuda, call, shape, &first, &loops);
    for (int64_t item = 0, items = nest_count(&loops, 0, loops.ndim); item < items; item++) {
        nest_offsets(&loops, loops.ndim, item, at);
        for (int64_t i = 0, count = nest_count(&shape->depth, 0, shape->depth.ndim); i < count; i++) {
            nest_offsets(&shape->depth, shape->depth.ndim, i, in);
            one = first;
            one.key.add = i > 0;
            one.right = (const char *)first.right + (at[right] + in[right]) * bytes;
            one.left = (const char *)first.left + (at[left] + in[left]) * bytes;
            one.out = (char *)first.out + at[OUT] * out_bytes;
            matmul_align(&one);
            if (!(pitch_possible(cuda, &one) ? pitch_run : matmul_queue)(cuda, &one, error)) return false;
        }
    }
    return true;
}

/* Computes what is no matrix product: one thread for each element of the result. */
static bool run_plain(CudaContext *cuda, const KernelCall *call, Error *error) {
    Nest kept, gone;
    ProductLoops loops = {0};
    product_loops(call, &kept, &gone);
    loops.nkept = kept.ndim;
    loops.ngone = gone.ndim;
    loops.elements = nest_count(&kept, 0, kept.ndim);
    loops.depth = nest_count(&gone, 0, gone.ndim);
    for (int d = 0; d < kept.ndim; d++) {
        loops.kept_size[d] = kept.size[d];
        for (int t = 0; t < 3; t++)
            loops.kept_stride[t][d] = kept.stride[t][d];
    }
    for (int d = 0; d < gone.ndim; d++) {
        loops.gone_size[d] = gone.size[d];
        for (int t = 0; t < 2; t++)
            loops.gone_stride[t][d] = gone.stride[t][d];
    }
    const DType dtype = call->in[A].dtype;
    cudaError_t status = kernels_product(&loops, (int)dtype, dtype_is_half(dtype) && call->out[0].dtype == F32, call->in[A].data,
                                         call->in[B].data, call->out[0].data, cuda->compute);
    return cuda_launched(cuda, status, "plain_product", error);
}

bool kernel_einsum(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    ProductShape shape;
    switch (product_shape(call, NULL, &shape)) {
    case PRODUCT_EMPTY:
        return true;
    case PRODUCT_ZERO:
        return cuda_ok(cuda, cudaMemsetAsync(out->data, 0, (size_t)(shape_elements(&out->local) * dtype_bytes[out->dtype]), cuda->compute),
                       "clearing a product", error);
    case PRODUCT_PLAIN:
        return run_plain(cuda, call, error);
    case PRODUCT_GEMM:
        break;
    }
    /* A sum of several products would be rounded after each. */
    if (dtype_is_half(out->dtype) && nest_count(&shape.depth, 0, shape.depth.ndim) > 1) return run_plain(cuda, call, error);
    return matmul_run(cuda, call, &shape, error);
}

/* Makes the call's shape known to cuda_settle (choice.c). */
bool cuda_prepare(const KernelCall *call, Error *error) {
    ProductShape shape;
    (void)error;
    cudnn_prepare(call);
    if ((call->op == OP_matmul || call->op == OP_einsum) && product_shape(call, NULL, &shape) == PRODUCT_GEMM)
        matmul_launches(call->context, call, &shape);
    return true;
}

bool kernel_matmul(const KernelCall *call, Error *error) {
    return kernel_einsum(call, error);
}
