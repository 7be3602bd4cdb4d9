/* table: which kernel computes which operator. A missing kernel is a link error. */
#include "runtime/cuda/cuda.h"

KernelFn *const cuda_kernels[NOPS] = {
#define OP(name, ...) [OP_##name] = kernel_##name,
#include "ir/ops.def"
#undef OP
};
