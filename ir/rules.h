/* The functions that ops.def names. Rules: RuleFn of op.h, on operand types without the hidden dimension; attributes by their position in
 * the row. Adjoints and expansions: AdjointFn, ExpandFn of op.h.
 *
 *   rule.c     the table, letters, rule_infer; signature.c: its results, kept once
 *   shapes.c   rules that depend on attributes
 *   cut.c      rules of operators that cut tensors, pad them, join them, or work along rows
 *   lookup.c   rules of operators that look elements up by index
 * adjoint.c  gradients, expansions
 *   softmax.c  expansions of operators on rows that are split
 * norm.c     layer_norm, rms_norm: rules, gradients, expansions; batchnorm.c: batch_norm likewise
 * attention.c  attention: likewise; rope.c: rope
 * gather.c   gather, scatter_add, put, cumsum, topk, stack: rules, gradients, expansions
 * windows.c  conv2d, pools: rules, gradients; upsample: its expansion
 */
#pragma once
#include "ir/op.h"

/* Dimensions that a user's tensor may have: the hidden one needs room too. */
enum { MAX_USER_NDIM = MAX_NDIM - 1 };
/* Elements of a tensor, at most: 2^48. */
#define MAX_ELEMENTS ((int64_t)1 << 48)

/* ---- rule.c */

/* Fills *error (may be NULL) and returns false. operand, attr: the one at fault, or -1. %%0 in format gives "%0" in the text. */
bool rule_reject(RuleError *error, int operand, int attr, const char *format, ...) PRINTF_LIKE(4, 5);
/* Adds a hint to a filled *error. */
void rule_hint(RuleError *error, const char *format, ...) PRINTF_LIKE(2, 3);
/* "[16, 32]" in text, which it returns. */
enum { SHAPE_TEXT_BYTES = 24 * MAX_NDIM };
const char *shape_text(const Shape *shape, char text[SHAPE_TEXT_BYTES]);
/* What a part of the factor of dimension `dim` of an operand of so many dimensions needs of it. */
void rule_need_halo(Rule *rule, int operand, int ndim, int dim, Halo halo);
/* Adds a factor, returns its number. */
int rule_add_factor(Rule *rule, int64_t size);
void rule_expands(Rule *rule, int factor, int reductions); /* marks a factor whose split expands the operator, into so many reductions */
int looked_up(Rule *rule, int factor);                     /* marks a factor from whose elements an index selects; returns it */
/* The rule of a leaf: every dimension, including the hidden one, is a factor. */
void rule_of_leaf(const TensorType *type, Rule *rule);
/* Whether two rules for nodes with these numbers of operands are the same, result types included. */
bool rule_equal(const Rule *a, const Rule *b, const TensorType *in, int nin, int nout);

/* ---- signature.c */

typedef struct Signature {
    OpCode op;
    int nin;
    TensorType in[MAX_IN]; /* of a leaf in[0] is the type of its result */
    Attr attr[MAX_ATTRS];
    Rule rule;
} Signature;
struct Signatures *signatures_create(Arena *arena);
struct Signatures *signatures_fork(const struct Signatures *signatures, Arena *arena);
void *table_fork(Arena *arena, const void *at, size_t bytes); /* a copy of so many bytes */
void tables_fork(Graph *graph);                               /* graph.c: makes copies of the tables that it shares, in its arena */
bool attr_equal(const Attr *a, const Attr *b);
/* The graph's signature for these (attr may be NULL: none); texts of attributes must live as long as the graph. NULL with *error when the rule rejects them. */
const Signature *signature_of(Graph *graph, OpCode op, const TensorType *in, int nin, const Attr *attr, RuleError *error);

RuleFn rule_leaf; /* -> nothing: graph_input, graph_constant, graph_read_state know the type and call rule_of_leaf */

/* ---- shapes.c */

RuleFn rule_matmul;    /* a: [batch.., m, k], b: [batch.., k, n] -> [batch.., m, n]; factors batch.., m, k, n; batch broadcasts */
RuleFn rule_reduce;    /* {axes, keep_dims}: x -> x without the axes; factors are x's dimensions, the axes contracted */
RuleFn rule_transpose; /* {perm}: result dimension i is x's dimension perm[i]; factors are x's dimensions */
RuleFn rule_reshape;   /* {shape}: minimal groups of dimensions with equal products; a group of one dimension is a factor; the factor of any
                            other group is the greatest common divisor of the leading sizes, which a split must divide */
RuleFn rule_mse;       /* {reduction}: x, target of one shape -> scalar */
RuleFn rule_bce_with_logits; /* {reduction}: logits, target of one shape -> scalar, or that shape */
RuleFn rule_clamp;           /* {low, high}: x -> x; factors are x's dimensions */
RuleFn rule_einsum; /* {spec}: "mk,kn->mn"; factors in order of first appearance; a letter of size 1 in one operand only is not a factor */
RuleFn rule_expand; /* {axes, shape}: dy of a reduction over axes, with or without keep_dims -> shape; factors are shape's dimensions */
RuleFn rule_sum_to; /* {shape}: the dual of broadcasting shape to x; factors are x's dimensions */
RuleFn rule_replicate;   /* {replicas, mean}: x -> hidden x; factor 0 is the hidden dimension */
RuleFn rule_replica_sum; /* {mean}: hidden x -> x; factor 0, the hidden dimension, is contracted */
RuleFn rule_expose; /* {hide}: turns the hidden dimension into dimension 0 of a plain tensor, or with hide back; it is factor 0 in both */

/* A shape attribute without -1. */
bool shape_read(const Attr *attr, int index, Shape *shape, RuleError *error);
/* Every dimension of operand 0 its own factor; the result has its element type. */
void factors_of_operand(Rule *rule, const TensorType *in);

/* ---- cut.c */

RuleFn rule_slice; /* {begin, end}: factors are the result's dimensions; where one is cut, x is needed from begin on */
RuleFn
    rule_slice_grad; /* {begin, end, shape}: dy of such a slice -> shape; factors are dy's dimensions, whose parts are those of the result that dy reaches */
RuleFn rule_pad;    /* {before, after}: likewise */
RuleFn rule_concat; /* {axis}: factors are the result's dimensions; along axis a part needs what lies in it of each operand */
RuleFn
    rule_split; /* {parts, axis}: as many results as parts; factors are their dimensions; a split of axis turns each into a slice of its own */
RuleFn rule_softmax; /* {axis}: x, or y and dy, of one shape -> that shape; factors are the dimensions; axis has reductions */

/* ---- lookup.c */

RuleFn rule_pick;           /* x: [.., c], index: [..] -> [..]; factors are x's dimensions, c contracted */
RuleFn rule_pick_grad;      /* {classes}: dy: [..], index: [..] -> [.., classes]; factors are the result's dimensions */
RuleFn rule_first;          /* {axis}: x -> x without the axis; factors are x's dimensions, axis contracted */
RuleFn rule_one_hot;        /* {depth, to}: index: [..] -> [.., depth]; factors are the index's dimensions, and depth, which stays whole */
RuleFn rule_embedding;      /* table: [rows, d], index: [..] -> [.., d]; factors are rows (contracted), d, and the index's dimensions */
RuleFn rule_embedding_sgd;  /* w: [rows, d], g: [.., d], index: [..], rate -> w; factors are w's; index's dimensions stay whole */
RuleFn rule_lazy_adam;      /* the same with slots: w, m, v, g, index, update, rate */
RuleFn rule_embedding_grad; /* {rows}: dy: [.., d], index: [..] -> [rows, d]; factors are dy's dimensions, all but d contracted, and rows */
RuleFn
    rule_cross_entropy_rows; /* {label_smoothing}: logits: [.., c], label: [..] -> loss [..], largest logit and sum of exponentials less it [.., 1] */
RuleFn rule_cross_entropy_rows_grad; /* the same: logits, dy, label, most, sum -> the gradient of logits; its last dimension may be split */
RuleFn rule_cross_entropy;           /* {reduction}: logits: [.., c], label: [..] -> scalar, or [..]; factors are those of the logits */

/* ---- adjoint.c */

AdjointFn adjoint_of_result, adjoint_of_operand, adjoint_einsum, adjoint_add, adjoint_sub, adjoint_mul, adjoint_div, adjoint_neg,
    adjoint_exp, adjoint_log, adjoint_sum, adjoint_mean, adjoint_transpose, adjoint_reshape, adjoint_replicate, adjoint_expose, adjoint_max,
    adjoint_slice, adjoint_slice_grad, adjoint_concat, adjoint_split, adjoint_softmax, adjoint_log_softmax, adjoint_pick,
    adjoint_cross_entropy_rows, adjoint_cast, adjoint_where, adjoint_embedding, adjoint_softplus, adjoint_sin, adjoint_cos, adjoint_maximum,
    adjoint_minimum, adjoint_pow;
ExpandFn expand_pad, expand_mse, expand_bce_with_logits, expand_cross_entropy, expand_argmax;

/* ---- softmax.c: expansions into exp, sum and the like where a strategy splits the operator's axis. Only numbers per row are reduced: two forward, one
 * backward; nothing is gathered. */

ExpandFn split_split, split_softmax, split_log_softmax, split_softmax_grad, split_log_softmax_grad, split_cross_entropy_rows,
    split_cross_entropy_rows_grad;

/* ---- norm.c */

RuleFn
    rule_layer_norm; /* {eps}: x: [.., n..], weight, bias: [n..] -> x's, and mean and root of its rows, [.., 1..]; factors are x's dimensions, those of n.. with reductions */
RuleFn rule_rms_norm;        /* {eps}: x, weight likewise, without a mean */
RuleFn rule_layer_norm_grad; /* {eps}: x, dy, weight, mean, root -> the gradients of x, weight and bias; the factors are the same */
RuleFn rule_rms_norm_grad;   /* {eps}: x, dy, weight, root -> the gradients of x and weight */
AdjointFn adjoint_layer_norm, adjoint_rms_norm;
ExpandFn split_layer_norm, split_rms_norm, split_layer_norm_grad, split_rms_norm_grad;

/* ---- batchnorm.c */

RuleFn
    rule_batch_norm; /* {eps}: x: [n, c, ..], weight, bias: [c] -> x's, mean and variance: [c]; factors are x's dimensions, all but c with reductions */
RuleFn rule_batch_norm_grad; /* {eps}: x, dy, weight, mean, variance -> the gradients of x, weight and bias; the factors are the same */
AdjointFn adjoint_batch_norm;
ExpandFn split_batch_norm, split_batch_norm_grad;
ExpandFn spread_batch_norm; /* for a hidden x: normalises over the rows of all replicas */

/* ---- attention.c */

RuleFn
    rule_attention; /* {causal, scale}: q: [.., m, d], k: [.., n, d], v: [.., n, e] (mask) -> [.., m, e] and two [.., m, 1]; factors are q's dimensions but
                          d, and n, with reductions */
RuleFn
    rule_attention_grad; /* q, dy, k, v, y, most, sum (mask) -> the gradients of q, k and v; the factors are the same, n an ordinary one */
RuleFn rule_attention_most; /* q, k (mask) -> [.., m, 1], a maximum over n */
RuleFn rule_attention_sums; /* q, k, v, most (mask) -> [.., m, 1] and [.., m, e], sums over n */
AdjointFn adjoint_attention;
ExpandFn split_attention, split_attention_grad;

/* ---- windows.c */

RuleFn
    rule_conv2d; /* {stride, padding, dilation, groups}: x: [n, c, h, w], w: [o, c / groups, kh, kw] -> [n, o, h', w']; factors n, c (contracted), o, h', w' and
                       those that stay whole; with groups: n, the groups, which a split must divide, h', w' and those that stay whole */
RuleFn rule_conv2d_grad_x; /* {.., shape}: dy, w -> the gradient of x, of this shape; the factors are the same */
RuleFn rule_conv2d_grad_w; /* {.., shape}: x, dy -> the gradient of w, of this shape */
RuleFn
    rule_max_pool; /* {kernel_size, stride, padding, dilation, ceil_mode}: x: [.., h, w] -> [.., h', w']; factors are the result's dimensions, and those that stay whole */
RuleFn rule_max_pool_grad; /* {the same}: x, dy -> the gradient of x */
RuleFn rule_avg_pool;      /* {kernel_size, stride, padding, count_include_pad}: x: [.., h, w] -> [.., h', w'] */
RuleFn rule_avg_pool_grad; /* {.., shape}: dy -> the gradient of x, of this shape */
RuleFn
    rule_upsample; /* {scale_factor}: x: [.., h, w] -> [.., h * fh, w * fw]; factors are x's dimensions; a part of x is repeated into a part of the result */
AdjointFn adjoint_conv2d, adjoint_avg_pool, adjoint_avg_pool_grad;
ExpandFn expand_upsample;

/* ---- gather.c */

RuleFn
    rule_gather; /* {axis}: x: [.., a, ..], index: [.., j] and x's other dimensions, or the first of them -> [.., j, ..]; factors are x's dimensions, a contracted, and j */
RuleFn rule_gather_grad; /* {size, axis}: dy: [.., j, ..], index -> [.., size, ..]; factors are dy's dimensions (j contracted), and size */
RuleFn rule_scatter_add; /* {axis}: x: [.., a, ..], index, added: [.., j, ..] -> x's */
RuleFn rule_cumsum;      /* {axis, reverse, exclusive}: x -> x's; factors are the dimensions except axis */
RuleFn rule_topk;        /* {k}: x: [.., n] -> [.., k] twice; factors are the dimensions, n and k whole */
RuleFn rule_stack;       /* {axis}: x.. of one shape -> that shape with one more dimension; factors are x's dimensions */
RuleFn
    rule_put; /* {axis}: x: [.., a, ..], rows: [.., m, ..], index: [m] -> x; factors are x's dimensions, the indices and their rows are whole */
AdjointFn adjoint_gather, adjoint_gather_grad, adjoint_cumsum, adjoint_topk;
ExpandFn expand_scatter_add, expand_stack;

/* ---- rope.c */

RuleFn rule_rope; /* {base, inverse}: x: [.., places, d] -> x's; factors are x's dimensions but d */
AdjointFn adjoint_rope;
