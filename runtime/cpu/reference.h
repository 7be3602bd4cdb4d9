/* reference: what the plain kernels share. They read and write elements one by one as doubles (exact for all element types) and find them
 * by multi-index, without strides, merging or blocks. */
#pragma once
#include "runtime/cpu/cpu.h"

double element_get(const Operand *operand, int64_t index);
void element_set(const Operand *operand, int64_t index, double value); /* integers: saturated */
/* Row-major position in an operand's box of the element at a local multi-index; sizes of 1 that the result does not share are broadcast. */
int64_t position_broadcast(const Operand *operand, const Shape *result, const int64_t *index);
/* Position of the element whose dimensions run over the factors of `map`, each at at[factor]; dimensions without a factor at 0. */
int64_t position_of_factors(const Operand *operand, const int8_t *map, const int64_t *at);
/* Splits a row-major position into a multi-index. */
void index_of(const Shape *shape, int64_t position, int64_t *index);
/* Local size of every factor of the rule, from the boxes of those that have it; 1 where only dimensions without factor do. */
void factor_sizes(const KernelCall *call, int64_t *sizes);
