/* pairs: products with parameters of which one sums over what another one makes, as the two of a feed-forward layer do (Shoeybi et al. 2019). Split along that letter, nothing is sent between them. */
#pragma once
#include "ir/graph.h"

typedef struct Pairs {
    int n;      /* products in pairs */
    int *rows;  /* per node: of a product in a pair the factor of its rows, + 1; 0: none */
    int *inner; /* the factor that the first product makes and the second sums over, + 1 */
} Pairs;
void pairs_find(Pairs *pairs, const Graph *graph, Arena *arena);
