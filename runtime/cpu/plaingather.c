/* plaingather: plain kernels of operators along one axis. */
#include "runtime/cpu/reference.h"
#include "runtime/parts.h"

/* The position in `wide` of element i of narrow, by the index along the axis; -1: not on this rank. */
static int64_t place_of(const Operand *wide, const Operand *index, const Operand *narrow, int axis, int64_t i) {
    int64_t at[MAX_NDIM], own = 0, place = 0;
    index_of(&narrow->local, i, at);
    for (int d = 0; d < index->local.ndim; d++)
        own = own * index->local.dim[d] + at[d];
    const double found = element_get(index, own);
    if (!(found >= (double)wide->box.begin[axis] && found < (double)wide->box.end[axis])) return -1;
    at[axis] = (int64_t)found - wide->box.begin[axis];
    for (int d = 0; d < wide->local.ndim; d++)
        place = place * wide->local.dim[d] + at[d];
    return place;
}

static void element_add(const Operand *to, int64_t at, const Operand *from, int64_t i) {
    if (dtype_is_float(to->dtype))
        element_set(to, at, element_get(to, at) + element_get(from, i));
    else
        integer_set(to, at, integer_get(to, at) + integer_get(from, i));
}

bool reference_gather(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *y = &call->out[0];
    const int axis = attr_axis(&call->attr[0], -1, x->local.ndim);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        const int64_t place = place_of(x, &call->in[1], y, axis, i);
        if (place >= 0)
            element_copy(y, i, x, place);
        else
            element_set(y, i, 0);
    }
    return true;
}

bool reference_gather_grad(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *dy = &call->in[0], *out = &call->out[0];
    const int axis = attr_axis(&call->attr[1], -1, out->local.ndim);
    for (int64_t i = 0, n = shape_elements(&out->local); i < n; i++)
        element_set(out, i, 0);
    for (int64_t i = 0, n = shape_elements(&dy->local); i < n; i++) {
        const int64_t place = place_of(out, &call->in[1], dy, axis, i);
        if (place >= 0) element_add(out, place, dy, i);
    }
    return true;
}

bool reference_scatter_add(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *added = &call->in[2], *out = &call->out[0];
    const int axis = attr_axis(&call->attr[0], -1, out->local.ndim);
    for (int64_t i = 0, n = shape_elements(&out->local); i < n; i++)
        element_copy(out, i, &call->in[0], i);
    for (int64_t i = 0, n = shape_elements(&added->local); i < n; i++) {
        const int64_t place = place_of(out, &call->in[1], added, axis, i);
        if (place >= 0) element_add(out, place, added, i);
    }
    return true;
}

bool reference_put(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *rows = &call->in[1], *out = &call->out[0];
    const int axis = attr_axis(&call->attr[0], -1, out->local.ndim);
    for (int64_t i = 0, n = shape_elements(&out->local); i < n; i++)
        element_copy(out, i, &call->in[0], i);
    for (int64_t i = 0, n = shape_elements(&rows->local); i < n; i++) {
        int64_t at[MAX_NDIM], place = 0;
        index_of(&rows->local, i, at);
        const double found = element_get(&call->in[2], at[axis]);
        if (!(found >= (double)out->box.begin[axis] && found < (double)out->box.end[axis])) continue;
        at[axis] = (int64_t)found - out->box.begin[axis];
        for (int d = 0; d < out->local.ndim; d++)
            place = place * out->local.dim[d] + at[d];
        element_copy(out, place, rows, i);
    }
    return true;
}

/* Computes each element separately, as the sum of those before it. */
bool reference_cumsum(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *y = &call->out[0];
    const bool reverse = call->attr[1].i != 0, exclusive = call->attr[2].i != 0;
    const Lines lines = lines_of(&x->local, attr_axis(&call->attr[0], -1, x->local.ndim));
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        const int64_t place = i / lines.inner % lines.length, line = i - place * lines.inner;
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < lines.length; k++) {
            if (!(reverse ? k > place : k < place) && !(k == place && !exclusive)) continue;
            sum += element_get(x, line + k * lines.inner);
            whole += dtype_is_float(x->dtype) ? 0 : integer_get(x, line + k * lines.inner);
        }
        if (dtype_is_float(x->dtype))
            element_set(y, i, sum);
        else
            integer_set(y, i, whole);
    }
    return true;
}

/* Whether element a comes before element b: it is larger, a nan larger than any number, or its index is lower. */
static bool before(const Operand *x, int64_t a, int64_t b) {
    const bool nan_a = element_get(x, a) != element_get(x, a), nan_b = element_get(x, b) != element_get(x, b);
    if (nan_a != nan_b) return nan_a;
    if (element_less(x, a, b) || element_less(x, b, a)) return element_less(x, b, a);
    return a < b;
}

/* Finds one element after the other: the first of those that come after the previous one. */
bool reference_topk(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *x = &call->in[0], *values = &call->out[0];
    const int last = x->local.ndim - 1;
    const int64_t length = x->local.dim[last], k = values->local.dim[last];
    for (int64_t row = 0, rows = shape_elements(&values->local) / k; row < rows; row++)
        for (int64_t i = 0, taken = -1; i < k; i++) {
            int64_t found = -1;
            for (int64_t at = row * length; at < (row + 1) * length; at++)
                if ((taken < 0 || before(x, taken, at)) && (found < 0 || before(x, at, found))) found = at;
            element_copy(values, row * k + i, x, found);
            element_set(&call->out[1], row * k + i, (double)(found - row * length));
            taken = found;
        }
    return true;
}

bool reference_stack(const KernelCall *call, Error *error) {
    (void)error;
    const Operand *y = &call->out[0];
    const int axis = attr_axis(&call->attr[0], 0, y->local.ndim);
    for (int64_t i = 0, n = shape_elements(&y->local); i < n; i++) {
        int64_t at[MAX_NDIM], place = 0;
        index_of(&y->local, i, at);
        for (int d = 0; d < y->local.ndim; d++)
            if (d != axis) place = place * y->local.dim[d] + at[d];
        element_copy(y, i, &call->in[at[axis]], place);
    }
    return true;
}
