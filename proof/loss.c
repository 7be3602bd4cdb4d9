/* loss: cross_entropy and its losses row by row: their letters, their values over the field, and the derivative. Exponentials and logarithms are their hashes. */
#include <string.h>

#include "proof/internal.h"
#include "proof/walk.h"

/* ---------------------------------------------------------------- letters */

/* Whether a tensor's dimensions are those of the logits x with the last one replaced by `last`; 0: without the last one. */
static bool has_rows(Plain own, Plain x, int64_t last) {
    const bool fits = own.ndim == x.ndim - (last == 0) && (last == 0 || own.dim[x.ndim - 1] == last);
    return fits && !memcmp(own.dim, x.dim, sizeof *x.dim * (size_t)(x.ndim - 1));
}

/* The operands and results are logits, labels, and numbers for each row; the largest and the sum have a last dimension of 1. The classes
 * have a letter only where no result needs all of them. */
bool class_loss_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const bool gradient = node->op == OP_cross_entropy_rows_grad;
    const Plain x = plain_of(graph, node->in[0]);
    if (x.ndim < 1) return field_fail(why, n, "logits without classes");
    int8_t letter[MAX_NDIM];
    for (int d = 0; d < x.ndim; d++)
        letter[d] = (int8_t)(d < x.ndim - 1 || gradient ? letter_new(letters, x.dim[d]) : -1);
    for (int part = 0; part < node->nin + node->nout; part++) {
        const bool is_in = part < node->nin;
        const int k = is_in ? part : part - node->nin;
        const bool wide = is_in ? k == 0 : gradient, kept = gradient ? k > 2 : !is_in && k > 0;
        const Plain own = plain_of(graph, is_in ? node->in[k] : node->out[k]);
        if (!has_rows(own, x, wide ? x.dim[x.ndim - 1] : kept)) return field_fail(why, n, "not a number for each row of logits");
        for (int d = 0; d < x.ndim - !wide; d++)
            (is_in ? letters->in[k] : letters->out[k])[own.hidden + d] = letter[d];
    }
    return true;
}

/* ---------------------------------------------------------------- values */

/* The shares in a row's loss of the mean over classes, and of the label's class. */
static void loss_shares(double smoothing, Fe *mean, Fe *own) {
    *mean = 0, *own = 1;
    (void)(fe_double(smoothing, mean) && fe_double(1 - smoothing, own)); /* from 0 to 1 */
}

/* Returns the sum of e(x - largest) over a row, e the hash in place of exp; *most: the largest. */
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
    if (!lookup_rows(&in[0], &in[1], &length, &begin) || length != in[0].global.dim[in[0].global.ndim - 1])
        return field_fail(why, n, "not a loss of whole rows");
    for (int64_t row = 0, rows = field_elements(&in[1]); row < rows; row++) {
        const Fe *x = in[0].at + row * length;
        out[0].at[row] = row_loss(x, length, lookup_index(in[1].at[row], 0, length), node->attr[0].f);
        out[2].at[row] = row_sum(x, length, &out[1].at[row]);
    }
    return true;
}

/* (e(x - most) / sum - (1 - s) where the label is - s / classes) dy */
bool loss_rows_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    int64_t length, begin;
    Fe share, own;
    bool same = lookup_rows(&in[0], &in[2], &length, &begin) && in[0].box.ndim == out[0].box.ndim;
    for (int d = 0; same && d < in[0].box.ndim; d++)
        same = in[0].box.begin[d] == out[0].box.begin[d] && in[0].box.end[d] == out[0].box.end[d];
    const int64_t rows = field_elements(&in[2]);
    if (!same || field_elements(&in[1]) != rows || field_elements(&in[3]) != rows || field_elements(&in[4]) != rows)
        return field_fail(why, n, "boxes do not hold the same rows");
    loss_shares(node->attr[0].f, &share, &own);
    share = fe_mul(share, fe_inverse(fe_integer(in[0].global.dim[in[0].global.ndim - 1])));
    for (int64_t row = 0; row < rows; row++) {
        const int64_t label = lookup_index(in[2].at[row], begin, length);
        const Fe inverse = fe_inverse(in[4].at[row]);
        for (int64_t i = row * length; i < (row + 1) * length; i++) {
            const Fe power = fe_mul(fe_hash(OP_exp, fe_sub(in[0].at[i], in[3].at[row])), inverse);
            const Fe taken = fe_add(share, i - row * length == label ? own : 0);
            out[0].at[i] = fe_mul(fe_sub(power, taken), in[1].at[row]);
        }
    }
    return true;
}

/* The loss has the derivative that its gradient gives. The largest and the sum have none: only the gradient uses them. */
bool loss_rows_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n) {
    int64_t length, begin;
    Fe share, own;
    if (!lookup_rows(&in[0], &in[1], &length, &begin)) return field_fail(why, n, "boxes do not hold the same rows");
    loss_shares(node->attr[0].f, &share, &own);
    share = fe_mul(share, fe_inverse(fe_integer(length)));
    for (int k = 0; k < node->nout; k++)
        tensor_fill(&dout[k], 0);
    for (int64_t row = 0, rows = field_elements(&in[1]); row < rows && din[0].at; row++) {
        const Fe *x = in[0].at + row * length, *dx = din[0].at + row * length;
        Fe most, inverse = fe_inverse(row_sum(x, length, &most));
        const int64_t label = lookup_index(in[1].at[row], 0, length);
        for (int64_t i = 0; i < length; i++) {
            const Fe power = fe_mul(fe_hash(OP_exp, fe_sub(x[i], most)), inverse);
            dout[0].at[row] = fe_add(dout[0].at[row], fe_mul(fe_sub(power, fe_add(share, i == label ? own : 0)), dx[i]));
        }
    }
    return true;
}

/* The composite operator, over the rows whose label is not the ignored one. */
bool cross_entropy_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    const char *reduction = node->attr[0].given && node->attr[0].text ? node->attr[0].text : "mean";
    const Attr *ignored = &node->attr[1], *smoothing = &node->attr[2];
    bool none = strcmp(reduction, "none") == 0, mean = !none && strcmp(reduction, "sum") != 0;
    int64_t length, begin, rows = field_elements(&in[1]), slices = out[0].hidden ? out[0].global.dim[0] : 1,
                           each = slices ? rows / slices : 0, count = 0;
    if (!lookup_rows(&in[0], &in[1], &length, &begin) || length != in[0].global.dim[in[0].global.ndim - 1])
        return field_fail(why, n, "not a loss of whole rows");
    if (!none) tensor_fill(&out[0], 0);
    for (int64_t row = 0; row < rows; row++) {
        const bool counts = !ignored->given || in[1].at[row] != fe_integer(ignored->i);
        const int64_t label = lookup_index(in[1].at[row], 0, length);
        Fe loss = counts ? row_loss(in[0].at + row * length, length, label, smoothing->given ? smoothing->f : 0) : 0,
           *to = &out[0].at[none ? row : row / each];
        *to = none ? loss : fe_add(*to, loss);
        count += counts;
        if (!mean || (row + 1) % each != 0) continue;
        *to = fe_mul(*to, fe_inverse(fe_integer(count))); /* the rows of this slice that count */
        count = 0;
    }
    return true;
}
