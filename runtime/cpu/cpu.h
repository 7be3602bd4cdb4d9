/* cpu: the CPU backend. A kernel per row of ir/ops.def; private to this folder.
 *
 *   backend.c      the backend, the table of kernels; leaves, writes, copies
 *   elements.c     the loops of elementwise operators; elementwise.c: their kernels
 *   vector.c       loops compiled for several widths of vectors; functions.h: exp, log, ... for them
 *   update.c       sgd, momentum, adam, adamw, lion; sum_squares
 *   reduce.c       sum, mean, sum_to, replica_sum, mse; sumloops.c: their loops
 *   move.c         transpose, reshape, expansions, replicate
 *   max.c          max, min
 *   half.c         operands of 16 bits
 *   cut.c          convert, slice and its gradient, concat, split
 *   softmax.c      softmax and its gradient; rowloops.c: their loops
 *   norm.c         layer_norm, rms_norm and their gradients; normloops.c: their loops
 *   attention.c    attention and its gradient, by blocks of scores; attentionloops.c: rows of them
 *   rope.c         rotary positions, and their plain loop
 *   lookup.c       elements looked up by integers
 *   convolve.c     conv2d and its gradients as matrix products
 *   pooling.c      max_pool, avg_pool and their gradients
 *   chain.c        elementwise operators of a fused step in blocks; fuse.c: fused steps
 *   einsum.c       matmul and einsum through CBLAS; blas.c: opens it
 *   reference.c, contract.c, plain.c, plainattention.c, plainlookup.c, plainnorm.c, plainwindow.c   the plain loop of each, obviously right, that the others are checked against
 */
#pragma once
#include <cblas.h>

#include "runtime/backend.h"
#include "runtime/nest.h"
#include "runtime/cpu/vector.h"
#include "runtime/pool.h"
#include "runtime/product.h"

#define OP(name, ...) KernelFn kernel_##name, reference_##name;
#include "ir/ops.def"
#undef OP

/* ---------------------------------------------------------------- blas.c */

typedef void Sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a, enum CBLAS_TRANSPOSE transpose_b, blasint m, blasint n,
                   blasint k, float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta, float *c, blasint ldc);
typedef void Dgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a, enum CBLAS_TRANSPOSE transpose_b, blasint m, blasint n,
                   blasint k, double alpha, const double *a, blasint lda, const double *b, blasint ldb, double beta, double *c,
                   blasint ldc);
/* What is used of OpenBLAS. */
typedef struct Blas {
    Sgemm *sgemm; /* NULL: it is not open */
    Dgemm *dgemm;
} Blas;
/* Opens OpenBLAS, once in a process and for good, for so many threads that call it at the same time. EXIT_ENVIRONMENT: there is none, or too little memory. */
bool blas_open(Blas *blas, int nthreads, Error *error);

/* ---------------------------------------------------------------- backend.c */

/* What open gives and KernelCall.context points to. */
typedef struct CpuContext {
    Pool *pool;
    int most_threads; /* of any process, at least the pool's */
    Blas blas;        /* opened by the first product that needs it */
    void *room;       /* of the largest kernel of halves so far */
    int64_t room_bytes;
} CpuContext;
/* fuse.c: Backend.fuse, run and unfuse. */
void *cpu_fuse(void *context, const KernelCall *calls, int n, const unsigned *inner, Error *error);
bool cpu_run_fused(void *context, void *fused, Error *error);
void cpu_unfuse(void *context, void *fused);
Pool *call_pool(const KernelCall *call); /* NULL: no threads */
int call_most_threads(const KernelCall *call);
/* Room for the time of one kernel: the context's, which grows; of a call without a context the caller frees it. NULL: *error. */
void *call_room(const KernelCall *call, int64_t bytes, Error *error);
/* NULL and *error: it cannot be opened. The call has a context. */
const Blas *call_blas(const KernelCall *call, Error *error);

/* ---------------------------------------------------------------- half.c */

bool call_is_half(const KernelCall *call);       /* whether an operand or a result has elements of 16 bits */
KernelCall half_widened(const KernelCall *call); /* the call with f32 in place of halves; addresses as they are */
/* The kernel of f32 for such a call. */
bool half_run(const KernelCall *call, KernelFn *kernel, Error *error);

/* ---------------------------------------------------------------- einsum.c */

/* Whether the kernel of a product calls BLAS. */
bool einsum_uses_blas(const KernelCall *call);

/* Fewest elements, and fewest multiplications of a product, that are worth waking a thread for. */
enum { GRAIN = 1 << 14, THREAD_WORK = 1 << 19 };

static inline int64_t parts_of(int64_t size, int64_t each) {
    return (size + each - 1) / each;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A product, each part of whose result is handed over by the thread that has computed it: m rows of n elements, `leading` apart, from element `first` on. after
 * NULL: nothing is. strides NULL: of contiguous boxes; else there is a matrix product (product_shape) on them. */
typedef void ProductPartFn(void *context, int64_t first, int64_t m, int64_t n, int64_t leading);
bool einsum_with(const KernelCall *call, const ProductStrides *strides, ProductPartFn *after, void *context, Error *error);

/* ---------------------------------------------------------------- reduce.c */

enum { SUM_PIECE = SUM_RUN };
/* A sum over trailing dimensions whose operand is made piece by piece, at most SUM_PIECE elements at a time. */
typedef struct PieceSum {
    DType dtype;
    int64_t n, rows; /* elements of a row, rows */
    double divisor;
    void *out;
    SumLoops loops;
} PieceSum;
/* Elements [first, first + n) of the operand, in row-major order. */
typedef const void *SummandFn(void *context, int64_t first, int64_t n);
/* False where it is no such sum. */
bool piece_sum_prepare(const KernelCall *call, PieceSum *sum);
/* Rows [begin, end), which threads divide. */
void piece_sum_part(const PieceSum *sum, int64_t begin, int64_t end, SummandFn *piece, void *context);

/* ---------------------------------------------------------------- move.c */

/* Copies what tensor 1 of the nest has to where tensor 0 says, in threads. The nest is merged. */
void nest_copy(Pool *pool, const Nest *nest, void *out, const void *in, int item_bytes);

/* Where in [begin, begin + length) element i of an operand of integers is, less begin; -1: elsewhere. */
static inline int64_t index_within(const Operand *index, int64_t i, int64_t begin, int64_t length) {
    int64_t at = index->dtype == I64 ? ((const int64_t *)index->data)[i] : ((const int32_t *)index->data)[i];
    return at >= begin && at - begin < length ? at - begin : -1;
}

/* The number of an integer type that is nearest to a real, cut off towards 0; nan: 0. */
static inline int64_t integer_of(double value, DType dtype) {
    const double end = dtype == I32 ? 2147483648.0 : 9223372036854775808.0;
    const int64_t least = dtype == I32 ? INT32_MIN : INT64_MIN, most = dtype == I32 ? INT32_MAX : INT64_MAX;
    return value != value ? 0 : value < -end ? least : value >= end ? most : (int64_t)value;
}

/* One macro for the three element types. */
#define FOR_DTYPES(X) X(f32, float) X(f64, double) X(i32, int32_t)
#define FOR_FLOATS(X) X(f32, float) X(f64, double)
