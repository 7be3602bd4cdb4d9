/* recompute: values of the forward pass that are not kept for the gradients but computed again when they are needed.
 *
 * Before: place; all layouts are final. Nodes whose results are not kept are marked (Node.recompute). After: where a gradient would read a marked node, it reads a copy of it.
 * A copy stands directly before the first gradient that needs it, so the schedule computes it then; several gradients share one copy. A copy reads copies where its original
 * reads marked nodes, and otherwise the same values, which are kept. It has the strategy, the needs and the layouts of its original: it is the same operation on the same parts,
 * so its results are the same to the last bit. The proof compares the two (proof/copies.c).
 *
 * In mode data_parallel, where a parameter is gathered again, what the replicas read of it is such a value too: each phase of a step makes it from what is gathered there.
 *
 * A hint `path = regather` with which nothing is gathered twice gets a warning here, where all is known.
 *
 * With several batches in a step, what all of them share is kept: the forward pass of a later batch reads it after gradients of an earlier one. */
#include <stdlib.h>
#include <string.h>

#include "compiler/sharded.h"
#include "ir/copy.h"
#include "ir/wildcard.h"

typedef struct Recompute {
    Build *b;
    Sharded old;
    GraphCopy copy;
    int *again;      /* per old node: its last copy, -1: none yet */
    int *again_in;   /* per old node: the phase of that copy */
    VEC(int) from;   /* per new node: the old one whose strategy, needs and layouts it has */
    VEC(int) reader; /* per new node: the old node, or of a copy the first old gradient that needs it */
    VEC(int) need;   /* copies to be made: old nodes */
} Recompute;

/* Unmarks what later batches share with the first. */
static void keep_shared(Graph *g) {
    for (int n = g->nforward; n < g->nodes.n; n++)
        for (int i = 0; g->nodes.at[n].micro > 0 && i < g->nodes.at[n].nin; i++) {
            const int maker = g->values.at[g->nodes.at[n].in[i]].node;
            if (maker < g->nforward) g->nodes.at[maker].recompute = false;
        }
}

/* Marks what replicas read of parameters that are gathered again, also when cast to 16 bits. */
static void mark_replicas(Sharded *s) {
    Graph *g = &s->graph;
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        const Node *from = node->op == OP_cast ? graph_producer(g, node->in[0]) : NULL;
        if (node->op == OP_replicate && s->regather[node->in[0]] && s->need[n][0] != s->made[node->in[0]]) g->nodes.at[n].recompute = true;
        if (from != NULL && from->op == OP_replicate && from->recompute) g->nodes.at[n].recompute = true;
    }
}

/* Whether a value that is read in this phase was made in another one and is not kept. */
static bool is_dropped(const Graph *g, const int *phase, int value, int reader_phase) {
    const int maker = g->values.at[value].node;
    return g->nodes.at[maker].recompute && graph_is_forward(g, maker) && phase[maker] != reader_phase;
}

static bool any_reader(const Sharded *s) {
    const Graph *g = &s->graph;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++)
            if (is_dropped(g, s->phase, g->nodes.at[n].in[i], s->phase[n])) return true;
    return false;
}

static int ascending(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* Notes, in program order, the copies that have to be made before a node of the old graph. */
static void note_needs(Recompute *r, int id) {
    const Graph *g = &r->copy.from;
    const int phase = r->old.phase[id];
    r->need.n = 0;
    for (int next = -1; next < r->need.n; next++) {
        const Node *node = &g->nodes.at[next < 0 ? id : r->need.at[next]];
        for (int i = 0; i < node->nin; i++) {
            const int maker = g->values.at[node->in[i]].node;
            if (!is_dropped(g, r->old.phase, node->in[i], phase) || (r->again[maker] != -1 && r->again_in[maker] == phase)) continue;
            r->again[maker] = -2; /* noted */
            r->again_in[maker] = phase;
            vec_push(g->arena, &r->need, maker);
        }
    }
    if (r->need.n > 0) qsort(r->need.at, (size_t)r->need.n, sizeof *r->need.at, ascending);
}

/* The new value that a node of this phase, or a copy for it, reads in place of an old one. */
static int taken(const Recompute *r, int value, int phase) {
    const Value *v = &r->copy.from.values.at[value];
    return is_dropped(&r->copy.from, r->old.phase, value, phase) ? r->copy.to->nodes.at[r->again[v->node]].out[v->index]
                                                                 : r->copy.value[value];
}

static void compute_again(Recompute *r, int id, int reader) {
    Graph *g = r->copy.to;
    const Node *old = &r->copy.from.nodes.at[id];
    int in[MAX_IN];
    for (int i = 0; i < old->nin; i++)
        in[i] = taken(r, old->in[i], r->old.phase[reader]);
    const char *name = arena_printf(g->arena, "%s.again", old->name);
    const int first = graph_emit(g, old->op, in, old->nin, old->attr, name, old->span), made = g->values.at[first].node;
    Node *node = &g->nodes.at[made];
    node->origin = r->copy.node[old->origin];
    memcpy(node->origin_factor, old->origin_factor, sizeof node->origin_factor);
    node->copy_of = r->copy.node[id];
    node->stage = old->stage;
    node->strategy = old->strategy;
    node->from = STRATEGY_ORIGIN;
    for (int k = 0; k < node->nout; k++)
        g->values.at[node->out[k]].layout = r->copy.from.values.at[old->out[k]].layout;
    r->again[id] = made;
    vec_push(g->arena, &r->from, id);
    vec_push(g->arena, &r->reader, reader);
}

static void keep(Recompute *r, int id) {
    Node node = copy_operands(&r->copy, id);
    note_needs(r, id);
    for (int k = 0; k < r->need.n; k++)
        compute_again(r, r->need.at[k], id);
    for (int i = 0; i < node.nin; i++)
        node.in[i] = taken(r, r->copy.from.nodes.at[id].in[i], r->old.phase[id]);
    copy_node(&r->copy, id, node);
    vec_push(r->copy.to->arena, &r->from, id);
    vec_push(r->copy.to->arena, &r->reader, id);
}

/* Fills in for the new graph what the sharded one says of the old. */
static void fill(Recompute *r) {
    Sharded *s = &r->b->sharded;
    const Graph *g = &s->graph, *from = &r->copy.from;
    Arena *arena = r->b->arena;
    s->strategy = arena_alloc(arena, sizeof *s->strategy * (size_t)(g->nodes.n + 1));
    s->need = arena_alloc(arena, sizeof *s->need * (size_t)(g->nodes.n + 1));
    s->made = arena_alloc(arena, sizeof *s->made * (size_t)(g->values.n + 1));
    s->home = arena_alloc(arena, sizeof *s->home * (size_t)(g->values.n + 1));
    s->regather = arena_alloc(arena, (size_t)g->values.n + 1);
    s->phase = arena_alloc(arena, sizeof *s->phase * (size_t)(g->nodes.n + 1));
    int *chosen = arena_alloc(arena, sizeof *chosen * (size_t)(g->nodes.n + 1));
    for (int n = 0; n < g->nodes.n; n++) {
        const int old = r->from.at[n];
        s->strategy[n] = r->old.strategy[old];
        memcpy(s->need[n], r->old.need[old], sizeof s->need[n]);
        for (int k = 0; k < g->nodes.at[n].nout; k++) {
            s->made[g->nodes.at[n].out[k]] = r->old.made[from->nodes.at[old].out[k]];
            s->home[g->nodes.at[n].out[k]] = r->old.home[from->nodes.at[old].out[k]];
            s->regather[g->nodes.at[n].out[k]] = r->old.regather[from->nodes.at[old].out[k]];
        }
        s->phase[n] = r->old.phase[r->reader.at[n]];
        chosen[n] = chosen_of(r->b, old);
    }
    r->b->front.chosen_node = chosen;
}

/* ---------------------------------------------------------------- hints without effect */

/* Whether this hint has marked a value that is gathered again, or names one that another hint has marked. */
static bool is_useful(const Graph *g, const RegatherHint *hint, int value) {
    return g->nodes.at[g->values.at[value].node].regather == hint || pattern_covers(hint->path, g->values.at[value].name);
}

/* Warns of hints without effect; not on one rank, as the text is meant for more ranks too, nor for a program that is only tried. */
static void warn_regather(Build *b) {
    const Graph *g = &b->sharded.graph;
    const Settings *settings = &b->front.graph.settings;
    VEC(int) again = {0};
    if (b->tried || settings->regathers.n == 0 || g->nranks == 1) return;
    const Edit edit = edit_begin(b);
    for (int v = 0; v < g->values.n; v++)
        if (gathered_again(&edit, v)) vec_push(b->arena, &again, v);
    for (int i = 0; i < settings->regathers.n; i++) {
        const RegatherHint *hint = settings->regathers.at[i];
        bool useful = false;
        for (int k = 0; k < again.n && !useful; k++)
            useful = is_useful(g, hint, again.at[k]);
        if (!useful)
            diag_warning(b->diags, WARN_NO_EFFECT, hint->span,
                         "regather has no effect: nothing of %s is gathered for the forward pass and for the backward pass", hint->path);
    }
}

/* ---------------------------------------------------------------- the pass */

static void compute_all_again(Build *b) {
    Graph *g = &b->sharded.graph;
    Recompute r = {.b = b, .old = b->sharded};
    copy_begin(&r.copy, g, g->nodes.n + g->nforward, g->values.n + g->nforward);
    r.again = arena_alloc(b->arena, sizeof *r.again * (size_t)(r.copy.from.nodes.n + 1));
    r.again_in = arena_alloc(b->arena, sizeof *r.again_in * (size_t)(r.copy.from.nodes.n + 1));
    memset(r.again, -1, sizeof *r.again * (size_t)(r.copy.from.nodes.n + 1));
    for (int id = 0; id < r.copy.from.nodes.n; id++) {
        keep(&r, id);
        copy_forward(&r.copy, id);
    }
    copy_reports(&r.copy);
    fill(&r);
    b->sharded.recomputes = true;
}

bool pass_recompute(Build *b) {
    keep_shared(&b->sharded.graph);
    mark_replicas(&b->sharded);
    if (any_reader(&b->sharded)) compute_all_again(b);
    warn_regather(b);
    return true;
}
