#include "compile.h"
#include "compiler/convert.h"

#include "compiler/sharded.h"

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Each of the digits 2@4 2@2 2@1 in one of the dimensions, or, where it may, in the sum, or nowhere. */
static const Layout *random_layout(Graph *g, const Shape *shape, bool partial, uint32_t *seed) {
    Layout layout;
    layout_init(&layout, shape->ndim);
    for (int32_t stride = 4; stride > 0; stride /= 2) {
        int list = (int)(next(seed) % (unsigned)(shape->ndim + 1 + partial));
        if (list <= shape->ndim && (list < shape->ndim || partial)) layout_append(&layout, list, (Digit){2, stride});
    }
    return graph_layout(g, &layout, shape);
}

static ConversionCost edge(Build *b, const Layout *from, const Layout *to, const TensorType *type) {
    const Conversion *plan = conversion_plan(b, from, to, type, REDISTRIBUTE_AUTO);
    return (ConversionCost){plan->received.max, plan->received.total, plan->rounds};
}

/* The cheapest of all trees over these targets, without steps in between. */
static ConversionCost best_tree(Build *b, const TensorType *type, const Layout *from, const WantedLayouts *targets) {
    int parent[4] = {-1, -1, -1, -1}, n = targets->n;
    ConversionCost best = {INT64_MAX, INT64_MAX, 0};
    for (int code = 0, codes = n == 1 ? 2 : n == 2 ? 9 : 64; code < codes; code++) {
        ConversionCost sum = {0};
        bool tree = true;
        for (int i = 0, rest = code; i < n; i++, rest /= n + 1)
            parent[i] = rest % (n + 1) - 1;
        for (int i = 0; i < n; i++) {
            int at = i, steps = 0;
            while (at >= 0 && steps++ <= n)
                at = parent[at];
            tree = tree && at < 0;
        }
        for (int i = 0; i < n && tree; i++)
            cost_add(&sum, edge(b, parent[i] < 0 ? from : targets->at[parent[i]].layout, targets->at[i].layout, type));
        if (tree && cost_compare(sum, best) < 0) best = sum;
    }
    return best;
}

Test(tree, the_cheapest_way_to_several_layouts_is_found) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    uint32_t seed = 7;
    int tried = 0, equal = 0, helped = 0;
    for (int i = 0; i < 1500; i++) {
        TensorType type = {.dtype = F32, .shape = {2, {8 + 8 * (int64_t)(next(&seed) % 3), 8 + 4 * (int64_t)(next(&seed) % 3)}}};
        const Layout *from = random_layout(&x.b->spmd.graph, &type.shape, true, &seed);
        WantedLayouts targets = {0};
        int n = 1 + (int)(next(&seed) % 3);
        for (int k = 0; k < n; k++) {
            const Layout *to = random_layout(&x.b->spmd.graph, &type.shape, false, &seed);
            bool known = to == from;
            for (int j = 0; j < targets.n; j++)
                known = known || targets.at[j].layout == to;
            if (!known)
                vec_push(&x.arena, &targets,
                         (Wanted){.layout = to, .elements = layout_max_elements(to, &type.shape), .value = -1, .parent = -1});
        }
        if (targets.n == 0) continue;
        ConversionCost best = best_tree(x.b, &type, from, &targets);
        ConversionCost found = tree_plan(x.b, &type, from, &targets);
        for (int k = 0; k < targets.n; k++)
            helped += targets.at[k].helps;
        tried++;
        equal += cost_compare(found, best) <= 0;
        cr_expect_leq(found.max, 2 * best.max, "case %d", i);
    }
    cr_expect_eq(equal, tried, "%d of %d as cheap as the cheapest tree", equal, tried);
    cr_expect_gt(helped, 0, "a step in between never helped");
    compiled_finish(&x);
}
