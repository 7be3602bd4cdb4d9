/* reference: what the plain kernels share. They read and write elements one by one, as doubles or as integers, and locate
 * them by multi-index, without strides, merging or blocks. */
#pragma once
#include "runtime/cpu/cpu.h"

double element_get(const Operand *operand, int64_t index);
void element_set(const Operand *operand, int64_t index, double value); /* integers: truncated and saturated */
/* Elements of integers and bools, exactly: as unsigned integers, modulo 2^64. */
uint64_t integer_get(const Operand *operand, int64_t index);
void integer_set(const Operand *operand, int64_t index, uint64_t value);                      /* i32: the low bits */
void element_copy(const Operand *to, int64_t index, const Operand *from, int64_t from_index); /* of one element type */
bool element_less(const Operand *operand, int64_t a,
                  int64_t b); /* whether element a is less than element b; false if either of the two is a nan */
/* Row-major position in an operand's box of the element at a local multi-index; sizes of 1 that the result does not share are broadcast. */
int64_t position_broadcast(const Operand *operand, const Shape *result, const int64_t *index);
/* Position of the element whose dimensions run over the factors of `map`, each at at[factor]; dimensions without a factor at 0. */
int64_t position_of_factors(const Operand *operand, const int8_t *map, const int64_t *at);
/* Splits a row-major position into a multi-index. */
void index_of(const Shape *shape, int64_t position, int64_t *index);
/* Local size of every factor of the rule, from the boxes of operands and results that have it; 1 for a factor that none has. */
void factor_sizes(const KernelCall *call, int64_t *sizes);
