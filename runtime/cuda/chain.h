/* chain: runs of elementwise calls as programs for one launch. */
#pragma once
#include "runtime/backend.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"

/* The program of the first n calls, of elementwise operators and of views (transpose, reshape, slice, split, expansions, ...), which cost
 * nothing: they become strides of the operands that are read through them. last_read as in DeviceQueue.fuse: results that only the program
 * reads are not stored. False where the calls are no one program: other sizes or element types, too many operands, or memory that one
 * element's thread would write while another's has yet to read it. */
bool chain_build(ChainProgram *program, const KernelCall *calls, int n, const int *last_read);

/* As DeviceQueue.fuse, for runs of updates of several tensors: update.c. */
int update_fuse(CudaContext *cuda, const KernelCall *calls, int n, CudaFused **fused, Error *error);
