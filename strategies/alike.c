/* alike: the candidates of an operator. Candidates and their layouts are made once for all operators that are alike, so a thousand equal layers cost little
 * more than one. */
#include <string.h>

#include "ir/rules.h"
#include "strategies/propagator.h"

static Alike *alike_make(Propagator *p, const Node *node) {
    Alike *alike = arena_alloc(&p->arena, sizeof *alike);
    *alike = (Alike){.op = node->op, .rule = node->rule, .nin = node->nin, .nout = node->nout};
    for (int i = 0; i < node->nin; i++)
        alike->in[i] = *value_type(p, node->in[i]);
    alike->splits = candidate_splits(node->rule, p->graph->nranks, p->graph->settings.strict_divide, &p->arena);
    size_t n = (size_t)alike->splits.n;
    int columns = node->nin + node->nout;
    alike->layout = arena_alloc(&p->arena, n * (size_t)columns * sizeof *alike->layout);
    alike->flops = arena_alloc(&p->arena, n * sizeof *alike->flops);
    alike->completion = arena_alloc(&p->arena, n * sizeof *alike->completion);
    alike->strategy = arena_alloc(&p->arena, n * sizeof *alike->strategy);
    for (size_t i = 0; i < n; i++) {
        const int32_t *splits = alike->splits.at + i * (size_t)alike->splits.nfactors;
        Strategy strategy;
        strategy_from_splits(splits, alike->splits.nfactors, p->graph->nranks, &strategy);
        alike->flops[i] = cost_flops(node->op, node->rule, splits);
        alike->completion[i] = -1;
        for (int c = 0; c < columns; c++) {
            const TensorType *type = c < node->nin ? &alike->in[c] : &node->rule->result[c - node->nin];
            Layout layout;
            if (c < node->nin)
                strategy_in_layout(node, &strategy, c, type->shape.ndim, &layout);
            else
                strategy_out_layout(node, &strategy, c - node->nin, type->shape.ndim, &layout);
            alike->layout[i * (size_t)columns + (size_t)c] = cost_layout(p->memo, &layout, &type->shape);
        }
    }
    return alike;
}

Alike *alike_of(Propagator *p, const Node *node) {
    uint64_t hash = (uint64_t)node->op;
    for (int f = 0; f < node->rule->nfactors; f++)
        hash = (hash ^ (uint64_t)node->rule->factor[f].size) * 0x9E3779B97F4A7C15u;
    Alike **slot = &p->alike[(hash ^ (hash >> 32)) % ALIKE_SLOTS];
    for (Alike *alike = *slot; alike; alike = alike->next) {
        bool same = alike->op == node->op && alike->nin == node->nin && alike->nout == node->nout;
        for (int i = 0; same && i < node->nin; i++)
            same = type_equal(&alike->in[i], value_type(p, node->in[i]));
        if (same && rule_equal(alike->rule, node->rule, alike->in, node->nin, node->nout)) return alike;
    }
    Alike *alike = alike_make(p, node);
    alike->next = *slot;
    return *slot = alike;
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

const int32_t *splits_of(const Alike *alike, int candidate) {
    return alike->splits.at + (size_t)candidate * (size_t)alike->splits.nfactors;
}

int64_t alike_completion(Propagator *p, Alike *alike, const Node *node, int candidate) {
    if (alike->completion[candidate] >= 0) return alike->completion[candidate];
    Strategy strategy;
    strategy_from_splits(splits_of(alike, candidate), alike->splits.nfactors, p->graph->nranks, &strategy);
    int64_t bytes = row_bytes(p, node, &strategy);
    for (int o = 0; o < alike->nout; o++) {
        const TensorType *type = &alike->rule->result[o];
        Layout partial, whole;
        strategy_out_layout(node, &strategy, o, type->shape.ndim, &partial);
        if (!layout_is_partial(&partial)) continue;
        layout_complete(&partial, &whole);
        Traffic bound;
        traffic_bound(&partial, &whole, &type->shape, p->graph->nranks, &bound);
        bytes += bound.total * dtype_bytes[type->dtype];
    }
    return alike->completion[candidate] = bytes;
}

int tuple_compare(const Alike *alike, int a, int b) {
    const int32_t *x = splits_of(alike, a), *y = splits_of(alike, b);
    for (int i = 0; i < alike->nin; i++)
        for (int d = 0; d < alike->in[i].shape.ndim; d++) {
            int f = alike->rule->in[i][d];
            if (f >= 0 && x[f] != y[f]) return x[f] < y[f] ? -1 : 1;
        }
    return a < b ? -1 : a > b;
}
