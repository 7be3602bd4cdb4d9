/* cut: operators that cut and join tensors: slice, slice_grad, concat, split. Their letters, what they read of operands, and their values over the field. */
#include "proof/cut.h"

#include <string.h>

static bool no(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

/* ---------------------------------------------------------------- letters */

/* Where a slice begins, and how long it is, in dimension d of `whole`, hidden dimensions not counted. */
static int64_t slice_begins(const Node *node, Plain whole, int d, int64_t *length) {
    int64_t at[2];
    for (int side = 0; side < 2; side++) {
        const int64_t given = node->attr[side].ints[d];
        at[side] = given < 0 ? given + whole.dim[d] : given;
    }
    *length = at[1] - at[0];
    return at[0];
}

/* A dimension that is cut, or padded with zeros, has the letter of the result: the range that a part needs of the operand is at other
 * indices there. */
static bool slicing(const Node *node, Plain whole, Plain slice, Letters *letters, char *why, size_t n) {
    const bool pads = node->op == OP_slice_grad;
    if (node->attr[0].n != whole.ndim || node->attr[1].n != whole.ndim || slice.ndim != whole.ndim)
        return no(why, n, "a slice of another number of dimensions");
    for (int d = 0; d < whole.ndim; d++) {
        int64_t length;
        const int64_t begin = slice_begins(node, whole, d, &length);
        if (begin < 0 || begin + length > whole.dim[d] || length != slice.dim[d]) return no(why, n, "shapes of the slice do not fit");
        const int at = whole.hidden + d;
        letters->in[0][at] = letters->out[0][at] = (int8_t)letter_new(letters, pads ? whole.dim[d] : slice.dim[d]);
        if (slice.dim[d] != whole.dim[d]) letters->windows[0] |= window_bit(whole.hidden + whole.ndim, at);
    }
    return true;
}

/* The axis along which tensors are joined or one is divided, hidden dimensions not counted; -1: `whole` has no such axis. */
static int joint_axis(const Node *node, Plain whole) {
    const Attr *given = &node->attr[node->op == OP_concat ? 0 : 1];
    const int64_t axis = given->given ? given->i + (given->i < 0 ? whole.ndim : 0) : 0;
    return axis >= 0 && axis < whole.ndim ? (int)axis : -1;
}

/* The parts follow each other along the axis and fill `whole`. Along it they have the letter of the whole, in which each part is at other
 * indices. */
static bool joining(const Node *node, Plain whole, const Plain *parts, int nparts, Letters *letters, int8_t *whole_map,
                    int8_t (*part_maps)[MAX_NDIM], char *why, size_t n) {
    const int axis = joint_axis(node, whole);
    int64_t sum = 0;
    if (axis < 0) return no(why, n, "axis out of range");
    for (int k = 0; k < nparts; k++) {
        if (parts[k].ndim != whole.ndim) return no(why, n, "parts of another number of dimensions");
        for (int d = 0; d < whole.ndim; d++)
            if (d != axis && parts[k].dim[d] != whole.dim[d]) return no(why, n, "parts of different shapes beyond the axis");
        sum += parts[k].dim[axis];
    }
    if (sum != whole.dim[axis]) return no(why, n, "the parts do not add up along the axis");
    for (int d = 0; d < whole.ndim; d++) {
        if (d == axis && node->op == OP_split) continue;
        int letter = letter_new(letters, whole.dim[d]);
        whole_map[whole.hidden + d] = (int8_t)letter;
        for (int k = 0; k < nparts; k++) {
            part_maps[k][parts[k].hidden + d] = (int8_t)letter;
            if (d == axis) letters->windows[k] |= window_bit(whole.hidden + whole.ndim, whole.hidden + d);
        }
    }
    return true;
}

bool cut_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const bool joins = node->op == OP_concat;
    const Plain in = plain_of(graph, node->in[0]), out = plain_of(graph, node->out[0]);
    letters->linear = LINEAR_IN_ALL;
    letters->places = node->op == OP_slice || node->op == OP_split;
    if (node->op == OP_slice) return slicing(node, in, out, letters, why, n);
    if (node->op == OP_slice_grad) return slicing(node, out, in, letters, why, n);
    Plain parts[MAX_IN > MAX_OUT ? MAX_IN : MAX_OUT];
    const int nparts = joins ? node->nin : node->nout;
    for (int k = 0; k < nparts; k++)
        parts[k] = plain_of(graph, joins ? node->in[k] : node->out[k]);
    for (int k = 1; !joins && k < nparts; k++)
        if (memcmp(parts[k].dim, parts[0].dim, sizeof *parts[k].dim * (size_t)parts[0].ndim)) return no(why, n, "parts of different sizes");
    return joining(node, joins ? out : in, parts, nparts, letters, joins ? letters->out[0] : letters->in[0],
                   joins ? letters->in : letters->out, why, n);
}

bool cut_reach(const Graph *graph, const Node *node, int operand, int dim, int64_t begin, int64_t end, int64_t from, int64_t to) {
    const bool pads = node->op != OP_slice;
    const Plain whole = plain_of(graph, pads ? node->out[0] : node->in[0]);
    int64_t length = graph->values.at[node->in[operand]].type.shape.dim[dim], first = 0;
    for (int k = 0; k < operand; k++)
        first += graph->values.at[node->in[k]].type.shape.dim[dim];
    if (node->op != OP_concat) first = slice_begins(node, whole, dim - whole.hidden, &length);
    if (begin >= end) return true;
    begin += pads ? -first : first;
    end += pads ? -first : first;
    if (pads && begin < 0) begin = 0; /* what is outside is zero, or another operand's */
    if (pads && end > length) end = length;
    return begin >= end || (begin >= from && end <= to);
}

/* ---------------------------------------------------------------- values */

/* Copies between a piece and the whole: an index in the piece plus shift[d] is the index in the whole. inward: into the whole, whose other
 * elements stay unchanged. */
static bool copied(const FieldTensor *piece, const FieldTensor *whole, const int64_t *shift, bool inward, char *why, size_t n) {
    Walk walk;
    int8_t map[MAX_NDIM];
    Box box = piece->box;
    const FieldTensor *result = inward ? whole : piece, *operand = inward ? piece : whole;
    map_same(map);
    if (piece->global.ndim != whole->global.ndim) return no(why, n, "the numbers of dimensions differ");
    for (int d = 0; inward && d < box.ndim; d++) { /* all elements that belong there; walk_add checks that the piece holds them */
        const int64_t begin = whole->box.begin[d] - shift[d], end = whole->box.end[d] - shift[d];
        box.begin[d] = begin > 0 ? begin : 0;
        box.end[d] = end < piece->global.dim[d] ? end : piece->global.dim[d];
    }
    walk_begin(&walk, &box);
    for (int d = 0; d < box.ndim && !walk.empty; d++)
        if (piece->global.dim[d] == whole->global.dim[d] &&
            (operand->box.begin[d] != result->box.begin[d] || operand->box.end[d] != result->box.end[d]))
            return no(why, n, "a piece and its whole hold different parts of a dimension that is not cut");
    if (!walk_add(&walk, result, map, inward ? shift : NULL, false, why, n) ||
        !walk_add(&walk, operand, map, inward ? NULL : shift, false, why, n))
        return false;
    walk_assign(&walk);
    return true;
}

bool slice_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const bool pads = node->op == OP_slice_grad;
    const FieldTensor *whole = pads ? &out[0] : &in[0];
    const Attr *begin = &node->attr[0];
    int64_t shift[MAX_NDIM] = {0};
    if (begin->n != whole->global.ndim - whole->hidden) return no(why, n, "begin does not fit");
    for (int i = 0; i < begin->n; i++) {
        const int64_t at = begin->ints[i], size = whole->global.dim[whole->hidden + i];
        shift[whole->hidden + i] = at < 0 ? at + size : at;
    }
    if (pads) tensor_fill(&out[0], 0);
    return copied(pads ? &in[0] : &out[0], whole, shift, pads, why, n);
}

/* The pieces, one after the other along the axis, make up the whole. */
bool join_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const bool inward = node->op == OP_concat;
    const FieldTensor *piece = inward ? in : out, *whole = inward ? &out[0] : &in[0];
    const int axis = axis_of(node, 0, whole), npieces = inward ? node->nin : node->nout;
    int64_t shift[MAX_NDIM] = {0};
    if (axis < 0) return no(why, n, "axis does not fit");
    for (int i = 0; i < npieces; i++) {
        if (!copied(&piece[i], whole, shift, inward, why, n)) return false;
        shift[axis] += piece[i].global.dim[axis];
    }
    return shift[axis] == whole->global.dim[axis] || no(why, n, "the pieces are not the whole");
}
