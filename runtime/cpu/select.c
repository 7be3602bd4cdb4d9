/* select: operators between element types: comparisons, where, cast. Plain loops over broadcast operands: what is compared is little, next to products. */
#include "runtime/cpu/cpu.h"

/* The loops of a call of up to three operands, in threads: ranges are of iterations of the loops but the innermost; with one loop only, of its items. */
typedef struct SelectRun SelectRun;
typedef void SelectRow(const SelectRun *run, char *const *at, const int64_t *stride, int64_t n);
struct SelectRun {
    const Nest *nest;
    SelectRow *row;
    char *tensor[MAX_NEST];
    int bytes[MAX_NEST]; /* of an element */
    DType dtype, result; /* of the operands, of the result */
};

static void select_part(void *context, int64_t begin, int64_t end) {
    const SelectRun *run = context;
    const Nest *nest = run->nest;
    int last = nest->ndim - 1;
    int64_t n = last == 0 ? end - begin : nest->size[last], count = last == 0 ? 1 : end - begin, stride[MAX_NEST];
    for (int t = 0; t < nest->ntensors; t++)
        stride[t] = nest->stride[t][last];
    for (int64_t i = 0; i < count; i++) {
        int64_t offset[MAX_NEST];
        char *at[MAX_NEST];
        nest_offsets(nest, last, last == 0 ? 0 : begin + i, offset);
        for (int t = 0; t < nest->ntensors; t++)
            at[t] = run->tensor[t] + (offset[t] + (last == 0 ? begin * stride[t] : 0)) * run->bytes[t];
        run->row(run, at, stride, n);
    }
}

static bool select_run(const KernelCall *call, SelectRow *row) {
    if (shape_elements(&call->out[0].local) == 0) return true;
    Nest nest;
    nest_broadcast(&nest, call);
    SelectRun run = {.nest = &nest, .row = row, .dtype = call->in[call->nin - 1].dtype, .result = call->out[0].dtype};
    for (int t = 0; t <= call->nin; t++) {
        const Operand *tensor = t == 0 ? &call->out[0] : &call->in[t - 1];
        run.tensor[t] = tensor->data;
        run.bytes[t] = dtype_bytes[tensor->dtype];
    }
    int last = nest.ndim - 1;
    if (last == 0)
        pool_run(call_pool(call), nest.size[0], GRAIN, select_part, &run);
    else
        pool_run(call_pool(call), nest_count(&nest, 0, last), 1 + GRAIN / nest.size[last], select_part, &run);
    return true;
}

/* ---------------------------------------------------------------- comparisons */

#define COMPARE_LOOP(T, OP)                                                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                                                        \
    out[i * stride[0]] = ((const T *)(const void *)at[1])[i * stride[1]] OP((const T *)(const void *)at[2])[i * stride[2]]
#define COMPARE(name, OP)                                                                                                                  \
    static void name##_row(const SelectRun *run, char *const *at, const int64_t *stride, int64_t n) {                                      \
        uint8_t *out = (uint8_t *)at[0];                                                                                                   \
        switch (run->dtype) {                                                                                                              \
        case F32:                                                                                                                          \
            COMPARE_LOOP(float, OP);                                                                                                       \
            return;                                                                                                                        \
        case F64:                                                                                                                          \
            COMPARE_LOOP(double, OP);                                                                                                      \
            return;                                                                                                                        \
        case I32:                                                                                                                          \
            COMPARE_LOOP(int32_t, OP);                                                                                                     \
            return;                                                                                                                        \
        case I64:                                                                                                                          \
            COMPARE_LOOP(int64_t, OP);                                                                                                     \
            return;                                                                                                                        \
        case BOOL:                                                                                                                         \
            COMPARE_LOOP(uint8_t, OP);                                                                                                     \
            return;                                                                                                                        \
        case NDTYPES:                                                                                                                      \
            return;                                                                                                                        \
        }                                                                                                                                  \
    }                                                                                                                                      \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return (void)error, select_run(call, name##_row);                                                                                  \
    }
COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)
COMPARE(equal, ==)
COMPARE(not_equal, !=)

/* ---------------------------------------------------------------- where, cast */

#define WHERE_LOOP(bits)                                                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                                                                        \
    ((uint##bits##_t *)(void *)at[0])[i * stride[0]] =                                                                                     \
        at[1][i * stride[1]] ? ((const uint##bits##_t *)(const void *)at[2])[i * stride[2]] : ((const uint##bits##_t *)(const void *)at[3])[i * stride[3]]
static void where_row(const SelectRun *run, char *const *at, const int64_t *stride, int64_t n) {
    if (run->bytes[0] == 8)
        WHERE_LOOP(64);
    else if (run->bytes[0] == 4)
        WHERE_LOOP(32);
    else
        WHERE_LOOP(8);
}

bool kernel_where(const KernelCall *call, Error *error) {
    return (void)error, select_run(call, where_row);
}

static void put_real(void *to, DType dtype, int64_t i, double value) {
    if (dtype == I32)
        ((int32_t *)to)[i] = (int32_t)integer_of(value, I32);
    else if (dtype == I64)
        ((int64_t *)to)[i] = integer_of(value, I64);
    else
        element_put(to, dtype, i, value);
}

static void put_integer(void *to, DType dtype, int64_t i, int64_t value) {
    if (dtype == I64)
        ((int64_t *)to)[i] = value;
    else if (dtype == I32)
        ((int32_t *)to)[i] = (int32_t)(uint32_t)value; /* its low 32 bits */
    else
        element_put(to, dtype, i, (double)value);
}

static void cast_row(const SelectRun *run, char *const *at, const int64_t *stride, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t from = i * stride[1], to = i * stride[0];
        if (run->dtype == I64)
            put_integer(at[0], run->result, to, ((const int64_t *)(const void *)at[1])[from]);
        else
            put_real(at[0], run->result, to, element_at(at[1], run->dtype, from));
    }
}

bool kernel_cast(const KernelCall *call, Error *error) {
    return (void)error, select_run(call, cast_row);
}
