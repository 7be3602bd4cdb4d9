/* module_kernels: the module's kernels for an ordinary C++ compiler. */
#include "runtime/cuda/kernels.cu"
