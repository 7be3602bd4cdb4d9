/* The index space that a kernel's loops run over, and how each tensor lies in it (walk.c); and the kernels of other files that the tables of semantics.c and tangent.c name. */
#pragma once
#include "proof/field.h"

enum { WALK_TENSORS = 9 }; /* an optimizer's: three results, six operands */
typedef struct Walk {
    int ndim, ntensors;
    bool empty;
    int64_t begin[MAX_NDIM], size[MAX_NDIM]; /* global indices */
    Fe *at[WALK_TENSORS];                    /* the element at begin */
    int64_t stride[WALK_TENSORS][MAX_NDIM];  /* 0: the same element all along the dimension */
} Walk;

/* One row of the innermost dimension: n elements of each tensor, at strides. */
typedef void WalkRow(const void *context, Fe *const *at, const int64_t *stride, int64_t n);

void walk_begin(Walk *walk, const Box *box); /* runs over the indices of this box */
/* Adds a tensor whose dimension d runs over the walk's dimension map[d] plus shift[d] (NULL: 0); map -1: it has the size 1 there. exact:
 * its box holds exactly the elements walked over; else it may hold more. False: its box lacks elements that are walked over. */
bool walk_add(Walk *walk, const FieldTensor *tensor, const int8_t *map, const int64_t *shift, bool exact, char *why, size_t n);
void walk_run(Walk *walk, WalkRow *row, const void *context); /* joins dimensions first, so no tensor can be added afterwards */
WalkRow walk_assign_row;                                      /* for two tensors: copies the second to the first */
void walk_assign(Walk *walk);                                 /* walks with this row */
/* One walk over all results, which have one box, and the operands, which broadcast to it; the results are the row's first tensors. */
bool walk_elements(const Node *node, const FieldTensor *in, FieldTensor *out, WalkRow *row, const void *context, char *why, size_t n);

/* Maps dimension d of a tensor to dimension d + (frame's ndim - t's ndim) of the frame, the hidden one to the first; to -1 where it has
 * size 1 and the frame's has not. */
bool map_right(const FieldTensor *t, const FieldTensor *frame, int8_t *map);
void map_same(int8_t *map);
/* The axes that an attribute names (left out: all), as dimensions of t, hidden one included. */
bool axes_marked(const Attr *axes, const FieldTensor *t, bool *marked);
/* Maps the dimensions of `narrow`, which lacks the marked ones or has them with size 1, to those of `wide`. */
bool map_narrow(const FieldTensor *narrow, const FieldTensor *wide, const bool *marked, int8_t *map);
/* The dimension that the node's attribute "axis" names, `otherwise` if it was left out; the hidden dimension is counted. -1: out of
 * range. */
int axis_of(const Node *node, int64_t otherwise, const FieldTensor *t);
bool field_fail(char *why, size_t n, const char *text); /* false */
void tensor_fill(const FieldTensor *t, Fe value);
void tensor_multiply(const FieldTensor *t, Fe factor);

/* ---------------------------------------------------------------- updates.c: rows of the table in semantics.c */

bool update_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);       /* sgd, momentum, adam, adamw */
bool table_update_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* embedding_sgd, lazy_adam */
bool clip_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);

/* ---------------------------------------------------------------- lookup.c: likewise */

bool pick_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);      /* and pick_grad */
bool embedding_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and embedding_grad */
bool one_hot_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool first_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and argmax */

/* Whether `wide` holds a row for each element of `narrow`: the row of element e begins at element e * length of wide. */
bool lookup_rows(const FieldTensor *wide, const FieldTensor *narrow, int64_t *length, int64_t *begin);
int64_t lookup_index(Fe index, int64_t begin, int64_t length); /* its position in [begin, begin + length); -1: outside */

/* ---------------------------------------------------------------- loss.c: likewise */

bool loss_rows_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* cross_entropy_rows */
bool loss_rows_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool loss_rows_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why,
                       size_t n); /* as norm_tangent */
bool cross_entropy_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);

/* ---------------------------------------------------------------- gather.c: likewise */

bool put_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool gather_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and gather_grad */
bool scatter_add_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool cumsum_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool topk_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool stack_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
/* For tangent.c: the derivative of topk in direction din. */
bool topk_tangent(const FieldTensor *in, const FieldTensor *din, const FieldTensor *out, FieldTensor *dout, char *why, size_t n);

/* ---------------------------------------------------------------- attention.c: likewise */

bool attention_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why,
                      size_t n); /* attention, attention_most, attention_sums */
bool attention_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
double attention_work(const Node *node, const FieldTensor *in); /* in multiplications */
/* For the three operators of attention_kernel, as norm_tangent. */
bool attention_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n);

/* ---------------------------------------------------------------- rope.c: likewise */

bool rope_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);

/* ---------------------------------------------------------------- batchnorm.c: likewise */

bool batch_norm_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
bool batch_norm_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);
/* As norm_tangent. */
bool batch_norm_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n);

/* ---------------------------------------------------------------- norm.c: likewise */

bool norm_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n);      /* layer_norm, rms_norm */
bool norm_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n); /* and their gradients */
/* For tangent.c: the derivative in direction din, whose elements may be NULL. */
bool norm_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n);
