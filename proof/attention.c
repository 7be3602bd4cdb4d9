/* attention: attention, the operators that it is expanded into, and its gradient, over the field. A query q has the scores s_j = scale q k_j for the keys j that it may see. With m
 * the largest score and e the hash in place of exp: sum = sum of e(s_j - m), y = (sum of e(s_j - m) v_j) / sum. With p_j = e(s_j - m) / sum, t_j = dy v_j and g_j = p_j (t_j - dy
 * y) scale the gradients are dq = sum of g_j k_j, dk_j = sum over queries of g_j q, dv_j = sum over queries of p_j dy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proof/internal.h"
#include "proof/walk.h"

/* ---------------------------------------------------------------- letters */

/* The tensors of attention and of the operators that it is expanded into, one character each: Q and Y [lead.., share, m, width], S the same
 * with width 1, K and V [lead.., n, width], M a mask that broadcasts to [lead.., share, m, n]. Widths are needed whole, so they have no
 * letter; nor have the keys of attention itself, whose results are not sums over them. */
static const char *attention_tensors(OpCode op) {
    return op == OP_dot_product_attention ? "QKVMYSS"
           : op == OP_attention_grad      ? "QYKVYSSMQKV"
           : op == OP_attention_most      ? "QKMS"
                                          : "QKVSMSY";
}

bool attention_is_masked(const Node *node) {
    return strlen(attention_tensors(node->op)) == (size_t)(node->nin + node->nout);
}

typedef struct Attention {
    int lead, share;             /* dimensions; 0 or 1 */
    int8_t letter[MAX_NDIM + 1]; /* of the scores' dimensions; -1: needed whole */
    int64_t size[MAX_NDIM + 1];
    int64_t width[2]; /* of Q and K, of V and Y; 0: not seen yet */
} Attention;

static bool attention_mask(const Attention *a, Plain mask, int8_t *map) {
    for (int d = 0; d < mask.ndim; d++) {
        const int at = d + a->lead + a->share + 2 - mask.ndim;
        if (at < 0 || (mask.dim[d] != a->size[at] && mask.dim[d] != 1)) return false;
        if (mask.dim[d] == a->size[at]) map[mask.hidden + d] = a->letter[at];
    }
    return true;
}

static bool attention_tensor(Attention *a, char tensor, Plain own, int8_t *map) {
    const bool keys = tensor == 'K' || tensor == 'V';
    const int queries = a->lead + a->share, rows = keys ? a->lead : queries;
    if (tensor == 'M') return attention_mask(a, own, map);
    if (own.ndim != rows + 2) return false;
    for (int d = 0; d <= rows; d++) {
        const int at = keys && d == rows ? queries + 1 : d;
        if (own.dim[d] != a->size[at]) return false;
        map[own.hidden + d] = a->letter[at];
    }
    const int64_t last = own.dim[rows + 1];
    int64_t *width = &a->width[tensor == 'V' || tensor == 'Y'];
    if (tensor == 'S') return last == 1;
    if (*width == 0) *width = last;
    return *width == last;
}

bool attention_letters(const Graph *graph, const Node *node, Letters *letters, char *why, size_t n) {
    const char *tensors = attention_tensors(node->op);
    const bool masked = attention_is_masked(node);
    const Plain q = plain_of(graph, node->in[0]), k = plain_of(graph, node->in[node->op == OP_attention_grad ? 2 : 1]);
    Attention a = {.lead = k.ndim - 2, .share = q.ndim - k.ndim};
    if (a.lead < 0 || a.share < 0 || a.share > 1) return field_fail(why, n, "queries and keys of unlike dimensions");
    for (int d = 0; d < q.ndim; d++) {
        const bool keys = d == q.ndim - 1;
        a.size[d] = keys ? k.dim[a.lead] : q.dim[d];
        a.letter[d] = (int8_t)(keys && node->op == OP_dot_product_attention ? -1 : letter_new(letters, a.size[d]));
    }
    int part = 0;
    for (const char *at = tensors; *at; at++) {
        if (*at == 'M' && !masked) continue;
        const bool is_in = part < node->nin;
        const int own = is_in ? part : part - node->nin;
        part++;
        if (!attention_tensor(&a, *at, plain_of(graph, is_in ? node->in[own] : node->out[own]),
                              is_in ? letters->in[own] : letters->out[own]))
            return field_fail(why, n, "an operand or result that does not fit queries and keys");
    }
    return true;
}

/* ---------------------------------------------------------------- values */

typedef struct Scores {
    const FieldTensor *q, *k, *v, *mask; /* v, mask: NULL where there is none */
    int lead;                            /* dimensions of k before its keys, the hidden one too */
    int64_t group, m, n, d, e;           /* query heads per head of keys; in this box: queries, keys; widths */
    int64_t first_query, first_key;
    int ndim; /* of the scores, whose dimensions are q's without the last one, then the keys */
    int64_t mask_stride[MAX_NDIM + 1];
    bool causal;
    Fe scale;
    Fe *s, *ds; /* room for a row */
} Scores;

static int64_t held(const FieldTensor *t, int d) {
    return t->box.end[d] - t->box.begin[d];
}

/* Whether dimension d of a and f of b have the same size and hold the same part. */
static bool same_part(const FieldTensor *a, int d, const FieldTensor *b, int f) {
    return a->global.dim[d] == b->global.dim[f] && a->box.begin[d] == b->box.begin[f] && a->box.end[d] == b->box.end[f];
}

static bool whole_width(const FieldTensor *t) {
    const int last = t->global.ndim - 1;
    return t->box.begin[last] == 0 && t->box.end[last] == t->global.dim[last];
}

/* Strides of a mask along the scores' dimensions. */
static bool open_mask(Scores *c) {
    const FieldTensor *mask = c->mask;
    int64_t stride = 1;
    const int hidden = mask->hidden;
    for (int d = mask->global.ndim - 1; d >= 0; d--) {
        const bool is_hidden = hidden && d == 0;
        const int at = is_hidden ? 0 : d + c->ndim - mask->global.ndim;
        const bool keys = at == c->ndim - 1;
        const FieldTensor *like = keys ? c->k : c->q;
        const int own = keys ? c->lead : at;
        if (at < hidden && !is_hidden) return false;
        if (mask->global.dim[d] == like->global.dim[own]) {
            if (!same_part(mask, d, like, own)) return false;
            c->mask_stride[at] = stride;
        } else if (mask->global.dim[d] != 1 || held(mask, d) != 1) {
            return false;
        }
        stride *= held(mask, d);
    }
    return true;
}

static bool open_scores(const Node *node, const FieldTensor *in, Scores *c, char *why, size_t n) {
    const bool gradient = node->op == OP_attention_grad;
    const int keys = gradient ? 2 : 1, named = gradient                               ? 7
                                               : node->op == OP_dot_product_attention ? 3
                                               : node->op == OP_attention_most        ? 2
                                                                                      : 4;
    *c = (Scores){.q = &in[0], .k = &in[keys], .causal = node->attr[0].i != 0, .group = 1};
    if (node->op != OP_attention_most) c->v = &in[keys + 1];
    if (node->nin > named) c->mask = &in[named];
    c->lead = c->k->global.ndim - 2;
    c->ndim = c->q->global.ndim;
    const int share = c->ndim - c->k->global.ndim;
    bool fits = c->lead >= 0 && share >= 0 && share <= 1 && whole_width(c->q) && whole_width(c->k);
    for (int d = 0; fits && d < c->lead; d++)
        fits = same_part(c->q, d, c->k, d);
    if (!fits) return field_fail(why, n, "queries and keys hold different boxes");
    for (int d = 0; c->v && d <= c->lead; d++)
        fits = fits && c->v->global.ndim == c->k->global.ndim && same_part(c->v, d, c->k, d) && whole_width(c->v);
    if (!fits) return field_fail(why, n, "keys and values hold different boxes");
    if (node->op == OP_dot_product_attention && held(c->k, c->lead) != c->k->global.dim[c->lead])
        return field_fail(why, n, "keys that must be whole are split");
    for (int d = c->lead; d < c->lead + share; d++)
        c->group *= held(c->q, d);
    c->m = held(c->q, c->ndim - 2);
    c->n = held(c->k, c->lead);
    c->d = held(c->q, c->ndim - 1);
    c->e = c->v ? held(c->v, c->lead + 1) : 0;
    c->first_query = c->q->box.begin[c->ndim - 2];
    c->first_key = c->k->box.begin[c->lead];
    if (c->mask && !open_mask(c)) return field_fail(why, n, "the mask does not fit the scores");
    const double scale = node->attr[1].given ? node->attr[1].f : 1 / sqrt((double)c->q->global.dim[c->ndim - 1]);
    if (!fe_double(scale, &c->scale)) return field_fail(why, n, "scale is no number");
    c->s = malloc(sizeof *c->s * (size_t)(2 * c->n + 1));
    c->ds = c->s + (c->s ? c->n : 0);
    return c->s ? true : field_fail(why, n, "out of memory");
}

static int64_t rows_of(const Scores *c) {
    int64_t rows = 1;
    for (int d = 0; d < c->ndim - 1; d++)
        rows *= held(c->q, d);
    return rows;
}

/* The index of the first key of the head of keys that a row of queries uses. */
static int64_t keys_at(const Scores *c, int64_t row) {
    return row / (c->m * c->group) * c->n;
}

/* Whether the query of a row, row-major in its box, may see key j of this box. */
static bool sees(const Scores *c, int64_t row, int64_t j) {
    if (c->causal && c->first_key + j > c->first_query + row % c->m) return false;
    if (!c->mask) return true;
    int64_t at = j * c->mask_stride[c->ndim - 1], rest = row;
    for (int d = c->ndim - 2; d >= 0; d--) {
        at += rest % held(c->q, d) * c->mask_stride[d];
        rest /= held(c->q, d);
    }
    return c->mask->at[at] != 0;
}

static Fe score(const Scores *c, const Fe *q, const Fe *k, int64_t row, int64_t j) {
    return fe_mul(c->scale, fe_dot(q + row * c->d, k + (keys_at(c, row) + j) * c->d, c->d));
}

/* Sets c->s to the scores of a row. Returns the largest of those that the row sees; the lowest number where it sees none. */
static Fe row_scores(const Scores *c, int64_t row) {
    Fe most = FIELD_P / 2 + 1;
    for (int64_t j = 0; j < c->n; j++) {
        c->s[j] = score(c, c->q->at, c->k->at, row, j);
        if (sees(c, row, j) && fe_signed(c->s[j]) > fe_signed(most)) most = c->s[j];
    }
    return most;
}

/* Sets c->s to e(s - most), or 0 for keys that the row does not see. Returns the sum. */
static Fe row_powers(const Scores *c, int64_t row, Fe most) {
    Fe sum = 0;
    for (int64_t j = 0; j < c->n; j++) {
        c->s[j] = sees(c, row, j) ? fe_hash(OP_exp, fe_sub(c->s[j], most)) : 0;
        sum = fe_add(sum, c->s[j]);
    }
    return sum;
}

/* to += by * factor of each key times its row of `rows`, which has `width` elements. */
static void add_rows(const Scores *c, int64_t row, const Fe *factor, const Fe *rows, int64_t width, Fe by, Fe *to) {
    const Fe *at = rows + keys_at(c, row) * width;
    for (int64_t j = 0; j < c->n; j++) {
        const Fe f = fe_mul(factor[j], by);
        for (int64_t x = 0; x < width; x++)
            to[x] = fe_add(to[x], fe_mul(f, at[j * width + x]));
    }
}

/* The results by meaning; NULL: the operator does not have it. */
typedef struct Results {
    Fe *y, *most, *sum; /* y: for attention_sums the product before division */
} Results;

static Results results_of(const Node *node, const FieldTensor *out) {
    if (node->op == OP_attention_most) return (Results){.most = out[0].at};
    if (node->op == OP_attention_sums) return (Results){.sum = out[0].at, .y = out[1].at};
    return (Results){out[0].at, out[1].at, out[2].at};
}

bool attention_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Scores c;
    if (!open_scores(node, in, &c, why, n)) return false;
    const Results to = results_of(node, out);
    for (int k = 0; k < node->nout; k++)
        tensor_fill(&out[k], 0);
    for (int64_t row = 0, rows = rows_of(&c); row < rows; row++) {
        Fe most = row_scores(&c, row);
        if (node->op == OP_attention_sums) most = in[3].at[row];
        if (to.most) to.most[row] = most;
        if (!to.sum) continue;
        const Fe sum = to.sum[row] = row_powers(&c, row, most);
        add_rows(&c, row, c.s, c.v->at, c.e, node->op == OP_dot_product_attention ? fe_inverse(sum) : 1, to.y + row * c.e);
    }
    free(c.s);
    return true;
}

bool attention_grad_kernel(const Node *node, const FieldTensor *in, FieldTensor *out, char *why, size_t n) {
    Scores c;
    if (!open_scores(node, in, &c, why, n)) return false;
    for (int k = 0; k < node->nout; k++)
        tensor_fill(&out[k], 0);
    for (int64_t row = 0, rows = rows_of(&c); row < rows; row++) {
        const Fe *q = in[0].at + row * c.d, *dy = in[1].at + row * c.e, inverse = fe_inverse(in[6].at[row]);
        const Fe along = fe_dot(dy, in[4].at + row * c.e, c.e);
        row_scores(&c, row);
        row_powers(&c, row, in[5].at[row]);
        for (int64_t j = 0; j < c.n; j++) {
            const int64_t key = keys_at(&c, row) + j;
            const Fe p = fe_mul(c.s[j], inverse), t = fe_dot(dy, c.v->at + key * c.e, c.e);
            c.ds[j] = fe_mul(fe_mul(p, fe_sub(t, along)), c.scale);
            for (int64_t x = 0; x < c.d; x++)
                out[1].at[key * c.d + x] = fe_add(out[1].at[key * c.d + x], fe_mul(c.ds[j], q[x]));
            for (int64_t x = 0; x < c.e; x++)
                out[2].at[key * c.e + x] = fe_add(out[2].at[key * c.e + x], fe_mul(p, dy[x]));
        }
        add_rows(&c, row, c.ds, c.k->at, c.d, 1, out[0].at + row * c.d);
    }
    free(c.s);
    return true;
}

double attention_work(const Node *node, const FieldTensor *in) {
    const FieldTensor *q = &in[0], *k = &in[node->op == OP_attention_grad ? 2 : 1];
    const double scores = (double)field_elements(q) * (double)held(k, k->global.ndim - 2);
    return scores * (node->op == OP_attention_grad ? 5 : node->op == OP_attention_most ? 1 : 2);
}

/* ---------------------------------------------------------------- tangent */

/* Sets c->ds to the derivatives of a row's scores c->s. Returns the derivative of the largest score: the mean over the scores equal to
 * it. */
static Fe row_moves(const Scores *c, int64_t row, const FieldTensor *dq, const FieldTensor *dk, Fe most) {
    Fe moved = 0, count = 0;
    for (int64_t j = 0; j < c->n; j++) {
        c->ds[j] = 0;
        if (dq->at) c->ds[j] = score(c, dq->at, c->k->at, row, j);
        if (dk->at) c->ds[j] = fe_add(c->ds[j], score(c, c->q->at, dk->at, row, j));
        if (!sees(c, row, j) || c->s[j] != most) continue;
        moved = fe_add(moved, c->ds[j]);
        count = fe_add(count, 1);
    }
    return fe_mul(moved, fe_inverse(count));
}

/* With w_j = e(s_j - m): dw_j = w_j (ds_j - dm); the sum changes by these, the product by these times v_j and by w_j dv_j; their quotient y
 * by (dproduct - y dsum) / sum. */
bool attention_tangent(const Node *node, const FieldTensor *in, const FieldTensor *din, FieldTensor *dout, char *why, size_t n) {
    Scores c;
    if (!open_scores(node, in, &c, why, n)) return false;
    const Results to = results_of(node, dout);
    const bool whole = node->op == OP_dot_product_attention;
    for (int k = 0; k < node->nout; k++)
        tensor_fill(&dout[k], 0);
    for (int64_t row = 0, rows = rows_of(&c); row < rows; row++) {
        Fe most = row_scores(&c, row), moved = row_moves(&c, row, &din[0], &din[1], most);
        if (node->op == OP_attention_sums) {
            most = in[3].at[row];
            moved = din[3].at ? din[3].at[row] : 0;
        }
        if (to.most) to.most[row] = moved;
        if (!to.sum) continue;
        const Fe inverse = whole ? fe_inverse(row_powers(&c, row, most)) : (row_powers(&c, row, most), 1);
        Fe dsum = 0;
        for (int64_t j = 0; j < c.n; j++) {
            c.ds[j] = fe_mul(c.s[j], fe_sub(c.ds[j], moved));
            dsum = fe_add(dsum, c.ds[j]);
        }
        to.sum[row] = dsum;
        Fe *dy = to.y + row * c.e;
        add_rows(&c, row, c.ds, c.v->at, c.e, inverse, dy);
        if (din[2].at) add_rows(&c, row, c.s, din[2].at, c.e, inverse, dy);
        if (whole) add_rows(&c, row, c.s, c.v->at, c.e, fe_sub(0, fe_mul(dsum, fe_mul(inverse, inverse))), dy);
    }
    free(c.s);
    return true;
}
