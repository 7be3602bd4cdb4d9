/* Products of two tensors over letters; contraction.c. */
#pragma once
#include "proof/field.h"

bool contraction_matmul(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool contraction_einsum(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
double contraction_work(const Node *node, const FieldTensor *in, const FieldTensor *out); /* in multiplications */
