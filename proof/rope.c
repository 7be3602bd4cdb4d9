/* rope: rotary positions over the field: cos and sin of an angle are two hashes of the place times a hash of base, width and pair. */
#include "proof/walk.h"

bool rope_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *x = &in[0];
    const int last = x->global.ndim - 1;
    const int64_t width = x->global.dim[last], first = x->box.begin[last - 1], places = x->box.end[last - 1] - first;
    bool same = x->global.ndim == out[0].global.ndim && x->box.begin[last] == 0 && x->box.end[last] == width && width % 2 == 0;
    for (int d = 0; same && d <= last; d++)
        same = x->box.begin[d] == out[0].box.begin[d] && x->box.end[d] == out[0].box.end[d];
    Fe base;
    if (!same || !fe_double(node->attr[0].given ? node->attr[0].f : 10000, &base)) return field_fail(why, n, "not whole pairs of one box");
    const Fe key = fe_hash(fe_hash(OP_rope, base), fe_integer(width));
    for (int64_t row = 0; row < field_elements(x) / width; row++)
        for (int64_t k = 0; k < width / 2; k++) {
            const Fe angle = fe_mul(fe_integer(first + row % places), fe_hash(key, fe_integer(k)));
            const Fe cosine = fe_hash(OP_cos, angle), sine = node->attr[1].i ? fe_sub(0, fe_hash(OP_sin, angle)) : fe_hash(OP_sin, angle);
            const Fe a = x->at[row * width + k], b = x->at[row * width + k + width / 2];
            out[0].at[row * width + k] = fe_sub(fe_mul(a, cosine), fe_mul(b, sine));
            out[0].at[row * width + k + width / 2] = fe_add(fe_mul(b, cosine), fe_mul(a, sine));
        }
    return true;
}
