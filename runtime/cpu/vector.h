/* vector: loops compiled for vectors of several widths. A process uses the widest that its processor has. All give the same digits: the
 * functions they call (functions.h) and the order of their sums do not depend on the width, so ranks on different processors compute the
 * same. */
#pragma once
#include "ir/gemm.h"
#include "ir/window.h"
#include "runtime/calls.h"
#include "runtime/cpu/elements.h"

/* Computes `width` rows of n elements: contiguous rows one after the other (inner 1), or neighbouring columns, whose elements are `inner` apart. x: for a gradient, y;
 * dy: for a gradient, else NULL. */
typedef void RowLoop(const void *x, const void *dy, void *out, int64_t n, int64_t inner, int64_t width);
enum { ROW_COLUMNS = 64 }; /* most columns of a call */

/* Sums in accumulators: f64 for reals, unsigned integers of the same size for integers. */
typedef struct SumLoops {
    /* acc[i] += x[row * row_stride + i * stride], row after row. */
    void (*rows)(void *acc, const void *x, int64_t stride, int64_t row_stride, int64_t rows, int64_t n);
    /* *sum = x[0] + x[stride] + ...: contiguous elements in independent lanes, long runs by halves (pairwise). That keeps the error of a sum
     * of doubles small even where all are equal and every addition rounds the same way. */
    void (*run)(void *sum, const void *x, int64_t stride, int64_t n);
} SumLoops;
enum { SUM_RUN = 1024 }; /* longer runs are added up by halves */

/* Computes rows [begin, end). For gradients it adds the rows' terms of the weight's gradient, then the bias's, to sums. */
typedef void NormLoop(const NormCall *rows, int64_t begin, int64_t end, double *sums);

/* Computes channels [begin, end). */
typedef void BatchNormLoop(const BatchNormCall *norm, int64_t begin, int64_t end);

/* Loops over a row of n scores of attention. */
typedef struct AttentionLoops {
    void (*hide)(void *scores, const uint8_t *mask, int64_t stride, int64_t n); /* -infinity where the mask is 0 */
    double (*most)(const void *scores, int64_t n, double least);                /* the maximum of the scores and `least` */
    double (*powers)(void *scores, int64_t n, double most, double factor);      /* exp(s - most) factor in place; returns their sum */
    void (*slopes)(const void *powers, void *slopes, int64_t n, double along, double scale); /* g = p (g - along) scale */
    void (*scale)(void *row, int64_t n, double factor);
    void (*add)(void *to, const void *row, int64_t n);
    double (*along)(const void *a, const void *b, int64_t n); /* sum of a b */
} AttentionLoops;

/* Loops over a row of n logits of cross_entropy. */
typedef struct LossLoops {
    double (*sums)(const void *logits, int64_t n, double *most); /* the largest; the sum of exp(x - largest) */
    void (*slopes)(const void *logits, void *slopes, int64_t n, double most, double factor,
                   double taken); /* exp(x - most) factor - taken; may be in place */
} LossLoops;

/* Loops over a plane of a convolution whose groups have one channel each; w: the taps, row-major. */
typedef struct DepthwiseLoops {
    void (*forward)(const Planes *planes, const void *x, const void *w, void *y);
    void (*gradient_x)(const Planes *planes, void *dx, const void *w, const void *dy);     /* is added to dx */
    void (*gradient_w)(const Planes *planes, const void *x, const void *dy, double *sums); /* is added to sums, a number a tap */
} DepthwiseLoops;

/* A factor of a product in memory. */
typedef struct MatrixAt {
    const void *at;
    Matrix matrix;
} MatrixAt;
/* out [m, n] = scale a b of f32, or += that; its rows are `leading` elements apart. */
typedef void ProductLoop(MatrixAt a, MatrixAt b, int64_t m, int64_t n, int64_t k, double scale, bool add, float *out, int64_t leading);

typedef struct VectorLoops {
    ElementLoop *(*element)(OpCode op, const Attr *attr, DType in, DType out);
    RowLoop *(*row)(OpCode op, DType dtype, bool contiguous); /* of softmax, log_softmax and their gradients */
    SumLoops (*sum)(DType dtype);
    NormLoop *(*norm)(OpCode op, DType dtype);
    BatchNormLoop *(*batch)(DType dtype);
    AttentionLoops (*attention)(DType dtype);
    LossLoops (*loss)(DType dtype);
    DepthwiseLoops (*depthwise)(DType dtype);
    ProductLoop *(*product)(void); /* returns NULL if the processor has no fused multiply-add */
} VectorLoops;

/* How many variants this processor can run, and variant i: the first runs on every processor, the last is the widest. */
int vector_variants(void);
const VectorLoops *vector_variant(int i);
SumLoops sum_loops(DType dtype); /* of the widest variant */

/* What each variant has. */
#define DECLARE_LOOPS(variant)                                                                                                             \
    ElementLoop *element_loop_##variant(OpCode op, const Attr *attr, DType in, DType out);                                                 \
    RowLoop *row_loop_##variant(OpCode op, DType dtype, bool contiguous);                                                                  \
    SumLoops sum_loops_##variant(DType dtype);                                                                                             \
    NormLoop *norm_loop_##variant(OpCode op, DType dtype);                                                                                 \
    BatchNormLoop *batch_loop_##variant(DType dtype);                                                                                      \
    AttentionLoops attention_loops_##variant(DType dtype);                                                                                 \
    LossLoops loss_loops_##variant(DType dtype);                                                                                           \
    DepthwiseLoops depthwise_loops_##variant(DType dtype);                                                                                 \
    ProductLoop *product_loop_##variant(void);
/* In files that are compiled for each variant: the declarations of this variant, and its names. */
#ifdef VECTOR
#define DECLARE_LOOPS_(variant) DECLARE_LOOPS(variant)
DECLARE_LOOPS_(VECTOR)
#define OF_VARIANT(name) OF_VARIANT_(name, VECTOR)
#define OF_VARIANT_(name, variant) OF_VARIANT__(name, variant)
#define OF_VARIANT__(name, variant) name##_##variant
#endif
