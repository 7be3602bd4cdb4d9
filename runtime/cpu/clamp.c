/* clamp and its gradient. Bounds are of the element type: reals rounded to it, integers stopped at its ends. A bound that is left out is beyond all numbers. */
#include <math.h>

#include "runtime/cpu/cpu.h"

typedef struct ClampRun {
    void *out;
    const void *x, *dy; /* dy: of the gradient */
    double low, high;
    int64_t least, most; /* the same, of integers */
} ClampRun;

/* Ranges are of elements. A nan stays, and has no gradient. */
#define CLAMP(suffix, T, LOW, HIGH)                                                                                                        \
    static void clamp_##suffix(void *context, int64_t begin, int64_t end) {                                                                \
        const ClampRun *run = context;                                                                                                     \
        const T low = (T)run->LOW, high = (T)run->HIGH, *in = run->x;                                                                      \
        T *out = run->out;                                                                                                                 \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) {                                                                        \
            T x = in[i];                                                                                                                   \
            out[i] = x < low ? low : x > high ? high : x;                                                                                  \
        }                                                                                                                                  \
    }
CLAMP(f32, float, low, high)
CLAMP(f64, double, low, high)
CLAMP(i32, int32_t, least, most)
CLAMP(i64, int64_t, least, most)

#define CLAMP_GRAD(suffix, T)                                                                                                              \
    static void clamp_grad_##suffix(void *context, int64_t begin, int64_t end) {                                                           \
        const ClampRun *run = context;                                                                                                     \
        const T low = (T)run->low, high = (T)run->high, *in = run->x, *dy = run->dy;                                                       \
        T *out = run->out;                                                                                                                 \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) out[i] = (in[i] >= low) & (in[i] <= high) ? dy[i] : 0;                   \
    }
CLAMP_GRAD(f32, float)
CLAMP_GRAD(f64, double)

static bool clamp(const KernelCall *call, PoolFn *const *fn) {
    const Operand *out = &call->out[0];
    const Attr *low = &call->attr[0], *high = &call->attr[1];
    ClampRun run = {.out = out->data, .x = call->in[0].data, .dy = call->nin > 1 ? call->in[1].data : NULL};
    run.low = low->given ? low->f : -(double)INFINITY;
    run.high = high->given ? high->f : (double)INFINITY;
    run.least = integer_of(run.low, out->dtype);
    run.most = integer_of(run.high, out->dtype);
    pool_run(call_pool(call), shape_elements(&out->local), GRAIN / 2, fn[out->dtype], &run);
    return true;
}

bool kernel_clamp(const KernelCall *call, Error *error) {
    static PoolFn *const fn[NDTYPES] = {clamp_f32, clamp_f64, clamp_i32, clamp_i64};
    return (void)error, clamp(call, fn);
}

bool kernel_clamp_grad(const KernelCall *call, Error *error) {
    static PoolFn *const fn[NDTYPES] = {clamp_grad_f32, clamp_grad_f64};
    return (void)error, clamp(call, fn);
}
