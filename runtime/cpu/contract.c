/* contract: plain kernels that sum or move elements. */
#include <math.h>
#include <string.h>

#include "runtime/cpu/reference.h"

/* For every point of the factors' index space in row-major order: result += product of the operands. That is all a contraction does. A
 * reduction is a contraction of one operand, a transposition one in which nothing is summed. */
static bool contract(const KernelCall *call, double divisor) {
    const Operand *out = &call->out[0];
    const Rule *rule = call->rule;
    int64_t sizes[MAX_FACTORS], kept = shape_elements(&out->local);
    factor_sizes(call, sizes);
    for (int64_t i = 0; i < kept; i++) {
        int64_t at[MAX_FACTORS] = {0}, index[MAX_NDIM];
        bool has[MAX_FACTORS] = {false};
        index_of(&out->local, i, index);
        for (int d = 0; d < out->local.ndim; d++)
            if (rule->out[0][d] >= 0) {
                at[rule->out[0][d]] = index[d];
                has[rule->out[0][d]] = true;
            }
        int64_t points = 1;
        for (int f = 0; f < rule->nfactors; f++)
            if (!has[f]) points *= sizes[f];
        double sum = 0;
        uint64_t integer_sum = 0;
        for (int64_t p = 0; p < points; p++) {
            int64_t left = p;
            for (int f = rule->nfactors - 1; f >= 0; f--)
                if (!has[f]) {
                    at[f] = left % sizes[f];
                    left /= sizes[f];
                }
            double product = 1;
            uint64_t integer_product = 1;
            for (int k = 0; k < call->nin; k++) {
                const int64_t position = position_of_factors(&call->in[k], rule->in[k], at);
                product *= element_get(&call->in[k], position);
                integer_product *= integer_get(&call->in[k], position);
            }
            sum += product;
            integer_sum += integer_product;
        }
        if (dtype_is_float(out->dtype))
            element_set(out, i, sum / divisor);
        else
            integer_set(out, i, integer_sum);
    }
    return true;
}

bool reference_einsum(const KernelCall *call, Error *error) {
    return (void)error, contract(call, 1);
}
bool reference_matmul(const KernelCall *call, Error *error) {
    return (void)error, contract(call, 1);
}
bool reference_sum(const KernelCall *call, Error *error) {
    return (void)error, contract(call, 1);
}
bool reference_sum_to(const KernelCall *call, Error *error) {
    return (void)error, contract(call, 1);
}
bool reference_transpose(const KernelCall *call, Error *error) {
    return (void)error, contract(call, 1);
}

/* How many global elements of the operand there are for each of the result. */
static double elements_each(const Operand *many, const Operand *few) {
    return (double)shape_elements(&many->global) / (double)shape_elements(&few->global);
}

bool reference_mean(const KernelCall *call, Error *error) {
    (void)error;
    return contract(call, elements_each(&call->in[0], &call->out[0]));
}

bool reference_sum_grad(const KernelCall *call, Error *error) {
    return (void)error, contract(call, 1);
}

bool reference_mean_grad(const KernelCall *call, Error *error) {
    (void)error;
    return contract(call, elements_each(&call->out[0], &call->in[0]));
}

bool reference_reshape(const KernelCall *call, Error *error) {
    (void)error;
    for (int64_t i = 0, n = shape_elements(&call->out[0].local); i < n; i++)
        element_copy(&call->out[0], i, &call->in[0], i);
    return true;
}

bool reference_write(const KernelCall *call, Error *error) {
    return reference_reshape(call, error);
}

bool reference_stop_gradient(const KernelCall *call, Error *error) {
    return reference_reshape(call, error);
}

bool reference_expose(const KernelCall *call, Error *error) {
    return reference_reshape(call, error);
}

bool reference_replicate(const KernelCall *call, Error *error) {
    (void)error;
    int64_t n = shape_elements(&call->in[0].local);
    for (int64_t i = 0, all = shape_elements(&call->out[0].local); i < all; i++)
        element_copy(&call->out[0], i, &call->in[0], i % n);
    return true;
}

bool reference_replica_sum(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *in = &call->in[0], *out = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&out->local); i < n; i++) {
        double sum = 0;
        for (int64_t r = 0; r < in->local.dim[0]; r++)
            sum += element_get(in, r * n + i);
        element_set(out, i, call->attr[0].i ? sum / (double)in->global.dim[0] : sum);
    }
    return true;
}

bool reference_convert(const KernelCall *call, Error *error) {
    const Operand *in = &call->in[0], *out = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&out->local); i < n; i++) {
        int64_t index[MAX_NDIM], position = 0;
        index_of(&out->local, i, index);
        for (int d = 0; d < out->local.ndim; d++) {
            int64_t at = out->box.begin[d] + index[d] - in->box.begin[d];
            if (at < 0 || at >= in->local.dim[d])
                return error_set(error, EXIT_INTERNAL, "convert: the result's box is not within the operand's in dimension %d", d);
            position = position * in->local.dim[d] + at;
        }
        element_copy(out, i, in, position);
    }
    return true;
}

bool reference_mse(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    double sum = 0;
    for (int64_t i = 0, n = shape_elements(&x->local); i < n; i++) {
        double difference = element_get(x, i) - element_get(&call->in[1], i);
        sum += difference * difference;
    }
    bool is_sum = call->attr[0].text && strcmp(call->attr[0].text, "sum") == 0;
    element_set(&call->out[0], 0, is_sum ? sum : sum / (double)shape_elements(&x->global));
    return true;
}

bool reference_bce_with_logits(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    const char *reduction = call->attr[0].text ? call->attr[0].text : "";
    bool none = strcmp(reduction, "none") == 0, is_sum = strcmp(reduction, "sum") == 0;
    double sum = 0;
    for (int64_t i = 0, n = shape_elements(&x->local); i < n; i++) {
        double logit = element_get(x, i), loss = fmax(logit, 0) - logit * element_get(&call->in[1], i) + log1p(exp(-fabs(logit)));
        sum += loss;
        if (none) element_set(&call->out[0], i, loss);
    }
    if (!none) element_set(&call->out[0], 0, is_sum ? sum : sum / (double)shape_elements(&x->global));
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool kernel_bce_with_logits(const KernelCall *call, Error *error) {
    return reference_bce_with_logits(call, error);
}

bool reference_constant(const KernelCall *call, Error *error) {
    (void)error;
    for (int64_t i = 0, n = shape_elements(&call->out[0].local); i < n; i++)
        element_set(&call->out[0], i, call->attr[0].f);
    return true;
}

bool reference_input(const KernelCall *call, Error *error) {
    return error_set(error, EXIT_REJECTED, "%s is not computed: it is where the executor put it", op_table[call->op].name);
}
bool reference_read(const KernelCall *call, Error *error) {
    return reference_input(call, error);
}
