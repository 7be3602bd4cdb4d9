/* Products on the stand-in: values against plain sums, epilogues, and what is refused. */
#include <criterion/criterion.h>
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>

#include "tests/standin/standin.h"

enum { M = 5, N = 6, K = 7, LD = 8, AUX = 128 };

typedef struct Case {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t preference;
    float *da, *db, *dd, *bias, *aux;
    float x[K * LD], y[N * LD], z[N * LD]; /* A: M x K, B: K x N, D: M x N by columns, LD apart */
} Case;

#define OK(call) cr_assert_eq(call, CUBLAS_STATUS_SUCCESS)

static void *on_device(const void *data, size_t bytes) {
    void *p = NULL;
    cr_assert_eq(cudaMalloc(&p, bytes), cudaSuccess);
    if (data) cr_assert_eq(cudaMemcpy(p, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

static void set(Case *c, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes) {
    OK(cublasLtMatmulDescSetAttribute(c->desc, attribute, value, bytes));
}

static Case *create(uint32_t epilogue) {
    Case *c = calloc(1, sizeof *c);
    float bias[N];
    int64_t ld = AUX;
    for (int i = 0; i < K * LD; i++)
        c->x[i] = (float)(i % 5 - 2);
    for (int i = 0; i < N * LD; i++)
        c->y[i] = (float)(i % 7 - 3);
    for (int i = 0; i < N; i++)
        bias[i] = (float)(i - 2) / 2;
    c->da = on_device(c->x, sizeof c->x), c->db = on_device(c->y, sizeof c->y), c->dd = on_device(NULL, sizeof c->z),
    c->bias = on_device(bias, sizeof bias);
    c->aux = on_device(NULL, N * AUX * sizeof(float));
    OK(cublasLtCreate(&c->handle));
    OK(cublasLtMatmulDescCreate(&c->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatrixLayoutCreate(&c->a, CUDA_R_32F, M, K, LD));
    OK(cublasLtMatrixLayoutCreate(&c->b, CUDA_R_32F, K, N, LD));
    OK(cublasLtMatrixLayoutCreate(&c->d, CUDA_R_32F, M, N, LD));
    OK(cublasLtMatmulPreferenceCreate(&c->preference));
    set(c, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set(c, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &c->bias, sizeof c->bias);
    set(c, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &c->aux, sizeof c->aux);
    set(c, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    return c;
}

static cublasStatus_t multiply(Case *c) {
    float alpha = 1, beta = 0;
    cublasLtMatmulHeuristicResult_t found[4];
    int n = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(c->handle, c->desc, c->a, c->b, c->d, c->d, c->preference, 4, found, &n);
    if (status) return status;
    cr_assert_eq(n, 1, "no workspace, one algorithm");
    return cublasLtMatmul(c->handle, c->desc, &alpha, c->da, c->a, c->db, c->b, &beta, c->dd, c->d, c->dd, c->d, &found[0].algo, NULL, 0,
                          NULL);
}

static float product(const Case *c, int i, int j) {
    float sum = 0;
    for (int k = 0; k < K; k++)
        sum += c->x[i + k * LD] * c->y[k + j * LD];
    return sum;
}

static void fetch(Case *c) {
    cr_assert_eq(cudaMemcpy(c->z, c->dd, sizeof c->z, cudaMemcpyDeviceToHost), cudaSuccess);
}

Test(cublaslt, a_product_is_the_sum_of_products) {
    Case *c = create(CUBLASLT_EPILOGUE_DEFAULT);
    OK(multiply(c));
    fetch(c);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            cr_assert_eq(c->z[i + j * LD], product(c, i, j));
    cr_assert(isnan(c->z[M]), "what lies between columns is left alone");
}

Test(cublaslt, relu_with_bias_keeps_a_mask_for_its_gradient) {
    Case *c = create(CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
    float mask_applied[N * LD], bias[M];
    OK(multiply(c));
    fetch(c);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            cr_assert_eq(c->z[i + j * LD], fmaxf(product(c, i, j) + (float)(i - 2) / 2, 0));
    uint32_t gradient = CUBLASLT_EPILOGUE_DRELU_BGRAD;
    set(c, CUBLASLT_MATMUL_DESC_EPILOGUE, &gradient, sizeof gradient);
    OK(multiply(c));
    cr_assert_eq(cudaMemcpy(mask_applied, c->dd, sizeof mask_applied, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert_eq(cudaMemcpy(bias, c->bias, sizeof bias, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M; i++) {
        float sum = 0;
        for (int j = 0; j < N; j++) {
            cr_assert_eq(mask_applied[i + j * LD], c->z[i + j * LD] > 0 ? product(c, i, j) : 0);
            sum += mask_applied[i + j * LD];
        }
        cr_assert_eq(bias[i], sum);
    }
}

Test(cublaslt, gelu_keeps_its_operand_for_its_gradient) {
    Case *c = create(CUBLASLT_EPILOGUE_GELU_AUX);
    OK(multiply(c));
    fetch(c);
    float x = product(c, 1, 2), aux[N * AUX];
    cr_assert_float_eq(c->z[1 + 2 * LD], 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))), 1e-5f);
    cr_assert_eq(cudaMemcpy(aux, c->aux, sizeof aux, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert_eq(aux[1 + 2 * AUX], x);
}

Test(cublaslt, bias_gradients_sum_an_operand_over_the_inner_dimension) {
    Case *c = create(CUBLASLT_EPILOGUE_BGRADB);
    float sums[N];
    OK(multiply(c));
    cr_assert_eq(cudaMemcpy(sums, c->bias, sizeof sums, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int j = 0; j < N; j++) {
        float sum = 0;
        for (int k = 0; k < K; k++)
            sum += c->y[k + j * LD];
        cr_assert_eq(sums[j], sum);
    }
}

Test(cublaslt, rows_first_is_the_transpose_of_columns_first) {
    Case *c = create(CUBLASLT_EPILOGUE_DEFAULT);
    int32_t order = CUBLASLT_ORDER_ROW, transposed = CUBLAS_OP_T;
    cublasLtMatrixLayoutDestroy(c->a);
    OK(cublasLtMatrixLayoutCreate(&c->a, CUDA_R_32F, K, M, LD)); /* the same memory, by rows; its transpose is A again */
    OK(cublasLtMatrixLayoutSetAttribute(c->a, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
    set(c, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    OK(multiply(c));
    fetch(c);
    cr_assert_eq(c->z[3 + 4 * LD], product(c, 3, 4));
}

Test(cublaslt, wrong_arguments_are_invalid_values) {
    Case *c = create(CUBLASLT_EPILOGUE_DEFAULT);
    int64_t ld = M - 1;
    c->da++; /* 4 bytes further: the heuristic was told 256 */
    cr_assert_eq(multiply(c), CUBLAS_STATUS_INVALID_VALUE);
    c->da--;
    OK(cublasLtMatrixLayoutSetAttribute(c->d, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld));
    cr_assert_eq(multiply(c), CUBLAS_STATUS_INVALID_VALUE);
    ld = 100;
    OK(cublasLtMatrixLayoutSetAttribute(c->d, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld));
    cr_assert_eq(multiply(c), CUBLAS_STATUS_INVALID_VALUE, "past the end of its memory");
    cr_assert_eq(cublasLtMatrixLayoutSetAttribute(c->d, CUBLASLT_MATRIX_LAYOUT_LD, &ld, 4), CUBLAS_STATUS_INVALID_VALUE,
                 "an attribute's size");
}

Test(cublaslt, an_algorithm_that_wants_workspace_is_given_it) {
    Case *c = create(CUBLASLT_EPILOGUE_DEFAULT);
    float alpha = 1, beta = 0;
    uint64_t bytes = 64 << 10;
    cublasLtMatmulHeuristicResult_t found[3];
    int n = 0;
    void *workspace = on_device(NULL, bytes);
    OK(cublasLtMatmulPreferenceSetAttribute(c->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    OK(cublasLtMatmulAlgoGetHeuristic(c->handle, c->desc, c->a, c->b, c->d, c->d, c->preference, 3, found, &n));
    cr_assert_eq(n, 2);
    cr_assert_eq(found[0].workspaceSize, bytes);
    cr_assert_eq(cublasLtMatmul(c->handle, c->desc, &alpha, c->da, c->a, c->db, c->b, &beta, c->dd, c->d, c->dd, c->d, &found[0].algo,
                                workspace, bytes - 1, NULL),
                 CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmul(c->handle, c->desc, &alpha, c->da, c->a, c->db, c->b, &beta, c->dd, c->d, c->dd, c->d, &found[0].algo, workspace,
                      bytes, NULL));
    fetch(c);
    cr_assert_eq(c->z[0], product(c, 0, 0));
}

Test(cublaslt, faults_have_its_codes) {
    setenv("STANDIN_FAIL", "cublasLtCreate:1:1", 1);
    cublasLtHandle_t handle;
    cr_assert_eq(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
    OK(cublasLtCreate(&handle));
}
