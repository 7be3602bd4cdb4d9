/* window: calls of conv2d, of the pools and of their gradients as planes (ir/window.h), as every backend's kernels take them. */
#pragma once
#include "ir/window.h"
#include "runtime/backend.h"

/* The operands and results of a call by their role, whichever of them it computes; w NULL: a pool. x is the tensor that windows lie over, y has an
 * element per window. For gradients of pools y is dy, and dx, which has the shape of x, is a result. */
typedef struct PlanesOf {
    Planes planes;
    const Operand *x, *w, *y;
} PlanesOf;
void planes_of(const KernelCall *call, PlanesOf *of);

/* What avg_pool divides the sum of a window by: the number of its taps within the plane, or within the plane and its padding. at: row and column of y. */
int64_t average_count(const Planes *planes, const int64_t *at, bool with_padding, int64_t divisor);
/* Whether a call of avg_pool or its gradient counts the padding. */
bool average_with_padding(const KernelCall *call);
int64_t average_divisor(const KernelCall *call); /* 0: average_count counts the taps */
