/* plainlookup: plain kernels of operators that look elements up by integers. */
#include <math.h>
#include <string.h>

#include "runtime/cpu/reference.h"

/* Whether index `at` of the whole tensor's dimension d is in the operand's box. */
static bool holds(const Operand *operand, int d, double at) {
    return at >= (double)operand->box.begin[d] && at < (double)operand->box.end[d];
}

/* Position in `wide` of the element of row i that its index names; -1: not on this rank. */
static int64_t place_of(const Operand *wide, const Operand *index, int64_t i) {
    int last = wide->local.ndim - 1;
    double at = element_get(index, i);
    return holds(wide, last, at) ? i * wide->local.dim[last] + (int64_t)at - wide->box.begin[last] : -1;
}

bool reference_pick(const KernelCall *call, Error *error) {
    (void)error;
    for (int64_t i = 0, n = shape_elements(&call->out[0].local); i < n; i++) {
        int64_t place = place_of(&call->in[0], &call->in[1], i);
        element_set(&call->out[0], i, place >= 0 ? element_get(&call->in[0], place) : 0);
    }
    return true;
}

bool reference_pick_grad(const KernelCall *call, Error *error) {
    (void)error;
    for (int64_t i = 0, n = shape_elements(&call->out[0].local); i < n; i++)
        element_set(&call->out[0], i, 0);
    for (int64_t i = 0, n = shape_elements(&call->in[0].local); i < n; i++) {
        int64_t place = place_of(&call->out[0], &call->in[1], i);
        if (place >= 0) element_set(&call->out[0], place, element_get(&call->in[0], i));
    }
    return true;
}

/* The largest of a row, and the sum of exp(x - largest). */
static double row_sum(const Operand *x, int64_t begin, int64_t length, double *most) {
    double sum = 0;
    *most = -INFINITY;
    for (int64_t k = begin; k < begin + length; k++)
        *most = fmax(*most, element_get(x, k));
    for (int64_t k = begin; k < begin + length; k++)
        sum += exp(element_get(x, k) - *most);
    return sum;
}

/* log(sum of exp) of a row, minus (1 - smoothing) times the element at the label, minus smoothing times the mean of all. */
static double row_loss(const Operand *x, int64_t begin, int64_t length, int64_t place, double smoothing) {
    double most, sum = row_sum(x, begin, length, &most), mean = 0;
    for (int64_t k = begin; k < begin + length; k++)
        mean += (element_get(x, k) - most) / (double)length;
    return log(sum) - (1 - smoothing) * ((place >= 0 ? element_get(x, place) : 0) - most) - smoothing * mean;
}

bool reference_cross_entropy_rows(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    const int64_t length = x->local.dim[x->local.ndim - 1];
    for (int64_t row = 0, rows = shape_elements(&call->out[0].local); row < rows; row++) {
        double most, sum = row_sum(x, row * length, length, &most);
        element_set(&call->out[0], row, row_loss(x, row * length, length, place_of(x, &call->in[1], row), call->attr[0].f));
        element_set(&call->out[1], row, most);
        element_set(&call->out[2], row, sum);
    }
    return true;
}

bool reference_cross_entropy_rows_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0];
    const int last = x->local.ndim - 1;
    const int64_t length = x->local.dim[last];
    const double smoothing = call->attr[0].f;
    for (int64_t i = 0, n = shape_elements(&x->local); i < n; i++) {
        const int64_t row = i / length;
        const double dy = element_get(&call->in[1], row);
        const double own = place_of(x, &call->in[2], row) == i ? 1 - smoothing : 0, share = smoothing / (double)x->global.dim[last];
        const double power = exp(element_get(x, i) - element_get(&call->in[3], row)) / element_get(&call->in[4], row);
        element_set(&call->out[0], i, (power - own - share) * dy);
    }
    return true;
}

/* A composite: compiled plans hold what it expands to. */
bool reference_cross_entropy(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *label = &call->in[1], *y = &call->out[0];
    const Attr *ignored = &call->attr[1], *smoothing = &call->attr[2];
    const char *reduction = call->attr[0].text ? call->attr[0].text : "";
    bool none = strcmp(reduction, "none") == 0, sums = strcmp(reduction, "sum") == 0;
    int64_t length = x->local.dim[x->local.ndim - 1], count = 0;
    double total = 0;
    for (int64_t row = 0, rows = shape_elements(&label->local); row < rows; row++) {
        const bool counts = !ignored->given || element_get(label, row) != (double)ignored->i;
        const double loss = counts ? row_loss(x, row * length, length, place_of(x, label, row), smoothing->given ? smoothing->f : 0) : 0;
        count += counts;
        total += loss;
        if (none) element_set(y, row, loss);
    }
    if (!none) element_set(y, 0, sums ? total : total / (double)count);
    return true;
}

bool reference_embedding(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *table = &call->in[0], *index = &call->in[1], *y = &call->out[0];
    int64_t width = table->local.dim[1];
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        double row = element_get(index, i / width);
        element_set(y, i, holds(table, 0, row) ? element_get(table, ((int64_t)row - table->box.begin[0]) * width + i % width) : 0);
    }
    return true;
}

bool reference_embedding_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *dy = &call->in[0], *index = &call->in[1], *table = &call->out[0];
    int64_t width = table->local.dim[1];
    for (int64_t i = 0, n = shape_elements(&table->local); i < n; i++)
        element_set(table, i, 0);
    for (int64_t i = 0, n = shape_elements(&dy->local); i < n; i++) {
        double row = element_get(index, i / width);
        if (!holds(table, 0, row)) continue;
        int64_t at = ((int64_t)row - table->box.begin[0]) * width + i % width;
        element_set(table, at, element_get(table, at) + element_get(dy, i));
    }
    return true;
}

/* The gradient of an element of the table: the sum of the elements of g in its column whose index is its row; false: no index is. */
static bool table_gradient(const KernelCall *call, int64_t row, int64_t column, double *sum) {
    const Operand *g = &call->in[call->nout], *index = &call->in[call->nout + 1];
    const int64_t width = call->in[0].local.dim[1];
    bool named = false;
    *sum = 0;
    for (int64_t i = 0, n = shape_elements(&index->local); i < n; i++) {
        if (element_get(index, i) != (double)(row + call->in[0].box.begin[0])) continue;
        named = true;
        *sum += element_get(g, i * width + column);
    }
    return named;
}

static double table_number(const KernelCall *call, const char *name) {
    return call->attr[op_attr(call->op, name)].f;
}

bool reference_embedding_sgd(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *w = &call->in[0];
    const double lr = table_number(call, "lr") * (call->nin == 4 ? element_get(&call->in[3], 0) : 1);
    for (int64_t e = 0, n = shape_elements(&w->local), width = w->local.dim[1]; e < n; e++) {
        double g;
        const bool named = table_gradient(call, e / width, e % width, &g);
        element_set(&call->out[0], e, named ? element_get(w, e) - lr * g : element_get(w, e));
    }
    return true;
}

bool reference_lazy_adam(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *w = &call->in[0];
    const double lr = table_number(call, "lr") * (call->nin == 7 ? element_get(&call->in[6], 0) : 1), count = element_get(&call->in[5], 0);
    const double beta1 = table_number(call, "beta1"), beta2 = table_number(call, "beta2");
    for (int64_t e = 0, n = shape_elements(&w->local), width = w->local.dim[1]; e < n; e++) {
        double g, new_w = element_get(w, e), m = element_get(&call->in[1], e), v = element_get(&call->in[2], e);
        if (table_gradient(call, e / width, e % width, &g)) {
            m = beta1 * m + (1 - beta1) * g;
            v = beta2 * v + (1 - beta2) * g * g;
            new_w -= lr * sqrt(1 - pow(beta2, count)) / (1 - pow(beta1, count)) * m / (sqrt(v) + table_number(call, "eps"));
        }
        element_set(&call->out[0], e, new_w);
        element_set(&call->out[1], e, m);
        element_set(&call->out[2], e, v);
    }
    return true;
}

bool reference_one_hot(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->out[0];
    int64_t length = y->local.dim[y->local.ndim - 1];
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++)
        element_set(y, i, element_get(&call->in[0], i / length) == (double)(y->box.begin[y->local.ndim - 1] + i % length));
    return true;
}

/* For each row, the index of the first true element, or of the first of the largest. */
static bool first_of(const KernelCall *call, bool largest) {
    const Operand *x = &call->in[0], *y = &call->out[0];
    int ndim = x->local.ndim, axis = (int)(!call->attr[0].given  ? ndim - 1
                                           : call->attr[0].i < 0 ? call->attr[0].i + ndim
                                                                 : call->attr[0].i);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t index[MAX_NDIM], found = INT32_MAX, most = -1; /* position of the element found so far */
        index_of(&y->local, i, index);
        for (int64_t k = 0; k < x->local.dim[axis]; k++) {
            int64_t position = 0;
            for (int d = 0, own = 0; d < ndim; d++)
                position = position * x->local.dim[d] + (d == axis ? k : index[own++]);
            if (largest ? most < 0 || element_less(x, most, position) : most < 0 && integer_get(x, position) != 0) {
                found = x->box.begin[axis] + k;
                most = position;
            }
        }
        element_set(y, i, (double)found);
    }
    return true;
}

bool reference_first(const KernelCall *call, Error *error) {
    return (void)error, first_of(call, false);
}
bool reference_argmax(const KernelCall *call, Error *error) {
    return (void)error, first_of(call, true);
}
