/* prefetch: decides when gathers of states begin, so that they run behind the kernels before their first use, but no earlier, as gathered values fill memory.
 *
 * Before: the order of kernels, with the first user of each conversion. After: per conversion the position of the kernel before which it is to start. Gathers run one after another
 * on one link. So, from the last one backwards, each begins where the kernels up to its use, or up to the start of the next gather, take as long as it does. It is given twice that
 * time, as sums of gradients use the link too. Where links are slower than kernels, all gathers would begin at the first kernel; so no more may be gathered and waiting than about
 * twice the largest of a layer, for the one in use and the next: the link then always has one to gather. */
#include "compiler/prefetch.h"

#include "compiler/sharded.h"

#include <stdlib.h>

typedef struct Gather {
    int node, position;
} Gather;

static int by_use(const void *a, const void *b) {
    const Gather *x = a, *y = b;
    return x->position != y->position ? (x->position < y->position ? -1 : 1) : x->node - y->node;
}

/* The seconds of the part of a gather that can run beside kernels. */
static double gather_seconds(const Build *b, const Machine *machine, const Node *node) {
    const Graph *g = &b->spmd.graph;
    const Value *from = &g->values.at[node->in[0]], *to = &g->values.at[node->out[0]];
    const int64_t received = b->spmd.box_bytes[node->out[0]] - b->spmd.box_bytes[node->in[0]];
    return machine->overlap *
           move_seconds(step_seconds(machine, node->comm, from->layout, to->layout, &from->type.shape, received, g->nranks));
}

double *kernels_begin(const Build *b, const int *order, int n) {
    const Graph *g = &b->spmd.graph;
    double *begin = arena_alloc(b->arena, sizeof *begin * ((size_t)n + 1));
    for (int p = 0; p < n; p++) {
        const Node *node = &g->nodes.at[order[p]];
        begin[p + 1] = begin[p] + operator_seconds(b->options->machine, g, node, node->strategy);
    }
    return begin;
}

/* Delays each gather until what is gathered, with it, is no more than twice the largest of it and those just before it. */
static void keep_window(const Build *b, const Gather *gathers, int n, int *start) {
    enum { LAYER = 8 }; /* gathers, about */
    const Graph *g = &b->spmd.graph;
    int64_t *bytes = arena_alloc(b->arena, sizeof *bytes * (size_t)n);
    for (int k = 0; k < n; k++) {
        int64_t largest = 0, waiting = 0;
        bytes[k] = b->spmd.box_bytes[g->nodes.at[gathers[k].node].out[0]];
        for (int i = k; i >= 0 && i > k - LAYER; i--)
            largest = bytes[i] > largest ? bytes[i] : largest;
        int first = k + 1;
        while (first > 0 && waiting + bytes[first - 1] <= 2 * largest)
            waiting += bytes[--first];
        const int used = first > 0 ? gathers[first - 1].position + 1 : 0, use = gathers[k].position;
        if (start[gathers[k].node] < used) start[gathers[k].node] = used < use ? used : use;
    }
}

/* Whether a value is what is gathered of a state: the state as it is, or a parameter cast to 16 bits. */
static bool is_stored(const Graph *g, int value) {
    return graph_producer(g, value)->op == OP_read || casts_parameter(g, g->values.at[value].node);
}

/* Delays each gather until what it gathers has been cast. */
static void keep_behind(const Build *b, const int *order, int n, const Gather *gathers, int ngathers, int *start) {
    const Graph *g = &b->spmd.graph;
    int *behind = arena_alloc(b->arena, sizeof *behind * ((size_t)g->nodes.n + 1));
    for (int p = 0; p < n; p++)
        behind[order[p]] = p + 1;
    for (int k = 0; k < ngathers; k++) {
        const int from = g->values.at[g->nodes.at[gathers[k].node].in[0]].node;
        if (start[gathers[k].node] < behind[from]) start[gathers[k].node] = behind[from];
    }
}

void prefetch_starts(const Build *b, const int *order, int n, const int *position, int *start) {
    const Graph *g = &b->spmd.graph;
    const Machine *machine = options_machine(b->options);
    VEC(Gather) gathers = {0};
    for (int c = 0; c < g->nodes.n; c++) {
        const Node *node = &g->nodes.at[c];
        start[c] = position[c];
        if (node->op != OP_convert || position[c] < 0 || !is_stored(g, node->in[0])) continue;
        if (b->spmd.box_bytes[node->out[0]] > b->spmd.box_bytes[node->in[0]]) vec_push(b->arena, &gathers, ((Gather){c, position[c]}));
    }
    if (gathers.n == 0 || machine->overlap == 0) return;
    qsort(gathers.at, (size_t)gathers.n, sizeof *gathers.at, by_use);
    const double *begin = kernels_begin(b, order, n);
    int p = n;
    double next = begin[n];
    for (int k = gathers.n - 1; k >= 0; k--) {
        const Gather *gather = &gathers.at[k];
        const double use = begin[gather->position], latest = use < next ? use : next;
        next = latest - 2 * gather_seconds(b, machine, &g->nodes.at[gather->node]);
        p = gather->position < p ? gather->position : p;
        while (p > 0 && begin[p] > next)
            p--;
        start[gather->node] = p;
    }
    keep_window(b, gathers.at, gathers.n, start);
    keep_behind(b, order, n, gathers.at, gathers.n, start);
}
