/* max, min: the largest or smallest element over axes. An empty box, of a rank that an uneven split left nothing, gives the neutral value: an infinity, or
 * the end of the integers. A nan stays. */
#include <math.h>

#include "runtime/cpu/cpu.h"

enum { BLOCK = 256, LANES = 16 };

typedef struct ExtremeRun {
    Nest kept, gone;
    void *out;
    const void *in;
} ExtremeRun;

#define EXTREME_LOOPS(name, suffix, T, WORST, BEYOND)                                                                                      \
    static inline T name##_of_##suffix(T most, T x) {                                                                                      \
        return (x BEYOND most) | (x != x) ? x : most;                                                                                      \
    }                                                                                                                                      \
    static T name##_run_##suffix(const T *x, int64_t stride, int64_t n) {                                                                  \
        T lane[LANES];                                                                                                                     \
        int64_t i = 0;                                                                                                                     \
        for (int l = 0; l < LANES; l++)                                                                                                    \
            lane[l] = WORST;                                                                                                               \
        if (stride == 1)                                                                                                                   \
            for (; i + LANES <= n; i += LANES) {                                                                                           \
                _Pragma("omp simd") for (int l = 0; l < LANES; l++) lane[l] = name##_of_##suffix(lane[l], x[i + l]);                       \
            }                                                                                                                              \
        for (; i < n; i++)                                                                                                                 \
            lane[0] = name##_of_##suffix(lane[0], x[i * stride]);                                                                          \
        for (int l = 1; l < LANES; l++)                                                                                                    \
            lane[0] = name##_of_##suffix(lane[0], lane[l]);                                                                                \
        return lane[0];                                                                                                                    \
    }                                                                                                                                      \
    /* Ranges are of the result's elements. */                                                                                             \
    static void name##_items_##suffix(void *context, int64_t begin, int64_t end) {                                                         \
        const ExtremeRun *run = context;                                                                                                   \
        const Nest *gone = &run->gone;                                                                                                     \
        int last = gone->ndim - 1;                                                                                                         \
        int64_t outer = nest_count(gone, 0, last), at[MAX_NEST], offset[MAX_NEST];                                                         \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            T most = WORST;                                                                                                                \
            nest_offsets(&run->kept, run->kept.ndim, item, at);                                                                            \
            for (int64_t i = 0; i < outer; i++) {                                                                                          \
                nest_offsets(gone, last, i, offset);                                                                                       \
                most = name##_of_##suffix(                                                                                                 \
                    most, name##_run_##suffix((const T *)run->in + at[1] + offset[0], gone->stride[0][last], gone->size[last]));           \
            }                                                                                                                              \
            ((T *)run->out)[at[0]] = most;                                                                                                 \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* Ranges are of blocks of columns. */                                                                                                 \
    static void name##_columns_##suffix(void *context, int64_t begin, int64_t end) {                                                       \
        const ExtremeRun *run = context;                                                                                                   \
        const Nest *kept = &run->kept, *gone = &run->gone;                                                                                 \
        int last = kept->ndim - 1;                                                                                                         \
        int64_t columns = kept->size[last], blocks = (columns + BLOCK - 1) / BLOCK, rows = nest_count(gone, 0, gone->ndim);                \
        for (int64_t item = begin; item < end; item++) {                                                                                   \
            int64_t at[MAX_NEST], offset[MAX_NEST], first = item % blocks * BLOCK, step = kept->stride[1][last];                           \
            int64_t n = columns - first < BLOCK ? columns - first : BLOCK;                                                                 \
            T most[BLOCK];                                                                                                                 \
            nest_offsets(kept, last, item / blocks, at);                                                                                   \
            for (int64_t c = 0; c < n; c++)                                                                                                \
                most[c] = WORST;                                                                                                           \
            for (int64_t i = 0; i < rows; i++) {                                                                                           \
                nest_offsets(gone, gone->ndim, i, offset);                                                                                 \
                const T *x = (const T *)run->in + at[1] + first * step + offset[0];                                                        \
                if (step == 1) {                                                                                                           \
                    _Pragma("omp simd") for (int64_t c = 0; c < n; c++) most[c] = name##_of_##suffix(most[c], x[c]);                       \
                } else {                                                                                                                   \
                    for (int64_t c = 0; c < n; c++)                                                                                        \
                        most[c] = name##_of_##suffix(most[c], x[c * step]);                                                                \
                }                                                                                                                          \
            }                                                                                                                              \
            T *out = (T *)run->out + at[0] + first * kept->stride[0][last];                                                                \
            for (int64_t c = 0; c < n; c++)                                                                                                \
                out[c * kept->stride[0][last]] = most[c];                                                                                  \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void name##_nothing_##suffix(void *out, int64_t n) {                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                                                    \
            ((T *)out)[i] = WORST;                                                                                                         \
    }
EXTREME_LOOPS(max, f32, float, -INFINITY, >)
EXTREME_LOOPS(max, f64, double, -(double)INFINITY, >)
EXTREME_LOOPS(max, i32, int32_t, INT32_MIN, >)
EXTREME_LOOPS(max, i64, int64_t, INT64_MIN, >)
EXTREME_LOOPS(min, f32, float, INFINITY, <)
EXTREME_LOOPS(min, f64, double, (double)INFINITY, <)
EXTREME_LOOPS(min, i32, int32_t, INT32_MAX, <)
EXTREME_LOOPS(min, i64, int64_t, INT64_MAX, <)

/* An operator's loops over items, over columns, and for empty boxes. */
typedef struct Extreme {
    PoolFn *items[NDTYPES], *columns[NDTYPES];
    void (*nothing[NDTYPES])(void *out, int64_t n);
} Extreme;
#define EXTREME(name)                                                                                                                      \
    {                                                                                                                                      \
        {name##_items_f32, name##_items_f64, name##_items_i32, name##_items_i64},                                                          \
            {name##_columns_f32, name##_columns_f64, name##_columns_i32, name##_columns_i64},                                              \
            {name##_nothing_f32, name##_nothing_f64, name##_nothing_i32, name##_nothing_i64},                                              \
    }

static bool extreme(const KernelCall *call, const Extreme *extreme) {
    const Operand *in = &call->in[0], *out = &call->out[0];
    int64_t nout = shape_elements(&out->local), nin = shape_elements(&in->local);
    if (nin == 0) {
        extreme->nothing[out->dtype](out->data, nout);
        return true;
    }
    Nest nest;
    double reduced;
    nest_reduce(&nest, call, &reduced);
    ExtremeRun run = {.out = out->data, .in = in->data};
    int64_t each = nin / nout;
    if (nest_divide(&nest, &run.kept, &run.gone)) {
        int last = run.kept.ndim - 1;
        int64_t blocks = (run.kept.size[last] + BLOCK - 1) / BLOCK;
        pool_run(call_pool(call), nest_count(&run.kept, 0, last) * blocks, 1 + GRAIN / (each * BLOCK), extreme->columns[out->dtype], &run);
    } else {
        pool_run(call_pool(call), nout, 1 + GRAIN / each, extreme->items[out->dtype], &run);
    }
    return true;
}

bool kernel_max(const KernelCall *call, Error *error) {
    static const Extreme largest = EXTREME(max);
    return (void)error, extreme(call, &largest);
}

bool kernel_min(const KernelCall *call, Error *error) {
    static const Extreme smallest = EXTREME(min);
    return (void)error, extreme(call, &smallest);
}
