/* plain: plain kernels of operators that split and join tensors, take the largest element or work on whole rows. */
#include <math.h>

#include "runtime/cpu/reference.h"

static int axis_of(const Attr *axis, int64_t otherwise, int ndim) {
    int64_t i = axis->given ? axis->i : otherwise;
    return (int)(i < 0 ? i + ndim : i);
}

static int64_t position_of(const Shape *shape, const int64_t *index) {
    int64_t position = 0;
    for (int d = 0; d < shape->ndim; d++)
        position = position * shape->dim[d] + index[d];
    return position;
}

/* Converts a local index of a slice to one of the tensor that it was cut from. False: it is not in the tensor's box. */
static bool shift(int64_t *index, const Attr *begin, const Operand *slice, const Operand *whole) {
    bool there = true;
    for (int d = 0; d < whole->local.ndim; d++) {
        index[d] += slice->box.begin[d] + begin->ints[d] + (begin->ints[d] < 0 ? whole->global.dim[d] : 0) - whole->box.begin[d];
        there = there && index[d] >= 0 && index[d] < whole->local.dim[d];
    }
    return there;
}

bool reference_slice(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *y = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM];
        index_of(&y->local, i, index);
        if (shift(index, &call->attr[0], y, x)) element_copy(y, i, x, position_of(&x->local, index));
    }
    return true;
}

bool reference_slice_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *dy = &call->in[0], *dx = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&dx->local); i < n; i++)
        element_set(dx, i, 0);
    for (int64_t i = 0, n = shape_elements(&dy->local); i < n; i++) {
        int64_t index[MAX_NDIM];
        index_of(&dy->local, i, index);
        if (shift(index, &call->attr[0], dy, dx)) element_copy(dx, position_of(&dx->local, index), dy, i);
    }
    return true;
}

bool reference_concat(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->out[0];
    int axis = axis_of(&call->attr[0], 0, y->local.ndim);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM];
        int k = 0;
        index_of(&y->local, i, index);
        index[axis] += y->box.begin[axis];
        while (index[axis] >= call->in[k].global.dim[axis])
            index[axis] -= call->in[k++].global.dim[axis];
        index[axis] -= call->in[k].box.begin[axis];
        element_copy(y, i, &call->in[k], position_of(&call->in[k].local, index));
    }
    return true;
}

bool reference_split(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    int axis = axis_of(&call->attr[1], 0, x->local.ndim);
    for (int o = 0; o < call->nout; o++)
        for (int64_t i = 0, n = shape_elements(&call->out[o].local); i < n; i++) {
            int64_t index[MAX_NDIM];
            index_of(&call->out[o].local, i, index);
            index[axis] += o * call->out[o].local.dim[axis];
            element_copy(&call->out[o], i, x, position_of(&x->local, index));
        }
    return true;
}

/* Compares every element of the operand with the result that its kept factors lead to. sign: 1 for the largest, -1 for the smallest. */
static bool extreme(const KernelCall *call, int sign) {
    const Operand *x = &call->in[0], *y = &call->out[0];
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++)
        element_set(y, i, -sign * (double)INFINITY); /* for integers the end of their range */
    for (int64_t i = 0, n = shape_elements(&x->local); i < n; i++) {
        int64_t index[MAX_NDIM], at[MAX_FACTORS] = {0};
        index_of(&x->local, i, index);
        for (int d = 0; d < x->local.ndim; d++)
            at[call->rule->in[0][d]] = index[d];
        int64_t to = position_of_factors(y, call->rule->out[0], at);
        const int64_t a = (int64_t)integer_get(x, i), b = (int64_t)integer_get(y, to);
        const double element = element_get(x, i), most = element_get(y, to);
        const bool more = dtype_is_float(x->dtype) ? sign * element > sign * most : sign > 0 ? a > b : a < b;
        if (more || isnan(element)) element_copy(y, to, x, i);
    }
    return true;
}

bool reference_max(const KernelCall *call, Error *error) {
    return (void)error, extreme(call, 1);
}

bool reference_min(const KernelCall *call, Error *error) {
    return (void)error, extreme(call, -1);
}

/* Element i of a row: the one that differs from `index` only along the axis. */
static double row_get(const Operand *x, const int64_t *index, int axis, int64_t i) {
    int64_t at[MAX_NDIM];
    for (int d = 0; d < x->local.ndim; d++)
        at[d] = d == axis ? i : index[d];
    return element_get(x, position_of(&x->local, at));
}

bool reference_softmax(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *y = &call->out[0];
    int axis = axis_of(&call->attr[0], -1, x->local.ndim);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM], size = x->local.dim[axis];
        double most = -INFINITY, sum = 0;
        index_of(&y->local, i, index);
        for (int64_t k = 0; k < size; k++)
            most = fmax(most, row_get(x, index, axis, k));
        for (int64_t k = 0; k < size; k++)
            sum += exp(row_get(x, index, axis, k) - most);
        element_set(y, i, exp(element_get(x, i) - most) / sum);
    }
    return true;
}

bool reference_log_softmax(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    int axis = axis_of(&call->attr[0], -1, x->local.ndim);
    for (int64_t i = 0, n = shape_elements(&x->local); i < n; i++) {
        int64_t index[MAX_NDIM], size = x->local.dim[axis];
        double most = -INFINITY, sum = 0;
        index_of(&x->local, i, index);
        for (int64_t k = 0; k < size; k++)
            most = fmax(most, row_get(x, index, axis, k));
        for (int64_t k = 0; k < size; k++)
            sum += exp(row_get(x, index, axis, k) - most);
        element_set(&call->out[0], i, element_get(x, i) - most - log(sum));
    }
    return true;
}

bool reference_log_softmax_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->in[0], *dy = &call->in[1];
    int axis = axis_of(&call->attr[0], -1, y->local.ndim);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM];
        double sum = 0;
        index_of(&y->local, i, index);
        for (int64_t k = 0; k < y->local.dim[axis]; k++)
            sum += row_get(dy, index, axis, k);
        element_set(&call->out[0], i, element_get(dy, i) - exp(element_get(y, i)) * sum);
    }
    return true;
}

bool reference_softmax_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->in[0], *dy = &call->in[1];
    int axis = axis_of(&call->attr[0], -1, y->local.ndim);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM];
        double sum = 0;
        index_of(&y->local, i, index);
        for (int64_t k = 0; k < y->local.dim[axis]; k++)
            sum += row_get(y, index, axis, k) * row_get(dy, index, axis, k);
        element_set(&call->out[0], i, element_get(y, i) * (element_get(dy, i) - sum));
    }
    return true;
}
