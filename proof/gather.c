/* gather: operators along one axis, over the field: gather and put by indices, cumulative sums, topk, stacking of tensors. */
#include <string.h>

#include "proof/internal.h"
#include "proof/walk.h"

/* ---------------------------------------------------------------- letters */

static const TensorType *type_of(const Graph *graph, int value) {
    return &graph->values.at[value].type;
}

/* The dimension, the hidden one counted, that attribute `axis` names; -1: none. */
static int line_of(const Node *node, const TensorType *type) {
    const int at = op_attr(node->op, "axis"), ndim = type->shape.ndim - type->hidden;
    const int64_t given = at >= 0 && node->attr[at].given ? node->attr[at].i : -1, axis = given < 0 ? given + ndim : given;
    return axis < 0 || axis >= ndim ? -1 : (int)axis + type->hidden;
}

static int8_t letter_of(Letters *letters, int64_t size) {
    if (letters->n == 32) return -1;
    letters->size[letters->n] = size;
    return (int8_t)letters->n++;
}

/* wide: has the elements along the axis; narrow: the elements that are looked up; index: one for each element of narrow, or for each row
 * along the dimensions that the index lacks. */
static bool index_letters(const TensorType *wide, const TensorType *index, const TensorType *narrow, int axis, Letters *letters,
                          int8_t *wide_map, int8_t *index_map, int8_t *narrow_map, char *why, size_t n) {
    const int ndim = wide->shape.ndim, nindex = index->shape.ndim;
    if (axis < 0 || narrow->shape.ndim != ndim || nindex <= axis || nindex > ndim) return field_fail(why, n, "no index along the axis");
    for (int d = wide->hidden; d < ndim; d++) {
        const int64_t own = wide->shape.dim[d], other = narrow->shape.dim[d];
        if (d != axis && other != own) return field_fail(why, n, "sizes differ beyond the axis");
        if (d < nindex && index->shape.dim[d] != other) return field_fail(why, n, "not an index for each place");
        wide_map[d] = narrow_map[d] = letter_of(letters, own);
        if (d == axis) narrow_map[d] = letter_of(letters, other);
        if (d < nindex) index_map[d] = narrow_map[d];
    }
    return true;
}

/* Every dimension except the axis has a letter. The axis is whole; unless `same`, the results have another size (k) along it. */
static bool line_letters(const Graph *graph, const Node *node, bool same, Letters *letters, char *why, size_t n) {
    const TensorType *x = type_of(graph, node->in[0]);
    const int axis = line_of(node, x);
    if (axis < 0) return field_fail(why, n, "axis is out of range");
    for (int d = x->hidden; d < x->shape.ndim; d++)
        if (d != axis) letters->in[0][d] = letter_of(letters, x->shape.dim[d]);
    for (int o = 0; o < node->nout; o++) {
        const TensorType *y = type_of(graph, node->out[o]);
        bool fits = y->shape.ndim == x->shape.ndim;
        for (int d = x->hidden; d < x->shape.ndim && fits; d++) {
            fits = y->shape.dim[d] == (d != axis || same ? x->shape.dim[d] : node->attr[op_attr(OP_topk, "k")].i);
            if (d != axis) letters->out[o][d] = letters->in[0][d];
        }
        if (!fits) return field_fail(why, n, "a result of another size than the operator gives");
    }
    return true;
}

bool along_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const bool back = node->op == OP_gather_grad;
    if (node->op == OP_cumsum) letters->linear = LINEAR_IN_ALL;
    if (node->op == OP_cumsum || node->op == OP_topk) return line_letters(graph, node, node->op == OP_cumsum, letters, why, n);
    const TensorType *x = type_of(graph, node->in[0]), *y = type_of(graph, node->out[0]);
    const int axis = line_of(node, x);
    if (back && (axis < 0 || axis >= y->shape.ndim || y->shape.dim[axis] != node->attr[op_attr(OP_gather_grad, "size")].i))
        return field_fail(why, n, "a result of another size along the axis");
    letters->linear = LINEAR_IN_FIRST;
    return index_letters(back ? y : x, type_of(graph, node->in[1]), back ? x : y, axis, letters, back ? letters->out[0] : letters->in[0],
                         letters->in[1], back ? letters->in[0] : letters->out[0], why, n);
}

/* x and the result have the same shape; so have the rows, except along the axis, where there is one for each index. */
bool put_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const TensorType *x = type_of(graph, node->in[0]), *rows = type_of(graph, node->in[1]), *index = type_of(graph, node->in[2]),
                     *y = type_of(graph, node->out[0]);
    const int axis = line_of(node, x), ndim = x->shape.ndim;
    if (axis < 0 || x->hidden > 0 || rows->shape.ndim != ndim || y->shape.ndim != ndim || index->shape.ndim != 1)
        return field_fail(why, n, "no index along the axis");
    for (int d = x->hidden; d < ndim; d++) {
        if (y->shape.dim[d] != x->shape.dim[d] || rows->shape.dim[d] != (d == axis ? index->shape.dim[0] : x->shape.dim[d]))
            return field_fail(why, n, "not a row for each index");
        letters->in[0][d] = letters->out[0][d] = letter_of(letters, x->shape.dim[d]);
        if (d != axis) letters->in[1][d] = letters->in[0][d];
    }
    return true;
}

/* ---------------------------------------------------------------- values */

/* Each element of `narrow` belongs to the element of `wide` that an index names along the axis. Where indices name rows, they lack the last
 * dimensions. */
typedef struct Along {
    const FieldTensor *wide, *narrow, *index;
    int axis;
} Along;

static bool same_range(const FieldTensor *a, const FieldTensor *b, int d) {
    return a->box.begin[d] == b->box.begin[d] && a->box.end[d] == b->box.end[d];
}

static bool along_fits(const Along *a) {
    const int ndim = a->wide->box.ndim, nindex = a->index->box.ndim;
    if (a->axis < 0 || a->narrow->box.ndim != ndim || nindex <= a->axis || nindex > ndim) return false;
    for (int d = 0; d < ndim; d++)
        if ((d != a->axis && !same_range(a->wide, a->narrow, d)) || (d < nindex && !same_range(a->index, a->narrow, d))) return false;
    return true;
}

static int64_t place(const FieldTensor *t, const int64_t *at) {
    int64_t to = 0;
    for (int d = 0; d < t->box.ndim; d++)
        to = to * (t->box.end[d] - t->box.begin[d]) + at[d] - t->box.begin[d];
    return to;
}

/* Moves to the next index of a box, the last dimension fastest. */
static void step(const Box *box, int64_t *at) {
    for (int d = box->ndim - 1; d >= 0 && ++at[d] == box->end[d]; d--)
        at[d] = box->begin[d];
}

/* The element of wide that belongs to element `at` of narrow; NULL: it is not in the box. */
static Fe *partner(const Along *a, const int64_t *at) {
    const int64_t found = fe_signed(a->index->at[place(a->index, at)]);
    int64_t there[MAX_NDIM];
    if (found < a->wide->box.begin[a->axis] || found >= a->wide->box.end[a->axis]) return NULL;
    memcpy(there, at, sizeof there);
    there[a->axis] = found;
    return &a->wide->at[place(a->wide, there)];
}

bool gather_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const bool back = node->op == OP_gather_grad;
    const Along a = {back ? &out[0] : &in[0], back ? &in[0] : &out[0], &in[1], axis_of(node, -1, &in[0])};
    int64_t at[MAX_NDIM] = {0};
    if (!along_fits(&a)) return field_fail(why, n, "boxes do not hold the same lines");
    if (back) tensor_fill(&out[0], 0);
    memcpy(at, a.narrow->box.begin, sizeof *at * (size_t)a.narrow->box.ndim);
    for (int64_t e = 0; e < field_elements(a.narrow); e++, step(&a.narrow->box, at)) {
        Fe *own = &a.narrow->at[e], *there = partner(&a, at);
        if (!back)
            *own = there ? *there : 0;
        else if (there)
            *there = fe_add(*there, *own);
    }
    return true;
}

bool scatter_add_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const Along a = {&out[0], &in[2], &in[1], axis_of(node, -1, &in[0])};
    int64_t at[MAX_NDIM] = {0};
    if (!along_fits(&a) || field_elements(&in[0]) != field_elements(&out[0])) return field_fail(why, n, "boxes do not hold the same lines");
    memcpy(out[0].at, in[0].at, sizeof(Fe) * (size_t)field_elements(&out[0]));
    memcpy(at, in[2].box.begin, sizeof *at * (size_t)in[2].box.ndim);
    for (int64_t e = 0; e < field_elements(&in[2]); e++, step(&in[2].box, at)) {
        Fe *there = partner(&a, at);
        if (there) *there = fe_add(*there, in[2].at[e]);
    }
    return true;
}

/* Puts rows in the order of the indices, so that the last of equal indices wins. */
bool put_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *rows = &in[1], *index = &in[2];
    const int axis = axis_of(node, -1, &in[0]);
    int64_t at[MAX_NDIM] = {0};
    bool fits = axis >= 0 && index->box.ndim == 1 && rows->box.ndim == in[0].box.ndim && out[0].box.ndim == in[0].box.ndim &&
                same_range(index, &(FieldTensor){.box = {.ndim = 1, .end = {index->global.dim[0]}}}, 0) && rows->box.begin[axis] == 0 &&
                rows->box.end[axis] == index->global.dim[0];
    for (int d = 0; d < in[0].box.ndim && fits; d++)
        fits = same_range(&in[0], &out[0], d) && (d == axis || same_range(&in[0], rows, d));
    if (!fits) return field_fail(why, n, "boxes do not hold the same lines");
    memcpy(out[0].at, in[0].at, sizeof(Fe) * (size_t)field_elements(&out[0]));
    memcpy(at, rows->box.begin, sizeof *at * (size_t)rows->box.ndim);
    for (int64_t e = 0; e < field_elements(rows); e++, step(&rows->box, at)) {
        int64_t there[MAX_NDIM];
        memcpy(there, at, sizeof there);
        there[axis] = fe_signed(index->at[at[axis]]);
        if (there[axis] >= out[0].box.begin[axis] && there[axis] < out[0].box.end[axis]) out[0].at[place(&out[0], there)] = rows->at[e];
    }
    return true;
}

bool cumsum_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *x = &in[0];
    const int axis = axis_of(node, -1, x);
    const bool reverse = node->attr[op_attr(OP_cumsum, "reverse")].i, exclusive = node->attr[op_attr(OP_cumsum, "exclusive")].i;
    int64_t inner = 1;
    bool fits = axis >= 0 && out[0].box.ndim == x->box.ndim && x->box.end[axis] - x->box.begin[axis] == x->global.dim[axis];
    for (int d = 0; d < x->box.ndim && fits; d++)
        fits = same_range(x, &out[0], d);
    if (!fits) return field_fail(why, n, "not sums of whole lines");
    for (int d = axis + 1; d < x->box.ndim; d++)
        inner *= x->box.end[d] - x->box.begin[d];
    const int64_t length = x->global.dim[axis], lines = field_elements(x) / length;
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = line / inner * length * inner + line % inner;
        Fe sum = 0;
        for (int64_t i = 0; i < length; i++) {
            const int64_t at = first + (reverse ? length - 1 - i : i) * inner;
            const Fe next = fe_add(sum, x->at[at]);
            out[0].at[at] = exclusive ? sum : next;
            sum = next;
        }
    }
    return true;
}

/* Checks the boxes of topk's results, values and their places, against those of x; sets the lengths of their rows. */
static bool topk_rows(const FieldTensor *x, const FieldTensor *out, int64_t *length, int64_t *k, char *why, size_t n) {
    const int last = x->box.ndim - 1;
    bool fits =
        out[0].box.ndim == x->box.ndim && out[1].box.ndim == x->box.ndim && x->box.end[last] - x->box.begin[last] == x->global.dim[last];
    for (int d = 0; d <= last && fits; d++)
        fits = same_range(&out[0], &out[1], d) && (d == last || same_range(x, &out[0], d));
    if (!fits) return field_fail(why, n, "not the largest of whole rows");
    *length = x->global.dim[last];
    *k = out[0].box.end[last] - out[0].box.begin[last];
    return true;
}

static bool above(const Fe *x, int64_t a, int64_t b) {
    return x[a] == x[b] ? a < b : fe_signed(x[a]) > fe_signed(x[b]);
}

bool topk_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int64_t length, k;
    (void)node;
    if (!topk_rows(&in[0], out, &length, &k, why, n)) return false;
    for (int64_t row = 0; row < field_elements(&in[0]) / length; row++) {
        const Fe *x = in[0].at + row * length;
        for (int64_t i = 0, taken = -1; i < k; i++) {
            int64_t found = -1;
            for (int64_t at = 0; at < length; at++)
                if ((taken < 0 || above(x, taken, at)) && (found < 0 || above(x, at, found))) found = at;
            out[0].at[row * k + i] = x[found];
            out[1].at[row * k + i] = fe_integer(found);
            taken = found;
        }
    }
    return true;
}

/* The derivative of each value is that of the element that it was taken from. */
bool topk_tangent(const FieldTensor *in, const FieldTensor *din, const FieldTensor *out, FieldTensor *dout, char *why, size_t n) {
    int64_t length, k;
    if (!topk_rows(&in[0], out, &length, &k, why, n)) return false;
    for (int64_t e = 0; e < field_elements(&out[0]); e++) {
        dout[0].at[e] = din[0].at[e / k * length + fe_signed(out[1].at[e])];
        dout[1].at[e] = 0;
    }
    return true;
}

bool stack_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const FieldTensor *y = &out[0];
    int64_t inner = 1;
    const int axis = axis_of(node, 0, y);
    bool fits = axis >= 0 && y->box.end[axis] - y->box.begin[axis] == node->nin;
    for (int i = 0; i < node->nin && fits; i++) {
        fits = in[i].box.ndim == y->box.ndim - 1;
        for (int d = 0; d < in[i].box.ndim && fits; d++)
            fits = in[i].box.begin[d] == y->box.begin[d + (d >= axis)] && in[i].box.end[d] == y->box.end[d + (d >= axis)];
    }
    if (!fits) return field_fail(why, n, "not one part for each operand");
    for (int d = axis + 1; d < y->box.ndim; d++)
        inner *= y->box.end[d] - y->box.begin[d];
    for (int64_t e = 0; e < field_elements(y); e++)
        y->at[e] = in[e / inner % node->nin].at[e / inner / node->nin * inner + e % inner];
    return true;
}
