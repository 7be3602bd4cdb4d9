/* fuse: fused steps in few launches: a product with what its epilogue can do, or with strided operands and result; then the longest possible chains of elementwise
 * operators; other operators by their kernels. Also, outside of fused steps: updates of several tensors, and a bias's gradient with the product
 * of a weight's. */
#include <stdlib.h>

#include "runtime/cuda/chain.h"
#include "runtime/cuda/matmul.h"

typedef enum { PART_PRODUCT, PART_STRIDED, PART_CHAIN, PART_KERNEL } PartKind;

enum { FEW_LAUNCHES = 4 }; /* for a strided product: more would cost more than copying and one product */

/* Consecutive calls of a step. */
typedef struct Part {
    PartKind kind;
    Multiply multiply;
    ProductShape shape; /* strided: that of call */
    ChainLaunch launch;
    KernelCall call;
} Part;

typedef struct FusedStep {
    CudaFused base;
    int nparts;
    Part part[];
} FusedStep;

static bool run_step(CudaContext *cuda, CudaFused *fused, Error *error) {
    FusedStep *step = (FusedStep *)fused;
    bool ok = true;
    for (int p = 0; ok && p < step->nparts; p++) {
        Part *part = &step->part[p];
        switch (part->kind) {
        case PART_PRODUCT:
            ok = matmul_queue(cuda, &part->multiply, error);
            break;
        case PART_STRIDED:
            ok = matmul_run(cuda, &part->call, &part->shape, error);
            break;
        case PART_CHAIN:
            ok = cuda_launched(cuda, kernels_chain(&part->launch, cuda->compute), "chain", error);
            break;
        case PART_KERNEL:
            ok = cuda_kernels[part->call.op](&part->call, error);
            break;
        }
    }
    return ok;
}

static void destroy_step(CudaFused *fused) {
    free(fused);
}

bool calls_read(const KernelCall *calls, int n, const void *data) {
    for (int c = 0; c < n; c++)
        for (int i = 0; i < calls[c].nin; i++)
            if (calls[c].in[i].data == data) return true;
    return false;
}

/* The longest run of calls from the first on that can be one launch; 0: none. What later calls read is stored. */
static int take_chain(const KernelCall *calls, int n, const unsigned *inner, ChainLaunch *launch) {
    Chain chain;
    for (int most = n < CHAIN_STEPS ? n : CHAIN_STEPS; most > 0; most--) {
        unsigned hidden[CHAIN_STEPS] = {0};
        for (int c = 0; c < most; c++)
            for (int o = 0; o < calls[c].nout; o++)
                if ((inner[c] >> o & 1u) && !calls_read(calls + most, n - most, calls[c].out[o].data)) hidden[c] |= 1u << o;
        if (chain_build(&chain, calls, most, hidden) && chain.reduced < 0 && chain_launch(launch, &chain)) return most;
    }
    return 0;
}

/* Takes a product with operators before it that only move its operands' elements, or after it its result's, if few launches suffice: how many calls. 0: none. */
static int take_strided(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Part *part) {
    ProductStrides strides;
    const int taken = product_take(calls, n, inner, &part->call, &strides);
    if (taken < 2 || !dtype_is_float(part->call.out[0].dtype) || !product_same_digits(&part->call, &strides) ||
        product_shape(&part->call, &strides, &part->shape) != PRODUCT_GEMM)
        return 0;
    const int64_t launches = matmul_launches(cuda, &part->call, &part->shape);
    if (launches > taken || launches > FEW_LAUNCHES) return 0;
    part->kind = PART_STRIDED;
    return taken;
}

/* Makes the first part of the calls; returns how many calls it covers; -1: *error. */
static int take_part(CudaContext *cuda, const KernelCall *calls, int n, const unsigned *inner, Part *part, Error *error) {
    int taken = take_strided(cuda, calls, n, inner, part);
    if (taken > 0) return taken;
    taken = 1;
    part->kind = PART_KERNEL;
    part->call = calls[0];
    if (calls[0].op == OP_matmul || calls[0].op == OP_einsum) {
        taken = epilogue_take(cuda, calls, n, inner, &part->multiply, error);
        if (taken > 1) part->kind = PART_PRODUCT;
        return taken;
    }
    taken = take_chain(calls, n, inner, &part->launch);
    if (taken > 0) part->kind = PART_CHAIN;
    return taken > 0 ? taken : 1;
}

void *cuda_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error) {
    FusedStep *step = malloc(sizeof *step + (size_t)n * sizeof *step->part);
    error->text[0] = '\0';
    if (!step) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory for a fused step of %d operators", n);
        return NULL;
    }
    *step = (FusedStep){.base = {run_step, destroy_step}};
    for (int at = 0, taken; at < n; at += taken) {
        taken = take_part(context, calls + at, n - at, inner + at, &step->part[step->nparts++], error);
        if (taken > 0) continue;
        free(step);
        return NULL;
    }
    if (step->nparts < n) return step;
    free(step);
    return NULL;
}

int cuda_take(void *context, const KernelCall *calls, int n, void **fused, Error *error) {
    static const unsigned stored[2] = {0};
    CudaFused *updates = NULL;
    Multiply multiply;
    if (calls[0].op != OP_matmul && calls[0].op != OP_einsum) {
        int taken = update_fuse(context, calls, n, &updates, error);
        *fused = updates;
        return taken;
    }
    int taken = epilogue_take(context, calls, n < 2 ? n : 2, stored, &multiply, error);
    if (taken < 2) return taken < 0 ? -1 : 0;
    FusedStep *step = malloc(sizeof *step + sizeof *step->part);
    if (!step) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return -1;
    }
    *step = (FusedStep){.base = {run_step, destroy_step}, .nparts = 1};
    step->part[0].kind = PART_PRODUCT;
    step->part[0].multiply = multiply;
    *fused = &step->base;
    return taken;
}

bool cuda_run_fused(void *context, void *fused, Error *error) {
    return ((CudaFused *)fused)->run(context, fused, error);
}

void cuda_unfuse(void *context, void *fused) {
    (void)context;
    if (fused) ((CudaFused *)fused)->destroy(fused);
}
