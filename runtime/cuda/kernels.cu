/* kernels: the device code of the operators, one translation unit. It is independent of plans; kernels.h documents each function's arguments. */
#include <cuda_runtime.h>

#include "runtime/cuda/kernels.h"

/* Tests compile this file with an ordinary C++ compiler for a stand-in device, which has its own LAUNCH. */
#ifndef LAUNCH
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#endif

#include "runtime/cuda/common.cuh"
#include "runtime/cuda/half.cuh"
#include "runtime/cuda/elementwise.cuh"
#include "runtime/cuda/chain.cuh"
#include "runtime/cuda/update.cuh"
#include "runtime/cuda/casts.cuh"
#include "runtime/cuda/move.cuh"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/softmax.cuh"
#include "runtime/cuda/tensor.cuh"
#include "runtime/cuda/attention.cuh"
#include "runtime/cuda/rope.cuh"
#include "runtime/cuda/norm.cuh"
#include "runtime/cuda/batchnorm.cuh"
#include "runtime/cuda/lookup.cuh"
#include "runtime/cuda/loss.cuh"
#include "runtime/cuda/gather.cuh"
#include "runtime/cuda/pull.cuh"
#include "runtime/cuda/random.cuh"
#include "runtime/cuda/conv.cuh"
#include "runtime/cuda/pool.cuh"
#include "runtime/cuda/window.cuh"
#include "runtime/cuda/matmul.cuh"
#include "runtime/cuda/pitch.cuh"
