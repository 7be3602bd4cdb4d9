/* kernels: what the kernels of an operator and of its gradients cost, before it is known which of them are fused. Internal to search/. */
#pragma once
#include "strategies/strategies.h"

typedef struct KernelIndex {
    const Graph *graph;
    const Machine *machine;
    int *first_user, *nusers;          /* per value: the first node that reads it; how many operands and reports it is */
    int *first_gradient, *of_gradient; /* the gradient nodes of node n: of_gradient[first_gradient[n] .. first_gradient[n + 1]) */
} KernelIndex;
void kernels_init(KernelIndex *index, const Graph *graph, const Machine *machine, Arena *arena);
/* Equal for nodes whose kernels cost the same under equal strategies, as far as gradients and neighbours go. */
uint64_t kernels_hash(const KernelIndex *index, int node);
double kernels_seconds(const KernelIndex *index, int node, const Strategy *strategy);
