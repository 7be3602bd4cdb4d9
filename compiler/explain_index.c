#include "compiler/explain_index.h"

#include <string.h>

#include "compiler/compiler.h"
#include "compiler/oracle.h"

static int *ints(Arena *arena, int n, int value) {
    int *at = arena_alloc(arena, sizeof *at * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        at[i] = value;
    return at;
}

static void lists_init(Lists *lists, Arena *arena, int nkeys, int nnumbers) {
    lists->first = ints(arena, nkeys, -1);
    lists->last = ints(arena, nkeys, -1);
    lists->next = ints(arena, nnumbers, -1);
}

static void lists_add(Lists *lists, int key, int number) {
    *(lists->first[key] < 0 ? &lists->first[key] : &lists->next[lists->last[key]]) = number;
    lists->last[key] = number;
}

/* ---------------------------------------------------------------- names */

static uint64_t name_hash(const char *name) {
    return hash_bytes(name, strlen(name));
}

static void add_names(ExplainIndex *x, const Graph *g) {
    for (int v = 0; v < g->values.n; v++)
        map_add(x->arena, &x->values, name_hash(g->values.at[v].name), v);
    for (int s = 0; s < g->states.n; s++)
        map_add(x->arena, &x->states, name_hash(g->states.at[s].name), s);
    for (int i = 0; i < g->inputs.n; i++)
        map_add(x->arena, &x->inputs, name_hash(g->inputs.at[i].name), i);
}

int index_value(const ExplainIndex *index, const Graph *g, const char *name) {
    map_each(&index->values, name_hash(name), v) if (strcmp(g->values.at[v].name, name) == 0) return v;
    return -1;
}

int index_state(const ExplainIndex *index, const Graph *g, const char *name) {
    map_each(&index->states, name_hash(name), s) if (strcmp(g->states.at[s].name, name) == 0) return s;
    return -1;
}

int index_path(const ExplainIndex *index, const Build *b, const char *path) {
    map_each(&index->paths, name_hash(path), i) if (strcmp(b->front.paths.at[i].path, path) == 0) return i;
    return -1;
}

int index_input(const ExplainIndex *index, const Graph *g, const char *name) {
    map_each(&index->inputs, name_hash(name), i) if (strcmp(g->inputs.at[i].name, name) == 0) return i;
    return -1;
}

/* ---------------------------------------------------------------- the plan's steps */

static void add_role(RoleIndex *x, Build *b, int number) {
    Arena *arena = b->arena;
    *x = (RoleIndex){.facts = &b->role_facts[number], .timeline = &b->role_timelines[number]};
    facts_bounds(x->facts, arena);
    held_find(&x->held, x->facts, arena);
    const Role *role = x->facts->role;
    const int *instance = b->role[number].instance;
    const int ncommunications = x->facts->communications.n;
    x->taken_as = ints(arena, role->instances.n, 0);
    for (int v = 0; v < b->spmd.graph.values.n; v++)
        if (instance[v] >= 0) x->taken_as[instance[v]] = v;
    x->event = ints(arena, role->steps.n, -1);
    for (int i = 0; i < x->timeline->events.n; i++) {
        const TimelineEvent *event = &x->timeline->events.at[i];
        for (int s = event->step; s < event->step + event->nsteps; s++)
            if (x->event[s] < 0) x->event[s] = i;
    }
    x->step = ints(arena, x->facts->graph->nodes.n, -1);
    for (int s = role->steps.n - 1; s >= 0; s--)
        if (role->steps.at[s].kind == STEP_KERNEL) x->step[role->steps.at[s].node] = s;
    lists_init(&x->moves, arena, x->facts->graph->values.n, ncommunications);
    lists_init(&x->buckets, arena, ncommunications + 1, ncommunications); /* no more buckets than communications */
    for (int i = 0; i < ncommunications; i++) {
        lists_add(&x->moves, x->facts->communications.at[i].value, i);
        lists_add(&x->buckets, x->facts->communications.at[i].bucket, i);
    }
    x->is_held = arena_alloc(arena, (size_t)x->facts->graph->values.n + 1);
    for (int i = 0; i < x->held.values.n; i++)
        x->is_held[x->held.values.at[i]] = true;
}

/* ---------------------------------------------------------------- graphs */

static bool takes_before(const Node *node, int operand) {
    for (int i = 0; i < operand; i++)
        if (node->in[i] == node->in[operand]) return true;
    return false;
}

static void add_users(ExplainIndex *x, const Graph *s) {
    int *first = x->users.first = ints(x->arena, s->values.n + 2, 0), n = 0;
    for (int id = 0; id < s->nodes.n; id++)
        for (int i = 0; i < s->nodes.at[id].nin; i++)
            if (!takes_before(&s->nodes.at[id], i)) first[s->nodes.at[id].in[i] + 2]++, n++;
    for (int v = 0; v < s->values.n; v++)
        first[v + 2] += first[v + 1];
    x->users.user = ints(x->arena, n, -1);
    for (int id = 0; id < s->nodes.n; id++)
        for (int i = 0; i < s->nodes.at[id].nin; i++)
            if (!takes_before(&s->nodes.at[id], i)) x->users.user[first[s->nodes.at[id].in[i] + 1]++] = id;
}

static void add_leaves(ExplainIndex *x, const Graph *g) {
    x->update = ints(x->arena, g->states.n, -1);
    for (int k = 0; k < 2; k++) {
        const int n = k == 0 ? g->states.n : g->inputs.n;
        lists_init(&x->reads[k], x->arena, n, g->nodes.n);
        x->taker[k] = ints(x->arena, n, -1);
    }
    for (int id = 0; id < g->nodes.n; id++) {
        const Node *node = &g->nodes.at[id];
        const bool updates = op_table[node->op].op_class == OP_CLASS_UPDATE;
        if (node->op == OP_read || node->op == OP_input) lists_add(&x->reads[node->op == OP_input], node->state, id);
        for (int i = 0; i < node->nin && !updates; i++) {
            const Node *maker = graph_producer(g, node->in[i]);
            if (maker->op != OP_read && maker->op != OP_input) continue;
            int *taker = &x->taker[maker->op == OP_input][maker->state];
            if (*taker < 0) *taker = id;
        }
        if (!updates || node->op == OP_write || id < g->nforward) continue;
        const Node *read = graph_producer(g, node->in[0]);
        if (read->op == OP_read && x->update[read->state] < 0) x->update[read->state] = id;
    }
}

/* Ways from hints lead through any neighbours: each is walked back to a node whose depth is known. */
static void add_ways(ExplainIndex *x, const Build *b) {
    const Graph *g = &b->front.chosen;
    const Decision *decision = b->front.propagation.decision;
    VEC(int) way = {0};
    x->depth = ints(x->arena, g->nodes.n, -1);
    x->head = ints(x->arena, g->nodes.n, -1);
    for (int n = 0; decision != NULL && n < g->nodes.n; n++) {
        way.n = 0;
        for (int at = n; at >= 0 && x->depth[at] < 0; at = decision[at].from)
            vec_push(x->arena, &way, at);
        for (int i = way.n - 1; i >= 0; i--) {
            const int at = way.at[i], from = decision[at].from;
            x->depth[at] = from >= 0 ? x->depth[from] + 1 : 0;
            x->head[at] = x->depth[at] <= HEAD_DEPTH ? at : x->head[from];
        }
    }
}

const ExplainIndex *explain_index(Build *b) {
    if (b->explained != NULL) return b->explained;
    const Graph *g = &b->sharded.graph;
    ExplainIndex *x = arena_alloc(b->arena, sizeof *x);
    if (b->timeline == NULL) build_time(b);
    *x = (ExplainIndex){.arena = b->arena, .nroles = b->nroles, .fullest = (int)(b->facts - b->role_facts)};
    x->role = arena_alloc(b->arena, sizeof *x->role * (size_t)b->nroles);
    for (int r = 0; r < b->nroles; r++)
        add_role(&x->role[r], b, r);
    add_names(x, g);
    for (int i = 0; i < b->front.paths.n; i++)
        map_add(x->arena, &x->paths, name_hash(b->front.paths.at[i].path), i);
    add_users(x, &b->spmd.graph);
    add_leaves(x, g);
    add_ways(x, b);
    lists_init(&x->stands, x->arena, b->front.chosen.nodes.n, g->nodes.n);
    for (int n = 0; n < g->nodes.n; n++)
        lists_add(&x->stands, chosen_of(b, n), n);
    return b->explained = x;
}
