/* Rules of operators that cut tensors, pad them, join them, or work along rows. An element has different places in a tensor and in a slice of it. So a part of the one needs
 * of the other a halo whose windows are one element wide and shifted (layout.h); at the ends of a padded tensor it may be empty. The same goes for the dimension along
 * which tensors are joined. A `split` along a dimension that is split over ranks becomes one slice for each result. */
#include "ir/rules.h"

#include <inttypes.h>
#include <string.h>

/* Adds a dimension to result o. factor -1: none. */
static void add_dim(Rule *rule, int o, int factor, int64_t size) {
    Shape *shape = &rule->result[o].shape;
    rule->out[o][shape->ndim] = (int8_t)factor;
    shape->dim[shape->ndim++] = size;
}

/* Reads attribute `index`, an axis of operand 0; when left out, `otherwise`. */
static bool axis_read(const Attr *attr, int index, int64_t otherwise, const Shape *shape, int *axis, RuleError *error) {
    int64_t given = attr[index].given ? attr[index].i : otherwise, from_start = given < 0 ? given + shape->ndim : given;
    if (from_start < 0 || from_start >= shape->ndim) {
        rule_reject(error, shape->ndim == 0 ? 0 : -1, index, "axis %" PRId64 " is out of range: %%0 has %d dimension%s", given, shape->ndim,
                    shape->ndim == 1 ? "" : "s");
        if (shape->ndim > 0) rule_hint(error, "axes are %d to %d", -shape->ndim, shape->ndim - 1);
        return false;
    }
    *axis = (int)from_start;
    return true;
}

/* ---------------------------------------------------------------- slice */

/* begin and end (attributes 0 and 1) of each dimension of a tensor of this shape, counted from its start. */
static bool range_read(const Attr *attr, const Shape *shape, int64_t *begin, int64_t *end, RuleError *error) {
    static const char *const names[] = {"begin", "end"};
    for (int side = 0; side < 2; side++) {
        if (attr[side].n == shape->ndim) continue;
        rule_reject(error, 0, side, "%%0 has %d dimension%s, %s names %d", shape->ndim, shape->ndim == 1 ? "" : "s", names[side],
                    attr[side].n);
        rule_hint(error, "one number a dimension; 0 in begin and the size in end take all of it");
        return false;
    }
    for (int d = 0; d < shape->ndim; d++) {
        int64_t size = shape->dim[d];
        for (int side = 0; side < 2; side++) {
            int64_t given = attr[side].ints[d], *at = side ? &end[d] : &begin[d];
            *at = given < 0 ? given + size : given;
            if (*at >= 0 && *at <= size) continue;
            rule_reject(error, 0, side, "%s %" PRId64 " of dimension %d is out of range: %%0 has size %" PRId64 " there", names[side],
                        given, d, size);
            rule_hint(error, "numbers from 0 to %" PRId64 ", or from %" PRId64 " to -1, counted from the end", size, -size);
            return false;
        }
        if (begin[d] < end[d]) continue;
        rule_reject(error, 0, 1, "nothing is left of dimension %d: begin is %" PRId64 ", end %" PRId64, d, begin[d], end[d]);
        if (attr[1].ints[d] == 0)
            rule_hint(error, "end is excluded: %" PRId64 " takes all up to the last", size);
        else
            rule_hint(error, "end is excluded and must be greater than begin");
        return false;
    }
    return true;
}

/* Dimension d of a tensor, and of a slice of it from `begin` on. pads: the slice is the operand, and the tensor the result. Parts are parts of the result; the factor counts
 * elements of the slice, so that no split leaves a rank without any of them. */
static void cut_dim(Rule *rule, int ndim, int d, int64_t whole, int64_t slice, int64_t begin, bool pads) {
    const int64_t size = pads ? whole : slice, low = pads ? begin : -begin;
    const int f = rule_add_factor(rule, slice);
    rule->in[0][d] = (int8_t)f;
    add_dim(rule, 0, f, size);
    if (slice != whole) rule_need_halo(rule, 0, ndim, d, (Halo){HALO_SEES, size, 1, low, -low});
}

bool rule_slice(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    int64_t begin[MAX_NDIM], end[MAX_NDIM];
    if (!range_read(attr, &in[0].shape, begin, end, error)) return false;
    rule->result[0].dtype = in[0].dtype;
    for (int d = 0; d < in[0].shape.ndim; d++)
        cut_dim(rule, in[0].shape.ndim, d, in[0].shape.dim[d], end[d] - begin[d], begin[d], false);
    return true;
}

bool rule_slice_grad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    Shape shape;
    int64_t begin[MAX_NDIM], end[MAX_NDIM];
    if (!shape_read(attr, 2, &shape, error) || !range_read(attr, &shape, begin, end, error)) return false;
    bool fits = in[0].shape.ndim == shape.ndim;
    for (int d = 0; d < shape.ndim && fits; d++)
        fits = in[0].shape.dim[d] == end[d] - begin[d];
    if (!fits) return rule_reject(error, 0, 2, "%%0 is not the slice of that shape");
    rule->result[0].dtype = in[0].dtype;
    for (int d = 0; d < shape.ndim; d++)
        cut_dim(rule, shape.ndim, d, shape.dim[d], in[0].shape.dim[d], begin[d], true);
    return true;
}

bool rule_pad(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    static const char *const names[] = {"before", "after"};
    const Shape *x = &in[0].shape;
    (void)nin;
    rule->result[0].dtype = in[0].dtype;
    for (int side = 0; side < 2; side++) {
        if (attr[side].n == x->ndim) continue;
        rule_reject(error, 0, side, "%%0 has %d dimension%s, %s names %d", x->ndim, x->ndim == 1 ? "" : "s", names[side], attr[side].n);
        rule_hint(error, "one number a dimension; 0 leaves it as it is");
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        for (int side = 0; side < 2; side++)
            if (attr[side].ints[d] < 0 || attr[side].ints[d] > MAX_ELEMENTS) {
                rule_reject(error, -1, side, "%s of dimension %d is %" PRId64 ", and must not be negative", names[side], d,
                            attr[side].ints[d]);
                rule_hint(error, "slice(x, begin = [..], end = [..]) takes elements away");
                return false;
            }
        cut_dim(rule, x->ndim, d, attr[0].ints[d] + x->dim[d] + attr[1].ints[d], x->dim[d], attr[0].ints[d], true);
    }
    return true;
}

/* ---------------------------------------------------------------- concat, split */

bool rule_concat(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    const Shape *first = &in[0].shape;
    int axis;
    if (!axis_read(attr, 0, 0, first, &axis, error)) return false;
    int64_t sum = 0;
    for (int i = 0; i < nin; i++) {
        const Shape *shape = &in[i].shape;
        bool fits = shape->ndim == first->ndim;
        for (int d = 0; d < first->ndim && fits; d++)
            fits = d == axis || shape->dim[d] == first->dim[d];
        if (!fits) {
            char a[SHAPE_TEXT_BYTES], b[SHAPE_TEXT_BYTES];
            rule_reject(error, i, -1, "shapes differ beyond axis %d: %%0 is %s, %%%d is %s", axis, shape_text(first, a), i,
                        shape_text(shape, b));
            for (int d = 0; shape->ndim == first->ndim && d < first->ndim; d++) {
                bool other = true;
                for (int e = 0; e < first->ndim; e++)
                    other = other && (e == d || first->dim[e] == shape->dim[e]);
                if (other) rule_hint(error, "they could be joined along axis = %d", d);
            }
            return false;
        }
        sum += shape->dim[axis]; /* at most 8 times 2^48 */
    }
    rule->result[0].dtype = in[0].dtype;
    for (int d = 0; d < first->ndim; d++) {
        const int64_t size = d == axis ? sum : first->dim[d];
        const int f = rule_add_factor(rule, size);
        int64_t at = 0;
        for (int i = 0; i < nin; i++) {
            rule->in[i][d] = (int8_t)f;
            if (d != axis) continue;
            rule_need_halo(rule, i, first->ndim, d, (Halo){HALO_SEES, size, 1, at, -at});
            at += in[i].shape.dim[d];
        }
        add_dim(rule, 0, f, size);
    }
    return true;
}

bool rule_split(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    (void)nin;
    const Shape *shape = &in[0].shape;
    int64_t parts = attr[0].i;
    int axis;
    if (!axis_read(attr, 1, 0, shape, &axis, error)) return false;
    if (parts < 1 || parts > MAX_OUT) {
        rule_reject(error, -1, 0, "%" PRId64 " parts: there may be 1 to %d", parts, (int)MAX_OUT);
        if (parts > MAX_OUT) rule_hint(error, "split the parts again, or reshape %%0 so that the parts become a dimension");
        return false;
    }
    if (shape->dim[axis] % parts != 0) {
        rule_reject(error, 0, 0, "%%0 has size %" PRId64 " along axis %d, which is not %" PRId64 " equal parts", shape->dim[axis], axis,
                    parts);
        rule_hint(error, "slice(x, begin = [..], end = [..]) takes parts of any size");
        return false;
    }
    rule->nout = (int)parts;
    for (int o = 0; o < rule->nout; o++)
        rule->result[o].dtype = in[0].dtype;
    for (int d = 0; d < shape->ndim; d++) {
        const int64_t size = d == axis ? shape->dim[d] / parts : shape->dim[d];
        const int f = rule_add_factor(rule, size);
        rule->in[0][d] = (int8_t)f;
        rule->factor[f].expands = d == axis;
        for (int o = 0; o < rule->nout; o++)
            add_dim(rule, o, f, size);
    }
    return true;
}

/* ---------------------------------------------------------------- rows */

bool rule_softmax(const TensorType *in, int nin, const Attr *attr, Rule *rule, RuleError *error) {
    int axis;
    if (!axis_read(attr, 0, -1, &in[0].shape, &axis, error)) return false;
    if (nin > 1 && !shape_equal(&in[0].shape, &in[1].shape)) return rule_reject(error, 1, -1, "%%0 and %%1 have different shapes");
    factors_of_operand(rule, &in[0]);
    rule_expands(rule, rule->in[0][axis], nin == 1 ? 2 : 1); /* the maximum and the sum; for a gradient the sum */
    for (int i = 1; i < nin; i++)
        memcpy(rule->in[i], rule->in[0], sizeof rule->in[0]);
    for (int d = 0; d < in[0].shape.ndim; d++)
        add_dim(rule, 0, rule->in[0][d], in[0].shape.dim[d]);
    return true;
}
