/* norm: layer_norm, rms_norm and their gradients over whole rows: arguments for norm.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

static bool norm(const KernelCall *call, bool centered, bool gradient, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0], *weight = &call->in[gradient ? 2 : 1];
    const int64_t n = shape_elements(&weight->local);
    const Operand *numbers = gradient ? &call->in[3] : &call->out[1]; /* the mean, where there is one, and the root */
    const KernelNorm args = {.x = x->data,
                             .dy = gradient ? call->in[1].data : NULL,
                             .weight = weight->data,
                             .bias = centered && !gradient ? call->in[2].data : NULL,
                             .out = call->out[0].data,
                             .mean = centered ? numbers[0].data : NULL,
                             .root = numbers[centered].data,
                             .dweight = gradient ? call->out[1].data : NULL,
                             .dbias = centered && gradient ? call->out[2].data : NULL,
                             .rows = shape_elements(&x->local) / n,
                             .n = n,
                             .eps = call->attr[0].f,
                             .dtype = (int)x->dtype};
    if (!gradient && args.rows == 0) return true;
    return cuda_launched(cuda, kernels_norm(&args, cuda->scratch, SCRATCH_BYTES, cuda->compute), op_table[call->op].name, error);
}

bool kernel_layer_norm(const KernelCall *call, Error *error) {
    return norm(call, true, false, error);
}

bool kernel_rms_norm(const KernelCall *call, Error *error) {
    return norm(call, false, false, error);
}

bool kernel_layer_norm_grad(const KernelCall *call, Error *error) {
    return norm(call, true, true, error);
}

bool kernel_rms_norm_grad(const KernelCall *call, Error *error) {
    return norm(call, false, true, error);
}
