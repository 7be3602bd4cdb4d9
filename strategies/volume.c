/* volume: what a step moves with the strategies as they are, forward and backward, without a plan. Each conversion at its lower bound: a value from what
 * makes it (partial sums included) to what its users need, its gradient back, with the sums over the digits of the factors that a user's operand does
 * not have. A conversion that several users, or gradients, share counts once. */
#include <string.h>

#include "strategies/propagator.h"

/* The layouts that the users of a value need, each once. */
typedef struct Asked {
    int need, gradient; /* numbers of layouts; gradient: in which a user leaves the gradient, partial sums included, -1: there is none */
} Asked;
enum { MAX_ASKED = 16 }; /* of one value: the rest, if any, is not counted */

static int gradient_number(Propagator *p, const Node *node, int operand) {
    const Shape *shape = &value_type(p, node->in[operand])->shape;
    Layout layout;
    strategy_in_layout(node, node->strategy, operand, shape->ndim, &layout);
    for (int f = 0; f < node->rule->nfactors; f++)
        for (int i = 0; i < strategy_count(node->strategy, f) && !rule_in_has(node->rule, operand, shape->ndim, f); i++)
            layout_append(&layout, shape->ndim + REDUCE_SUM, strategy_digits(node->strategy, f)[i]);
    return cost_layout_made(p->memo, &layout, shape);
}

static int asked_of(Propagator *p, int value, bool active, Asked asked[MAX_ASKED]) {
    int n = 0;
    for (int k = p->first_user[value]; k < p->first_user[value + 1] && n < MAX_ASKED; k++) {
        const Node *node = &p->graph->nodes.at[p->user[k]];
        Asked one = {p->need[p->user[k]][p->user_operand[k]], -1};
        if (one.need < 0) continue;
        if (active && op_table[node->op].adjoint) one.gradient = gradient_number(p, node, p->user_operand[k]);
        bool known = false;
        for (int i = 0; i < n && !known; i++)
            known = asked[i].need == one.need && asked[i].gradient == one.gradient;
        if (!known) asked[n++] = one;
    }
    return n;
}

/* Elements received for a value and its gradient. made: as its producer leaves it; home: in which its users find it. */
static int64_t value_elements(Propagator *p, int made, int home, const Asked *asked, int n) {
    int64_t elements = 0;
    bool alike = true;
    for (int i = 1; i < n; i++)
        alike = alike && asked[i].need == asked[0].need;
    const bool straight = n > 0 && alike && home == cost_layout(p->memo, cost_layout_at(p->memo, made), cost_shape_at(p->memo, made));
    if (straight)
        elements += cost_convert(p->memo, made, asked[0].need);
    else
        elements += cost_convert(p->memo, made, home);
    for (int i = 0; i < n; i++) {
        bool known = straight;
        for (int k = 0; k < i && !known; k++)
            known = asked[k].need == asked[i].need;
        if (!known) elements += cost_convert(p->memo, home, asked[i].need);
        if (asked[i].gradient >= 0) elements += cost_convert(p->memo, asked[i].gradient, home);
    }
    return elements;
}

Volume volume_count(Propagator *p) {
    const Graph *graph = p->graph;
    Volume volume = {0};
    bool *active = arena_alloc(&p->arena, (size_t)graph->values.n + 1); /* has a gradient */
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        bool on = node->op == OP_read && graph->states.at[node->state].trainable;
        for (int i = 0; i < node->nin; i++)
            on = on || (active[node->in[i]] && op_table[node->op].adjoint);
        if (node->strategy && !node_is_leaf(node)) {
            double flops = op_table[node->op].flops;
            for (int f = 0; f < node->rule->nfactors; f++) {
                const int64_t size = node->rule->factor[f].size, split = strategy_split(node->strategy, f);
                flops *= (double)((size + split - 1) / split);
            }
            volume.flops += flops;
            if (node->nin > 0) volume.bytes += (on ? 2 : 1) * row_bytes(p, node, node->strategy);
        }
        for (int o = 0; o < node->nout; o++) {
            const TensorType *type = value_type(p, node->out[o]);
            active[node->out[o]] = on && dtype_is_float(type->dtype);
            if (node->op == OP_constant) continue;
            Asked asked[MAX_ASKED];
            const int n = asked_of(p, node->out[o], active[node->out[o]], asked);
            int home = p->value_layout[node->out[o]], made = home;
            if (home < 0) made = home = n > 0 ? asked[0].need : -1; /* a leaf lies as its first user needs it */
            if (home < 0) continue;
            if (!node_is_leaf(node)) {
                Layout layout;
                strategy_out_layout(node, node->strategy, o, type->shape.ndim, &layout);
                made = cost_layout_made(p->memo, &layout, &type->shape);
            }
            volume.bytes += value_elements(p, made, home, asked, n) * dtype_bytes[type->dtype];
        }
    }
    return volume;
}
