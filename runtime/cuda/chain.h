/* chain: programs of fused steps, and runs of updates, as one launch. */
#pragma once
#include "runtime/chain.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

/* The launch of a program, without its reduction. False: it cannot be one launch, because of numbers of several types, too many operands or
 * values, or an operand that is better copied into order first. */
bool chain_launch(ChainLaunch *launch, const Chain *chain);

/* Whether a call is a cast between f32 and 16 bits, which has a kernel of its own: update.c. */
bool cast_is_plain(const KernelCall *call);
bool cast_run(const KernelCall *call, Error *error);
/* As DeviceQueue.fuse, for runs of updates, or of casts, of several tensors: update.c. */
int update_fuse(CudaContext *cuda, const KernelCall *calls, int n, CudaFused **fused, Error *error);
