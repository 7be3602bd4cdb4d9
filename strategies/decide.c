/* decide: which of an operator's candidates it takes. All that is compared is known by number: candidates and their layouts are made once for operators that are
 * alike (alike.c), conversions counted once per pair of layouts. */
#include <assert.h>

#include "strategies/propagator.h"

/* One conversion that a candidate of a node causes: between column `column` of its layouts and a decided neighbour's layout. */
typedef struct Term {
    int column, value, other;
    bool towards; /* from other to the node; else from the node to other */
} Term;

typedef struct Terms {
    int n;
    Term *at;
} Terms;

static Terms terms_of(Propagator *p, const Node *node) {
    int room = node->nin;
    for (int o = 0; o < node->nout; o++)
        room += p->first_user[node->out[o] + 1] - p->first_user[node->out[o]];
    Terms terms = {.at = arena_alloc(&p->arena, (size_t)room * sizeof *terms.at + 1)};
    for (int i = 0; i < node->nin; i++)
        if (p->value_layout[node->in[i]] >= 0)
            terms.at[terms.n++] = (Term){.column = i, .value = node->in[i], .other = p->value_layout[node->in[i]], .towards = true};
    for (int o = 0; o < node->nout; o++) {
        int before = terms.n;
        for (int k = p->first_user[node->out[o]]; k < p->first_user[node->out[o] + 1]; k++) {
            int other = p->need[p->user[k]][p->user_operand[k]];
            bool known = other < 0;
            for (int t = before; t < terms.n && !known; t++)
                known = terms.at[t].other == other;
            if (!known) terms.at[terms.n++] = (Term){.column = node->nin + o, .value = node->out[o], .other = other};
        }
    }
    return terms;
}

/* Bytes that the conversions of one candidate let be received; beyond `limit` any number above it. */
static int64_t terms_bytes(Propagator *p, const Terms *terms, const int *layout, int64_t limit) {
    int64_t bytes = 0;
    for (int t = 0; t < terms->n && bytes <= limit; t++) {
        const Term *term = &terms->at[t];
        bool repeated = false; /* one value asked for twice in the same layout is converted once */
        for (int u = 0; u < t && term->towards && !repeated; u++)
            repeated = terms->at[u].towards && terms->at[u].value == term->value && layout[terms->at[u].column] == layout[term->column];
        if (repeated) continue;
        int own = layout[term->column];
        int64_t elements = term->towards ? cost_convert(p->memo, term->other, own) : cost_convert(p->memo, own, term->other);
        bytes += elements * dtype_bytes[value_type(p, term->value)->dtype];
    }
    return bytes;
}

void decided(Propagator *p, int id) {
    const Node *node = &p->graph->nodes.at[id];
    for (int i = 0; i < node->nin; i++) {
        Layout layout;
        const Shape *shape = &value_type(p, node->in[i])->shape;
        strategy_in_layout(node, node->strategy, i, shape->ndim, &layout);
        p->need[id][i] = cost_layout(p->memo, &layout, shape);
    }
    for (int o = 0; o < node->nout; o++) {
        Layout layout;
        const Shape *shape = &value_type(p, node->out[o])->shape;
        strategy_out_layout(node, node->strategy, o, shape->ndim, &layout);
        if (o == 0 && p->result->out_layout[id] && !p->left_out[id]) layout = *p->result->out_layout[id];
        p->value_layout[node->out[o]] = cost_layout(p->memo, &layout, shape);
    }
}

static Strategy *strategy_new(Propagator *p, const int32_t *splits, int nfactors) {
    Strategy *strategy = arena_alloc(p->graph->arena, sizeof *strategy);
    strategy_from_splits(splits, nfactors, p->graph->nranks, strategy);
    return strategy;
}

/* A strategy that splits one factor, found again by what it is made of. */
struct Alone {
    int nfactors, factor;
    int32_t split;
    const Strategy *strategy;
    struct Alone *next;
};

static const Strategy *alone(Propagator *p, int nfactors, int factor, int32_t split) {
    for (const struct Alone *at = p->alone; at; at = at->next)
        if (at->nfactors == nfactors && at->factor == factor && at->split == split) return at->strategy;
    int32_t splits[MAX_FACTORS];
    for (int f = 0; f < MAX_FACTORS; f++)
        splits[f] = f == factor ? split : 1;
    struct Alone *made = arena_alloc(&p->arena, sizeof *made);
    *made = (struct Alone){nfactors, factor, split, strategy_new(p, splits, nfactors), p->alone};
    return (p->alone = made)->strategy;
}

void decide_factor(Propagator *p, int id, int factor, StrategyFrom from) {
    Node *node = &p->graph->nodes.at[id];
    int32_t split = factor < 0 ? 1 : split_largest(&node->rule->factor[factor], p->graph->nranks, p->graph->settings.strict_divide);
    node->strategy = alone(p, node->rule->nfactors, split > 1 ? factor : -1, split);
    node->from = split > 1 ? from : STRATEGY_WHOLE;
}

/* One decision: the node, its candidates, the conversions that each would cause. */
typedef struct Question {
    const Node *node;
    Alike *alike;
    Terms terms;
    int batch; /* among candidates that tie, the one that splits this factor most is taken; -1: none */
} Question;

static Question question_of(Propagator *p, const Node *node) {
    return (Question){.node = node,
                      .alike = alike_of(p, node),
                      .terms = terms_of(p, node),
                      .batch = p->batch_first ? batch_factor(p->graph, node, p->batch) : -1};
}

/* The key in which candidate a, with these bytes, is better than b; negative: in which it is worse. */
static int compare(Propagator *p, const Question *question, int a, int64_t a_bytes, int b, int64_t b_bytes) {
    Alike *alike = question->alike;
    const Node *node = question->node;
    if (a_bytes != b_bytes) return a_bytes < b_bytes ? BY_BYTES : -BY_BYTES;
    if (alike->flops[a] != alike->flops[b]) return alike->flops[a] < alike->flops[b] ? BY_FLOPS : -BY_FLOPS;
    int64_t mine = alike_completion(p, alike, node, a), other = alike_completion(p, alike, node, b);
    if (mine != other) return mine < other ? BY_SUM : -BY_SUM;
    const int32_t *x = splits_of(alike, a), *y = splits_of(alike, b);
    if (question->batch >= 0 && x[question->batch] != y[question->batch])
        return x[question->batch] > y[question->batch] ? BY_BATCH : -BY_BATCH;
    return tuple_compare(alike, a, b) < 0 ? BY_TUPLE : -BY_TUPLE;
}

/* Records the best few candidates of a decision, with all their costs. */
static void record(Propagator *p, int id, const Question *question) {
    Alike *alike = question->alike;
    Decision *decision = &p->result->decision[id];
    int columns = alike->nin + alike->nout, best[MAX_ALTERNATIVES], n = 0;
    int64_t best_bytes[MAX_ALTERNATIVES];
    for (int i = 0; i < alike->splits.n; i++) {
        int64_t bytes = terms_bytes(p, &question->terms, alike->layout + (size_t)i * (size_t)columns, INT64_MAX - 1);
        int at = n;
        while (at > 0 && compare(p, question, i, bytes, best[at - 1], best_bytes[at - 1]) > 0)
            at--;
        if (at == MAX_ALTERNATIVES) continue;
        if (n < MAX_ALTERNATIVES) n++;
        for (int k = n - 1; k > at; k--)
            best[k] = best[k - 1], best_bytes[k] = best_bytes[k - 1];
        best[at] = i, best_bytes[at] = bytes;
    }
    decision->ncandidates = alike->splits.n;
    decision->nalternatives = n;
    for (int k = 0; k < n; k++)
        decision->alternative[k] = (Alternative){.strategy = strategy_new(p, splits_of(alike, best[k]), alike->splits.nfactors),
                                                 .bytes = best_bytes[k],
                                                 .flops = alike->flops[best[k]],
                                                 .sum_bytes = alike_completion(p, alike, question->node, best[k])};
    decision->by = n < 2 ? BY_ONE : (DecidedBy)compare(p, question, best[0], best_bytes[0], best[1], best_bytes[1]);
}

void decide_best(Propagator *p, int id) {
    Node *node = &p->graph->nodes.at[id];
    Question question = question_of(p, node);
    Alike *alike = question.alike;
    int columns = alike->nin + alike->nout, best = -1;
    int64_t best_bytes = INT64_MAX;
    for (int i = 0; i < alike->splits.n; i++) {
        int64_t bytes = terms_bytes(p, &question.terms, alike->layout + (size_t)i * (size_t)columns, best_bytes);
        if (best < 0 || compare(p, &question, i, bytes, best, best_bytes) > 0) best = i, best_bytes = bytes;
    }
    assert(best >= 0);
    if (p->result->decision) record(p, id, &question);
    if (!alike->strategy[best]) alike->strategy[best] = strategy_new(p, splits_of(alike, best), alike->splits.nfactors);
    node->strategy = alike->strategy[best];
    node->from = STRATEGY_PROPAGATED;
}
