/* accumulate: copies the net for another batch of the same step (`accumulate = k`).
 *
 * Every node that depends on an input is copied, with inputs of its own; what depends on parameters and constants alone is shared. Copies come after the
 * forward nodes, and the origin of a copy is the node copied: strategies are chosen for one batch, and all batches of a step have them. */
#include <string.h>

#include "compiler/compiler.h"

bool *graph_varies(const Graph *g) {
    bool *varies = arena_alloc(g->arena, (size_t)g->nodes.n + 1);
    for (int n = 0; n < g->nodes.n; n++) {
        varies[n] = g->nodes.at[n].op == OP_input;
        for (int i = 0; i < g->nodes.at[n].nin; i++)
            varies[n] |= varies[g->values.at[g->nodes.at[n].in[i]].node];
    }
    return varies;
}

static int copy_input(Graph *g, const Node *node, int micro) {
    Input input = g->inputs.at[node->state];
    input.name = arena_printf(g->arena, "%s.%d", input.name, micro);
    input.micro = micro;
    input.of = node->state;
    int value = graph_input(g, graph_add_input(g, input));
    g->nodes.at[g->values.at[value].node].span = node->span;
    return value;
}

void graph_copy_forward(GraphCopy *copy, Graph *g, const bool *varies, int micro) {
    copy_begin_again(copy, g);
    for (int n = 0; n < copy->from.nforward; n++) {
        if (!varies[n]) continue;
        Node node = copy_operands(copy, n);
        if (node.op == OP_input) {
            copy->value[node.out[0]] = copy_input(g, &node, micro);
            continue;
        }
        node.micro = micro;
        for (int f = 0; f < node.rule->nfactors; f++)
            node.origin_factor[f] = (int8_t)f;
        const int id = copy_node(copy, n, node);
        Node *made = &g->nodes.at[id];
        made->origin = n;
        for (int o = 0; o < made->nout; o++)
            graph_rename(g, made->out[o], arena_printf(g->arena, "%s.%d", g->values.at[made->out[o]].name, micro));
        made->name = g->values.at[made->out[0]].name;
    }
}

void graph_origins_follow(Graph *g) {
    for (int n = g->nforward; n < g->nodes.n; n++) {
        Node *node = &g->nodes.at[n];
        const Node *like = &g->nodes.at[node->origin];
        if (node->origin == n || like->micro == 0) continue;
        for (int f = 0; f < node->rule->nfactors; f++)
            if (node->origin_factor[f] >= 0) node->origin_factor[f] = like->origin_factor[node->origin_factor[f]];
        node->origin = like->origin;
    }
}
