/* pairs: pairs of products with parameters, of which the second sums over what the first makes, as the two of a feed-forward layer do (Shoeybi et al. 2019). Where both are split
 * along that letter, nothing is sent between them. */
#pragma once
#include "ir/graph.h"

typedef struct Pairs {
    int n;      /* products in pairs */
    int *rows;  /* per node: of a product in a pair, the factor of its rows, + 1; 0: it is in none */
    int *inner; /* per node: the factor that the first product makes and the second sums over, + 1 */
} Pairs;
void pairs_find(Pairs *pairs, const Graph *graph, Arena *arena);
