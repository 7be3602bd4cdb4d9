/* random: inputs of random numbers: arguments for random.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

bool cuda_uniform(void *context, const Operand *to, uint64_t key, uint64_t first, Error *error) {
    CudaContext *cuda = context;
    KernelUniform uniform = {
        .out = to->data, .dtype = (int)to->dtype, .ndim = to->local.ndim, .n = shape_elements(&to->local), .key = key, .first = first};
    int64_t stride = 1;
    for (int d = to->local.ndim - 1; d >= 0; d--) {
        uniform.size[d] = to->local.dim[d];
        uniform.stride[d] = stride;
        uniform.first += (uint64_t)(to->box.begin[d] * stride);
        stride *= to->global.dim[d];
    }
    return cuda_launched(cuda, kernels_uniform(&uniform, cuda->compute), "uniform", error);
}
