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

/* The box of a tensor with this shape, whose dimensions run over the factors of `map`, when factor f runs over [begin[f], end[f]). A factor of a reshape
 * stands for so many equal parts of a dimension. */
static inline Box part_box(const Shape *shape, const Rule *rule, const int8_t *map, const int64_t *begin, const int64_t *end) {
    Box box = {.ndim = shape->ndim};
    for (int d = 0; d < shape->ndim; d++) {
        int64_t each = map[d] >= 0 ? shape->dim[d] / rule->factor[map[d]].size : 1;
        box.begin[d] = map[d] >= 0 ? begin[map[d]] * each : 0;
        box.end[d] = map[d] >= 0 ? end[map[d]] * each : shape->dim[d];
    }
    return box;
}
