/* batchnorm: batch_norm and its gradient: arguments for batchnorm.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

/* x's box as [n, c, s]. */
static KernelBatchNorm batch_of(const KernelCall *call) {
    const Operand *x = &call->in[0];
    KernelBatchNorm norm = {.x = x->data,
                            .out = call->out[0].data,
                            .n = x->local.dim[0],
                            .c = x->local.dim[1],
                            .s = 1,
                            .eps = call->attr[0].f,
                            .dtype = (int)x->dtype};
    for (int d = 2; d < x->local.ndim; d++)
        norm.s *= x->local.dim[d];
    return norm;
}

static bool launched(const KernelCall *call, const KernelBatchNorm *norm, Error *error) {
    CudaContext *cuda = call->context;
    if (norm->c == 0) return true;
    return cuda_launched(cuda, kernels_batch_norm(norm, cuda->compute), op_table[call->op].name, error);
}

bool kernel_batch_norm(const KernelCall *call, Error *error) {
    KernelBatchNorm norm = batch_of(call);
    norm.weight = call->in[1].data;
    norm.bias = call->in[2].data;
    norm.mean = call->out[1].data;
    norm.variance = call->out[2].data;
    return launched(call, &norm, error);
}

bool kernel_batch_norm_grad(const KernelCall *call, Error *error) {
    KernelBatchNorm norm = batch_of(call);
    norm.dy = call->in[1].data;
    norm.weight = call->in[2].data;
    norm.mean = call->in[3].data;
    norm.variance = call->in[4].data;
    norm.dweight = call->out[1].data;
    norm.dbias = call->out[2].data;
    return launched(call, &norm, error);
}
