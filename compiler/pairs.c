#include "compiler/pairs.h"

#include "compiler/compiler.h"

/* Per value that depends on an input, the dimensions, as bits: made: those that a first product made and nothing has summed over since;
 * summed: those that a second product will sum over. */
typedef struct Flow {
    const Graph *graph;
    const bool *varies;
    unsigned *made, *summed;
} Flow;

static bool is_parameter(const Flow *f, int value) {
    const Node *node = graph_producer(f->graph, value);
    while (node->nin == 1 && !f->varies[node - f->graph->nodes.at])
        node = graph_producer(f->graph, node->in[0]);
    return node->op == OP_read && f->graph->states.at[node->state].trainable;
}

static int ndim_of(const Graph *graph, int value) {
    return graph->values.at[value].type.shape.ndim;
}

static int dim_of(const int8_t *factors, int ndim, int factor) {
    for (int d = 0; d < ndim; d++)
        if (factors[d] == factor) return d;
    return -1;
}

/* A product of a parameter and another operand: which operand the other one is, the dimension of it that is summed over, and the dimension
 * of the result that the parameter makes. */
typedef struct Product {
    int operand, summed, made;
    int rows, summed_factor, made_factor;
} Product;

static bool is_product(const Flow *f, const Node *node, Product *product) {
    const Graph *g = f->graph;
    const Rule *rule = node->rule;
    if (node->nin < 2 || node->nout != 1) return false;
    const int parameter = is_parameter(f, node->in[1]) ? 1 : is_parameter(f, node->in[0]) ? 0 : -1, operand = 1 - parameter;
    if (parameter < 0 || is_parameter(f, node->in[operand])) return false;
    const int ndim = ndim_of(g, node->in[operand]), nout = ndim_of(g, node->out[0]);
    *product = (Product){.operand = operand, .summed = -1, .made = -1, .rows = ndim > 0 ? rule->in[operand][0] : -1};
    for (int k = 0; k < rule->nfactors; k++) {
        const int of_operand = dim_of(rule->in[operand], ndim, k), of_result = dim_of(rule->out[0], nout, k);
        if (dim_of(rule->in[parameter], ndim_of(g, node->in[parameter]), k) < 0 || (of_operand < 0) == (of_result < 0)) continue;
        if (of_operand >= 0)
            product->summed = of_operand, product->summed_factor = k;
        else
            product->made = of_result, product->made_factor = k;
    }
    return product->summed >= 0 && product->made >= 0 && product->rows >= 0 && dim_of(rule->out[0], nout, product->rows) >= 0;
}

/* The dimensions of a result that are these of an operand, and that can be split without communication; back: of the operand, from these
 * of the result. */
static unsigned across(const Graph *g, const Node *node, int operand, int result, unsigned dims, bool back) {
    const int nin = ndim_of(g, node->in[operand]), nout = ndim_of(g, node->out[result]);
    unsigned found = 0;
    for (int i = 0; i < nin; i++)
        for (int o = 0; o < nout; o++) {
            const int factor = node->rule->in[operand][i];
            const bool same = factor == node->rule->out[result][o] && (factor >= 0 || (nin == nout && i == o));
            if (same && (factor < 0 || node->rule->factor[factor].reductions == 0) && dims >> (back ? o : i) & 1)
                found |= 1u << (back ? i : o);
        }
    return found;
}

void pairs_find(Pairs *pairs, const Graph *graph, Arena *arena) {
    const size_t nvalues = (size_t)graph->values.n + 1, nnodes = (size_t)graph->nodes.n + 1;
    Flow f = {.graph = graph, .varies = graph_varies(graph)};
    f.made = arena_alloc(arena, nvalues * sizeof *f.made);
    f.summed = arena_alloc(arena, nvalues * sizeof *f.summed);
    *pairs = (Pairs){.rows = arena_alloc(arena, nnodes * sizeof *pairs->rows), .inner = arena_alloc(arena, nnodes * sizeof *pairs->inner)};
    bool *second = arena_alloc(arena, nnodes * sizeof *second);
    for (int n = 0; n < graph_nforward(graph); n++) { /* a product is the second of a pair where it sums over what a first one made */
        const Node *node = &graph->nodes.at[n];
        Product product;
        if (node_is_leaf(node)) continue;
        if (is_product(&f, node, &product)) {
            second[n] = f.made[node->in[product.operand]] >> product.summed & 1;
            f.made[node->out[0]] = second[n] ? 0 : 1u << product.made;
            continue;
        }
        for (int i = 0; i < node->nin; i++)
            for (int o = 0; o < node->nout; o++)
                f.made[node->out[o]] |= across(graph, node, i, o, f.made[node->in[i]], false);
    }
    for (int n = graph_nforward(graph) - 1; n >= 0; n--) {
        const Node *node = &graph->nodes.at[n];
        Product product;
        if (node_is_leaf(node)) continue;
        if (is_product(&f, node, &product)) {
            if (second[n]) f.summed[node->in[product.operand]] |= 1u << product.summed;
            if (!second[n] && !(f.summed[node->out[0]] >> product.made & 1)) continue;
            pairs->n++;
            pairs->rows[n] = product.rows + 1;
            pairs->inner[n] = (second[n] ? product.summed_factor : product.made_factor) + 1;
            continue;
        }
        for (int i = 0; i < node->nin; i++)
            for (int o = 0; o < node->nout; o++)
                f.summed[node->in[i]] |= across(graph, node, i, o, f.summed[node->out[o]], true);
    }
}
