/* product: see product.h. */
#include "runtime/product.h"

#include <string.h>

#include "runtime/views.h"

static void tensors_of(const KernelCall *call, const ProductStrides *strides, Strided *tensors) {
    tensors[A] = strided_of(&call->in[A].local);
    tensors[B] = strided_of(&call->in[B].local);
    tensors[OUT] = strided_of(&call->out[0].local);
    for (int t = A; strides && t <= OUT; t++)
        memcpy(tensors[t].stride, strides->at[t], sizeof tensors[t].stride);
}

ProductKind product_shape(const KernelCall *call, const ProductStrides *strides, ProductShape *shape) {
    Strided tensors[3];
    tensors_of(call, strides, tensors);
    return gemm_shape(call->rule, tensors, shape);
}

bool product_same_digits(const KernelCall *call, const ProductStrides *strides) {
    Strided tensors[3];
    tensors_of(call, strides, tensors);
    return gemm_same_digits(call->rule, tensors);
}

void product_loops(const KernelCall *call, Nest *kept, Nest *gone) {
    Strided tensors[3];
    Letter all[MAX_FACTORS];
    tensors_of(call, NULL, tensors);
    gemm_letters(call->rule, tensors, all);
    nest_init(kept, 3);
    nest_init(gone, 2);
    for (int f = 0; f < call->rule->nfactors; f++)
        if (all[f].stride[OUT] != 0)
            nest_push(kept, all[f].size, all[f].stride);
        else if (all[f].size != 1)
            nest_push(gone, all[f].size, all[f].stride);
    nest_merge(kept);
    nest_merge(gone);
}

/* ---------------------------------------------------------------- through views */

/* Follows placements of the product's result: the calls after the product that place its result, and each other's, each being the only reader
 * of the one before. Writing to *result writes where the last leaves it. Returns how many there are. */
static int take_placements(const KernelCall *calls, int n, const unsigned *inner, int product, View *result) {
    int end = product + 1;
    while (end < n && (inner[end - 1] & 1) && (calls[end].op == OP_transpose || op_keeps_order(calls[end].op)) &&
           calls[end].in[0].data == calls[end - 1].out[0].data)
        end++;
    for (int c = end; c < n; c++) /* something else reads it too: no placements then */
        for (int i = 0; i < calls[c].nin; i++)
            for (int k = product; k + 1 < end; k++)
                if (calls[c].in[i].data == calls[k].out[0].data) return 0;
    *result = view_of(&calls[end - 1].out[0]);
    for (int c = end - 1; c > product; c--)
        if (!view_operand(&calls[c], result)) return 0;
    return end - product - 1;
}

static bool find_view(const View *views, const void *const *at, int n, const Operand *operand, View *view) {
    for (int v = n - 1; v >= 0; v--)
        if (at[v] == operand->data) return *view = views[v], shape_equal(&views[v].at.shape, &operand->local);
    *view = view_of(operand);
    return true;
}

int product_take(const KernelCall *calls, int n, const unsigned *inner, KernelCall *call, ProductStrides *strides) {
    enum { MOST = 8 };
    View views[MOST], view;
    const void *at[MOST]; /* where each would lie if it were stored */
    int nviews = 0, product = 0;
    for (; product < n && op_places(calls[product].op); product++)
        for (int o = 0; o < calls[product].nout; o++) {
            if (nviews == MOST || !(inner[product] >> o & 1) || !find_view(views, at, nviews, &calls[product].in[0], &views[nviews]) ||
                !view_result(&calls[product], o, &views[nviews]))
                return 0;
            at[nviews++] = calls[product].out[o].data;
        }
    if (product == n || (calls[product].op != OP_matmul && calls[product].op != OP_einsum)) return 0;
    *call = calls[product];
    for (int i = 0; i < 2; i++) {
        if (!find_view(views, at, nviews, &call->in[i], &view)) return 0;
        call->in[i].data = view.data;
        memcpy(strides->at[i == 0 ? A : B], view.at.stride, sizeof view.at.stride);
    }
    for (int c = product + 1; c < n; c++) /* the views have no other reader */
        for (int i = 0; i < calls[c].nin; i++)
            for (int v = 0; v < nviews; v++)
                if (calls[c].in[i].data == at[v]) return 0;
    const int placed = take_placements(calls, n, inner, product, &view);
    if (placed == 0) view = view_of(&call->out[0]);
    call->out[0].data = view.data;
    memcpy(strides->at[OUT], view.at.stride, sizeof view.at.stride);
    return product + 1 + placed;
}
