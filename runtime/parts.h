/* parts: where the parts lie that operators cut out of tensors, or work along. Kernels of every backend ask it. Indices are local: they count from the first
 * element of the rank's box. */
#pragma once
#include "runtime/backend.h"

/* The dimension that an attribute names, which below 0 counts from behind the last; `otherwise` where the attribute is left out. */
int attr_axis(const Attr *axis, int otherwise, int ndim);

/* A tensor along its dimension `axis`: element i of line (o, k) is element (o * length + i) * inner + k. */
typedef struct Lines {
    int axis;
    int64_t outer, length, inner;
} Lines;
Lines lines_of(const Shape *shape, int axis);

/* Where the box of a slice begins in that of the tensor that it is cut out of; `begin` is slice's attribute. Of a tensor that is padded the box may begin behind that. */
void slice_begin(const Attr *begin, const Operand *whole, const Operand *slice, int64_t *at);
/* What the boxes of a tensor and of a slice of it have in common: both from there on, and its shape. False: nothing. */
bool slice_common(const Attr *begin, Operand *whole, Operand *slice, Shape *shape);
/* The same of a tensor and of part k of those that stand behind each other in it along `axis`. */
bool joint_common(const Operand *parts, int k, int axis, Operand *whole, Operand *part, Shape *shape);
/* Where out[0]'s box begins in in[0]'s: a conversion that needs no communication. False where it is not within it: *error, EXIT_INTERNAL. */
bool convert_begin(const KernelCall *call, int64_t *at, Error *error);
/* in[0] from there on; as it is where the result has no elements. */
bool convert_operand(const KernelCall *call, Operand *from, Error *error);
/* The operand with its data from the element at these indices on: a box of it that begins there, in the operand's own strides. */
Operand operand_from(const Operand *whole, const int64_t *at);
