/* cut.c: slice, slice_grad, concat and split, for the tables of operators.c and semantics.c. */
#pragma once
#include "proof/internal.h"
#include "proof/walk.h"

bool cut_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n);
/* As windowed_reach, of dimension `dim` of an operand of slice, slice_grad or concat, hidden dimension counted. */
bool cut_reach(const Graph *graph, const Node *node, int operand, int dim, int64_t begin, int64_t end, int64_t from, int64_t to);
bool slice_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and slice_grad */
bool join_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);  /* concat, split */
