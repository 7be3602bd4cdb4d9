#include "compiler/sides.h"

#include "compiler/compiler.h"

static int side_of(Sides *sides, const Node *node, int depth, Arena *arena) {
    const uint64_t hash = hash_mix(hash_mix((uint64_t)depth, (uint64_t)node->op), (uint64_t)node->rule->nfactors);
    map_each(&sides->map, hash, k) {
        const Side *there = &sides->at.at[k];
        if (there->depth == depth && there->node->op == node->op && there->node->rule->nfactors == node->rule->nfactors) return k;
    }
    vec_push(arena, &sides->at, ((Side){.depth = depth, .node = node}));
    map_add(arena, &sides->map, hash, sides->at.n - 1);
    return sides->at.n - 1;
}

void sides_find(Sides *sides, const Graph *graph, Arena *arena) {
    int *depth = arena_alloc(arena, sizeof *depth * ((size_t)graph->nforward + 1)),
        *width = arena_alloc(arena, sizeof *width * ((size_t)graph->nforward + 1));
    const bool *varies = graph_varies(graph);
    *sides = (Sides){.of = arena_alloc(arena, sizeof *sides->of * ((size_t)graph->nforward + 1))};
    for (int n = 0; n < graph->nforward; n++) {
        const Node *node = &graph->nodes.at[n];
        sides->of[n] = -1;
        if (node_is_leaf(node) || !varies[n]) continue;
        for (int i = 0; i < node->nin; i++) {
            const int before = depth[graph->values.at[node->in[i]].node];
            depth[n] = before > depth[n] ? before : depth[n];
        }
        if (++width[++depth[n]] > sides->widest) sides->widest = width[depth[n]];
        sides->of[n] = side_of(sides, node, depth[n], arena);
        Side *side = &sides->at.at[sides->of[n]];
        side->count++;
        for (int i = 0; i < node->nin; i++)
            side->elements += (double)shape_elements(&graph->values.at[node->in[i]].type.shape);
    }
}

int sides_largest(const Sides *sides, int least) {
    int largest = -1;
    for (int k = 0; k < sides->at.n; k++)
        if (sides->at.at[k].count >= least && (largest < 0 || sides->at.at[k].elements > sides->at.at[largest].elements)) largest = k;
    return largest;
}
