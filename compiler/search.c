/* search: strategies that solvers find for the whole net (docs/search.md).
 *
 * Before: propagate; every forward operator has a strategy, those of STRATEGY_USER are fixed, and states and inputs whose layout the user or the dataset fixes have it.
 * After: all other operators have the strategies, and states and inputs that several operators use have the layouts, of what the setting `search` names:
 * - dynamic_programming: the best solution of the model on any mesh of one or two axes, within a node of three, and on the net's own of three;
 * - recursive_programming: the best solution for one axis after another, those between nodes first;
 * - auto: of these, of what propagate left, and of changes near the best of them, the one whose compiled plan is predicted to be fastest (oracle.h).
 * A program that follows another keeps what it has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/improve.h"
#include "compiler/search.h"
#include "compiler/sharded.h"
#include "compiler/sides.h"
#include "compiler/solutions.h"

/* The most solutions on meshes that auto compiles; about how many nodes it compiles. */
enum { MAX_TRIED = 4, COMPILED_NODES = 60000 };
/* The most solutions compiled: of those that hold less; of those where conversions are joined, so many as one; of those where operators side by side are split alike. */
enum { MAX_WITHIN = 3, MAX_JOINED = 2, JOINED = 8, MAX_ALIKE = 12, MUCH = 4 };
/* Where so many solutions of a net can be compiled, there is one from pairs for each number of groups of rows. */
enum { EACH = 50 };
enum { ON_MESHES = 1, BY_AXIS = 2 }; /* searches */
#define NEAR 1.005
#define MUCH_SLOWER 1.5 /* no measure that saves time makes up for this factor, */
#define SLOWER 1.03     /* and seldom one for this, used for large nets */
#define FAR 1.25        /* times the limit */
#define CLOSE 0.03      /* of the limit: an excess that measures of almost no cost sometimes remove */

bool searches(const Build *b) {
    const Settings *settings = &b->front.graph.settings;
    return settings->found.n == 0 && b->front.graph.nranks > 1 && settings->mode == MODE_AUTO &&
           strcmp(settings->search, "sharding_propagation") != 0;
}

/* ---- auto */

/* A choice in which everything is as it was, to be filled. */
static Chosen nothing_chosen(const Search *s) {
    const Graph *g = &s->b->front.graph;
    Arena *arena = s->b->arena;
    Chosen chosen = {0};
    chosen.strategy = arena_alloc(arena, ((size_t)g->nodes.n + 1) * sizeof *chosen.strategy);
    chosen.state = arena_alloc(arena, ((size_t)g->states.n + 1) * sizeof *chosen.state);
    chosen.input = arena_alloc(arena, ((size_t)g->inputs.n + 1) * sizeof *chosen.input);
    return chosen;
}

/* Adds the solution that keeps hints and splits the batch of all other operators among nranks, unless propagation has found it. */
static void batch_split(Search *s, int nranks) {
    Graph *g = &s->b->front.graph, copy;
    Propagation ignored;
    Found found = {.how = "batch split", .chosen = nothing_chosen(s)};
    bool same = true;
    graph_fork(&copy, g, &s->arena);
    copy.settings.mode = MODE_SEMI_AUTO;
    copy.nranks = nranks;
    if (!propagate_again(&copy, &ignored)) return;
    for (int n = 0; n < g->nforward; n++) {
        if (node_is_leaf(&g->nodes.at[n])) continue;
        found.chosen.strategy[n] = graph_strategy(g, copy.nodes.at[n].strategy);
        same = same && found.chosen.strategy[n] == graph_strategy(g, g->nodes.at[n].strategy);
    }
    if (!same) vec_push(&s->arena, &s->found, found);
}

static bool has_hints(const Graph *g) {
    for (int n = 0; n < g->nforward; n++)
        if (g->nodes.at[n].from == STRATEGY_USER) return true;
    return false;
}

/* Splits the batch among all ranks. A batch may be too small for several nodes, so also among the ranks of one node, or of an equal part of each node: all parts do alike, and nodes send each other nothing. */
static void batch_splits(Search *s) {
    const Graph *g = &s->b->front.graph;
    const int near = (int)gcd64(g->nranks, options_machine(s->b->options)->ranks_per_node);
    batch_split(s, g->nranks);
    if (near > 1 && near < g->nranks && !s->large && !has_hints(g)) batch_split(s, near);
}

/* Adds the solution that keeps hints and splits nothing else: every rank computes alike, and nothing sends less. */
static void no_split(Search *s) {
    Graph *g = &s->b->front.graph;
    Found found = {.how = "no split", .chosen = nothing_chosen(s)};
    for (int n = 0; n < g->nforward; n++) {
        const Node *node = &g->nodes.at[n];
        if (node_is_leaf(node)) continue;
        found.chosen.strategy[n] =
            graph_strategy(g, node->from == STRATEGY_USER ? node->strategy : &(Strategy){.nfactors = node->rule->nfactors});
    }
    vec_push(&s->arena, &s->found, found);
}

const Build *with_layouts(Search *s, const Found *found) {
    Build *b = arena_alloc(&s->arena, sizeof *b);
    Graph *g = &b->front.chosen;
    *b = *s->b;
    b->front.chosen = b->front.graph;
    g->states.at = arena_alloc(&s->arena, ((size_t)g->states.n + 1) * sizeof *g->states.at);
    g->inputs.at = arena_alloc(&s->arena, ((size_t)g->inputs.n + 1) * sizeof *g->inputs.at);
    for (int k = 0; k < g->states.n; k++) {
        g->states.at[k] = b->front.graph.states.at[k];
        if (found->chosen.state != NULL && found->chosen.state[k] != NULL) g->states.at[k].layout = found->chosen.state[k];
    }
    for (int k = 0; k < g->inputs.n; k++) {
        g->inputs.at[k] = b->front.graph.inputs.at[k];
        if (found->chosen.input != NULL && found->chosen.input[k] != NULL) g->inputs.at[k].layout = found->chosen.input[k];
    }
    return b;
}

/* Compiles a solution and sets its cost, infinite if that fails. If it is not much slower than the fastest so far, measures that save time are tried. */
static void compile_found(Search *s, Found *found) {
    Error error = {0};
    double fastest = INFINITY;
    for (int k = 0; k < s->found.n; k++)
        if (s->found.at[k].cost.step_s > 0) fastest = fmin(fastest, s->found.at[k].cost.step_s);
    const double faster_s = (s->large ? SLOWER : MUCH_SLOWER) * fastest;
    found->budget = budget_begin(with_layouts(s, found), found->chosen.strategy, s->faster && found->how != NULL ? faster_s : 0, &error);
    found->cost.step_s = INFINITY;
    if (found->budget == NULL) return;
    vec_push(&s->arena, &s->all, ((Compiled){.budget = found->budget, .how = found->how, .mesh = found->mesh, .chosen = found->chosen}));
    budget_read(found->budget, &found->measures, &found->cost);
}

/* The seconds from which on a step is not worth more work. */
static double most_of(const Search *s, double most) {
    const double wanted = s->b->front.most_s;
    return wanted > 0 && wanted < most ? wanted : most;
}

/* Adds the measures that it needs for memory, as long as it takes less than `most` seconds. */
static void fit_found(Search *s, Found *found, double most) {
    found->fitted = true;
    found->bare = found->cost;
    if (found->budget == NULL) return;
    budget_fit(found->budget, most_of(s, most));
    budget_read(found->budget, &found->measures, &found->cost);
}

/* Takes back what it does not need of its measures. */
static void trim_found(Found *found) {
    if (found->budget == NULL) return;
    budget_trim(found->budget);
    budget_read(found->budget, &found->measures, &found->cost);
}

static const Pricing *price(Search *s, const Machine *machine, Moves *moves) {
    Pricing *pricing = arena_alloc(&s->arena, sizeof *pricing);
    *pricing = (Pricing){machine, moves};
    moves_share(moves, s->b->options->pool);
    vec_push(&s->arena, &s->pricings, pricing);
    return pricing;
}
static void search_open(Search *s) {
    arena_init(&s->arena);
    s->large = COMPILED_NODES / (s->b->front.graph.nodes.n + 1) < EACH;
    s->reads = reads_find(&s->b->front.graph, s->b->front.propagation.out_layout, &s->arena);
    s->pricing = s->as_is = price(s, s->b->options->machine, moves_create(&s->arena, s->b->options->machine, s->b->front.graph.nranks));
}
static void search_close(Search *s) {
    for (int k = 0; k < s->all.n; k++)
        budget_end(s->all.at[k].budget);
    for (int k = 0; k < s->pricings.n; k++)
        moves_finish(s->pricings.at[k]->moves);
    arena_finish(&s->arena);
}

bool chosen_equal(const Graph *g, const Chosen *a, const Chosen *b) {
    return a->strategy != NULL && b->strategy != NULL && memcmp(a->strategy, b->strategy, (size_t)g->nforward * sizeof *a->strategy) == 0 &&
           memcmp(a->state, b->state, (size_t)g->states.n * sizeof *a->state) == 0 &&
           memcmp(a->input, b->input, (size_t)g->inputs.n * sizeof *a->input) == 0;
}

/* Removes solutions that were found before: of small nets most searches find the same. */
static void forget_equal(Search *s) {
    int n = 0;
    for (int k = 0; k < s->found.n; k++) {
        bool known = false;
        for (int i = 0; i < n && !known; i++)
            known = chosen_equal(&s->b->front.graph, &s->found.at[i].chosen, &s->found.at[k].chosen);
        if (!known) s->found.at[n++] = s->found.at[k];
    }
    s->found.n = n;
}

/* The bytes by which a rank exceeds the limit, if there is one. */
static int64_t excess(const Search *s, const Found *found) {
    const int64_t limit = budget_limit(s->b);
    return limit == 0 || memory_bytes(&found->cost) <= limit ? 0 : memory_bytes(&found->cost) - limit;
}

static bool is_near(double a, double b, double about) {
    return fmax(a, b) <= about * fmin(a, b);
}

/* Whether another solution was compiled that costs the same to the last bit, or, if it fits or is not close to fitting, about the same. The two differ in the names of axes, or in what costs next to
 * nothing, and measures have the same effect on both. */
static bool is_twin(const Search *s, const Found *found) {
    for (int k = 0; k < s->found.n; k++) {
        const Found *other = &s->found.at[k];
        if (other == found || !other->fitted || other->twin) continue;
        const BuildCost *a = &other->bare, *b = &found->cost;
        const int64_t over = excess(s, other);
        const double about = over == 0 || (double)over > CLOSE * (double)budget_limit(s->b) ? NEAR : 1;
        if (is_near(a->step_s, b->step_s, about) && is_near(a->exposed_s, b->exposed_s, about) &&
            is_near(a->kernel_s, b->kernel_s, about) && is_near((double)memory_bytes(a), (double)memory_bytes(b), about) &&
            is_near((double)a->arena_bytes, (double)b->arena_bytes, about) &&
            is_near((double)a->sent_bytes, (double)b->sent_bytes, about) &&
            is_near((double)a->received_bytes, (double)b->received_bytes, about) && is_near(a->flops, b->flops, about) &&
            a->broken == b->broken)
            return true;
    }
    return false;
}

int compare_demands(const Search *s, const Found *a, const Found *b) {
    const int64_t over = excess(s, a), other = excess(s, b);
    const int broken = a->cost.broken + (over > 0) - b->cost.broken - (other > 0);
    return broken != 0 ? broken : (over > other) - (over < other);
}

/* Compiles what is not compiled yet. Then, the fastest first, adds measures to what needs some, except to what takes longer without them than something that fits, and, before solutions that hold less
 * are looked for, to what would need far too much even if measures saved as large a part of it as of any so far. */
static void compile_all(Search *s) {
    const Found *kept = NULL; /* the fastest of those that meet the most demands */
    double left = 0;          /* of what does not fit, the least part of its memory that measures have left; 0: not known */
    for (int k = 0; k < s->found.n; k++)
        if (s->found.at[k].cost.step_s == 0) compile_found(s, &s->found.at[k]);
    for (;;) {
        Found *next = NULL;
        for (int k = 0; k < s->found.n; k++) {
            Found *found = &s->found.at[k];
            if (!found->fitted && (next == NULL || found->cost.step_s < next->cost.step_s)) next = found;
        }
        if (next == NULL) return;
        if (excess(s, next) > 0 && is_twin(s, next)) {
            next->fitted = next->twin = true;
            continue;
        }
        const int64_t needed = memory_bytes(&next->cost);
        const bool more = next->budget != NULL && MUCH * budget_most(next->budget) > needed; /* measures save more in it than in others */
        if (s->worth == 0 && !more && left * (double)needed > FAR * (double)budget_limit(s->b)) {
            next->fitted = true;
            continue;
        }
        const bool kept_fits = kept != NULL && excess(s, kept) == 0 && kept->cost.broken <= next->cost.broken;
        fit_found(s, next, kept_fits ? ABOUT * kept->cost.step_s : INFINITY);
        if (!isfinite(next->cost.step_s)) continue;
        if (excess(s, next) > 0) {
            const double part = (double)memory_bytes(&next->cost) / (double)memory_bytes(&next->bare);
            left = left > 0 ? fmin(left, part) : part;
        }
        const int order = kept == NULL ? -1 : compare_demands(s, next, kept);
        if (order < 0 || (order == 0 && next->cost.step_s < kept->cost.step_s)) kept = next;
    }
}

/* Of solutions about as fast as the fastest, takes back measures that the limit does not ask for: with fewer they are faster. */
static void trim_near(Search *s) {
    double fastest = INFINITY;
    for (int k = 0; k < s->found.n; k++)
        if (excess(s, &s->found.at[k]) == 0) fastest = fmin(fastest, s->found.at[k].cost.step_s);
    for (int k = 0; k < s->found.n; k++)
        if (excess(s, &s->found.at[k]) == 0 && s->found.at[k].cost.step_s <= ABOUT * fastest) trim_found(&s->found.at[k]);
}

/* The place of the best compiled solution: among those that meet the most of the user's demands (memory, traffic, time) and whose predicted time exceeds that of the
 * fastest of these by no more than the part `tolerance`, the best in time and traffic. A demand that it does not meet is an error later. */
static int best_within(const Search *s, double tolerance) {
    double fastest = INFINITY;
    int best = -1, kept = -1;
    for (int k = 0; k < s->found.n; k++) {
        const Found *found = &s->found.at[k];
        if (!isfinite(found->cost.step_s)) continue;
        const int order = kept < 0 ? -1 : compare_demands(s, found, &s->found.at[kept]);
        if (order < 0) kept = k;
        if (order <= 0) fastest = order < 0 ? found->cost.step_s : fmin(fastest, found->cost.step_s);
    }
    for (int k = 0; k < s->found.n; k++) {
        const BuildCost *cost = &s->found.at[k].cost;
        if (!isfinite(cost->step_s) || cost->step_s > fastest * (1 + tolerance) ||
            compare_demands(s, &s->found.at[k], &s->found.at[kept]) != 0)
            continue;
        if (best < 0 || time_and_traffic(cost) < time_and_traffic(&s->found.at[best].cost)) best = k;
    }
    return best;
}

static int best_compiled(Search *s) {
    compile_all(s);
    trim_near(s);
    return best_within(s, TOLERANCE_USUAL);
}

/* If the user has set another tolerance for less traffic, the best of all that was found with that; else `best`. */
static int settle(const Search *s, int best) {
    const double tolerance = s->b->front.graph.settings.tolerance;
    return tolerance != TOLERANCE_USUAL ? best_within(s, tolerance) : best;
}

static int best_of_model(const Search *s) {
    int best = 0;
    for (int k = 1; k < s->found.n; k++)
        if (s->found.at[k].seconds < s->found.at[best].seconds) best = k;
    return best;
}

/* Removes and returns the last solution found; its `how` is NULL if there are only `before`. */
static Found take_last(Search *s, int before) {
    return s->found.n > before ? s->found.at[--s->found.n] : (Found){0};
}

/* From here on, so many messages take as long as one in models. */
static void join(Search *s, int joined) {
    Machine *machine = arena_alloc(&s->arena, sizeof *machine);
    *machine = *options_machine(s->b->options);
    machine->rank.latency_s /= joined;
    machine->node.latency_s /= joined;
    s->pricing = price(s, machine, moves_joined(s->as_is->moves, machine, joined));
    s->behind = BEHIND_HALF;
    s->most = 0;
}

/* Compiles the best few, if new, of the solutions from `first` on. They are of another machine, so their bounds say nothing here. Returns the best of all. */
static int best_with(Search *s, int first, int most) {
    qsort(s->found.at + first, (size_t)(s->found.n - first), sizeof *s->found.at, found_compare);
    if (s->found.n > first + most) s->found.n = first + most;
    for (int k = first; k < s->found.n; k++)
        s->found.at[k].bound = 0;
    forget_equal(s);
    return best_compiled(s);
}

/* Adds what is best where so many messages take as long as one. Solves axis by axis first, as solutions() does, only to set Search.most. Returns the best of all. */
static int as_joined(Search *s, int joined) {
    const int first = s->found.n;
    join(s, joined);
    solve_by_axis(s, 0);
    take_last(s, first);
    solve_on_meshes(s);
    return best_with(s, first, MAX_JOINED);
}

/* Adds the best on a mesh in which the operators of a side split this factor along some axes of the mesh, and no other factor; factor = nfactors: none. */
static void solve_alike(Search *s, const Strategy **fixed, const Sides *sides, int side, int factor, const Mesh *along, const Mesh *mesh) {
    Graph *g = &s->b->front.graph;
    for (int n = 0; n < g->nforward; n++)
        if (sides->of[n] == side)
            fixed[n] = strategy_of_split(g, &g->nodes.at[n], &(Split){factor < g->nodes.at[n].rule->nfactors, {factor}, {*along}});
    s->fixed = fixed;
    if (mesh->naxes > 0) solve_on(s, mesh, NULL);
    s->fixed = NULL;
}

/* Splits the side with the largest operands alike: along one factor by all ranks, within a node by some of them too, or not at all. The model cannot tell which conversions run as one, and what
 * it takes to be a little faster may be much slower. Tries the mesh of the best so far, unless it has too many axes to be solved together quickly, and others; not for nets of which only a few
 * solutions are compiled. Returns the best of all. */
static int as_alike(Search *s, const Sides *sides, int best) {
    Graph *g = &s->b->front.graph;
    const Mesh of_best = s->found.at[best].mesh, all = {1, {{g->nranks, 1}}};
    const int first = s->found.n;
    const int largest = sides_largest(sides, JOINED);
    if (largest < 0 || COMPILED_NODES / (g->nodes.n + 1) < s->found.n + MAX_ALIKE) return best;
    const int nfactors = sides->at.at[largest].node->rule->nfactors;
    const Strategy **fixed = arena_alloc(&s->arena, sizeof *fixed * ((size_t)g->nforward + 1));
    Meshes meshes = {0};
    if (g->nranks <= options_machine(s->b->options)->ranks_per_node) meshes_of_two(s, &meshes);
    for (int f = 0; f <= nfactors; f++) {
        if (of_best.naxes <= 2) solve_alike(s, fixed, sides, largest, f, &of_best, &of_best);
        solve_alike(s, fixed, sides, largest, f, &all, &all);
        for (int m = 0; m < meshes.n && f < nfactors; m++)
            for (int a = 0; a < 2; a++)
                solve_alike(s, fixed, sides, largest, f, &(Mesh){1, {meshes.at[m].axis[a]}}, &meshes.at[m]);
    }
    return best_with(s, first, MAX_ALIKE);
}

/* Whether there is work left for another model besides the search near the best plan. */
static bool may_solve(const Search *s) {
    return taken_work(s) < AUTO_WORK / 2;
}

/* Many conversions may run as one, of which the model knows nothing, so that it counts too much for their messages. What is best with a part of the latencies competes, and what is best if the
 * conversions of all operators side by side run as one. Returns the best of all. */
static int with_joined(Search *s, int best) {
    Sides sides;
    sides_find(&sides, &s->b->front.graph, &s->arena);
    if (best < 0 || sides.widest < JOINED) return best;
    best = as_joined(s, JOINED);
    if (sides.widest > JOINED && may_solve(s)) best = as_joined(s, sides.widest);
    return may_solve(s) ? as_alike(s, &sides, best) : best;
}

/* Where the best breaks demands of the user's: adds what is best with slower links, which sends less, and what splits nothing, which sends nothing. Returns the best of all. */
static int with_demands(Search *s, int best) {
    enum { SLOWER_LINKS = 8, MAX_SLOWER_LINKS = 64 };
    if (best < 0 || s->found.at[best].cost.broken == 0) return best;
    for (int slower = SLOWER_LINKS; slower <= MAX_SLOWER_LINKS && may_solve(s); slower *= SLOWER_LINKS) {
        const int first = s->found.n;
        Machine *machine = arena_alloc(&s->arena, sizeof *machine);
        *machine = *options_machine(s->b->options);
        machine->rank.bytes_per_s /= slower;
        machine->node.bytes_per_s /= slower;
        s->pricing = price(s, machine, moves_create(&s->arena, machine, s->b->front.graph.nranks));
        s->behind = 0;
        s->most = 0;
        solve_by_axis(s, 0);
        solve_on_meshes(s);
        best = best_with(s, first, MAX_JOINED);
        s->pricing = s->as_is;
        if (s->found.at[best].cost.broken == 0) return best;
    }
    no_split(s);
    return best_compiled(s);
}

/* ---- within a limit of memory */

/* What a rank needs without the measures. */
static int64_t bare_bytes(const Found *found) {
    int64_t bytes = memory_bytes(&found->cost);
    for (int k = 0; k < found->measures.n; k++)
        bytes += found->measures.taken[k].saved_bytes;
    return bytes;
}
static double bare_seconds(const Found *found) {
    double seconds = found->cost.step_s;
    for (int k = 0; k < found->measures.n; k++)
        seconds -= found->measures.taken[k].seconds;
    return seconds;
}

/* Of the model's solutions the one that would be fastest if there were more memory; -1: the limit costs nothing. */
static int fastest_too_large(const Search *s, int best, int64_t limit) {
    double least = INFINITY;
    int fastest = -1;
    for (int k = 0; k < s->found.n; k++)
        if (s->found.at[k].pricing == s->as_is) least = fmin(least, s->found.at[k].seconds);
    for (int k = 0; k < s->found.n; k++) {
        const Found *found = &s->found.at[k];
        if (found->pricing != s->as_is || !isfinite(found->cost.step_s) || bare_bytes(found) <= limit) continue;
        if (found->seconds > WORTH * least) continue; /* as pairs may: solutions that hold less are looked for near the model's best */
        if (fastest < 0 || bare_seconds(found) < bare_seconds(&s->found.at[fastest])) fastest = k;
    }
    const bool costs = fastest >= 0 && (excess(s, &s->found.at[best]) > 0 ||
                                        bare_seconds(&s->found.at[fastest]) * ABOUT_THE_SAME < s->found.at[best].cost.step_s);
    return costs ? fastest : -1;
}

/* The model's peak with which a plan should fit without measures, if plans exceed peaks by as much as `large`, which was compiled, does. */
static int64_t least_peak(const Found *large, int64_t limit) {
    const int64_t peak = large->peak_bytes, bare = bare_bytes(large), least = limit - (bare - peak);
    return least >= limit / 2 && least < peak ? least : (int64_t)((double)limit * ((double)peak / (double)bare));
}

static int by_peak(const void *a, const void *b) {
    const Found *x = a, *y = b;
    return x->peak_bytes != y->peak_bytes ? (x->peak_bytes > y->peak_bytes) - (x->peak_bytes < y->peak_bytes) : found_compare(a, b);
}

/* Keeps, of the solutions from `first` on, those worth compiling: no other holds less in less time, and none takes longer than what fits. Of these some, with the one that holds least. */
static void keep_promising(Search *s, int first) {
    int n = first;
    qsort(s->found.at + first, (size_t)(s->found.n - first), sizeof *s->found.at, by_peak);
    for (int k = first; k < s->found.n; k++)
        if (s->found.at[k].seconds < s->worth && (n == first || s->found.at[k].seconds < s->found.at[n - 1].seconds))
            s->found.at[n++] = s->found.at[k];
    s->found.n = n;
    for (int k = 0; n - first > MAX_WITHIN && k < MAX_WITHIN; k++) {
        s->found.at[first + k] = s->found.at[first + k * (n - first) / MAX_WITHIN];
        s->found.n = first + k + 1;
    }
}

/* Adds the best by the search and on the mesh of `like` whose peak in the model is at most `peak`. False: there is none. */
static bool solve_like(Search *s, const Found *like, int64_t peak) {
    const Pricing *pricing = s->pricing;
    const int before = s->found.n;
    s->pricing = like->pricing;
    if (strcmp(like->how, "recursive_programming") == 0) {
        solve_by_axis(s, peak);
    } else {
        s->limit = peak;
        solve_on(s, &like->mesh, NULL);
        s->limit = 0;
    }
    s->pricing = pricing;
    return s->found.n > before;
}

static bool is_like(const Found *a, const Found *b) {
    return a->pricing == b->pricing && strcmp(a->how, b->how) == 0 && a->mesh.naxes == b->mesh.naxes &&
           memcmp(a->mesh.axis, b->mesh.axis, (size_t)a->mesh.naxes * sizeof *a->mesh.axis) == 0;
}

/* Bisects between the model's peaks of two solutions of one search and mesh, from `first` on, of which one fits without measures and one does not: others that fit may be faster. */
static void solve_between(Search *s, int first, const Found *of, int64_t limit) {
    enum { HALVES = 4 };
    const Found like = *of;
    int64_t fits = 0, large = INT64_MAX;
    for (int k = first; k < s->found.n; k++) {
        const Found *found = &s->found.at[k];
        if (!is_like(found, &like) || found->peak_bytes == 0 || !isfinite(found->cost.step_s)) continue;
        if (bare_bytes(found) <= limit && found->peak_bytes > fits) fits = found->peak_bytes;
    }
    for (int k = first; k < s->found.n; k++) {
        const Found *found = &s->found.at[k];
        if (is_like(found, &like) && found->peak_bytes > fits && found->peak_bytes < large) large = found->peak_bytes;
    }
    for (int k = 0; k < HALVES && fits > 0 && large < INT64_MAX && large - fits > fits / 64; k++) {
        const int64_t middle = fits + (large - fits) / 2;
        if (!solve_like(s, &like, middle) || s->found.at[s->found.n - 1].peak_bytes <= fits) {
            fits = middle;
            continue;
        }
        Found *found = &s->found.at[s->found.n - 1];
        compile_found(s, found);
        found->fitted = true; /* not with measures: others with some are as fast */
        if (bare_bytes(found) <= limit)
            fits = middle;
        else
            large = found->peak_bytes;
    }
}

/* Adds some of the solutions that hold less, by these searches. */
static void solve_less(Search *s, int searches, int64_t most) {
    const int64_t least = s->least;
    int first = s->found.n;
    if (searches & ON_MESHES) {
        solve_on_meshes(s);
        keep_promising(s, first);
        first = s->found.n;
    }
    if (searches & BY_AXIS) {
        const Pricing *pricing = s->pricing;
        s->least = least;
        s->pricing = s->as_is;
        solve_by_axis_within(s, most);
        s->pricing = pricing;
        keep_promising(s, first);
    }
    s->least = 0;
}

/* solve_between for each search and mesh that has found some from `first` on. */
static void solve_between_all(Search *s, int first, int64_t limit) {
    const int n = s->found.n;
    for (int k = first; k < n; k++) {
        bool again = false;
        for (int i = first; i < k; i++)
            again = again || is_like(&s->found.at[i], &s->found.at[k]);
        if (!again) solve_between(s, first, &s->found.at[k], limit);
    }
}

/* The least of the model's peaks with which the compiled solutions should fit without measures. */
static int64_t least_of_all_peaks(const Search *s, int64_t limit) {
    int64_t least = limit;
    for (int k = 0; k < s->found.n; k++) {
        const Found *found = &s->found.at[k];
        if (found->peak_bytes == 0 || !isfinite(found->cost.step_s) || bare_bytes(found) <= limit) continue;
        if (least_peak(found, limit) < least) least = least_peak(found, limit);
    }
    return least;
}

/* Where the limit costs time: compares strategies that hold less with measures on faster ones; for large nets by fewer searches. Returns the best of all. */
static int within_memory(Search *s, int best, int searches) {
    const int64_t limit = budget_limit(s->b);
    const int large = limit > 0 && best >= 0 ? fastest_too_large(s, best, limit) : -1, first = s->found.n;
    const bool many = !s->large;
    if (large < 0 || bare_seconds(&s->found.at[large]) >= most_of(s, INFINITY)) return best;
    const Found so_far = s->found.at[best];
    const bool none_fits = excess(s, &so_far) > 0;
    const Graph *g = &s->b->front.graph; /* stages are not cut yet: it is on the ranks of one */
    if (none_fits && least_bytes(g, g->nranks * settings_stages(&g->settings), s->b->options->machine) > limit) return best;
    s->worth = none_fits ? INFINITY : ABOUT * so_far.cost.step_s;
    s->behind = BEHIND_HALF;
    s->least = none_fits && many ? least_of_all_peaks(s, limit) : least_peak(&s->found.at[large], limit);
    s->most = none_fits ? 0 : WORTH * so_far.cost.step_s; /* keep_promising keeps nothing that takes as long */
    solve_less(s, many || searches == BY_AXIS ? searches : ON_MESHES, s->found.at[large].peak_bytes);
    forget_equal(s);
    best = best_compiled(s);
    if (!many || s->b->front.aim_bytes > 0) return best;
    solve_between_all(s, first, limit);
    forget_equal(s);
    return best_compiled(s);
}

/* ---- the pass */

/* The least bound of the meshes that dynamic_programming tried; 0: there is none. */
static double least_bound(const Search *s) {
    double bound = INFINITY;
    for (int k = 0; k < s->found.n; k++)
        if (s->found.at[k].bound > 0 && s->found.at[k].bound < bound) bound = s->found.at[k].bound;
    return isfinite(bound) ? bound : 0;
}

/* The bound of the model that the best is a plan of: in it, as its measures or machines say, all traffic of parameters runs behind kernels, many conversions run as one, or ranks share the updates of small parameters too. */
static double bound_of(Search *s, int best, double bound) {
    const int n = s->found.n, nmeshes = s->nmeshes;
    const Measures *measures = &s->found.at[best].measures;
    Settings *settings = &s->b->front.graph.settings;
    const bool hides = options_machine(s->b->options)->overlap > 0 && measures_hide(settings, measures),
               small = measures_share_small(measures);
    const bool joined = s->pricing != s->as_is; /* of with_joined */
    const int64_t shard_bytes = settings->shard_bytes;
    if (bound == 0 || (!hides && !joined && !small)) return bound;
    double least = INFINITY;
    if (small) settings->shard_bytes = 0;
    s->behind = hides ? BEHIND_ALL : BEHIND_HALF;
    s->most = WORTH * s->found.at[best].cost.step_s;
    solve_on_meshes(s);
    for (int k = n; k < s->found.n; k++)
        least = fmin(least, s->found.at[k].bound);
    settings->shard_bytes = shard_bytes;
    s->found.n = n;
    s->nmeshes = nmeshes;
    return isfinite(least) ? least : 0;
}

static void finish(Search *s, int best, double bound) {
    Build *b = s->b;
    const bool piped =
        b->front.graph.settings.stages > 1; /* the bound is of a net on the ranks of one stage, with all batches one after another */
    bound = piped ? 0 : bound_of(s, best, bound);
    const Found *found = &s->found.at[best];
    SearchResult *result = arena_alloc(b->arena, sizeof *result);
    *result = (SearchResult){.how = found->how,
                             .seconds = found->cost.step_s > 0 ? found->cost.step_s : found->seconds,
                             .of_model = found->cost.step_s == 0,
                             .bound = bound,
                             .mesh = found->mesh,
                             .nmeshes = s->nmeshes,
                             .nchanges = found->nchanges,
                             .ntried = s->found.n,
                             .ncompiled = taken_compiled(s),
                             .work = s->work,
                             .nmoves = moves_planned(s->pricing->moves)};
    taken_apply(b, &found->chosen, result, &found->measures);
    taken_note(s, found);
}

/* Adds the solutions of the searches, of meshes those that may be worth it. Axis by axis is first: it is fast, and tells which conversions the others need not look at. */
static void solutions(Search *s, double *bound) {
    const int nodes = s->b->front.graph.nodes.n + 1;
    const bool many = COMPILED_NODES / nodes >= 3 + MAX_TRIED;
    const int room = many ? MAX_TRIED : 1;
    solve_by_axes(s);
    Found by_axes = take_last(s, 0);
    solve_on_meshes(s);
    qsort(s->found.at, (size_t)s->found.n, sizeof *s->found.at, found_compare);
    *bound = least_bound(s);
    while (s->found.n > 1 && (s->found.n > room || s->found.at[s->found.n - 1].seconds > WORTH * s->found.at[0].seconds))
        s->found.n--;
    const int n = s->found.n;
    if (by_axes.how != NULL) vec_push(&s->arena, &s->found, by_axes);
    if (!many) return;
    solve_with_pairs(s, COMPILED_NODES / nodes >= EACH);
    if (n == 0) return;
    s->behind = 0;
    const int before = s->found.n;
    solve_by_axis(s, 0);
    by_axes = take_last(s, before);
    solve_on(s, &s->found.at[0].mesh, NULL);
    if (by_axes.how != NULL) vec_push(&s->arena, &s->found, by_axes);
    solve_with_pairs(s, false);
}

/* Adds propagate's strategies, the batch split, the solutions on the best meshes and axis by axis, and the best of these where all traffic of parameters counts, which sends less. */
static void all_solutions(Search *s, double *bound) {
    solutions(s, bound);
    vec_push(&s->arena, &s->found, ((Found){.how = "sharding_propagation"}));
    batch_splits(s);
    forget_equal(s);
}

static const BuildCost *best_of_all(Search *s) {
    double bound;
    s->faster = true;
    all_solutions(s, &bound);
    int best = within_memory(s, with_demands(s, with_joined(s, best_compiled(s))), ON_MESHES | BY_AXIS);
    if (best < 0) return NULL;
    const int usual = best, other = settle(s, best);
    best = improve(s, usual);
    if (other != usual && improves_twice(s)) improve(s, other);
    best = settle(s, best);
    trim_found(&s->found.at[best]);
    finish(s, best, bound);
    return &s->found.at[best].cost;
}

/* Adds measures to the strategies that the net has, where a limit asks for them. Returns what it then costs; NULL: that is not known; asked: it should be. */
static const BuildCost *fit_present(Search *s, bool asked) {
    if (budget_limit(s->b) == 0 && !asked) return NULL;
    vec_push(&s->arena, &s->found, ((Found){0}));
    Found *present = &s->found.at[s->found.n - 1];
    compile_found(s, present);
    fit_found(s, present, INFINITY);
    trim_found(present);
    taken_apply(s->b, &present->chosen, NULL, &present->measures);
    taken_note(s, present);
    return &present->cost;
}

bool search_quickly(Build *b, bool several, BuildCost *cost) {
    Search s = {.b = b, .behind = BEHIND_HALF, .faster = several};
    double bound;
    search_open(&s);
    if (several)
        all_solutions(&s, &bound);
    else
        solve_by_axis(&s, 0);
    const int best = best_compiled(&s);
    if (best >= 0) *cost = s.found.at[best].cost;
    search_close(&s);
    return best >= 0;
}

/* Takes the best solution of a search; where there is a limit, compared with what holds less. NULL: it is not compiled. */
static const BuildCost *best_of_search(Search *s, int best, int searches) {
    const double bound = least_bound(s);
    if (budget_limit(s->b) > 0) {
        s->found.at[0] = s->found.at[best];
        s->found.n = 1;
        best = within_memory(s, best_compiled(s), searches);
        if (best < 0) return NULL;
        best = settle(s, best);
        trim_found(&s->found.at[best]);
    }
    finish(s, best, bound);
    return s->found.at[best].cost.step_s > 0 ? &s->found.at[best].cost : NULL;
}

/* Takes the best of the model on any mesh. NULL: it is not compiled. */
static const BuildCost *best_on_a_mesh(Search *s) {
    solve_on_meshes(s);
    return s->found.n == 0 ? NULL : best_of_search(s, best_of_model(s), ON_MESHES);
}

/* Searches as the setting says. Returns what the plan costs; NULL: that is not known; asked: it should be. */
static const BuildCost *search_any(Search *s, bool asked) {
    const char *search = s->b->front.graph.settings.search;
    if (!searches(s->b)) return fit_present(s, asked);
    if (strcmp(search, "auto") == 0) return best_of_all(s);
    if (strcmp(search, "dynamic_programming") == 0) {
        const BuildCost *cost = best_on_a_mesh(s);
        return cost != NULL ? cost : fit_present(s, asked);
    }
    solve_by_axes(s);
    const BuildCost *cost = s->found.n > 0 ? best_of_search(s, 0, BY_AXIS) : NULL;
    return cost != NULL ? cost : fit_present(s, asked);
}

/* What the earlier decision costs with the present batches and stages. NULL: it is not compiled. */
static const BuildCost *cost_of_decided(Search *s) {
    BuildCost *cost = arena_alloc(&s->arena, sizeof *cost);
    Error ignored;
    return build_try(with_layouts(s, &(Found){0}), NULL, NULL, cost, &ignored) ? cost : NULL;
}

bool pass_search(Build *b) {
    if (b->follows != NULL) return true;
    const bool asked = hinted_asks(b), decided = b->front.decision != NULL;
    if (decided && !asked) return taken_again(b);
    Search s = {.b = b, .behind = BEHIND_HALF};
    Build before = *b;
    search_open(&s);
    if (asked) graph_fork(&before.front.graph, &b->front.graph, &s.arena);
    const bool done = !decided || taken_again(b);
    const BuildCost *cost = !done ? NULL : decided ? cost_of_decided(&s) : search_any(&s, asked);
    if (asked && cost != NULL && isfinite(cost->step_s)) warn_hinted(&before, cost);
    search_close(&s);
    return done;
}
