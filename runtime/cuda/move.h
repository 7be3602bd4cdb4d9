/* move: converts loops to kernel arguments. */
#pragma once
#include "runtime/cuda/kernels.h"
#include "runtime/nest.h"

/* The nest's loops over two of its tensors. It is merged. */
void loops_of(KernelLoops *loops, const Nest *nest, int first, int second);
