/* gather: operators along one axis: arguments for gather.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/parts.h"

static KernelGather gather_of(const Operand *wide, const Operand *index, const Operand *narrow, const Attr *axis) {
    const Lines lines = lines_of(&wide->local, attr_axis(axis, -1, wide->local.ndim));
    KernelGather gather = {
        .index = {index->data, shape_elements(&index->local), wide->box.begin[lines.axis], lines.length, index->dtype == I64},
        .wide = wide->data,
        .narrow = narrow->data,
        .outer = lines.outer,
        .n = narrow->local.dim[lines.axis],
        .each = 1,
        .width = 1,
        .dtype = (int)wide->dtype};
    for (int d = lines.axis + 1; d < wide->local.ndim; d++)
        *(d < index->local.ndim ? &gather.each : &gather.width) *= wide->local.dim[d];
    return gather;
}

bool kernel_gather(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const KernelGather gather = gather_of(&call->in[0], &call->in[1], &call->out[0], &call->attr[0]);
    if (shape_elements(&call->out[0].local) == 0) return true;
    return cuda_launched(cuda, kernels_gather(&gather, cuda->compute), "gather", error);
}

bool kernel_gather_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const KernelGather gather = gather_of(&call->out[0], &call->in[1], &call->in[0], &call->attr[1]);
    if (shape_elements(&call->out[0].local) == 0) return true;
    return cuda_launched(cuda, kernels_gather_grad(&gather, cuda->compute), "gather_grad", error);
}

bool kernel_put(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0], *index = &call->in[2], *out = &call->out[0];
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    const int64_t bytes = shape_elements(&x->local) * dtype_bytes[x->dtype];
    const KernelGather put = {
        .index = {index->data, shape_elements(&index->local), x->box.begin[lines.axis], lines.length, index->dtype == I64},
        .wide = out->data,
        .narrow = call->in[1].data,
        .outer = lines.outer,
        .n = index->local.dim[0],
        .each = 1,
        .width = lines.inner,
        .dtype = (int)x->dtype};
    if (bytes == 0) return true;
    if (out->data != x->data && !cuda_ok(cuda, cudaMemcpyAsync(out->data, x->data, (size_t)bytes, cudaMemcpyDeviceToDevice, cuda->compute),
                                         "copying what rows are put into", error))
        return false;
    return cuda_launched(cuda, kernels_put(&put, cuda->compute), "put", error);
}

bool kernel_cumsum(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0];
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    const KernelCumsum cumsum = {.x = x->data,
                                 .out = call->out[0].data,
                                 .outer = lines.outer,
                                 .length = lines.length,
                                 .inner = lines.inner,
                                 .reverse = call->attr[1].i != 0,
                                 .exclusive = call->attr[2].i != 0,
                                 .dtype = (int)x->dtype};
    if (shape_elements(&x->local) == 0) return true;
    return cuda_launched(cuda, kernels_cumsum(&cumsum, cuda->compute), "cumsum", error);
}

bool kernel_topk(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0], *values = &call->out[0];
    const int last = x->local.ndim - 1;
    const KernelTopk topk = {.x = x->data,
                             .values = values->data,
                             .indices = call->out[1].data,
                             .rows = shape_elements(&x->local) / x->local.dim[last],
                             .length = x->local.dim[last],
                             .k = values->local.dim[last],
                             .dtype = (int)x->dtype};
    return topk.rows == 0 || cuda_launched(cuda, kernels_topk(&topk, cuda->compute), "topk", error);
}
