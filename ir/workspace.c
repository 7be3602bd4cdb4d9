/* workspace: see workspace.h. */
#include "ir/workspace.h"

#include <string.h>

#include "ir/gemm.h"
#include "ir/plan.h"

/* The shape of the largest box of a rank of the role; of one slice of it where there is a hidden dimension. */
static Shape local_shape(const Graph *graph, const Role *role, int instance) {
    const Instance *at = &role->instances.at[instance];
    const TensorType *type = &graph->values.at[at->value].type;
    Shape shape;
    layout_local_shape(at->layout, &type->shape, role->first_rank, &shape);
    if (type->hidden) memmove(shape.dim, shape.dim + 1, (size_t)--shape.ndim * sizeof *shape.dim);
    return shape;
}

static bool step_has_odd_rows(const Graph *graph, const Role *role, const Step *step) {
    if (step->kind != STEP_KERNEL || (step->op != OP_matmul && step->op != OP_einsum) || step->nin != 2) return false;
    const TensorType *type = &graph->values.at[role->instances.at[step->in[0]].value].type;
    const int instance[3] = {step->in[0], step->in[1], step->out[0]};
    Rule rule = *graph->nodes.at[step->node].rule;
    Strided tensor[3];
    ProductShape product;
    for (int t = A; t <= OUT; t++) {
        const Shape shape = local_shape(graph, role, instance[t]);
        int8_t *letters = t == OUT ? rule.out[0] : rule.in[t];
        if (type->hidden) memmove(letters, letters + 1, MAX_NDIM - 1);
        tensor[t] = strided_of(&shape);
    }
    if (type->dtype == F64 || gemm_shape(&rule, tensor, &product) != PRODUCT_GEMM) return false;
    const int64_t m = product.gemm.m, n = product.gemm.n, k = product.gemm.k, items = ROW_ALIGNMENT / dtype_bytes[type->dtype];
    return (double)m * (double)n * (double)k >= (double)ODD_ROWS_FROM && (m % items != 0 || n % items != 0 || k % items != 0);
}

bool role_has_odd_rows(const Graph *graph, const Role *role) {
    for (int s = 0; s < role->steps.n; s++)
        if (step_has_odd_rows(graph, role, &role->steps.at[s])) return true;
    return false;
}

int64_t role_workspace(const Graph *graph, const Role *role) {
    return WORKSPACE_LEAST + (role_has_odd_rows(graph, role) ? WORKSPACE_ODD_ROWS : 0);
}
