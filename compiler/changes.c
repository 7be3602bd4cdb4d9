#include "compiler/changes.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/compiler.h"

static bool may_change(const Graph *g, const bool *varies, int n) {
    const Node *node = &g->nodes.at[n];
    return !node_is_leaf(node) && varies[n] && node->from != STRATEGY_USER && node->rule->nfactors > 0;
}

static const Strategy *present(Graph *g, const Found *base, int n) {
    const Strategy *chosen = base->chosen.strategy != NULL ? base->chosen.strategy[n] : NULL;
    return chosen != NULL ? chosen : graph_strategy(g, g->nodes.at[n].strategy);
}

/* ---- neighbours */

static void add_beside(Changes *c, const Graph *g, int *at) {
    for (int user = 0; user < g->nforward; user++)
        for (int i = 0; i < g->nodes.at[user].nin; i++) {
            const int maker = g->values.at[g->nodes.at[user].in[i]].node;
            if (node_is_leaf(&g->nodes.at[maker])) continue;
            if (c->beside != NULL) c->beside[at[maker]] = user, c->beside[at[user]] = maker;
            at[maker]++, at[user]++;
        }
}

static void find_beside(Changes *c, const Graph *g) {
    const size_t n = (size_t)g->nforward, bytes = (n + 2) * sizeof(int);
    int *at = arena_alloc(&c->s->arena, bytes);
    c->first = arena_alloc(&c->s->arena, bytes);
    add_beside(c, g, c->first + 1);
    for (size_t k = 0; k < n; k++)
        c->first[k + 1] += c->first[k];
    c->beside = arena_alloc(&c->s->arena, ((size_t)c->first[n] + 1) * sizeof *c->beside);
    memcpy(at, c->first, bytes);
    add_beside(c, g, at);
}

/* ---- groups of like operators */

/* exact: the rule counts too. */
static uint64_t kind_of(const Node *node, bool exact) {
    const uint64_t hash = hash_mix(hash_mix(0, (uint64_t)node->op), (uint64_t)node->rule->nfactors);
    return exact ? hash_mix(hash, (uint64_t)(uintptr_t)node->rule) : hash;
}

static uint64_t kind_with_neighbours(const Changes *c, const Graph *g, int n, bool exact) {
    uint64_t around = 0;
    for (int k = c->first[n]; k < c->first[n + 1]; k++)
        around += hash_mix(c->beside[k] < n, kind_of(&g->nodes.at[c->beside[k]], exact));
    return hash_mix(kind_of(&g->nodes.at[n], exact), around);
}

static bool is_known(const Changes *c, const int *members) {
    for (int k = 0; k < c->members.n; k++) {
        int i = 0;
        while (c->members.at[k][i] == members[i] && members[i] >= 0)
            i++;
        if (c->members.at[k][i] == members[i]) return true;
    }
    return false;
}

/* Adds the groups of operators that are of one kind and whose neighbours are of the same kinds, where new. */
static void add_groups(Changes *c, const Graph *g, bool exact) {
    Arena *arena = &c->s->arena;
    const bool *varies = graph_varies(g);
    VEC(uint64_t) kinds = {0};
    Map map = {0};
    int *of = arena_alloc(arena, ((size_t)g->nforward + 1) * sizeof *of),
        *count = arena_alloc(arena, ((size_t)g->nforward + 1) * sizeof *count);
    for (int n = 0; n < g->nforward; n++) {
        of[n] = -1;
        if (!may_change(g, varies, n)) continue;
        const uint64_t kind = kind_with_neighbours(c, g, n, exact);
        map_each(&map, kind, k) if (kinds.at[k] == kind) of[n] = k;
        if (of[n] < 0) {
            of[n] = kinds.n;
            vec_push(arena, &kinds, kind);
            map_add(arena, &map, kind, of[n]);
        }
        count[of[n]]++;
    }
    int **members = arena_alloc(arena, ((size_t)kinds.n + 1) * sizeof *members);
    for (int k = 0; k < kinds.n; k++)
        members[k] = arena_alloc(arena, ((size_t)count[k] + 1) * sizeof **members), count[k] = 0;
    for (int n = 0; n < g->nforward; n++)
        if (of[n] >= 0) members[of[n]][count[of[n]]++] = n;
    for (int k = 0; k < kinds.n; k++) {
        members[k][count[k]] = -1;
        if (!is_known(c, members[k])) vec_push(arena, &c->members, members[k]);
    }
}

/* ---- how they can change */

static void add_change(Changes *c, int group, const Split *split, const Mesh *mesh, double worth) {
    Graph *g = &c->s->b->front.graph;
    const int *members = c->members.at[group];
    bool can = false;
    for (int k = 0; members[k] >= 0 && !can; k++)
        can = strategy_of_split(g, &g->nodes.at[members[k]], split) != NULL;
    if (!can) return;
    vec_push(&c->s->arena, &c->list, ((Change){.group = group, .split = *split, .mesh = *mesh, .worth = worth, .number = c->list.n}));
}

/* Adds a group's splits of one factor along one of a mesh's two axes, and of two factors along one each. */
static void add_changes_on(Changes *c, int group, const Mesh *mesh, double worth) {
    const int nfactors = c->s->b->front.graph.nodes.at[c->members.at[group][0]].rule->nfactors;
    const Mesh first = {1, {mesh->axis[0]}}, second = {1, {mesh->axis[1]}};
    for (int f = 0; f < nfactors; f++) {
        add_change(c, group, &(Split){1, {f}, {first}}, mesh, worth);
        add_change(c, group, &(Split){1, {f}, {second}}, mesh, worth);
        for (int other = 0; other < nfactors; other++)
            if (other != f) add_change(c, group, &(Split){2, {f, other}, {first, second}}, mesh, worth);
    }
}

/* Adds a group's splits: none, along all ranks, on meshes of two axes. */
static void add_changes(Changes *c, int group, double worth) {
    const Graph *g = &c->s->b->front.graph;
    const Mesh all = {1, {{g->nranks, 1}}};
    add_change(c, group, &(Split){0}, &all, worth);
    for (int f = 0; f < g->nodes.at[c->members.at[group][0]].rule->nfactors; f++)
        add_change(c, group, &(Split){1, {f}, {all}}, &all, worth);
    for (int m = 0; m < c->meshes.n; m++)
        add_changes_on(c, group, &c->meshes.at[m], worth);
}

static int by_worth(const void *a, const void *b) {
    const Change *x = a, *y = b;
    if ((x->split.n == 2) != (y->split.n == 2)) return (x->split.n == 2) - (y->split.n == 2);
    return x->worth != y->worth ? (x->worth < y->worth) - (x->worth > y->worth) : x->number - y->number;
}

double changes_find(Changes *c, Search *s, const Found *base, int around) {
    Graph *g = &s->b->front.graph;
    *c = (Changes){.s = s, .around = around};
    meshes_of_two(s, &c->meshes);
    find_beside(c, g);
    add_groups(c, g, false);
    add_groups(c, g, true);
    const Strategy **now = arena_alloc(&s->arena, sizeof *now * ((size_t)g->nforward + 1));
    double *spent = arena_alloc(&s->arena, sizeof *spent * ((size_t)g->nforward + 1));
    for (int n = 0; n < g->nforward; n++)
        if (!node_is_leaf(&g->nodes.at[n])) now[n] = present(g, base, n);
    const double seconds = seconds_of_nodes(s, now, spent);
    for (int k = 0; k < c->members.n; k++) {
        double worth = 0;
        for (const int *n = c->members.at[k]; *n >= 0; n++)
            worth += spent[*n];
        add_changes(c, k, worth);
    }
    if (c->list.n > 0) qsort(c->list.at, (size_t)c->list.n, sizeof *c->list.at, by_worth);
    return seconds;
}

/* ---- solving one */

/* Per node its distance from the nodes that change, up to c->around; -1: it is farther. */
static int *distances(const Changes *c, const int *members, Arena *arena) {
    const int n = c->s->b->front.graph.nforward;
    int *far = arena_alloc(arena, sizeof *far * ((size_t)n + 1)), *queue = arena_alloc(arena, sizeof *queue * ((size_t)n + 1)), end = 0;
    memset(far, -1, sizeof *far * ((size_t)n + 1));
    for (int k = 0; members[k] >= 0; k++)
        far[queue[end++] = members[k]] = 0;
    for (int at = 0; at < end; at++)
        for (int k = c->first[queue[at]]; k < c->first[queue[at] + 1] && far[queue[at]] < c->around; k++) {
            const int next = c->beside[k];
            if (far[next] >= 0) continue;
            far[next] = far[queue[at]] + 1;
            queue[end++] = next;
        }
    return far;
}

/* The strategy with the mesh's two axes exchanged; NULL: the node cannot have it. */
static const Strategy *exchanged(Graph *g, const Node *node, const Strategy *now, const Mesh *mesh) {
    Strategy strategy = {.nfactors = now->nfactors, .pin = now->pin};
    for (int f = 0; f < now->nfactors; f++) {
        for (int d = 0; d < strategy_count(now, f); d++) {
            const Digit digit = strategy_digits(now, f)[d];
            const bool first = digit_equal(digit, mesh->axis[0]), second = digit_equal(digit, mesh->axis[1]);
            strategy_append(&strategy, f, first ? mesh->axis[1] : second ? mesh->axis[0] : digit);
        }
        const int64_t parts = strategy_split(&strategy, f);
        if (parts > 1 && !may_split(g, node, f, parts)) return NULL;
    }
    return graph_strategy(g, &strategy);
}

/* Takes the last solution off s->found: it is only near another one, and its bound holds only for what was left open. */
static bool take_near(Search *s, int before, Found *found) {
    *found = s->found.n > before ? s->found.at[--s->found.n] : (Found){0};
    found->bound = 0;
    return found->how != NULL;
}

bool changes_exchange(const Changes *c, const Found *base, Found *found) {
    Search *s = c->s;
    Graph *g = &s->b->front.graph;
    const int before = s->found.n;
    if (base->mesh.naxes != 2) return false;
    const Strategy **fixed = arena_alloc(&s->arena, sizeof *fixed * ((size_t)g->nforward + 1));
    for (int n = 0; n < g->nforward; n++)
        if (!node_is_leaf(&g->nodes.at[n])) fixed[n] = exchanged(g, &g->nodes.at[n], present(g, base, n), &base->mesh);
    s->fixed = fixed;
    solve_on(s, &base->mesh, NULL);
    s->fixed = NULL;
    return take_near(s, before, found);
}

bool change_solve(const Changes *c, Change *change, const Found *base) {
    Search *s = c->s;
    Graph *g = &s->b->front.graph;
    Arena arena;
    arena_init(&arena);
    const Strategy **fixed = arena_alloc(&arena, sizeof *fixed * ((size_t)g->nforward + 1)),
                   **also = arena_alloc(&arena, sizeof *also * ((size_t)g->nforward + 1));
    const int *far = distances(c, c->members.at[change->group], &arena), before = s->found.n;
    bool same = true;
    for (int n = 0; n < g->nforward; n++) {
        if (node_is_leaf(&g->nodes.at[n])) continue;
        also[n] = present(g, base, n);
        if (far[n] < 0) fixed[n] = also[n];
        if (far[n] != 0) continue;
        fixed[n] = strategy_of_split(g, &g->nodes.at[n], &change->split);
        same = same && (fixed[n] == NULL || fixed[n] == also[n]);
    }
    s->fixed = fixed, s->also = also;
    if (!same) solve_on(s, &change->mesh, NULL);
    s->fixed = s->also = NULL;
    arena_finish(&arena);
    return take_near(s, before, &change->found);
}
