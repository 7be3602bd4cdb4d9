/* cpu: the CPU backend, with one kernel per row of ir/ops.def. This header is private to the folder.
 *
 *   backend.c      the backend, the table of kernels, memory, copies
 *   elements.c     the loops of elementwise operators; elementwise.c: their kernels
 *   vector.c       loops compiled for several widths of vectors; functions.h: exp, log, ... for them
 *   update.c       sgd, momentum, adam, adamw, lion, lamb, adafactor; sum_squares
 *   row_updates.c  embedding_sgd, lazy_adam: they update only the table's rows that occur
 *   reduce.c       sum, mean, sum_to, replica_sum, mse; sumloops.c: their loops
 *   move.c         transpose, reshape, expansions, replicate
 *   max.c          max, min
 *   half.c         operands of 16 bits
 *   cut.c          convert, slice and its gradient, concat, split
 *   softmax.c      softmax and its gradient; rowloops.c: their loops
 *   norm.c         layer_norm, rms_norm and their gradients; normloops.c: their loops
 *   batchnorm.c    batch_norm and its gradient, with their plain loops; batchloops.c: the loops over channels
 *   attention.c    attention and its gradient, by blocks of scores; attentionloops.c: the loops over rows of a block
 *   rope.c         rotary positions, and their plain loop
 *   lookup.c       operators that look elements up by integers
 *   gather.c       gather along an axis, put, cumsum, topk
 *   convolve.c     conv2d and its gradients as matrix products
 *   onednnconvolve.c  the same by oneDNN, where there are many channels
 *   turn.c         transposes planes to rows of channels and back; square.h: transposes squares of elements
 *   depthwise.c    conv2d and its gradients where a group has one channel; depthwiseloops.c: the loops over a plane
 *   pooling.c      max_pool, avg_pool and their gradients
 *   chain.c        elementwise operators of a fused step, in blocks; fuse.c: fused steps
 *   einsum.c       matmul and einsum as matrix products
 *   multiply.c     chooses for matrix products between our own loops (productloops.c), OpenBLAS and oneDNN; blas.c, onednn.c: open these
 *   reference.c, contract.c, plain.c, plainattention.c, plaingather.c, plainlookup.c, plainnorm.c, plainwindow.c   plain, obviously correct loops that kernels are checked against
 */
#pragma once
#include <cblas.h>
#include <stdatomic.h>

#include "runtime/backend.h"
#include "runtime/nest.h"
#include "runtime/cpu/vector.h"
#include "ir/pool.h"
#include "runtime/product.h"
#include "runtime/window.h"

#define OP(name, ...) KernelFn kernel_##name, reference_##name;
#include "ir/ops.def"
#undef OP

/* ---------------------------------------------------------------- blas.c */

typedef void Sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a, enum CBLAS_TRANSPOSE transpose_b, blasint m, blasint n,
                   blasint k, float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta, float *c, blasint ldc);
typedef void Dgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a, enum CBLAS_TRANSPOSE transpose_b, blasint m, blasint n,
                   blasint k, double alpha, const double *a, blasint lda, const double *b, blasint ldb, double beta, double *c,
                   blasint ldc);
/* The functions used from OpenBLAS. */
typedef struct Blas {
    Sgemm *sgemm; /* NULL: it is not open */
    Dgemm *dgemm;
} Blas;
/* Opens OpenBLAS, once in a process and for good; nthreads: how many threads call it at the same time. EXIT_ENVIRONMENT: there is none, or too little memory. */
bool blas_open(Blas *blas, int nthreads, Error *error);
/* Whether a library can still map a buffer of `each` bytes for each of nthreads threads, and one more piece of `more` bytes; EXIT_ENVIRONMENT: it cannot. */
bool blas_check_room(const char *library, int nthreads, int64_t each, int64_t more, Error *error);

/* ---------------------------------------------------------------- onednn.c */

/* For row-major matrices; 0: success. As dnnl.h declares it, with dnnl_dim_t and dnnl_status_t written out. */
typedef int OnednnSgemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
/* The functions used from oneDNN. */
typedef struct Onednn {
    void *library;
    OnednnSgemm *sgemm;
    void (*set_threads)(int); /* OpenMP's, with which it is built: threads for calls of the calling thread */
} Onednn;
/* Opens oneDNN, once in a process and for good; nthreads: how many threads call it at the same time. sgemm is NULL where there is none. EXIT_ENVIRONMENT: too little memory. */
bool onednn_open(Onednn *onednn, int nthreads, Error *error);
bool onednn_find(const Onednn *onednn, const char *name, void *function); /* *function: a pointer to one */

/* ---------------------------------------------------------------- multiply.c */

/* A product of [m, k] and [k, n]; either may be transposed in memory. */
typedef struct ProductSize {
    bool a_transposed, b_transposed;
    int64_t m, n, k;
} ProductSize;

/* What computes the products of a call, and their element type. */
typedef struct Multiplier {
    DType dtype;
    ProductLoop *own; /* one of the three is not NULL */
    const Onednn *onednn;
    const Blas *blas;
    atomic_bool *no_memory; /* set if oneDNN fails for lack of memory */
} Multiplier;

typedef struct CpuContext CpuContext;
/* The context's oneDNN, opened; NULL: there is none. */
bool onednn_for(CpuContext *context, const Onednn **onednn, Error *error);
/* Chooses what computes products of these sizes, `work` multiplications in all, on elements of the first operand's type, and opens a library for it. The call has a context. */
bool multiplier_open(const KernelCall *call, const ProductSize *sizes, int n, double work, Multiplier *by, Error *error);
/* out [m, n] = scale a b, or += that; its rows are `leading` elements apart. Runs on the calling thread. */
void multiply(const Multiplier *by, MatrixAt a, MatrixAt b, int64_t m, int64_t n, int64_t k, double scale, bool add, void *out,
              int64_t leading);
/* Whether all products since its last call succeeded. */
bool multiplier_done(const Multiplier *by, Error *error);

/* ---------------------------------------------------------------- turn.c */

/* Image `n` of `images` in a tile, as a plane for each channel, and as a row of channels for each place. place: where the row of each place lies; NULL: in order. */
typedef struct Turn {
    int64_t channels, places, images, n;
    const int64_t *place;
} Turn;
void turn(DType dtype, const Turn *t, void *planes, void *rows, bool back); /* back: rows into planes */

/* ---------------------------------------------------------------- convolve.c, onednnconvolve.c, depthwise.c */

/* The places [begin, end) of a row of results that tap k reads from inside a row of `size` elements. */
void seen_places(const Window *window, int64_t k, int64_t size, int64_t places, int64_t *begin, int64_t *end);

/* Whether the planes of x, as they lie, are already the columns that the windows see: one tap, without strides and padding. */
bool planes_are_columns(const Planes *planes);

/* How oneDNN computes a convolution, or a gradient of one; owned by a context. */
typedef struct Convolution Convolution;
typedef struct Convolutions Convolutions;
/* Finds the call's convolution or makes it, which takes milliseconds; NULL: oneDNN is missing, or would not pay. of: the call's planes. */
bool onednn_convolution(const KernelCall *call, const PlanesOf *of, const Convolution **convolution, Error *error);
bool onednn_convolve(const KernelCall *call, const PlanesOf *of, const Convolution *convolution, Error *error);
void onednn_free(Convolutions *convolutions); /* takes NULL */

bool is_depthwise(const Planes *planes); /* whether depthwise computes it, of the convolutions that have something to add up */
bool depthwise(const KernelCall *call, Error *error);

/* ---------------------------------------------------------------- backend.c */

/* Made by the backend's open; KernelCall.context points to it. */
struct CpuContext {
    Pool *pool;
    int most_threads; /* the most of any process, at least the pool's */
    Blas blas;        /* opened by the first product that needs it */
    Onednn onednn;    /* likewise */
    bool no_onednn;   /* oneDNN could not be opened */
    Convolutions *convolutions;
    atomic_bool no_memory; /* Multiplier's */
    void *room;            /* for the largest kernel of 16-bit operands so far */
    int64_t room_bytes;
};
/* fuse.c: Backend.fuse, run and unfuse. */
void *cpu_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error);
bool cpu_run_fused(void *context, void *fused, Error *error);
void cpu_unfuse(void *context, void *fused);
Pool *call_pool(const KernelCall *call); /* NULL: no threads */
int call_most_threads(const KernelCall *call);
/* Memory for the duration of one kernel: the context's, which grows. For a call without a context the caller frees it. NULL: *error. */
void *call_room(const KernelCall *call, int64_t bytes, Error *error);

/* ---------------------------------------------------------------- half.c */

bool call_is_half(const KernelCall *call);       /* whether an operand or a result has elements of 16 bits */
KernelCall half_widened(const KernelCall *call); /* the call with f32 in place of 16-bit types; addresses unchanged */
/* Runs the f32 kernel for such a call, on converted copies. */
bool half_run(const KernelCall *call, KernelFn *kernel, Error *error);

/* ---------------------------------------------------------------- einsum.c */

/* Opens the library that the kernel will use. */
bool einsum_prepare(const KernelCall *call, Error *error);
bool convolve_prepare(const KernelCall *call, Error *error);  /* convolve.c's */
bool attention_prepare(const KernelCall *call, Error *error); /* attention.c's */

/* Fewest elements, and fewest multiplications of a product, that are worth waking a thread for. */
enum { GRAIN = 1 << 14, THREAD_WORK = 1 << 19 };

static inline int64_t parts_of(int64_t size, int64_t each) {
    return (size + each - 1) / each;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Computes a product. Each thread passes the parts of the result that it has computed to `after`, unless NULL: m rows of n elements, `leading` apart, from element `first`
 * on. strides NULL: boxes are contiguous; else there is a matrix product (product_shape) on these strides. */
typedef void ProductPartFn(void *context, int64_t first, int64_t m, int64_t n, int64_t leading);
bool einsum_with(const KernelCall *call, const ProductStrides *strides, ProductPartFn *after, void *context, Error *error);

/* ---------------------------------------------------------------- reduce.c */

enum { SUM_PIECE = SUM_RUN };
/* A sum over trailing dimensions, or over leading and trailing ones, whose operand is computed in pieces of at most SUM_PIECE elements. */
typedef struct PieceSum {
    DType dtype;
    int64_t n, rows, times; /* elements of a row, rows; how often the set of rows repeats: their sums are added up */
    double divisor;
    void *out;
    SumLoops loops;
} PieceSum;
/* Returns elements [first, first + n) of the operand, in row-major order. */
typedef const void *SummandFn(void *context, int64_t first, int64_t n);
/* False: the call is no such sum. */
bool piece_sum_prepare(const KernelCall *call, PieceSum *sum);
/* Sums rows [begin, end); threads divide the rows. */
void piece_sum_part(const PieceSum *sum, int64_t begin, int64_t end, SummandFn *piece, void *context);

/* ---------------------------------------------------------------- move.c */

/* Copies the elements of tensor 1 of the nest (in) to those of tensor 0 (out), in threads. The nest is merged. */
void nest_copy(Pool *pool, const Nest *nest, void *out, const void *in, int item_bytes);

/* Element i of an operand of integers, less begin, if it is in [begin, begin + length); else -1. */
static inline int64_t index_within(const Operand *index, int64_t i, int64_t begin, int64_t length) {
    int64_t at = index->dtype == I64 ? ((const int64_t *)index->data)[i] : ((const int32_t *)index->data)[i];
    return at >= begin && at - begin < length ? at - begin : -1;
}

/* The value of a real scalar. */
static inline double operand_number(const Operand *scalar) {
    return scalar->dtype == F32 ? (double)*(const float *)scalar->data : *(const double *)scalar->data;
}

/* A real as an integer type: truncated towards 0, and saturated at the type's ends; nan: 0. */
static inline int64_t integer_of(double value, DType dtype) {
    const double end = dtype == I32 ? 2147483648.0 : 9223372036854775808.0;
    const int64_t least = dtype == I32 ? INT32_MIN : INT64_MIN, most = dtype == I32 ? INT32_MAX : INT64_MAX;
    return value != value ? 0 : value < -end ? least : value >= end ? most : (int64_t)value;
}

/* Expands X for each element type. */
#define FOR_DTYPES(X) X(f32, float) X(f64, double) X(i32, int32_t)
#define FOR_FLOATS(X) X(f32, float) X(f64, double)
