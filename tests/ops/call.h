/* call: calls of one operator's kernel, over whole tensors or over parts of them: the rule that is inferred says what boxes go together. */
#pragma once
#include "runtime/backend.h"
#include "tests/ops/parts.h"
#include "tests/random.h"

/* The element type of an operand where those that may be of any are dtype: indices are i32 beside f32, else i64. */
DType call_dtype(OpCode op, int operand, DType dtype);
/* Infers the rule of call's operator on operands of these types (call->op, attr and nin are set), and gives operands and results their boxes and memory of
 * exactly their size, of malloc, with nothing in it yet. whole: the boxes are the tensors; else each factor runs over a random part. A test in which the
 * operator does not take the operands fails. */
void call_open(KernelCall *call, const TensorType *types, Rule *rule, bool whole, uint64_t *random);
void call_close(KernelCall *call); /* frees what operands and results have */

int64_t random_below(uint64_t *state, int64_t n); /* [0, n) */
bool random_chance(uint64_t *state, int percent);
/* A shape of at most max_ndim dimensions and max elements. */
Shape random_shape(uint64_t *state, int max_ndim, int64_t max);
/* A tensor that is all here, at data. */
Operand operand_at(void *data, DType dtype, const Shape *shape);
/* Fills an operand with numbers of [-3, 3], or (special) with those that are on edges: nan, infinities, the ends of a range. */
void operand_fill(const Operand *operand, uint64_t *random, bool special);
