/* lookup: operators that look elements up by index, or say where they are, over the field. */
#include <string.h>

#include "proof/walk.h"

/* A tensor of rows, and one that has a number for each of them: the row of narrow's element e begins at element e * length of wide. */
static bool rows_of(const FieldTensor *wide, const FieldTensor *narrow, int64_t *length, int64_t *begin) {
    int ndim = narrow->box.ndim;
    if (wide->box.ndim != ndim + 1) return false;
    for (int d = 0; d < ndim; d++)
        if (wide->box.begin[d] != narrow->box.begin[d] || wide->box.end[d] != narrow->box.end[d]) return false;
    *begin = wide->box.begin[ndim];
    *length = wide->box.end[ndim] - *begin;
    return true;
}

/* Where in [begin, begin + length) an index is, -1: not there. */
static int64_t index_in(Fe index, int64_t begin, int64_t length) {
    int64_t at = fe_signed(index) - begin;
    return at >= 0 && at < length ? at : -1;
}

bool pick_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool back = node->op == OP_pick_grad;
    const FieldTensor *wide = back ? &out[0] : &in[0], *narrow = back ? &in[0] : &out[0], *index = &in[1];
    int64_t length, begin, again;
    if (!rows_of(wide, narrow, &length, &begin) || !rows_of(wide, index, &length, &again))
        return field_fail(why, n, "boxes do not hold the same rows");
    if (back) tensor_fill(&out[0], 0);
    for (int64_t row = 0, rows = field_elements(narrow); row < rows; row++) {
        int64_t at = index_in(index->at[row], begin, length);
        if (back && at >= 0) wide->at[row * length + at] = narrow->at[row];
        if (!back) narrow->at[row] = at >= 0 ? wide->at[row * length + at] : 0;
    }
    return true;
}

/* Of the mean over classes, and of the class of the label, the share in a row's loss. */
static void loss_shares(double smoothing, Fe *mean, Fe *own) {
    *mean = 0, *own = 1;
    (void)(fe_double(smoothing, mean) && fe_double(1 - smoothing, own)); /* from 0 to 1 */
}

/* The largest of a row, and the sum of e(x - largest), e the hash of exp. */
static Fe row_sum(const Fe *x, int64_t length, Fe *most) {
    Fe sum = 0;
    *most = x[0];
    for (int64_t i = 1; i < length; i++)
        if (fe_signed(x[i]) > fe_signed(*most)) *most = x[i];
    for (int64_t i = 0; i < length; i++)
        sum = fe_add(sum, fe_hash(OP_exp, fe_sub(x[i], *most)));
    return sum;
}

/* log(sum of exp(x - m)) - (1 - s) (x[label] - m) - s (mean of x - m), m the largest of the row, exp and log their hashes. */
static Fe row_loss(const Fe *x, int64_t length, int64_t label, double smoothing) {
    Fe most, sum = row_sum(x, length, &most), mean = 0, share, own;
    loss_shares(smoothing, &share, &own);
    for (int64_t i = 0; i < length; i++)
        mean = fe_add(mean, fe_sub(x[i], most));
    mean = fe_mul(fe_mul(share, fe_inverse(fe_integer(length))), mean);
    return fe_sub(fe_hash(OP_log, sum), fe_add(fe_mul(own, fe_sub(label >= 0 ? x[label] : 0, most)), mean));
}

bool loss_rows_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int64_t length, begin;
    if (!rows_of(&in[0], &in[1], &length, &begin) || length != in[0].global.dim[in[0].global.ndim - 1])
        return field_fail(why, n, "not a loss of whole rows");
    for (int64_t row = 0, rows = field_elements(&in[1]); row < rows; row++) {
        const Fe *x = in[0].at + row * length;
        out[0].at[row] = row_loss(x, length, index_in(in[1].at[row], 0, length), node->attr[0].f);
        out[2].at[row] = row_sum(x, length, &out[1].at[row]);
    }
    return true;
}

/* (e(x - most) / sum - (1 - s) where the label is - s / classes) dy */
bool loss_rows_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int64_t length, begin;
    Fe share, own;
    bool same = rows_of(&in[0], &in[2], &length, &begin) && in[0].box.ndim == out[0].box.ndim;
    for (int d = 0; same && d < in[0].box.ndim; d++)
        same = in[0].box.begin[d] == out[0].box.begin[d] && in[0].box.end[d] == out[0].box.end[d];
    const int64_t rows = field_elements(&in[2]);
    if (!same || field_elements(&in[1]) != rows || field_elements(&in[3]) != rows || field_elements(&in[4]) != rows)
        return field_fail(why, n, "boxes do not hold the same rows");
    loss_shares(node->attr[0].f, &share, &own);
    share = fe_mul(share, fe_inverse(fe_integer(in[0].global.dim[in[0].global.ndim - 1])));
    for (int64_t row = 0; row < rows; row++) {
        const int64_t label = index_in(in[2].at[row], begin, length);
        const Fe inverse = fe_inverse(in[4].at[row]);
        for (int64_t i = row * length; i < (row + 1) * length; i++) {
            const Fe power = fe_mul(fe_hash(OP_exp, fe_sub(in[0].at[i], in[3].at[row])), inverse);
            const Fe taken = fe_add(share, i - row * length == label ? own : 0);
            out[0].at[i] = fe_mul(fe_sub(power, taken), in[1].at[row]);
        }
    }
    return true;
}

/* The loss moves by what its gradient says; most and sum by nothing: they are for that alone. */
bool loss_rows_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n) {
    int64_t length, begin;
    Fe share, own;
    if (!rows_of(&in[0], &in[1], &length, &begin)) return field_fail(why, n, "boxes do not hold the same rows");
    loss_shares(node->attr[0].f, &share, &own);
    share = fe_mul(share, fe_inverse(fe_integer(length)));
    for (int k = 0; k < node->nout; k++)
        tensor_fill(&dout[k], 0);
    for (int64_t row = 0, rows = field_elements(&in[1]); row < rows && din[0].at; row++) {
        const Fe *x = in[0].at + row * length, *dx = din[0].at + row * length;
        Fe most, inverse = fe_inverse(row_sum(x, length, &most));
        const int64_t label = index_in(in[1].at[row], 0, length);
        for (int64_t i = 0; i < length; i++) {
            const Fe power = fe_mul(fe_hash(OP_exp, fe_sub(x[i], most)), inverse);
            dout[0].at[row] = fe_add(dout[0].at[row], fe_mul(fe_sub(power, fe_add(share, i == label ? own : 0)), dx[i]));
        }
    }
    return true;
}

/* The composite, written once more: of rows whose label is not the one that is ignored. */
bool cross_entropy_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const char *reduction = node->attr[0].given && node->attr[0].text ? node->attr[0].text : "mean";
    const Attr *ignored = &node->attr[1], *smoothing = &node->attr[2];
    bool none = strcmp(reduction, "none") == 0, mean = !none && strcmp(reduction, "sum") != 0;
    int64_t length, begin, rows = field_elements(&in[1]), slices = out[0].hidden ? out[0].global.dim[0] : 1,
                           each = slices ? rows / slices : 0, count = 0;
    if (!rows_of(&in[0], &in[1], &length, &begin) || length != in[0].global.dim[in[0].global.ndim - 1])
        return field_fail(why, n, "not a loss of whole rows");
    if (!none) tensor_fill(&out[0], 0);
    for (int64_t row = 0; row < rows; row++) {
        const bool counts = !ignored->given || in[1].at[row] != fe_integer(ignored->i);
        const int64_t label = index_in(in[1].at[row], 0, length);
        Fe loss = counts ? row_loss(in[0].at + row * length, length, label, smoothing->given ? smoothing->f : 0) : 0,
           *to = &out[0].at[none ? row : row / each];
        *to = none ? loss : fe_add(*to, loss);
        count += counts;
        if (!mean || (row + 1) % each != 0) continue;
        *to = fe_mul(*to, fe_inverse(fe_integer(count))); /* of the rows of this slice that count */
        count = 0;
    }
    return true;
}

/* Rows of the table that are here: the others' indices give and take nothing. */
bool embedding_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    bool back = node->op == OP_embedding_grad;
    const FieldTensor *table = back ? &out[0] : &in[0], *rows = back ? &in[0] : &out[0], *index = &in[1];
    int h = table->hidden, last = rows->box.ndim - 1;
    int64_t width, begin, count = table->box.end[h] - table->box.begin[h], slices = h ? table->box.end[0] - table->box.begin[0] : 1;
    bool same = rows_of(rows, index, &width, &begin) && begin == table->box.begin[h + 1] && rows->box.end[last] == table->box.end[h + 1];
    if (!same || (h && (table->box.begin[0] != index->box.begin[0] || table->box.end[0] != index->box.end[0])))
        return field_fail(why, n, "boxes do not hold the same rows");
    if (back) tensor_fill(&out[0], 0);
    int64_t elements = field_elements(index), each = slices ? elements / slices : 0;
    for (int64_t i = 0; i < elements; i++) {
        int64_t row = index_in(index->at[i], table->box.begin[h], count);
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
    if (!rows_of(&out[0], &in[0], &length, &begin) || length != out[0].global.dim[out[0].global.ndim - 1])
        return field_fail(why, n, "not a whole row for each index");
    tensor_fill(&out[0], 0);
    for (int64_t i = 0, elements = field_elements(&in[0]); i < elements; i++) {
        int64_t at = index_in(in[0].at[i], 0, length);
        if (at >= 0) out[0].at[i * length + at] = 1;
    }
    return true;
}

/* first: the least index of a true; argmax: of the largest element. The axis of first may be cut. */
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
