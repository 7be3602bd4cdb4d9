/* Parts of tensors for tests: where each factor of an operator runs over a part of itself, every tensor has a box. */
#pragma once
#include "ir/op.h"
#include "tests/random.h"

/* [begin, end) of [0, size): all of it, or, cut, a random part, which may be empty. */
static inline void part_range(uint64_t *random, int64_t size, bool cut, int64_t *begin, int64_t *end) {
    cut = cut && size > 0;
    *begin = cut ? (int64_t)(random_next(random) % (uint64_t)size) : 0;
    *end = cut ? *begin + (int64_t)(random_next(random) % (uint64_t)(size - *begin + 1)) : size;
}

/* The halo of dimension d of an operand; NULL: none. operand -1: a result. */
static inline const Halo *part_halo(const Rule *rule, int operand, int ndim, int d) {
    return operand < 0 ? NULL : rule_halo(rule, operand, ndim, d);
}

/* How many a factor's parts are parts of: where operands are read through windows, what the halo says; x, y and their gradients have as many dimensions. */
static inline int64_t part_extent(const Rule *rule, int f) {
    const int ndim = rule->result[0].shape.ndim;
    for (int i = 0; i < MAX_IN; i++)
        for (int d = 0; d < ndim; d++)
            if (part_halo(rule, i, ndim, d) && rule->in[i][d] == f) return part_halo(rule, i, ndim, d)->of;
    return rule->factor[f].size;
}

/* The box of an operand (-1: a result) with this shape, whose dimensions run over the factors of `map`, when factor f runs over [begin[f], end[f]). A factor of a reshape
 * stands for so many equal parts of a dimension. */
static inline Box part_box(const Shape *shape, const Rule *rule, int operand, const int8_t *map, const int64_t *begin, const int64_t *end) {
    Box box = {.ndim = shape->ndim};
    for (int d = 0; d < shape->ndim; d++) {
        const Halo *halo = part_halo(rule, operand, shape->ndim, d);
        int64_t each = map[d] >= 0 && !halo ? shape->dim[d] / part_extent(rule, map[d]) : 1;
        box.begin[d] = map[d] >= 0 ? begin[map[d]] * each : 0;
        box.end[d] = map[d] >= 0 ? end[map[d]] * each : shape->dim[d];
        if (halo) halo_range(halo, shape->dim[d], &box.begin[d], &box.end[d]);
    }
    return box;
}
