/* call: see call.h. */
#include "tests/ops/call.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/element.h"

DType call_dtype(OpCode op, int operand, DType dtype) {
    char letter = op_type(op, false, operand);
    return letter == 'i' ? (dtype == F32 ? I32 : I64) : letter == 'b' ? BOOL : letter == 'w' ? dtype_widened(dtype) : dtype;
}

static void open_operand(Operand *operand, const TensorType *type, Box box) {
    *operand = (Operand){.dtype = type->dtype, .global = type->shape, .box = box, .local.ndim = box.ndim};
    for (int d = 0; d < box.ndim; d++)
        operand->local.dim[d] = box.end[d] - box.begin[d];
    int64_t bytes = shape_elements(&operand->local) * dtype_bytes[operand->dtype];
    operand->data = malloc(bytes > 0 ? (size_t)bytes : 1);
}

void call_open(KernelCall *call, const TensorType *types, Rule *rule, bool whole, uint64_t *random) {
    RuleError failure;
    int64_t begin[MAX_FACTORS], end[MAX_FACTORS];
    cr_assert(rule_infer(call->op, types, call->nin, call->attr, rule, &failure), "%s: %s", op_table[call->op].name, failure.text);
    call->rule = rule;
    call->nout = rule->nout;
    for (int f = 0; f < rule->nfactors; f++)
        part_range(random, part_extent(rule, f), !whole && !factor_stays_whole(&rule->factor[f]), &begin[f], &end[f]);
    for (int i = 0; i < call->nin; i++)
        open_operand(&call->in[i], &types[i], part_box(&types[i].shape, rule, i, rule->in[i], begin, end));
    for (int o = 0; o < call->nout; o++)
        open_operand(&call->out[o], &rule->result[o], part_box(&rule->result[o].shape, rule, -1, rule->out[o], begin, end));
}

void call_close(KernelCall *call) {
    for (int i = 0; i < call->nin; i++)
        free(call->in[i].data);
    for (int o = 0; o < call->nout; o++)
        free(call->out[o].data);
}

/* ---------------------------------------------------------------- random operands */

int64_t random_below(uint64_t *state, int64_t n) {
    return (int64_t)(random_next(state) % (uint64_t)n);
}

bool random_chance(uint64_t *state, int percent) {
    return random_below(state, 100) < percent;
}

Shape random_shape(uint64_t *state, int max_ndim, int64_t max) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64, 129};
    Shape shape = {.ndim = (int)random_below(state, max_ndim + 1)};
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) {
        shape.dim[d] = sizes[random_below(state, (int64_t)(sizeof sizes / sizeof *sizes))];
        if (n * shape.dim[d] > max) shape.dim[d] = 1 + random_below(state, 2);
        if (n * shape.dim[d] > max) shape.dim[d] = 1;
        n *= shape.dim[d];
    }
    return shape;
}

Operand operand_at(void *data, DType dtype, const Shape *shape) {
    Operand operand = {.data = data, .dtype = dtype, .local = *shape, .global = *shape, .box.ndim = shape->ndim};
    memcpy(operand.box.end, shape->dim, sizeof operand.box.end);
    return operand;
}

void operand_fill(const Operand *operand, uint64_t *random, bool special) {
    static const double edges[] = {0,   -0.0,  1,  -1,  INFINITY, -INFINITY, NAN, 1e30, -1e30, 3e9, -3e9, 2147483647.0, -2147483648.0,
                                   0.5, 1e-30, 88, -88, 1e19,     -1e19};
    static const int64_t integers[] = {
        0, 1, -1, 2, INT32_MAX, INT32_MIN, (int64_t)INT32_MAX + 1, INT64_MAX, INT64_MIN, INT64_MAX - 1, 3037000500, -3037000500, 46341};
    for (int64_t i = 0, n = shape_elements(&operand->local); i < n; i++) {
        const double plain = (double)random_below(random, 6001) / 1000 - 3;
        const int64_t integer =
            special ? integers[random_below(random, (int64_t)(sizeof integers / sizeof *integers))] : random_below(random, 41) - 20;
        switch (operand->dtype) {
        case F32:
        case F64:
        case F16:
        case BF16:
            element_put(operand->data, operand->dtype, i,
                        special ? edges[random_below(random, (int64_t)(sizeof edges / sizeof *edges))] : plain);
            break;
        case I32:
            ((int32_t *)operand->data)[i] = (int32_t)(uint32_t)(uint64_t)integer;
            break;
        case I64:
            ((int64_t *)operand->data)[i] = integer;
            break;
        case BOOL:
            ((uint8_t *)operand->data)[i] = random_chance(random, 50);
            break;
        case NDTYPES:
            break;
        }
    }
}
