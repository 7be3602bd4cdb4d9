/* random: inputs of random numbers: arguments for random.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

bool cuda_uniform(void *context, const Operand *to, const Numbers *numbers, Error *error) {
    CudaContext *cuda = context;
    KernelUniform uniform = {.out = to->data,
                             .dtype = (int)to->dtype,
                             .ndim = to->local.ndim,
                             .n = shape_elements(&to->local),
                             .key = numbers->key,
                             .first = numbers->first,
                             .row_dim = numbers->row_dim,
                             .row_length = numbers->row_length,
                             .replica_rows = numbers->replica_rows,
                             .share = numbers->share,
                             .world = numbers->world};
    for (int d = 0; d < to->local.ndim; d++) {
        uniform.size[d] = to->local.dim[d];
        uniform.begin[d] = to->box.begin[d];
        uniform.stride[d] = numbers->stride[d];
    }
    return cuda_launched(cuda, kernels_uniform(&uniform, cuda->compute), "uniform", error);
}
