/* index: operators that look elements up by integers. An index that means nothing, or whose element another rank has, reads and writes nothing:
 * whatever numbers the data hold, no memory outside the operands is touched. */
#include <string.h>

#include "runtime/cpu/cpu.h"

/* Rows of `length` elements of `wide`, of which this rank has those at [begin, begin + length), and a number for each. */
typedef struct PickRun {
    const Operand *index;
    void *wide, *narrow;
    int64_t begin, length;
} PickRun;

static PickRun pick_run(const Operand *wide, const Operand *index, const Operand *narrow) {
    int last = wide->local.ndim - 1;
    return (PickRun){index, wide->data, narrow->data, wide->box.begin[last], wide->local.dim[last]};
}

#define PICK(suffix, T)                                                                                                                    \
    static void pick_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                            \
        const PickRun *run = context;                                                                                                      \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            int64_t at = index_within(run->index, row, run->begin, run->length);                                                           \
            ((T *)run->narrow)[row] = at >= 0 ? ((const T *)run->wide)[row * run->length + at] : 0;                                        \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void pick_grad_rows_##suffix(void *context, int64_t begin, int64_t end) {                                                       \
        const PickRun *run = context;                                                                                                      \
        memset((T *)run->wide + begin * run->length, 0, (size_t)((end - begin) * run->length) * sizeof(T));                                \
        for (int64_t row = begin; row < end; row++) {                                                                                      \
            int64_t at = index_within(run->index, row, run->begin, run->length);                                                           \
            if (at >= 0) ((T *)run->wide)[row * run->length + at] = ((const T *)run->narrow)[row];                                         \
        }                                                                                                                                  \
    }
FOR_FLOATS(PICK)

bool kernel_pick(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {pick_rows_f32, pick_rows_f64};
    const Operand *out = &call->out[0];
    PickRun run = pick_run(&call->in[0], &call->in[1], out);
    pool_run(call_pool(call), shape_elements(&out->local), GRAIN, rows[out->dtype], &run);
    return true;
}

bool kernel_pick_grad(const KernelCall *call, Error *error) {
    (void)error;
    static PoolFn *const rows[NDTYPES] = {pick_grad_rows_f32, pick_grad_rows_f64};
    const Operand *out = &call->out[0];
    PickRun run = pick_run(out, &call->in[1], &call->in[0]);
    pool_run(call_pool(call), shape_elements(&call->in[0].local), 1 + GRAIN / (run.length + 1), rows[out->dtype], &run);
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool kernel_cross_entropy(const KernelCall *call, Error *error) {
    return reference_cross_entropy(call, error);
}
