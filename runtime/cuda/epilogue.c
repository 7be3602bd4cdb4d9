/* epilogue: a product and what follows it as one call of cuBLASLt's: a bias, relu, gelu by tanh and its gradient, a bias's gradient.
 *
 * What the library's epilogues compute is documented in words, not in roundings: its gelu may use the hardware's quick tanh, its relu may
 * forget a NaN. So each is tried once on the device, on a product whose terms are exact, and left alone where it is not what our own
 * kernels give. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/matmul.h"

/* ---------------------------------------------------------------- what epilogues compute */

enum { TRIAL_M = 24, TRIAL_N = 32, TRIAL_K = 16, NAN_ROW = 5 };

/* left (m x k), right (k x n), bias (n), matrix (m x n) and the result (m x n), in this order in one block on the device and off it. */
enum {
    AT_LEFT = 0,
    AT_RIGHT = AT_LEFT + TRIAL_M * TRIAL_K,
    AT_BIAS = AT_RIGHT + TRIAL_K * TRIAL_N,
    AT_MATRIX = AT_BIAS + 64,
    AT_OUT = AT_MATRIX + TRIAL_M * TRIAL_N
};
enum { TRIAL_ELEMENTS = AT_OUT + TRIAL_M * TRIAL_N };

static bool has_bias(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static bool keeps_operand(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

/* Sixteenths from -1 to 1: their products and sums are exact, with factors rounded to tf32 too. matrix: sixteenths from -8 to 8. */
static void trial_fill(float *at, int epilogue) {
    uint32_t state = 1;
    for (int i = 0; i < TRIAL_ELEMENTS; i++) {
        state = state * 1664525u + 1013904223u; /* Numerical Recipes */
        int sixteenths = (int)(state >> 16) % (i >= AT_MATRIX ? 257 : 33) - (i >= AT_MATRIX ? 128 : 16);
        at[i] = (float)sixteenths / 16;
    }
    for (int k = 0; k < TRIAL_K && epilogue != CUBLASLT_EPILOGUE_BGRADA; k++)
        at[AT_LEFT + NAN_ROW * TRIAL_K + k] = NAN;
}

static const double gelu_scale = 0.79788456080286535588, gelu_cube = 0.044715; /* sqrt(2 / pi) */

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(gelu_scale * (x + gelu_cube * x * x * x)));
}

static double gelu_gradient(double x) {
    double t = tanh(gelu_scale * (x + gelu_cube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cube * x * x);
}

static bool is_near(float found, double expected) {
    if (isnan(expected)) return isnan(found);
    return fabs((double)found - expected) <= 16 * FLT_EPSILON * (1 + fabs(expected));
}

/* Whether element (i, j) of what the epilogue leaves is what it should be. before: the operands; after: what the device has then. */
static bool trial_element(int epilogue, const float *before, const float *after, int i, int j) {
    double z = has_bias(epilogue) ? before[AT_BIAS + j] : 0, expected;
    for (int k = 0; k < TRIAL_K; k++)
        z += (double)before[AT_LEFT + i * TRIAL_K + k] * (double)before[AT_RIGHT + k * TRIAL_N + j];
    const int at = i * TRIAL_N + j;
    if (keeps_operand(epilogue) && !is_near(after[AT_MATRIX + at], z)) return false;
    switch ((cublasLtEpilogue_t)epilogue) {
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        expected = z <= 0 ? 0 : z;
        break;
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        expected = gelu(z);
        break;
    case CUBLASLT_EPILOGUE_DGELU:
        expected = z * gelu_gradient(before[AT_MATRIX + at]);
        break;
    default:
        expected = z;
    }
    return is_near(after[AT_OUT + at], expected);
}

static bool trial_right(int epilogue, const float *before, const float *after) {
    for (int j = 0; epilogue == CUBLASLT_EPILOGUE_BGRADA && j < TRIAL_N; j++) {
        double sum = 0;
        for (int k = 0; k < TRIAL_K; k++)
            sum += before[AT_RIGHT + k * TRIAL_N + j];
        if (!is_near(after[AT_BIAS + j], sum)) return false;
    }
    for (int i = 0; i < TRIAL_M; i++)
        for (int j = 0; j < TRIAL_N; j++)
            if (!trial_element(epilogue, before, after, i, j)) return false;
    return true;
}

/* 1: it has been done; 0: the library does not do it; -1: the device or the library fails, and *error says how. */
static int trial_run(CudaContext *cuda, int epilogue, float *device, const float *before, float *after, Error *error) {
    const size_t bytes = TRIAL_ELEMENTS * sizeof *before;
    bool matrix = keeps_operand(epilogue) || epilogue == CUBLASLT_EPILOGUE_DGELU;
    Error refused;
    Multiply trial;
    memset(&trial, 0, sizeof trial);
    trial.key = (MatmulKey){.m = TRIAL_M,
                            .n = TRIAL_N,
                            .k = TRIAL_K,
                            .leading = {TRIAL_N, TRIAL_K, TRIAL_N},
                            .batch = 1,
                            .dtype = F32,
                            .out_dtype = F32,
                            .epilogue = epilogue};
    trial.left = device + AT_LEFT;
    trial.right = device + AT_RIGHT;
    trial.out = device + AT_OUT;
    trial.bias = has_bias(epilogue) || epilogue == CUBLASLT_EPILOGUE_BGRADA ? device + AT_BIAS : NULL;
    trial.matrix = matrix ? device + AT_MATRIX : NULL;
    matmul_align(&trial);
    if (!cuda_ok(cuda, cudaMemcpyAsync(device, before, bytes, cudaMemcpyHostToDevice, cuda->compute), "copying to the device", error))
        return -1;
    bool queued = matmul_queue(cuda, &trial, &refused);
    if (!cuda_ok(cuda, cudaStreamSynchronize(cuda->compute), "trying a product with what follows it", error)) return -1;
    if (!queued) return 0;
    bool copied =
        cuda_ok(cuda, cudaMemcpyAsync(after, device, bytes, cudaMemcpyDeviceToHost, cuda->compute), "copying from the device", error) &&
        cuda_ok(cuda, cudaStreamSynchronize(cuda->compute), "copying from the device", error);
    return copied ? 1 : -1;
}

/* As epilogue_is_sound, where nothing is known. */
static int trial_judge(CudaContext *cuda, int epilogue, Error *error) {
    float *before = calloc(TRIAL_ELEMENTS, sizeof *before), *after = calloc(TRIAL_ELEMENTS, sizeof *after);
    void *device = NULL;
    int sound = -1;
    if (!before || !after)
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
    else if (cuda_ok(cuda, cudaMalloc(&device, TRIAL_ELEMENTS * sizeof *before), "taking memory to try a product", error)) {
        trial_fill(before, epilogue);
        sound = trial_run(cuda, epilogue, device, before, after, error);
        if (sound > 0) sound = trial_right(epilogue, before, after);
    }
    if (device) cudaFree(device);
    free(before);
    free(after);
    return sound;
}

int epilogue_is_sound(CudaContext *cuda, int epilogue, Error *error) {
    for (int i = 0; i < MAX_EPILOGUES; i++) {
        struct CudaEpilogue *known = &cuda->epilogue[i];
        if (known->tried && known->number != epilogue) continue;
        if (!known->tried) *known = (struct CudaEpilogue){epilogue, true, trial_judge(cuda, epilogue, error)};
        return known->sound;
    }
    return 0;
}

/* ---------------------------------------------------------------- taking what follows */

static bool same_place(const Operand *a, const Operand *b) {
    return a->data == b->data && shape_elements(&a->local) == shape_elements(&b->local) && a->dtype == b->dtype;
}

/* Whether an operand is a vector along the last dimension of a result whose rows are `n` long: a bias. */
static bool is_row(const Operand *operand, const Operand *out, int64_t n) {
    const Shape *shape = &operand->local;
    int last = shape->ndim - 1;
    return last >= 0 && shape->dim[last] == n && shape_elements(shape) == n && out->local.ndim > 0 &&
           out->local.dim[out->local.ndim - 1] == n && operand->global.dim[last] == out->global.dim[out->global.ndim - 1];
}

/* What has been taken of a step: the product, and what its epilogue does. */
typedef struct Taking {
    const KernelCall *calls;
    const unsigned *inner;
    int n, taken;
    Multiply multiply;
    const Operand *out;              /* of the last call taken: what the launch writes */
    const Operand *read[MAX_IN + 2]; /* besides the product's operands */
    int nread;
    const Operand *also; /* written besides: before the activation, or a bias's gradient */
} Taking;

/* Nothing but the first `taken` calls reads the call's result. */
static bool is_private(const Taking *t, int call, int taken) {
    return (t->inner[call] & 1) && !calls_read(t->calls + taken, t->n - taken, t->calls[call].out[0].data);
}

static void take_bias(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    if (t->taken >= t->n || next->op != OP_add || !is_private(t, t->taken - 1, t->taken + 1)) return;
    int product = same_place(&next->in[0], t->out) ? 0 : 1;
    if (!same_place(&next->in[product], t->out) || !is_row(&next->in[!product], t->out, t->multiply.key.n) ||
        shape_elements(&next->out[0].local) != shape_elements(&t->out->local))
        return;
    t->multiply.bias = next->in[!product].data;
    t->multiply.key.epilogue = CUBLASLT_EPILOGUE_BIAS;
    t->read[t->nread++] = &next->in[!product];
    t->out = &next->out[0];
    t->taken++;
}

/* cuBLASLt's epilogues want rows of multiples of 8 elements and 16 bytes of their matrix; not every version looks before it runs. */
static bool is_epilogue_matrix(const Taking *t, const Operand *operand) {
    return t->multiply.key.n % 8 == 0 && (uintptr_t)operand->data % 16 == 0;
}

/* relu, where nothing else reads what it is taken of; gelu's approximation by tanh, which is cuBLASLt's, whose operand can be kept. */
static void take_activation(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    bool biased = t->multiply.bias != NULL;
    if (t->taken >= t->n || t->out->dtype != F32 || !same_place(&next->in[0], t->out)) return;
    bool hidden = is_private(t, t->taken - 1, t->taken + 1);
    if (next->op == OP_relu && hidden)
        t->multiply.key.epilogue = biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    else if (next->op == OP_gelu && next->attr[0].i && hidden)
        t->multiply.key.epilogue = biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    else if (next->op == OP_gelu && next->attr[0].i && !operands_overlap(t->out, &next->out[0]) && is_epilogue_matrix(t, t->out)) {
        t->multiply.key.epilogue = biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        t->multiply.matrix = t->out->data;
        t->also = t->out;
    } else
        return;
    t->out = &next->out[0];
    t->taken++;
}

/* The gradient of that gelu, of the product: its operand is the epilogue's matrix. */
static void take_gelu_gradient(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    if (t->taken != 1 || t->taken >= t->n || next->op != OP_gelu_grad || !next->attr[0].i || t->out->dtype != F32 ||
        !same_place(&next->in[1], t->out) || shape_elements(&next->in[0].local) != shape_elements(&t->out->local) || !is_private(t, 0, 2) ||
        !is_epilogue_matrix(t, &next->in[0]))
        return;
    t->multiply.key.epilogue = CUBLASLT_EPILOGUE_DGELU;
    t->multiply.matrix = next->in[0].data;
    t->read[t->nread++] = &next->in[0];
    t->out = &next->out[0];
    t->taken++;
}

/* A bias's gradient beside a weight's: the sum of the rows of the product's right operand. */
static void take_bias_gradient(Taking *t) {
    const KernelCall *next = &t->calls[t->taken], *product = &t->calls[0];
    const MatmulKey *key = &t->multiply.key;
    if (t->taken != 1 || t->taken >= t->n || (next->op != OP_sum && next->op != OP_sum_to) || t->out->dtype != F32 || key->transposed[0])
        return;
    const Operand *rows = &next->in[0], *sum = &next->out[0];
    bool right = rows->data == t->multiply.right && rows->local.ndim > 0 && rows->local.dim[rows->local.ndim - 1] == key->n &&
                 shape_elements(&rows->local) == key->k * key->n && key->leading[0] == key->n;
    /* All dimensions but the last are summed: the last one's letter is the result's only one. */
    bool columns = shape_elements(&sum->local) == key->n && sum->local.ndim > 0 &&
                   next->rule->out[0][sum->local.ndim - 1] == next->rule->in[0][rows->local.ndim - 1] && key->k > 1;
    if (!right || !columns || operands_overlap(sum, t->out) || operands_overlap(sum, &product->in[0]) ||
        operands_overlap(sum, &product->in[1]))
        return;
    t->multiply.bias = sum->data;
    t->multiply.key.epilogue = CUBLASLT_EPILOGUE_BGRADA;
    t->also = sum;
    t->taken++;
}

/* The launch writes while it reads: none of its operands may lie where it writes, but for its own matrix. */
static bool is_safe(const Taking *t) {
    const KernelCall *product = &t->calls[0];
    const Operand *written[2] = {t->out, t->also};
    for (int w = 0; w < 2; w++) {
        if (!written[w]) continue;
        for (int i = 0; i < 2; i++)
            if (operands_overlap(written[w], &product->in[i])) return false;
        for (int i = 0; i < t->nread; i++)
            if (operands_overlap(written[w], t->read[i])) return false;
    }
    return true;
}

/* Whether what has been taken can be one call: 1 or 0; -1: *error. */
static int is_taken(CudaContext *cuda, Taking *t, Error *error) {
    if (t->taken < 2 || !is_safe(t)) return 0;
    const Operand *product = &t->calls[0].out[0];
    t->multiply.out = t->multiply.key.epilogue == CUBLASLT_EPILOGUE_BGRADA ? product->data : t->out->data;
    matmul_align(&t->multiply);
    return matmul_possible(cuda, &t->multiply) ? epilogue_is_sound(cuda, t->multiply.key.epilogue, error) : 0;
}

int epilogue_take(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Multiply *multiply, Error *error) {
    ProductShape shape;
    Nest loops;
    if (dtype_is_half(calls[0].in[0].dtype)) return 1; /* what follows is computed of a product that has been rounded */
    if (product_shape(&calls[0], NULL, &shape) != PRODUCT_GEMM || shape.gemm.swapped) return 1;
    Taking t = {.calls = calls, .inner = inner, .n = n, .taken = 1, .out = &calls[0].out[0]};
    matmul_first(&calls[0], &shape, true, &t.multiply, &loops);
    bool one = nest_count(&loops, 0, loops.ndim) == 1 && nest_count(&shape.depth, 0, shape.depth.ndim) == 1 && t.multiply.key.batch == 1 &&
               shape.gemm.out_leading == shape.gemm.n && shape_elements(&t.out->local) == shape.gemm.m * shape.gemm.n;
    if (!one) return 1;
    if (!matmul_open(cuda, error)) return -1;
    take_gelu_gradient(&t);
    take_bias_gradient(&t);
    if (t.taken == 1) {
        take_bias(&t);
        const Taking biased = t;
        take_activation(&t);
        int all = t.taken > biased.taken ? is_taken(cuda, &t, error) : 1;
        if (all < 0) return -1;
        if (all == 0) t = biased;
    }
    int taken = is_taken(cuda, &t, error);
    *multiply = t.multiply;
    return taken < 0 ? -1 : taken ? t.taken : 1;
}
