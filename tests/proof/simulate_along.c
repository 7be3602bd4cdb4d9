/* Operators along one axis, in plans that are simulated: gather and its gradient, put, cumsum, topk, first. */
#include "tests/proof/simulate_numbers.h"

#include <string.h>

static int axis_given(const Attr *axis, int ndim) {
    return (int)(!axis->given ? ndim - 1 : axis->i < 0 ? axis->i + ndim : axis->i);
}

/* The least index of what is not zero along the axis; 2^31 - 1 is 0 here, and no index: the number before it stands for none. */
static bool place(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    int ndim = in->local.ndim, axis = (int)(!node->attr[0].given  ? ndim - 1
                                            : node->attr[0].i < 0 ? node->attr[0].i + ndim
                                                                  : node->attr[0].i);
    int64_t inner = 1, length = in->local.dim[axis];
    for (int d = axis + 1; d < ndim; d++)
        inner *= in->local.dim[d];
    if (length > 0 && shape_elements(&in->local) != shape_elements(&out->local) * length) return fault(why, n, "not a result for each row");
    for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++) {
        out->at[e] = SIM_PRIME - 1;
        for (int64_t k = length - 1; k >= 0; k--) {
            uint32_t x = in->at[(e / inner * length + k) * inner + e % inner];
            if (x != 0) out->at[e] = x == SIM_POISON ? SIM_POISON : (uint32_t)(in->begin[axis] + k);
        }
    }
    return true;
}

/* Each element of the narrow tensor and each place of the wide one's axis: those that belong together. A poisoned index poisons all that it may mean. */
static bool along_index(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const bool back = node->op == OP_gather_grad;
    const SimTensor *wide = back ? &out[0] : &in[0], *narrow = back ? &in[0] : &out[0], *index = &in[1];
    const int ndim = wide->local.ndim, axis = axis_given(&node->attr[back], ndim);
    int64_t inner = 1, rows = 1;
    for (int d = 0; d < ndim; d++) {
        if (d != axis && (wide->local.dim[d] != narrow->local.dim[d] || wide->begin[d] != narrow->begin[d]))
            return fault(why, n, "other lines");
        if (d < index->local.ndim && (index->local.dim[d] != narrow->local.dim[d] || index->begin[d] != narrow->begin[d]))
            return fault(why, n, "not an index for each place");
        if (d > axis) inner *= wide->local.dim[d];
        if (d >= index->local.ndim) rows *= wide->local.dim[d];
    }
    for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++)
        out->at[e] = 0;
    for (int64_t e = 0, count = shape_elements(&narrow->local); e < count; e++)
        for (int64_t k = 0; k < wide->local.dim[axis]; k++) {
            const uint32_t found = index->at[e / rows];
            if (found != SIM_POISON && found != integer(wide->begin[axis] + k)) continue;
            const int64_t outer = e / inner / narrow->local.dim[axis];
            uint32_t *there = &wide->at[(outer * wide->local.dim[axis] + k) * inner + e % inner], *own = &narrow->at[e];
            if (found == SIM_POISON)
                *(back ? there : own) = SIM_POISON;
            else if (back)
                *there = plus(*there, *own);
            else
                *own = *there;
        }
    return true;
}

/* Each place of each line has the row of the last index that names it. A poisoned index may name any. */
static bool put(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const SimTensor *rows = &in[1], *index = &in[2];
    const int ndim = in->local.ndim, axis = axis_given(&node->attr[0], ndim);
    int64_t inner = 1, length = in->local.dim[axis], given = index->local.dim[0];
    if (!is_whole(index, 0) || !is_whole(rows, axis) || rows->local.dim[axis] != given || !shape_equal(&in->local, &out->local))
        return fault(why, n, "not a row for each index");
    for (int d = 0; d < ndim; d++) {
        if (d != axis && (in->local.dim[d] != rows->local.dim[d] || in->begin[d] != rows->begin[d])) return fault(why, n, "other lines");
        if (d > axis) inner *= in->local.dim[d];
    }
    for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++) {
        const int64_t outer = e / inner / length, place = e / inner % length;
        out->at[e] = in->at[e];
        for (int64_t k = 0; k < given; k++) {
            const uint32_t found = index->at[k];
            if (found == SIM_POISON)
                out->at[e] = SIM_POISON;
            else if (found == integer(in->begin[axis] + place))
                out->at[e] = rows->at[(outer * given + k) * inner + e % inner];
        }
    }
    return true;
}

static bool sums(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const int axis = axis_given(&node->attr[0], in->local.ndim);
    int64_t inner = 1;
    if (!is_whole(in, axis) || !shape_equal(&in->local, &out->local)) return fault(why, n, "a line that is not whole");
    for (int d = axis + 1; d < in->local.ndim; d++)
        inner *= in->local.dim[d];
    for (int64_t e = 0, length = in->local.dim[axis]; e < shape_elements(&in->local); e++) {
        const int64_t place = e / inner % length;
        out->at[e] = 0;
        for (int64_t k = 0; k < length; k++)
            if ((node->attr[1].i ? k > place : k < place) || (k == place && !node->attr[2].i))
                out->at[e] = plus(out->at[e], in->at[e + (k - place) * inner]);
    }
    return true;
}

/* The order of numbers here is that of what they are between -p / 2 and p / 2. */
static int64_t signed_of(uint32_t a) {
    return a > SIM_PRIME / 2 ? (int64_t)a - (int64_t)SIM_PRIME : (int64_t)a;
}

/* An element's place is the number of those before it. */
static bool largest(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const int last = in->local.ndim - 1;
    const int64_t length = in->local.dim[last], k = node->attr[0].i;
    if (!is_whole(in, last) || out[0].local.dim[last] != k || !shape_equal(&out[0].local, &out[1].local))
        return fault(why, n, "not k of each row");
    for (int64_t e = 0; e < shape_elements(&in->local); e++) {
        const int64_t first = e - e % length;
        int64_t place = 0;
        bool poisoned = false;
        for (int64_t i = first; i < first + length; i++) {
            poisoned = poisoned || in->at[i] == SIM_POISON;
            place += signed_of(in->at[i]) > signed_of(in->at[e]) || (in->at[i] == in->at[e] && i < e);
        }
        for (int64_t i = 0; i < k && poisoned; i++)
            out[0].at[e / length * k + i] = out[1].at[e / length * k + i] = SIM_POISON;
        if (poisoned || place >= k) continue;
        out[0].at[e / length * k + place] = in->at[e];
        out[1].at[e / length * k + place] = (uint32_t)(e % length);
    }
    return true;
}

bool simulate_along(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    if (node->op == OP_first) return place(node, in, out, why, n);
    if (node->op == OP_put) return put(node, in, out, why, n);
    return (node->op == OP_cumsum ? sums : node->op == OP_topk ? largest : along_index)(node, in, out, why, n);
}
