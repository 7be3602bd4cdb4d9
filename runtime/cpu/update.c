/* update: optimizers, one pass over parameter, slot and gradient each. Results may lie in the operands' storage. */
#include "runtime/cpu/cpu.h"

typedef struct UpdateRun {
    const void *w, *v, *g;
    void *new_w, *new_v;
    double lr, momentum;
} UpdateRun;

/* w' = w - lr g */
#define SGD(suffix, T)                                                                                                                     \
    static void sgd_##suffix(void *context, int64_t begin, int64_t end) {                                                                  \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *g = run->g;                                                                                                  \
        T *new_w = run->new_w;                                                                                                             \
        const T lr = (T)run->lr;                                                                                                           \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) new_w[i] = w[i] - lr * g[i];                                             \
    }
SGD(f32, float)
SGD(f64, double)

/* v' = momentum v + g; w' = w - lr v' */
#define MOMENTUM(suffix, T)                                                                                                                \
    static void momentum_##suffix(void *context, int64_t begin, int64_t end) {                                                             \
        const UpdateRun *run = context;                                                                                                    \
        const T *w = run->w, *v = run->v, *g = run->g;                                                                                     \
        T *new_w = run->new_w, *new_v = run->new_v;                                                                                        \
        const T lr = (T)run->lr, momentum = (T)run->momentum;                                                                              \
        _Pragma("omp simd") for (int64_t i = begin; i < end; i++) {                                                                        \
            const T slot = momentum * v[i] + g[i];                                                                                         \
            new_w[i] = w[i] - lr * slot;                                                                                                   \
            new_v[i] = slot;                                                                                                               \
        }                                                                                                                                  \
    }
MOMENTUM(f32, float)
MOMENTUM(f64, double)

static bool update(const KernelCall *call, UpdateRun *run, PoolFn *const loops[NDTYPES], Error *error) {
    const Operand *w = &call->in[0];
    if (!loops[w->dtype]) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[w->dtype]);
    pool_run(call_pool(call), shape_elements(&w->local), GRAIN, loops[w->dtype], run);
    return true;
}

bool kernel_sgd(const KernelCall *call, Error *error) {
    UpdateRun run = {.w = call->in[0].data, .g = call->in[1].data, .new_w = call->out[0].data, .lr = call->attr[0].f};
    return update(call, &run, (PoolFn *const[NDTYPES]){sgd_f32, sgd_f64, NULL}, error);
}

bool kernel_momentum(const KernelCall *call, Error *error) {
    UpdateRun run = {.w = call->in[0].data,
                     .v = call->in[1].data,
                     .g = call->in[2].data,
                     .new_w = call->out[0].data,
                     .new_v = call->out[1].data,
                     .lr = call->attr[0].f,
                     .momentum = call->attr[1].f};
    return update(call, &run, (PoolFn *const[NDTYPES]){momentum_f32, momentum_f64, NULL}, error);
}
