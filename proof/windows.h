/* windows.c: the operators over planes, for the tables of operators.c, semantics.c and tangent.c, and for adjoints.c and shrink.c. */
#pragma once
#include "proof/internal.h"
#include "proof/walk.h"

bool is_windowed(OpCode op); /* conv2d, the pools, and their gradients */
bool windowed_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n);
/* Whether part [begin, end) of the letter of dimension d of the planes needs no element outside [from, to) of an operand that is read
 * through windows. */
bool windowed_reach(const Graph *graph, const Node *node, int operand, int d, int64_t begin, int64_t end, int64_t from, int64_t to);
/* Shrinks height and width to the smallest sizes with windows at both ends and between, or, where letter[d] is not 0, to the size that
 * gives their letter that size; and groups to few channels. shape: those of operands, then results, NULL where there is none; dimensions
 * with letters are small in them already, and for groups that is their number. attr: has groups. */
void windowed_shrink(const Graph *graph, const Node *node, const int64_t *letter, Shape *const *shape, Attr *attr);
/* Whether the letter of dimension d of the planes can have this size, such that there are windows. */
bool windowed_small(const Graph *graph, const Node *node, int d, int64_t letter);
double windowed_work(const Node *node, const FieldTensor *in, const FieldTensor *out);

bool conv_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);     /* conv2d and its gradients */
bool max_pool_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and max_pool_grad */
bool avg_pool_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and avg_pool_grad */
bool max_pool_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n);
bool spaced_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* pad, upsample */
