/* schedule: decides the order in which every rank does its steps.
 *
 * Before: b->spmd.graph. After: b->placement.order holds every node that is no leaf once, operands first; a communication twice, start before wait: its
 * source is ready at the start, and its target is used only after the wait. All ranks have the same order, so they start and wait for the same
 * communications in the same order: no rank can wait for one that another has not started (docs/proof.md).
 * -O0: program order, wait directly after start, directly before the first user. Else:
 * - a communication starts as soon as its source is ready; one whose result is larger than its source (a gather) at most WINDOW kernels before
 *   its first user, so that early gathers do not fill the memory, or earlier for a state that takes longer (prefetch.c). The wait is directly before that user;
 * - an update and its writes come WINDOW kernels after the gradient and after the last reader of the old state, so that the memory of both is soon free;
 * - what is done to the terms of a gradient before they are added up comes directly after it;
 * -O2: parameters that are then not in memory for much longer are cast first. Updates wait for each other, so that a device does many in one launch, as long as the gradients
 *   that they keep need no more memory than the fullest step;
 * -O2: the reductions of gradients run in buckets (buckets.c). They start when their last gradient is ready, and are waited for as late as the bound on
 * what is under way allows, at most until the end of the backward pass; their updates follow, in the order of the buckets. */
#include <stdlib.h>
#include <string.h>

#include "compiler/buckets.h"
#include "compiler/prefetch.h"
#include "compiler/roles.h"
#include "compiler/tasks.h"

enum { WINDOW = 8 };
enum { NEVER = -1 };

typedef struct Keyed {
    int key, node;
} Keyed;

typedef struct Scheduler {
    Build *b;
    const Graph *g;
    int n;                         /* nodes that are neither leaf nor convert */
    int *at;                       /* position p -> node, in the order of execution */
    int *position;                 /* node -> p; convert: of its first user, n for the loss, NEVER: no user */
    int *first_start, *next_start; /* position -> converts to start before it, by id; per node: the next with its position */
    char *state;                   /* per convert node: not begun, started, done */
    const int *task;               /* per node: its task of the pipeline, in order; NULL: there are no stages */
    Buckets buckets;
    int nstarted; /* buckets */
} Scheduler;
enum { IDLE, STARTED, DONE };

/* The leaf or kernel at the start of the converts that lead to a value. */
static int root_node(const Graph *g, int value) {
    return g->values.at[graph_converted(g, value)].node;
}

static int keyed_compare(const void *a, const void *b) {
    const Keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

/* Notes, per state, the key after which only updates read the old version, or what may be a view of it (memory.c). */
static void note_reader(const Graph *g, const Node *node, int key, int *last_reader) {
    for (int i = 0; i < node->nin; i++) {
        const Node *root = &g->nodes.at[root_node(g, node->in[i])];
        while (op_table[root->op].view)
            root = &g->nodes.at[root_node(g, root->in[0])];
        if (root->op == OP_read && key > last_reader[root->state]) last_reader[root->state] = key;
    }
}

/* The bucket of a conversion between a value and its user; NULL: there is none. */
static const Bucket *bucket_of(const Scheduler *s, int value) {
    for (const Node *node = graph_producer(s->g, value); node->op == OP_convert; node = graph_producer(s->g, node->in[0])) {
        int bucket = s->buckets.of[node - s->g->nodes.at];
        if (bucket >= 0) return &s->buckets.at.at[bucket];
    }
    return NULL;
}

/* ---------------------------------------------------------------- updates that wait for each other */

/* Per node: it is an update whose results are only written into states here. */
static bool *find_last_updates(const Scheduler *s) {
    const Graph *g = s->g;
    bool *last = arena_alloc(s->b->arena, sizeof *last * (size_t)(g->nodes.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        last[n] = op_table[g->nodes.at[n].op].op_class == OP_CLASS_UPDATE && g->nodes.at[n].op != OP_write;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin && g->nodes.at[n].op != OP_write; i++)
            last[g->values.at[g->nodes.at[n].in[i]].node] = false;
    for (int k = 0; k < graph_nreports(g); k++)
        last[g->values.at[graph_report(g, k)].node] = false;
    return last;
}

/* About how many bytes are alive at each key up to `most`: of what kernels make, from its key to that of its last reader. */
static double *find_live(const Scheduler *s, const int *key, int most) {
    const Graph *g = s->g;
    double *live = arena_alloc(s->b->arena, sizeof *live * (size_t)(most + 2));
    int *end = arena_alloc(s->b->arena, sizeof *end * (size_t)(g->values.n + 1));
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin && g->nodes.at[n].op != OP_convert; i++) {
            const int value = graph_converted(g, g->nodes.at[n].in[i]);
            end[value] = key[n] > end[value] ? key[n] : end[value];
        }
    for (int k = 0; k < graph_nreports(g); k++)
        end[graph_report(g, k)] = most;
    for (int v = 0; v < g->values.n; v++) {
        const Node *maker = graph_producer(g, v);
        const OpClass made = op_table[maker->op].op_class;
        if (made == OP_CLASS_LEAF || made == OP_CLASS_UPDATE || maker->op == OP_convert) continue; /* updates write into the states */
        live[key[maker - g->nodes.at]] += (double)s->b->spmd.box_bytes[v];
        live[(end[v] > key[maker - g->nodes.at] ? end[v] : key[maker - g->nodes.at]) + 1] -= (double)s->b->spmd.box_bytes[v];
    }
    for (int k = 1; k <= most; k++)
        live[k] += live[k - 1];
    return live;
}

/* The bytes that are held while an update waits: those of the gradient, not of states. */
static double held_bytes(const Scheduler *s, int n) {
    const Node *node = &s->g->nodes.at[n];
    double bytes = 0;
    for (int i = 0; i < node->nin; i++)
        if (!node_is_leaf(graph_producer(s->g, node->in[i]))) bytes += (double)s->b->spmd.box_bytes[node->in[i]];
    return bytes;
}

/* Lets updates, each at the earliest key that it can have, wait for others and come at the key of the last of them, as long as no more is
 * alive meanwhile than at the fullest key. */
static void hold_updates(const Scheduler *s, Keyed *updates, int n, int *key) {
    double most = 0;
    int last = 0;
    if (n == 0) return;
    qsort(updates, (size_t)n, sizeof *updates, keyed_compare);
    for (int k = 0; k < s->g->nodes.n; k++)
        last = key[k] > last ? key[k] : last;
    const double *live = find_live(s, key, last);
    for (int k = 0; k <= last; k++)
        most = live[k] > most ? live[k] : most;
    most -= most / 16; /* values that share memory are sometimes counted twice */
    for (int first = 0, end; first < n; first = end) {
        double held = held_bytes(s, updates[first].node);
        bool fits = true;
        for (end = first + 1; end < n; end++) {
            for (int k = updates[end - 1].key + 1; k <= updates[end].key; k++)
                fits = fits && live[k] + held <= most;
            if (!fits) break;
            held += held_bytes(s, updates[end].node);
        }
        for (int i = first; i < end; i++)
            key[updates[i].node] = updates[end - 1].key;
    }
}

/* Moves updates up to where their gradients are ready. Behind the last kernel, at key `end`, those whose bucket was started first go first:
 * the others are under way meanwhile. last_reader is filled in. */
static void place_updates(Scheduler *s, int *key, int end, const int *last_reader) {
    const Graph *g = s->g;
    const bool *last = find_last_updates(s);
    Keyed *waiting = arena_alloc(s->b->arena, sizeof *waiting * (size_t)(g->nodes.n + 1));
    int nwaiting = 0;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->update == 0 || node->op == OP_write) continue;
        int ready = 0, due = -1, turn = 0;
        for (int i = 0; i < node->nin; i++) {
            const Node *root = &g->nodes.at[root_node(g, node->in[i])];
            int before = root->op == OP_read ? last_reader[root->state] : key[root_node(g, node->in[i])];
            const Bucket *bucket = bucket_of(s, node->in[i]);
            ready = before > ready ? before : ready;
            if (bucket == NULL || bucket->due < due) continue;
            due = bucket->due;
            turn = due == end ? bucket->turn : 0;
        }
        const int behind = op_table[node->op].op_class == OP_CLASS_UPDATE ? WINDOW : 0;
        key[n] = due < 0 ? ready + behind : (due > ready ? due : ready) + 1 + turn;
        if (due < 0 && last[n]) waiting[nwaiting++] = (Keyed){key[n], n};
    }
    if (s->b->options->optimize > 1 && s->task == NULL) hold_updates(s, waiting, nwaiting, key);
    if (s->b->options->optimize > 1) buckets_of_updates(s->b, &s->buckets, key);
}

/* Places writes where no one reads the old version any more: in the order of a pipeline's tasks, recomputed nodes may come after the
 * update. */
static void place_writes(Scheduler *s, int *key, const int *last_reader) {
    const Graph *g = s->g;
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_write) continue;
        const Bucket *bucket = bucket_of(s, node->in[0]);
        if (s->b->options->optimize > 0) key[n] = bucket != NULL ? bucket->ready + 1 : key[root_node(g, node->in[0])];
        if (last_reader[node->state] > key[n]) key[n] = last_reader[node->state];
    }
}

/* Places `replicate` of a parameter directly before its first user, not before the whole program. */
static void place_replicas(const Graph *g, int *key, int count) {
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_replicate) key[n] = count;
    for (int n = 0; n < g->nodes.n; n++)
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            int root = root_node(g, g->nodes.at[n].in[i]);
            if (g->nodes.at[n].op != OP_convert && g->nodes.at[root].op == OP_replicate && key[n] < key[root]) key[root] = key[n];
        }
}

/* The nodes in the order in which they are computed: program order, or, of a pipeline, task by task. */
static int *node_order(const Scheduler *s) {
    const int n = s->g->nodes.n;
    Keyed *keyed = arena_alloc(s->b->arena, sizeof *keyed * (size_t)(n + 1));
    int *nodes = arena_alloc(s->b->arena, sizeof *nodes * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        keyed[i] = (Keyed){s->task != NULL ? s->task[i] : 0, i};
    if (s->task != NULL) qsort(keyed, (size_t)n, sizeof *keyed, keyed_compare);
    for (int i = 0; i < n; i++)
        nodes[i] = keyed[i].node;
    return nodes;
}

enum { SMALL_CAST = 64 << 10 };

/* Whether this is a parameter's cast that may come first: its result is small, or a part that is gathered behind kernels, or read in the
 * backward pass too, so that it exists anyway when most memory is needed. converted: per value, whether a conversion reads it. */
static bool is_early_cast(const Scheduler *s, int n, const int *uses, const bool *converted) {
    const Node *node = &s->g->nodes.at[n];
    if (s->task != NULL || s->b->options->optimize < 2 || node->op != OP_cast || node->recompute || !graph_is_forward(s->g, n))
        return false;
    const Node *from = graph_producer(s->g, node->in[0]);
    return from->op == OP_read && from->version == 0 &&
           (uses[node->out[0]] > 1 || converted[node->out[0]] || s->b->spmd.box_bytes[node->out[0]] <= SMALL_CAST);
}

/* Sorts kernels, updates and writes: kernels in program order, updates and writes after what they need. */
static void order_kernels(Scheduler *s) {
    const Graph *g = s->g;
    Arena *arena = s->b->arena;
    Keyed *keyed = arena_alloc(arena, sizeof *keyed * (size_t)(g->nodes.n + 1));
    int *key = arena_alloc(arena, sizeof *key * (size_t)(g->nodes.n + 1)); /* leaves: 0 */
    int *last_reader = arena_alloc(arena, sizeof *last_reader * (size_t)(g->states.n + 1));
    const int *uses = graph_uses(g, arena);
    const int *nodes = node_order(s);
    bool *converted = arena_alloc(arena, (size_t)g->values.n + 1);
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_convert) converted[g->nodes.at[n].in[0]] = true;
    int count = 0;
    for (int k = 0; k < g->nodes.n; k++) {
        const int n = nodes[k];
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node) || node->op == OP_convert) continue;
        int own = ++count;
        const bool terms =
            node->op == OP_replica_sum || (gradient_changes(g, node) && layout_is_partial(g->values.at[node->out[0]].layout));
        key[n] = (terms && s->b->options->optimize > 0) || is_early_cast(s, n, uses, converted)
                     ? 0
                     : own; /* terms of a gradient: as soon as possible */
        for (int i = 0; i < node->nin; i++) {
            int before = key[root_node(g, node->in[i])];
            key[n] = before > key[n] ? before : key[n];
        }
    }
    if (s->b->options->optimize > 0) place_replicas(g, key, count);
    for (int n = 0; n < g->nodes.n; n++) {
        const Node *node = &g->nodes.at[n];
        if (!node_is_leaf(node) && node->op != OP_convert && node->op != OP_write && node->update == 0)
            note_reader(g, node, key[n], last_reader);
    }
    if (s->b->options->optimize > 1) buckets_of_gradients(s->b, &s->buckets, key, count);
    if (s->b->options->optimize > 0) place_updates(s, key, count, last_reader);
    place_writes(s, key, last_reader);
    for (int n = 0; n < g->nodes.n; n++)
        if (!node_is_leaf(&g->nodes.at[n]) && g->nodes.at[n].op != OP_convert) keyed[s->n++] = (Keyed){key[n], n};
    qsort(keyed, (size_t)s->n, sizeof *keyed, keyed_compare);
    for (int p = 0; p < s->n; p++) {
        s->at[p] = keyed[p].node;
        s->position[keyed[p].node] = p;
    }
}

/* Finds the position of each convert's first user. */
static void first_users(Scheduler *s) {
    const Graph *g = s->g;
    for (int n = 0; n < g->nodes.n; n++)
        if (g->nodes.at[n].op == OP_convert) s->position[n] = NEVER;
    for (int k = 0; k < graph_nreports(g); k++)
        if (graph_producer(g, graph_report(g, k))->op == OP_convert) s->position[g->values.at[graph_report(g, k)].node] = s->n;
    for (int n = g->nodes.n - 1; n >= 0; n--) { /* users stand behind what they use */
        if (s->position[n] == NEVER || node_is_leaf(&g->nodes.at[n])) continue;
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            int source = g->values.at[g->nodes.at[n].in[i]].node;
            if (g->nodes.at[source].op == OP_convert && (s->position[source] == NEVER || s->position[source] > s->position[n]))
                s->position[source] = s->position[n];
        }
    }
}

/* Per bucket the position behind the sources of all its members. */
static int *buckets_ready(const Scheduler *s) {
    int *all = arena_alloc(s->b->arena, sizeof *all * (size_t)(s->buckets.at.n + 1));
    for (int b = 0; b < s->buckets.at.n; b++) {
        const Bucket *bucket = &s->buckets.at.at[b];
        for (int m = 0; m < bucket->members.n; m++) {
            int made = s->position[s->g->values.at[s->g->nodes.at[bucket->members.at[m]].in[0]].node] + 1;
            all[b] = made > all[b] ? made : all[b];
        }
    }
    return all;
}

/* Finds where communications of a kernel's or leaf's value start, if that may be before their first user is next. */
static void place_starts(Scheduler *s) {
    const Graph *g = s->g;
    const int *bucket_ready = buckets_ready(s);
    int *prefetch = arena_alloc(s->b->arena, sizeof *prefetch * (size_t)(g->nodes.n + 1));
    prefetch_starts(s->b, s->at, s->n, s->position, prefetch);
    for (int n = g->nodes.n - 1; n >= 0; n--) {
        const Node *node = &g->nodes.at[n];
        if (node->op != OP_convert || node->comm == COMM_STRIDED_SLICE || s->position[n] == NEVER) continue;
        const Node *source = graph_producer(g, node->in[0]);
        if (source->op == OP_convert) continue;
        int ready = node_is_leaf(source) ? 0 : s->position[g->values.at[node->in[0]].node] + 1;
        int early = s->position[n] - WINDOW, bucket = s->buckets.of[n];
        early = prefetch[n] < early ? prefetch[n] : early;
        const bool within = pin_equal(&g->values.at[node->in[0]].layout->pin, &g->values.at[node->out[0]].layout->pin);
        bool grows = within && (s->b->options->optimize < 2 || s->b->spmd.box_bytes[node->out[0]] > s->b->spmd.box_bytes[node->in[0]]);
        int start = bucket >= 0 ? bucket_ready[bucket] : grows && early > ready ? early : ready;
        s->next_start[n] = s->first_start[start];
        s->first_start[start] = n;
    }
}

/* ---------------------------------------------------------------- the list of steps */

static void emit(Scheduler *s, int node, bool wait) {
    int bucket = s->buckets.of[node];
    vec_push(s->b->arena, &s->b->placement.order,
             (Item){.node = node, .wait = wait, .bucket = bucket >= 0 ? s->buckets.at.at[bucket].number : 0});
}

/* Starts, or waits for, all of a node's bucket, or the node alone if it has none. */
static void emit_all(Scheduler *s, int node, bool wait) {
    int bucket = s->buckets.of[node];
    const int *members = bucket >= 0 ? s->buckets.at.at[bucket].members.at : &node;
    int n = bucket >= 0 ? s->buckets.at.at[bucket].members.n : 1;
    if (bucket >= 0 && !wait && s->b->spmd.graph.settings.bucket_bytes > 0) s->buckets.at.at[bucket].number = ++s->nstarted;
    for (int m = 0; m < n; m++) {
        emit(s, members[m], wait);
        s->state[members[m]] = wait ? DONE : STARTED;
    }
}

/* Makes a value usable: waits for its communication, and before that starts it, if that was not done yet. */
static void require(Scheduler *s, int value) {
    int n = s->g->values.at[value].node;
    const Node *node = &s->g->nodes.at[n];
    if (node->op != OP_convert || s->state[n] == DONE) return;
    if (s->state[n] == IDLE) {
        require(s, node->in[0]);
        emit_all(s, n, false);
    }
    if (node->comm != COMM_STRIDED_SLICE) emit_all(s, n, true);
    s->state[n] = DONE;
}

static void start_due(Scheduler *s, int position) {
    for (int n = s->first_start[position]; n >= 0; n = s->next_start[n])
        if (s->state[n] == IDLE) emit_all(s, n, false);
}

bool pass_schedule(Build *b) {
    Scheduler s = {.b = b, .g = &b->spmd.graph, .task = tasks_order(b)};
    size_t nodes = (size_t)b->spmd.graph.nodes.n + 1;
    s.at = arena_alloc(b->arena, sizeof *s.at * nodes);
    s.position = arena_alloc(b->arena, sizeof *s.position * nodes);
    s.first_start = arena_alloc(b->arena, sizeof *s.first_start * (nodes + 1));
    s.next_start = arena_alloc(b->arena, sizeof *s.next_start * nodes);
    s.state = arena_alloc(b->arena, nodes);
    memset(s.first_start, -1, sizeof *s.first_start * (nodes + 1));
    buckets_init(b, &s.buckets);
    order_kernels(&s);
    first_users(&s);
    if (b->options->optimize > 1) buckets_of_values(b, &s.buckets, s.at, s.n, s.position, s.task);
    if (b->options->optimize > 0) place_starts(&s);
    for (int p = 0; p < s.n; p++) {
        start_due(&s, p);
        const Node *node = &b->spmd.graph.nodes.at[s.at[p]];
        for (int i = 0; i < node->nin; i++)
            require(&s, node->in[i]);
        emit(&s, s.at[p], false);
    }
    start_due(&s, s.n);
    for (int k = 0; k < graph_nreports(&b->spmd.graph); k++)
        require(&s, graph_report(&b->spmd.graph, k));
    roles_make(b, s.task);
    return true;
}
