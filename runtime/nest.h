/* nest: the loop nests of kernel calls. Kernels of every backend are written over them. */
#pragma once
#include "ir/loops.h"
#include "runtime/backend.h"

/* The loops over the result's dimensions; tensor 0 is the result, 1 + i operand i, aligned right and broadcast where of size 1. */
void nest_broadcast(Nest *nest, const KernelCall *call);
/* The loops over in[0]'s dimensions; tensor 0 is the result with stride 0 along dimensions that it does not have (by letters), tensor 1
 * in[0]. reduced: the product of the global sizes of those dimensions. */
void nest_reduce(Nest *nest, const KernelCall *call, double *reduced);
/* The loops over the result's dimensions; tensor 0 is the result, tensor 1 in[0] with stride 0 along dimensions that it does not have. */
void nest_expand(Nest *nest, const KernelCall *call);
/* For replicate, where only the result has the hidden dimension, in front: tensor 0 is the result, tensor 1 the operand, the same for each replica. For
 * replica_sum, where only the operand has it: tensor 0 is the result, tensor 1 the operand; not merged, as nest_reduce's. */
void nest_replicate(Nest *nest, const KernelCall *call);
void nest_replica_sum(Nest *nest, const KernelCall *call);
/* For reshape and other operators that keep every element in place: the rule keeps only splits that divide, so the local elements too keep their row-major
 * order. Tensor 0 is the result, tensor 1 the operand. False where their numbers of elements differ: *error, EXIT_INTERNAL. */
bool nest_reshape(Nest *nest, const KernelCall *call, Error *error);
/* The loops over a box of this shape that is part of both tensors, wherever it begins in each; tensor 0 is out, tensor 1 in. */
void nest_box(Nest *nest, const Shape *box, const Operand *out, const Operand *in);

/* Divides nest_reduce's nest, which it merges: kept has the loops of the result (tensor 0 the result, tensor 1 the operand), gone the
 * others (tensor 0 the operand). Returns whether the operand's innermost loop is a kept one of more than one item: columns in a row. */
bool nest_divide(Nest *nest, Nest *kept, Nest *gone);
