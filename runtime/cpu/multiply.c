/* multiply: chooses for matrix products between our own loops (productloops.c), OpenBLAS and oneDNN. Only the product's sizes and the width of the processor's
 * vectors decide, not measured times or strides. So a plan gives the same bits under any load, and ranks that compute the same, in a fused step or not, get the
 * same bits. oneDNN 2.6 adds up in the same order for any strides where the depth is below 1024.
 *
 * oneDNN has no products of f64. In f32 it is faster where the depth is short, and much faster where the product is small: OpenBLAS copies both factors in blocks, and
 * oneDNN copies none, or one where that pays. But it then reads across rows that are far apart, which needs several times the bandwidth if their distance is a power of two.
 * GFLOP/s of OpenBLAS 0.3.21 and oneDNN 2.6.3 on two cores (AMD Zen 3, AVX2), each multiplying its own m rows; n, k as given:
 *
 *     m x n x k                a b          a b^T        a^T b        a^T b^T
 *      64 x   64 x   64     99   147     118   174     120   146     121   168
 *     128 x  128 x  128    156   188     154   189     155   170     155   173
 *     256 x  256 x  256    157   170     173   184     168   139     166   169
 *    1024 x  256 x  256    178   184     174   185     170    85     172    77
 *     256 x 1024 x  256    178    94     170   186     168    85     172   159
 *    1024 x 1024 x  256    179   192     176   187     174   174     176   186
 *     512 x   64 x 1024    167   191     162   167     172   143     138   104
 *    1024 x  256 x 1024    184   177     177   163     171    79     175    75
 *
 * Our own loops copy the columns of one factor, and allocate nothing. Their time divided by that of OpenBLAS and of oneDNN (one core of the same Zen 3; products alone, in the caches):
 *
 *     m x n x k                a b          a b^T        a^T b        a^T b^T
 *       2 x   8 x   64    2.11  1.26     .84   .42    1.94  1.50     .85   .65
 *       1 x  64 x   64     .77           .54           .77           .48
 *       4 x 256 x   64     .85  1.29     .63   .92     .81  1.30     .57   .98
 *      16 x  16 x   16     .46   .38     .40   .27     .43   .37     .48   .45
 *      32 x  32 x   64     .68   .89     .64   .71     .72   .91     .66   .85
 *      64 x  64 x   64     .75   .95     .69   .89     .76   .91     .75   .94
 *     128 x 256 x   64     .76   .87     .74   .96     .80   .86     .78   .97
 *     128 x  64 x  256     .84  1.02     .78   .91     .88   .96     .85   .95
 *     256 x 256 x  256     .92   .99     .87   .92     .97   .83     .95   .93
 *     512 x 512 x  512    1.10   .76    1.14  1.05    1.23   .75    1.32   .86
 *
 * With AVX-512 oneDNN is ahead, except where both factors are transposed, there is little to do or much to add up (GFLOP/s of OpenBLAS, oneDNN and our own; two cores of
 * a Zen 4, each with operands of its own that are in no cache):
 *
 *     m x n x k                a b               a b^T             a^T b             a^T b^T
 *      64 x   64 x   64    102   85   92      69   59   62     101   82   49      27   57   91
 *     128 x  128 x  128     84   99   82      57   75   69      78  109   88      69   79   85
 *     512 x  256 x  256     89  106   98      87   95   96      90  107   88      89  102   87
 *    1024 x  256 x  512     88  102           86   89           89   89           86   74
 *     512 x 1024 x 1024     77   87           78   86           91   98           79   77
 *     512 x 4096 x 4096     96  100           90   98           98  102           94   83
 *      64 x 1024 x 1024     64   71           52   57           58   67           53   29
 */
#include "runtime/cpu/cpu.h"

enum {
    MOST_ROWS = 512, /* these four: where our own loops are used */
    LEAST_COLUMNS = 16,
    MOST_COLUMNS = 256,
    MOST_DEPTH = 256,
    SHORT_DEPTH = 256,
    NARROW = 64,      /* columns up to which oneDNN pays for any depth */
    NEAR = 256,       /* elements of a row up to which the next row is near */
    LARGE_SIDE = 512, /* side and elements of products from which on both factors are copied */
    LARGE = 1 << 19,
    SMALL_TURNED = 1 << 14,
    LEAST_WIDE = 1 << 23, /* multiplications, with AVX-512 */
    DEPTH_WIDE = 1023     /* from 1024 on the order of oneDNN's sums depends on strides */
};
/* Opening oneDNN takes 17 ms, most of it in the first product, for which it generates code: calls of fewer multiplications do without it. With AVX-512 they would not gain
 * either: for batches of products from 16 x 16 x 16 to 64 x 64 x 32, 2^18 to 2^23 multiplications together, OpenBLAS takes 0.4 to 0.9 of oneDNN's time. From 2^24 on oneDNN
 * is ahead where a side has 128, and OpenBLAS, by a fifth, where all have 64 (Ice Lake, one thread). */
static const double worth_opening = 1 << 24;

/* wide: the processor has AVX-512. */
static bool onednn_is_faster(const ProductSize *p, bool wide) {
    if (p->m < 2 || p->n < 2) return false;
    if (wide && p->k <= DEPTH_WIDE)
        return !(p->a_transposed && p->b_transposed) && (double)p->m * (double)p->n * (double)p->k >= LEAST_WIDE;
    if (p->k > SHORT_DEPTH) return !p->a_transposed && p->n <= NARROW;
    if (p->m >= LARGE_SIDE && p->n >= LARGE_SIDE && p->m * p->n >= LARGE) return true;
    if (p->a_transposed) return p->m <= NEAR && p->n <= NEAR && p->m * p->n <= SMALL_TURNED;
    return p->b_transposed || p->n <= NEAR || p->n % NEAR != 0;
}

static bool all_faster(DType dtype, const ProductSize *sizes, int n, double work, bool wide) {
    bool faster = dtype == F32 && n > 0 && work >= worth_opening;
    for (int i = 0; i < n; i++)
        faster = faster && onednn_is_faster(&sizes[i], wide);
    return faster;
}

static bool own_is_faster(DType dtype, const ProductSize *sizes, int n) {
    bool faster = dtype == F32 && n > 0;
    for (int i = 0; i < n; i++) {
        const ProductSize *p = &sizes[i];
        faster = faster && p->m <= MOST_ROWS && p->n >= LEAST_COLUMNS && p->n <= MOST_COLUMNS && p->k <= MOST_DEPTH;
    }
    return faster;
}

bool onednn_for(CpuContext *context, const Onednn **onednn, Error *error) {
    *onednn = NULL;
    if (context->no_onednn) return true;
    if (!context->onednn.sgemm && !onednn_open(&context->onednn, pool_threads(context->pool), error)) return false;
    context->no_onednn = !context->onednn.sgemm;
    if (!context->no_onednn) *onednn = &context->onednn;
    return true;
}

bool multiplier_open(const KernelCall *call, const ProductSize *sizes, int n, double work, Multiplier *by, Error *error) {
    CpuContext *context = call->context;
    *by = (Multiplier){.dtype = call->in[0].dtype, .no_memory = &context->no_memory};
    const bool wide = vector_variants() > 2, own = own_is_faster(by->dtype, sizes, n);
    if ((wide || !own) && all_faster(by->dtype, sizes, n, work, wide) && !onednn_for(context, &by->onednn, error)) return false;
    if (own && !by->onednn) by->own = vector_variant(vector_variants() - 1)->product();
    if (by->onednn || by->own) return true;
    by->blas = &context->blas;
    return context->blas.sgemm || blas_open(&context->blas, pool_threads(context->pool), error);
}

static CBLAS_TRANSPOSE order_of(Matrix matrix) {
    return matrix.transposed ? CblasTrans : CblasNoTrans;
}

void multiply(const Multiplier *by, MatrixAt a, MatrixAt b, int64_t m, int64_t n, int64_t k, double scale, bool add, void *out,
              int64_t leading) {
    const int64_t lda = a.matrix.leading, ldb = b.matrix.leading;
    if (by->own) {
        by->own(a, b, m, n, k, scale, add, out, leading);
    } else if (by->onednn) {
        by->onednn->set_threads(1); /* we divide the work among threads */
        if (by->onednn->sgemm(a.matrix.transposed ? 'T' : 'N', b.matrix.transposed ? 'T' : 'N', m, n, k, (float)scale, a.at, lda, b.at, ldb,
                              add, out, leading))
            atomic_store(by->no_memory, true);
    } else if (by->dtype == F32)
        by->blas->sgemm(CblasRowMajor, order_of(a.matrix), order_of(b.matrix), (int)m, (int)n, (int)k, (float)scale, a.at, (int)lda, b.at,
                        (int)ldb, add, out, (int)leading);
    else
        by->blas->dgemm(CblasRowMajor, order_of(a.matrix), order_of(b.matrix), (int)m, (int)n, (int)k, scale, a.at, (int)lda, b.at,
                        (int)ldb, add, out, (int)leading);
}

bool multiplier_done(const Multiplier *by, Error *error) {
    return !atomic_exchange(by->no_memory, false) || error_set(error, EXIT_ENVIRONMENT, "out of memory for a matrix product in oneDNN");
}
