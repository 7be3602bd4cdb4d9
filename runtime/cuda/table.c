/* table: which kernel computes which operator. A row of the operator table without a kernel does not link. */
#include "runtime/cuda/cuda.h"

KernelFn *const cuda_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = kernel_##name,
#include "ir/ops.def"
#undef OP
};
