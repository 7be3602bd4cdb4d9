/* views: what passes ask about tensors that kernels read or write by strides. */
#pragma once
#include "compiler/build.h"
#include "ir/gemm.h"

/* The sizes of a value on rank 0 as a kernel sees them: of one slice of the hidden dimension. */
Shape kernel_shape(const Build *b, int value);
/* Whether a product's library multiplies the same matrices where tensor A, B or OUT of it lies like this, and the others as they are. */
bool product_takes(const Build *b, const Node *product, int tensor, const Strided *at);
