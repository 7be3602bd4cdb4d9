/* kernels: the functions of kernels.cu for host code, in C. Each queues launches on a stream and returns cudaGetLastError(). That call
 * resets the error, so a caller that ignores the result loses the failure; compilers warn of it. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "ir/window.h"
#include "runtime/calls.h"

/* Element types, in the order of DType. */
enum { KERNEL_F32, KERNEL_F64, KERNEL_I32, KERNEL_I64, KERNEL_BOOL, KERNEL_F16, KERNEL_BF16 };

/* Division of numbers below 2^31 by d, without dividing: (high 32 bits of n * magic + n) >> shift. */
typedef struct KernelDivisor {
    uint32_t d, magic, shift;
} KernelDivisor;
static inline KernelDivisor kernel_divisor(int64_t d) {
    KernelDivisor result = {d > 0 && d <= INT32_MAX ? (uint32_t)d : 1, 0, 0};
    while (((uint64_t)1 << result.shift) < result.d)
        result.shift++;
    result.magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << result.shift) - result.d)) / result.d + 1);
    return result;
}

/* Nested loops over one or two tensors, outermost first; strides in items. */
enum { KERNEL_NDIM = 9 };
typedef struct KernelLoops {
    int ndim;
    int64_t size[KERNEL_NDIM], stride[2][KERNEL_NDIM];
    KernelDivisor divisor[KERNEL_NDIM]; /* of size: set by move.cuh */
} KernelLoops;

#ifdef __CUDACC__
#define KERNEL_BOTH __host__ __device__
#else
#define KERNEL_BOTH
#endif
/* Element i of an operand for a trial product: up to `sixteenths` sixteenths, one in `every` not 0. Their products, and sums of not too many, are exact in every type of reals. */
KERNEL_BOTH static inline float kernel_trial(int64_t i, uint32_t salt, uint32_t every, uint32_t sixteenths) {
    uint64_t x = (uint64_t)i + ((uint64_t)salt << 56); /* MurmurHash3's final mix */
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    x ^= x >> 33;
    return (uint32_t)(x >> 32) % every ? 0 : (float)((int32_t)((uint32_t)x % (2 * sixteenths + 1)) - (int32_t)sixteenths) / 16;
}

#ifdef __GNUC__
#define LAUNCHED __attribute__((warn_unused_result)) cudaError_t
#else
#define LAUNCHED cudaError_t
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* elementwise.cuh, chain.cuh */

/* Operations on elements. a, b, c: the operands; from ELEMENT_REAL on only for reals. */
typedef enum ElementOp {
    ELEMENT_NONE,
    ELEMENT_COPY,
    ELEMENT_CONSTANT, /* the constant */
    ELEMENT_TRUTH,    /* a is not 0 */
    ELEMENT_LESS,
    ELEMENT_LESS_EQUAL,
    ELEMENT_GREATER,
    ELEMENT_GREATER_EQUAL,
    ELEMENT_EQUAL,
    ELEMENT_NOT_EQUAL,
    ELEMENT_WHERE, /* b where a is not 0, else c */
    ELEMENT_CLAMP, /* between the constants */
/* The rows of elementwise.def: ELEMENT_add is of OP_add. */
#define ELEMENT_OF_NUMBER(name) ELEMENT_##name,
#define ELEMENT_OF_REAL(name)
#define UNARY_OP(name, title, types, ...) ELEMENT_OF_##types(name)
#define UNARY_OP_X(name, title, types, ...) ELEMENT_OF_##types(name)
#define UNARY_OP_Y(name, title, types, ...) ELEMENT_OF_##types(name)
#define BINARY_OP(name, title, types, ...) ELEMENT_OF_##types(name)
#include "ir/elementwise.def"
    ELEMENT_REAL, /* no operation: those that follow are only for reals */
#undef ELEMENT_OF_NUMBER
#undef ELEMENT_OF_REAL
#define ELEMENT_OF_NUMBER(name)
#define ELEMENT_OF_REAL(name) ELEMENT_##name,
#define UNARY_OP(name, title, types, ...) ELEMENT_OF_##types(name)
#define UNARY_OP_X(name, title, types, ...) ELEMENT_OF_##types(name) ELEMENT_##name##_grad,
#define UNARY_OP_Y(name, title, types, ...) ELEMENT_OF_##types(name) ELEMENT_##name##_grad,
#define BINARY_OP(name, title, types, ...) ELEMENT_OF_##types(name)
#define UNARY_FORMULA(name, ...) ELEMENT_##name,
#define BINARY_FORMULA(name, ...) ELEMENT_##name,
#include "ir/elementwise.def"
#undef ELEMENT_OF_NUMBER
#undef ELEMENT_OF_REAL
    ELEMENT_CLAMP_GRAD, /* b where a is between the constants, else 0 */
    ELEMENT_DIVIDE,     /* a over the constant */
    ELEMENT_CLIP        /* a times min(1, constant / (sqrt(b) + 1e-6)), b one number */
} ElementOp;

enum { CHAIN_SLOTS = 8, CHAIN_NODES = 32, CHAIN_STORES = 8, CHAIN_CONSTANTS = 8, CHAIN_RESULT = CHAIN_SLOTS };

/* How a launch finds the element of an operand that belongs to element i of the results. */
typedef enum ChainMode {
    CHAIN_LINEAR, /* it is element i */
    CHAIN_ROWS,   /* by the loops; the innermost loop's size is a multiple of 16 bytes' worth of elements */
    CHAIN_ANY     /* by the loops */
} ChainMode;
typedef struct LaunchLoad {
    const void *data;
    uint8_t mode, dtype;
    uint8_t packed; /* packs (vectors of elements) are aligned to their size */
    uint8_t ndim;   /* loops, outermost first */
    int64_t size[KERNEL_NDIM], stride[KERNEL_NDIM];
    KernelDivisor divisor[KERNEL_NDIM];
} LaunchLoad;
typedef struct LaunchStep {
    uint8_t op;    /* ElementOp */
    uint8_t in[3]; /* slots; CHAIN_RESULT: the result of the step before */
    uint8_t slot;  /* for the result; CHAIN_RESULT: none */
    uint8_t constant[2];
    uint8_t first_store, nstores;
    uint8_t round; /* KERNEL_F16, KERNEL_BF16: the result, of an f32 launch, is rounded to this type; else 0 */
} LaunchStep;
typedef struct LaunchStore {
    void *data;
    uint8_t dtype, packed;
} LaunchStore;
/* Operators on n elements of one type; bools are 0 and 1 of that type. Loads and stores may have other types. 16-bit types are computed as f32. Load l fills slot l before step 0. */
typedef struct ChainLaunch {
    int64_t n;
    uint8_t dtype, nloads, nsteps, nstores;
    uint8_t wide; /* n is 2^31 or more: divisors cannot be used */
    LaunchLoad load[CHAIN_SLOTS];
    LaunchStep step[CHAIN_NODES];
    LaunchStore store[CHAIN_STORES];
    double constant[CHAIN_CONSTANTS];
} ChainLaunch;
LAUNCHED kernels_chain(const ChainLaunch *program, cudaStream_t stream);

/* update.cuh */

enum { UPDATE_TENSORS = 32, SQUARES_BLOCKS = 512 };
typedef enum UpdateKind { UPDATE_SGD, UPDATE_MOMENTUM, UPDATE_ADAM, UPDATE_LION, UPDATE_CLIP } UpdateKind;

/* One tensor: the parameter w, its gradient g and slots (v of momentum, m and v of adam and lamb, m of lion), new and old. Clipping: g becomes new_w. */
typedef struct UpdateTensor {
    const void *w, *g, *m, *v;
    void *new_w, *new_m, *new_v;
    int64_t n;
    unsigned first_block; /* set by kernels_update */
    int packed;           /* all begin at multiples of 16 bytes */
} UpdateTensor;
/* The same update of several tensors, none of which overlaps another's. */
typedef struct UpdateTable {
    int kind, dtype, ntensors;
    int decoupled;            /* adamw: the parameter itself decays, not the gradient */
    int direction;            /* lamb: new_w is what adamw would subtract from a parameter at lr 1 */
    int nesterov;             /* momentum */
    const void *rate;         /* one number on the device that multiplies lr, NULL: 1. Clipping: the sum of squares */
    const void *count;        /* adam: the number of the update, from 1 */
    const void *of_w, *of_u;  /* lamb: squares of the norms of w and g, whose ratio multiplies lr; adafactor: the same; else NULL */
    double eps2, d, elements; /* adafactor: elements of the whole parameter; else 0 */
    double lr, momentum, beta1, beta2, eps, decay;
    double norm; /* for clipping */
    UpdateTensor tensor[UPDATE_TENSORS];
} UpdateTable;
LAUNCHED kernels_update(UpdateTable *table, cudaStream_t stream);

/* out = the sum of x's squares, one number for each tensor, in an order that depends only on n. partial: room for UPDATE_TENSORS * SQUARES_BLOCKS numbers. */
typedef struct SquaresTable {
    int dtype, ntensors;
    double *partial;
    struct SquaresTensor {
        const void *x;
        void *out;
        int64_t n;
        int packed;
        unsigned first_block, nblocks; /* set by kernels_squares */
    } tensor[UPDATE_TENSORS];
} SquaresTable;
LAUNCHED kernels_squares(SquaresTable *table, cudaStream_t stream);

/* casts.cuh */

/* Casts of several tensors from f32 to 16 bits, or back; none overlaps another. */
typedef struct CastTable {
    int from, to, ntensors;
    struct CastTensor {
        const void *x;
        void *out;
        int64_t n;
        int packed;           /* both begin at multiples of 16 bytes */
        unsigned first_block; /* set by kernels_casts */
    } tensor[UPDATE_TENSORS];
} CastTable;
LAUNCHED kernels_casts(CastTable *table, cudaStream_t stream);

/* reduce.cuh */

typedef enum { KERNEL_SUM, KERNEL_MAX, KERNEL_MIN, KERNEL_FIRST } KernelReduction;
/* Scratch memory of reductions in two stages: counters that are 0 between kernels, then partial results. */
enum { SCRATCH_COUNTERS = 4096 };
/* A reduction: each iteration of `kept` (tensor 0 the result, 1 the operand) gives a result, reduced over the iterations of `gone` (0: unused, 1: the
 * operand). SUM: divided by the divisor. FIRST: of bytes, into int32_t: the first iteration of gone whose byte is not 0, plus `origin`, or INT32_MAX. */
typedef struct KernelReduce {
    void *out;
    const void *in;
    KernelLoops kept, gone;
    int dtype; /* of the operand */
    KernelReduction reduction;
    double divisor;
    int64_t origin;
    bool columns; /* neighbouring results come from neighbouring elements */
} KernelReduce;
LAUNCHED kernels_reduce(const KernelReduce *reduce, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* softmax.cuh */

typedef enum { ROWS_SOFTMAX, ROWS_LOG_SOFTMAX, ROWS_SOFTMAX_GRAD, ROWS_LOG_SOFTMAX_GRAD } KernelRows;
/* A tensor [outer, n, inner], with rows of n elements `inner` apart; no size is 0. x: for a gradient, y; dy: for a gradient, else unused. out may be x or dy. Types of reals. */
LAUNCHED kernels_rows(void *out, const void *x, const void *dy, KernelRows rows, int dtype, int64_t outer, int64_t n, int64_t inner,
                      cudaStream_t stream);

/* attention.cuh */

/* PLAIN: any type of reals, any width, sums in double. TILES: no f64, d and e up to ATTENTION_WIDTH, sums in float. TENSORS: the same by tensor cores, f32 as tf32. */
typedef enum { ATTENTION_PLAIN, ATTENTION_TILES, ATTENTION_TENSORS } AttentionWay;
enum { ATTENTION_WIDTH = 128 };
/* d and e are above 0. scratch: as for kernels_reduce. */
LAUNCHED kernels_attention(const AttentionCall *attention, AttentionWay way, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* rope.cuh */

/* `rows` rows of `pairs` pairs; row i has place first + i % places. sign -1 rotates the other way. Types of reals. */
typedef struct KernelRope {
    const void *x;
    void *out;
    int64_t rows, places, pairs, first;
    double base, sign;
    int dtype;
} KernelRope;
LAUNCHED kernels_rope(const KernelRope *rope, cudaStream_t stream);

/* norm.cuh */

/* Neither rows nor their elements are 0 in number, except the rows of a gradient. */
LAUNCHED kernels_norm(const NormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* batchnorm.cuh */

/* No channel is empty. */
LAUNCHED kernels_batch_norm(const BatchNormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* move.cuh */

/* Tensor 0 of the loops = tensor 1, items of 1, 2, 4 or 8 bytes; the result's innermost loop is last. Strides of tensor 1 may be 0. */
LAUNCHED kernels_copy(void *out, const void *in, int item_bytes, const KernelLoops *loops, cudaStream_t stream);
/* The same, divided; types of reals. */
LAUNCHED kernels_copy_divided(void *out, const void *in, int dtype, const KernelLoops *loops, double by, cudaStream_t stream);
/* Sets n items to these bits. */
LAUNCHED kernels_fill(void *out, int64_t n, int item_bytes, uint64_t bits, cudaStream_t stream);
/* A copy of rows of `run` bytes; strides in bytes. */
typedef struct KernelJoint {
    void *out;
    const void *in;
    int64_t run, out_stride, in_stride;
    KernelDivisor divisor; /* set by kernels_join */
} KernelJoint;
enum { MAX_JOINTS = 8 };
typedef struct KernelJoints {
    KernelJoint at[MAX_JOINTS];
} KernelJoints;
/* At most MAX_JOINTS copies of `rows` rows each, in one launch. */
LAUNCHED kernels_join(const KernelJoint *joints, int n, int64_t rows, cudaStream_t stream);

/* lookup.cuh */

/* Indices, of 4 or 8 bytes. This rank has those in [begin, begin + length), whose element is at index - begin. */
typedef struct KernelIndex {
    const void *data;
    int64_t n, begin, length;
    bool wide; /* 8 bytes */
} KernelIndex;
/* narrow[i] = wide[i, index[i]], 0 if this rank does not have it; wide [n, length]. item_bytes 2, 4 or 8. */
LAUNCHED kernels_pick(void *narrow, const void *wide, const KernelIndex *index, int item_bytes, cudaStream_t stream);
/* wide[i, index[i]] = narrow[i], or `bits` where narrow is NULL, and 0 elsewhere. item_bytes 1, 2, 4 or 8. */
LAUNCHED kernels_place(void *wide, const void *narrow, uint64_t bits, const KernelIndex *index, int item_bytes, cudaStream_t stream);
/* rows[i] = table[index[i]], 0 if this rank does not have it; rows of `width` items of 2, 4 or 8 bytes, table [length, width]. */
LAUNCHED kernels_lookup(void *rows, const void *table, const KernelIndex *index, int64_t width, int item_bytes, cudaStream_t stream);
/* table[r] = the sum of rows[i] over all i with index[i] = r; types of reals. Sums of more than 2048 rows are rounded to the type after each 2048 of them. */
LAUNCHED kernels_lookup_grad(void *table, const void *rows, const KernelIndex *index, int64_t width, int dtype, cudaStream_t stream);

/* loss.cuh */

/* Logits x [label.n, label.length]: this rank's, of `classes`. loss, most, sum: one number a row, f32 for 16-bit types. dx NULL: they are results; else they are operands, and loss
 * is dy. dx may be x. */
typedef struct KernelLoss {
    KernelIndex label;
    const void *x;
    void *dx, *loss, *most, *sum;
    int64_t classes;
    double smoothing;
    int dtype; /* of x and dx */
} KernelLoss;
LAUNCHED kernels_loss(const KernelLoss *loss, cudaStream_t stream);

/* lookup.cuh */

/* Updates a table w, and its slots m and v for lazy_adam, by gradient rows g whose table rows an index names; no other row is touched. */
typedef struct TableUpdate {
    KernelIndex index;
    void *w, *m, *v; /* updated in place. m NULL: sgd */
    const void *g;
    int64_t width;
    int dtype;
    const void *rate, *count; /* as UpdateTable's */
    double lr, beta1, beta2, eps;
} TableUpdate;
LAUNCHED kernels_table_update(const TableUpdate *update, cudaStream_t stream);

/* gather.cuh; no tensor is empty */

/* wide: [outer, index.length, each, width]; this rank's part of the axis begins at index.begin; index: [outer, n, each]; narrow: [outer, n, each, width]. All types of numbers. */
typedef struct KernelGather {
    KernelIndex index;
    void *wide, *narrow;
    int64_t outer, n, each, width;
    int dtype;
} KernelGather;
LAUNCHED kernels_gather(const KernelGather *gather, cudaStream_t stream); /* narrow from wide; 0 if this rank does not have the element */
LAUNCHED kernels_gather_grad(const KernelGather *gather, cudaStream_t stream); /* wide = the sums of narrow's */

LAUNCHED
kernels_put(const KernelGather *put,
            cudaStream_t stream); /* narrow's rows into wide; each = 1, all lines share the index; of equal indices the last counts */

/* x, out: [outer, length, inner], sums along length. */
typedef struct KernelCumsum {
    const void *x;
    void *out;
    int64_t outer, length, inner;
    bool reverse, exclusive;
    int dtype;
} KernelCumsum;
LAUNCHED kernels_cumsum(const KernelCumsum *cumsum, cudaStream_t stream);

/* x: [rows, length]; values, indices: [rows, k]. */
typedef struct KernelTopk {
    const void *x;
    void *values;
    int32_t *indices;
    int64_t rows, length, k;
    int dtype;
} KernelTopk;
LAUNCHED kernels_topk(const KernelTopk *topk, cudaStream_t stream);

/* matmul.cuh */

enum { PRODUCT_LETTERS = 16 };
/* A contraction as loops: over the result, with strides in a, b and the result, and over what is summed, with strides in a and b. */
typedef struct ProductLoops {
    int nkept, ngone;
    int64_t elements, depth; /* iterations of each */
    int64_t kept_size[PRODUCT_LETTERS], kept_stride[3][PRODUCT_LETTERS];
    int64_t gone_size[PRODUCT_LETTERS], gone_stride[2][PRODUCT_LETTERS];
} ProductLoops;
/* dtype: of the factors; wide: the factors have 16 bits and the result is f32. */
LAUNCHED kernels_product(const ProductLoops *loops, int dtype, bool wide, const void *a, const void *b, void *out, cudaStream_t stream);

/* Writes n elements of kernel_trial. */
LAUNCHED kernels_trial(void *out, int64_t n, int dtype, uint32_t salt, uint32_t every, uint32_t sixteenths, cudaStream_t stream);

/* pitch.cuh */

/* Copies rows of items of 2 or 4 bytes; pitches in items. */
typedef struct KernelPitch {
    void *to;
    const void *from;
    int64_t to_pitch, from_pitch, rows, columns;
    int item_bytes;
} KernelPitch;
LAUNCHED kernels_pitch(const KernelPitch *pitch, cudaStream_t stream);

/* window.cuh */

typedef enum {
    WINDOWS_CONV,
    WINDOWS_CONV_X,
    WINDOWS_CONV_W,
    WINDOWS_MAX,
    WINDOWS_MAX_BACK,
    WINDOWS_AVERAGE,
    WINDOWS_AVERAGE_BACK
} WindowsKind;
/* Computes the n elements of a result from the operands a and b, in the operator's order; b NULL: it has one. Types of reals. */
typedef struct KernelWindows {
    Planes planes;
    WindowsKind kind;
    int dtype;
    int with_padding; /* a mean counts the padding too */
    int64_t divisor;  /* not 0: a mean divides by it */
    int64_t n;
    void *out;
    const void *a, *b;
} KernelWindows;
/* scratch: as for kernels_reduce. */
LAUNCHED kernels_windows(const KernelWindows *windows, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* random.cuh */

/* A box of a tensor, uniform from 0 to 1, by Philox with this key; numbers_at says which of its numbers an element is (Numbers in runtime/backend.h). */
typedef struct KernelUniform {
    void *out;
    int dtype, ndim, row_dim;
    int64_t n, size[KERNEL_NDIM], begin[KERNEL_NDIM], stride[KERNEL_NDIM]; /* of the box, outermost first */
    int64_t row_length, replica_rows, share, world;
    uint64_t key, first;
} KernelUniform;
LAUNCHED kernels_uniform(const KernelUniform *uniform, cudaStream_t stream);

/* pull.cuh: what communicators move and add up */

enum { PULL_TERMS = 8 };
/* Elements of a target that are copied from one source, or reduced from several in order: elements [first, first + count), in row-major order, of nested loops around
 * runs of `unit` elements. Starts (of the loops' first run) and steps are in elements. Memory: any that the device can access. See pull.h. */
typedef struct KernelPull {
    void *target;
    const void *source[PULL_TERMS];
    int64_t target_start, source_start[PULL_TERMS];
    int64_t target_step[KERNEL_NDIM], source_step[PULL_TERMS][KERNEL_NDIM];
    int64_t extent[KERNEL_NDIM], unit, first, count;
    int nouter, nsources;
    int dtype, reduction; /* as DType and Reduction number them */
    int add;              /* the sources are added to the target */
    /* Set by pulls_prepare. */
    int width; /* elements of one access */
    unsigned first_block, nblocks;
    int narrow; /* all positions are below 2^31 */
    KernelDivisor divisor[KERNEL_NDIM], unit_divisor;
} KernelPull;
/* One pull, passed by value. */
LAUNCHED kernels_pull(const KernelPull *pull, cudaStream_t stream);
/* n pulls in one launch; none may read or write what another writes. table: on the device; nblocks: from pulls_prepare. */
LAUNCHED kernels_pulls(const KernelPull *table, int n, int64_t nblocks, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
