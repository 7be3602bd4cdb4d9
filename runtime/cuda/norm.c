/* norm: layer_norm, rms_norm, batch_norm and their gradients: launches of norm.cuh and batchnorm.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

static bool norm(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const NormCall norm = norm_call(call);
    if (norm.dy == NULL && norm.rows == 0) return true;
    return cuda_launched(cuda, kernels_norm(&norm, cuda->scratch, SCRATCH_BYTES, cuda->compute), op_table[call->op].name, error);
}

bool kernel_layer_norm(const KernelCall *call, Error *error) {
    return norm(call, error);
}
bool kernel_rms_norm(const KernelCall *call, Error *error) {
    return norm(call, error);
}
bool kernel_layer_norm_grad(const KernelCall *call, Error *error) {
    return norm(call, error);
}
bool kernel_rms_norm_grad(const KernelCall *call, Error *error) {
    return norm(call, error);
}

static bool batch_norm(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const BatchNormCall norm = batch_norm_call(call);
    return norm.c == 0 ||
           cuda_launched(cuda, kernels_batch_norm(&norm, cuda->scratch, SCRATCH_BYTES, cuda->compute), op_table[call->op].name, error);
}

bool kernel_batch_norm(const KernelCall *call, Error *error) {
    return batch_norm(call, error);
}
bool kernel_batch_norm_grad(const KernelCall *call, Error *error) {
    return batch_norm(call, error);
}
