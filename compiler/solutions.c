/* solutions: finds solutions: each is the best of a model (search/model.h) on a mesh, or along one axis after another. */
#include "compiler/solutions.h"

#include <math.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/pairs.h"

/* The most axes of a mesh that is always tried; of one that is tried where dynamic_programming is asked for; for solutions that hold less,
 * the limits of memory tried on a mesh, and the work for each; the work for each problem where many are compared; the most ranks of
 * which two axes are solved at a time. */
enum { MESH_AXES = 2, MOST_MESH_AXES = 3, LIMITS = 4, LIMITED_WORK = 1 << 25, AUTO_SOLVE_WORK = 1 << 26, MOST_BY_TWO = 64 };

int found_compare(const void *a, const void *b) {
    const Found *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* ---- one problem */

/* Adds a solution. False: it does not fit. */
static bool add_found(Search *s, const Model *model, const Solution *solution, Found found) {
    Graph *g = &s->b->front.graph;
    s->work += solution->work;
    if (!solution->fits) return false;
    found.pricing = s->pricing;
    found.seconds = solution->cost;
    found.bound = model->problem.limit_bytes > 0 ? 0 : solution->bound;
    found.peak_bytes = solution->peak_bytes;
    model_read(model, solution->choice, s->b->arena, &found.chosen);
    for (int n = 0; n < g->nforward; n++)
        if (found.chosen.strategy[n] != NULL) found.chosen.strategy[n] = graph_strategy(g, found.chosen.strategy[n]);
    for (int k = 0; k < g->states.n; k++)
        if (found.chosen.state[k] != NULL) found.chosen.state[k] = graph_layout(g, found.chosen.state[k], &g->states.at[k].type.shape);
    for (int k = 0; k < g->inputs.n; k++)
        if (found.chosen.input[k] != NULL) found.chosen.input[k] = graph_layout(g, found.chosen.input[k], &g->inputs.at[k].type.shape);
    vec_push(&s->arena, &s->found, found);
    return true;
}

/* Adds the best within some limits, from below the peak of the best of all down to s->least, until one is too low: so are all below it. */
static void solve_within(Search *s, Model *model, const char *how, const Mesh *mesh, Arena *arena) {
    Solution solution;
    problem_solve(&model->problem, 0, arena, &solution);
    const int64_t most = solution.peak_bytes;
    bool fits = solution.fits;
    model->problem.most = isfinite(s->worth) ? s->worth : 0;
    for (int k = LIMITS - 1; k >= 0 && fits && s->least < most; k--) {
        model->problem.limit_bytes = s->least + (most - s->least) * k / LIMITS;
        problem_solve(&model->problem, LIMITED_WORK, arena, &solution);
        fits = add_found(s, model, &solution, (Found){.how = how, .mesh = *mesh});
    }
}

static ModelInput input_of(const Search *s, const Mesh *mesh) {
    return (ModelInput){.graph = &s->b->front.graph,
                        .out_layout = s->b->front.propagation.out_layout,
                        .reads = s->reads,
                        .machine = s->pricing->machine,
                        .mesh = *mesh,
                        .moves = s->pricing->moves,
                        .batches = s->b->front.batches,
                        .behind = s->behind,
                        .most = s->most};
}

static bool mesh_equal(const Mesh *a, const Mesh *b) {
    return a->naxes == b->naxes && memcmp(a->axis, b->axis, (size_t)a->naxes * sizeof *a->axis) == 0;
}

/* Made once for each mesh and pricing. */
static ModelShared *shared_on(Search *s, const Mesh *mesh) {
    for (int k = 0; k < s->shares.n; k++)
        if (s->shares.at[k].pricing == s->pricing && mesh_equal(&s->shares.at[k].mesh, mesh)) return s->shares.at[k].shared;
    const ModelInput input = input_of(s, mesh);
    vec_push(&s->arena, &s->shares, ((Share){s->pricing, *mesh, model_share(&input, &s->arena)}));
    return s->shares.at[s->shares.n - 1].shared;
}

static bool model_of(Search *s, Model *model, const Mesh *mesh, const Strategy *const *base, double beyond, Arena *arena) {
    ModelInput input = input_of(s, mesh);
    input.base = base, input.fixed = s->fixed, input.also = s->also, input.beyond = beyond;
    if (s->shares_models) input.shared = shared_on(s, mesh);
    if (!model_init(model, &input, arena)) return false;
    s->made += model->problem.edges.n;
    for (int v = 0; v < model->problem.variables.n; v++)
        s->made += model->problem.variables.at[v].nchoices;
    return true;
}

/* Adds the best solution on a mesh, with ModelInput.base. False: there is none. */
static bool solve(Search *s, const char *how, const Mesh *mesh, const Strategy *const *base) {
    Arena arena;
    Model model;
    Solution solution;
    const int before = s->found.n;
    arena_init(&arena);
    if (!model_of(s, &model, mesh, base, !s->large ? 0 : s->beyond > 0 ? s->beyond : s->most, &arena)) {
        s->made += s->b->front.graph.nforward;
    } else if (s->least > 0) {
        solve_within(s, &model, how, mesh, &arena);
    } else {
        model.problem.limit_bytes = s->limit;
        problem_solve(&model.problem, s->limit > 0 ? LIMITED_WORK : s->faster ? AUTO_SOLVE_WORK : 0, &arena, &solution);
        add_found(s, &model, &solution, (Found){.how = how, .mesh = *mesh});
    }
    arena_finish(&arena);
    return s->found.n > before;
}

bool solve_on(Search *s, const Mesh *mesh, const Strategy *const *base) {
    return solve(s, "dynamic_programming", mesh, base);
}

static int64_t parts_of(const Strategy *strategy) {
    int64_t parts = 1;
    for (int f = 0; f < strategy->nfactors; f++)
        parts *= strategy_split(strategy, f);
    return parts;
}

double seconds_of_nodes(Search *s, const Strategy *const *strategy, double *seconds) {
    Arena arena;
    Model model;
    Solution solution;
    arena_init(&arena);
    s->fixed = strategy;
    model_of(s, &model, &(Mesh){0}, NULL, 0, &arena);
    s->fixed = NULL;
    problem_solve(&model.problem, 0, &arena, &solution);
    for (int v = 0; solution.fits && v < model.choosers.n; v++) {
        const int n = model.choosers.at[v].node;
        if (n < 0) continue;
        const double alike = 1 - (double)parts_of(strategy[n]) / s->b->front.graph.nranks;
        seconds[n] = alike * model.problem.variables.at[v].cost[solution.choice[v]];
    }
    for (int e = 0; solution.fits && e < model.problem.edges.n; e++) {
        const Edge *edge = &model.problem.edges.at[e];
        const int from = model.choosers.at[edge->from].node, to = model.choosers.at[edge->to].node;
        const double spent = edge->table->at[solution.choice[edge->from] * edge->table->ncolumns + solution.choice[edge->to]];
        if (from >= 0) seconds[from] += spent;
        if (to >= 0) seconds[to] += spent;
    }
    const double all = solution.fits ? solution.cost : INFINITY;
    arena_finish(&arena);
    return all;
}

/* ---- dynamic_programming */

/* The shorter of two times; a is 0: it is not known. */
static double least_of(double a, double b) {
    return a > 0 && a < b ? a : b;
}

void meshes_of_two(Search *s, Meshes *meshes) {
    const int32_t nranks = s->b->front.graph.nranks;
    for (int32_t size = 2; size <= nranks / size; size++) {
        if (nranks % size != 0) continue;
        Mesh mesh = {.naxes = 2};
        mesh_digits((int32_t[]){size, nranks / size}, 2, 1, mesh.axis);
        vec_push(&s->arena, meshes, mesh);
    }
}

static void solve_sizes(Search *s, const int32_t *sizes, int n) {
    Mesh mesh = {.naxes = n};
    mesh_digits(sizes, n, 1, mesh.axis);
    s->nmeshes++;
    if (solve(s, "dynamic_programming", &mesh, NULL) && s->least == 0)
        s->most = least_of(s->most, WORTH * s->found.at[s->found.n - 1].seconds);
}

/* Solves on all meshes that have n axes of these sizes and up to naxes more for so many ranks, the largest size first: the other axes are
 * then within a node, so the best takes little time, and on the meshes after it only what takes little more is worth looking at. Within
 * a node the order of axes does not matter: one is enough. */
static void solve_meshes(Search *s, int32_t *sizes, int n, int ranks, int naxes, bool one_node) {
    if (ranks == 1) {
        solve_sizes(s, sizes, n);
        return;
    }
    for (int size = ranks; size >= 2 && naxes > 0; size--) {
        if (ranks % size != 0 || (naxes == 1 && size < ranks) || (one_node && n > 0 && size < sizes[n - 1])) continue;
        sizes[n] = size;
        solve_meshes(s, sizes, n + 1, ranks / size, naxes - 1, one_node);
    }
}

/* Of three axes: the nodes and two within each. The other meshes of three axes are many and seldom better. */
static void solve_within_nodes(Search *s, int32_t nodes, int32_t ranks) {
    for (int32_t size = 2; size <= ranks / size; size++)
        if (ranks % size == 0) solve_sizes(s, (int32_t[]){nodes, ranks / size, size}, 3);
}

/* Solves on the mesh that the net names, where it has more axes than the other meshes tried, unless its first axis is so many nodes. */
static void solve_named_mesh(Search *s, int tried, int nodes) {
    const Graph *g = &s->b->front.graph;
    const MeshAxes *named = &g->settings.mesh;
    Mesh mesh = {.naxes = named->n};
    int64_t ranks = 1;
    for (int a = 0; a < named->n; a++)
        ranks *= named->at[a].size;
    if (named->n <= tried || named->n > MOST_MESH_AXES || ranks != g->nranks || named->at[0].size == nodes) return;
    for (int a = 0; a < named->n; a++)
        mesh.axis[a] = named->at[a].digit;
    s->nmeshes++;
    solve(s, "dynamic_programming", &mesh, NULL);
}

/* Three axes take up to forty times as long to solve as two. */
void solve_on_meshes(Search *s) {
    const Machine *machine = options_machine(s->b->options);
    const int nranks = s->b->front.graph.nranks;
    const bool one_node = nranks <= machine->ranks_per_node,
               asked = strcmp(s->b->front.graph.settings.search, "dynamic_programming") == 0 && !s->b->front.two_axes;
    const int naxes = asked && one_node ? MOST_MESH_AXES : MESH_AXES;
    int32_t sizes[MOST_MESH_AXES] = {0};
    solve_meshes(s, sizes, 0, nranks, naxes, one_node);
    const int nodes =
        !one_node && nranks % machine->ranks_per_node == 0 ? nranks / machine->ranks_per_node : 0; /* 0: one, or not all full */
    if (asked && nodes > 0) solve_within_nodes(s, nodes, machine->ranks_per_node);
    if (asked) solve_named_mesh(s, naxes, nodes);
}

/* ---- recursive_programming */

/* The prime factors of the ranks as axes, those between nodes first, the largest first. Returns their number. */
static int prime_axes(int nranks, Digit axis[MAX_AXES]) {
    int32_t size[MAX_AXES] = {0};
    int n = 0;
    for (int p = 2; nranks > 1; p++)
        for (; nranks % p == 0; nranks /= p) {
            memmove(size + 1, size, (size_t)n * sizeof *size);
            size[0] = p;
            n++;
        }
    mesh_digits(size, n, 1, axis);
    return n;
}

/* Solves the first `together` axes at once, then `then` at a time. Only the last solution is kept. Before it the limit is multiplied by
 * the ranks of the axes that are left, which divide the peak by that at best. */
static void solve_axes(Search *s, int together, int then, int64_t limit) {
    int64_t left = s->b->front.graph.nranks;
    Mesh all = {0};
    all.naxes = prime_axes(s->b->front.graph.nranks, all.axis);
    const int first = s->found.n;
    s->most = 0; /* the best of some axes may lead to the best of all */
    for (int a = 0; a < all.naxes; together = then) {
        const Strategy *const *base = a > 0 ? s->found.at[first].chosen.strategy : NULL;
        Mesh mesh = {0};
        for (; mesh.naxes < together && a < all.naxes; left /= all.axis[a++].size)
            mesh.axis[mesh.naxes++] = all.axis[a];
        s->found.n = first;
        s->limit = limit * left;
        const bool found = solve(s, "recursive_programming", &mesh, base);
        s->limit = 0;
        if (!found) return;
    }
    s->found.at[first].mesh = all;
    s->found.at[first].bound = 0; /* of the last axis alone: it bounds nothing */
    s->most = WORTH * s->found.at[first].seconds;
}

void solve_by_axis(Search *s, int64_t limit) {
    solve_axes(s, 1, 1, limit);
}

/* Two axes at a time, the first one alone or not, fit each other better, but may leave worse choices for the other axes. With thousands
 * of ranks that would take seconds. */
void solve_by_axes(Search *s) {
    const int first = s->found.n;
    solve_by_axis(s, 0);
    if (s->b->front.graph.nranks > MOST_BY_TWO) return;
    for (int together = 1; together <= 2; together++) {
        const int before = s->found.n;
        solve_axes(s, together, 2, 0);
        if (before == first || s->found.n == before) continue;
        if (s->found.at[before].seconds < s->found.at[first].seconds) s->found.at[first] = s->found.at[before];
        s->found.n = before;
    }
}

void solve_by_axis_within(Search *s, int64_t most) {
    const int64_t least = s->least;
    s->least = 0;
    for (int k = LIMITS - 1, n = -1; k >= 0 && least < most && n < s->found.n; k--) {
        n = s->found.n;
        solve_by_axis(s, least + (most - least) * k / LIMITS);
    }
}

/* ---- pairs of products */

bool may_split(const Graph *g, const Node *node, int factor, int64_t parts) {
    const Factor *split = &node->rule->factor[factor];
    return !split->whole && factor_splits(split, parts) && (!g->settings.strict_divide || split->size % parts == 0);
}

const Strategy *strategy_of_split(Graph *g, const Node *node, const Split *split) {
    Strategy strategy = {.nfactors = node->rule->nfactors};
    for (int k = 0; k < split->n; k++) {
        const Mesh *along = &split->along[k];
        int64_t parts = 1;
        for (int a = 0; a < along->naxes; a++) {
            if (!strategy_append(&strategy, split->factor[k], along->axis[a])) return NULL;
            parts *= along->axis[a].size;
        }
        if (parts > 1 && !may_split(g, node, split->factor[k], parts)) return NULL;
    }
    return graph_strategy(g, &strategy);
}

/* The pairs' strategies with the rows split along the first nrows axes. A product that cannot be split so is left free. */
static const Strategy *const *strategies_of_pairs(Search *s, const Pairs *pairs, const Mesh *axes, int nrows) {
    Graph *g = &s->b->front.graph;
    const Strategy **fixed = arena_alloc(&s->arena, sizeof *fixed * ((size_t)g->nodes.n + 1));
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (pairs->rows[n] == 0) continue;
        Split split = {2, {pairs->rows[n] - 1, pairs->inner[n] - 1}, {*axes, {.naxes = axes->naxes - nrows}}};
        split.along[0].naxes = nrows;
        memcpy(split.along[1].axis, axes->axis + nrows, sizeof *axes->axis * (size_t)split.along[1].naxes);
        fixed[n] = strategy_of_split(g, node, &split);
    }
    return fixed;
}

void solve_with_pairs(Search *s, bool each) {
    const Machine *machine = options_machine(s->b->options);
    const int first = s->found.n;
    Pairs pairs;
    Mesh axes = {0};
    int between = s->b->front.graph.nranks;
    axes.naxes = prime_axes(between, axes.axis);
    pairs_find(&pairs, &s->b->front.graph, &s->arena);
    for (int nrows = 0; nrows < axes.naxes && pairs.n > 0; between /= axes.axis[nrows++].size) {
        if (between > machine->ranks_per_node) continue;
        s->fixed = strategies_of_pairs(s, &pairs, &axes, nrows);
        solve_by_axis(s, 0);
        if (each || s->found.n < first + 2) continue;
        if (s->found.at[first + 1].seconds < s->found.at[first].seconds) s->found.at[first] = s->found.at[first + 1];
        s->found.n = first + 1;
    }
    s->fixed = NULL;
}
