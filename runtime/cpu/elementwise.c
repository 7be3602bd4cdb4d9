/* elementwise: elementwise operators, with broadcasting: nested loops around those of elements.h, in threads. Results may lie in operand
 * 0's storage. */
#include <assert.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/elements.h"

typedef struct ElementRun {
    const Nest *nest;
    ElementLoop *loop;
    const Attr *attr;
    char *tensor[MAX_NEST]; /* the result, then the operands */
    int bytes[MAX_NEST];    /* of an element */
} ElementRun;

/* Ranges are of iterations of the outer loops; with one loop only, of its items. */
static void element_part(void *context, int64_t begin, int64_t end) {
    const ElementRun *run = context;
    const Nest *nest = run->nest;
    const int last = nest->ndim - 1, nin = nest->ntensors - 1;
    const int64_t n = last == 0 ? end - begin : nest->size[last], first = last == 0 ? 0 : begin, count = last == 0 ? 1 : end - begin;
    int64_t stride[MAX_NEST];
    for (int t = 0; t <= nin; t++) {
        stride[t] = nest->stride[t][last];
        assert(stride[t] == 1 || (t > 0 && stride[t] == 0)); /* row-major tensors, broadcast */
    }
    for (int64_t i = first; i < first + count; i++) {
        int64_t offset[MAX_NEST];
        const void *in[MAX_NEST - 1] = {0};
        nest_offsets(nest, last, i, offset);
        for (int t = 0; t <= nin && last == 0; t++)
            offset[t] += begin * stride[t];
        for (int k = 0; k < nin; k++)
            in[k] = run->tensor[1 + k] + offset[1 + k] * run->bytes[1 + k];
        run->loop(run->tensor[0] + offset[0] * run->bytes[0], in, stride + 1, run->attr, n);
    }
}

static bool elementwise(const KernelCall *call, OpCode op, Error *error) {
    const Operand *out = &call->out[0];
    const DType in = call->in[call->nin - 1].dtype;
    ElementLoop *loop = element_loop(op, call->attr, in, out->dtype);
    if (!loop) return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[op].name, dtype_name[in]);
    if (shape_elements(&out->local) == 0) return true;
    Nest nest;
    nest_broadcast(&nest, call);
    ElementRun run = {.nest = &nest, .loop = loop, .attr = call->attr};
    for (int t = 0; t <= call->nin; t++) {
        const Operand *tensor = t == 0 ? out : &call->in[t - 1];
        run.tensor[t] = tensor->data;
        run.bytes[t] = dtype_bytes[tensor->dtype];
    }
    const int last = nest.ndim - 1, cost = op_table[op].flops > 1 ? op_table[op].flops : 1;
    if (last == 0)
        pool_run(call_pool(call), nest.size[0], GRAIN / cost, element_part, &run);
    else
        pool_run(call_pool(call), nest_count(&nest, 0, last), 1 + GRAIN / (cost * nest.size[last]), element_part, &run);
    return true;
}

#define ELEMENTWISE(name)                                                                                                                  \
    bool kernel_##name(const KernelCall *call, Error *error) {                                                                             \
        return elementwise(call, OP_##name, error);                                                                                        \
    }
#include "ir/elementwise.def"
