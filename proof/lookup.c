/* lookup: operators that look elements up by index, or return their indices, over the field. */
#include <string.h>

#include "proof/walk.h"

bool lookup_rows(const FieldTensor *wide, const FieldTensor *narrow, int64_t *length, int64_t *begin) {
    int ndim = narrow->box.ndim;
    if (wide->box.ndim != ndim + 1) return false;
    for (int d = 0; d < ndim; d++)
        if (wide->box.begin[d] != narrow->box.begin[d] || wide->box.end[d] != narrow->box.end[d]) return false;
    *begin = wide->box.begin[ndim];
    *length = wide->box.end[ndim] - *begin;
    return true;
}

int64_t lookup_index(Fe index, int64_t begin, int64_t length) {
    int64_t at = fe_signed(index) - begin;
    return at >= 0 && at < length ? at : -1;
}

bool pick_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool back = node->op == OP_pick_grad;
    const FieldTensor *wide = back ? &out[0] : &in[0], *narrow = back ? &in[0] : &out[0], *index = &in[1];
    int64_t length, begin, again;
    if (!lookup_rows(wide, narrow, &length, &begin) || !lookup_rows(wide, index, &length, &again))
        return field_fail(why, n, "boxes do not hold the same rows");
    if (back) tensor_fill(&out[0], 0);
    for (int64_t row = 0, rows = field_elements(narrow); row < rows; row++) {
        int64_t at = lookup_index(index->at[row], begin, length);
        if (back && at >= 0) wide->at[row * length + at] = narrow->at[row];
        if (!back) narrow->at[row] = at >= 0 ? wide->at[row * length + at] : 0;
    }
    return true;
}

/* Uses the rows of the table in this box: indices of other rows contribute nothing. */
bool embedding_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool back = node->op == OP_embedding_grad;
    const FieldTensor *table = back ? &out[0] : &in[0], *rows = back ? &in[0] : &out[0], *index = &in[1];
    int h = table->hidden, last = rows->box.ndim - 1;
    int64_t width, begin, count = table->box.end[h] - table->box.begin[h], slices = h ? table->box.end[0] - table->box.begin[0] : 1;
    bool same =
        lookup_rows(rows, index, &width, &begin) && begin == table->box.begin[h + 1] && rows->box.end[last] == table->box.end[h + 1];
    if (!same || (h && (table->box.begin[0] != index->box.begin[0] || table->box.end[0] != index->box.end[0])))
        return field_fail(why, n, "boxes do not hold the same rows");
    if (back) tensor_fill(&out[0], 0);
    int64_t elements = field_elements(index), each = slices ? elements / slices : 0;
    for (int64_t i = 0; i < elements; i++) {
        int64_t row = lookup_index(index->at[i], table->box.begin[h], count);
        Fe *entry = table->at + ((i / each) * count + (row < 0 ? 0 : row)) * width, *own = rows->at + i * width;
        for (int64_t k = 0; k < width; k++) {
            if (!back)
                own[k] = row >= 0 ? entry[k] : 0;
            else if (row >= 0)
                entry[k] = fe_add(entry[k], own[k]);
        }
    }
    return true;
}

bool one_hot_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int64_t length, begin;
    (void)node;
    if (!lookup_rows(&out[0], &in[0], &length, &begin) || length != out[0].global.dim[out[0].global.ndim - 1])
        return field_fail(why, n, "not a whole row for each index");
    tensor_fill(&out[0], 0);
    for (int64_t i = 0, elements = field_elements(&in[0]); i < elements; i++) {
        int64_t at = lookup_index(in[0].at[i], 0, length);
        if (at >= 0) out[0].at[i * length + at] = 1;
    }
    return true;
}

/* first: the least index of a true; argmax: of the largest element. The axis of first may be split. */
bool first_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool largest = node->op == OP_argmax;
    int axis = axis_of(node, -1, &in[0]);
    int64_t outer = 1, inner = 1;
    if (axis < 0 || out[0].box.ndim != in[0].box.ndim - 1) return field_fail(why, n, "axis does not fit");
    for (int d = 0; d < in[0].box.ndim; d++) {
        int to = d < axis ? d : d - 1;
        if (d == axis) continue;
        if (in[0].box.begin[d] != out[0].box.begin[to] || in[0].box.end[d] != out[0].box.end[to])
            return field_fail(why, n, "operand and result hold different rows");
        *(d < axis ? &outer : &inner) *= in[0].box.end[d] - in[0].box.begin[d];
    }
    int64_t begin = in[0].box.begin[axis], length = in[0].box.end[axis] - begin;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const Fe *row = in[0].at + o * length * inner + i;
            int64_t found = INT32_MAX;
            for (int64_t k = length - 1; k >= 0; k--)
                if (largest ? found == INT32_MAX || fe_signed(row[k * inner]) >= fe_signed(row[(found - begin) * inner])
                            : row[k * inner] != 0)
                    found = begin + k;
            out[0].at[o * inner + i] = fe_integer(found);
        }
    return true;
}
