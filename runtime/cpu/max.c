/* max: the largest element over axes. A box without elements, of a rank that an uneven split left none, gives what every other number is
 * above: minus infinity, or the least integer. A nan stays. */
#include <math.h>

#include "runtime/cpu/cpu.h"

enum { BLOCK = 256, LANES = 16 };

typedef struct MaxRun {
    Nest kept, gone;
    void *out;
    const void *in;
} MaxRun;

#define MAX_LOOPS(suffix, T, LEAST)                                                                                                        \
    static inline T larger_##suffix(T most, T x) {                                                                                         \
        return (x > most) | (x != x) ? x : most;                                                                                              \
    }                                                                                                                                      \
    static T max_run_##suffix(const T *x, int64_t stride, int64_t n) {                                                                     \
        T lane[LANES];                                                                                                                     \
        int64_t i = 0;                                                                                                                     \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            lane[l] = LEAST;                                                                                                               \
        if (stride == 1)                                                                                                                   \
            for (; i + LANES <= n; i += LANES) {                                                                                           \
                _Pragma("omp simd") for (int l = 0; l < LANES; l++) lane[l] = larger_##suffix(lane[l], x[i + l]);                          \
            }                                                                                                                              \
        for (; i < n; i++)                                                                                                                 \
            lane[0] = larger_##suffix(lane[0], x[i * stride]);                                                                             \
        for (int l = 1; l < LANES; l++)                                                                                                    \
            lane[0] = larger_##suffix(lane[0], lane[l]);                                                                                   \
        return lane[0];                                                                                                                    \
    }                                                                                                                                      \
    /* Ranges are of the result's elements. */                                                                                             \
    static void max_items_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const MaxRun *run = context;                                                                                                       \
        const Nest *gone = &run->gone;                                                                                                     \
        int last = gone->ndim - 1;                                                                                                         \
        int64_t outer = nest_count(gone, 0, last), at[MAX_NEST], offset[MAX_NEST];                                                         \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            T most = LEAST;                                                                                                                \
            nest_offsets(&run->kept, run->kept.ndim, item, at);                                                                            \
            for (int64_t i = 0; i < outer; i++) {                                                                                          \
                nest_offsets(gone, last, i, offset);                                                                                       \
                most = larger_##suffix(most, max_run_##suffix((const T *)run->in + at[1] + offset[0], gone->stride[0][last],               \
                                                              gone->size[last]));                                                          \
            }                                                                                                                              \
            ((T *)run->out)[at[0]] = most;                                                                                                 \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* Ranges are of blocks of columns. */                                                                                                 \
    static void max_columns_##suffix(void *context, int64_t begin, int64_t end) {                                                          \
        const MaxRun *run = context;                                                                                                       \
        const Nest *kept = &run->kept, *gone = &run->gone;                                                                                 \
        int last = kept->ndim - 1;                                                                                                         \
        int64_t columns = kept->size[last], blocks = (columns + BLOCK - 1) / BLOCK, rows = nest_count(gone, 0, gone->ndim);                \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            int64_t at[MAX_NEST], offset[MAX_NEST], first = item % blocks * BLOCK, step = kept->stride[1][last];                           \
            int64_t n = columns - first < BLOCK ? columns - first : BLOCK;                                                                 \
            T most[BLOCK];                                                                                                                 \
            nest_offsets(kept, last, item / blocks, at);                                                                                   \
            for (int64_t c = 0; c < n; c++)                                                                                                \
                most[c] = LEAST;                                                                                                           \
            for (int64_t i = 0; i < rows; i++) {                                                                                           \
                nest_offsets(gone, gone->ndim, i, offset);                                                                                 \
                const T *x = (const T *)run->in + at[1] + first * step + offset[0];                                                        \
                if (step == 1) {                                                                                                           \
                    _Pragma("omp simd") for (int64_t c = 0; c < n; c++) most[c] = larger_##suffix(most[c], x[c]);                          \
                } else {                                                                                                                   \
                    for (int64_t c = 0; c < n; c++)                                                                                        \
                        most[c] = larger_##suffix(most[c], x[c * step]);                                                                   \
                }                                                                                                                          \
            }                                                                                                                              \
            T *out = (T *)run->out + at[0] + first * kept->stride[0][last];                                                                \
            for (int64_t c = 0; c < n; c++)                                                                                                \
                out[c * kept->stride[0][last]] = most[c];                                                                                  \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void max_nothing_##suffix(T *out, int64_t n) {                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                                    \
            out[i] = LEAST;                                                                                                                \
    }
MAX_LOOPS(f32, float, -INFINITY)
MAX_LOOPS(f64, double, -(double)INFINITY)
MAX_LOOPS(i32, int32_t, INT32_MIN)
MAX_LOOPS(i64, int64_t, INT64_MIN)

static void max_nothing(const Operand *out, int64_t n) {
    switch (out->dtype) {
    case F32: max_nothing_f32(out->data, n); return;
    case F64: max_nothing_f64(out->data, n); return;
    case I32: max_nothing_i32(out->data, n); return;
    case I64: max_nothing_i64(out->data, n); return;
    case BOOL:
    case NDTYPES: return;
    }
}

bool kernel_max(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const items[NDTYPES] = {max_items_f32, max_items_f64, max_items_i32, max_items_i64};
    static PoolFn *const columns[NDTYPES] = {max_columns_f32, max_columns_f64, max_columns_i32, max_columns_i64};
    const Operand *in = &call->in[0], *out = &call->out[0];
    int64_t nout = shape_elements(&out->local), nin = shape_elements(&in->local);
    if (nin == 0) {
        max_nothing(out, nout);
        return true;
    }
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    MaxRun run = {.out = out->data, .in = in->data};
    int64_t each = nin / nout;
    if (nest_divide(&nest, &run.kept, &run.gone)) {
        int last = run.kept.ndim - 1;
        int64_t blocks = (run.kept.size[last] + BLOCK - 1) / BLOCK;
        pool_run(call_pool(call), nest_count(&run.kept, 0, last) * blocks, 1 + GRAIN / (each * BLOCK), columns[out->dtype], &run);
    } else {
        pool_run(call_pool(call), nout, 1 + GRAIN / each, items[out->dtype], &run);
    }
    return true;
}
