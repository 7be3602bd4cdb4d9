/* rope: rotary positions: arguments for rope.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

bool kernel_rope(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0];
    const int places = x->local.ndim - 2;
    KernelRope rope = {.x = x->data,
                       .out = call->out[0].data,
                       .first = x->box.begin[places],
                       .places = x->local.dim[places],
                       .pairs = x->local.dim[places + 1] / 2,
                       .base = call->attr[0].given ? call->attr[0].f : 10000,
                       .sign = call->attr[1].i ? -1 : 1,
                       .dtype = (int)x->dtype};
    rope.rows = shape_elements(&x->local) / (2 * rope.pairs);
    return rope.rows == 0 || cuda_launched(cuda, kernels_rope(&rope, cuda->compute), "rope", error);
}
