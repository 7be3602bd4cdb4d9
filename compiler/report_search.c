/* What other strategies of each operator would cost in the model of the search (search/model.h), on the mesh that it took, with all other operators as they are: the search weighs
 * whole nets, so it does not know what it passed over for a single operator. Operators that are free at once are not neighbours, and all others are fixed: a table of conversions
 * is then over the choices of one operator, not over pairs of choices. */
#include <math.h>
#include <string.h>

#include "compiler/report.h"
#include "search/model.h"

enum {
    MAX_WEIGHED = 4,
    MESH_AXES = 2,
    MOST_MESH_AXES = 3
};                /* on up to MESH_AXES all strategies are weighed, on more those that differ in one axis */
#define WORTH 4.0 /* conversions with which a step would take so many times as long need not be timed exactly */

/* A sum of seconds, some of them infinite. */
typedef struct Sum {
    double finite;
    int infinite;
} Sum;

typedef struct Weighing {
    Model model;
    Sum **sum;       /* per free variable and choice of it: what it costs with all that was taken */
    int *choice;     /* per variable: the choice taken; -1: it is free, as layouts that several operators share are */
    int *first, *at; /* per variable: its edges, at[first[v]] .. at[first[v + 1] - 1] */
} Weighing;

/* The alternatives of a node of front.chosen, in the order of the time that they add to a step. */
typedef struct Weighed {
    int count, n; /* strategies on the mesh; of them in best. 0: the node was not weighed */
    const Strategy *best[MAX_WEIGHED];
    double seconds[MAX_WEIGHED];
} Weighed;

static bool same_strategy(const Strategy *a, const Strategy *b) {
    return a->nfactors == b->nfactors && memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->digit, b->digit, a->start[a->nfactors] * sizeof *a->digit) == 0;
}

static int choice_of(const Graph *g, const Chooser *chooser) {
    if (chooser->node < 0) return -1;
    const Strategy *taken = g->nodes.at[chooser->node].strategy;
    for (int k = 0; taken != NULL && k < chooser->class->n; k++)
        if (same_strategy(&chooser->class->strategy[k], taken)) return k;
    return -1;
}

static void find_edges(Weighing *w, Arena *arena) {
    const Problem *problem = &w->model.problem;
    const size_t n = (size_t)problem->variables.n;
    w->first = arena_alloc(arena, (n + 2) * sizeof *w->first);
    w->at = arena_alloc(arena, (2 * (size_t)problem->edges.n + 1) * sizeof *w->at);
    for (int e = 0; e < problem->edges.n; e++)
        w->first[problem->edges.at[e].from + 1]++, w->first[problem->edges.at[e].to + 1]++;
    for (size_t v = 0; v < n; v++)
        w->first[v + 1] += w->first[v];
    int *next = arena_alloc(arena, (n + 1) * sizeof *next);
    memcpy(next, w->first, n * sizeof *next);
    for (int e = 0; e < problem->edges.n; e++) {
        w->at[next[problem->edges.at[e].from]++] = e;
        w->at[next[problem->edges.at[e].to]++] = e;
    }
}

/* The seconds of an edge if variable v takes choice k and the other one j. */
static double edge_seconds(const Edge *edge, int v, int k, int j) {
    const int row = edge->from == v ? k : j, column = edge->from == v ? j : k;
    return edge->table->at[row * edge->table->ncolumns + column];
}

static int other_end(const Edge *edge, int v) {
    return edge->from == v ? edge->to : edge->from;
}

static void sum_add(Sum *sum, double seconds, int sign) {
    if (isfinite(seconds))
        sum->finite += sign * seconds;
    else
        sum->infinite += sign;
}

static void find_sums(Weighing *w, Arena *arena) {
    const Problem *problem = &w->model.problem;
    w->sum = arena_alloc(arena, ((size_t)problem->variables.n + 1) * sizeof *w->sum);
    for (int v = 0; v < problem->variables.n; v++) {
        const Variable *variable = &problem->variables.at[v];
        if (w->choice[v] >= 0) continue;
        w->sum[v] = arena_alloc(arena, (size_t)variable->nchoices * sizeof **w->sum);
        for (int j = 0; j < variable->nchoices; j++) {
            sum_add(&w->sum[v][j], variable->cost[j], 1);
            for (int i = w->first[v]; i < w->first[v + 1]; i++) {
                const Edge *edge = &problem->edges.at[w->at[i]];
                const int taken = w->choice[other_end(edge, v)];
                if (taken >= 0) sum_add(&w->sum[v][j], edge_seconds(edge, v, j, taken), 1);
            }
        }
    }
}

/* The least that a free variable costs if v takes choice k. */
static double free_seconds(const Weighing *w, int free, int v, int k) {
    const Variable *variable = &w->model.problem.variables.at[free];
    double least = INFINITY;
    for (int j = 0; j < variable->nchoices; j++) {
        Sum sum = w->sum[free][j];
        for (int i = w->first[v]; i < w->first[v + 1]; i++) {
            const Edge *edge = &w->model.problem.edges.at[w->at[i]];
            if (other_end(edge, v) != free) continue;
            sum_add(&sum, edge_seconds(edge, v, w->choice[v], j), -1);
            sum_add(&sum, edge_seconds(edge, v, k, j), 1);
        }
        if (sum.infinite == 0) least = fmin(least, sum.finite);
    }
    return least;
}

/* The seconds of a step, as far as they depend on v, if v takes choice k. */
static double seconds_with(const Weighing *w, int v, int k) {
    double seconds = w->model.problem.variables.at[v].cost[k];
    for (int i = w->first[v]; i < w->first[v + 1]; i++) {
        const Edge *edge = &w->model.problem.edges.at[w->at[i]];
        const int other = other_end(edge, v);
        bool counted = false; /* of two edges between two variables the first counts a free one */
        for (int before = w->first[v]; before < i && !counted; before++)
            counted = other_end(&w->model.problem.edges.at[w->at[before]], v) == other;
        if (w->choice[other] >= 0)
            seconds += edge_seconds(edge, v, k, w->choice[other]);
        else if (!counted)
            seconds += free_seconds(w, other, v, k);
    }
    return seconds;
}

static void weigh(const Weighing *w, int v, Weighed *weighed) {
    const NodeClass *class = w->model.choosers.at[v].class;
    const double taken = seconds_with(w, v, w->choice[v]);
    *weighed = (Weighed){.count = class->n, .n = 1, .best = {&class->strategy[w->choice[v]]}};
    for (int k = 0; k < class->n; k++) {
        const double more = k == w->choice[v] ? INFINITY : seconds_with(w, v, k) - taken;
        int at = weighed->n;
        if (!isfinite(more)) continue;
        while (at > 1 && more < weighed->seconds[at - 1])
            at--;
        if (at == MAX_WEIGHED) continue;
        if (weighed->n < MAX_WEIGHED) weighed->n++;
        for (int i = weighed->n - 1; i > at; i--)
            weighed->best[i] = weighed->best[i - 1], weighed->seconds[i] = weighed->seconds[i - 1];
        weighed->best[at] = &class->strategy[k], weighed->seconds[at] = more;
    }
}

/* ---------------------------------------------------------------- which are free at once */

static bool was_searched(const Build *b, int node) {
    const Node *at = &b->front.chosen.nodes.at[node];
    return at->strategy != NULL && !node_is_leaf(at) && b->front.propagation.decision[node].by_search;
}

/* Fills in, per node of front.chosen, the round in which it is free, -1: none; no two nodes of a round are neighbours. Returns the number
 * of rounds. */
static int find_rounds(const Build *b, int *round, Arena *arena) {
    const Graph *g = &b->front.chosen;
    int *taken = arena_alloc(arena, ((size_t)g->nodes.n + 1) * sizeof *taken),
        nrounds = 0; /* per round: the last node that has a neighbour in it */
    memset(taken, -1, ((size_t)g->nodes.n + 1) * sizeof *taken);
    for (int n = 0; n < g->nodes.n; n++) {
        round[n] = -1;
        if (n >= g->nforward || !was_searched(b, n)) continue;
        for (int i = 0; i < g->nodes.at[n].nin; i++) {
            const int maker = g->values.at[g->nodes.at[n].in[i]].node;
            if (round[maker] >= 0) taken[round[maker]] = n;
        }
        round[n] = 0;
        while (taken[round[n]] == n)
            round[n]++;
        nrounds = round[n] >= nrounds ? round[n] + 1 : nrounds;
    }
    return nrounds;
}

/* The graph in which only the nodes of a round are free. */
static Graph fixed_graph(const Graph *g, const int *round, int free, Arena *arena) {
    Graph fixed = *g;
    fixed.nodes.at = arena_alloc(arena, (size_t)g->nodes.n * sizeof *g->nodes.at);
    memcpy(fixed.nodes.at, g->nodes.at, (size_t)g->nodes.n * sizeof *g->nodes.at);
    for (int n = 0; n < g->nforward; n++)
        if (round[n] != free && fixed.nodes.at[n].strategy != NULL) fixed.nodes.at[n].from = STRATEGY_USER;
    return fixed;
}

static void weigh_round(const Build *b, const int *round, int free, Moves *moves, Weighed *weighed, Arena *arena) {
    const SearchResult *found = b->front.search;
    const Graph graph = fixed_graph(&b->front.chosen, round, free, arena);
    Weighing w = {0};
    model_init(&w.model,
               &(ModelInput){.graph = &graph,
                             .out_layout = b->front.propagation.out_layout,
                             .machine = b->options->machine,
                             .mesh = found->mesh,
                             .near = found->mesh.naxes > MESH_AXES,
                             .moves = moves,
                             .batches = b->front.batches,
                             .most = WORTH * found->seconds},
               arena);
    const int n = w.model.problem.variables.n;
    w.choice = arena_alloc(arena, ((size_t)n + 1) * sizeof *w.choice);
    for (int v = 0; v < n; v++)
        w.choice[v] = choice_of(&graph, &w.model.choosers.at[v]);
    find_edges(&w, arena);
    find_sums(&w, arena);
    for (int v = 0; v < n; v++) {
        const int node = w.model.choosers.at[v].node;
        if (w.choice[v] >= 0 && round[node] == free) weigh(&w, v, &weighed[node]);
    }
}

/* ---------------------------------------------------------------- the data */

static void add_weighed(ColumnTable *columns, const Weighed *weighed, int chosen, int node, StrategyNumber *strategy_number,
                        void *context) {
    columns_int(columns, node);
    columns_int(columns, weighed->count);
    columns_list(columns);
    for (int i = 0; i < weighed->n; i++)
        columns_member(columns, strategy_number(context, chosen, weighed->best[i]));
    columns_list(columns);
    for (int i = 0; i < weighed->n; i++)
        columns_member(columns, nanoseconds(weighed->seconds[i]));
}

void report_weighed(PlanData *data, const Build *b, const int *node_of, StrategyNumber *strategy_number, void *context) {
    const SearchResult *found = b->front.search;
    const Graph *g = &b->front.chosen;
    ColumnTable columns;
    Arena arena;
    columns_init(&columns, "node strategies alternatives* ns*");
    arena_init(&arena);
    if (found != NULL && found->mesh.naxes > 0 && found->mesh.naxes <= MOST_MESH_AXES && b->follows == NULL) {
        int *round = arena_alloc(&arena, ((size_t)g->nodes.n + 1) * sizeof *round);
        Weighed *weighed = arena_alloc(&arena, ((size_t)g->nodes.n + 1) * sizeof *weighed);
        Moves *moves = moves_create(&arena, b->options->machine, g->nranks);
        const int nrounds = find_rounds(b, round, &arena);
        for (int free = 0; free < nrounds; free++)
            weigh_round(b, round, free, moves, weighed, &arena);
        for (int n = 0; n < g->nforward; n++)
            if (weighed[n].n > 0) add_weighed(&columns, &weighed[n], n, node_of[n], strategy_number, context);
    }
    columns_write(&data->json, "weighed", &columns);
    arena_finish(&arena);
}
