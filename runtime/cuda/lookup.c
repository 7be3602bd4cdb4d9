/* lookup: operators that look elements up by integers: arguments for lookup.cuh. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/element.h"

/* The indices, and this rank's part of dimension d of the tensor that they index. */
static KernelIndex index_of(const Operand *index, const Operand *into, int d) {
    return (KernelIndex){index->data, shape_elements(&index->local), into->box.begin[d], into->local.dim[d], index->dtype == I64};
}

bool kernel_pick(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0], *out = &call->out[0];
    KernelIndex index = index_of(&call->in[1], x, x->local.ndim - 1);
    return cuda_launched(cuda, kernels_pick(out->data, x->data, &index, dtype_bytes[out->dtype], cuda->compute), "pick", error);
}

bool kernel_pick_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    KernelIndex index = index_of(&call->in[1], out, out->local.ndim - 1);
    return cuda_launched(cuda, kernels_place(out->data, call->in[0].data, 0, &index, dtype_bytes[out->dtype], cuda->compute), "pick_grad",
                         error);
}

static bool loss(const KernelCall *call, const Operand *label, const Operand *numbers, const Operand *dy, void *dx, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *x = &call->in[0];
    const int last = x->local.ndim - 1;
    const KernelLoss args = {.label = index_of(label, x, last),
                             .x = x->data,
                             .dx = dx,
                             .loss = dy->data,
                             .most = numbers[0].data,
                             .sum = numbers[1].data,
                             .classes = x->global.dim[last],
                             .smoothing = call->attr[0].f,
                             .dtype = (int)x->dtype};
    return cuda_launched(cuda, kernels_loss(&args, cuda->compute), op_table[call->op].name, error);
}

bool kernel_cross_entropy_rows(const KernelCall *call, Error *error) {
    return loss(call, &call->in[1], &call->out[1], &call->out[0], NULL, error);
}

bool kernel_cross_entropy_rows_grad(const KernelCall *call, Error *error) {
    return loss(call, &call->in[2], &call->in[3], &call->in[1], call->out[0].data, error);
}

bool kernel_one_hot(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *out = &call->out[0];
    KernelIndex index = index_of(&call->in[0], out, out->local.ndim - 1);
    uint64_t one = 0;
    element_put(&one, out->dtype, 0, 1);
    return cuda_launched(cuda, kernels_place(out->data, NULL, one, &index, dtype_bytes[out->dtype], cuda->compute), "one_hot", error);
}

bool kernel_embedding(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *table = &call->in[0], *out = &call->out[0];
    KernelIndex index = index_of(&call->in[1], table, 0);
    return cuda_launched(cuda, kernels_lookup(out->data, table->data, &index, table->local.dim[1], dtype_bytes[out->dtype], cuda->compute),
                         "embedding", error);
}

bool kernel_embedding_grad(const KernelCall *call, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *dy = &call->in[0], *table = &call->out[0];
    KernelIndex index = index_of(&call->in[1], table, 0);
    cudaError_t status = kernels_lookup_grad(table->data, dy->data, &index, table->local.dim[1], (int)table->dtype, cuda->compute);
    return cuda_launched(cuda, status, "embedding_grad", error);
}

/* The operand of this name; NULL: the operator has none, or it is missing. */
static const void *named(const KernelCall *call, const char *name) {
    const int at = op_in(call->op, name);
    return at < 0 || at >= call->nin ? NULL : call->in[at].data;
}

static double attribute(const KernelCall *call, const char *name) {
    const int at = op_attr(call->op, name);
    return at < 0 ? 0 : call->attr[at].f;
}

/* Updates a table. It and its slots are the first operands and the results; g and the index follow them. */
static bool table_update(const KernelCall *call, bool slots, Error *error) {
    CudaContext *cuda = call->context;
    const Operand *w = &call->in[0], *g = &call->in[call->nout];
    if (!dtype_is_float(w->dtype))
        return error_set(error, EXIT_INTERNAL, "%s: no kernel for %s", op_table[call->op].name, dtype_name[w->dtype]);
    for (int k = 0; k < call->nout; k++)
        if (call->out[k].data != call->in[k].data &&
            !cuda_ok(cuda,
                     cudaMemcpyAsync(call->out[k].data, call->in[k].data, (size_t)(shape_elements(&w->local) * dtype_bytes[w->dtype]),
                                     cudaMemcpyDeviceToDevice, cuda->compute),
                     "copying a table", error))
            return false;
    const TableUpdate update = {.index = index_of(&call->in[call->nout + 1], w, 0),
                                .w = call->out[0].data,
                                .m = slots ? call->out[1].data : NULL,
                                .v = slots ? call->out[2].data : NULL,
                                .g = g->data,
                                .width = w->local.dim[1],
                                .dtype = (int)w->dtype,
                                .rate = named(call, "rate"),
                                .count = named(call, "update"),
                                .lr = attribute(call, "lr"),
                                .beta1 = attribute(call, "beta1"),
                                .beta2 = attribute(call, "beta2"),
                                .eps = attribute(call, "eps")};
    return cuda_launched(cuda, kernels_table_update(&update, cuda->compute), op_table[call->op].name, error);
}

bool kernel_embedding_sgd(const KernelCall *call, Error *error) {
    return table_update(call, false, error);
}
bool kernel_lazy_adam(const KernelCall *call, Error *error) {
    return table_update(call, true, error);
}
