/* materialize: makes the SPMD graph of a sharded graph: its nodes, and a convert node for every step of a conversion before its first user.
 *
 * Before: a sharded graph. After: b->spmd holds the graph's values under the same ids, each in the layout in which it is made, and converts with values of their own. Every
 * operand has the layout that its node needs. A value that several nodes need in one layout is converted once (if it is regathered, once in each phase), and conversions that
 * begin with equal steps share these.
 *
 * canonical (reshard; dumps, -O0, -O1)  MindSpore's form: a value is converted into its home layout where it is made, a partial sum by an AllReduce; then for each
 *   user AllGather from the first digit that differs, StridedSlice.
 * planned (collectives; -O2)  the conversions of a value for all its readers are a tree (tree.c): so a partial sum whose users read parts of it becomes a
 *   ReduceScatter where that is exact, else an exchange; no AllReduce or AllGather is left whose result is only sliced, nor are conversions that cancel. */
#include <assert.h>
#include <string.h>

#include "compiler/convert.h"
#include "compiler/sharded.h"
#include "ir/copy.h"
#include "ir/map.h"

typedef struct Materialize {
    Edit edit;
    Spmd *spmd;
    GraphCopy copy; /* of the sharded graph's nodes */
    bool planned;
    int *at_home; /* canonical: per value, it in its home layout */
    struct Tree { /* planned: two per value, of its conversions that stay, and of those for the present phase */
        WantedLayouts wanted;
        int planned; /* for this phase, + 1 */
    } * tree;
    VEC(int) phase; /* per value of the new graph: the phase for which it is gathered; 0: it stays */
    Map converts;   /* made: by source, kind, layout and phase */
} Materialize;

/* ---------------------------------------------------------------- converts */

/* The value of a step of a conversion; equal steps share one. */
static int add_convert(Materialize *m, int source, CommKind kind, const Layout *to, int phase) {
    Spmd *spmd = m->spmd;
    Graph *g = &spmd->graph;
    const Layout *layout = graph_layout(g, to, &g->values.at[source].type.shape);
    uint64_t hash = hash_mix(hash_mix((uint64_t)source, (uint64_t)kind), (uint64_t)graph_layout_number(g, layout) ^ (uint64_t)phase << 32);
    map_each(&m->converts, hash, v) {
        const Node *made = &g->nodes.at[g->values.at[v].node];
        if (made->in[0] == source && made->comm == kind && g->values.at[v].layout == layout && m->phase.at[v] == phase) return v;
    }
    const char *name = m->edit.g->values.at[spmd->whole_value.at[source]].name; /* made unique by a number */
    int value = graph_emit(g, OP_convert, &source, 1, NULL, name, g->nodes.at[g->values.at[source].node].span);
    g->values.at[value].layout = layout;
    Node *node = &g->nodes.at[g->nodes.n - 1];
    assert(node->op == OP_convert && node->out[0] == value && g->values.n == value + 1);
    node->comm = kind;
    vec_push(g->arena, &spmd->whole_node, -1);
    vec_push(g->arena, &spmd->whole_value, spmd->whole_value.at[source]);
    vec_push(g->arena, &m->phase, phase);
    map_add(g->arena, &m->converts, hash, value);
    return value;
}

static int convert_by(Materialize *m, int value, const Layout *to, RedistributePolicy policy, int phase) {
    const Graph *g = &m->spmd->graph;
    TensorType type = g->values.at[value].type;
    const Conversion *conversion = conversion_plan(m->edit.b, g->values.at[value].layout, to, &type, policy);
    for (int s = 0; s < conversion->nsteps; s++)
        value = add_convert(m, value, conversion->step[s].kind, &conversion->step[s].to, phase);
    return value;
}

/* ---------------------------------------------------------------- planned: a tree for each value */

/* Makes wanted layout i, and what it is made from. */
static int make(Materialize *m, struct Tree *tree, int root, int i) {
    Wanted *wanted = &tree->wanted.at[i];
    if (wanted->value >= 0) return wanted->value;
    int value = wanted->parent < 0 ? root : make(m, tree, root, wanted->parent);
    return tree->wanted.at[i].value = convert_by(m, value, wanted->layout, m->edit.b->options->redistribution, wanted->phase);
}

/* The same from the value's tree. Phases come one after another, so one tree is that of the last phase; what phase 0 wants stays and has
 * its own. */
static int obtain_planned(Materialize *m, int root, const Layout *layout, int phase) {
    struct Tree *tree = &m->tree[2 * root + (phase > 0)];
    if (layout == m->edit.s->made[root]) return root;
    if (tree->planned != phase + 1) {
        wanted_layouts(&m->edit, root, phase, &tree->wanted);
        tree_plan(m->edit.b, type_of(m->edit.g, root), m->edit.s->made[root], &tree->wanted);
        tree->planned = phase + 1;
    }
    for (int i = 0; i < tree->wanted.n; i++)
        if (tree->wanted.at[i].layout == layout) return make(m, tree, root, i);
    assert(!"a layout in which nothing takes the value");
    return root;
}

/* ---------------------------------------------------------------- the graph */

static int obtain_canonical(Materialize *m, int value, const Layout *layout, int phase) {
    return m->spmd->graph.values.at[value].layout == layout ? value : convert_by(m, value, layout, REDISTRIBUTE_CANONICAL, phase);
}

/* The new graph's value for a value of the sharded graph, in this layout, for users in this phase. */
static int obtain(Materialize *m, int value, const Layout *layout, int phase) {
    return m->planned ? obtain_planned(m, value, layout, phase) : obtain_canonical(m, m->at_home[value], layout, phase);
}

static void add_node(Materialize *m, int id) {
    Spmd *spmd = m->spmd;
    Graph *g = &spmd->graph;
    Node node = m->edit.g->nodes.at[id];
    for (int i = 0; i < node.nin; i++)
        node.in[i] = obtain(m, node.in[i], m->edit.s->need[id][i], taken_in(m->edit.s, node.in[i], id, m->edit.s->need[id][i]));
    node.strategy = m->edit.s->strategy[id];
    copy_node(&m->copy, id, node);
    vec_push(g->arena, &spmd->whole_node, id);
    for (int k = 0; k < node.nout; k++) {
        if (!m->planned) m->at_home[node.out[k]] = obtain_canonical(m, node.out[k], m->edit.s->home[node.out[k]], 0);
        for (int i = 0; i < graph_nreports(m->edit.g); i++)
            if (node.out[k] == graph_report(m->edit.g, i)) graph_set_report(g, i, obtain(m, node.out[k], m->edit.s->report_need[i], 0));
    }
    copy_forward(&m->copy, id);
}

static bool measure_boxes(Spmd *spmd, Error *error) {
    const Graph *g = &spmd->graph;
    spmd->box_bytes = arena_alloc(g->arena, sizeof *spmd->box_bytes * (size_t)(g->values.n + 1));
    for (int v = 0; v < g->values.n; v++) {
        const Value *value = &g->values.at[v];
        int64_t elements = layout_max_elements(value->layout, &value->type.shape);
        if (!mul_checked(elements, dtype_bytes[value->type.dtype], &spmd->box_bytes[v]))
            return error_set(error, EXIT_REJECTED, "%s: a rank's part does not fit in 2^63 bytes", value->name);
    }
    return true;
}

static bool materialize(Build *b, bool planned) {
    Spmd *spmd = &b->spmd;
    if (spmd->graph.nodes.n > 0) graph_release(&spmd->graph);
    *spmd = (Spmd){0};
    Materialize m = {.edit = edit_begin(b), .spmd = spmd, .planned = planned};
    const Graph *from = m.edit.g;
    Graph *g = &spmd->graph;
    *g = *from;
    copy_begin_nodes(&m.copy, g, from->nodes.n + from->nodes.n / 2, from->values.n + from->values.n / 2);
    for (int v = 0; v < from->values.n; v++) {
        g->values.at[v].layout = b->sharded.made[v];
        vec_push(b->arena, &spmd->whole_value, v);
        vec_push(b->arena, &m.phase, 0);
    }
    if (planned)
        m.tree = arena_alloc(b->arena, sizeof *m.tree * 2 * (size_t)(from->values.n + 1));
    else
        m.at_home = arena_alloc(b->arena, sizeof *m.at_home * (size_t)(from->values.n + 1));
    for (int n = 0; n < from->nodes.n; n++)
        add_node(&m, n);
    return measure_boxes(spmd, &b->error);
}

bool pass_reshard(Build *b) {
    return (b->options->optimize > 1 && !b->options->dump) || materialize(b, false);
}

bool pass_collectives(Build *b) {
    if (b->options->optimize < 2) return !b->sharded.recomputes || materialize(b, false);
    return materialize(b, true);
}
