/* attention, what it is taken apart into, and its gradient, and rope, in plans that are simulated: loops over queries and keys. */
#include "tests/proof/simulate_numbers.h"

/* Queries and keys by their numbers in their boxes, the mask's element by its index. */
typedef struct Scores {
    const SimTensor *q, *k, *v, *mask;
    int64_t queries, group, m, n, d, e; /* queries of all heads, those that share a head of keys, of one head; keys of one; widths */
    const Attr *attr;
} Scores;

static bool scores_open(const Node *node, const SimTensor *in, Scores *c) {
    const bool gradient = node->op == OP_attention_grad;
    const int keys = gradient ? 2 : 1, named = gradient                               ? 7
                                               : node->op == OP_dot_product_attention ? 3
                                               : node->op == OP_attention_most        ? 2
                                                                                      : 4;
    *c = (Scores){.q = &in[0], .k = &in[keys], .attr = node->attr, .group = 1};
    const int nq = c->q->local.ndim, nk = c->k->local.ndim;
    c->v = node->op == OP_attention_most ? c->k : c->k + 1;
    c->mask = node->nin > named ? &in[named] : NULL;
    c->m = c->q->local.dim[nq - 2];
    c->n = c->k->local.dim[nk - 2];
    c->d = c->q->local.dim[nq - 1];
    c->e = c->v->local.dim[nk - 1];
    c->queries = c->m;
    bool fits = is_whole(c->q, nq - 1) && is_whole(c->k, nk - 1) && is_whole(c->v, nk - 1) && c->v->local.dim[nk - 2] == c->n;
    for (int d = 0; d < nq - 2; d++) {
        c->queries *= c->q->local.dim[d];
        if (d >= nk - 2) c->group *= c->q->local.dim[d];
        if (d < nk - 2) fits = fits && c->q->local.dim[d] == c->k->local.dim[d] && c->q->local.dim[d] == c->v->local.dim[d];
    }
    return fits && (node->op != OP_dot_product_attention || is_whole(c->k, nk - 2));
}

static int64_t key_number(const Scores *c, int64_t query, int64_t j) {
    return query / (c->m * c->group) * c->n + j;
}

/* 1: the query sees the key, 0: it does not, or poison. */
static uint32_t sees(const Scores *c, int64_t query, int64_t j) {
    const int nq = c->q->local.ndim, nk = c->k->local.ndim;
    if (c->attr[0].i && c->k->begin[nk - 2] + j > c->q->begin[nq - 2] + query % c->m) return 0;
    if (!c->mask) return 1;
    int64_t at = 0, step = 1, rest = query;
    for (int d = c->mask->local.ndim - 1, s = nq - 1; d >= 0; d--, s--) {
        const int64_t size = s == nq - 1 ? c->n : c->q->local.dim[s], index = s == nq - 1 ? j : rest % size;
        if (s < nq - 1) rest /= size;
        if (c->mask->global.dim[d] != 1) at += index * step;
        step *= c->mask->local.dim[d];
    }
    return c->mask->at[at];
}

static uint32_t dot(const SimTensor *a, int64_t i, const SimTensor *b, int64_t j, int64_t width) {
    uint32_t sum = 0;
    for (int64_t x = 0; x < width; x++)
        sum = plus(sum, times(a->at[i * width + x], b->at[j * width + x]));
    return sum;
}

static uint32_t score(const Scores *c, int64_t query, int64_t j) {
    const uint32_t scale = c->attr[1].given ? simulate_number(c->attr[1].f) : 3;
    return times(scale, dot(c->q, query, c->k, key_number(c, query, j), c->d));
}

static uint32_t weight(const Scores *c, int64_t query, int64_t j, uint32_t most) {
    return times(sees(c, query, j), any_function(OP_exp, plus(score(c, query, j), negative(most))));
}

static void attention_forward(const Node *node, const Scores *c, const SimTensor *in, SimTensor *out) {
    const bool whole = node->op == OP_dot_product_attention, sums = node->op == OP_attention_sums;
    SimTensor *most_of = sums ? NULL : &out[whole], *sum_of = whole ? &out[2] : sums ? &out[0] : NULL, *y = whole ? &out[0] : &out[1];
    for (int64_t query = 0; query < c->queries; query++) {
        uint32_t most = sums ? in[3].at[query] : 0, sum = 0;
        for (int64_t j = 0; j < c->n && !sums; j++) {
            const uint32_t s = times(sees(c, query, j), score(c, query, j));
            most = s == SIM_POISON || most == SIM_POISON ? SIM_POISON : s > most ? s : most;
        }
        if (most_of) most_of->at[query] = most;
        if (!sum_of) continue;
        for (int64_t j = 0; j < c->n; j++)
            sum = plus(sum, weight(c, query, j, most));
        sum_of->at[query] = sum;
        for (int64_t x = 0; x < c->e; x++) {
            uint32_t product = 0;
            for (int64_t j = 0; j < c->n; j++)
                product = plus(product, times(weight(c, query, j, most), c->v->at[key_number(c, query, j) * c->e + x]));
            y->at[query * c->e + x] = whole ? times(product, inverse(sum)) : product;
        }
    }
}

static void attention_gradient(const Scores *c, const SimTensor *in, SimTensor *out) {
    for (int o = 0; o < 3; o++)
        for (int64_t e = 0; e < shape_elements(&out[o].local); e++)
            out[o].at[e] = 0;
    for (int64_t query = 0; query < c->queries; query++)
        for (int64_t j = 0; j < c->n; j++) {
            const int64_t key = key_number(c, query, j);
            const uint32_t p = times(weight(c, query, j, in[5].at[query]), inverse(in[6].at[query]));
            const uint32_t moved = plus(dot(&in[1], query, c->v, key, c->e), negative(dot(&in[1], query, &in[4], query, c->e)));
            const uint32_t slope = times(times(p, moved), 5);
            for (int64_t x = 0; x < c->d; x++) {
                out[0].at[query * c->d + x] = plus(out[0].at[query * c->d + x], times(slope, c->k->at[key * c->d + x]));
                out[1].at[key * c->d + x] = plus(out[1].at[key * c->d + x], times(slope, c->q->at[query * c->d + x]));
            }
            for (int64_t x = 0; x < c->e; x++)
                out[2].at[key * c->e + x] = plus(out[2].at[key * c->e + x], times(p, in[1].at[query * c->e + x]));
        }
}

bool simulate_attention(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    Scores c;
    if (!scores_open(node, in, &c)) return fault(why, n, "queries, keys and values that do not fit");
    if (node->op == OP_attention_grad)
        attention_gradient(&c, in, out);
    else
        attention_forward(node, &c, in, out);
    return true;
}

/* Pairs of a place and their numbers turned by two functions of both. */
bool simulate_rope(const Node *node, const SimTensor *in, SimTensor *out, char *why, size_t n) {
    const int last = in->local.ndim - 1;
    const int64_t width = in->local.dim[last], half = width / 2;
    if (!is_whole(in, last) || !shape_equal(&in->local, &out->local)) return fault(why, n, "a row that is not whole");
    for (int64_t e = 0; e < shape_elements(&in->local); e++) {
        const int64_t k = e % width, place = in->begin[last - 1] + e / width % in->local.dim[last - 1];
        const uint32_t angle = integer(place * 1000 + k % half), turn = any_function(OP_cos, angle), side = any_function(OP_sin, angle);
        const bool back = (k < half) != (node->attr[1].i != 0);
        const uint32_t other = times(in->at[k < half ? e + half : e - half], side);
        out->at[e] = plus(times(in->at[e], turn), back ? negative(other) : other);
    }
    return true;
}
