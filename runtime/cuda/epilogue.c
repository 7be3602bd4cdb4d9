/* epilogue: a product and what follows it as one call of cuBLASLt: a bias, relu, gelu by tanh and its gradient, a bias's gradient, a cast to f32, another tensor
 * that is added. This holds for 16-bit types too: the library applies the epilogue to the sum in f32, which is rounded once. */
#include "runtime/cuda/matmul.h"

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

/* What the call covers of a step so far: the product, and what its epilogue does. */
typedef struct Taking {
    const KernelCall *calls;
    const unsigned *inner;
    int n, taken;
    Multiply multiply;
    const Operand *out;              /* of the last call taken: what the launch writes */
    const Operand *read[MAX_IN + 2]; /* besides the product's operands */
    int nread;
    const Operand *also; /* also written: the activation's operand, or a bias's gradient */
    const Operand *onto; /* of those read: what the product is added to */
    bool closed;         /* nothing more can be taken */
} Taking;

/* Whether only the first `taken` calls read the call's result. */
static bool is_private(const Taking *t, int call, int taken) {
    return (t->inner[call] & 1) && !calls_read(t->calls + taken, t->n - taken, t->calls[call].out[0].data);
}

static void take_bias(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    if (t->taken >= t->n || next->op != OP_add || !is_private(t, t->taken - 1, t->taken + 1)) return;
    int product = same_place(&next->in[0], t->out) ? 0 : 1;
    if (!same_place(&next->in[product], t->out) || next->in[!product].dtype != t->out->dtype ||
        !is_row(&next->in[!product], t->out, t->multiply.key.n) || shape_elements(&next->out[0].local) != shape_elements(&t->out->local))
        return;
    t->multiply.bias = next->in[!product].data;
    t->multiply.key.epilogue = CUBLASLT_EPILOGUE_BIAS;
    t->read[t->nread++] = &next->in[!product];
    t->out = &next->out[0];
    t->taken++;
}

/* cuBLASLt's epilogues need a matrix with rows of a multiple of 8 elements, aligned to 16 bytes; not every version checks this. */
static bool is_epilogue_matrix(const Taking *t, const Operand *operand) {
    return t->multiply.key.n % 8 == 0 && (uintptr_t)operand->data % 16 == 0;
}

/* Takes relu, if nothing else reads its operand; or gelu's approximation by tanh, which is cuBLASLt's, and whose operand can be kept. */
static void take_activation(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    bool biased = t->multiply.bias != NULL;
    if (t->taken >= t->n || t->out->dtype == F64 || !same_place(&next->in[0], t->out)) return;
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
    t->closed = true;
    t->taken++;
}

/* Takes a cast of the product to f32, if nothing else reads it in bf16: its sums are then not rounded. Not from f16, which has less range: scaled gradients that overflow in
 * it must be detected. */
static void take_cast(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    if (t->taken != 1 || t->taken >= t->n || next->op != OP_cast || next->out[0].dtype != F32 || t->out->dtype != BF16 ||
        !same_place(&next->in[0], t->out) || !is_private(t, 0, 2))
        return;
    t->multiply.key.out_dtype = F32;
    t->out = &next->out[0];
    t->taken++;
}

/* Takes the addition of a tensor of the product's size: another product's result, or a residual connection. */
static void take_addition(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    if (t->taken >= t->n || next->op != OP_add || !is_private(t, t->taken - 1, t->taken + 1)) return;
    int product = same_place(&next->in[0], t->out) ? 0 : 1;
    const Operand *other = &next->in[!product];
    if (!same_place(&next->in[product], t->out) || same_place(other, t->out) || other->dtype != t->out->dtype ||
        !shape_equal(&other->local, &next->out[0].local) || shape_elements(&other->local) != shape_elements(&t->out->local))
        return;
    t->multiply.onto = other->data;
    t->multiply.key.add = 1;
    t->read[t->nread++] = t->onto = other;
    t->out = &next->out[0];
    t->taken++;
}

/* Takes the gradient of that gelu, applied to the product; gelu's operand is the epilogue's matrix. */
static void take_gelu_gradient(Taking *t) {
    const KernelCall *next = &t->calls[t->taken];
    if (t->taken != 1 || t->taken >= t->n || next->op != OP_gelu_grad || !next->attr[0].i || t->out->dtype == F64 ||
        !same_place(&next->in[1], t->out) || next->in[0].dtype != t->out->dtype ||
        shape_elements(&next->in[0].local) != shape_elements(&t->out->local) || !is_private(t, 0, 2) ||
        !is_epilogue_matrix(t, &next->in[0]))
        return;
    t->multiply.key.epilogue = CUBLASLT_EPILOGUE_DGELU;
    t->multiply.matrix = next->in[0].data;
    t->read[t->nread++] = &next->in[0];
    t->out = &next->out[0];
    t->closed = true;
    t->taken++;
}

/* The sum of call 1 in the type of the product's result, perhaps after a cast, if nothing else reads the sum. NULL: it has another type. */
static const Operand *sum_of(const Taking *t) {
    const KernelCall *sum = &t->calls[1], *cast = &t->calls[2];
    if (sum->out[0].dtype == t->out->dtype) return &sum->out[0];
    return t->n > 2 && cast->op == OP_cast && sum->out[0].dtype != F16 && same_place(&cast->in[0], &sum->out[0]) &&
                   cast->out[0].dtype == t->out->dtype && is_private(t, 1, 3)
               ? &cast->out[0]
               : NULL;
}

/* Whether a tensor is one of the product's operands as it lies in memory: a row of n elements for each of the k terms. */
static bool is_rows(const Operand *rows, const void *operand, int64_t k, int64_t n, int64_t leading) {
    return rows->data == operand && rows->local.ndim > 0 && rows->local.dim[rows->local.ndim - 1] == n &&
           shape_elements(&rows->local) == k * n && leading == n;
}

/* Takes a bias's gradient with a weight's: the sum of the rows of one of the product's operands. */
static void take_bias_gradient(Taking *t) {
    const KernelCall *next = &t->calls[t->taken], *product = &t->calls[0];
    const MatmulKey *key = &t->multiply.key;
    if (t->taken != 1 || t->taken >= t->n || (next->op != OP_sum && next->op != OP_sum_to) || t->out->dtype == F64) return;
    const Operand *rows = &next->in[0], *sum = sum_of(t);
    const bool right = !key->transposed[0] && is_rows(rows, t->multiply.right, key->k, key->n, key->leading[0]),
               left = key->transposed[1] && is_rows(rows, t->multiply.left, key->k, key->m, key->leading[1]);
    if (!sum || right == left) return;
    /* All dimensions but the last are summed: the last one's letter is the result's only one. */
    const int ndim = next->out[0].local.ndim;
    bool columns = shape_elements(&sum->local) == (right ? key->n : key->m) && ndim > 0 &&
                   next->rule->out[0][ndim - 1] == next->rule->in[0][rows->local.ndim - 1] && key->k > 1;
    if (!columns || operands_overlap(sum, t->out) || operands_overlap(sum, &product->in[0]) || operands_overlap(sum, &product->in[1]))
        return;
    t->multiply.bias = sum->data;
    t->multiply.key.epilogue = right ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB;
    t->also = sum;
    t->closed = true;
    t->taken = sum == &next->out[0] ? 2 : 3;
}

/* The launch writes while it reads, so no operand may overlap what it writes, except its own matrix, and `onto`, which is read element by element before it is written. */
static bool is_safe(const Taking *t) {
    const KernelCall *product = &t->calls[0];
    const Operand *written[2] = {t->out, t->also};
    for (int w = 0; w < 2; w++) {
        if (!written[w]) continue;
        for (int i = 0; i < 2; i++)
            if (operands_overlap(written[w], &product->in[i])) return false;
        for (int i = 0; i < t->nread; i++)
            if (operands_overlap(written[w], t->read[i]) && !(w == 0 && t->read[i] == t->onto && same_place(t->out, t->onto))) return false;
    }
    return true;
}

/* Whether what has been taken can be one call: 1 or 0; -1: *error. */
static int is_taken(CudaContext *cuda, Taking *t, Error *error) {
    if (t->taken < 2 || !is_safe(t)) return 0;
    const Operand *product = &t->calls[0].out[0];
    t->multiply.out = matmul_has_sums(t->multiply.key.epilogue) ? product->data : t->out->data;
    matmul_align(&t->multiply);
    return choice_is_sound(cuda, &t->multiply, error);
}

int epilogue_take(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Multiply *multiply, Error *error) {
    ProductShape shape;
    Nest loops;
    if (product_shape(&calls[0], NULL, &shape) != PRODUCT_GEMM) return 1;
    Taking t = {.calls = calls, .inner = inner, .n = n, .taken = 1, .out = &calls[0].out[0]};
    matmul_first(&calls[0], &shape, true, &t.multiply, &loops);
    bool one = nest_count(&loops, 0, loops.ndim) == 1 && nest_count(&shape.depth, 0, shape.depth.ndim) == 1 && t.multiply.key.batch == 1 &&
               shape.gemm.out_leading == shape.gemm.n && shape_elements(&t.out->local) == shape.gemm.m * shape.gemm.n;
    if (!one) return 1;
    static void (*const takes[])(Taking *) = {take_bias_gradient, take_gelu_gradient, take_bias, take_activation, take_cast, take_addition};
    enum { NTAKES = sizeof takes / sizeof *takes };
    Taking taking[NTAKES + 1] = {t};
    int steps = 0;
    for (int i = 0, end = shape.gemm.swapped ? 1 : NTAKES; i < end && !taking[steps].closed; i++) {
        Taking more = taking[steps];
        takes[i](&more);
        if (more.taken > taking[steps].taken) taking[++steps] = more;
    }
    for (; steps > 0; steps--) {
        const int taken = is_taken(cuda, &taking[steps], error);
        if (taken < 0) return -1;
        *multiply = taking[steps].multiply;
        if (taken > 0) return taking[steps].taken;
    }
    return 1;
}
