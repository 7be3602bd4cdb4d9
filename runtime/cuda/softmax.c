/* softmax: softmax, its logarithm and their gradients along an axis that is not split: arguments for softmax.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/parts.h"

static bool rows(const KernelCall *call, KernelRows which, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0];
    if (shape_elements(&x->local) == 0) return true;
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    const void *dy = call->nin > 1 ? call->in[1].data : x->data;
    cudaError_t status =
        kernels_rows(call->out[0].data, x->data, dy, which, (int)x->dtype, lines.outer, lines.length, lines.inner, cuda->compute);
    return cuda_launched(cuda, status, op_table[call->op].name, error);
}

bool kernel_softmax(const KernelCall *call, Error *error) {
    return rows(call, ROWS_SOFTMAX, error);
}

bool kernel_log_softmax(const KernelCall *call, Error *error) {
    return rows(call, ROWS_LOG_SOFTMAX, error);
}

bool kernel_softmax_grad(const KernelCall *call, Error *error) {
    return rows(call, ROWS_SOFTMAX_GRAD, error);
}

bool kernel_log_softmax_grad(const KernelCall *call, Error *error) {
    return rows(call, ROWS_LOG_SOFTMAX_GRAD, error);
}
