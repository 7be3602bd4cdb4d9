/* collectives: c->spmd as it runs (-O2).
 *
 * Before: c->spmd in canonical form, c->flow as partial.c and place.c left it. After: every node takes its operands and leaves its results as the
 * flow says, and the ways from each value to those who take it are a tree of conversions (tree.c): so a partial sum whose users want parts of
 * it becomes a ReduceScatter where that is exact, else an exchange; an AllReduce or AllGather whose result was only sliced is gone, conversions
 * that cancel are gone, and equal communications of one value are one. At -O0 and -O1 nothing changes. */
#include <assert.h>

#include "compiler/flow.h"

/* The targets of one value, planned when its first user comes. */
typedef struct Wanted {
    Targets targets;
    bool planned;
} Wanted;

/* Makes target i, and what it is made from, in the new graph. */
static int make(Rebuild *r, int root, Wanted *wanted, int i) {
    Compilation *c = r->c;
    Target *target = &wanted->targets.at[i];
    if (target->value >= 0) return target->value;
    int value = target->parent < 0 ? root : make(r, root, wanted, target->parent);
    const Layout *from = target->parent < 0 ? c->flow->layout[root] : wanted->targets.at[target->parent].layout;
    TensorType type = c->spmd.values.at[root].type;
    const Conversion *conversion = conversion_plan(c, from, target->layout, &type, c->options->redistribution);
    for (int s = 0; s < conversion->nsteps; s++)
        value = rebuild_convert(r, value, conversion->step[s].kind, &conversion->step[s].to);
    return wanted->targets.at[i].value = value;
}

/* The new graph's value for `root` in this layout. Roots keep their ids. */
static int obtain(Rebuild *r, Wanted *wanted, int root, const Layout *layout) {
    Flow *flow = r->c->flow;
    Targets *targets = &wanted[root].targets;
    if (layout == flow->layout[root]) return root;
    if (!wanted[root].planned) {
        flow_targets(flow, root, targets);
        tree_plan(r->c, &r->old.values.at[root].type, flow->layout[root], targets);
        wanted[root].planned = true;
    }
    for (int i = 0; i < targets->n; i++)
        if (targets->at[i].layout == layout) return make(r, root, &wanted[root], i);
    assert(!"a layout that nobody announced");
    return root;
}

bool pass_collectives(Compilation *c) {
    if (c->options->optimize < 2) return true;
    Flow *flow = flow_of(c);
    Graph old = c->spmd;
    flow->g = &old;
    for (int v = 0; v < c->graph.values.n; v++)
        old.values.at[v].layout = flow->layout[v];
    Wanted *wanted = arena_alloc(c->arena, sizeof *wanted * (size_t)(old.values.n + 1));
    Rebuild r;
    rebuild_begin(&r, c, &old, c->graph.values.n);
    for (int n = 0; n < old.nodes.n; n++) {
        const Node *node = &old.nodes.at[n];
        if (n == old.nforward) c->spmd.nforward = c->spmd.nodes.n;
        if (node->op == OP_convert) continue;
        int in[MAX_IN];
        for (int i = 0; i < node->nin; i++)
            in[i] = obtain(&r, wanted, flow->root[n][i], flow->need[n][i]);
        rebuild_node(&r, n, in);
        for (int k = 0; k < node->nout; k++)
            for (int i = 0; i < flow->nreports; i++)
                if (node->out[k] == flow->report[i]) graph_set_report(&c->spmd, i, obtain(&r, wanted, flow->report[i], flow->report_need[i]));
    }
    if (old.nforward == old.nodes.n) c->spmd.nforward = c->spmd.nodes.n;
    c->flow = NULL;
    graph_release(&old);
    return pass_localize(c);
}
