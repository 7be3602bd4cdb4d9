/* table: which kernel computes which operator, and what becomes one launch. A row of the operator table without a kernel does not link. */
#include "runtime/cuda/cuda.h"

KernelFn *const cuda_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = kernel_##name,
#include "ir/ops.def"
#undef OP
};

int cuda_fuse(void *context, const KernelCall *calls, int n, const int *last_read, void **result, Error *error) {
    CudaFused *fused = NULL;
    bool product = calls[0].op == OP_matmul || calls[0].op == OP_einsum;
    int taken =
        product ? matmul_fuse(context, calls, n, last_read, &fused, error) : chain_fuse(context, calls, n, last_read, &fused, error);
    *result = fused;
    return taken;
}

bool cuda_run_fused(void *context, void *fused, Error *error) {
    return ((CudaFused *)fused)->run(context, fused, error);
}

void cuda_unfuse(void *context, void *fused) {
    (void)context;
    if (fused) ((CudaFused *)fused)->destroy(fused);
}
