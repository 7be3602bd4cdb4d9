/* elementwise: elementwise operators, with broadcasting. Each is a chain of one (chain.c), so an operator gives the same bits alone and in a
 * chain. Casts between f32 and 16 bits have a kernel of their own, which rounds in the same way. */
#include "runtime/cuda/chain.h"

static bool elementwise(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const unsigned inner = 0;
    Chain chain;
    ChainLaunch launch;
    if (shape_elements(&call->out[0].local) == 0) return true;
    if (cast_is_plain(call)) return cast_run(call, error);
    if (!chain_build(&chain, call, 1, &inner) || !chain_launch(&launch, &chain))
        return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s, or for how its operands lie", op_table[call->op].name,
                         dtype_name[call->in[call->nin - 1].dtype]);
    return cuda_launched(cuda, kernels_chain(&launch, cuda->compute), op_table[call->op].name, error);
}

#define ELEMENTWISE(name)                                                                                                                  \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return elementwise(call, error);                                                                                                   \
    }
#include "ir/elementwise.def"
