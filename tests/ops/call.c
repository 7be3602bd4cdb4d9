/* call: see call.h. */
#include "tests/ops/call.h"

#include <criterion/criterion.h>
#include <stdlib.h>

DType call_dtype(OpCode op, int operand, DType dtype) {
    char letter = op_type(op, false, operand);
    return letter == 'i' ? (dtype == F32 ? I32 : I64) : letter == 'b' ? BOOL : dtype;
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
        part_range(random, rule->factor[f].size, !whole && !factor_stays_whole(&rule->factor[f]), &begin[f], &end[f]);
    for (int i = 0; i < call->nin; i++)
        open_operand(&call->in[i], &types[i], part_box(&types[i].shape, rule, rule->in[i], begin, end));
    for (int o = 0; o < call->nout; o++)
        open_operand(&call->out[o], &rule->result[o], part_box(&rule->result[o].shape, rule, rule->out[o], begin, end));
}

void call_close(KernelCall *call) {
    for (int i = 0; i < call->nin; i++)
        free(call->in[i].data);
    for (int o = 0; o < call->nout; o++)
        free(call->out[o].data);
}
