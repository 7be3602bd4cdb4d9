/* Convolutions and pools of the simulation: each element of y is of a window of elements of x, and nothing outside a plane is any number. */
#include "tests/proof/simulate_numbers.h"

static int64_t of_two(const Node *node, const char *name, int d, int64_t otherwise) {
    int index = op_attr(node->op, name);
    return index >= 0 && node->attr[index].given ? node->attr[index].ints[node->attr[index].n > 1 ? d : 0] : otherwise;
}

/* Where tap k of window o lies along dimension d; -1: in the padding. All counted in the whole tensor. */
static int64_t tap_of(const Node *node, int d, int64_t taps, int64_t o, int64_t k, int64_t size) {
    const bool pool = op_attr(node->op, "kernel_size") >= 0;
    int64_t at = o * of_two(node, "stride", d, pool ? taps : 1) + k * of_two(node, "dilation", d, 1) - of_two(node, "padding", d, 0);
    return at >= 0 && at < size ? at : -1;
}

/* Dimension d of a and e of b hold the same of what they count, of which an index of each is so many. */
static bool same_part(const SimTensor *a, int d, const SimTensor *b, int e, int64_t each_a, int64_t each_b) {
    return a->begin[d] * each_b == b->begin[e] * each_a && a->local.dim[d] * each_b == b->local.dim[e] * each_a;
}

static bool convolution(const Node *node, const SimTensor *x, const SimTensor *w, const SimTensor *y, const SimTensor *out, char *why,
                        size_t n) {
    const int groups_at = op_attr(node->op, "groups");
    const int64_t groups = node->attr[groups_at].given ? node->attr[groups_at].i : 1, in = w->global.dim[1], of = w->global.dim[0] / groups;
    bool fits = same_part(x, 0, y, 0, 1, 1) && same_part(w, 0, y, 1, 1, 1) &&
                (groups == 1 ? same_part(x, 1, w, 1, 1, 1) : same_part(x, 1, w, 0, in, of) && w->begin[0] % of == 0 && is_whole(w, 1));
    for (int d = 2; d < 4; d++)
        fits = fits && is_whole(w, d);
    if (!fits) return fault(why, n, "the tensors of a convolution hold other parts");
    for (int64_t e = 0, count = shape_elements(&out->local); e < count; e++)
        out->at[e] = 0;
    const int64_t *xs = x->local.dim, *ws = w->local.dim, *ys = y->local.dim;
    for (int64_t e = 0, count = shape_elements(&y->local); e < count; e++)
        for (int64_t k = 0; k < ws[1] * ws[2] * ws[3]; k++) {
            const int64_t image = e / (ys[1] * ys[2] * ys[3]), o = e / (ys[2] * ys[3]) % ys[1], c = k / (ws[2] * ws[3]);
            int64_t row = tap_of(node, 0, ws[2], y->begin[2] + e / ys[3] % ys[2], k / ws[3] % ws[2], x->global.dim[2]),
                    column = tap_of(node, 1, ws[3], y->begin[3] + e % ys[3], k % ws[3], x->global.dim[3]);
            if (row < 0 || column < 0) continue;
            row -= x->begin[2], column -= x->begin[3];
            if (row < 0 || row >= xs[2] || column < 0 || column >= xs[3]) {
                if (out == x) continue; /* another rank's */
                return fault(why, n, "a convolution sees what its operand has not");
            }
            uint32_t *of_x = &x->at[((image * xs[1] + (groups == 1 ? 0 : o / of * in) + c) * xs[2] + row) * xs[3] + column],
                     *of_w = &w->at[o * ws[1] * ws[2] * ws[3] + k], *of_y = &y->at[e];
            uint32_t *sum = out == x ? of_x : out == w ? of_w : of_y;
            *sum = plus(*sum, times(out == x ? *of_w : *of_x, out == y ? *of_w : *of_y));
        }
    return true;
}

/* Element (row, column) of the whole tensor's planes in plane number `plane` of a box; NULL: it is not there. */
static uint32_t *element_of(const SimTensor *t, int64_t plane, int64_t row, int64_t column) {
    const int nd = t->local.ndim;
    const int64_t height = t->local.dim[nd - 2], width = t->local.dim[nd - 1];
    row -= t->begin[nd - 2], column -= t->begin[nd - 1];
    if (row < 0 || row >= height || column < 0 || column >= width) return NULL;
    return &t->at[(plane * height + row) * width + column];
}

/* Maxima and means of windows, and back. of: what the maximum is looked for in. */
static bool pool(const Node *node, const SimTensor *of, const SimTensor *x, const SimTensor *y, bool back, char *why, size_t n) {
    enum { MOST_SEEN = 256 };
    const bool max = node->op == OP_max_pool || node->op == OP_max_pool_grad;
    const int nd = x->local.ndim, include = op_attr(node->op, "count_include_pad"), divisor = op_attr(node->op, "divisor_override");
    const int64_t down = of_two(node, "kernel_size", 0, 1), across = of_two(node, "kernel_size", 1, 1);
    bool fits = down * across <= MOST_SEEN;
    for (int d = 0; d < nd - 2; d++)
        fits = fits && same_part(x, d, y, d, 1, 1) && same_part(of, d, y, d, 1, 1);
    if (!fits) return fault(why, n, "the tensors of a pool hold other planes");
    for (int64_t e = 0, count = shape_elements(back ? &x->local : &y->local); e < count; e++)
        (back ? x : y)->at[e] = 0;
    const int64_t rows_of = y->local.dim[nd - 2], columns = y->local.dim[nd - 1];
    for (int64_t e = 0, count = shape_elements(&y->local); e < count; e++) {
        int64_t row[MOST_SEEN], column[MOST_SEEN], nseen = 0, most = 0;
        const int64_t plane = e / (columns * rows_of);
        bool poison = false;
        for (int64_t k = 0; k < down * across; k++) {
            row[nseen] = tap_of(node, 0, down, y->begin[nd - 2] + e / columns % rows_of, k / across, x->global.dim[nd - 2]);
            column[nseen] = tap_of(node, 1, across, y->begin[nd - 1] + e % columns, k % across, x->global.dim[nd - 1]);
            if (row[nseen] < 0 || column[nseen] < 0) continue;
            if (max || !back) {
                const uint32_t *at = element_of(of, plane, row[nseen], column[nseen]),
                               *best = element_of(of, plane, row[most], column[most]);
                if (!at) return fault(why, n, "a pool sees what its operand has not");
                poison = poison || *at == SIM_POISON;
                if (*at > *best) most = nseen;
            }
            nseen++;
        }
        const bool all = include < 0 || !node->attr[include].given || node->attr[include].i;
        const bool given = divisor >= 0 && node->attr[divisor].given;
        const uint32_t share = max ? 1 : inverse(integer(given ? node->attr[divisor].i : all ? down * across : nseen));
        for (int64_t k = max ? most : 0; k < (max ? most + 1 : nseen); k++) {
            uint32_t *to = back ? element_of(x, plane, row[k], column[k]) : &y->at[e];
            if (!to) continue; /* another rank's */
            const uint32_t from = back ? y->at[e] : *element_of(of, plane, row[k], column[k]);
            *to = max && poison ? SIM_POISON : plus(*to, times(from, share));
        }
    }
    return true;
}

bool simulate_windows(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    switch ((int)node->op) {
    case OP_conv2d:
        return convolution(node, &in[0], &in[1], out, out, why, n);
    case OP_conv2d_grad_x:
        return convolution(node, out, &in[1], &in[0], out, why, n);
    case OP_conv2d_grad_w:
        return convolution(node, &in[0], out, &in[1], out, why, n);
    case OP_max_pool_grad:
        return pool(node, &in[0], out, &in[1], true, why, n);
    case OP_avg_pool_grad:
        return pool(node, out, out, &in[0], true, why, n);
    default:
        return pool(node, &in[0], &in[0], out, false, why, n);
    }
}
