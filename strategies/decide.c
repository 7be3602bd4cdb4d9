/* decide: which of an operator's candidates it takes. All that is compared is known by number: candidates and their layouts are made once per distinct
 * operator, conversions counted once per pair of layouts, so a thousand equal layers cost little more than one. */
#include <assert.h>
#include <string.h>

#include "ir/rules.h"
#include "strategies/propagator.h"

/* The candidates of all nodes with one operator, rule and operand types. */
typedef struct Class {
    OpCode op;
    const Rule *rule;
    int nin, nout;
    TensorType in[MAX_IN];
    Splits splits;
    int *layout; /* row i: numbers of the layouts of operands, then results, under candidate i */
    double *flops;
    int64_t *completion; /* bytes to complete the results; -1: not asked for yet */
    const Strategy **strategy;
    struct Class *next; /* in the same slot */
} Class;
static Class *class_make(Propagator *p, const Node *node) {
    Class *class = arena_alloc(&p->arena, sizeof *class);
    *class = (Class){.op = node->op, .rule = node->rule, .nin = node->nin, .nout = node->nout};
    for (int i = 0; i < node->nin; i++)
        class->in[i] = *value_type(p, node->in[i]);
    class->splits = candidate_splits(node->rule, p->graph->nranks, p->graph->settings.strict_divide, &p->arena);
    size_t n = (size_t) class->splits.n;
    int columns = node->nin + node->nout;
    class->layout = arena_alloc(&p->arena, n * (size_t)columns * sizeof *class->layout);
    class->flops = arena_alloc(&p->arena, n * sizeof *class->flops);
    class->completion = arena_alloc(&p->arena, n * sizeof *class->completion);
    class->strategy = arena_alloc(&p->arena, n * sizeof *class->strategy);
    for (size_t i = 0; i < n; i++) {
        const int32_t *splits = class->splits.at + i * (size_t) class->splits.nfactors;
        Strategy strategy;
        strategy_from_splits(splits, class->splits.nfactors, p->graph->nranks, &strategy);
        class->flops[i] = cost_flops(node->op, node->rule, splits);
        class->completion[i] = -1;
        for (int c = 0; c < columns; c++) {
            const TensorType *type = c < node->nin ? &class->in[c] : &node->rule->result[c - node->nin];
            Layout layout;
            if (c < node->nin)
                strategy_in_layout(node, &strategy, c, type->shape.ndim, &layout);
            else
                strategy_out_layout(node, &strategy, c - node->nin, type->shape.ndim, &layout);
            class->layout[i * (size_t)columns + (size_t)c] = cost_layout(p->memo, &layout, &type->shape);
        }
    }
    return class;
}

static Class *class_of_node(Propagator *p, const Node *node) {
    uint64_t hash = (uint64_t)node->op;
    for (int f = 0; f < node->rule->nfactors; f++)
        hash = (hash ^ (uint64_t)node->rule->factor[f].size) * 0x9E3779B97F4A7C15u;
    Class **slot = &p->classes[(hash ^ (hash >> 32)) % CLASS_SLOTS];
    for (Class *class = *slot; class; class = class->next) {
        bool same = class->op == node->op && class->nin == node->nin && class->nout == node->nout;
        for (int i = 0; same && i < node->nin; i++)
            same = type_equal(&class->in[i], value_type(p, node->in[i]));
        if (same && rule_equal(class->rule, node->rule, class->in, node->nin, node->nout)) return class;
    }
    Class *class = class_make(p, node);
    class->next = *slot;
    return *slot = class;
}

int64_t row_bytes(const Propagator *p, const Node *node, const Strategy *strategy) {
    int64_t bytes = 0;
    const TensorType *type = value_type(p, node->in[0]);
    for (int d = 0; d < type->shape.ndim; d++) {
        int f = node->rule->in[0][d], reductions = f < 0 || strategy_count(strategy, f) == 0 ? 0 : node->rule->factor[f].reductions;
        if (reductions == 0) continue;
        Strategy others = {.nfactors = strategy->nfactors};
        Shape rows = type->shape;
        Layout partial, whole;
        Traffic bound;
        for (int g = 0; g < strategy->nfactors; g++)
            if (g != f) strategy_follow(&others, g, strategy, g);
        rows.dim[d] = 1;
        strategy_in_layout(node, &others, 0, rows.ndim, &whole);
        partial = whole;
        for (int i = 0; i < strategy_count(strategy, f); i++)
            layout_append(&partial, rows.ndim + REDUCE_SUM, strategy_digits(strategy, f)[i]);
        traffic_bound(&partial, &whole, &rows, p->graph->nranks, &bound);
        bytes += reductions * bound.total * dtype_bytes[type->dtype];
    }
    return bytes;
}

static const int32_t *splits_of(const Class *class, int candidate) {
    return class->splits.at + (size_t)candidate * (size_t) class->splits.nfactors;
}

/* Bytes received to complete the results of a candidate, and the reductions that it is made of. */
static int64_t class_completion(Propagator *p, Class *class, const Node *node, int candidate) {
    if (class->completion[candidate] >= 0) return class->completion[candidate];
    Strategy strategy;
    strategy_from_splits(splits_of(class, candidate), class->splits.nfactors, p->graph->nranks, &strategy);
    int64_t bytes = row_bytes(p, node, &strategy);
    for (int o = 0; o < class->nout; o++) {
        const TensorType *type = &class->rule->result[o];
        Layout partial, whole;
        strategy_out_layout(node, &strategy, o, type->shape.ndim, &partial);
        if (!layout_is_partial(&partial)) continue;
        layout_complete(&partial, &whole);
        Traffic bound;
        traffic_bound(&partial, &whole, &type->shape, p->graph->nranks, &bound);
        bytes += bound.total * dtype_bytes[type->dtype];
    }
    return class->completion[candidate] = bytes;
}

/* Lexicographic order of the tuples of two candidates. */
static int tuple_compare(const Class *class, int a, int b) {
    const int32_t *x = splits_of(class, a), *y = splits_of(class, b);
    for (int i = 0; i < class->nin; i++)
        for (int d = 0; d < class->in[i].shape.ndim; d++) {
            int f = class->rule->in[i][d];
            if (f >= 0 && x[f] != y[f]) return x[f] < y[f] ? -1 : 1;
        }
    return a < b ? -1 : a > b;
}

/* ---- decisions */

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
    Class *class;
    Terms terms;
    int batch; /* among candidates that tie, the one that splits this factor most is taken; -1: none */
} Question;

static Question question_of(Propagator *p, const Node *node) {
    return (Question){.node = node, .class = class_of_node(p, node), .terms = terms_of(p, node), .batch = p->batch_first ? batch_factor(p->graph, node, p->batch) : -1};
}

/* The key in which candidate a, with these bytes, is better than b; negative: in which it is worse. */
static int compare(Propagator *p, const Question *question, int a, int64_t a_bytes, int b, int64_t b_bytes) {
    Class *class = question->class;
    const Node *node = question->node;
    if (a_bytes != b_bytes) return a_bytes < b_bytes ? BY_BYTES : -BY_BYTES;
    if (class->flops[a] != class->flops[b]) return class->flops[a] < class->flops[b] ? BY_FLOPS : -BY_FLOPS;
    int64_t mine = class_completion(p, class, node, a), other = class_completion(p, class, node, b);
    if (mine != other) return mine < other ? BY_SUM : -BY_SUM;
    const int32_t *x = splits_of(class, a), *y = splits_of(class, b);
    if (question->batch >= 0 && x[question->batch] != y[question->batch]) return x[question->batch] > y[question->batch] ? BY_BATCH : -BY_BATCH;
    return tuple_compare(class, a, b) < 0 ? BY_TUPLE : -BY_TUPLE;
}

/* Records the best few candidates of a decision, with all their costs. */
static void record(Propagator *p, int id, const Question *question) {
    Class *class = question->class;
    Decision *decision = &p->result->decision[id];
    int columns = class->nin + class->nout, best[MAX_ALTERNATIVES], n = 0;
    int64_t best_bytes[MAX_ALTERNATIVES];
    for (int i = 0; i < class->splits.n; i++) {
        int64_t bytes = terms_bytes(p, &question->terms, class->layout + (size_t)i * (size_t)columns, INT64_MAX - 1);
        int at = n;
        while (at > 0 && compare(p, question, i, bytes, best[at - 1], best_bytes[at - 1]) > 0)
            at--;
        if (at == MAX_ALTERNATIVES) continue;
        if (n < MAX_ALTERNATIVES) n++;
        for (int k = n - 1; k > at; k--)
            best[k] = best[k - 1], best_bytes[k] = best_bytes[k - 1];
        best[at] = i, best_bytes[at] = bytes;
    }
    decision->ncandidates = class->splits.n;
    decision->nalternatives = n;
    for (int k = 0; k < n; k++)
        decision->alternative[k] = (Alternative){
            .strategy = strategy_new(p, splits_of(class, best[k]), class->splits.nfactors),
            .bytes = best_bytes[k],
            .flops = class->flops[best[k]],
            .sum_bytes = class_completion(p, class, question->node, best[k])};
    decision->by = n < 2 ? BY_ONE : (DecidedBy)compare(p, question, best[0], best_bytes[0], best[1], best_bytes[1]);
}

void decide_best(Propagator *p, int id) {
    Node *node = &p->graph->nodes.at[id];
    Question question = question_of(p, node);
    Class *class = question.class;
    int columns = class->nin + class->nout, best = -1;
    int64_t best_bytes = INT64_MAX;
    for (int i = 0; i < class->splits.n; i++) {
        int64_t bytes = terms_bytes(p, &question.terms, class->layout + (size_t)i * (size_t)columns, best_bytes);
        if (best < 0 || compare(p, &question, i, bytes, best, best_bytes) > 0) best = i, best_bytes = bytes;
    }
    assert(best >= 0);
    if (p->result->decision) record(p, id, &question);
    if (!class->strategy[best]) class->strategy[best] = strategy_new(p, splits_of(class, best), class->splits.nfactors);
    node->strategy = class->strategy[best];
    node->from = STRATEGY_PROPAGATED;
}
