/* loops: nested loops over several tensors at once, and the strides of tensors that are read as views of others. */
#pragma once
#include "ir/op.h"

enum { MAX_NEST = 4 }; /* tensors in one nest */
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

/* A tensor read as a view of another: its shape, and for each dimension its stride there, in elements. */
typedef struct Strided {
    Shape shape;
    int64_t stride[MAX_NDIM];
} Strided;
Strided strided_of(const Shape *shape); /* row-major */
/* Gives the same elements, in row-major order, another shape. False where one stride per dimension does not suffice. */
bool strided_reshape(Strided *at, const Shape *shape);
/* Makes *at a tensor of this shape: each of its letters takes its stride from the same letter of *at; letters that *at lacks repeat it. */
void strided_letters(Strided *at, const int8_t *letters, const Shape *shape, const int8_t *own_letters);
/* Makes *at, the operand of an operator that places its elements (Op.places), its result of this shape, except for the offset. False as above. */
bool strided_result(Strided *at, OpCode op, const Rule *rule, const Shape *shape);
