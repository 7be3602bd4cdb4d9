/* collectives: the conversions of a value planned together (-O2).
 *
 * Before: c->spmd in canonical form. After: the same values reach the same users in the same layouts, by fewer bytes:
 * - all converts between a value as its producer leaves it and a layout in which some node takes it are one conversion, replanned; so a
 * partial sum whose users want parts of it becomes a ReduceScatter where that is exact, else an exchange, and an AllReduce whose result was
 * only sliced is gone;
 * - when several layouts are wanted, each is made from whatever is cheapest among the value itself and the layouts made before, larger
 * boxes first; equal communications of one value are one. At -O0 and -O1 nothing changes. */
#include <assert.h>
#include <string.h>

#include "compiler/compiler.h"

/* A layout in which users take a value, and how it is made. */
typedef struct Target {
    const Layout *layout;
    int64_t elements; /* of the largest box */
    int value;        /* in the new graph, -1: not yet made */
    int parent;       /* target from which it is made, -1: the value itself */
} Target;

/* The targets of one value: in order of first use, after plan_targets by falling size. */
typedef struct Wanted {
    VEC(Target) targets;
    bool planned;
} Wanted;

enum { MAX_SOURCES = 16 }; /* targets tried as a source for later ones: bounds the work for a value with very many users */

/* The value at the start of the converts that lead to v. */
static int root_of(const Graph *g, int v) {
    while (g->nodes.at[g->values.at[v].node].op == OP_convert)
        v = g->nodes.at[g->values.at[v].node].in[0];
    return v;
}

static int find_target(const Wanted *wanted, const Layout *layout) {
    for (int i = 0; i < wanted->targets.n; i++)
        if (wanted->targets.at[i].layout == layout) return i;
    return -1;
}

static void want(Compilation *c, Wanted *wanted, const Graph *g, int v) {
    int root = root_of(g, v);
    const Value *value = &g->values.at[v];
    if (value->layout == g->values.at[root].layout || find_target(&wanted[root], value->layout) >= 0) return;
    int64_t elements = layout_max_elements(value->layout, &value->type.shape);
    vec_push(c->arena, &wanted[root].targets, (Target){.layout = value->layout, .elements = elements, .value = -1, .parent = -1});
}

/* What a conversion costs: elements that the busiest rank receives, then the number of communications. */
static bool cheaper(const Conversion *a, const Conversion *b) {
    return a->received.max != b->received.max ? a->received.max < b->received.max : a->rounds < b->rounds;
}

/* Decides from what each target is made: largest boxes first, each from the cheapest source so far. */
static void plan_targets(Compilation *c, const Value *value, Wanted *wanted) {
    Target *target = wanted->targets.at;
    for (int i = 1; i < wanted->targets.n; i++) {
        Target moved = target[i];
        int at = i;
        for (; at > 0 && target[at - 1].elements < moved.elements; at--)
            target[at] = target[at - 1];
        target[at] = moved;
    }
    for (int i = 0; i < wanted->targets.n; i++) {
        const Conversion *best = conversion_plan(c, value->layout, target[i].layout, &value->type, c->options->redistribution);
        for (int j = 0; j < i && j < MAX_SOURCES; j++) {
            const Conversion *other = conversion_plan(c, target[j].layout, target[i].layout, &value->type, c->options->redistribution);
            if (!cheaper(other, best)) continue;
            best = other;
            target[i].parent = j;
        }
    }
    wanted->planned = true;
}

/* Makes target i, and what it is made from, in the new graph. */
static int make(Rebuild *r, int root, Wanted *wanted, int i) {
    Compilation *c = r->c;
    Target *target = &wanted->targets.at[i];
    if (target->value >= 0) return target->value;
    int value = target->parent < 0 ? root : make(r, root, wanted, target->parent);
    TensorType type = c->spmd.values.at[root].type;
    const Conversion *conversion = conversion_plan(c, c->spmd.values.at[value].layout, target->layout, &type, c->options->redistribution);
    for (int s = 0; s < conversion->nsteps; s++)
        value = rebuild_convert(r, value, conversion->step[s].kind, &conversion->step[s].to);
    return target->value = value;
}

/* The new graph's value for what was v in the old one. Roots keep their ids. */
static int obtain(Rebuild *r, Wanted *wanted, int v) {
    int root = root_of(&r->old, v);
    const Layout *layout = r->old.values.at[v].layout;
    if (layout == r->old.values.at[root].layout) return root;
    if (!wanted[root].planned) plan_targets(r->c, &r->old.values.at[root], &wanted[root]);
    int target = find_target(&wanted[root], layout);
    assert(target >= 0);
    return make(r, root, &wanted[root], target);
}

bool pass_collectives(Compilation *c) {
    if (c->options->optimize < 2) return true;
    Graph old = c->spmd;
    Wanted *wanted = arena_alloc(c->arena, sizeof *wanted * (size_t)(old.values.n + 1));
    for (int n = 0; n < old.nodes.n; n++)
        for (int i = 0; old.nodes.at[n].op != OP_convert && i < old.nodes.at[n].nin; i++)
            want(c, wanted, &old, old.nodes.at[n].in[i]);
    if (old.loss >= 0) want(c, wanted, &old, old.loss);

    Rebuild r;
    rebuild_begin(&r, c, &old, c->graph.values.n);
    for (int n = 0; n < old.nodes.n; n++) {
        const Node *node = &old.nodes.at[n];
        if (n == old.nforward) c->spmd.nforward = c->spmd.nodes.n;
        if (node->op == OP_convert) continue;
        int in[MAX_IN];
        for (int i = 0; i < node->nin; i++)
            in[i] = obtain(&r, wanted, node->in[i]);
        rebuild_node(&r, n, in);
        for (int k = 0; k < node->nout; k++)
            if (old.loss >= 0 && node->out[k] == root_of(&old, old.loss)) c->spmd.loss = obtain(&r, wanted, old.loss);
    }
    if (old.nforward == old.nodes.n) c->spmd.nforward = c->spmd.nodes.n;
    return pass_localize(c);
}
