/* search: strategies that a solver finds for the whole net (docs/search.md).
 *
 * Before: propagate; every forward operator has a strategy, those of STRATEGY_USER are fixed, and states and inputs whose layout the user or the dataset fix have it.
 * After: where the setting `search` asks for it, the others have the strategies, and states and inputs that several operators use the layouts, of the best solution that was
 * found on any mesh of so many ranks. A program that follows another keeps what it has. */
#include <math.h>
#include <string.h>

#include "compiler/sharded.h"
#include "search/model.h"

enum { MESH_AXES = 2 }; /* of the meshes that are tried */

typedef struct Search {
    Build *b;
    Arena arena;
    SearchResult *result;
    Chosen chosen; /* of the best so far, in the build's arena */
} Search;

/* ---- meshes */

typedef VEC(Mesh) Meshes;

/* All meshes of so many ranks with up to naxes axes behind those of `mesh`. Within a node the order of axes says nothing: one is enough. */
static void add_meshes(Search *s, Meshes *meshes, Mesh mesh, int ranks, int naxes, bool one_node) {
    if (ranks == 1) {
        if (mesh.naxes > 0) vec_push(&s->arena, meshes, mesh);
        return;
    }
    for (int size = 2; size <= ranks && naxes > 0; size++) {
        if (ranks % size != 0 || (naxes == 1 && size < ranks)) continue;
        if (one_node && mesh.naxes > 0 && size < mesh.size[mesh.naxes - 1]) continue;
        Mesh more = mesh;
        more.size[more.naxes++] = size;
        add_meshes(s, meshes, more, ranks / size, naxes - 1, one_node);
    }
}

/* ---- one mesh */

static void keep(Search *s, const Model *model, const Solution *solution, const Mesh *mesh) {
    Graph *g = &s->b->front.graph;
    Chosen found;
    model_read(model, solution->choice, s->b->arena, &found);
    for (int n = 0; n < g->nforward; n++)
        if (found.strategy[n] != NULL) found.strategy[n] = graph_strategy(g, found.strategy[n]);
    for (int k = 0; k < g->states.n; k++)
        if (found.state[k] != NULL) found.state[k] = graph_layout(g, found.state[k], &g->states.at[k].type.shape);
    for (int k = 0; k < g->inputs.n; k++)
        if (found.input[k] != NULL) found.input[k] = graph_layout(g, found.input[k], &g->inputs.at[k].type.shape);
    s->chosen = found;
    s->result->seconds = solution->cost;
    s->result->mesh = *mesh;
}

static void try_mesh(Search *s, const Mesh *mesh) {
    Arena arena;
    Model model;
    Solution solution;
    arena_init(&arena);
    model_init(&model, &s->b->front.graph, s->b->front.propagation.out_layout, s->b->options->machine, mesh, &arena);
    problem_solve(&model.problem, 0, &arena, &solution);
    s->result->ntried++;
    s->result->work += solution.work;
    if (s->result->ntried == 1 || solution.bound < s->result->bound) s->result->bound = solution.bound;
    if (solution.fits && solution.cost < s->result->seconds) keep(s, &model, &solution, mesh);
    arena_finish(&arena);
}

/* ---- the pass */

static void apply(Search *s) {
    Graph *g = &s->b->front.graph;
    Propagation *propagation = &s->b->front.propagation;
    for (int n = 0; n < g->nforward; n++) {
        Node *node = &g->nodes.at[n];
        if (s->chosen.strategy[n] == NULL || node->from == STRATEGY_USER) continue;
        node->strategy = s->chosen.strategy[n];
        node->from = STRATEGY_PROPAGATED;
        if (propagation->decision != NULL) propagation->decision[n] = (Decision){.hint = -1, .from = -1};
    }
    for (int k = 0; k < g->states.n; k++)
        if (s->chosen.state[k] != NULL) g->states.at[k].layout = s->chosen.state[k];
    for (int k = 0; k < g->inputs.n; k++)
        if (s->chosen.input[k] != NULL) g->inputs.at[k].layout = s->chosen.input[k];
}

void search_print(Text *text, const SearchResult *result) {
    const double gap = result->seconds > 0 ? 100 * (result->seconds - result->bound) / result->seconds : 0;
    text_printf(text, "%.4g ms predicted, ", 1e3 * result->seconds);
    if (gap < 0.05)
        text_printf(text, "the best of this model");
    else
        text_printf(text, "at most %.1f %% above the best of this model", 100 * (result->seconds / result->bound - 1));
    text_printf(text, ", on the mesh ");
    for (int a = 0; a < result->mesh.naxes; a++)
        text_printf(text, "%s%d", a > 0 ? " x " : "", (int)result->mesh.size[a]);
}

static void say(Build *b) {
    if (!b->diags->verbose) return;
    Text text = {0};
    search_print(&text, b->front.search);
    diag_note(b->diags, (Span){0}, "search: %s", text.at);
    text_finish(&text);
}

bool pass_search(Build *b) {
    const Graph *g = &b->front.graph;
    if (b->follows != NULL || g->nranks == 1 || g->settings.mode != MODE_AUTO || strcmp(g->settings.search, "sharding_propagation") == 0)
        return true;
    Search s = {.b = b, .result = arena_alloc(b->arena, sizeof *s.result)};
    *s.result = (SearchResult){.seconds = INFINITY};
    arena_init(&s.arena);
    Meshes meshes = {0};
    const Machine *machine = b->options->machine != NULL ? b->options->machine : &machine_cpu;
    add_meshes(&s, &meshes, (Mesh){0}, g->nranks, MESH_AXES, g->nranks <= machine->ranks_per_node);
    for (int m = 0; m < meshes.n; m++)
        try_mesh(&s, &meshes.at[m]);
    if (s.result->seconds < INFINITY) {
        apply(&s);
        b->front.search = s.result;
        say(b);
    }
    arena_finish(&s.arena);
    return true;
}
