/* calls: calls of attention, of norms and of batch_norm as pointers and numbers, named by the role of each operand, as every backend's kernels take them. Boxes are
 * this rank's, and contiguous. Elements are reals: dtype is a DType. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* queries, keys: numbers of all heads; `group` heads of m queries share one of `heads` heads of n keys. y, most, sum: results, NULL where there is none, operands of a gradient.
 * given: the operand most of attention_sums, else NULL; with it y is a term of a sum. Such terms, most, sum and given are f32 where elements have 16 bits. dy NULL: no gradient.
 * Query i of a head sees key j where j <= before + i if causal, and where the mask is not 0: its dimensions are the leading ones of queries, then queries and keys. d, e:
 * widths of q and k, of v and y. */
enum { MASK_NDIM = 9 }; /* MAX_NDIM */
typedef struct AttentionCall {
    const void *q, *k, *v, *dy, *given;
    void *y, *most, *sum, *dq, *dk, *dv;
    int64_t heads, queries, keys, group, m, n, d, e, before;
    const uint8_t *mask; /* NULL: none */
    int mask_ndim;
    int64_t mask_size[MASK_NDIM], mask_stride[MASK_NDIM], mask_m, mask_n;
    double scale;
    bool causal;
    int dtype;
} AttentionCall;

/* rows of n elements. mean NULL: rms_norm, which does not subtract the mean. mean, root: a number per row, f32 where elements have 16 bits: results, operands of a gradient. Of
 * a gradient dy is not NULL, and out is the gradient of x. */
typedef struct NormCall {
    const void *x, *dy, *weight, *bias;
    void *out, *mean, *root, *dweight, *dbias;
    int64_t rows, n;
    double eps;
    int dtype;
} NormCall;

/* x [n, c, s]. dy NULL: forward, with results mean and variance, f32 where elements have 16 bits. Else the gradient: out is that of x. */
typedef struct BatchNormCall {
    const void *x, *dy, *weight, *bias;
    void *out, *mean, *variance, *dweight, *dbias;
    int64_t n, c, s;
    double eps;
    int dtype;
} BatchNormCall;

struct KernelCall;
AttentionCall attention_call(const struct KernelCall *call);
NormCall norm_call(const struct KernelCall *call);
BatchNormCall batch_norm_call(const struct KernelCall *call);
