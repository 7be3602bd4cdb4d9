/* schedule: the order in which every rank does its steps.
 *
 * Before: c->spmd. After: c->order holds every node that is no leaf once, operands first; a communication twice, start before wait, and its
 * source is ready at the start, its target used only after the wait. All ranks have the same order, so they start and wait for the same
 * communications in the same order: no rank can wait for one that another has not started (PROOF.md 1).
 * -O0: program order, wait directly after start, directly before the first user. Else:
 * - a communication starts as soon as its source is there, but at most WINDOW kernels before its first user, so that what is gathered
 *   early does not fill the memory; it is waited for directly before that user;
 * - an update and its writes come WINDOW kernels after the gradient and after the last reader of the old state: the gradient's
 * communication runs beside the kernels between, and its memory is free soon after. */
#include <stdlib.h>
#include <string.h>

#include "compiler/compiler.h"

enum { WINDOW = 8 };
enum { NEVER = -1 };

typedef struct Keyed {
    int key, node;
} Keyed;

typedef struct Scheduler {
    Compilation *c;
    const Graph *g;
    int n;                         /* nodes that are neither leaf nor convert */
    int *at;                       /* position p -> node, in the order of execution */
    int *position;                 /* node -> p; convert: of its first user, n for the loss, NEVER: no user */
    int *first_start, *next_start; /* position -> converts to start before it, by id; per node: the next of its position */
    char *state;                   /* per convert node: not begun, started, done */
} Scheduler;
enum { IDLE, STARTED, DONE };

static bool is_leaf(const Node *node) {
    return op_table[node->op].op_class == OP_CLASS_LEAF;
}
static const Node *producer(const Graph *g, int value) {
    return &g->nodes.at[g->values.at[value].node];
}

/* The leaf or kernel at the start of the converts that lead to a value. */
static int root_node(const Graph *g, int value) {
    while (producer(g, value)->op == OP_convert)
        value = producer(g, value)->in[0];
    return g->values.at[value].node;
}

static int keyed_compare(const void *a, const void *b) {
    const Keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

/* Per state the key after which no one but updates reads the old version. */
static void note_reader(const Graph *g, const Node *node, int key, int *last_reader) {
    for (int i = 0; i < node->nin; i++) {
        const Node *root = &g->nodes.at[root_node(g, node->in[i])];
        if (root->op == OP_read && key > last_reader[root->state]) last_reader[root->state] = key;
    }
}

/* Sorts kernels, updates and writes: kernels in program order, an update WINDOW kernels after what it needs. */
static void order_kernels(Scheduler *s) {
    const Graph *g = s->g;
    Arena *arena = s->c->arena;
    Keyed *keyed = arena_alloc(arena, sizeof *keyed * (size_t)(g->nodes.n + 1));
    int *key = arena_alloc(arena, sizeof *key * (size_t)(g->nodes.n + 1)); /* leaves: 0 */
    int *last_reader = arena_alloc(arena, sizeof *last_reader * (size_t)(g->states.n + 1));
    int window = s->c->options->optimize > 0 ? WINDOW : 0, count = 0;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (is_leaf(node) || node->op == OP_convert) continue;
        key[n] = ++count;
        for (int i = 0; i < node->nin; i++) {
            int before = key[root_node(g, node->in[i])];
            key[n] = before > key[n] ? before : key[n];
        }
        if (op_table[node->op].op_class != OP_CLASS_UPDATE) note_reader(g, node, key[n], last_reader);
    }
    for (int n = 0; n < g->nodes.n && window > 0; n++) { /* readers are known: updates may move up */
        const Node *node = &g->nodes.at[n];
        if (op_table[node->op].op_class != OP_CLASS_UPDATE) continue;
        int ready = 0;
        for (int i = 0; i < node->nin; i++) {
            const Node *root = &g->nodes.at[root_node(g, node->in[i])];
            int before = root->op == OP_read ? last_reader[root->state] : key[root_node(g, node->in[i])];
            ready = before > ready ? before : ready;
        }
        if (node->op == OP_write && last_reader[node->state] > ready) ready = last_reader[node->state];
        key[n] = node->op == OP_write ? ready : ready + window;
    }
    for (int n = 0; n < g->nodes.n; n++)
        if (!is_leaf(&g->nodes.at[n]) && g->nodes.at[n].op != OP_convert) keyed[s->n++] = (Keyed){key[n], n};
    qsort(keyed, (size_t)s->n, sizeof *keyed, keyed_compare);
    for (int p = 0; p < s->n; p++) {
        s->at[p] = keyed[p].node;
        s->position[keyed[p].node] = p;
    }
}

/* The position of each convert's first user. */
static void first_users(Scheduler *s) {
    const Graph *g = s->g;
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_convert) s->position[n] = NEVER;
    if (g->loss >= 0 && producer(g, g->loss)->op == OP_convert) s->position[g->values.at[g->loss].node] = s->n;
    for (int n = g->nodes.n - 1; n >= 0; n--) { /* users stand behind what they use */
        if (s->position[n] == NEVER || is_leaf(&g->nodes.at[n])) continue;
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            int source = g->values.at[g->nodes.at[n].in[i]].node;
            if (g->nodes.at[source].op == OP_convert && (s->position[source] == NEVER || s->position[source] > s->position[n]))
                s->position[source] = s->position[n];
        }
    }
}

/* Communications of a kernel's or leaf's value that may start before their first user is next. */
static void place_starts(Scheduler *s) {
    const Graph *g = s->g;
    for (int n = g->nodes.n - 1; n >= 0; n--) {
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || s->position[n] == NEVER) continue;
        const Node *source = producer(g, node->in[0]);
        if (source->op == OP_convert) continue;
        int ready = is_leaf(source) ? 0 : s->position[g->values.at[node->in[0]].node] + 1;
        int early = s->position[n] - WINDOW;
        int start = early > ready ? early : ready;
        s->next_start[n] = s->first_start[start];
        s->first_start[start] = n;
    }
}

/* ---------------------------------------------------------------- the list of steps */

static void emit(Scheduler *s, int node, bool wait) {
    vec_push(s->c->arena, &s->c->order, (Item){node, wait});
}

/* Makes a value usable: waits for its communication, having started it where nobody did yet. */
static void require(Scheduler *s, int value) {
    int n = s->g->values.at[value].node;
    const Node *node = &s->g->nodes.at[n];
    if (node->op != OP_convert || s->state[n] == DONE) return;
    if (s->state[n] == IDLE) {
        require(s, node->in[0]);
        emit(s, n, false);
    }
    if (node->comm != COMM_STRIDED_SLICE) emit(s, n, true);
    s->state[n] = DONE;
}

static void start_due(Scheduler *s, int position) {
    for (int n = s->first_start[position]; n >= 0; n = s->next_start[n])
        if (s->state[n] == IDLE) {
            emit(s, n, false);
            s->state[n] = STARTED;
        }
}

bool pass_schedule(Compilation *c) {
    Scheduler s = {.c = c, .g = &c->spmd};
    size_t nodes = (size_t)c->spmd.nodes.n + 1;
    s.at = arena_alloc(c->arena, sizeof *s.at * nodes);
    s.position = arena_alloc(c->arena, sizeof *s.position * nodes);
    s.first_start = arena_alloc(c->arena, sizeof *s.first_start * (nodes + 1));
    s.next_start = arena_alloc(c->arena, sizeof *s.next_start * nodes);
    s.state = arena_alloc(c->arena, nodes);
    memset(s.first_start, -1, sizeof *s.first_start * (nodes + 1));
    order_kernels(&s);
    first_users(&s);
    if (c->options->optimize > 0) place_starts(&s);
    for (int p = 0; p < s.n; p++) {
        start_due(&s, p);
        const Node *node = &c->spmd.nodes.at[s.at[p]];
        for (int i = 0; i < node->nin; i++)
            require(&s, node->in[i]);
        emit(&s, s.at[p], false);
    }
    start_due(&s, s.n);
    if (c->spmd.loss >= 0) require(&s, c->spmd.loss);
    return true;
}
