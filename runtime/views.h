/* views: tensors that are read or written in the memory of other tensors, by strides. */
#pragma once
#include "runtime/nest.h"

/* Elements of memory, addressed by strides. */
typedef struct View {
    char *data;
    DType dtype;
    Strided at;
} View;

View view_of(const Operand *operand); /* row-major */
/* Whether an operator only places its operand's elements and computes nothing; whether its result has them in the same row-major order. */
bool op_places(OpCode op);
bool op_keeps_order(OpCode op);
/* For such an operator: makes a view of its operand one of its result o. False where that needs more than one stride per dimension. */
bool view_result(const KernelCall *call, int o, View *view);
/* For a transpose, or an operator that keeps the order: makes a view of its result one of its operand: what is written there arrives in the result. */
bool view_operand(const KernelCall *call, View *view);
/* Gives the view of the operand the result's dimensions, by letters; along those that it does not have it is repeated. */
void view_expand(View *view, const KernelCall *call);
