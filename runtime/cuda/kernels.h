/* kernels: what kernels.cu offers to the host halves, in C. Each function queues launches on a stream and returns what
 * cudaGetLastError() says of them, which forgets it: a caller that drops the result drops the failure, so compilers warn of it. */
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
    KernelDivisor divisor[KERNEL_NDIM]; /* of size: move.cuh's own */
} KernelLoops;

#ifdef __CUDACC__
#define KERNEL_BOTH __host__ __device__
#else
#define KERNEL_BOTH
#endif
/* Element i of an operand to try a product on: sixteenths up to `sixteenths`, one in `every` not 0. Their products, and sums of not too many, are exact in every type of reals. */
KERNEL_BOTH static inline float kernel_trial(int64_t i, uint32_t salt, uint32_t every, uint32_t sixteenths) {
    uint64_t x = (uint64_t)i + ((uint64_t)salt << 56); /* mixed as MurmurHash3 ends */
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

/* What is done to elements. a, b, c: the operands; reals only from ELEMENT_REAL on. */
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
    ELEMENT_REAL, /* no operator: those that follow are of reals only */
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

/* An operand of a launch: which of its elements belongs to element i of the results. */
typedef enum ChainMode {
    CHAIN_LINEAR, /* element i */
    CHAIN_ROWS,   /* by the loops; a multiple of 16 bytes' worth of elements has the innermost loop */
    CHAIN_ANY     /* by the loops */
} ChainMode;
typedef struct LaunchLoad {
    const void *data;
    uint8_t mode, dtype;
    uint8_t packed; /* packs lie at multiples of their size */
    uint8_t ndim;   /* loops, outermost first */
    int64_t size[KERNEL_NDIM], stride[KERNEL_NDIM];
    KernelDivisor divisor[KERNEL_NDIM];
} LaunchLoad;
typedef struct LaunchStep {
    uint8_t op;    /* ElementOp */
    uint8_t in[3]; /* slots; CHAIN_RESULT: the result of the step before */
    uint8_t slot;  /* that takes the result; CHAIN_RESULT: none */
    uint8_t constant[2];
    uint8_t first_store, nstores;
    uint8_t round; /* KERNEL_F16, KERNEL_BF16: the result, of an f32 launch, is rounded to this type; else 0 */
} LaunchStep;
typedef struct LaunchStore {
    void *data;
    uint8_t dtype, packed;
} LaunchStore;
/* Operators on n elements, all of one type but for bools, which are 0 and 1 of it; loads and stores may be of others. Types of 16 bits are computed as f32. Load l fills slot l before step 0. */
typedef struct ChainLaunch {
    int64_t n;
    uint8_t dtype, nloads, nsteps, nstores;
    uint8_t wide; /* n is 2^31 or more: divisors are of no use */
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
    unsigned first_block; /* kernels_update's */
    int packed;           /* all begin at multiples of 16 bytes */
} UpdateTensor;
/* The same update of several tensors, none of which overlaps another's. */
typedef struct UpdateTable {
    int kind, dtype, ntensors;
    int decoupled;            /* adamw: the parameter itself decays, not the gradient */
    int direction;            /* lamb: what adamw would take off a parameter at lr 1 goes to new_w */
    int nesterov;             /* momentum */
    const void *rate;         /* one number on the device, lr is multiplied by it, NULL: 1. Clipping: the sum of squares */
    const void *count;        /* adam: the number of the update, from 1 */
    const void *of_w, *of_u;  /* lamb: squares of the norms of w and g, whose ratio lr is multiplied by; adafactor: the same; else NULL */
    double eps2, d, elements; /* adafactor: elements of the whole parameter; else 0 */
    double lr, momentum, beta1, beta2, eps, decay;
    double norm; /* of clipping */
    UpdateTensor tensor[UPDATE_TENSORS];
} UpdateTable;
LAUNCHED kernels_update(UpdateTable *table, cudaStream_t stream);

/* out = the sum of x's squares, one number each, in an order that depends on n alone. partial: room for UPDATE_TENSORS * SQUARES_BLOCKS numbers. */
typedef struct SquaresTable {
    int dtype, ntensors;
    double *partial;
    struct SquaresTensor {
        const void *x;
        void *out;
        int64_t n;
        int packed;
        unsigned first_block, nblocks; /* kernels_squares' */
    } tensor[UPDATE_TENSORS];
} SquaresTable;
LAUNCHED kernels_squares(SquaresTable *table, cudaStream_t stream);

/* casts.cuh */

/* Tensors of f32 in 16 bits, or of 16 bits in f32, none of which overlaps another's. */
typedef struct CastTable {
    int from, to, ntensors;
    struct CastTensor {
        const void *x;
        void *out;
        int64_t n;
        int packed;           /* both begin at multiples of 16 bytes */
        unsigned first_block; /* kernels_casts' */
    } tensor[UPDATE_TENSORS];
} CastTable;
LAUNCHED kernels_casts(CastTable *table, cudaStream_t stream);

/* reduce.cuh */

typedef enum { KERNEL_SUM, KERNEL_MAX, KERNEL_MIN, KERNEL_FIRST } KernelReduction;
/* Scratch memory of reductions in two stages: counters that are 0 between kernels, then partial results. */
enum { SCRATCH_COUNTERS = 4096 };
/* What a reduction leaves: each iteration of `kept` (tensor 0 the result, 1 the operand) is a result, reduced over the iterations of `gone` (0: unused, 1: the
 * operand). SUM: over the divisor. FIRST: of bytes, into int32_t: the first iteration of gone whose byte is not 0, plus `origin`, or INT32_MAX. */
typedef struct KernelReduce {
    void *out;
    const void *in;
    KernelLoops kept, gone;
    int dtype; /* of the operand */
    KernelReduction reduction;
    double divisor;
    int64_t origin;
    bool columns; /* neighbouring results are of neighbouring elements */
} KernelReduce;
LAUNCHED kernels_reduce(const KernelReduce *reduce, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* softmax.cuh */

typedef enum { ROWS_SOFTMAX, ROWS_LOG_SOFTMAX, ROWS_SOFTMAX_GRAD, ROWS_LOG_SOFTMAX_GRAD } KernelRows;
/* A tensor [outer, n, inner], rows of n elements `inner` apart; none of them 0. x: of a gradient y; dy: of a gradient, else unused. out may be x or dy. Types of reals. */
LAUNCHED kernels_rows(void *out, const void *x, const void *dy, KernelRows rows, int dtype, int64_t outer, int64_t n, int64_t inner,
                      cudaStream_t stream);

/* attention.cuh */

/* Plainly: any type of reals, any width, sums of doubles. In tiles: no f64, d and e up to ATTENTION_WIDTH, sums of floats; by tensor cores, f32 as tf32. */
typedef enum { ATTENTION_PLAIN, ATTENTION_TILES, ATTENTION_TENSORS } AttentionWay;
enum { ATTENTION_WIDTH = 128 };
/* d and e above 0. scratch: as of kernels_reduce. */
LAUNCHED kernels_attention(const AttentionCall *attention, AttentionWay way, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* rope.cuh */

/* rows of `pairs` pairs, whose places, from `first` on, go round; sign: -1 turns the other way. Types of reals. */
typedef struct KernelRope {
    const void *x;
    void *out;
    int64_t rows, places, pairs, first;
    double base, sign;
    int dtype;
} KernelRope;
LAUNCHED kernels_rope(const KernelRope *rope, cudaStream_t stream);

/* norm.cuh */

/* Rows and their elements are there, but for rows of a gradient. */
LAUNCHED kernels_norm(const NormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* batchnorm.cuh */

/* Of channels none is empty. */
LAUNCHED kernels_batch_norm(const BatchNormCall *norm, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* move.cuh */

/* Tensor 0 of the loops = tensor 1, items of 1, 2, 4 or 8 bytes; the result's innermost loop is last. Strides of tensor 1 may be 0. */
LAUNCHED kernels_copy(void *out, const void *in, int item_bytes, const KernelLoops *loops, cudaStream_t stream);
/* The same, divided; types of reals. */
LAUNCHED kernels_copy_divided(void *out, const void *in, int dtype, const KernelLoops *loops, double by, cudaStream_t stream);
/* n items with these bits. */
LAUNCHED kernels_fill(void *out, int64_t n, int item_bytes, uint64_t bits, cudaStream_t stream);
/* Rows of `run` bytes, so many bytes apart. */
typedef struct KernelJoint {
    void *out;
    const void *in;
    int64_t run, out_stride, in_stride;
    KernelDivisor divisor; /* kernels_join's */
} KernelJoint;
enum { MAX_JOINTS = 8 };
typedef struct KernelJoints {
    KernelJoint at[MAX_JOINTS];
} KernelJoints;
/* At most MAX_JOINTS copies of `rows` rows each, in one launch. */
LAUNCHED kernels_join(const KernelJoint *joints, int n, int64_t rows, cudaStream_t stream);

/* lookup.cuh */

/* Indices, of 4 or 8 bytes; those in [begin, begin + length) are here, and their element is at index - begin. */
typedef struct KernelIndex {
    const void *data;
    int64_t n, begin, length;
    bool wide; /* 8 bytes */
} KernelIndex;
/* narrow[i] = wide[i, index[i]], 0 where that is not here; wide [n, length]. item_bytes 2, 4 or 8. */
LAUNCHED kernels_pick(void *narrow, const void *wide, const KernelIndex *index, int item_bytes, cudaStream_t stream);
/* wide[i, index[i]] = narrow[i], or `bits` where narrow is NULL, and 0 elsewhere. item_bytes 1, 2, 4 or 8. */
LAUNCHED kernels_place(void *wide, const void *narrow, uint64_t bits, const KernelIndex *index, int item_bytes, cudaStream_t stream);
/* rows[i] = table[index[i]], 0 where that is not here; rows of `width` items of 2, 4 or 8 bytes, table [length, width]. */
LAUNCHED kernels_lookup(void *rows, const void *table, const KernelIndex *index, int64_t width, int item_bytes, cudaStream_t stream);
/* table[r] = the sum of rows[i] over all i with index[i] = r; types of reals. Sums of more than 2048 rows are rounded to the type again for each 2048 of them. */
LAUNCHED kernels_lookup_grad(void *table, const void *rows, const KernelIndex *index, int64_t width, int dtype, cudaStream_t stream);

/* loss.cuh */

/* Logits x [label.n, label.length], those of `classes` that are here. loss, most, sum: a number a row, f32 of types of 16 bits; dx NULL: results, else operands, loss being dy.
 * dx may be x. */
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

/* A table, w, and its slots, m and v of lazy_adam, by the rows g that an index names; no other row is touched. */
typedef struct TableUpdate {
    KernelIndex index;
    void *w, *m, *v; /* new; the old ones lie there. m NULL: sgd */
    const void *g;
    int64_t width;
    int dtype;
    const void *rate, *count; /* as UpdateTable's */
    double lr, beta1, beta2, eps;
} TableUpdate;
LAUNCHED kernels_table_update(const TableUpdate *update, cudaStream_t stream);

/* gather.cuh; no tensor is empty */

/* wide: [outer, index.length, each, width], of an axis that begins at index.begin; index: [outer, n, each]; narrow: [outer, n, each, width]. All types of numbers. */
typedef struct KernelGather {
    KernelIndex index;
    void *wide, *narrow;
    int64_t outer, n, each, width;
    int dtype;
} KernelGather;
LAUNCHED kernels_gather(const KernelGather *gather, cudaStream_t stream);      /* from wide; 0 where an index's element is not here */
LAUNCHED kernels_gather_grad(const KernelGather *gather, cudaStream_t stream); /* wide = the sums of narrow's */

LAUNCHED
kernels_put(const KernelGather *put,
            cudaStream_t stream); /* narrow's rows into wide, each = 1 and one index for all lines; of equal indices the last one's */

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
/* A contraction as loops: those of the result, with strides in a, b and it, and those that are summed, with strides in a and b. */
typedef struct ProductLoops {
    int nkept, ngone;
    int64_t elements, depth; /* iterations of each */
    int64_t kept_size[PRODUCT_LETTERS], kept_stride[3][PRODUCT_LETTERS];
    int64_t gone_size[PRODUCT_LETTERS], gone_stride[2][PRODUCT_LETTERS];
} ProductLoops;
/* dtype: of the factors; wide: of factors in 16 bits the result is f32. */
LAUNCHED kernels_product(const ProductLoops *loops, int dtype, bool wide, const void *a, const void *b, void *out, cudaStream_t stream);

/* n elements of kernel_trial. */
LAUNCHED kernels_trial(void *out, int64_t n, int dtype, uint32_t salt, uint32_t every, uint32_t sixteenths, cudaStream_t stream);

/* pitch.cuh */

/* Rows of items of 2 or 4 bytes, so many items apart. */
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
/* The n elements of a result from the operands a and b, as the operator has them; b NULL: it has one. Types of reals. */
typedef struct KernelWindows {
    Planes planes;
    WindowsKind kind;
    int dtype;
    int with_padding; /* a mean counts the padding too */
    int64_t divisor;  /* not 0: it counts so many */
    int64_t n;
    void *out;
    const void *a, *b;
} KernelWindows;
/* scratch: as of kernels_reduce. */
LAUNCHED kernels_windows(const KernelWindows *windows, void *scratch, int64_t scratch_bytes, cudaStream_t stream);

/* random.cuh */

/* A box of a tensor, uniform from 0 to 1: of Philox with this key each element's number is what numbers_at says (Numbers in runtime/backend.h). */
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
/* Elements of a target that are copied from one source, or reduced from several in their order: of nested loops around runs of `unit` elements, in row-major order,
 * the elements [first, first + count). Starts (of the loops' first run) and steps in elements. Memory: any that the device reaches. See pull.h. */
typedef struct KernelPull {
    void *target;
    const void *source[PULL_TERMS];
    int64_t target_start, source_start[PULL_TERMS];
    int64_t target_step[KERNEL_NDIM], source_step[PULL_TERMS][KERNEL_NDIM];
    int64_t extent[KERNEL_NDIM], unit, first, count;
    int nouter, nsources;
    int dtype, reduction; /* as DType and Reduction number them */
    int add;              /* onto what the target holds */
    /* pulls_prepare's. */
    int width; /* elements of one access */
    unsigned first_block, nblocks;
    int narrow; /* all positions are below 2^31 */
    KernelDivisor divisor[KERNEL_NDIM], unit_divisor;
} KernelPull;
/* One pull, passed by value. */
LAUNCHED kernels_pull(const KernelPull *pull, cudaStream_t stream);
/* n pulls in one launch: none may read or write what another writes. table: on the device; nblocks: what pulls_prepare said. */
LAUNCHED kernels_pulls(const KernelPull *table, int n, int64_t nblocks, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
