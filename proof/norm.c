/* norm: layer_norm, rms_norm and their gradients over the field. The root of a row is the hash in place of rsqrt, of the mean of squares plus eps. The root, and the mean of
 * layer_norm, are results, and the gradient takes them as operands. All else is arithmetic: y = n weight (+ bias) with n = (x - mean) root. With g = dy weight the gradient of x is
 * (g - n mean(g n) - mean(g)) root, for rms_norm without the last mean. */
#include <stdlib.h>

#include "proof/internal.h"
#include "proof/walk.h"

/* ---------------------------------------------------------------- letters */

/* The operands before operand `weight`, and the first result, have x's shape. Other tensors have the weight's shape, x's last dimensions;
 * rows are needed whole along these, so they have no letter. The operator's further results, and the last operands of its gradient, are
 * numbers of rows, with size 1 in these dimensions. */
bool norm_letters(const Graph *graph, const Node *node, int weight, Letters *letters, char *why, size_t n) {
    const TensorType *x = &graph->values.at[node->in[0]].type, *w = &graph->values.at[node->in[weight]].type;
    const bool gradient = weight > 1;
    const int hidden = x->hidden, ndim = x->shape.ndim - hidden, nw = w->shape.ndim - hidden, lead = ndim - nw, first = letters->n;
    if ((int)w->hidden != hidden || nw < 1 || lead < 0) return field_fail(why, n, "weight is not of the rows");
    for (int d = 0; d < lead; d++)
        letters->size[letters->n++] = x->shape.dim[hidden + d];
    for (int part = 0; part < node->nin + node->nout; part++) {
        const bool is_in = part < node->nin;
        const int k = is_in ? part : part - node->nin;
        const bool rows = is_in ? k < weight : k == 0, number = !rows && (is_in ? gradient && k > weight : !gradient);
        const TensorType *own = &graph->values.at[is_in ? node->in[k] : node->out[k]].type;
        const int from = rows || number ? 0 : lead; /* the dimension of x that is this tensor's first */
        bool fits = (int)own->hidden == hidden && own->shape.ndim - hidden == ndim - from;
        for (int d = from; fits && d < ndim; d++)
            fits = own->shape.dim[hidden + d - from] == (number && d >= lead ? 1 : x->shape.dim[hidden + d]);
        if (!fits) return field_fail(why, n, "operand or result of another shape than the rows, their numbers or their weight");
        for (int d = from; d < lead; d++)
            (is_in ? letters->in[k] : letters->out[k])[hidden + d] = (int8_t)(first + d);
    }
    return true;
}

/* ---------------------------------------------------------------- values */

typedef struct Rows {
    int64_t rows, n;  /* in this box */
    int64_t together; /* rows of a hidden slice; each slice has its own weight */
    Fe inverse, eps;  /* inverse: 1 / n */
    bool centered;
} Rows;

/* Sets *rows. The weight's dimensions are x's last ones and must be whole; in the dimensions before them x may have any box. */
static bool rows_open(const Node *node, const FieldTensor *x, const FieldTensor *weight, Rows *rows, char *why, size_t n) {
    const int hidden = x->hidden, lead = x->global.ndim - (weight->global.ndim - hidden);
    *rows = (Rows){.rows = 1, .n = 1, .together = 1, .centered = node->op == OP_layer_norm || node->op == OP_layer_norm_grad};
    if (weight->hidden != x->hidden || lead < hidden) return field_fail(why, n, "weight is not of the rows");
    for (int d = 0; d < x->global.ndim; d++) {
        const int64_t size = x->box.end[d] - x->box.begin[d];
        const int w = d - lead + hidden;
        if (d < lead) {
            rows->rows *= size;
            if (d >= hidden) rows->together *= size;
        } else {
            rows->n *= size;
            if (size != x->global.dim[d] || weight->global.dim[w] != size || weight->box.end[w] - weight->box.begin[w] != size)
                return field_fail(why, n, "rows that must be whole are split");
        }
    }
    if (hidden && (weight->box.begin[0] != x->box.begin[0] || weight->box.end[0] != x->box.end[0]))
        return field_fail(why, n, "slices of x and weight differ");
    rows->inverse = fe_inverse(fe_integer(rows->n));
    return fe_double(node->attr[0].f, &rows->eps) ? true : field_fail(why, n, "eps is no number");
}

static Fe mean_of(const Rows *rows, const Fe *a, const Fe *b) {
    Fe sum = 0;
    for (int64_t k = 0; k < rows->n; k++)
        sum = fe_add(sum, b ? fe_mul(a[k], b[k]) : a[k]);
    return fe_mul(sum, rows->inverse);
}

/* normalised = (row - mean) * root. */
static void normalise(const Rows *rows, const Fe *x, Fe mean, Fe root, Fe *normalised) {
    for (int64_t k = 0; k < rows->n; k++)
        normalised[k] = fe_mul(fe_sub(x[k], mean), root);
}

/* A row's mean (0 for rms_norm) and its root. */
static void numbers_of(const Rows *rows, const Fe *x, Fe *mean, Fe *root, Fe *room) {
    *mean = rows->centered ? mean_of(rows, x, NULL) : 0;
    normalise(rows, x, *mean, 1, room);
    *root = fe_hash(OP_rsqrt, fe_add(mean_of(rows, room, room), rows->eps));
}

/* Whether the tensors have one number for each of the rows that x holds. */
static bool numbers_fit(const Rows *rows, const FieldTensor *x, const FieldTensor *numbers, int n) {
    bool fit = true;
    for (int k = 0; fit && k < n; k++) {
        int64_t count = 1;
        fit = numbers[k].global.ndim == x->global.ndim;
        for (int d = 0; fit && d < x->global.ndim; d++) {
            const bool whole = numbers[k].global.dim[d] == 1;
            count *= numbers[k].box.end[d] - numbers[k].box.begin[d];
            fit = whole || (numbers[k].box.begin[d] == x->box.begin[d] && numbers[k].box.end[d] == x->box.end[d]);
        }
        fit = fit && count == rows->rows;
    }
    return fit;
}

static bool same_box(const FieldTensor *a, const FieldTensor *b) {
    bool same = a->global.ndim == b->global.ndim;
    for (int d = 0; same && d < a->global.ndim; d++)
        same = a->global.dim[d] == b->global.dim[d] && a->box.begin[d] == b->box.begin[d] && a->box.end[d] == b->box.end[d];
    return same;
}

/* Allocates room for two rows. */
static Fe *room_for(const Rows *rows, char *why, size_t n) {
    Fe *room = malloc(sizeof *room * (size_t)(2 * rows->n + 1));
    if (!room) field_fail(why, n, "out of memory");
    return room;
}

bool norm_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Rows rows;
    if (!rows_open(node, &in[0], &in[1], &rows, why, n)) return false;
    if (!same_box(&in[0], &out[0]) || (rows.centered && !same_box(&in[1], &in[2])) ||
        !numbers_fit(&rows, &in[0], out + 1, 1 + rows.centered))
        return field_fail(why, n, "operands and result hold different boxes");
    Fe *normalised = room_for(&rows, why, n);
    for (int64_t row = 0; normalised && row < rows.rows; row++) {
        const int64_t slice = row / rows.together * rows.n;
        Fe *y = out[0].at + row * rows.n, mean, *root = &out[1 + rows.centered].at[row];
        numbers_of(&rows, in[0].at + row * rows.n, &mean, root, normalised);
        if (rows.centered) out[1].at[row] = mean;
        normalise(&rows, in[0].at + row * rows.n, mean, *root, normalised);
        for (int64_t k = 0; k < rows.n; k++) {
            y[k] = fe_mul(normalised[k], in[1].at[slice + k]);
            if (rows.centered) y[k] = fe_add(y[k], in[2].at[slice + k]);
        }
    }
    free(normalised);
    return normalised != NULL;
}

bool norm_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Rows rows;
    if (!rows_open(node, &in[0], &in[2], &rows, why, n)) return false;
    bool same =
        same_box(&in[0], &in[1]) && same_box(&in[0], &out[0]) && same_box(&in[2], &out[1]) && (!rows.centered || same_box(&in[2], &out[2]));
    if (!same || !numbers_fit(&rows, &in[0], in + 3, 1 + rows.centered))
        return field_fail(why, n, "operands and results hold different boxes");
    for (int k = 1; k < node->nout; k++)
        tensor_fill(&out[k], 0);
    Fe *normalised = room_for(&rows, why, n), *g = normalised ? normalised + rows.n : NULL;
    for (int64_t row = 0; normalised && row < rows.rows; row++) {
        const int64_t slice = row / rows.together * rows.n, at = row * rows.n;
        const Fe root = in[3 + rows.centered].at[row], *dy = in[1].at + at;
        normalise(&rows, in[0].at + at, rows.centered ? in[3].at[row] : 0, root, normalised);
        for (int64_t k = 0; k < rows.n; k++) {
            Fe *dweight = &out[1].at[slice + k];
            g[k] = fe_mul(dy[k], in[2].at[slice + k]);
            *dweight = fe_add(*dweight, fe_mul(dy[k], normalised[k]));
            if (rows.centered) out[2].at[slice + k] = fe_add(out[2].at[slice + k], dy[k]);
        }
        const Fe share = mean_of(&rows, g, normalised), mean = rows.centered ? mean_of(&rows, g, NULL) : 0;
        for (int64_t k = 0; k < rows.n; k++)
            out[0].at[at + k] = fe_mul(fe_sub(fe_sub(g[k], fe_mul(normalised[k], share)), mean), root);
    }
    free(normalised);
    return normalised != NULL;
}

/* Only the gradient uses mean and root, so they have no derivative here. dy = dn weight + n dweight + dbias, and dn = root (dc - n mean(n
 * dc)) with c = x - mean, as the derivative of the root is -root^3 mean(c dc). */
bool norm_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n) {
    Rows rows;
    if (!rows_open(node, &in[0], &in[1], &rows, why, n)) return false;
    Fe *normalised = room_for(&rows, why, n), *moved = normalised ? normalised + rows.n : NULL;
    for (int64_t row = 0; normalised && row < rows.rows; row++) {
        const int64_t slice = row / rows.together * rows.n, at = row * rows.n;
        Fe own, root, mean = din[0].at && rows.centered ? mean_of(&rows, din[0].at + at, NULL) : 0;
        numbers_of(&rows, in[0].at + at, &own, &root, normalised);
        normalise(&rows, in[0].at + at, own, root, normalised);
        for (int64_t k = 0; k < rows.n; k++)
            moved[k] = din[0].at ? fe_sub(din[0].at[at + k], mean) : 0;
        const Fe along = mean_of(&rows, normalised, moved);
        for (int64_t k = 0; k < rows.n; k++) {
            Fe dy = fe_mul(fe_mul(root, fe_sub(moved[k], fe_mul(normalised[k], along))), in[1].at[slice + k]);
            if (din[1].at) dy = fe_add(dy, fe_mul(normalised[k], din[1].at[slice + k]));
            if (rows.centered && din[2].at) dy = fe_add(dy, din[2].at[slice + k]);
            dout[0].at[at + k] = dy;
        }
    }
    free(normalised);
    return normalised != NULL;
}
