/* elements: the loops of elementwise operators. A loop computes n elements of a result from operands that are contiguous, or one number that
 * all elements share. Kernels (elementwise.c) and fused chains call the same loops, so they get the same digits. */
#pragma once
#include "ir/op.h"

/* out[i] = f(in[0][i * stride[0]], ...). Strides are 0 or 1. The result may lie in the storage of an operand of stride 1 and of its element
 * type. attr: the operator's. */
typedef void ElementLoop(void *out, const void *const *in, const int64_t *stride, const Attr *attr, int64_t n);

/* The loop of an operator with these attributes. in: element type of its last operand; out: of the result. NULL: the operator is not
 * elementwise, or not for these types. */
ElementLoop *element_loop(OpCode op, const Attr *attr, DType in, DType out);
