/* lookup: operators that look elements up by integers: arguments for lookup.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/element.h"

/* The indices, and what part of dimension d of the tensor that they point into is here. */
static KernelIndex index_of(const Operand *index, const Operand *into, int d) {
    return (KernelIndex){index->data, shape_elements(&index->local), into->box.begin[d], into->local.dim[d], index->dtype == I64};
}

bool kernel_pick(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0], *out = &call->out[0];
    KernelIndex index = index_of(&call->in[1], x, x->local.ndim - 1);
    return cuda_launched(cuda, kernels_pick(out->data, x->data, &index, dtype_bytes[out->dtype], cuda->compute), "pick", error);
}

bool kernel_pick_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    KernelIndex index = index_of(&call->in[1], out, out->local.ndim - 1);
    return cuda_launched(cuda, kernels_place(out->data, call->in[0].data, 0, &index, dtype_bytes[out->dtype], cuda->compute), "pick_grad",
                         error);
}

bool kernel_one_hot(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    KernelIndex index = index_of(&call->in[0], out, out->local.ndim - 1);
    uint64_t one = 0;
    element_put(&one, out->dtype, 0, 1);
    return cuda_launched(cuda, kernels_place(out->data, NULL, one, &index, dtype_bytes[out->dtype], cuda->compute), "one_hot", error);
}

bool kernel_embedding(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *table = &call->in[0], *out = &call->out[0];
    KernelIndex index = index_of(&call->in[1], table, 0);
    return cuda_launched(cuda, kernels_lookup(out->data, table->data, &index, table->local.dim[1], dtype_bytes[out->dtype], cuda->compute),
                         "embedding", error);
}

bool kernel_embedding_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *dy = &call->in[0], *table = &call->out[0];
    KernelIndex index = index_of(&call->in[1], table, 0);
    cudaError_t status =
        kernels_lookup_grad(table->data, dy->data, &index, table->local.dim[1], (int)table->dtype, cuda->nprocessors, cuda->compute);
    return cuda_launched(cuda, status, "embedding_grad", error);
}
