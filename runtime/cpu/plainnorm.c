/* plainnorm: plain kernels of layer_norm, rms_norm and their gradients. */
#include <math.h>

#include "runtime/cpu/reference.h"

/* For a row of x: its mean, or 0 if not centered, and 1 / sqrt(mean of squares of (x - mean) + eps). */
static void row_numbers(const KernelCall *call, int64_t row, int64_t n, bool centered, double *mean, double *root) {
    const Operand *x = &call->in[0];
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; k++)
        sum += element_get(x, row * n + k);
    *mean = centered ? sum / (double)n : 0;
    for (int64_t k = 0; k < n; k++)
        squares += pow(element_get(x, row * n + k) - *mean, 2);
    *root = 1 / sqrt(squares / (double)n + call->attr[0].f);
}

static void plain_norm(const KernelCall *call, bool centered) {
    const Operand *x = &call->in[0], *weight = &call->in[1];
    const int64_t n = shape_elements(&weight->local);
    for (int64_t row = 0, rows = n > 0 ? shape_elements(&x->local) / n : 0; row < rows; row++) {
        double mean, root;
        row_numbers(call, row, n, centered, &mean, &root);
        for (int64_t k = 0; k < n; k++) {
            const double scaled = (element_get(x, row * n + k) - mean) * root * element_get(weight, k);
            element_set(&call->out[0], row * n + k, centered ? scaled + element_get(&call->in[2], k) : scaled);
        }
        if (centered) element_set(&call->out[1], row, mean);
        element_set(&call->out[1 + centered], row, root);
    }
}

bool reference_layer_norm(const KernelCall *call, Error *error) {
    return (void)error, plain_norm(call, true), true;
}

bool reference_rms_norm(const KernelCall *call, Error *error) {
    return (void)error, plain_norm(call, false), true;
}

static void plain_norm_grad(const KernelCall *call, bool centered) {
    const Operand *x = &call->in[0], *dy = &call->in[1], *weight = &call->in[2];
    const int64_t n = shape_elements(&weight->local), rows = shape_elements(&x->local) / n;
#define MEAN(row) (centered ? element_get(&call->in[3], row) : 0)
#define ROOT(row) element_get(&call->in[3 + centered], row)
    for (int64_t row = 0; row < rows; row++) {
        double all = 0, along = 0;
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            const double g = element_get(dy, i) * element_get(weight, i % n);
            all += g;
            along += g * (element_get(x, i) - MEAN(row)) * ROOT(row);
        }
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            const double normalised = (element_get(x, i) - MEAN(row)) * ROOT(row), g = element_get(dy, i) * element_get(weight, i % n);
            element_set(&call->out[0], i, (g - normalised * along / (double)n - (centered ? all / (double)n : 0)) * ROOT(row));
        }
    }
    for (int64_t k = 0; k < n; k++) {
        double dweight = 0, dbias = 0;
        for (int64_t row = 0; row < rows; row++) {
            dweight += element_get(dy, row * n + k) * (element_get(x, row * n + k) - MEAN(row)) * ROOT(row);
            dbias += element_get(dy, row * n + k);
        }
        element_set(&call->out[1], k, dweight);
        if (centered) element_set(&call->out[2], k, dbias);
    }
#undef ROOT
#undef MEAN
}

bool reference_layer_norm_grad(const KernelCall *call, Error *error) {
    return (void)error, plain_norm_grad(call, true), true;
}

bool reference_rms_norm_grad(const KernelCall *call, Error *error) {
    return (void)error, plain_norm_grad(call, false), true;
}
