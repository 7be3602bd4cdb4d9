/* plainattention: plain kernels of attention, of the operators it is decomposed into, and of its gradient. A score is computed wherever it is needed. */
#include <math.h>

#include "runtime/cpu/reference.h"

/* The operands by name; mask: NULL where there is none. Boxes are row-major, so a query is one number, counted row-major over all of q's dimensions but the last. */
typedef struct Scores {
    const Operand *q, *k, *v, *mask;
    int64_t group, m, n, d, e;
    bool causal;
    double scale;
} Scores;

static Scores scores_of(const KernelCall *call) {
    const int keys = call->op == OP_attention_grad ? 2 : 1;
    const int named = call->op == OP_attention_grad ? 7 : call->op == OP_dot_product_attention ? 3 : call->op == OP_attention_most ? 2 : 4;
    const Operand *q = &call->in[0], *k = &call->in[keys];
    const int queries = q->local.ndim - 2, lead = k->local.ndim - 2;
    Scores c = {.q = q,
                .k = k,
                .v = call->op == OP_attention_most ? k : k + 1,
                .mask = call->nin > named ? &call->in[named] : NULL,
                .group = queries > lead ? q->local.dim[lead] : 1,
                .m = q->local.dim[queries],
                .n = k->local.dim[lead],
                .d = q->local.dim[queries + 1],
                .causal = call->attr[0].i != 0};
    c.e = c.v->local.dim[lead + 1];
    c.scale = call->attr[1].given ? call->attr[1].f : 1 / sqrt((double)c.d);
    return c;
}

static int64_t key_of(const Scores *c, int64_t query, int64_t j) {
    return query / (c->m * c->group) * c->n + j;
}

static bool sees(const Scores *c, int64_t query, int64_t j) {
    const int queries = c->q->local.ndim - 2, keys = c->k->local.ndim - 2;
    if (c->causal && c->k->box.begin[keys] + j > c->q->box.begin[queries] + query % c->m) return false;
    if (!c->mask) return true;
    Shape scores = c->q->local;
    int64_t index[MAX_NDIM];
    scores.dim[queries + 1] = c->n;
    index_of(&scores, query * c->n + j, index);
    return element_get(c->mask, position_broadcast(c->mask, &scores, index)) != 0;
}

static double score(const Scores *c, int64_t query, int64_t j) {
    double sum = 0;
    for (int64_t x = 0; x < c->d; x++)
        sum += element_get(c->q, query * c->d + x) * element_get(c->k, key_of(c, query, j) * c->d + x);
    return c->scale * sum;
}

static double most_of(const Scores *c, int64_t query) {
    double most = -INFINITY;
    for (int64_t j = 0; j < c->n; j++)
        if (sees(c, query, j) && !(score(c, query, j) <= most)) most = score(c, query, j);
    return most;
}

static double power(const Scores *c, int64_t query, int64_t j, double most) {
    return sees(c, query, j) ? exp(score(c, query, j) - most) : 0;
}

static double sum_of(const Scores *c, int64_t query, double most) {
    double sum = 0;
    for (int64_t j = 0; j < c->n; j++)
        sum += power(c, query, j, most);
    return sum;
}

/* Element x of a query's weighted sum of values. */
static double product_of(const Scores *c, int64_t query, double most, int64_t x) {
    double sum = 0;
    for (int64_t j = 0; j < c->n; j++)
        if (sees(c, query, j)) sum += power(c, query, j, most) * element_get(c->v, key_of(c, query, j) * c->e + x);
    return sum;
}

bool reference_dot_product_attention(const KernelCall *call, Error *error) {
    const Scores c = scores_of(call);
    (void)error;
    for (int64_t query = 0, queries = shape_elements(&call->out[1].local); query < queries; query++) {
        const double most = most_of(&c, query), sum = sum_of(&c, query, most);
        for (int64_t x = 0; x < c.e; x++)
            element_set(&call->out[0], query * c.e + x, sum == 0 ? 0 : product_of(&c, query, most, x) / sum);
        element_set(&call->out[1], query, most);
        element_set(&call->out[2], query, sum);
    }
    return true;
}

bool reference_attention_most(const KernelCall *call, Error *error) {
    const Scores c = scores_of(call);
    (void)error;
    for (int64_t query = 0, queries = shape_elements(&call->out[0].local); query < queries; query++)
        element_set(&call->out[0], query, most_of(&c, query));
    return true;
}

bool reference_attention_sums(const KernelCall *call, Error *error) {
    const Scores c = scores_of(call);
    (void)error;
    for (int64_t query = 0, queries = shape_elements(&call->out[0].local); query < queries; query++) {
        const double most = element_get(&call->in[3], query);
        element_set(&call->out[0], query, sum_of(&c, query, most));
        for (int64_t x = 0; x < c.e; x++)
            element_set(&call->out[1], query * c.e + x, product_of(&c, query, most, x));
    }
    return true;
}

static double dot(const Operand *a, int64_t i, const Operand *b, int64_t j, int64_t width) {
    double sum = 0;
    for (int64_t x = 0; x < width; x++)
        sum += element_get(a, i * width + x) * element_get(b, j * width + x);
    return sum;
}

bool reference_attention_grad(const KernelCall *call, Error *error) {
    const Scores c = scores_of(call);
    const Operand *dy = &call->in[1], *y = &call->in[4], *most = &call->in[5], *sum = &call->in[6];
    (void)error;
    for (int o = 0; o < 3; o++)
        for (int64_t i = 0; i < shape_elements(&call->out[o].local); i++)
            element_set(&call->out[o], i, 0);
#define ADD(o, index, term) element_set(&call->out[o], index, element_get(&call->out[o], index) + (term))
    for (int64_t query = 0, queries = shape_elements(&most->local); query < queries; query++)
        for (int64_t j = 0; j < c.n; j++) {
            if (!sees(&c, query, j)) continue;
            const int64_t key = key_of(&c, query, j);
            const double p = power(&c, query, j, element_get(most, query)) / element_get(sum, query);
            const double g = p * (dot(dy, query, c.v, key, c.e) - dot(dy, query, y, query, c.e)) * c.scale;
            for (int64_t x = 0; x < c.d; x++) {
                ADD(0, query * c.d + x, g * element_get(c.k, key * c.d + x));
                ADD(1, key * c.d + x, g * element_get(c.q, query * c.d + x));
            }
            for (int64_t x = 0; x < c.e; x++)
                ADD(2, key * c.e + x, p * element_get(dy, query * c.e + x));
        }
#undef ADD
    return true;
}
