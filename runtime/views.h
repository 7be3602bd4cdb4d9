/* views: tensors that are read or written where other tensors lie, by strides. */
#pragma once
#include "runtime/nest.h"

/* Elements of memory. */
typedef struct View {
    char *data;
    DType dtype;
    Strided at;
} View;

View view_of(const Operand *operand); /* row-major */
/* An operator whose results have its operand's elements and compute nothing; one whose result has them in their row-major order. */
bool op_places(OpCode op);
bool op_keeps_order(OpCode op);
/* The operand of such an operator becomes its result o. False where that needs more than a stride a dimension. */
bool view_result(const KernelCall *call, int o, View *view);
/* The result of a transpose, or of one that keeps the order, becomes its operand: what is written there arrives where the result lies. */
bool view_operand(const KernelCall *call, View *view);
/* The result's dimensions by the operand's letters; those that it does not have repeat it. */
void view_expand(View *view, const KernelCall *call);
