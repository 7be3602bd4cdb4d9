/* volume: what a step moves with the current strategies, forward and backward, without a plan. Each conversion counts at its lower bound: a value goes from its producer's layout
 * (partial sums included) to what its users need, and its gradient goes back, with the sums over the digits of the factors that a user's operand does not have. A conversion that
 * several users, or gradients, share counts once. Undecided operators move nothing. */
#include "strategies/propagator.h"

void traffic_ask(ValueTraffic *traffic, int need, int gradient) {
    for (int i = 0; i < traffic->n; i++)
        if (traffic->asked[i].need == need && traffic->asked[i].gradient == gradient) return;
    if (traffic->n < MAX_ASKED + MAX_IN) traffic->asked[traffic->n++] = (Asked){need, gradient};
}

int asked_gradient(const Propagator *p, const Node *node, int operand, const Candidate *candidate) {
    if (p->by_rows[node->in[operand]]) return -1; /* it gets no whole gradient */
    return p->active[node->in[operand]] && op_table[node->op].adjoint ? candidate->gradient[operand] : -1;
}

int value_home(const Propagator *p, int value) {
    const int id = p->graph->values.at[value].node;
    if (p->fixed_layout[value] >= 0 && !p->left_out[id]) return p->fixed_layout[value];
    return p->chosen[id] ? p->chosen[id]->home[p->graph->values.at[value].index] : -1;
}

bool value_traffic(const Propagator *p, int value, int except, ValueTraffic *traffic) {
    const int id = p->graph->values.at[value].node;
    bool first = false;
    *traffic = (ValueTraffic){.value = value, .made = -1, .home = -1};
    if (id != except) {
        traffic->home = traffic->made = value_home(p, value);
        if (p->chosen[id]) traffic->made = p->chosen[id]->made[p->graph->values.at[value].index];
    }
    for (int k = p->first_user[value]; k < p->first_user[value + 1]; k++) {
        const Candidate *user = p->chosen[p->user[k]];
        if (p->user[k] == except)
            first = first || traffic->n == 0;
        else if (user && traffic->n < MAX_ASKED)
            traffic_ask(traffic, user->need[p->user_operand[k]],
                        asked_gradient(p, &p->graph->nodes.at[p->user[k]], p->user_operand[k], user));
    }
    return first;
}

static void convert(const Propagator *p, const ValueTraffic *traffic, int from, int to, bool message, Moved *moved) {
    const int64_t elements = cost_convert(p->memo, from, to);
    if (elements > 0) moved_add(moved, (Moved){elements * dtype_bytes[value_type(p, traffic->value)->dtype], message});
}

Moved traffic_moved(const Propagator *p, const ValueTraffic *traffic) {
    const Asked *asked = traffic->asked;
    const int n = traffic->n;
    const bool state =
        graph_producer(p->graph, traffic->value)->op == OP_read; /* gradients of states are reduced together, and gathered together */
    int made = traffic->made, home = traffic->home;
    Moved moved = {0};
    if (home < 0) made = home = n > 0 ? cost_layout_parts(p->memo, asked[0].need) : -1; /* a leaf lies as its first user needs it */
    if (home < 0) return moved;
    bool alike = true;
    for (int i = 1; i < n; i++)
        alike = alike && asked[i].need == asked[0].need;
    const bool straight = n > 0 && alike && home == cost_layout(p->memo, cost_layout_at(p->memo, made), cost_shape_at(p->memo, made));
    convert(p, traffic, made, straight ? asked[0].need : home, true, &moved);
    for (int i = 0; i < n; i++) {
        bool known = straight;
        for (int k = 0; k < i && !known; k++)
            known = asked[k].need == asked[i].need;
        if (!known) convert(p, traffic, home, asked[i].need, true, &moved);
        if (asked[i].gradient >= 0) convert(p, traffic, asked[i].gradient, home, !state, &moved);
    }
    return moved;
}

Volume volume_count(const Propagator *p) {
    const Graph *graph = p->graph;
    Volume volume = {0};
    for (int id = 0; id < p->nnodes; id++) {
        const Node *node = &graph->nodes.at[id];
        const Candidate *chosen = p->chosen[id];
        if (chosen) {
            volume.flops += chosen->flops;
            moved_add(&volume.moved, own_moved(p, node, chosen));
        }
        for (int o = 0; o < node->nout && node->op != OP_constant; o++) {
            ValueTraffic traffic;
            value_traffic(p, node->out[o], -1, &traffic);
            moved_add(&volume.moved, traffic_moved(p, &traffic));
        }
    }
    return volume;
}
