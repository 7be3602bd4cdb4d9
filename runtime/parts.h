/* parts: where the parts of tensors lie that operators cut out or work along, for kernels of every backend. Indices are local: they count from the first
 * element of the rank's box. */
#pragma once
#include "runtime/backend.h"

/* The dimension that an attribute names; below 0 it counts from the end; `otherwise` where the attribute is not given. */
int attr_axis(const Attr *axis, int otherwise, int ndim);

/* A tensor along its dimension `axis`: element i of line (o, k) is element (o * length + i) * inner + k. */
typedef struct Lines {
    int axis;
    int64_t outer, length, inner;
} Lines;
Lines lines_of(const Shape *shape, int axis);

/* Where the box of a slice begins in that of the tensor that it is cut from; `begin` is slice's attribute. For a padded tensor it may begin behind the tensor's box. */
void slice_begin(const Attr *begin, const Operand *whole, const Operand *slice, int64_t *at);
/* The common part of the boxes of a tensor and of a slice of it: makes both begin there; *shape: its shape. False: there is none. */
bool slice_common(const Attr *begin, Operand *whole, Operand *slice, Shape *shape);
/* The same for a tensor and part k of those that are concatenated in it along `axis`. */
bool joint_common(const Operand *parts, int k, int axis, Operand *whole, Operand *part, Shape *shape);
/* Where out[0]'s box begins in in[0]'s: a conversion that needs no communication. False where it is not within it: *error, EXIT_INTERNAL. */
bool convert_begin(const KernelCall *call, int64_t *at, Error *error);
/* in[0] from there on; unchanged where the result has no elements. */
bool convert_operand(const KernelCall *call, Operand *from, Error *error);
/* The operand with its data from the element at these indices on: a box of it that begins there, in the operand's own strides. */
Operand operand_from(const Operand *whole, const int64_t *at);
