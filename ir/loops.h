/* loops: nested loops over several tensors at once, and where the elements of a tensor lie that is read through others. */
#pragma once
#include "ir/op.h"

enum { MAX_NEST = 4 }; /* tensors gone through together */
/* Nested loops over `ndim` sizes, outermost first, with each tensor's stride in elements. Loops of one item are dropped and loops that are
 * one run in every tensor are merged; there is always at least one loop. */
typedef struct Nest {
    int ndim, ntensors;
    int64_t size[MAX_FACTORS + MAX_NDIM];
    int64_t stride[MAX_NEST][MAX_FACTORS + MAX_NDIM];
} Nest;
void nest_init(Nest *nest, int ntensors);
void nest_push(Nest *nest, int64_t size, const int64_t *strides); /* as the innermost loop so far; one stride a tensor */
void nest_merge(Nest *nest);
int64_t nest_count(const Nest *nest, int first, int end); /* product of the sizes of loops [first, end) */
/* Offset in each tensor of iteration `index` of the loops [0, nloops), in row-major order. */
void nest_offsets(const Nest *nest, int nloops, int64_t index, int64_t *offsets);

void strides_of(const Shape *shape, int64_t *strides); /* row-major, in elements */

/* A tensor read where another lies: its strides there, in elements, as those of its dimensions. */
typedef struct Strided {
    Shape shape;
    int64_t stride[MAX_NDIM];
} Strided;
Strided strided_of(const Shape *shape); /* row-major */
/* The same elements in row-major order under another shape. False where that needs more than a stride a dimension. */
bool strided_reshape(Strided *at, const Shape *shape);
/* The dimensions of a tensor of this shape by the letters of the one that lies there; those that that does not have repeat it. */
void strided_letters(Strided *at, const int8_t *letters, const Shape *shape, const int8_t *own_letters);
/* A result, of this shape, of an operator that places its operand's elements (Op.places), but for where it begins. False as above. */
bool strided_result(Strided *at, OpCode op, const Rule *rule, const Shape *shape);
