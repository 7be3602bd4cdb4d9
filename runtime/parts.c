/* parts: see parts.h. */
#include "runtime/parts.h"

int attr_axis(const Attr *axis, int otherwise, int ndim) {
    int64_t at = axis->given ? axis->i : otherwise;
    return (int)(at < 0 ? at + ndim : at);
}

Lines lines_of(const Shape *shape, int axis) {
    Lines lines = {.axis = axis, .outer = 1, .length = shape->dim[axis], .inner = 1};
    for (int d = 0; d < axis; d++)
        lines.outer *= shape->dim[d];
    for (int d = axis + 1; d < shape->ndim; d++)
        lines.inner *= shape->dim[d];
    return lines;
}

void slice_begin(const Attr *begin, const Operand *whole, const Operand *slice, int64_t *at) {
    for (int d = 0; d < whole->local.ndim; d++) {
        const int64_t first = begin->ints[d] < 0 ? begin->ints[d] + whole->global.dim[d] : begin->ints[d];
        at[d] = slice->box.begin[d] + first - whole->box.begin[d];
    }
}

bool slice_common(const Attr *begin, Operand *whole, Operand *slice, Shape *shape) {
    int64_t in_whole[MAX_NDIM], in_slice[MAX_NDIM];
    if (shape_elements(&whole->local) == 0 || shape_elements(&slice->local) == 0) return false;
    slice_begin(begin, whole, slice, in_whole);
    *shape = (Shape){.ndim = whole->local.ndim};
    for (int d = 0; d < shape->ndim; d++) {
        const int64_t at = in_whole[d], room = whole->local.dim[d], end = at + slice->local.dim[d];
        in_whole[d] = at > 0 ? at : 0;
        in_slice[d] = in_whole[d] - at;
        shape->dim[d] = (end < room ? end : room) - in_whole[d];
        if (shape->dim[d] <= 0) return false;
    }
    *whole = operand_from(whole, in_whole);
    *slice = operand_from(slice, in_slice);
    return true;
}

bool joint_common(const Operand *parts, int k, int axis, Operand *whole, Operand *part, Shape *shape) {
    Attr begin = {.n = whole->local.ndim};
    for (int i = 0; i < k; i++)
        begin.ints[axis] += parts[i].global.dim[axis];
    *part = parts[k];
    return slice_common(&begin, whole, part, shape);
}

bool convert_begin(const KernelCall *call, int64_t *at, Error *error) {
    const Box *in = &call->in[0].box, *out = &call->out[0].box;
    for (int d = 0; d < call->out[0].local.ndim; d++) {
        if (out->begin[d] < in->begin[d] || out->end[d] > in->end[d])
            return error_set(error, EXIT_INTERNAL, "convert: [%lld, %lld) of dimension %d is not within [%lld, %lld)",
                             (long long)out->begin[d], (long long)out->end[d], d, (long long)in->begin[d], (long long)in->end[d]);
        at[d] = out->begin[d] - in->begin[d];
    }
    return true;
}

bool convert_operand(const KernelCall *call, Operand *from, Error *error) {
    int64_t begin[MAX_NDIM];
    *from = call->in[0];
    if (shape_elements(&call->out[0].local) == 0) return true;
    if (!convert_begin(call, begin, error)) return false;
    *from = operand_from(&call->in[0], begin);
    return true;
}

Operand operand_from(const Operand *whole, const int64_t *at) {
    Operand from = *whole;
    int64_t first = 0;
    for (int d = 0; d < whole->local.ndim; d++)
        first = first * whole->local.dim[d] + at[d];
    from.data = (char *)whole->data + first * dtype_bytes[whole->dtype];
    return from;
}
