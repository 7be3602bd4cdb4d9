#include "search/kernels.h"

void kernels_init(KernelIndex *index, const Graph *graph, const Machine *machine, Arena *arena) {
    const int nforward = graph_nforward(graph);
    *index = (KernelIndex){.graph = graph, .machine = machine};
    index->nusers = graph_uses(graph, arena);
    index->first_user = arena_alloc(arena, ((size_t)graph->values.n + 1) * sizeof *index->first_user);
    index->first_gradient = arena_alloc(arena, ((size_t)nforward + 2) * sizeof *index->first_gradient);
    index->of_gradient = arena_alloc(arena, ((size_t)graph->nodes.n + 1) * sizeof *index->of_gradient);
    for (int v = 0; v < graph->values.n; v++)
        index->first_user[v] = -1;
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->nin; i++)
            if (index->first_user[node->in[i]] < 0) index->first_user[node->in[i]] = n;
        if (n >= nforward && node->origin < nforward) index->first_gradient[node->origin + 2]++;
    }
    for (int n = 0; n < nforward; n++)
        index->first_gradient[n + 2] += index->first_gradient[n + 1];
    for (int n = nforward; n < graph->nodes.n; n++)
        if (graph->nodes.at[n].origin < nforward) index->of_gradient[index->first_gradient[graph->nodes.at[n].origin + 1]++] = n;
}

/* ---- what is most likely fused */

static bool begins_step(OpCode op) {
    return op == OP_matmul || op == OP_einsum || op_elementwise(op);
}

static bool follows(const KernelIndex *index, int value, int user) {
    const Node *node = &index->graph->nodes.at[user];
    return begins_step(graph_producer(index->graph, value)->op) && op_elementwise(node->op) && index->first_user[value] == user &&
           shape_equal(&index->graph->values.at[value].type.shape, &node->rule->result[0].shape);
}

/* Bit i: operand i comes from the kernel before it; bit k: result k goes to the one behind it alone. */
static void handed(const KernelIndex *index, int id, unsigned *in, unsigned *out) {
    const Node *node = &index->graph->nodes.at[id];
    *in = *out = 0;
    for (int i = 0; i < node->nin; i++)
        *in |= (unsigned)follows(index, node->in[i], id) << i;
    for (int o = 0; o < node->nout; o++)
        *out |= (unsigned)(index->nusers[node->out[o]] == 1 && index->first_user[node->out[o]] >= 0 &&
                           follows(index, node->out[o], index->first_user[node->out[o]]))
                << o;
}

/* ---- cost */

static uint64_t hash_of(const KernelIndex *index, int id, uint64_t hash) {
    const Node *node = &index->graph->nodes.at[id];
    unsigned in, out;
    handed(index, id, &in, &out);
    hash = hash_mix(hash_mix(hash_mix(hash, (uint64_t)node->op), (uint64_t)(uintptr_t)node->rule), (uint64_t)in << 32 | out);
    for (int f = 0; f < node->rule->nfactors; f++)
        hash = hash_mix(hash, (uint64_t)(uint8_t)node->origin_factor[f]);
    return hash;
}

uint64_t kernels_hash(const KernelIndex *index, int node) {
    uint64_t hash = hash_of(index, node, 1);
    for (int k = index->first_gradient[node]; k < index->first_gradient[node + 1]; k++)
        hash = hash_of(index, index->of_gradient[k], hash);
    return hash;
}

static double seconds_of(const KernelIndex *index, int id, const Strategy *strategy) {
    const Node *node = &index->graph->nodes.at[id];
    KernelWork work = {0};
    unsigned in, out;
    if (node_is_leaf(node) || op_table[node->op].view || op_table[node->op].op_class == OP_CLASS_UPDATE) return 0;
    handed(index, id, &in, &out);
    kernel_count(&work, index->machine, index->graph, node, strategy, in, out, NULL);
    return kernel_seconds(index->machine, &work) - (in != 0 ? index->machine->kernel_s : 0);
}

double kernels_seconds(const KernelIndex *index, int node, const Strategy *strategy) {
    double seconds = seconds_of(index, node, strategy);
    for (int k = index->first_gradient[node]; k < index->first_gradient[node + 1]; k++) {
        const Node *gradient = &index->graph->nodes.at[index->of_gradient[k]];
        Strategy own = {.nfactors = gradient->rule->nfactors};
        strategy_from_origin(gradient, strategy, &own);
        seconds += seconds_of(index, index->of_gradient[k], &own);
    }
    return seconds;
}
