/* cublaslt: descriptors, what cuBLASLt accepts, and algorithms to choose from (which all compute the same). Stricter than the library where its documentation is: f64 and
   row-major results take no epilogue, and a product of nothing is refused. */
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "engine.hpp"
#include "product.hpp"
#include "standin.h"

using namespace standin;

struct cublasLtContext {
    int device;
};

namespace {

struct Preference { /* in cublasLtMatmulPreferenceOpaque_t */
    uint64_t workspace_bytes;
    uint32_t alignment[4]; /* of A, B, C, D */
};
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "a preference fits");

struct Algorithm { /* in cublasLtMatmulAlgo_t */
    char magic[8];
    uint64_t workspace_bytes;
    uint32_t alignment[4];
    int32_t id;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

template <class T, class Opaque> T &in(Opaque *opaque) { return *reinterpret_cast<T *>(opaque); }
template <class T, class Opaque> const T &in(const Opaque *opaque) { return *reinterpret_cast<const T *>(opaque); }

cublasStatus_t status_of(const Entry &entry) {
    if (entry.injected) return (cublasStatus_t)entry.injected;
    if (!entry.error) return CUBLAS_STATUS_SUCCESS;
    return engine().broken ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_NOT_INITIALIZED;
}
#define ENTER_LT(name)                                                                        \
    Entry entry(name);                                                                        \
    if (cublasStatus_t failed = status_of(entry)) return failed

template <class T> cublasStatus_t assign(T *to, const void *from, size_t bytes) {
    if (!from || bytes != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

bool known_epilogue(uint32_t e) {
    switch (e) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_RELU_AUX:
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DRELU:
    case CUBLASLT_EPILOGUE_DRELU_BGRAD:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB: return true;
    }
    return false;
}

cublasStatus_t refuse(const char *why) {
    complain("cublasLt: %s", why);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t check_types(const Product &p, const Matrix *const m[4]) {
    const bool half = m[0]->type == CUDA_R_16F || m[0]->type == CUDA_R_16BF; /* results may be f32 */
    if (m[1]->type != m[0]->type || m[2]->type != m[3]->type) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (m[3]->type != m[0]->type && !(half && m[3]->type == CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (half) return p.compute == CUBLAS_COMPUTE_32F && p.scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    bool f32 = p.compute == CUBLAS_COMPUTE_32F || p.compute == CUBLAS_COMPUTE_32F_PEDANTIC || p.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    bool f64 = p.compute == CUBLAS_COMPUTE_64F || p.compute == CUBLAS_COMPUTE_64F_PEDANTIC;
    if (f32 && m[0]->type == CUDA_R_32F && p.scale == CUDA_R_32F) return CUBLAS_STATUS_SUCCESS;
    return f64 && m[0]->type == CUDA_R_64F && p.scale == CUDA_R_64F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t check_matrix(const Matrix &m) {
    if (!m.rows || !m.cols || m.batch < 1) return refuse("a matrix without elements");
    if (m.order != CUBLASLT_ORDER_COL && m.order != CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (m.ld < (int64_t)(m.order == CUBLASLT_ORDER_COL ? m.rows : m.cols)) return refuse("a leading dimension smaller than what it leads over");
    if (m.stride < 0) return refuse("a negative stride between matrices");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_epilogue(const Product &p, const Matrix &d) {
    if (!known_epilogue(p.epilogue)) return refuse("an unknown epilogue");
    if (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
    if (d.order != CUBLASLT_ORDER_COL || d.type == CUDA_R_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
    bool bgrad = p.epilogue == CUBLASLT_EPILOGUE_BGRADA || p.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    if (bgrad && d.batch > 1) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.bias_type != -1 && p.bias_type != d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((bgrad || (p.epilogue & (EPILOGUE_BIAS | EPILOGUE_BGRAD))) && !p.bias) return refuse("an epilogue without its bias pointer");
    if (!(p.epilogue & EPILOGUE_AUX)) return CUBLAS_STATUS_SUCCESS;
    int64_t unit = p.epilogue & (EPILOGUE_RELU | EPILOGUE_DRELU) ? 128 : 8;
    if (!p.aux) return refuse("an epilogue without its auxiliary pointer");
    if ((uintptr_t)p.aux % 16) return refuse("an auxiliary pointer not aligned to 16 bytes");
    if (p.aux_ld % unit || p.aux_ld < (int64_t)d.rows) return refuse("an auxiliary leading dimension too small, or no multiple of 128 (relu) or 8 (gelu)");
    if (p.aux_stride % unit) return refuse("an auxiliary stride that is no multiple of 128 (relu) or 8 (gelu)");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_product(const Product &p, const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &d) {
    const Matrix *const m[4] = {&a, &b, &c, &d};
    for (const Matrix *each : m) {
        if (cublasStatus_t failed = check_matrix(*each)) return failed;
        if (each->batch != d.batch) return refuse("batches of different lengths");
    }
    if (cublasStatus_t failed = check_types(p, m)) return failed;
    size_t rows = p.trans_a ? a.cols : a.rows, inner = p.trans_a ? a.rows : a.cols, inner_b = p.trans_b ? b.cols : b.rows, cols = p.trans_b ? b.rows : b.cols;
    if (inner != inner_b || d.rows != rows || d.cols != cols || c.rows != rows || c.cols != cols) return refuse("shapes that do not fit each other");
    const int64_t lines = (int64_t)(d.order == CUBLASLT_ORDER_COL ? d.cols : d.rows), line = (int64_t)(d.order == CUBLASLT_ORDER_COL ? d.rows : d.cols);
    if (d.batch > 1 && d.stride >= line && d.stride * (d.batch - 1) + line <= d.ld) return CUBLAS_STATUS_NOT_SUPPORTED; /* within each other's lines: nowhere promised */
    if (d.batch > 1 && d.stride < d.ld * (lines - 1) + line) return refuse("results of a batch that overlap");
    if (p.trans_c) return CUBLAS_STATUS_NOT_SUPPORTED;
    return check_epilogue(p, d);
}

bool same_layout(const Matrix &a, const Matrix &b) { return a.order == b.order && a.ld == b.ld && (a.batch == 1 || a.stride == b.stride); }

cublasStatus_t check_memory(const Product &p, const Matrix *const m[4], Operands at, double beta) {
    const void *pointers[] = {at.a, at.b, at.c, at.d};
    const char *const names[] = {"A", "B", "C", "D"};
    for (int i = 0; i < 4; i++) {
        if (i == 2 && beta == 0) continue;
        if (!pointers[i] || (uintptr_t)pointers[i] % type_bytes(m[i]->type)) return refuse("a matrix that is null or not aligned to its elements");
        if (place_of(pointers[i]) == Place::PAGEABLE) return refuse("a matrix in the host's memory");
        if (!range_valid(names[i], pointers[i], matrix_extent(*m[i]) * type_bytes(m[i]->type))) return CUBLAS_STATUS_INVALID_VALUE;
    }
    const Matrix &d = *m[3];
    if ((p.epilogue & (EPILOGUE_BIAS | EPILOGUE_BGRAD)) && p.epilogue < 256)
        if (!range_valid("bias", p.bias, (d.rows + (size_t)(d.batch - 1) * (size_t)p.bias_stride) * type_bytes(d.type))) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.epilogue >= 256 && !range_valid("bias", p.bias, (p.epilogue == CUBLASLT_EPILOGUE_BGRADA ? d.rows : d.cols) * type_bytes(d.type))) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.epilogue & EPILOGUE_AUX) {
        size_t elements = (d.cols - 1) * (size_t)p.aux_ld + d.rows + (size_t)(d.batch - 1) * (size_t)p.aux_stride;
        bool bits = p.epilogue & (EPILOGUE_RELU | EPILOGUE_DRELU);
        if (!range_valid("auxiliary", p.aux, bits ? (elements + 7) / 8 : elements * type_bytes(d.type))) return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

std::atomic<int> last_algorithm{-1};

double scalar(const void *p, int32_t type) { return type == CUDA_R_64F ? *(const double *)p : (double)*(const float *)p; }

} // namespace

int standin_last_algorithm(void) { return last_algorithm; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle) {
    ENTER_LT("cublasLtCreate");
    if (!lightHandle) return CUBLAS_STATUS_INVALID_VALUE;
    *lightHandle = new cublasLtContext{current_device};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle) {
    ENTER_LT("cublasLtDestroy");
    if (!lightHandle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete lightHandle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
    }
    return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
    ENTER_LT("cublasLtMatrixLayoutCreate");
    if (!matLayout) return CUBLAS_STATUS_INVALID_VALUE;
    *matLayout = new cublasLtMatrixLayoutOpaque_t();
    in<Matrix>(*matLayout) = {type, CUBLASLT_ORDER_COL, rows, cols, ld, 1, 0, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) {
    delete matLayout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout, cublasLtMatrixLayoutAttribute_t attr, const void *buf, size_t sizeInBytes) {
    ENTER_LT("cublasLtMatrixLayoutSetAttribute");
    if (!matLayout) return CUBLAS_STATUS_INVALID_VALUE;
    Matrix &m = in<Matrix>(matLayout);
    switch (attr) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return assign(&m.type, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return assign(&m.order, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return assign(&m.rows, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return assign(&m.cols, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return assign(&m.ld, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return assign(&m.batch, buf, sizeInBytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return assign(&m.stride, buf, sizeInBytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType, cudaDataType scaleType) {
    ENTER_LT("cublasLtMatmulDescCreate");
    if (!matmulDesc) return CUBLAS_STATUS_INVALID_VALUE;
    *matmulDesc = new cublasLtMatmulDescOpaque_t();
    Product &p = in<Product>(*matmulDesc);
    p.compute = computeType;
    p.scale = scaleType;
    p.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    p.aux_type = p.bias_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) {
    delete matmulDesc;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr, const void *buf, size_t sizeInBytes) {
    ENTER_LT("cublasLtMatmulDescSetAttribute");
    if (!matmulDesc) return CUBLAS_STATUS_INVALID_VALUE;
    Product &p = in<Product>(matmulDesc);
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return assign(&p.compute, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return assign(&p.scale, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return assign(&p.pointer_mode, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(&p.trans_a, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(&p.trans_b, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSC: return assign(&p.trans_c, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(&p.epilogue, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(&p.bias, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return assign(&p.bias_stride, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return assign(&p.aux, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return assign(&p.aux_ld, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return assign(&p.aux_stride, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return assign(&p.sm_count, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return assign(&p.aux_type, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return assign(&p.bias_type, buf, sizeInBytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref) {
    ENTER_LT("cublasLtMatmulPreferenceCreate");
    if (!pref) return CUBLAS_STATUS_INVALID_VALUE;
    *pref = new cublasLtMatmulPreferenceOpaque_t();
    in<Preference>(*pref) = {0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) {
    delete pref;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attr, const void *buf, size_t sizeInBytes) {
    ENTER_LT("cublasLtMatmulPreferenceSetAttribute");
    if (!pref) return CUBLAS_STATUS_INVALID_VALUE;
    Preference &p = in<Preference>(pref);
    uint32_t mask;
    uint64_t wide;
    float waves;
    switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return assign(&p.workspace_bytes, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return assign(&p.alignment[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return assign(&mask, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK: return assign(&wide, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT: return assign(&waves, buf, sizeInBytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* Up to three algorithms, the first of which wants the most workspace. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
                                              cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t preference, int requestedAlgoCount,
                                              cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount) {
    ENTER_LT("cublasLtMatmulAlgoGetHeuristic");
    if (returnAlgoCount) *returnAlgoCount = 0;
    if (!lightHandle || !operationDesc || !Adesc || !Bdesc || !Cdesc || !Ddesc || !preference || requestedAlgoCount < 1 || !heuristicResultsArray || !returnAlgoCount)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = check_product(in<Product>(operationDesc), in<Matrix>(Adesc), in<Matrix>(Bdesc), in<Matrix>(Cdesc), in<Matrix>(Ddesc));
    if (status) return status;
    static const uint64_t needs[] = {1 << 20, 64 << 10, 0};
    const Preference &p = in<Preference>(preference);
    for (int i = 0; i < 3 && *returnAlgoCount < requestedAlgoCount; i++) {
        if (needs[i] > p.workspace_bytes) continue;
        cublasLtMatmulHeuristicResult_t &result = heuristicResultsArray[(*returnAlgoCount)++];
        memset(&result, 0, sizeof result);
        Algorithm &algorithm = in<Algorithm>(&result.algo);
        algorithm = {"product", needs[i], {p.alignment[0], p.alignment[1], p.alignment[2], p.alignment[3]}, i};
        result.workspaceSize = needs[i];
        result.wavesCount = 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                       cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
    ENTER_LT("cublasLtMatmulAlgoCheck");
    if (!lightHandle || !operationDesc || !Adesc || !Bdesc || !Cdesc || !Ddesc || !algo || !result || strcmp(in<Algorithm>(algo).magic, "product"))
        return CUBLAS_STATUS_INVALID_VALUE;
    result->algo = *algo;
    result->workspaceSize = in<Algorithm>(algo).workspace_bytes;
    result->wavesCount = 1;
    return result->state = check_product(in<Product>(operationDesc), in<Matrix>(Adesc), in<Matrix>(Bdesc), in<Matrix>(Cdesc), in<Matrix>(Ddesc));
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attr, void *buf, size_t sizeInBytes,
                                                    size_t *sizeWritten) {
    ENTER_LT("cublasLtMatmulAlgoConfigGetAttribute");
    if (!algo || !buf || sizeInBytes != sizeof(int32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    int32_t value = attr == CUBLASLT_ALGO_CONFIG_ID ? in<Algorithm>(algo).id : attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1 : 0;
    memcpy(buf, &value, sizeof value);
    if (sizeWritten) *sizeWritten = sizeof value;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
                              const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream) {
    ENTER_LT("cublasLtMatmul");
    if (!lightHandle || lightHandle->device != current_device) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!computeDesc || !alpha || !beta || !Adesc || !Bdesc || !Cdesc || !Ddesc) return CUBLAS_STATUS_INVALID_VALUE;
    Product p = in<Product>(computeDesc);
    Matrix m[4] = {in<Matrix>(Adesc), in<Matrix>(Bdesc), in<Matrix>(Cdesc), in<Matrix>(Ddesc)};
    const Matrix *const each[4] = {&m[0], &m[1], &m[2], &m[3]};
    if (cublasStatus_t failed = check_product(p, m[0], m[1], m[2], m[3])) return failed;
    bool on_host = p.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
    double host_alpha = on_host ? scalar(alpha, p.scale) : 0, host_beta = on_host ? scalar(beta, p.scale) : 1;
    Operands at = {A, B, C, D};
    if (cublasStatus_t failed = check_memory(p, each, at, host_beta)) return failed;
    if (C == D && !same_layout(m[2], m[3])) return refuse("C and D in one place, but laid out differently");
    if (algo) {
        const Algorithm &algorithm = in<Algorithm>(algo);
        const void *pointers[] = {A, B, host_beta != 0 ? C : D, D};
        if (strcmp(algorithm.magic, "product")) return refuse("an algorithm that no heuristic returned");
        if (algorithm.workspace_bytes > workspaceSizeInBytes || (algorithm.workspace_bytes && !workspace)) return refuse("less workspace than the algorithm needs");
        for (int i = 0; i < 4; i++)
            if ((uintptr_t)pointers[i] % algorithm.alignment[i]) return refuse("a matrix not aligned as the heuristic was told");
        if (algorithm.workspace_bytes && ((uintptr_t)workspace % 256 || !range_valid("workspace", workspace, workspaceSizeInBytes))) return refuse("a workspace not aligned to 256 bytes");
    }
    size_t scratch = algo ? in<Algorithm>(algo).workspace_bytes : 0;
    p.algorithm = last_algorithm = algo ? in<Algorithm>(algo).id : 0;
    const char *const slow = getenv("STANDIN_SLOW"); /* tests change it */
    const int first = slow ? atoi(slow) : 0; /* negative: from the -first-th on */
    const bool sleeps = first < 0 ? p.algorithm >= -first : p.algorithm < first;
    Matrix a = m[0], b = m[1], c = m[2], d = m[3];
    Run run = [=] {
        if (scratch) memset(workspace, 0xff, scratch); /* nothing else may live there */
        if (sleeps) usleep(2000);
        product_run(p, a, b, c, d, at, on_host ? host_alpha : scalar(alpha, p.scale), on_host ? host_beta : scalar(beta, p.scale));
        return Status::DONE;
    };
    cudaError_t error = enqueue(stream, {"cublasLtMatmul", cudaGraphNodeTypeKernel, [run] { return run; }});
    return !error ? CUBLAS_STATUS_SUCCESS : error == cudaErrorInvalidResourceHandle ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_EXECUTION_FAILED;
}
