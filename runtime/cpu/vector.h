/* vector: loops compiled for vectors of several widths; a process takes the widest that its processor has. All give the same digits: the
 * functions they call (functions.h) and the order of their sums do not depend on the width, so that ranks on unlike processors compute
 * alike. */
#pragma once
#include "runtime/cpu/elements.h"

/* `width` rows of n elements that are `inner` apart; contiguous ones (inner 1) one at a time. x: of a gradient y; dy: of a gradient, else
 * NULL. */
typedef void RowLoop(const void *x, const void *dy, void *out, int64_t n, int64_t inner, int64_t width);
enum { ROW_COLUMNS = 64 }; /* most rows of a call, where inner is not 1 */

typedef struct VectorLoops {
    ElementLoop *(*element)(OpCode op, const Attr *attr, DType in, DType out);
    RowLoop *(*row)(OpCode op, DType dtype, bool contiguous); /* of softmax, log_softmax and their gradients */
} VectorLoops;

/* How many of the variants this processor can run, and each of them: the first is for every processor, the last the widest. */
int vector_variants(void);
const VectorLoops *vector_variant(int i);
