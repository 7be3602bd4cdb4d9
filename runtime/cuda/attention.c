/* attention: attention, what it is taken apart into, and its gradient: launches of attention.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

static bool attend(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const AttentionCall a = attention_call(call);
    if (a.dy == NULL && a.queries == 0) return true;
    return cuda_launched(cuda, kernels_attention(&a, cuda->compute), op_table[call->op].name, error);
}

bool kernel_dot_product_attention(const KernelCall *call, Error *error) {
    return attend(call, error);
}
bool kernel_attention_most(const KernelCall *call, Error *error) {
    return attend(call, error);
}
bool kernel_attention_sums(const KernelCall *call, Error *error) {
    return attend(call, error);
}
bool kernel_attention_grad(const KernelCall *call, Error *error) {
    return attend(call, error);
}
