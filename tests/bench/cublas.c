/* cublas: products of square matrices by cuBLASLt alone, for comparison with prun: the three of a step of training, y = a b, da = dy b^T, db = a^T dy.
 *
 *   cublas N [f32|tf32|f16|bf16] [SECONDS]    prints one line of JSON: TFLOP/s of the three together, by the algorithm that the library's heuristics name
 *                                             first, and by the best of those that they name
 *
 * Elements are random: on a device that is hot, products of zeros are faster. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/half.h"

enum { WORKSPACE_BYTES = 32 << 20, MAX_ALGORITHMS = 8, NPRODUCTS = 3 };

static void must(int status, const char *what) {
    if (status == 0) return;
    fprintf(stderr, "cublas: %s: status %d\n", what, status);
    exit(3);
}

/* What matrices hold, and how products are computed. */
static const struct Kind {
    const char *name;
    cudaDataType_t type;
    cublasComputeType_t compute;
    size_t bytes;
} kinds[] = {{"f32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 4},
             {"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4},
             {"f16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 2},
             {"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2}};
enum { NKINDS = sizeof kinds / sizeof *kinds };

typedef struct Bench {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    void *workspace, *matrix[3];
    const struct Kind *kind;
    int64_t n;
    double seconds; /* for each algorithm */
} Bench;

static void fill(const Bench *bench, int matrix) {
    size_t count = (size_t)(bench->n * bench->n);
    const struct Kind *kind = bench->kind;
    char *numbers = malloc(count * kind->bytes);
    uint64_t state = 7 + (uint64_t)matrix;
    must(!numbers, "memory");
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float number = (float)((double)(state >> 40) / (1 << 23) - 1);
        const uint16_t half = kind->type == CUDA_R_16F ? f16_of_f32(number) : bf16_of_f32(number);
        memcpy(numbers + i * kind->bytes, kind->bytes == 2 ? (const void *)&half : &number, kind->bytes);
    }
    must(cudaMemcpy(bench->matrix[matrix], numbers, count * kind->bytes, cudaMemcpyHostToDevice), "copy");
    free(numbers);
}

/* One product with one algorithm: seconds of a call, over as many as fill the time. */
static double time_one(const Bench *bench, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t layout,
                       const cublasLtMatmulAlgo_t *algorithm) {
    const float one = 1, zero = 0;
    int calls = 2;
    for (;;) {
        float ms = 0;
        must(cudaEventRecord(bench->begin, bench->stream), "event");
        for (int i = 0; i < calls; i++)
            must(cublasLtMatmul(bench->handle, desc, &one, bench->matrix[0], layout, bench->matrix[1], layout, &zero, bench->matrix[2],
                                layout, bench->matrix[2], layout, algorithm, bench->workspace, WORKSPACE_BYTES, bench->stream),
                 "product");
        must(cudaEventRecord(bench->end, bench->stream), "event");
        must(cudaEventSynchronize(bench->end), "waiting");
        must(cudaEventElapsedTime(&ms, bench->begin, bench->end), "time");
        if (ms * 1e-3 >= bench->seconds || calls >= 1 << 16) return (double)ms * 1e-3 / calls;
        calls *= 2;
    }
}

/* Seconds of a product: first[0] by the first algorithm, first[1] by the best. */
static void measure(const Bench *bench, bool left, bool right, double seconds[2]) {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
    cublasOperation_t operation[2] = {left ? CUBLAS_OP_T : CUBLAS_OP_N, right ? CUBLAS_OP_T : CUBLAS_OP_N};
    size_t workspace = WORKSPACE_BYTES;
    int nfound = 0;
    must(cublasLtMatmulDescCreate(&desc, bench->kind->compute, CUDA_R_32F), "descriptor");
    must(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &operation[0], sizeof operation[0]), "descriptor");
    must(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &operation[1], sizeof operation[1]), "descriptor");
    must(cublasLtMatrixLayoutCreate(&layout, bench->kind->type, (uint64_t)bench->n, (uint64_t)bench->n, bench->n), "layout");
    must(cublasLtMatmulPreferenceCreate(&preference), "preference");
    must(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
         "preference");
    must(cublasLtMatmulAlgoGetHeuristic(bench->handle, desc, layout, layout, layout, layout, preference, MAX_ALGORITHMS, found, &nfound),
         "heuristics");
    must(nfound == 0, "no algorithm");
    seconds[0] = seconds[1] = 0;
    for (int i = 0; i < nfound; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        double one = time_one(bench, desc, layout, &found[i].algo);
        if (i == 0) one = time_one(bench, desc, layout, &found[i].algo); /* the first warmed up */
        if (seconds[0] == 0) seconds[0] = one;
        if (seconds[1] == 0 || one < seconds[1]) seconds[1] = one;
    }
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc);
}

int main(int argc, char **argv) {
    static const bool transposed[NPRODUCTS][2] = {{false, false}, {true, false}, {false, true}};
    Bench bench = {.n = argc > 1 ? atoll(argv[1]) : 0, .seconds = 0.2};
    for (int k = 0; argc > 2 && k < NKINDS; k++)
        if (strcmp(argv[2], kinds[k].name) == 0) bench.kind = &kinds[k];
    if (bench.n < 1) {
        fputs("usage: cublas N [f32|tf32|f16|bf16] [SECONDS]\n", stderr);
        return 2;
    }
    const int named = bench.kind != NULL;
    if (!named) bench.kind = &kinds[0];
    if (argc > 2 + named) bench.seconds = atof(argv[2 + named]);
    must(cublasLtCreate(&bench.handle), "opening cuBLASLt");
    must(cudaStreamCreate(&bench.stream), "stream");
    must(cudaEventCreate(&bench.begin) || cudaEventCreate(&bench.end), "event");
    must(cudaMalloc(&bench.workspace, WORKSPACE_BYTES), "memory");
    for (int i = 0; i < 3; i++)
        must(cudaMalloc(&bench.matrix[i], (size_t)(bench.n * bench.n) * bench.kind->bytes), "memory"), fill(&bench, i);
    double sum[2] = {0, 0}, flops = 2.0 * NPRODUCTS * (double)bench.n * (double)bench.n * (double)bench.n;
    for (int p = 0; p < NPRODUCTS; p++) {
        double seconds[2];
        measure(&bench, transposed[p][0], transposed[p][1], seconds);
        sum[0] += seconds[0];
        sum[1] += seconds[1];
    }
    printf("{\"n\": %lld, \"type\": \"%s\", \"version\": %zu, \"tflops\": %.6g, \"best_tflops\": %.6g}\n", (long long)bench.n,
           bench.kind->name, cublasLtGetVersion(), flops / sum[0] * 1e-12, flops / sum[1] * 1e-12);
    for (int i = 0; i < 3; i++)
        cudaFree(bench.matrix[i]);
    cudaFree(bench.workspace);
    cudaEventDestroy(bench.begin);
    cudaEventDestroy(bench.end);
    cudaStreamDestroy(bench.stream);
    cublasLtDestroy(bench.handle);
    return 0;
}
