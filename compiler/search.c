/* search: strategies that solvers find for the whole net (docs/search.md).
 *
 * Before: propagate; every forward operator has a strategy, those of STRATEGY_USER are fixed, and states and inputs whose layout the user or the dataset fix have it.
 * After: as the setting `search` says, the others have the strategies, and states and inputs that several operators use the layouts, of
 * - dynamic_programming: the best solution of the model on any mesh of one or two axes;
 * - recursive_programming: the best solution for one axis after another, those between nodes first;
 * - auto: what of all these, and of what propagate left, is predicted to be fastest once it is compiled (oracle.h).
 * A program that follows another keeps what it has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/oracle.h"
#include "compiler/sharded.h"
#include "search/model.h"

enum {
    MESH_AXES = 2,
    MAX_TRIED = 4,
    COMPILED_NODES = 60000
};                  /* axes of a mesh; solutions on meshes that auto compiles; nodes that it compiles, about */
#define ABOUT 1.005 /* predictions that differ by less are taken to be equal */

/* Strategies and layouts for the whole net. */
typedef struct Found {
    const char *how; /* the name of a search */
    Mesh mesh;
    Chosen chosen; /* in the build's arena; strategy NULL: as it was */
    double seconds, bound;
    BuildCost cost; /* auto */
} Found;

typedef struct Search {
    Build *b;
    Arena arena;
    VEC(Found) found;
    double behind; /* ModelInput */
    int64_t work;
} Search;

/* ---- one problem */

/* Adds the best choices on a mesh, with base as in model_init. False: there are none. */
static bool solve(Search *s, const char *how, const Mesh *mesh, const Strategy *const *base) {
    Arena arena;
    Model model;
    Solution solution;
    Graph *g = &s->b->front.graph;
    arena_init(&arena);
    model_init(&model,
               &(ModelInput){.graph = g,
                             .out_layout = s->b->front.propagation.out_layout,
                             .machine = s->b->options->machine,
                             .mesh = *mesh,
                             .base = base,
                             .behind = s->behind},
               &arena);
    problem_solve(&model.problem, 0, &arena, &solution);
    s->work += solution.work;
    Found found = {.how = how, .mesh = *mesh, .seconds = solution.cost, .bound = solution.bound};
    if (solution.fits) {
        model_read(&model, solution.choice, s->b->arena, &found.chosen);
        for (int n = 0; n < g->nforward; n++)
            if (found.chosen.strategy[n] != NULL) found.chosen.strategy[n] = graph_strategy(g, found.chosen.strategy[n]);
        for (int k = 0; k < g->states.n; k++)
            if (found.chosen.state[k] != NULL) found.chosen.state[k] = graph_layout(g, found.chosen.state[k], &g->states.at[k].type.shape);
        for (int k = 0; k < g->inputs.n; k++)
            if (found.chosen.input[k] != NULL) found.chosen.input[k] = graph_layout(g, found.chosen.input[k], &g->inputs.at[k].type.shape);
        vec_push(&s->arena, &s->found, found);
    }
    arena_finish(&arena);
    return solution.fits;
}

/* ---- dynamic_programming */

/* Solves on all meshes of so many ranks with up to naxes axes behind sizes. Within a node the order of axes says nothing: one is enough. */
static void solve_meshes(Search *s, int32_t *sizes, int n, int ranks, int naxes, bool one_node) {
    if (ranks == 1) {
        Mesh mesh = {.naxes = n};
        mesh_digits(sizes, n, 1, mesh.axis);
        solve(s, "dynamic_programming", &mesh, NULL);
        return;
    }
    for (int size = 2; size <= ranks && naxes > 0; size++) {
        if (ranks % size != 0 || (naxes == 1 && size < ranks) || (one_node && n > 0 && size < sizes[n - 1])) continue;
        sizes[n] = size;
        solve_meshes(s, sizes, n + 1, ranks / size, naxes - 1, one_node);
    }
}

static void dynamic_programming(Search *s) {
    const Machine *machine = s->b->options->machine != NULL ? s->b->options->machine : &machine_cpu;
    const int nranks = s->b->front.graph.nranks;
    int32_t sizes[MESH_AXES] = {0};
    solve_meshes(s, sizes, 0, nranks, MESH_AXES, nranks <= machine->ranks_per_node);
}

/* ---- recursive_programming */

/* The prime factors of the ranks, those that lead out of a node first, the largest first. Their number. */
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

/* Each axis is the best choice where those before it are fixed. What is found before the last is not kept. */
static void recursive_programming(Search *s) {
    Mesh all = {0};
    all.naxes = prime_axes(s->b->front.graph.nranks, all.axis);
    const int first = s->found.n;
    for (int a = 0; a < all.naxes; a++) {
        const Strategy *const *base = a > 0 ? s->found.at[first].chosen.strategy : NULL;
        s->found.n = first;
        if (!solve(s, "recursive_programming", &(Mesh){1, {all.axis[a]}}, base)) return;
    }
    s->found.at[first].mesh = all;
    s->found.at[first].bound = 0; /* of the last axis alone: it bounds nothing */
}

/* ---- auto */

/* What a solution costs once it is compiled; infinite where that fails. */
static void compile_found(Search *s, Found *found) {
    Build b = *s->b;
    Error error = {0};
    Graph *g = &b.front.chosen;
    b.front.chosen = b.front.graph;
    g->states.at = arena_alloc(&s->arena, ((size_t)g->states.n + 1) * sizeof *g->states.at);
    g->inputs.at = arena_alloc(&s->arena, ((size_t)g->inputs.n + 1) * sizeof *g->inputs.at);
    for (int k = 0; k < g->states.n; k++) {
        g->states.at[k] = b.front.graph.states.at[k];
        if (found->chosen.state != NULL && found->chosen.state[k] != NULL) g->states.at[k].layout = found->chosen.state[k];
    }
    for (int k = 0; k < g->inputs.n; k++) {
        g->inputs.at[k] = b.front.graph.inputs.at[k];
        if (found->chosen.input != NULL && found->chosen.input[k] != NULL) g->inputs.at[k].layout = found->chosen.input[k];
    }
    if (!build_try(&b, found->chosen.strategy, &found->cost, &error)) found->cost.step_s = INFINITY;
}

static int by_seconds(const void *a, const void *b) {
    const Found *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Whether a rank has the memory that the user allows, if that is said. */
static bool within_memory(const Search *s, const Found *found) {
    const int64_t limit = s->b->front.graph.settings.memory_bytes;
    return limit == 0 || memory_bytes(&found->cost) <= limit;
}

/* The place of the best of all, by what is compiled of it: of those that are predicted to be about as fast as the fastest that is within the memory, the one that sends the
 * fewest bytes. Where none is, the one that needs the least memory, of which the user is told what it lacks. */
static int best_compiled(Search *s) {
    double fastest = INFINITY;
    int best = -1, least = -1;
    for (int k = 0; k < s->found.n; k++) {
        Found *found = &s->found.at[k];
        compile_found(s, found);
        if (!isfinite(found->cost.step_s)) continue;
        if (within_memory(s, found)) fastest = fmin(fastest, found->cost.step_s);
        if (least < 0 || memory_bytes(&found->cost) < memory_bytes(&s->found.at[least].cost)) least = k;
    }
    for (int k = 0; k < s->found.n; k++) {
        const BuildCost *cost = &s->found.at[k].cost;
        if (cost->step_s <= fastest * ABOUT && within_memory(s, &s->found.at[k]) &&
            (best < 0 || cost->sent_bytes < s->found.at[best].cost.sent_bytes))
            best = k;
    }
    return best >= 0 ? best : least;
}

static int best_of_model(const Search *s) {
    int best = 0;
    for (int k = 1; k < s->found.n; k++)
        if (s->found.at[k].seconds < s->found.at[best].seconds) best = k;
    return best;
}

/* ---- the pass */

static void apply(Build *b, const Found *found) {
    Graph *g = &b->front.graph;
    Propagation *propagation = &b->front.propagation;
    for (int n = 0; found->chosen.strategy != NULL && n < g->nforward; n++) {
        Node *node = &g->nodes.at[n];
        if (found->chosen.strategy[n] == NULL || node->from == STRATEGY_USER) continue;
        node->strategy = found->chosen.strategy[n];
        node->from = STRATEGY_PROPAGATED;
        if (propagation->decision != NULL) propagation->decision[n] = (Decision){.hint = -1, .from = -1, .by_search = true};
    }
    for (int k = 0; found->chosen.state != NULL && k < g->states.n; k++)
        if (found->chosen.state[k] != NULL) g->states.at[k].layout = found->chosen.state[k];
    for (int k = 0; found->chosen.input != NULL && k < g->inputs.n; k++)
        if (found->chosen.input[k] != NULL) g->inputs.at[k].layout = found->chosen.input[k];
}

void search_print(Text *text, const SearchResult *result) {
    text_printf(text, "%.4g ms predicted", 1e3 * result->seconds);
    if (result->bound > 0 && result->seconds < result->bound * 1.0005)
        text_printf(text, result->compiled ? ", no more than the best of this model" : ", the best of this model");
    else if (result->bound > 0)
        text_printf(text, ", at most %.1f %% above the best of this model", 100 * (result->seconds / result->bound - 1));
    text_printf(text, ", by %s", result->how);
    for (int a = 0; a < result->mesh.naxes; a++)
        text_printf(text, "%s%d", a > 0 ? " x " : " on the mesh ", (int)result->mesh.axis[a].size);
}

static void say(Build *b) {
    if (!b->diags->verbose) return;
    Text text = {0};
    search_print(&text, b->front.search);
    diag_note(b->diags, (Span){0}, "search: %s", text.at);
    text_finish(&text);
}

/* Of the meshes that dynamic_programming tried. */
static double least_bound(const Search *s) {
    double bound = INFINITY;
    for (int k = 0; k < s->found.n; k++)
        if (s->found.at[k].bound > 0 && s->found.at[k].bound < bound) bound = s->found.at[k].bound;
    return isfinite(bound) ? bound : 0;
}

static void finish(Search *s, int best, double bound) {
    Build *b = s->b;
    const Found *found = &s->found.at[best];
    SearchResult *result = arena_alloc(b->arena, sizeof *result);
    *result = (SearchResult){.how = found->how,
                             .seconds = found->cost.step_s > 0 ? found->cost.step_s : found->seconds,
                             .compiled = found->cost.step_s > 0,
                             .bound = bound,
                             .mesh = found->mesh,
                             .ntried = s->found.n,
                             .work = s->work};
    apply(b, found);
    b->front.search = result;
    say(b);
}

/* Of propagate's strategies, the solutions on the best meshes, axis by axis, and what of these is best where all traffic of parameters counts: that sends less. */
static void best_of_all(Search *s) {
    dynamic_programming(s);
    qsort(s->found.at, (size_t)s->found.n, sizeof *s->found.at, by_seconds);
    const double bound = least_bound(s);
    const int most = COMPILED_NODES / (s->b->front.graph.nodes.n + 1) < 3 + MAX_TRIED ? 1 : MAX_TRIED;
    const int n = s->found.n < most ? s->found.n : most;
    s->found.n = n;
    recursive_programming(s);
    s->behind = 0;
    if (n > 0 && most > 1) {
        solve(s, s->found.at[0].how, &s->found.at[0].mesh, NULL);
        recursive_programming(s);
    }
    vec_push(&s->arena, &s->found, ((Found){.how = "sharding_propagation"}));
    const int best = best_compiled(s);
    if (best >= 0) finish(s, best, bound);
}

bool pass_search(Build *b) {
    const Graph *g = &b->front.graph;
    const char *search = g->settings.search;
    if (b->follows != NULL || g->nranks == 1 || g->settings.mode != MODE_AUTO || strcmp(search, "sharding_propagation") == 0) return true;
    Search s = {.b = b, .behind = BEHIND_HALF};
    arena_init(&s.arena);
    if (strcmp(search, "auto") == 0) {
        best_of_all(&s);
    } else if (strcmp(search, "recursive_programming") == 0) {
        recursive_programming(&s);
        if (s.found.n > 0) finish(&s, 0, 0);
    } else {
        dynamic_programming(&s);
        if (s.found.n > 0) finish(&s, best_of_model(&s), least_bound(&s));
    }
    arena_finish(&s.arena);
    return true;
}
