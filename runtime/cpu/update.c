/* update: optimizers, one pass over parameter, slots and gradient each; sums of squares, for clipping. Results may lie in the operands' storage. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cpu/cpu.h"
#include "runtime/element.h"

typedef struct UpdateRun {
    const void *w, *v, *g, *m;
    void *new_w, *new_v, *new_m;
    double lr, momentum, decay;
    double beta1, beta2, eps, correction; /* adam: lr is divided by 1 - beta1^t; correction is sqrt(1 - beta2^t) */
    double shrink;                        /* adamw, lion: the parameter is multiplied by it first */
    bool nesterov;
} UpdateRun;

/* g' = g + decay w; w' = w - lr g' */
#define SGD(suffix, T)                                                                                                                     \
    static void sgd_##suffix(void *context, int64_t begin, int64_t end) {                                                                  \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *g = run->g;                                                                                                  \
        T *new_w = run->new_w;                                                                                                             \
        const T lr = (T)run->lr, decay = (T)run->decay;                                                                                    \
        if (decay == 0)                                                                                                                    \
            _Pragma("omp simd") for (int64_t i = begin; i < end; i++) new_w[i] = w[i] - lr * g[i];                                         \
        else                                                                                                                               \
            _Pragma("omp simd") for (int64_t i = begin; i < end; i++) new_w[i] = w[i] - lr * (g[i] + decay * w[i]);                        \
    }
SGD(f32, float)
SGD(f64, double)

/* g' = g + decay w; v' = momentum v + g'; w' = w - lr v', nesterov: w' = w - lr (g' + momentum v') */
#define MOMENTUM(suffix, T)                                                                                                                \
    static void momentum_##suffix(void *context, int64_t begin, int64_t end) {                                                             \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *v = run->v, *g = run->g;                                                                                     \
        T *new_w = run->new_w, *new_v = run->new_v;                                                                                        \
        const T lr = (T)run->lr, momentum = (T)run->momentum, decay = (T)run->decay;                                                       \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) {                                                                        \
            const T slot = momentum * v[i] + (decay == 0 ? g[i] : g[i] + decay * w[i]);                                                    \
            new_w[i] = w[i] - lr * (run->nesterov ? (decay == 0 ? g[i] : g[i] + decay * w[i]) + momentum * slot : slot);                   \
            new_v[i] = slot;                                                                                                               \
        }                                                                                                                                  \
    }
MOMENTUM(f32, float)
MOMENTUM(f64, double)

/* g' = g + decay w; m' = beta1 m + (1 - beta1) g'; v' = beta2 v + (1 - beta2) g'^2; w' = shrink w - lr m' / (sqrt(v') / correction + eps) */
#define ADAM(suffix, T, root)                                                                                                              \
    static void adam_##suffix(void *context, int64_t begin, int64_t end) {                                                                 \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *m = run->m, *v = run->v, *g = run->g;                                                                        \
        T *new_w = run->new_w, *new_m = run->new_m, *new_v = run->new_v;                                                                   \
        const T lr = (T)run->lr, decay = (T)run->decay, shrink = (T)run->shrink, eps = (T)run->eps, correction = (T)run->correction;       \
        const T beta1 = (T)run->beta1, rest1 = (T)(1 - run->beta1), beta2 = (T)run->beta2, rest2 = (T)(1 - run->beta2);                    \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) {                                                                        \
            const T gradient = g[i] + decay * w[i], first = beta1 * m[i] + rest1 * gradient;                                               \
            const T second = beta2 * v[i] + rest2 * gradient * gradient;                                                                   \
            new_w[i] = shrink * w[i] - lr * first / (root(second) / correction + eps);                                                     \
            new_m[i] = first;                                                                                                              \
            new_v[i] = second;                                                                                                             \
        }                                                                                                                                  \
    }
ADAM(f32, float, sqrtf)
ADAM(f64, double, sqrt)

/* c = beta1 m + (1 - beta1) g; w' = shrink w - lr sign(c); m' = beta2 m + (1 - beta2) g */
#define LION(suffix, T)                                                                                                                    \
    static void lion_##suffix(void *context, int64_t begin, int64_t end) {                                                                 \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *m = run->m, *g = run->g;                                                                                     \
        T *new_w = run->new_w, *new_m = run->new_m;                                                                                        \
        const T lr = (T)run->lr, shrink = (T)run->shrink, beta1 = (T)run->beta1, rest1 = (T)(1 - run->beta1);                              \
        const T beta2 = (T)run->beta2, rest2 = (T)(1 - run->beta2);                                                                        \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) {                                                                        \
            const T way = beta1 * m[i] + rest1 * g[i], slot = beta2 * m[i] + rest2 * g[i];                                                 \
            new_w[i] = shrink * w[i] - (way > 0 ? lr : way < 0 ? -lr : lr * way);                                                          \
            new_m[i] = slot;                                                                                                               \
        }                                                                                                                                  \
    }
LION(f32, float)
LION(f64, double)

static double attribute(const KernelCall *call, const char *name) {
    return call->attr[op_attr(call->op, name)].f;
}

/* lr times the rate operand, if the operator has one. */
static double rate_of(const KernelCall *call) {
    int rate = op_in(call->op, "rate");
    return attribute(call, "lr") * (rate < call->nin ? operand_number(&call->in[rate]) : 1);
}

static bool update(const KernelCall *call, UpdateRun *run, PoolFn *const loops[NDTYPES], Error *error) {
    const Operand *w = &call->in[0];
    if (!loops[w->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[w->dtype]);
    pool_run(call_pool(call), shape_elements(&w->local), GRAIN, loops[w->dtype], run);
    return true;
}

bool kernel_sgd(const KernelCall *call, Error *error) {
    UpdateRun run = {.w = call->in[0].data,
                     .g = call->in[1].data,
                     .new_w = call->out[0].data,
                     .lr = rate_of(call),
                     .decay = attribute(call, "weight_decay")};
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = sgd_f32, [F64] = sgd_f64}, error);
}

bool kernel_momentum(const KernelCall *call, Error *error) {
    UpdateRun run = {.w = call->in[0].data,
                     .v = call->in[1].data,
                     .g = call->in[2].data,
                     .new_w = call->out[0].data,
                     .new_v = call->out[1].data,
                     .lr = rate_of(call),
                     .momentum = attribute(call, "momentum"),
                     .decay = attribute(call, "weight_decay"),
                     .nesterov = call->attr[op_attr(OP_momentum, "nesterov")].i != 0};
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = momentum_f32, [F64] = momentum_f64}, error);
}

bool kernel_lion(const KernelCall *call, Error *error) {
    const double lr = rate_of(call);
    UpdateRun run = {.w = call->in[0].data,
                     .m = call->in[1].data,
                     .g = call->in[2].data,
                     .new_w = call->out[0].data,
                     .new_m = call->out[1].data,
                     .lr = lr,
                     .beta1 = attribute(call, "beta1"),
                     .beta2 = attribute(call, "beta2"),
                     .shrink = 1 - lr * attribute(call, "weight_decay")};
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = lion_f32, [F64] = lion_f64}, error);
}

/* What adam and lamb have in common; lr: that of the direction. */
static UpdateRun adam_run(const KernelCall *call, double lr) {
    const double count = operand_number(&call->in[4]);
    UpdateRun run = {.w = call->in[0].data,
                     .m = call->in[1].data,
                     .v = call->in[2].data,
                     .g = call->in[3].data,
                     .new_w = call->out[0].data,
                     .new_m = call->out[1].data,
                     .new_v = call->out[2].data,
                     .beta1 = attribute(call, "beta1"),
                     .beta2 = attribute(call, "beta2"),
                     .eps = attribute(call, "eps")};
    run.lr = lr / (1 - pow(run.beta1, count));
    run.correction = sqrt(1 - pow(run.beta2, count));
    return run;
}

static bool adams(const KernelCall *call, bool decoupled, Error *error) {
    const double lr = rate_of(call), decay = attribute(call, "weight_decay");
    UpdateRun run = adam_run(call, lr);
    run.decay = decoupled ? 0 : decay;
    run.shrink = decoupled ? 1 - lr * decay : 1;
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = adam_f32, [F64] = adam_f64}, error);
}

bool kernel_adam(const KernelCall *call, Error *error) {
    return adams(call, false, error);
}
bool kernel_adamw(const KernelCall *call, Error *error) {
    return adams(call, true, error);
}

/* The direction is adam's: shrink w - lr m' / (..), with the weight decay in place of shrink, and -1 in place of lr. */
bool kernel_lamb_step(const KernelCall *call, Error *error) {
    UpdateRun run = adam_run(call, -1);
    run.shrink = attribute(call, "weight_decay");
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = adam_f32, [F64] = adam_f64}, error);
}

/* w' = w - lr |w| / |u| u */
bool kernel_lamb(const KernelCall *call, Error *error) {
    const double of_w = operand_number(&call->in[2]), of_u = operand_number(&call->in[3]);
    UpdateRun run = {.w = call->in[0].data,
                     .g = call->in[1].data,
                     .new_w = call->out[0].data,
                     .lr = rate_of(call) * (of_w > 0 && of_u > 0 ? sqrt(of_w) / sqrt(of_u) : 1)};
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = sgd_f32, [F64] = sgd_f64}, error);
}

/* w' = shrink w - alpha / denominator u */
#define ADAFACTOR(suffix, T)                                                                                                               \
    static void adafactor_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *u = run->g;                                                                                                  \
        T *new_w = run->new_w;                                                                                                             \
        const T lr = (T)run->lr, shrink = (T)run->shrink;                                                                                  \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) new_w[i] = shrink * w[i] - lr * u[i];                                    \
    }
ADAFACTOR(f32, float)
ADAFACTOR(f64, double)

bool kernel_adafactor(const KernelCall *call, Error *error) {
    const double lr = rate_of(call), n = (double)shape_elements(&call->in[0].global), count = operand_number(&call->in[4]);
    const double of_w = sqrt(operand_number(&call->in[2]) / n), of_u = sqrt(operand_number(&call->in[3]) / n); /* roots of mean squares */
    UpdateRun run = {
        .w = call->in[0].data, .g = call->in[1].data, .new_w = call->out[0].data, .shrink = 1 - lr * attribute(call, "weight_decay")};
    run.lr = fmax(attribute(call, "eps2"), of_w) * fmin(lr, 1 / sqrt(count)) / fmax(1, of_u / attribute(call, "d"));
    return update(call, &run, (PoolFn *const[NDTYPES]){[F32] = adafactor_f32, [F64] = adafactor_f64}, error);
}

/* ---------------------------------------------------------------- sums of squares */

/* Sums blocks of a fixed length, then their sums, so that the result does not depend on the number of threads. */
enum { BLOCK = 1 << 12 };

typedef struct SquaresRun {
    const void *x;
    double *sum; /* per block */
    int64_t n;   /* elements */
} SquaresRun;

#define SQUARES(suffix, T)                                                                                                                 \
    static void squares_##suffix(void *context, int64_t begin, int64_t end) {                                                              \
        const SquaresRun *run = context;                                                                                                   \
        for (int64_t b = begin; b < end; b++) {                                                                                            \
            const T *x = (const T *)run->x + b * BLOCK;                                                                                    \
            const int64_t n = run->n - b * BLOCK < BLOCK ? run->n - b * BLOCK : BLOCK;                                                     \
            double sum = 0;                                                                                                                \
            _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];                     \
            run->sum[b] = sum;                                                                                                             \
        }                                                                                                                                  \
    }
SQUARES(f32, float)
SQUARES(f64, double)

bool kernel_sum_squares(const KernelCall *call, Error *error) {
    const Operand *x = &call->in[0];
    PoolFn *const loops[NDTYPES] = {[F32] = squares_f32, [F64] = squares_f64};
    SquaresRun run = {.x = x->data, .n = shape_elements(&x->local)};
    int64_t nblocks = (run.n + BLOCK - 1) / BLOCK;
    if (!loops[x->dtype]) return error_set(error, EXIT_INTERNAL, "sum_squares: no kernel for %s", dtype_name[x->dtype]);
    run.sum = malloc((size_t)(nblocks + 1) * sizeof *run.sum);
    if (!run.sum) return error_set(error, EXIT_ENVIRONMENT, "out of memory for the sums of a norm");
    pool_run(call_pool(call), nblocks, GRAIN / BLOCK, loops[x->dtype], &run);
    double sum = 0;
    for (int64_t b = 0; b < nblocks; b++)
        sum += run.sum[b];
    free(run.sum);
    element_put(call->out[0].data, x->dtype, 0, sum);
    return true;
}
