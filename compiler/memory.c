/* memory: where every value lies.
 *
 * Before: b->placement.order. After: location[v] of every value of c->spmd that a step names, and arena_bytes:
 * - inputs, constants and the old version of states are read where they are, without a copy; so is one of these in another shape (a reshape, a
 *   replica of a parameter; not at -O0);
 * - a new state lies in its state's storage, and its write costs nothing, if it has the storage layout and the old version is dead when
 *   it is computed, or dies in an elementwise kernel that may overwrite it (not at -O0);
 * - everything else lies in one arena of each rank: a value has room for the largest box of any rank, from the step that begins to write it to the
 *   last that reads it (of a communication its wait), in multiples of 64 bytes, placed by pack.h. An elementwise or reshaped result, or the one slice
 *   of a replica's gradient, lies over an operand that dies (not at -O0);
 * - a view (views.c) lies in its operand, which lasts until the last reader of either and is overwritten by no step that reads a view of it.
 * A fused step is one step: its operands last until its end, its results exist from its beginning on, and what only its members read has no memory. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/pack.h"
#include "compiler/roles.h"

enum { ALIGNMENT = 64 };

typedef struct Allocator {
    Build *b;
    VEC(Buffer) buffers; /* of the arena; until all are placed, Location.at of a value is the number of its buffer */
    int *begin, *end;    /* per step: the first and the last of the fused step that it is a member of; itself */
    int *def, *last;     /* per value: index in b->placement.order of the step that begins to write it, of the last one that reads it */
    bool *moved;         /* its memory belongs to a later value */
} Allocator;

static int64_t room(const Build *b, int value) {
    return (b->spmd.box_bytes[value] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---------------------------------------------------------------- lifetimes */

static void fused_steps(Allocator *a) {
    const Placement *placement = &a->b->placement;
    const int n = placement->order.n;
    a->begin = arena_alloc(a->b->arena, sizeof *a->begin * (size_t)(n + 1));
    a->end = arena_alloc(a->b->arena, sizeof *a->end * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        fused_items(placement, i, &a->begin[i], &a->end[i]);
}

static void lifetimes(Allocator *a) {
    Build *b = a->b;
    const Graph *g = &b->spmd.graph;
    for (int v = 0; v < g->values.n; v++)
        a->def[v] = a->last[v] = -1;
    for (int i = 0; i < b->placement.order.n; i++) {
        const Node *node = &g->nodes.at[b->placement.order.at[i].node];
        for (int k = 0; k < node->nin; k++)
            for (int v = node->in[k]; v >= 0; v = b->placement.view[v]) /* and what it is a view of */
                a->last[v] = a->end[i]; /* a communication's wait comes later than its start: the source lasts until then */
        for (int k = 0; k < node->nout; k++) {
            if (a->def[node->out[k]] < 0) a->def[node->out[k]] = a->begin[i];
            a->last[node->out[k]] = a->end[i];
        }
    }
    for (int k = 0; k < graph_nreports(g); k++)
        a->last[graph_report(g, k)] = b->placement.order.n; /* read after the last step */
}

/* ---------------------------------------------------------------- places outside the arena */

static void place_leaves(Build *b) {
    const Graph *g = &b->spmd.graph;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (!node_is_leaf(node)) continue;
        Location *location = &b->placement.location[node->out[0]];
        if (node->op == OP_read)
            *location = (Location){PLACE_STATE, node->state, node->version};
        else if (node->op == OP_input)
            *location = (Location){PLACE_INPUT, node->state, 0};
        else
            *location = (Location){PLACE_CONSTANT, b->spmd.whole_node.at[n], 0};
    }
}

/* The operand over which node's result k may be computed: operand k, or for `where` the last one; -1: none. */
static int overwritten(const Graph *g, const Node *node, int k) {
    const int operand = node->op == OP_where ? 2 : k;
    if ((!op_table[node->op].in_place && node->op != OP_where) || operand >= node->nin) return -1;
    const Value *from = &g->values.at[node->in[operand]], *to = &g->values.at[node->out[k]];
    return from->layout == to->layout && type_equal(&from->type, &to->type) ? operand : -1;
}

/* Whether a step reads a view of a value. */
static bool reads_view(const Build *b, const Node *node, int value) {
    for (int i = 0; i < node->nin; i++)
        for (int v = b->placement.view[node->in[i]]; v >= 0; v = b->placement.view[v])
            if (v == value) return true;
    return false;
}

/* Places what is a state's old version, or an input, in another shape where that lies: nothing is copied. The storage must last until its
 * last reader. */
static void place_views(const Allocator *a) {
    Build *b = a->b;
    const Graph *g = &b->spmd.graph;
    int *written = arena_alloc(b->arena, sizeof *written * (size_t)(g->states.n + 1)); /* per state the step `write` */
    for (int s = 0; s < g->states.n; s++)
        written[s] = b->placement.order.n;
    for (int i = 0; i < b->placement.order.n; i++) {
        const Node *node = &g->nodes.at[b->placement.order.at[i].node];
        if (node->op == OP_write) written[node->state] = i;
    }
    for (int i = 0; i < b->placement.order.n; i++) {
        const Node *node = &g->nodes.at[b->placement.order.at[i].node];
        if (!op_table[node->op].view || b->placement.view[node->out[0]] >= 0) continue;
        int from = node->in[0], to = node->out[0];
        const Location *at = &b->placement.location[from];
        bool lasts = at->place == PLACE_INPUT || (at->place == PLACE_STATE && at->version == 0 && a->last[to] < written[at->at]);
        if (lasts && b->spmd.box_bytes[from] == b->spmd.box_bytes[to]) b->placement.location[to] = *at;
    }
}

/* Places new states in the storage of the old ones, if those are dead by then. A value written to several states lies in none: each has a
 * copy. */
static void place_states(Allocator *a) {
    Build *b = a->b;
    const Graph *g = &b->spmd.graph;
    int *nwrites = arena_alloc(b->arena, sizeof *nwrites * (size_t)(g->values.n + 1)); /* per value the states that take it */
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_write) nwrites[g->nodes.at[n].in[0]]++;
    int *last_read = arena_alloc(b->arena, sizeof *last_read * (size_t)(g->states.n + 1)); /* last step that reads the old version */
    for (int s = 0; s < g->states.n; s++)
        last_read[s] = -1;
    for (int v = 0; v < g->values.n; v++) {
        const Location *at = &b->placement.location[v]; /* what is read, and its views */
        if (at->place == PLACE_STATE && a->last[v] > last_read[at->at]) last_read[at->at] = a->last[v];
    }
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *write = &g->nodes.at[n];
        if (write->op != OP_write) continue;
        int value = write->in[0];
        const Value *v = &g->values.at[value];
        const Node *maker = &g->nodes.at[v->node];
        if (a->def[value] < 0 || nwrites[value] > 1 || node_is_leaf(maker) || v->layout != g->states.at[write->state].layout) continue;
        if (b->placement.location[value].place == PLACE_ELSEWHERE) continue; /* it is sent to the ranks that have the state */
        const int operand = overwritten(g, maker, v->index);
        bool over = operand >= 0;
        if (over) {
            const Node *old = graph_producer(g, maker->in[operand]);
            over = old->op == OP_read && old->state == write->state && !reads_view(b, maker, maker->in[operand]);
        }
        if (last_read[write->state] < a->def[value] || (over && last_read[write->state] == a->def[value]))
            b->placement.location[value] = (Location){PLACE_STATE, write->state, 1};
    }
}

/* ---------------------------------------------------------------- the walk */

/* Whether node's result k may lie where its operand k lies, also in another shape, element for element. */
static bool may_take_over(const Build *b, const Node *node, int k) {
    if (overwritten(&b->spmd.graph, node, k) == k) return true;
    return op_table[node->op].flat && b->spmd.box_bytes[node->in[k]] == b->spmd.box_bytes[node->out[k]];
}

/* Takes over the memory of operand k, which dies in this step. */
static bool take_over(Allocator *a, const Node *node, int k, int step) {
    Build *b = a->b;
    int from = node->in[k];
    if (!may_take_over(b, node, k) || b->placement.location[from].place != PLACE_ARENA || a->last[from] != step || a->def[from] < 0 ||
        a->moved[from] || reads_view(b, node, from))
        return false;
    b->placement.location[node->out[k]] = b->placement.location[from];
    a->moved[from] = true;
    return true;
}

static const Node *step_node(const Allocator *a, int step) {
    return &a->b->spmd.graph.nodes.at[a->b->placement.order.at[step].node];
}

/* Whether a member of a fused step works element by element: its result is as large as this operand, and element i of it needs only element
 * i of operands as large. */
static bool goes_by_element(const Allocator *a, const Node *node, int operand) {
    const Graph *g = &a->b->spmd.graph;
    const Value *from = &g->values.at[operand], *to = &g->values.at[node->out[0]];
    return node->nout == 1 && op_elementwise(node->op) &&
           dtype_bytes[g->values.at[node->in[0]].type.dtype] == dtype_bytes[to->type.dtype] && from->layout == to->layout &&
           shape_equal(&from->type.shape, &to->type.shape);
}

static bool reads(const Node *node, int value) {
    for (int i = 0; i < node->nin; i++)
        if (node->in[i] == value) return true;
    return false;
}

/* Whether this is the gradient of a gelu behind its product: a library that computes both in one call may not read where it writes. */
static bool stays_apart(const Allocator *a, int step) {
    const OpCode first = step_node(a, a->begin[step])->op;
    return step_node(a, step)->op == OP_gelu_grad && (first == OP_matmul || first == OP_einsum);
}

/* Lets a result of the member at `step` take over the memory of an operand that dies in the fused step; docs/plan.md says which may be. */
static bool take_over_fused(Allocator *a, int step, int value) {
    const Build *b = a->b;
    if (stays_apart(a, step)) return false;
    for (int s = a->begin[step]; s <= step; s++)
        for (int i = 0; i < step_node(a, s)->nin; i++) {
            const int from = step_node(a, s)->in[i];
            bool may = b->placement.location[from].place == PLACE_ARENA && a->def[from] >= 0 && a->def[from] < a->begin[step] &&
                       a->last[from] == a->end[step] && !a->moved[from] &&
                       b->spmd.graph.values.at[from].type.dtype == b->spmd.graph.values.at[value].type.dtype;
            for (int k = a->begin[step]; may && k < s; k++)
                may = !reads(step_node(a, k), from); /* looked at already */
            for (int k = a->begin[step]; may && k <= a->end[step]; k++)
                may = !reads_view(b, step_node(a, k), from);
            for (int k = s; may && k <= a->end[step]; k++)
                may = k <= step ? goes_by_element(a, step_node(a, k), from) : !reads(step_node(a, k), from);
            if (!may) continue;
            b->placement.location[value] = b->placement.location[from];
            a->moved[from] = true;
            return true;
        }
    return false;
}

/* Gives memory to the results of the step, or member, at `step`. */
static void place_results(Allocator *a, int step) {
    Build *b = a->b;
    const Node *node = step_node(a, step);
    const bool reuse = b->options->optimize > 0, fused = b->placement.order.at[step].fused > 0;
    if (b->placement.order.at[step].wait || node->op == OP_write) return;
    for (int k = 0; k < node->nout; k++) {
        Location *location = &b->placement.location[node->out[k]];
        if (fused && location->place == PLACE_ARENA && a->last[node->out[k]] == a->end[step]) *location = (Location){.place = PLACE_INNER};
        if (location->place != PLACE_ARENA || (reuse && (fused ? take_over_fused(a, step, node->out[k]) : take_over(a, node, k, step))))
            continue;
        location->at = a->buffers.n;
        vec_push(b->arena, &a->buffers, (Buffer){.begin = a->begin[step], .bytes = room(b, node->out[k])});
    }
}

/* The buffer of a value, NULL: it lies elsewhere, or nowhere. */
static Buffer *buffer_of(const Allocator *a, int value) {
    const Location *location = &a->b->placement.location[value];
    const bool has = location->place == PLACE_ARENA && a->def[value] >= 0 && graph_producer(&a->b->spmd.graph, value)->op != OP_write;
    return has ? &a->buffers.at[location->at] : NULL;
}

/* Replaces numbers of buffers by offsets. */
static void place_buffers(Allocator *a) {
    const int nvalues = a->b->spmd.graph.values.n;
    for (int v = 0; v < nvalues; v++) {
        Buffer *buffer = buffer_of(a, v);
        if (buffer != NULL && buffer->end < a->last[v]) buffer->end = a->last[v];
    }
    a->b->placement.arena_bytes = pack_buffers(a->buffers.at, a->buffers.n, a->b->arena);
    for (int v = 0; v < nvalues; v++) {
        const Buffer *buffer = buffer_of(a, v);
        if (buffer != NULL) a->b->placement.location[v].at = buffer->at;
    }
}

static bool memory_role(Build *b) {
    const Graph *g = &b->spmd.graph;
    Allocator a = {.b = b};
    size_t values = (size_t)g->values.n + 1;
    b->placement.location = arena_alloc(b->arena, sizeof *b->placement.location * values);
    a.def = arena_alloc(b->arena, sizeof *a.def * values);
    a.last = arena_alloc(b->arena, sizeof *a.last * values);
    a.moved = arena_alloc(b->arena, values);
    fused_steps(&a);
    lifetimes(&a);
    place_leaves(b);
    for (int v = 0; v < g->values.n && b->nroles > 1; v++)
        if (!role_holds(b, v)) b->placement.location[v] = (Location){.place = PLACE_ELSEWHERE};
    for (int v = 0; v < g->values.n; v++)
        if (b->placement.view[v] >= 0) b->placement.location[v] = (Location){.place = PLACE_VIEW, .at = b->placement.view[v]};
    bool reuse = b->options->optimize > 0;
    if (reuse) {
        place_views(&a);
        place_states(&a);
    }
    for (int i = 0; i < b->placement.order.n; i++)
        place_results(&a, i);
    place_buffers(&a);
    return true;
}

bool pass_memory(Build *b) {
    return roles_each(b, memory_role);
}
